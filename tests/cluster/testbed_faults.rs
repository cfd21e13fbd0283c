//! What can happen between two sites while a file travels. The link is cut for a while or for long, or passes only
//! shorter packets or no UDP. Or an end changes its address, dies, or has no room. Each transfer goes on, or ends in
//! one clear error with nothing half-published. The links of `sector oct testbed` count the effect of the fault; the
//! tests need root, and report it if they have none.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

use cluster::{CliTestbed, Ended, SmallDisk, ended, kill, poll_until, random_bytes};
use serde_json::Value;

/// Most puts or gets tried, of which one must meet a fault.
const TURNS_MAX: u32 = 6;
/// Enough for some four seconds at the links' rate.
const FILE_BYTES: usize = 24 << 20;

/// A cloud of three sites with a node each; files in `/far` lie at the second alone. The master is at the first, so
/// that clients of the third reach it whatever happens between the other two.
fn three_sites() -> Option<CliTestbed> {
    let testbed = CliTestbed::up(&["--sites", "3", "--nodes-per-site", "1", "--rate", "50mbit", "--rtt", "20ms"])?;
    testbed.ok_at("site3", &["mkdir", "/far"]);
    testbed.ok_at("site3", &["policy", "set", "/far", "copies=1", "sites=site2"]);
    testbed.random_file("in", FILE_BYTES);
    Some(testbed)
}

/// Begins a command at the third site with a file as its input. Returns when a part of its transfer between that site
/// and the second has passed.
fn begin(testbed: &CliTestbed, words: &[&str]) -> Child {
    begin_and_pass(testbed, words, PART_BYTES)
}

/// The same, once this many bytes have passed.
fn begin_and_pass(testbed: &CliTestbed, words: &[&str], part_bytes: u64) -> Child {
    let input = File::open(testbed.folder().join("in")).unwrap();
    let passed =
        || testbed.passed("site2", "site3", "carried_bytes") + testbed.passed("site3", "site2", "carried_bytes");
    let before = passed();
    let mut command = testbed.command_at("site3", words);
    let child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    poll_until("a part has passed", || (passed() > before + part_bytes).then_some(()));
    child
}

fn end(child: Child) -> Ended {
    ended(child.wait_with_output().unwrap())
}

fn put(testbed: &CliTestbed, path: &str) -> Child {
    begin(testbed, &["put", "in", path])
}

fn get(testbed: &CliTestbed, path: &str) -> Child {
    begin(testbed, &["get", path, "out"])
}

/// Nobody sees anything of a file that did not arrive.
fn is_nowhere(testbed: &CliTestbed, path: &str) {
    assert_eq!(testbed.run_at("site1", &["stat", path]).code, 3);
}

/// A file is whole, wherever it is read.
fn is_whole(testbed: &CliTestbed, path: &str) {
    assert!(testbed.run_at("site1", &["cat", path]).out == random_bytes(FILE_BYTES));
}

/// A command that failed said so in one sentence.
fn said_in_one_sentence(failed: &Ended) {
    // What it waited for meanwhile is no failure.
    let is_sentence = |line: &&str| line.starts_with("sector: ") && !line.starts_with("sector: waiting: ");
    let sentences = failed.errors.lines().filter(is_sentence).count();
    assert!(sentences == 1 && !failed.errors.contains("panicked"), "{}", failed.errors);
}

fn cut_packets(testbed: &CliTestbed) -> u64 {
    testbed.passed("site2", "site3", "cut") + testbed.passed("site3", "site2", "cut")
}

// Promise 6.
#[test]
fn a_put_and_a_get_wait_for_a_link_that_is_cut_for_five_seconds() {
    let Some(testbed) = three_sites() else { return };
    let putting = put(&testbed, "/far/a");
    testbed.cut_for("site2", "site3", 5);
    let put = end(putting);
    assert_eq!(put.code, 0, "{}", put.errors);
    let during_put = cut_packets(&testbed);
    assert!(during_put > 0, "the fault has fired");
    is_whole(&testbed, "/far/a");
    let getting = get(&testbed, "/far/a");
    testbed.cut_for("site2", "site3", 5);
    let got = end(getting);
    assert_eq!(got.code, 0, "{}", got.errors);
    assert!(cut_packets(&testbed) > during_put, "the fault has fired");
    assert!(fs::read(testbed.folder().join("out")).unwrap() == random_bytes(FILE_BYTES));
}

// Promise 6.
#[test]
fn a_put_over_a_link_that_stays_cut_ends_in_one_sentence_and_resumes_when_repeated() {
    let Some(testbed) = three_sites() else { return };
    let putting = begin_and_pass(&testbed, &["put", "in", "/far/a"], ORDERED_PART_BYTES);
    testbed.set(&["site2", "site3", "--cut"]);
    let failed = end(putting);
    assert_eq!(failed.code, 5, "{}", failed.errors);
    said_in_one_sentence(&failed);
    assert!(cut_packets(&testbed) > 0, "the fault has fired");
    is_nowhere(&testbed, "/far/a");
    testbed.set(&["site2", "site3", "--restore"]);
    // On a busy machine the master may have missed the node's heartbeats, and would choose another node for the
    // write.
    poll_until("the node is up", || (node_view(&testbed, "node-2")["state"] == "up").then_some(()));
    let again = testbed.run_at("site3", &["-v", "put", "in", "/far/a"]);
    assert_eq!(again.code, 0, "{}", again.errors);
    let shown = || format!("{}{}{}", again.errors, testbed.ok_at("site1", &["stat", "/far/a"]), testbed.log());
    assert!(again.errors.contains("had arrived before"), "{}", shown());
    is_whole(&testbed, "/far/a");
}

#[test]
fn a_get_over_a_link_that_stays_cut_ends_in_one_sentence_and_leaves_no_half_file() {
    let Some(testbed) = three_sites() else { return };
    testbed.ok_at("site2", &["put", "in", "/far/a"]);
    let getting = get(&testbed, "/far/a");
    testbed.set(&["site2", "site3", "--cut"]);
    let failed = end(getting);
    assert_eq!(failed.code, 5, "{}", failed.errors);
    said_in_one_sentence(&failed);
    assert!(cut_packets(&testbed) > 0, "the fault has fired");
    assert!(!testbed.folder().join("out").exists());
    testbed.set(&["site2", "site3", "--restore"]);
    testbed.ok_at("site3", &["get", "/far/a", "out"]);
    assert!(fs::read(testbed.folder().join("out")).unwrap() == random_bytes(FILE_BYTES));
}

// Promise 6.
#[test]
fn a_put_and_a_get_go_on_where_the_path_takes_only_shorter_packets_from_now_on() {
    let Some(testbed) = three_sites() else { return };
    let too_large = || testbed.passed("site2", "site3", "too_large") + testbed.passed("site3", "site2", "too_large");
    // On a busy machine, one may have ended or still send short packets when the path becomes narrower.
    let is_met_by_a_put = |turn| {
        let (path, before) = (format!("/far/{turn}"), too_large());
        testbed.set(&["site2", "site3", "--mtu", "0"]);
        let putting = put(&testbed, &path);
        testbed.set(&["site2", "site3", "--mtu", "1300"]);
        let put = end(putting);
        assert_eq!(put.code, 0, "{}", put.errors);
        is_whole(&testbed, &path);
        too_large() > before
    };
    assert!((0..TURNS_MAX).any(is_met_by_a_put), "the fault has fired");
    let is_met_by_a_get = |_| {
        let before = too_large();
        testbed.set(&["site2", "site3", "--mtu", "0"]);
        let getting = get(&testbed, "/far/0");
        testbed.set(&["site2", "site3", "--mtu", "1300"]);
        let got = end(getting);
        assert_eq!(got.code, 0, "{}", got.errors);
        let out = testbed.folder().join("out");
        assert!(fs::read(&out).unwrap() == random_bytes(FILE_BYTES));
        fs::remove_file(out).unwrap();
        too_large() > before
    };
    assert!((0..TURNS_MAX).any(is_met_by_a_get), "the fault has fired");
}

#[test]
fn a_cloud_works_where_every_path_is_narrower_than_its_devices_say() {
    let Some(testbed) = three_sites() else { return };
    testbed.set(&["--mtu", "1300"]);
    testbed.ok_at("site3", &["put", "in", "/far/a"]);
    is_whole(&testbed, "/far/a");
    assert!(testbed.ok_at("site3", &["ls", "/far"]).contains('a'));
}

#[test]
fn where_udp_is_blocked_bytes_go_over_tcp() {
    let Some(testbed) = three_sites() else { return };
    testbed.set(&["site2", "site3", "--block", "udp"]);
    testbed.ok_at("site3", &["put", "in", "/far/a"]);
    assert!(testbed.passed("site3", "site2", "blocked") > 0, "the fault has fired");
    assert!(testbed.passed("site3", "site2", "carried_bytes") > FILE_BYTES as u64, "and they went over this link");
    testbed.ok_at("site3", &["get", "/far/a", "out"]);
    assert!(fs::read(testbed.folder().join("out")).unwrap() == random_bytes(FILE_BYTES));
}

#[test]
fn a_put_to_a_node_that_dies_costs_at_most_that_put_and_shows_nothing_of_it() {
    let Some(testbed) = three_sites() else { return };
    let putting = put(&testbed, "/far/a");
    kill(node(&testbed, "node-2").0);
    let put = end(putting);
    // If another node takes it, that is just as good; the desired replication still asks for the second site.
    match put.code {
        0 => is_whole(&testbed, "/far/a"),
        5 => {
            said_in_one_sentence(&put);
            is_nowhere(&testbed, "/far/a");
        }
        code => panic!("exit code {code}: {}", put.errors),
    }
}

// Promise 53.
#[test]
fn a_get_from_a_node_that_dies_goes_on_at_another_site() {
    let Some(testbed) = three_sites() else { return };
    testbed.ok_at("site3", &["mkdir", "/both"]);
    testbed.ok_at("site3", &["policy", "set", "/both", "copies=2", "sites=site1,site2"]);
    testbed.ok_at("site2", &["put", "--sync-copies", "2", "in", "/both/a"]);
    // The client chooses its node freely; the one that has sent more dies.
    let brought = |site| testbed.passed(site, "site3", "carried_bytes");
    let mut command = testbed.command_at("site3", &["get", "/both/a", "out"]);
    let getting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let busy = poll_until("a part has passed", || {
        [("site1", "node-1"), ("site2", "node-2")].into_iter().find(|(site, _)| brought(site) > PART_BYTES)
    });
    kill(node(&testbed, busy.1).0);
    let got = end(getting);
    assert_eq!(got.code, 0, "{}", got.errors);
    assert!(fs::read(testbed.folder().join("out")).unwrap() == random_bytes(FILE_BYTES));
}

// Promise 53.
#[test]
fn a_node_that_comes_back_under_another_address_is_found_there() {
    let Some(testbed) = three_sites() else { return };
    testbed.ok_at("site3", &["put", "in", "/far/a"]);
    let (pid, address) = node(&testbed, "node-2");
    assert_eq!(address, "10.77.2.11:7410");
    kill(pid);
    let settings = testbed.role_folder("node-2").join("settings.toml");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("10.77.2.11:7410", "10.77.2.1:7411")).unwrap();
    let started = Started::node(&testbed, "site2", &settings);
    poll_until("the master knows", || {
        (node(&testbed, "node-2") == (started.0.id(), "10.77.2.1:7411".into())).then_some(())
    });
    testbed.ok_at("site3", &["get", "/far/a", "out"]);
    assert!(fs::read(testbed.folder().join("out")).unwrap() == random_bytes(FILE_BYTES));
}

// Promise 53.
#[test]
fn a_get_whose_client_changes_its_address_goes_on() {
    let Some(testbed) = three_sites() else { return };
    testbed.ok_at("site2", &["put", "in", "/far/a"]);
    let ip = |words: &[&str]| {
        let ip = testbed.run(&[&["oct", "testbed", "run", "site3", "ip"], words].concat());
        assert_eq!(ip.code, 0, "`ip`, of the package iproute2: {}", ip.errors);
    };
    // An address that the system prefers for outgoing packets once the first is gone.
    ip(&["addr", "add", "10.77.3.200/16", "dev", "wan0"]);
    let getting = get(&testbed, "/far/a");
    ip(&["addr", "del", "10.77.3.1/16", "dev", "wan0"]);
    let got = end(getting);
    assert_eq!(got.code, 0, "{}", got.errors);
    assert!(fs::read(testbed.folder().join("out")).unwrap() == random_bytes(FILE_BYTES));
}

// Promise 6.
#[test]
fn a_put_to_a_disk_that_fills_ends_in_one_sentence_and_shows_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (data, disk) = (folder.path().join("data"), folder.path().join("data/node-2"));
    fs::create_dir_all(&disk).unwrap();
    let Some(small) = SmallDisk::mount(&disk, "200m") else { return };
    let words = ["--sites", "3", "--nodes-per-site", "1", "--rate", "50mbit", "--rtt", "20ms", "--data"];
    let Some(testbed) = CliTestbed::up(&[&words[..], &[data.to_str().unwrap()]].concat()) else { return };
    testbed.ok_at("site3", &["mkdir", "/far"]);
    testbed.ok_at("site3", &["policy", "set", "/far", "copies=1", "sites=site2"]);
    testbed.random_file("in", FILE_BYTES);
    // Room for a file of known length is reserved at its start; the node does not know the length of this one.
    let putting = begin(&testbed, &["put", "-", "/far/a"]);
    // Another program fills the disk, up to the middle of what is kept free.
    fs::write(disk.join("filler"), vec![7; (small.free_mib() - 16) << 20]).unwrap();
    let failed = end(putting);
    assert_eq!(failed.code, 5, "{}", failed.errors);
    said_in_one_sentence(&failed);
    assert!(failed.errors.contains("room"), "{}", failed.errors);
    is_nowhere(&testbed, "/far/a");
    fs::remove_file(disk.join("filler")).unwrap();
    poll_until("there is room again", || (testbed.run_at("site3", &["put", "in", "/far/a"]).code == 0).then_some(()));
    is_whole(&testbed, "/far/a");
}

/// A node as the master sees it.
fn node_view(testbed: &CliTestbed, id: &str) -> Value {
    let nodes: Value = serde_json::from_str(&testbed.ok_at("site1", &["nodes", "--json"])).unwrap();
    nodes.as_array().unwrap().iter().find(|node| node["id"] == id).expect("a node of the cloud").clone()
}

/// The process and the address of a node.
fn node(testbed: &CliTestbed, id: &str) -> (u32, String) {
    let node = node_view(testbed, id);
    (node["pid"].as_u64().unwrap_or_default() as u32, node["address"].as_str().unwrap().into())
}

/// A node that the test started itself; it ends with the test.
struct Started(Child);

impl Started {
    fn node(testbed: &CliTestbed, site: &str, settings: &Path) -> Self {
        let mut command = testbed.command_at(site, &["node", "--config", settings.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("ready ")), "the node has started");
        Self(child)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes that have passed when a transfer counts as under way.
const PART_BYTES: u64 = 4 << 20;
/// Bytes that have passed when a part of the file is certainly in order: lost pieces of the start were sent again.
const ORDERED_PART_BYTES: u64 = 8 << 20;
