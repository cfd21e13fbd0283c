//! The Python of this node: where it is, what belongs to it, and its version. The node asks the interpreter outside the
//! sandbox, since it is the operator's and runs no user code here. It serves the path *job*. Functions can read the
//! folders that it names, so these never lie above the node's own data.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use protocol::{Reason, Refusal};
use tokio::{process::Command, sync::OnceCell, time::timeout};

use super::sandbox_pool::Sandbox;
use crate::sandbox::LIBRARIES;

/// An interpreter that functions can be run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The executable, by a name that works in the sandbox.
    pub(super) executable: PathBuf,
    /// Its version, such as 3.11.
    version: (u32, u32),
    /// Files and folders that belong to it besides the system's libraries.
    pub(super) read_paths: Vec<PathBuf>,
    /// The folder of the packages that a job has brought, where it has.
    pub(super) environment: Option<PathBuf>,
}

impl Sandbox {
    /// Which Python this node's is: its version and its place. Packages are installed for just this one.
    ///
    /// # Errors
    /// `Unavailable` if this node has no Python, or none that is usable.
    pub async fn interpreter_name(&self) -> Result<String, Refusal> {
        let found = self.interpreter().await?;
        let (major, minor) = found.version;
        Ok(format!("{major}.{minor} {}", found.executable.display()))
    }

    /// This node's Python; the search is repeated until it succeeds once.
    pub(super) async fn interpreter(&self) -> Result<Arc<Interpreter>, Refusal> {
        let found = self.python.found.get_or_try_init(|| async {
            let asked = self.python.setting.clone().unwrap_or_else(|| DEFAULT.into());
            Interpreter::ask(&asked, &self.python.kept_folders).await.map(Arc::new)
        });
        found.await.cloned().map_err(|message| Refusal::new(Reason::Unavailable, message))
    }
}

/// What a node knows about its Python.
#[derive(Debug)]
pub(super) struct NodePython {
    /// The setting `spe_python`.
    setting: Option<PathBuf>,
    /// Folders that no function may see.
    kept_folders: Vec<PathBuf>,
    found: OnceCell<Arc<Interpreter>>,
}

impl NodePython {
    /// As the settings say; no function may see `kept_folders`.
    pub(super) fn new(setting: Option<PathBuf>, kept_folders: Vec<PathBuf>) -> Self {
        let kept_folders = kept_folders.into_iter().map(|folder| fs::canonicalize(&folder).unwrap_or(folder)).collect();
        Self { setting, kept_folders, found: OnceCell::new() }
    }
}

impl Interpreter {
    async fn ask(program: &Path, kept_folders: &[PathBuf]) -> Result<Self, String> {
        let name = program.display();
        let advice = "set `spe_python` of the node to a Python of 3.9 or newer";
        let mut command = Command::new(program);
        command.args(["-I", "-c", QUESTION]).stdin(Stdio::null()).kill_on_drop(true);
        let asked = timeout(ANSWER_TIME_MAX, command.output()).await;
        let answer = asked.map_err(|_| format!("`{name}` did not say which Python it is; {advice}"))?;
        let answer = answer.map_err(|error| format!("functions in Python need `{name}` here: {error}; {advice}"))?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| {
            let (major, minor) = line.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let version: (u32, u32) = version.ok_or_else(|| format!("`{name}` is no Python that works; {advice}"))?;
        if version < VERSION_MIN {
            return Err(format!("`{name}` is Python {}.{}, which is too old; {advice}", version.0, version.1));
        }
        let executable = lines.next().map(PathBuf::from).filter(|path| path.is_absolute());
        let executable = executable.ok_or_else(|| format!("`{name}` does not say where it is; {advice}"))?;
        let folders: Vec<_> = lines.map(PathBuf::from).collect();
        let found =
            Self::with(&executable, version, &folders).map_err(|error| format!("`{name}`: {error}; {advice}"))?;
        match found.read_paths.iter().find(|path| kept_folders.iter().any(|kept| kept.starts_with(path))) {
            Some(above) => Err(format!(
                "functions may not read `{}`, which belongs to `{name}`, since the node's own files lie in it; {advice}",
                above.display()
            )),
            None => Ok(found),
        }
    }

    /// The executable with every link on the way to it, and the folders that are not already readable for everyone.
    fn with(executable: &Path, version: (u32, u32), folders: &[PathBuf]) -> std::io::Result<Self> {
        let first = in_true_folder(executable)?;
        let mut paths = vec![first.clone()];
        let mut place = first.clone();
        for _ in 0..LINKS_MAX {
            let Ok(target) = fs::read_link(&place) else { break };
            let Some(folder) = place.parent() else { break };
            place = in_true_folder(&folder.join(target))?;
            paths.push(place.clone());
        }
        for folder in folders.iter().filter(|folder| folder.is_absolute() && folder.exists()) {
            paths.push(folder.clone());
            paths.push(fs::canonicalize(folder)?);
        }
        let mut kept = BTreeSet::new();
        // In sorted order, a folder comes before its content.
        for path in paths.into_iter().collect::<BTreeSet<_>>() {
            let is_there = LIBRARIES.iter().map(Path::new).chain(kept.iter().map(PathBuf::as_path));
            let is_there = is_there.into_iter().any(|there: &Path| path.starts_with(there));
            if !is_there && !TOO_WIDE.iter().any(|wide| path == Path::new(wide)) {
                kept.insert(path);
            }
        }
        Ok(Self { executable: first, version, read_paths: kept.into_iter().collect(), environment: None })
    }

    /// The same with the packages in this folder.
    pub(super) fn in_environment(&self, folder: &Path) -> Self {
        let mut with = self.clone();
        with.read_paths.push(folder.into());
        with.environment = Some(folder.into());
        with
    }
}

/// The path of a file with all links in its folder resolved; the file itself may be a link.
fn in_true_folder(file: &Path) -> std::io::Result<PathBuf> {
    let folder = fs::canonicalize(file.parent().unwrap_or(Path::new("/")))?;
    Ok(folder.join(file.file_name().map(OsString::from).unwrap_or_default()))
}

/// The program that is run if the settings name none.
const DEFAULT: &str = "python3";
/// The oldest Python that can take descriptors over a socket.
const VERSION_MIN: (u32, u32) = (3, 9);
/// How long an interpreter may take to answer: it may have to be read from a disk at rest.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);
/// Most links from a name to an executable, the same as in the kernel.
const LINKS_MAX: usize = 40;
/// Folders where a system's Python lies among much else: its libraries are readable anyway.
const TOO_WIDE: &[&str] = &["/", "/usr", "/usr/local", "/usr/bin", "/usr/local/bin", "/bin", "/home", "/root"];
/// Prints the version, the executable, and one folder a line.
const QUESTION: &str = "\
import sys
print('%d.%d' % sys.version_info[:2])
print(sys.executable)
for path in [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix] + sys.path:
    print(path)
";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_to_the_executable_is_readable_and_no_folder_twice() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for made in ["real/bin", "real/lib/site", "venv/bin"] {
            fs::create_dir_all(root.join(made)).unwrap();
        }
        fs::write(root.join("real/bin/python3.11"), "").unwrap();
        symlink("python3.11", root.join("real/bin/python3")).unwrap();
        symlink(root.join("real/bin/python3"), root.join("venv/bin/python")).unwrap();
        symlink("venv", root.join("environment")).unwrap();
        let folders = [root.join("venv/lib"), root.join("real/lib/site"), root.join("real/lib"), "/usr".into()];
        let found = Interpreter::with(&root.join("environment/bin/python"), (3, 11), &folders).unwrap();
        assert_eq!(found.executable, root.join("venv/bin/python"));
        let expected = ["real/bin/python3", "real/bin/python3.11", "real/lib", "venv/bin/python"];
        assert_eq!(found.read_paths, expected.map(|path| root.join(path)));
    }

    #[tokio::test]
    async fn what_is_no_python_and_one_above_the_nodes_data_are_refused_in_a_sentence() {
        let missing = Interpreter::ask(Path::new("/nonexistent/python"), &[]).await.unwrap_err();
        assert!(missing.contains("/nonexistent/python") && missing.contains("spe_python"), "{missing}");
        let other = Interpreter::ask(Path::new("/bin/echo"), &[]).await.unwrap_err();
        assert!(other.contains("no Python"), "{other}");
        let found = Interpreter::ask(Path::new(DEFAULT), &[]).await.unwrap();
        let Some(path) = found.read_paths.iter().find(|path| path.is_dir()) else { return };
        let above = Interpreter::ask(Path::new(DEFAULT), &[path.join("sector/node-1")]).await.unwrap_err();
        assert!(above.contains("the node's own files"), "{above}");
    }
}
