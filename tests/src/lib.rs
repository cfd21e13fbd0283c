//! A cloud of real processes for a test. It starts on free ports in a folder of its own; it is stopped and removed at
//! the end, even if the test fails. Tests use it as a person does: through the command line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

mod disk;
mod network;
mod port;
mod roles;
mod testbed;

use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

pub use disk::SmallDisk;
pub use network::Network;
pub use port::free_port;
pub use roles::{HOME, MASTER, Roles, SECURITY};
pub use testbed::CliTestbed;

/// A running cloud with a home of its own.
pub struct Cloud {
    /// `$SECTOR_HOME` of the cloud; its data lie below.
    pub home: PathBuf,
    data: PathBuf,
    arguments: Vec<String>,
    /// The words before every command that get it to where clients are.
    prefix: Vec<String>,
    // Removed when the cloud is.
    _folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub struct Ended {
    /// The exit code, -1 for a signal.
    pub code: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub errors: String,
}

impl Cloud {
    /// Starts a cloud in one process.
    pub fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        Self::start_in(folder, data, arguments)
    }

    /// Starts a cloud on a data folder that the test has prepared.
    pub fn start_in(folder: TempDir, data: PathBuf, arguments: &[&str]) -> Self {
        let home = folder.path().join("home");
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let cloud = Self { home, data, arguments, prefix: Vec::new(), _folder: folder };
        cloud.up();
        cloud
    }

    /// Makes the folders and credentials of a cloud whose roles are started elsewhere; commands run behind `prefix`.
    fn prepared(nodes: u32, sites: u32, prefix: Vec<String>) -> Self {
        let mut cloud = Self::start(&["--nodes", &nodes.to_string(), "--sites", &sites.to_string()]);
        cloud.down();
        cloud.prefix = prefix;
        cloud
    }

    /// Where it keeps everything.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Has it keep everything elsewhere from its next start on.
    pub fn use_data(&mut self, data: PathBuf) {
        self.data = data;
    }

    /// Starts it (again) on the same data.
    pub fn up(&self) {
        let ended = self.try_up();
        assert_eq!(ended.code, 0, "sector up: {}", ended.errors);
        assert!(ended.text().contains("ready sector://127.0.0.1:"), "{}", ended.text());
    }

    /// Starts it and returns how that ended.
    pub fn try_up(&self) -> Ended {
        self.try_up_with(&[])
    }

    /// As [`try_up`](Self::try_up), with further environment variables.
    pub fn try_up_with(&self, variables: &[(&str, &Path)]) -> Ended {
        let mut words = vec!["up", "--detach", "--port", "0", "--data", self.data.to_str().unwrap()];
        words.extend(self.arguments.iter().map(String::as_str));
        ended(self.command(&words).envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap())
    }

    /// Stops it.
    pub fn down(&self) {
        self.ok(&["down"]);
    }

    /// Runs a command and returns how it ended.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs a command that must succeed; returns its standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, 0, "sector {arguments:?}: {}", ended.errors);
        ended.text()
    }

    /// Runs a command that must fail with `code`; returns its standard error, which must be one sentence.
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, code, "sector {arguments:?}: {}{}", ended.text(), ended.errors);
        assert!(!ended.errors.contains("panicked"), "{}", ended.errors);
        ended.errors
    }

    /// Runs a command with `--json` that must succeed; returns its document.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut words = arguments.to_vec();
        words.push("--json");
        serde_json::from_str(&self.ok(&words)).expect("one JSON document")
    }

    /// A command, not yet run.
    pub fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let words: Vec<_> = self.prefix.iter().map(Into::into).chain([program().into_os_string()]).collect();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(arguments)
            .env("SECTOR_HOME", &self.home)
            .env_remove("SECTOR_PROFILE")
            .current_dir(self.folder());
        command
    }

    /// A folder for the test's own files.
    pub fn folder(&self) -> &Path {
        self.home.parent().unwrap()
    }

    /// Writes a file of seeded random bytes.
    pub fn random_file(&self, name: &str, bytes: usize) -> PathBuf {
        let file = self.folder().join(name);
        fs::write(&file, random_bytes(bytes)).unwrap();
        file
    }

    /// Writes a file with these bytes.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let file = self.folder().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, bytes).unwrap();
        file
    }

    /// Compiles C text to a library of functions in the test's folder.
    pub fn compile(&self, name: &str, source: &str) -> PathBuf {
        let (file, library) = (self.file(&format!("{name}.c"), source), self.folder().join(format!("{name}.so")));
        let include = workspace().join("crates/udf/include");
        let mut command = Command::new("cc");
        command.args(["-std=c11", "-O2", "-shared", "-fPIC", "-I"]).arg(include).arg("-o").arg(&library).arg(&file);
        assert!(command.status().unwrap().success());
        library
    }

    /// Repeats `question` until it is true; fails the test after many answers. A command runs after each false
    /// answer, so that waiting needs no clock and the cloud has time to act.
    pub fn until(&self, what: &str, mut question: impl FnMut(&Self) -> bool) {
        let asked = |_| question(self) || self.run(&["nodes"]).code < 0;
        assert!((0..QUESTIONS_MAX).any(asked), "it never came true that {what}");
    }

    /// The nodes that hold a good copy of a file.
    pub fn good_copies(&self, path: &str) -> Vec<String> {
        let stat = self.json(&["stat", path]);
        let copies = stat["copies"].as_array().unwrap();
        copies
            .iter()
            .filter(|copy| copy["state"] == "ok")
            .map(|copy| copy["node"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The data folder of a node.
    pub fn node_folder(&self, node: &str) -> PathBuf {
        PathBuf::from(self.node(node)["data"].as_str().unwrap())
    }

    /// The process of a node.
    pub fn node_pid(&self, node: &str) -> u32 {
        u32::try_from(self.node(node)["pid"].as_u64().unwrap()).unwrap()
    }

    fn node(&self, node: &str) -> Value {
        let nodes = self.json(&["nodes"]);
        nodes.as_array().unwrap().iter().find(|item| item["id"] == node).expect("a node of the cloud").clone()
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.command(&["down"]).output();
    }
}

impl Ended {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

/// Checks again and again until something is there; fails the test after a while. It is for states that last only a
/// moment and are cheap to check; for all others there is [`Cloud::until`].
pub fn poll_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < WATCH_MAX, "it never came true that {what}");
        std::thread::yield_now();
    }
}

/// Kills a process at once, as a power cut would.
pub fn kill(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(status.success(), "the fault must have fired: process {pid} was there");
}

/// Processes below a process, parents before their children.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        for task in fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found.split_off(1)
}

/// Seeded random bytes: the same for the same length.
pub fn random_bytes(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(bytes as u64);
    let mut buffer = vec![0; bytes];
    random.fill(&mut buffer);
    buffer
}

/// How a finished command ended.
pub fn ended(output: Output) -> Ended {
    Ended {
        code: output.status.code().unwrap_or(-1),
        out: output.stdout,
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// The binary under test: `$SECTOR`, else the release build.
pub fn program() -> PathBuf {
    let program = env::var_os("SECTOR").map_or_else(|| workspace().join("target/release/sector"), PathBuf::from);
    assert!(
        program.exists(),
        "{} is not there: build it with `cargo build --release -p sector -p sector-oct`",
        program.display()
    );
    program
}

/// How long a momentary state is watched for.
const WATCH_MAX: Duration = Duration::from_secs(60);
/// A command takes about ten milliseconds: three minutes at least.
const QUESTIONS_MAX: usize = 20_000;
