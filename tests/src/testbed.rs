//! Sites and links for a test, through the command line as a person makes them (`sector oct testbed`). Needs root; gone at
//! the end, also when the test fails.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Ended, ended, program, random_bytes};

/// See the module.
pub struct CliTestbed {
    folder: TempDir,
}

impl CliTestbed {
    /// Starts one; `None`, with a line that says so, where that is not permitted.
    pub fn up(arguments: &[&str]) -> Option<Self> {
        let testbed = Self { folder: tempfile::tempdir().unwrap() };
        let mut words = vec!["oct", "testbed", "up", "--detach"];
        words.extend(arguments);
        let up = testbed.run(&words);
        if let 4 | 5 = up.code
            && (up.errors.contains("needs root") || up.errors.contains("/dev/net/tun"))
        {
            println!("SKIPPED: {}", up.errors.trim());
            return None;
        }
        assert_eq!(up.code, 0, "sector oct testbed up: {}", up.errors);
        Some(testbed)
    }

    /// A folder for the test's own files.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().into()
    }

    /// The folder of a role of its cloud, where no other was named for all of them.
    pub fn role_folder(&self, role: &str) -> PathBuf {
        self.folder.path().join("home/testbed/data").join(role)
    }

    /// What its cloud has said so far, for a test that fails.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("home/testbed/testbed.log")).unwrap_or_default()
    }

    /// Writes a file of seeded random bytes.
    pub fn random_file(&self, name: &str, bytes: usize) -> PathBuf {
        let file = self.folder.path().join(name);
        fs::write(&file, random_bytes(bytes)).unwrap();
        file
    }

    /// A command on this machine's own network, not yet run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .env("SECTOR_HOME", self.folder.path().join("home"))
            .env_remove("SECTOR_PROFILE")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// The same, at a site.
    pub fn command_at(&self, site: &str, arguments: &[&str]) -> Command {
        let program = program();
        let mut words = vec!["oct", "testbed", "run", site, program.to_str().unwrap()];
        words.extend(arguments);
        self.command(&words)
    }

    /// Runs a command and gives how it ended.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments).output().unwrap())
    }

    /// Runs a command at a site and gives how it ended.
    pub fn run_at(&self, site: &str, arguments: &[&str]) -> Ended {
        ended(self.command_at(site, arguments).output().unwrap())
    }

    /// Runs a command that must succeed; its standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        succeeded(arguments, self.run(arguments))
    }

    /// Runs a command at a site that must succeed; its standard output.
    pub fn ok_at(&self, site: &str, arguments: &[&str]) -> String {
        succeeded(arguments, self.run_at(site, arguments))
    }

    /// Changes links.
    pub fn set(&self, words: &[&str]) {
        self.ok(&[&["oct", "testbed", "set"], words].concat());
    }

    /// Lets nothing pass between two sites for so long.
    pub fn cut_for(&self, one: &str, other: &str, seconds: u32) {
        self.set(&[one, other, "--cut"]);
        // The fault itself takes this time; nothing is waited for.
        let lasted = Command::new("sleep").arg(seconds.to_string()).status().unwrap();
        assert!(lasted.success());
        self.set(&[one, other, "--restore"]);
    }

    /// How all is.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.ok(&["oct", "testbed", "status", "--json"])).expect("one JSON document")
    }

    /// What one direction of a link did so far, by its name in the JSON.
    pub fn passed(&self, from: &str, to: &str, what: &str) -> u64 {
        let status = self.status();
        let links = status["links"].as_array().unwrap();
        let link = links.iter().find(|link| link["from"] == from && link["to"] == to).expect("a link");
        link["passed"][what].as_u64().unwrap()
    }

    /// The process that holds it.
    pub fn pid(&self) -> u32 {
        u32::try_from(self.status()["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for CliTestbed {
    fn drop(&mut self) {
        let _ = self.command(&["oct", "testbed", "down"]).output();
    }
}

fn succeeded(arguments: &[&str], ended: Ended) -> String {
    assert_eq!(ended.code, 0, "sector {arguments:?}: {}", ended.errors);
    ended.text()
}
