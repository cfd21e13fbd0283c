//! Machines that join a cloud by the commands alone, each in a folder of its own, as docs/set-up.md describes it.
//! There are a security server, a master and two nodes. No file is carried from one to another, only printed text.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use cluster::{Ended, ended, free_port, poll_until, program, random_bytes};
use serde_json::Value;
use tempfile::TempDir;

/// Machines that join one after the other.
struct Machines {
    folder: TempDir,
    roles: Vec<(String, Child)>,
    security: String,
    master: String,
}

impl Machines {
    /// A cloud of a security server and a master, made and started by the commands.
    fn with_master(more: &[&str]) -> Self {
        let (security, master) = (address(), address());
        let folder = tempfile::tempdir().unwrap();
        let mut machines = Self { folder, roles: Vec::new(), security, master };
        let (listen, at) = (machines.security.clone(), machines.master.clone());
        let init = ["security", "init", "--folder", "@security", "--listen", &listen, "--master", &at];
        machines.ok(&[&init[..], more].concat());
        machines.start("security", "security.toml");
        let ticket = machines.ok(&["security", "ticket", "master", "--folder", "@security"]);
        machines.ok(&["master", "join", ticket.trim(), "--folder", "@master", "--listen", &at]);
        machines.start("master", "master.toml");
        machines
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command as the administrator gives it; `@x` is the folder of machine `x`.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        for word in words {
            match word.strip_prefix('@') {
                Some(machine) => command.arg(self.path(machine)),
                None => command.arg(word),
            };
        }
        command.env("SECTOR_PROFILE", self.path("security/profile.toml")).env("SECTOR_HOME", self.path("home"));
        command.env("SECTOR_PART_OF_UP", "1").stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        ended(self.command(words).output().unwrap())
    }

    fn ok(&self, words: &[&str]) -> String {
        let ended = self.run(words);
        assert_eq!(ended.code, 0, "sector {words:?}: {}", ended.errors);
        ended.text()
    }

    fn fails(&self, code: i32, words: &[&str]) -> String {
        let ended = self.run(words);
        assert_eq!(ended.code, code, "sector {words:?}: {}{}", ended.text(), ended.errors);
        ended.errors
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[words, &["--json"]].concat())).unwrap()
    }

    /// Starts the role of a machine and waits until it is ready.
    fn start(&mut self, machine: &str, settings: &str) {
        let kind = settings.trim_end_matches(".toml");
        let log = File::options().create(true).append(true).open(self.path(&format!("{machine}.log"))).unwrap();
        let settings = self.path(machine).join(settings);
        let mut command = self.command(&[kind, "--config", settings.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines.map_while(Result::ok).any(|line| line.starts_with("ready "));
        self.roles.push((machine.to_owned(), child));
        assert!(is_ready, "{machine}: {}", self.log(machine));
    }

    fn stop(&mut self, machine: &str) {
        let at = self.roles.iter().position(|(name, _)| name == machine).unwrap();
        let (_, mut child) = self.roles.remove(at);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn log(&self, machine: &str) -> String {
        fs::read_to_string(self.path(&format!("{machine}.log"))).unwrap_or_default()
    }

    fn ticket(&self, words: &[&str]) -> String {
        self.ok(&[&["node", "ticket"], words].concat()).trim().to_owned()
    }

    /// Admits a node with a ticket and starts it.
    fn add_node(&mut self, name: &str) {
        let master = self.master.clone();
        self.add_node_of(&master, name);
    }

    /// Admits a node at this master.
    fn add_node_of(&mut self, master: &str, name: &str) {
        let (ticket, listen) = (self.ticket(&["--for", name, "--master", master]), address());
        let folder = format!("@{name}");
        self.ok(&["node", "join", &ticket, "--folder", &folder, "--listen", &listen, "--site", name]);
        self.start(name, "node.toml");
    }

    fn until_up(&self, nodes: usize) {
        poll_until("the nodes are up", || {
            let listed = self.run(&["nodes", "--json"]);
            (listed.code == 0 && listed.text().matches("\"up\"").count() == nodes).then_some(())
        });
    }

    /// A profile of the administrator at another master than the first.
    fn profile_at(&self, master: &str) -> String {
        let profile = fs::read_to_string(self.path("security/profile.toml")).unwrap();
        let file = self.path(&format!("{}.profile", master.replace(':', "-")));
        fs::write(&file, profile.replace(&self.master, master)).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// An upload that has begun and waits for the rest of its bytes: an open session.
    fn begin_upload(&self, profile: &str, path: &str) -> Upload {
        let put = ["--profile", profile, "put", "--copies", "1", "-", path];
        let begin = || self.command(&put).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = begin();
        let other = self.path("other");
        // A path has one writer, so another writer with new content is refused as soon as it has begun.
        let again = ["--profile", profile, "put", "--copies", "1", other.to_str().unwrap(), path];
        let mut tries = 0;
        poll_until("the upload has begun", || {
            tries += 1;
            fs::write(&other, format!("{tries}")).unwrap();
            // If the other writer was faster, this one was refused.
            if child.try_wait().unwrap().is_some() {
                child = begin();
            }
            (self.run(&again).code == 8).then_some(())
        });
        let input = child.stdin.take().unwrap();
        Upload { child, input, profile: profile.to_owned(), path: path.to_owned() }
    }

    /// Sends the rest, and checks that all of it is there.
    fn finish_upload(&self, mut upload: Upload) {
        let bytes = random_bytes(3_000_000);
        upload.input.write_all(&bytes).unwrap();
        drop(upload.input);
        let put = ended(upload.child.wait_with_output().unwrap());
        assert_eq!(put.code, 0, "{}", put.errors);
        let read = self.run(&["--profile", &upload.profile, "cat", &upload.path]);
        // This read logs in anew, and a login may be answered only once the security server is back.
        assert!(read.code == 5 || read.out == bytes, "{}", read.errors);
    }

    /// What `node list` says of a node's certificate.
    fn certificate(&self, node: &str) -> Value {
        let nodes = self.json(&["node", "list"]);
        let found = nodes.as_array().unwrap().iter().find(|listed| listed["id"] == node);
        found.unwrap_or_else(|| panic!("{node} in {nodes}"))["certificate"].clone()
    }
}

/// See [`Machines::begin_upload`].
struct Upload {
    child: Child,
    input: ChildStdin,
    profile: String,
    path: String,
}

impl Drop for Machines {
    fn drop(&mut self) {
        for (_, child) in &mut self.roles {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// An address of this machine on which nothing listens.
fn address() -> String {
    format!("127.0.0.1:{}", free_port())
}

// Promise 27.
#[test]
fn three_machines_become_a_cloud_by_the_commands_alone() {
    let mut cloud = Machines::with_master(&[]);
    cloud.add_node("node-1");
    // The second comes without a ticket and waits until it is approved.
    let (master, listen) = (cloud.master.clone(), address());
    let words = [
        "node",
        "join",
        "--master",
        &master,
        "--trust-on-first-use",
        "--id",
        "node-2",
        "--folder",
        "@node-2",
        "--listen",
        &listen,
        "--site",
        "site-2",
    ];
    let joining = cloud.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let waiting = poll_until("the node waits", || cloud.json(&["node", "requests"]).as_array()?.first().cloned());
    assert_eq!(waiting["id"], "node-2");
    let wrong = cloud.fails(4, &["node", "approve", "node-2", "--fingerprint", &"0".repeat(32)]);
    assert!(wrong.contains("another key"), "{wrong}");
    let fingerprint = waiting["fingerprint"].as_str().unwrap();
    cloud.ok(&["node", "approve", "node-2", "--fingerprint", fingerprint]);
    let joined = ended(joining.wait_with_output().unwrap());
    assert_eq!(joined.code, 0, "{}", joined.errors);
    assert!(joined.errors.contains(fingerprint), "it showed what to compare: {}", joined.errors);
    assert_eq!(cloud.json(&["node", "requests"]), Value::Array(vec![]));
    cloud.start("node-2", "node.toml");
    cloud.until_up(2);
    for machine in ["security", "master", "node-1", "node-2"] {
        let mode = fs::metadata(cloud.path(machine).join("key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{machine}");
    }
    let file = cloud.path("file");
    fs::write(&file, random_bytes(3_000_000)).unwrap();
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/a/file"]);
    assert!(cloud.run(&["cat", "/a/file"]).out == random_bytes(3_000_000));
}

#[test]
fn a_cloud_is_set_up_and_used_by_the_names_of_its_machines() {
    // `localhost` is often `::1` before `127.0.0.1`, where nothing listens: all addresses are tried.
    let (security, listen) = (address(), address());
    let named = |address: &str| address.replace("127.0.0.1", "localhost");
    let master = named(&listen);
    let folder = tempfile::tempdir().unwrap();
    let mut cloud = Machines { folder, roles: Vec::new(), security, master };
    let (at, master) = (cloud.security.clone(), cloud.master.clone());
    cloud.ok(&["security", "init", "--folder", "@security", "--listen", &at, "--master", &master]);
    cloud.start("security", "security.toml");
    let ticket = cloud.ok(&["security", "ticket", "master", "--folder", "@security", "--address", &named(&at)]);
    cloud.ok(&["master", "join", ticket.trim(), "--folder", "@master", "--listen", &listen]);
    cloud.start("master", "master.toml");
    cloud.add_node("node-1");
    let setting = |file: &str| fs::read_to_string(cloud.path(file)).unwrap();
    assert!(setting("master/master.toml").contains(&format!("security = \"{}\"", named(&at))));
    assert!(setting("node-1/node.toml").contains(&format!("master = \"{master}\"")));
    assert!(setting("security/profile.toml").contains(&format!("address = \"{master}\"")));
    cloud.until_up(1);
    let file = cloud.path("file");
    fs::write(&file, "bee cow\n").unwrap();
    cloud.ok(&["put", "--copies", "1", file.to_str().unwrap(), "/in/words"]);
    // A driver is a child of its node, which tells it where the master is.
    let job = cloud.ok(&["run", "--udf", "count", "--input", "/in", "--output", "/out", "--detach"]);
    cloud.ok(&["job", job.trim(), "--wait"]);
    let mut add = cloud.command(&["user", "add", "ann", "--password-stdin"]);
    let mut adding = add.stdin(Stdio::piped()).spawn().unwrap();
    adding.stdin.take().unwrap().write_all(b"a pass of words\n").unwrap();
    assert!(adding.wait().unwrap().success());
    let authority = cloud.path("security/authority.pem");
    let login = ["login", "ann", "--password-stdin", "--master", &master, "--authority", authority.to_str().unwrap()];
    let mut command = cloud.command(&[&["--profile", "@ann.toml"], &login[..]].concat());
    let mut logging_in = command.stdin(Stdio::piped()).spawn().unwrap();
    logging_in.stdin.take().unwrap().write_all(b"a pass of words\n").unwrap();
    assert!(logging_in.wait().unwrap().success());
    assert!(setting("ann.toml").contains(&format!("address = \"{master}\"")), "the name is kept");
    assert_eq!(cloud.ok(&["--profile", "@ann.toml", "cat", "/in/words"]), "bee cow\n");
    let nowhere = ["node", "join", "--master", "nothing.invalid:7400", "--trust-on-first-use", "--id", "node-2"];
    let errors = cloud.fails(5, &[&nowhere[..], &["--folder", "@node-2"]].concat());
    assert!(errors.starts_with("sector: cannot find the address of `nothing.invalid`: "), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let errors = cloud.fails(2, &["node", "join", "--master", "nowhere", "--id", "node-2", "--folder", "@node-2"]);
    assert!(errors.contains("is no address"), "{errors}");
}

#[test]
fn a_ticket_that_was_used_altered_or_expired_lets_nobody_in() {
    let mut cloud = Machines::with_master(&[]);
    let (used, listen) = (cloud.ticket(&[]), address());
    cloud.ok(&["node", "join", &used, "--folder", "@node-1", "--listen", &listen]);
    cloud.start("node-1", "node.toml");
    let join =
        |ticket: &str, code| cloud.fails(code, &["node", "join", ticket, "--folder", "@other", "--listen", &listen]);
    assert!(join(&used, 4).contains("used already"));
    // Refused here, before anything is sent, even if nothing answers any more.
    let mut altered = used.clone();
    let letter = if altered.ends_with('a') { "b" } else { "a" };
    altered.replace_range(altered.len() - 1.., letter);
    assert!(join(&altered, 2).contains("whole join ticket"));
    let short = cloud.ticket(&["--life", "1s"]);
    poll_until("the ticket has expired", || join_expired(&cloud, &short, &listen).then_some(()));
    let for_other = cloud.ticket(&["--for", "node-7"]);
    let words = ["node", "join", &for_other, "--folder", "@third", "--listen", &listen, "--id", "node-8"];
    assert!(cloud.fails(4, &words).contains("for `node-7`"));
    assert!(cloud.fails(2, &["master", "join", &for_other, "--folder", "@third"]).contains("for a node"));
    assert!(!cloud.path("other").join("certificate.pem").exists());
}

/// Whether a ticket is refused as expired. Until then, a name that is taken keeps it from being used up.
fn join_expired(cloud: &Machines, ticket: &str, listen: &str) -> bool {
    let ended = cloud.run(&["node", "join", ticket, "--folder", "@other", "--listen", listen, "--id", "node-1"]);
    assert_ne!(ended.code, 0);
    ended.errors.contains("expired")
}

#[test]
fn a_machine_that_is_rejected_or_meets_another_cloud_does_not_come_in() {
    let cloud = Machines::with_master(&[]);
    let other = Machines::with_master(&[]);
    let (master, listen) = (cloud.master.clone(), address());
    let ask = ["node", "join", "--master", &master, "--id", "node-5", "--folder", "@node-5", "--listen", &listen];
    assert!(cloud.fails(2, &ask).contains("--trust-on-first-use"));
    let foreign = other.path("security/authority.pem");
    let words = [&ask[..], &["--authority", foreign.to_str().unwrap()]].concat();
    assert!(cloud.fails(4, &words).contains("not from this cloud's authority"));
    // Its ticket leads to this master, which has another authority, and so never learns its secret.
    let ticket = other.ticket(&["--master", &master]);
    let words = ["node", "join", &ticket, "--folder", "@node-5", "--listen", &listen];
    assert!(cloud.fails(4, &words).contains("not from this cloud's authority"));
    let own = cloud.path("security/authority.pem");
    let words = [&ask[..], &["--authority", own.to_str().unwrap()]].concat();
    let joining = cloud.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    poll_until("the node waits", || cloud.json(&["node", "requests"]).as_array()?.first().map(drop));
    cloud.ok(&["node", "reject", "node-5"]);
    let joined = ended(joining.wait_with_output().unwrap());
    assert_eq!(joined.code, 4, "{}", joined.errors);
    assert!(joined.errors.contains("turned this request away"), "{}", joined.errors);
    assert!(!cloud.path("node-5").join("certificate.pem").exists());
}

// Promise 27.
#[test]
fn certificates_are_renewed_while_all_runs_and_the_old_ones_are_worthless_then() {
    let mut cloud = Machines::with_master(&["--certificate-life", "15s"]);
    cloud.add_node("node-1");
    cloud.until_up(1);
    let first = cloud.certificate("node-1")["fingerprint"].clone();
    let kept: Vec<_> =
        ["key.pem", "certificate.pem"].map(|file| fs::read(cloud.path("node-1").join(file)).unwrap()).into();
    let read = |machine: &str| fs::read(cloud.path(machine).join("certificate.pem")).unwrap();
    let before = ["master", "security"].map(read);
    let profile = cloud.profile_at(&cloud.master);
    let upload = cloud.begin_upload(&profile, "/a/file");
    poll_until("the node has used its second certificate", || {
        let certificate = cloud.certificate("node-1");
        (certificate["fingerprint"] != first && certificate["next_fingerprint"].is_null()).then_some(())
    });
    poll_until("so have master and security server", || (["master", "security"].map(read) != before).then_some(()));
    cloud.until_up(1);
    cloud.finish_upload(upload);
    assert_eq!(cloud.log("node-1").matches("the node has joined").count(), 1, "its session went on too");
    // The node comes back with the new certificate, and does not with the old one.
    cloud.stop("node-1");
    cloud.start("node-1", "node.toml");
    cloud.until_up(1);
    cloud.stop("node-1");
    for (file, bytes) in ["key.pem", "certificate.pem"].iter().zip(&kept) {
        fs::write(cloud.path("node-1").join(file), bytes).unwrap();
    }
    cloud.start("node-1", "node.toml");
    poll_until("the old certificate is refused", || {
        let log = cloud.log("node-1");
        (log.contains("not that of `node-1`") || log.contains("does not accept our certificate")).then_some(())
    });
}

#[test]
fn a_node_that_is_removed_or_comes_from_a_wrong_address_is_kept_out() {
    let mut cloud = Machines::with_master(&[]);
    cloud.add_node("node-1");
    cloud.until_up(1);
    cloud.ok(&["node", "allow", "node-1", "10.0.0.0/8,192.0.2.7"]);
    let certificate = cloud.certificate("node-1");
    assert_eq!(certificate["addresses"], serde_json::json!(["10.0.0.0/8", "192.0.2.7/32"]));
    cloud.stop("node-1");
    cloud.start("node-1", "node.toml");
    poll_until("it is kept out", || cloud.log("node-1").contains("may not join from 127.0.0.1").then_some(()));
    cloud.ok(&["node", "allow", "node-1", "any"]);
    cloud.until_up(1);
    cloud.ok(&["node", "remove", "node-1", "--force"]);
    cloud.stop("node-1");
    cloud.start("node-1", "node.toml");
    poll_until("its certificate is refused", || {
        cloud.log("node-1").contains("was removed from this cloud").then_some(())
    });
    cloud.ok(&["node", "remove", "node-1", "--undo"]);
    cloud.until_up(1);
    // One that has a certificate and never joined is removed as well.
    let (ticket, listen) = (cloud.ticket(&["--for", "node-2"]), address());
    cloud.ok(&["node", "join", &ticket, "--folder", "@node-2", "--listen", &listen]);
    cloud.ok(&["node", "remove", "node-2"]);
    cloud.start("node-2", "node.toml");
    poll_until("its certificate is refused", || {
        cloud.log("node-2").contains("was removed from this cloud").then_some(())
    });
    cloud.fails(3, &["node", "remove", "node-3"]);
}

// Promise 27.
#[test]
fn a_node_without_its_certificate_comes_back_by_a_ticket_and_keeps_its_files() {
    let mut cloud = Machines::with_master(&[]);
    cloud.add_node("node-1");
    cloud.until_up(1);
    let file = cloud.path("file");
    fs::write(&file, random_bytes(1_000_000)).unwrap();
    cloud.ok(&["put", file.to_str().unwrap(), "/a/file"]);
    cloud.stop("node-1");
    let settings = fs::read(cloud.path("node-1/node.toml")).unwrap();
    for lost in ["key.pem", "certificate.pem"] {
        fs::remove_file(cloud.path("node-1").join(lost)).unwrap();
    }
    let ticket = cloud.ticket(&["--for", "node-1"]);
    assert!(
        cloud.fails(2, &["node", "join", &ticket, "--folder", "@node-1", "--id", "node-2"]).contains("leave --id out")
    );
    // As a user does who shares the machine with others.
    let words = ["node", "join", "-", "--folder", "@node-1"];
    let mut joining = cloud.command(&words).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(joining.stdin.take().unwrap(), "{ticket}").unwrap();
    let joined = ended(joining.wait_with_output().unwrap());
    assert_eq!(joined.code, 0, "{}", joined.errors);
    assert_eq!(fs::read(cloud.path("node-1/node.toml")).unwrap(), settings);
    cloud.start("node-1", "node.toml");
    cloud.until_up(1);
    assert!(cloud.run(&["cat", "/a/file"]).out == random_bytes(1_000_000));
}

// Promise 27.
#[test]
fn a_second_master_joins_under_a_name_of_its_own_and_nobody_else_with_its_ticket() {
    let cloud = Machines::with_master(&[]);
    let ticket = cloud.ok(&["security", "ticket", "master", "--folder", "@security", "--name", "master-2"]);
    let (ticket, listen) = (ticket.trim(), address());
    assert!(cloud.fails(2, &["node", "join", ticket, "--folder", "@thief"]).contains("for a master"));
    cloud.ok(&["master", "join", ticket, "--folder", "@master-2", "--listen", &listen]);
    let again = cloud.fails(4, &["master", "join", ticket, "--folder", "@thief", "--listen", &listen]);
    assert!(again.contains("used already"), "{again}");
    let settings = fs::read_to_string(cloud.path("master-2/master.toml")).unwrap();
    assert!(settings.contains("id = \"master-2\""), "{settings}");
}

// Promise 27.
#[test]
fn masters_share_a_security_server_and_without_it_serve_only_open_sessions() {
    let mut cloud = Machines::with_master(&[]);
    let (ticket, second) = (cloud.ok(&["security", "ticket", "master", "--folder", "@security"]), address());
    cloud.ok(&["master", "join", ticket.trim(), "--folder", "@master-2", "--listen", &second]);
    cloud.start("master-2", "master.toml");
    let first = cloud.master.clone();
    let profiles = [&first, &second].map(|master| cloud.profile_at(master));
    for (master, node, profile) in [(&first, "node-1", &profiles[0]), (&second, "node-2", &profiles[1])] {
        cloud.add_node_of(master, node);
        poll_until("its node is up", || {
            let nodes = cloud.run(&["--profile", profile, "nodes", "--json"]);
            (nodes.code == 0 && nodes.text().contains("\"up\"")).then_some(())
        });
    }
    // The same users; each master has names of its own.
    let uploads = profiles.each_ref().map(|profile| cloud.begin_upload(profile, "/same/path"));
    cloud.stop("security");
    for profile in &profiles {
        let errors = cloud.fails(5, &["--profile", profile, "nodes"]);
        assert!(errors.contains("security server"), "{errors}");
    }
    uploads.into_iter().for_each(|upload| cloud.finish_upload(upload));
    cloud.start("security", "security.toml");
    for (master, profile) in [&first, &second].into_iter().zip(&profiles) {
        cloud.ok(&["--profile", profile, "stat", "/same/path"]);
        assert!(cloud.run(&["--profile", profile, "cat", "/same/path"]).out == random_bytes(3_000_000), "{master}");
    }
}

// Promise 27.
#[test]
fn a_user_who_is_disabled_at_one_master_is_out_at_the_other_within_ten_seconds() {
    let mut cloud = Machines::with_master(&[]);
    let ticket = cloud.ok(&["security", "ticket", "master", "--folder", "@security", "--name", "master-2"]);
    let listen = address();
    cloud.ok(&["master", "join", ticket.trim(), "--folder", "@master-2", "--listen", &listen]);
    cloud.start("master-2", "master.toml");
    let second = cloud.profile_at(&listen);
    let second = ["--profile", &second];
    cloud.add_node_of(&listen, "node-2");
    poll_until("its node is up", || {
        let nodes = cloud.run(&[&second[..], &["nodes", "--json"]].concat());
        (nodes.code == 0 && nodes.text().contains("\"up\"")).then_some(())
    });
    let file = cloud.path("big");
    fs::write(&file, random_bytes(64 << 20)).unwrap();
    cloud.ok(&[&second[..], &["put", "--copies", "1", file.to_str().unwrap(), "/big"]].concat());
    // A program that reads at the second master, over the network, and is held up by a pipe that nothing empties.
    let ann = cloud.path("ann.toml");
    cloud.ok(&["user", "add", "ann", "--service"]);
    let token = ["user", "token", "add", "ann", "cron", "--write-profile", ann.to_str().unwrap()];
    cloud.ok(&[&second[..], &token].concat());
    let text = fs::read_to_string(&ann).unwrap();
    fs::write(&ann, format!("over_network = true\n{text}")).unwrap();
    let mut command = cloud.command(&["--profile", ann.to_str().unwrap(), "cat", "/big"]);
    let mut reading = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = reading.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();

    cloud.ok(&["user", "disable", "ann"]);
    let disabled = Instant::now();
    poll_until("the other master knows", || cloud.log("master-2").contains("a session was ended").then_some(()));
    poll_until("its node knows", || cloud.log("node-2").contains("tickets of a user were revoked").then_some(()));
    assert!(disabled.elapsed() < Duration::from_secs(10), "{:?}", disabled.elapsed());
    out.read_to_end(&mut Vec::new()).unwrap();
    let ended = ended(reading.wait_with_output().unwrap());
    assert_eq!(ended.code, 4, "{}", ended.errors);
}
