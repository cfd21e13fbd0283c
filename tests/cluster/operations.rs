//! Runs `docs/operations.md` from its first line to its last: every line of its `sh` blocks, on a cloud that loses what
//! the headings say. A line that this cannot run, and a heading with a block that it does not know, fail the test.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use cluster::{Ended, ended, free_port, poll_until, program, random_bytes, workspace};
use tempfile::TempDir;

/// A machine with all roles, in folders as the page has them.
struct Machine {
    folder: TempDir,
    /// Where the master listens.
    master: String,
    roles: BTreeMap<String, Child>,
}

impl Machine {
    /// As `docs/set-up.md` has it, with a node.
    fn set_up() -> Self {
        let address = || format!("127.0.0.1:{}", free_port());
        let mut machine = Self { folder: tempfile::tempdir().unwrap(), master: address(), roles: BTreeMap::new() };
        let (security, node) = (address(), address());
        for line in [
            &format!("sector security init --folder /srv/sector/security --master 192.0.2.10:7400 --listen {security}"),
            "sector security --config /srv/sector/security/security.toml",
            "sector master join \"$(sector security ticket master --folder /srv/sector/security)\" \
             --folder /srv/sector/master --listen 192.0.2.10:7400",
            "sector master --config /srv/sector/master/master.toml",
            &format!("sector node join \"$(sector node ticket)\" --folder /srv/sector/node --listen {node}"),
            "sector node --config /srv/sector/node/node.toml",
        ] {
            machine.line(line);
        }
        machine.until_up();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A line of the page, with this machine's folders and addresses.
    fn here(&self, line: &str) -> String {
        let at = self.folder.path().display();
        let line = line.replace("/srv/sector", &format!("{at}/srv")).replace("/backups", &format!("{at}/backups"));
        line.replace("192.0.2.10:7400", &self.master)
    }

    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        let text = format!("sector() {{ \"$PROGRAM\" \"$@\"; }}\n{line}");
        command.args(["-c", &text]).env("PROGRAM", program()).env("SECTOR_HOME", self.path("home"));
        command.env("SECTOR_PROFILE", self.path("profile.toml")).env("SECTOR_PART_OF_UP", "1").stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Ended {
        ended(self.shell(&self.here(line)).output().unwrap())
    }

    /// Does what a line says.
    fn line(&mut self, line: &str) {
        if let Some(role) = line.strip_prefix("# stop the ") {
            return self.stop(role.split(' ').next().unwrap());
        }
        let words: Vec<_> = line.split(' ').collect();
        if let ["sector", role, "--config", _] = words[..] {
            return self.start(role, line);
        }
        assert!(line.starts_with("sector "), "the page has a line that cannot be run: {line}");
        let ended = self.run(line);
        // What is not well is said with an exit code.
        let is_told = match words[1..3.min(words.len())] {
            ["health"] => ended.code == 1,
            ["audit", "verify"] => ended.code == 6,
            _ => false,
        };
        assert!(ended.code == 0 || is_told, "{line}: {}{}", ended.text(), ended.errors);
        if line.starts_with("sector security init") {
            fs::copy(self.path("srv/security/profile.toml"), self.path("profile.toml")).unwrap();
        }
        if line == "sector rebuild status" {
            poll_until("the names are rebuilt", || {
                self.run("sector rebuild status --json").text().contains("\"settled\"").then_some(())
            });
        }
    }

    fn start(&mut self, role: &str, line: &str) {
        let log = File::options().create(true).append(true).open(self.path(&format!("{role}.log"))).unwrap();
        let mut command = self.shell(&format!("exec {}", self.here(line).replacen("sector", "\"$PROGRAM\"", 1)));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines.map_while(Result::ok).any(|line| line.starts_with("ready "));
        assert!(self.roles.insert(role.to_owned(), child).is_none(), "{role} runs already");
        let log = fs::read_to_string(self.path(&format!("{role}.log"))).unwrap();
        assert!(is_ready, "{role} did not start: {log}");
        if self.roles.len() == 3 {
            self.until_up();
        }
    }

    fn stop(&mut self, role: &str) {
        let mut child = self.roles.remove(role).expect("a role that runs");
        let status = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(status.success());
        child.wait().unwrap();
    }

    /// A role's process and its disk are gone at once.
    fn lose(&mut self, role: &str) {
        let mut child = self.roles.remove(role).expect("a role that runs");
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_dir_all(self.path(&format!("srv/{role}"))).unwrap();
    }

    fn until_up(&self) {
        poll_until("the node is up", || self.run("sector nodes --json").text().contains("\"up\"").then_some(()));
    }

    /// What the heading says has happened. `None` for a heading that has no block.
    fn happen(&mut self, heading: &str) -> Option<()> {
        match heading {
            "The master alone" | "The master without a backup" => self.lose("master"),
            "The security server alone" => self.lose("security"),
            "Everything but the nodes" => {
                self.lose("master");
                self.lose("security");
            }
            "What to back up, and how often"
            | "What the cloud does by itself"
            | "What was counted, and what was logged"
            | "A node's machine or disk"
            | "Upgrading"
            | "Versions that work together"
            | "Sizes and limits"
            | "Troubleshooting"
            | "Leaving" => {}
            _ => return None,
        }
        Some(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for child in self.roles.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The headings of a page, each with the lines of its `sh` blocks.
fn blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let (mut found, mut is_inside): (Vec<(String, Vec<String>)>, _) = (Vec::new(), false);
    for line in page.lines() {
        match line {
            "```sh" => is_inside = true,
            "```" => is_inside = false,
            line if is_inside => found.last_mut().expect("a block stands below a heading").1.push(line.to_owned()),
            line => found.extend(line.strip_prefix("## ").map(|heading| (heading.to_owned(), Vec::new()))),
        }
    }
    found
}

// Promise 65.
#[test]
fn every_line_of_the_page_for_operators_does_what_the_page_says() {
    let page = fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let mut machine = Machine::set_up();
    let file = machine.path("file");
    let mut written = Vec::new();
    let sections = blocks(&page);
    assert!(sections.len() >= 7, "{sections:?}");
    for (number, (heading, lines)) in sections.into_iter().enumerate() {
        // Each time there is a file that no backup knows.
        let bytes = random_bytes(50_000 + number);
        fs::write(&file, &bytes).unwrap();
        machine.line(&format!("sector put {} /at/{number}", file.display()));
        written.push((format!("/at/{number}"), bytes));
        assert!(!lines.is_empty(), "`{heading}` says nothing to type");
        machine.happen(&heading).unwrap_or_else(|| panic!("nothing is known of what happens at `{heading}`"));
        for line in lines {
            machine.line(&line);
        }
        for (path, bytes) in &written {
            poll_until("the file is there", || {
                (machine.run(&format!("sector cat {path}")).out == *bytes).then_some(())
            });
        }
    }
}
