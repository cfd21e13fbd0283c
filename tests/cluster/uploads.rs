//! Uploads that break off, go on, go behind what is there, and depend on what is there.

use std::{fs, io::Write, process::Stdio};

use cluster::{Cloud, kill, random_bytes};

/// Large enough that a command can be killed in the middle.
const BYTES: usize = 192 << 20;

/// Bytes of broken uploads at a node, and of uploads under way.
pub(crate) fn partial_bytes(cloud: &Cloud, node: &str) -> u64 {
    let folder = cloud.node_folder(node).join("partial");
    let files = fs::read_dir(folder).unwrap().map(|item| item.unwrap());
    files.filter_map(|item| item.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Begins to put `in` and waits until a node has some of it; its process, and the node.
fn begin_put(cloud: &Cloud, file: &str) -> (std::process::Child, String) {
    let child = cloud.command(&["put", file, "/in"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut found = None;
    cloud.until("a node has a part of the upload", |cloud| {
        let has_part = |node: &&str| partial_bytes(cloud, node) > 8 << 20;
        found = ["node-1", "node-2"].iter().find(|node| has_part(node)).map(|node| (*node).to_owned());
        found.is_some()
    });
    (child, found.unwrap())
}

// Promise 6.
#[test]
fn a_put_that_was_killed_goes_on_where_it_was_when_it_is_typed_again() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let file = cloud.random_file("in", BYTES);
    let (mut child, _) = begin_put(&cloud, file.to_str().unwrap());
    kill(child.id());
    child.wait().unwrap();
    cloud.fails(3, &["stat", "/in"]);
    let again = cloud.run(&["put", file.to_str().unwrap(), "/in"]);
    assert_eq!(again.code, 0, "{}", again.errors);
    assert!(again.errors.contains("had arrived before"), "{}", again.errors);
    cloud.ok(&["get", "/in", "out"]);
    assert!(fs::read(cloud.folder().join("out")).unwrap() == random_bytes(BYTES));
    assert_eq!(cloud.good_copies("/in").len(), 2, "the second copy was made although there was no chain");
    assert_eq!((partial_bytes(&cloud, "node-1"), partial_bytes(&cloud, "node-2")), (0, 0));
}

#[test]
fn a_put_ends_well_by_itself_when_its_node_is_killed() {
    let cloud = Cloud::start(&["--processes", "--nodes", "2", "--sites", "2"]);
    let file = cloud.random_file("in", BYTES);
    let (mut child, node) = begin_put(&cloud, file.to_str().unwrap());
    kill(cloud.node_pid(&node));
    // That node does not come back; once the master has given it up, the other one takes it all.
    assert!(child.wait().unwrap().success());
    cloud.ok(&["get", "/in", "out"]);
    assert!(fs::read(cloud.folder().join("out")).unwrap() == random_bytes(BYTES));
}

// Promise 7.
#[test]
fn an_append_writes_behind_and_creates_where_nothing_is() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let (first, second) = (cloud.random_file("first", 3_000_001), cloud.random_file("second", 2_000_003));
    cloud.ok(&["put", "--append", first.to_str().unwrap(), "/log"]);
    let version = cloud.json(&["stat", "/log"])["version"].as_u64().unwrap();
    cloud.ok(&["put", "--append", second.to_str().unwrap(), "/log"]);
    let mut child = cloud.command(&["put", "--append", "-", "/log"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"the end").unwrap();
    assert!(child.wait().unwrap().success());
    let whole = [&random_bytes(3_000_001)[..], &random_bytes(2_000_003), b"the end"].concat();
    assert!(cloud.run(&["cat", "/log"]).out == whole);
    assert!(cloud.json(&["stat", "/log"])["version"].as_u64().unwrap() > version);
    cloud.until("both nodes have the whole", |cloud| cloud.good_copies("/log").len() == 2);
}

// Promise 4.
#[test]
fn a_condition_that_does_not_hold_has_its_exit_code_and_changes_nothing() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let (old, new) = (cloud.file("old", "old"), cloud.file("new", "new"));
    let (old, new) = (old.to_str().unwrap(), new.to_str().unwrap());
    cloud.ok(&["put", "--if-absent", old, "/f"]);
    let version = cloud.json(&["stat", "/f"])["version"].as_u64().unwrap().to_string();
    cloud.fails(7, &["put", "--if-absent", new, "/f"]);
    cloud.fails(7, &["put", "--if-absent", old, "/f"]);
    cloud.fails(4, &["put", "--if-version", "1", new, "/f"]);
    cloud.fails(3, &["put", "--if-version", "1", new, "/none"]);
    assert_eq!(cloud.ok(&["cat", "/f"]), "old");
    cloud.ok(&["put", "--if-version", &version, new, "/f"]);
    assert_eq!(cloud.ok(&["cat", "/f"]), "new");
    cloud.fails(4, &["put", "--append", "--if-version", &version, old, "/f"]);
    cloud.fails(2, &["put", "--if-absent", "--if-version", "1", new, "/f"]);
}
