//! Hadoop as a peer: HDFS with three DataNodes, and YARN with two NodeManagers, in one process (`MiniCluster.java`). The
//! containers of jobs are processes of their own, as in a real cluster.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use crate::compare::{
    install::{Tools, run, says},
    service::Service,
};

/// A running cluster.
pub(crate) struct Hadoop {
    class_path: OsString,
    folder: PathBuf,
    _service: Service,
}

impl Hadoop {
    /// Starts it with its data below `folder`.
    pub(crate) fn start(tools: &Tools, folder: &Path) -> Result<Self, String> {
        let class_path = tools.hadoop()?;
        let folder = folder.join("hadoop");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let conf = folder.join("conf");
        let mut command = java(&class_path, &folder);
        command.args(["-Xmx2g", "MiniCluster"]).arg(&folder);
        let service = Service::start(&mut command, &folder.join("log"), || conf.exists())?;
        let class_path = env::join_paths([conf].into_iter().chain(env::split_paths(&class_path)));
        let class_path = class_path.map_err(|error| error.to_string())?;
        Ok(Self { class_path, folder, _service: service })
    }

    /// Runs a class with the cluster's configuration. Options are `-D` settings.
    pub(crate) fn run(&self, class: &str, options: &[&str], arguments: &[&str]) -> Result<(), String> {
        let mut command = java(&self.class_path, &self.folder);
        command.arg(class);
        for option in options {
            command.args(["-D", option]);
        }
        run(command.args(arguments))
    }

    /// A command of `hdfs dfs`.
    pub(crate) fn files(&self, arguments: &[&str]) -> Result<(), String> {
        self.run("org.apache.hadoop.fs.FsShell", &["dfs.replication=1"], arguments)
    }

    /// A client that stays.
    pub(crate) fn client(&self) -> Result<HdfsClient, String> {
        let mut command = java(&self.class_path, &self.folder);
        command.arg("HdfsClient").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| format!("cannot run java: {error}"))?;
        let (Some(to), Some(from)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the client has no pipes".into());
        };
        let mut from = BufReader::new(from);
        expect(&mut from, "> ready")?;
        Ok(HdfsClient { process, lines: Mutex::new((to, from)) })
    }

    /// The version of Hadoop and of Java.
    pub(crate) fn version(&self) -> String {
        let said = says(java(&self.class_path, &self.folder).arg("org.apache.hadoop.util.VersionInfo"));
        let version = said.lines().find_map(|line| line.strip_prefix("Hadoop ")).unwrap_or("of unknown version");
        format!("{version}, {}", java_version())
    }
}

/// A client process of HDFS.
pub(crate) struct HdfsClient {
    process: Child,
    lines: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl HdfsClient {
    /// `put LOCAL REMOTE`, `get LOCAL REMOTE` or `rm REMOTE`.
    pub(crate) fn ask(&self, line: &str) -> Result<(), String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(lines.0, "{line}").and_then(|()| lines.0.flush()).map_err(|error| error.to_string())?;
        expect(&mut lines.1, "> done")
    }
}

impl Drop for HdfsClient {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Java for Hadoop, which looks into what Java 17 keeps closed.
fn java(class_path: &OsStr, folder: &Path) -> Command {
    let mut command = Command::new("java");
    command.current_dir(folder).args(["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp"]).arg(class_path);
    command
}

/// Reads up to the client's next answer. Other lines are Hadoop's own log.
fn expect(from: &mut impl BufRead, answer: &str) -> Result<(), String> {
    for line in from.lines() {
        let line = line.map_err(|error| error.to_string())?;
        if line == answer {
            return Ok(());
        }
        if line.starts_with("> ") {
            return Err(line);
        }
    }
    Err("the client ended".into())
}

/// Which Java runs peers.
pub(crate) fn java_version() -> String {
    let said = says(Command::new("java").arg("--version"));
    let version = said.lines().next().and_then(|line| line.split(' ').nth(1)).unwrap_or("of unknown version");
    format!("Java {version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_behind_lines_of_a_log() {
        let mut said = "WARN no native library\n> done\nINFO\n> failed: no such file\n".as_bytes();
        assert_eq!(expect(&mut said, "> done"), Ok(()));
        assert_eq!(expect(&mut said, "> done"), Err("> failed: no such file".into()));
        assert_eq!(expect(&mut said, "> done"), Err("the client ended".into()));
    }
}
