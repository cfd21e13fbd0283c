//! Peers, as package registries give them, in a folder of their own. There are Python packages by a lock with hashes,
//! Hadoop's jars by Maven, Debian's packages unpacked, and a Go module built. Nothing is installed on the machine. Each
//! client checks what it fetches by its registry's hashes. A step that fails says why.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The folder of all peers.
pub(crate) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Peers are installed below `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder })
    }

    /// A Python environment with the packages of `bench/peers/LOCK.txt`: its `bin` folder.
    pub(crate) fn python(&self, lock: &str) -> Result<PathBuf, String> {
        let (environment, list) = (self.folder.join(format!("python-{lock}")), peers().join(format!("{lock}.txt")));
        self.once(&environment, &list, || {
            run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
            let mut pip = Command::new(environment.join("bin/python"));
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]);
            // Spark comes as a source package, of jars and scripts.
            pip.args(["--no-binary", "pyspark"]);
            run(pip.args(["--require-hashes", "--requirement"]).arg(&list))
        })?;
        Ok(environment.join("bin"))
    }

    /// The version of a package in such an environment.
    pub(crate) fn python_version(&self, programs: &Path, package: &str) -> String {
        let code = format!("import importlib.metadata as m; print(m.version('{package}'))");
        says(Command::new(programs.join("python")).args(["-c", &code]))
    }

    /// Hadoop's jars and our classes for it, as a class path.
    pub(crate) fn hadoop(&self) -> Result<OsString, String> {
        let (folder, sources) = (self.folder.join("hadoop"), peers().join("hadoop"));
        let jars = folder.join("jars");
        self.once(&folder, &sources.join("pom.xml"), || {
            let mut maven = Command::new("mvn");
            // Strict: a file whose checksum is not the registry's ends it.
            maven.args(["--quiet", "--batch-mode", "--strict-checksums", "dependency:copy-dependencies", "--file"]);
            maven.arg(sources.join("pom.xml")).arg(with("-DoutputDirectory=", &jars));
            run(maven.arg(with("-Dmaven.repo.local=", &self.folder.join("maven"))))
        })?;
        let path = jars.join("*");
        let classes = self.java(
            &["hadoop/MiniCluster.java", "hadoop/MalStone.java", "hadoop/HdfsClient.java"],
            &path,
            "hadoop-classes",
        )?;
        env::join_paths([jar_of(&classes), path]).map_err(|error| error.to_string())
    }

    /// A jar of these sources of `bench/peers`, compiled against what `class_path` has.
    pub(crate) fn java(&self, sources: &[&str], class_path: &Path, name: &str) -> Result<PathBuf, String> {
        let classes = self.folder.join(name);
        let _ = fs::remove_dir_all(&classes);
        let sources = sources.iter().map(|source| peers().join(source));
        run(Command::new("javac").arg("-d").arg(&classes).arg("-cp").arg(class_path).args(sources))?;
        run(Command::new("jar").arg("cf").arg(jar_of(&classes)).arg("-C").arg(&classes).arg("."))?;
        Ok(classes)
    }

    /// The programs and libraries of Debian's packages that this machine lacks, unpacked as below `/`.
    pub(crate) fn debian(&self, packages: &[&str]) -> Result<PathBuf, String> {
        let folder = self.folder.join(format!("debian-{}", packages.join("-")));
        let archives = folder.join("archives");
        let list = self.folder.join("packages");
        fs::write(&list, packages.join("\n")).map_err(|error| error.to_string())?;
        self.once(&folder, &list, || {
            fs::create_dir_all(archives.join("partial")).map_err(|error| error.to_string())?;
            run(Command::new("apt-get").args(["update", "--quiet"]))?;
            let mut fetch = Command::new("apt-get");
            fetch.args([
                "install",
                "--yes",
                "--quiet",
                "--download-only",
                "--no-install-recommends",
                "--reinstall",
                "-o",
            ]);
            run(fetch.arg(with("Dir::Cache::archives=", &archives)).args(packages))?;
            for item in fs::read_dir(&archives).map_err(|error| error.to_string())?.flatten() {
                if item.path().extension().is_some_and(|ending| ending == "deb") {
                    run(Command::new("dpkg").arg("-x").arg(item.path()).arg(folder.join("root")))?;
                }
            }
            Ok(())
        })?;
        Ok(folder.join("root"))
    }

    /// The program that a Go module builds.
    pub(crate) fn go(&self, module: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join("go");
        let (path, _) = module.split_once('@').ok_or("a module without a version")?;
        let program = folder.join("bin").join(path.rsplit('/').next().unwrap_or(path));
        let list = self.folder.join("module");
        fs::write(&list, module).map_err(|error| error.to_string())?;
        self.once(&folder, &list, || {
            let mut build = Command::new("go");
            build.args(["install", module]).env("GOBIN", folder.join("bin"));
            build.env("GOMODCACHE", self.folder.join("go-modules")).env("GOFLAGS", "-modcacherw");
            run(&mut build)
        })?;
        Ok(program)
    }

    /// Runs `install` unless it has succeeded for this list before. What is in the folder is removed first.
    fn once(&self, folder: &Path, list: &Path, install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let stamp = folder.join("installed");
        let wanted = fs::read(list).map_err(|error| format!("{}: {error}", list.display()))?;
        if fs::read(&stamp).is_ok_and(|found| found == wanted) {
            return Ok(());
        }
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        println!("installing into {}", folder.display());
        install()?;
        fs::create_dir_all(folder).and_then(|()| fs::write(&stamp, wanted)).map_err(|error| error.to_string())
    }
}

/// The jar beside a folder of classes.
pub(crate) fn jar_of(classes: &Path) -> PathBuf {
    classes.with_extension("jar")
}

/// Where the peers' programs and locks lie.
pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// An option with a path behind it.
pub(crate) fn with(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

/// Runs a peer's command to its end; its last words are the error.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let name = name.rsplit('/').next().unwrap_or(&name).to_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Err(format!("{name} failed ({}): {}", output.status, last_words(&said)))
}

/// What a command prints, or why it does not.
pub(crate) fn says(command: &mut Command) -> String {
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "of unknown version".into(),
    }
}

/// The last line that names an error, or else the last one.
fn last_words(said: &str) -> String {
    let lines = || said.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let error =
        lines().take(LAST_LINES).find(|line| line.to_lowercase().contains("error") || line.contains("Exception"));
    error.or_else(|| lines().next()).unwrap_or("it said nothing").to_owned()
}

/// How far back an error is looked for.
const LAST_LINES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_its_last_error() {
        let failed = |script: &str| run(Command::new("sh").args(["-c", script])).expect_err("it fails");
        let reason = failed("echo begun; echo 'ERROR: no such wheel' >&2; echo '  see above' >&2; exit 3");
        assert_eq!(reason, "sh failed (exit status: 3): ERROR: no such wheel");
        assert!(failed("exit 4").ends_with("it said nothing"));
        assert!(run(&mut Command::new("/no/such/program")).expect_err("it fails").starts_with("cannot run program"));
    }

    #[test]
    fn what_was_installed_is_kept_until_the_list_changes() {
        let folder = env::temp_dir().join(format!("bench-install-{}", std::process::id()));
        let tools = Tools::new(&folder).expect("a folder");
        let (list, at) = (folder.join("list"), folder.join("peer"));
        let count = std::cell::Cell::new(0);
        let once = |works: bool| {
            tools.once(&at, &list, || {
                count.set(count.get() + 1);
                if works { Ok(()) } else { Err("refused".into()) }
            })
        };
        fs::write(&list, "1").expect("written");
        assert_eq!((once(false), count.get()), (Err("refused".into()), 1));
        assert_eq!((once(true), count.get()), (Ok(()), 2));
        assert_eq!((once(true), count.get()), (Ok(()), 2));
        fs::write(&list, "2").expect("written");
        assert_eq!((once(true), count.get()), (Ok(()), 3));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
