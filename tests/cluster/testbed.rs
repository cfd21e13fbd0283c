//! `sector oct testbed`: a wide-area cloud on one machine, made, used, changed and taken away through the command line.
//! Needs root, and says so where it has none.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use cluster::{CliTestbed, kill, poll_until, random_bytes};

#[test]
fn a_program_at_a_site_has_its_exit_code_passed_on_and_nobody_else_is_there() {
    let Some(testbed) = CliTestbed::up(&["--sites", "2", "--nodes-per-site", "0"]) else { return };
    let run = |words: &[&str]| testbed.run(&[&["oct", "testbed", "run"], words].concat());
    assert_eq!(run(&["site2", "sh", "-c", "exit 9"]).code, 9);
    let devices = run(&["2", "cat", "/proc/net/dev"]).text();
    assert!(devices.contains("wan0:") && devices.lines().count() == 4, "the loopback and one device: {devices}");
    assert_eq!(run(&["2", "sh", "-c", "echo $SECTOR_TESTBED_SITE"]).text(), "site2\n");
    assert_eq!((run(&["site3", "true"]).code, run(&["1", "no-such-program"]).code), (3, 3));
    // A second one of the same home is refused; one of another home has networks of its own.
    assert_eq!(testbed.run(&["oct", "testbed", "up", "--nodes-per-site", "0"]).code, 7);
    let other = CliTestbed::up(&["--sites", "3", "--nodes-per-site", "0"]).expect("as the first");
    assert_eq!(other.status()["sites"].as_array().unwrap().len(), 3);
}

#[test]
fn a_file_goes_in_at_one_site_and_comes_out_at_another_and_copies_lie_in_both() {
    let Some(testbed) = CliTestbed::up(&["--sites", "3", "--nodes-per-site", "1", "--rtt", "10ms"]) else { return };
    let nodes: serde_json::Value = serde_json::from_str(&testbed.ok_at("site2", &["nodes", "--json"])).unwrap();
    let sites: Vec<_> = nodes.as_array().unwrap().iter().map(|node| node["site"].as_str().unwrap()).collect();
    assert_eq!(sites, ["site1", "site2", "site3"]);
    let bytes = random_bytes(4 << 20);
    let file = testbed.folder().join("in");
    fs::write(&file, &bytes).unwrap();
    testbed.ok_at("site2", &["put", "--sync-copies", "2", file.to_str().unwrap(), "/f"]);
    assert!(testbed.run_at("site3", &["cat", "/f"]).out == bytes);
    let carried =
        |from| testbed.passed(from, "site2", "carried_bytes") + testbed.passed("site2", from, "carried_bytes");
    assert!(carried("site1") + carried("site3") > 4 << 20, "the second copy went over a link");
    assert_eq!(testbed.status()["refused"], 0);
}

#[test]
fn links_are_changed_while_they_run_and_each_change_is_felt() {
    let Some(testbed) = CliTestbed::up(&["--sites", "2", "--nodes-per-site", "1", "--rtt", "4ms"]) else { return };
    let nodes = || testbed.run_at("site2", &["nodes"]).code;
    assert_eq!(nodes(), 0);
    testbed.set(&["site1", "site2", "--cut"]);
    assert_eq!(nodes(), 5);
    assert!(testbed.passed("site2", "site1", "cut") > 0, "the fault has fired");
    testbed.set(&["site2", "--restore", "--loss", "20%"]);
    let told = |what: &str| testbed.status()["links"][0][what].clone();
    assert_eq!((told("cut"), told("loss"), told("rtt_ms")), (false.into(), 0.2.into(), 4.0.into()));
    poll_until("a word is lost and all the same answered", || {
        (nodes() == 0 && testbed.passed("site2", "site1", "lost") > 0).then_some(())
    });
    assert_eq!(testbed.run(&["oct", "testbed", "set"]).code, 2);
    assert_eq!(testbed.run(&["oct", "testbed", "set", "site1", "site1", "--cut"]).code, 2);
    assert_eq!(testbed.run(&["oct", "testbed", "set", "site7", "--cut"]).code, 3);
}

#[test]
fn losses_and_round_trips_of_quic_are_those_of_the_emulated_link() {
    measured_as_emulated("quic", 32 << 20);
}

#[test]
fn losses_and_round_trips_of_tcp_are_those_of_the_emulated_link() {
    measured_as_emulated("tcp", 8 << 20);
}

/// Downloads a file from one site at another, and compares what the cloud has measured with what the testbed did.
fn measured_as_emulated(carrier: &str, bytes: usize) {
    let words = ["--sites", "2", "--nodes-per-site", "1", "--rtt", "40ms", "--loss", "1%", "--rate", "200mbit"];
    let Some(testbed) = CliTestbed::up(&words) else { return };
    let file = testbed.random_file("in", bytes);
    testbed.ok_at("site1", &["put", "--copies", "1", file.to_str().unwrap(), "/f"]);
    for site in ["site1", "site2"] {
        let to = testbed.folder().join(site);
        testbed.ok_at(site, &["--carrier", carrier, "get", "/f", to.to_str().unwrap()]);
    }
    let links = || {
        let told: serde_json::Value = serde_json::from_str(&testbed.ok_at("site1", &["links", "--json"])).unwrap();
        told.as_array().unwrap().clone()
    };
    let is_busy = |link: &serde_json::Value| link["from"] != link["to"] && link["loss"].is_f64();
    let link = poll_until("a node has told what it sent", || links().into_iter().find(is_busy));
    let [from, to] = ["from", "to"].map(|end| link[end].as_str().unwrap());
    // No less than the link's; a queue adds to it.
    let round_trip = link["round_trip_seconds"].as_f64().unwrap();
    assert!((0.039..0.4).contains(&round_trip), "{link}");
    let node = from.replace("site", "node-");
    let metrics = testbed.ok_at("site1", &["metrics", &node]);
    let counted = |state: &str| -> f64 {
        let name = format!("sector_node_link_packets_total{{site=\"{to}\",state=\"{state}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)).expect(&metrics).parse().unwrap()
    };
    let passed = |what| testbed.passed(from, to, what) as f64;
    let (loss, true_loss) =
        (counted("lost") / counted("sent"), (passed("lost") + passed("overflowed")) / passed("sent"));
    println!("measured {loss}, emulated {true_loss}");
    assert!(loss > true_loss / 2.0 && loss < true_loss * 2.0, "{loss}, and {true_loss} of the packets\n{metrics}");
}

#[test]
fn a_table_names_the_sites_and_says_how_far_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("round-trips");
    fs::write(&table, "# ms\n        north south\nnorth   0     7.5\nsouth   7.5   0\n").unwrap();
    let Some(testbed) = CliTestbed::up(&["--rtt-matrix", table.to_str().unwrap(), "--nodes-per-site", "0"]) else {
        return;
    };
    let status = testbed.status();
    assert_eq!((&status["links"][1]["from"], &status["links"][1]["rtt_ms"]), (&"south".into(), &7.5.into()));
    testbed.ok(&["oct", "testbed", "run", "south", "true"]);
    fs::write(&table, "north south\nnorth 0 7\nsouth 8 0\n").unwrap();
    let wrong = testbed.run(&["oct", "testbed", "up", "--rtt-matrix", table.to_str().unwrap()]);
    // That one runs already is said first; where none does, the table is read.
    assert_eq!(wrong.code, 7);
    testbed.ok(&["oct", "testbed", "down"]);
    let wrong = testbed.run(&["oct", "testbed", "up", "--rtt-matrix", table.to_str().unwrap()]);
    assert_eq!(wrong.code, 2, "{}", wrong.errors);
    assert!(wrong.errors.contains("both ways"), "{}", wrong.errors);
}

#[test]
fn nothing_is_left_of_a_testbed_that_was_killed() {
    let Some(testbed) = CliTestbed::up(&["--sites", "2", "--nodes-per-site", "1", "--rtt", "4ms"]) else { return };
    let pid = testbed.pid();
    let networks = networks_open_in(pid);
    assert_eq!(networks.len(), 2);
    let inside = processes_in(&networks);
    assert_eq!(inside.len(), 5, "`sector up`, security server, master and two nodes");
    kill(pid);
    poll_until("all processes of it have ended", || inside.iter().all(|process| !is_running(process)).then_some(()));
    assert!(processes_in(&networks).is_empty(), "nobody keeps its networks");
    // The note and the socket that stayed behind are in nobody's way.
    assert_eq!(testbed.run(&["oct", "testbed", "status"]).code, 3);
    assert_eq!(testbed.run(&["oct", "testbed", "run", "1", "true"]).code, 3);
    testbed.ok(&["oct", "testbed", "up", "--detach", "--sites", "2", "--nodes-per-site", "0"]);
    testbed.ok(&["oct", "testbed", "run", "1", "true"]);
}

#[test]
fn a_program_that_outlives_its_testbed_is_named() {
    let Some(testbed) = CliTestbed::up(&["--sites", "2", "--nodes-per-site", "0"]) else { return };
    let mut program = testbed.command(&["oct", "testbed", "run", "2", "sleep", "1000"]).spawn().unwrap();
    let network = fs::read_link("/proc/self/ns/net").unwrap();
    poll_until("it has entered the site", || {
        fs::read_link(format!("/proc/{}/ns/net", program.id())).is_ok_and(|its| its != network).then_some(())
    });
    let down = testbed.run(&["oct", "testbed", "down"]);
    assert_eq!(down.code, 0);
    assert!(down.errors.trim().ends_with(&format!("without a network: {}", program.id())), "{}", down.errors);
    program.kill().unwrap();
    program.wait().unwrap();
}

/// The networks that a process has open beside its own.
fn networks_open_in(pid: u32) -> BTreeSet<PathBuf> {
    let own = fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("net:[")).filter(|link| *link != own).collect()
}

/// All processes that are in one of these networks.
fn processes_in(networks: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|item| item.path());
    processes
        .filter(|process| fs::read_link(process.join("ns/net")).is_ok_and(|network| networks.contains(&network)))
        .collect()
}

/// Whether a process still runs; what only waits for its parent to ask about it does not.
fn is_running(process: &Path) -> bool {
    fs::read_to_string(process.join("stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z')))
}
