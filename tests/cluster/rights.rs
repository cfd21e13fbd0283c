//! Rights, through the command line and on real disks.

use std::fs;

use cluster::Cloud;

#[test]
fn rights_are_said_inherited_taken_away_and_there_again_after_a_restart() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let file = cloud.file("in", "some bytes");
    cloud.ok(&["put", file.to_str().unwrap(), "/d/f"]);
    let before = cloud.json(&["acl", "get", "/d/f"]);
    assert_eq!(
        (before["text"].as_str(), &before["own"], before["from"].is_null()),
        (Some("everyone:rx"), &false.into(), true)
    );
    let typo = cloud.fails(3, &["acl", "set", "/d", "user:alise:r"]);
    assert!(typo.contains("no user `alise`"), "{typo}");
    let typo = cloud.fails(3, &["acl", "add", "/d", "group:asto:r"]);
    assert!(typo.contains("no group `asto`"), "{typo}");
    cloud.fails(3, &["acl", "owner", "/d", "alise"]);
    cloud.fails(3, &["quota", "set", "alise", "bytes=1TB"]);
    cloud.ok(&["quota", "set", "alise", "bytes=1TB", "--unknown"]);
    cloud.fails(3, &["quota", "clear", "alice"]);
    cloud.ok(&["quota", "clear", "alise"]);
    cloud.fails(3, &["user", "add", "zoe", "--service", "--group", "asto"]);
    cloud.ok(&["user", "add", "zoe", "--service"]);
    cloud.ok(&["group", "add", "geo"]);
    let typos = cloud.fails(3, &["group", "join", "geo", "zo", "zoe", "zooe"]);
    assert!(typos.contains("no user `zo`") && typos.contains("no user `zooe`"), "{typos}");
    assert_eq!(cloud.json(&["group", "list"])[0]["members"][0], "zoe", "a mistyped name holds up no other");
    cloud.fails(3, &["group", "join", "gep", "zoe"]);
    cloud.ok(&["acl", "set", "/d", "group:astro:r,user:alice:wr", "--unknown"]);
    cloud.ok(&["acl", "set", "/d/f", "user:bob:r", "--unknown"]);
    cloud.ok(&["acl", "add", "/d/f", "user:bob:x", "--unknown"]);
    assert_eq!(cloud.json(&["acl", "get", "/d/f"])["text"], "user:bob:rx", "a right was added, and none taken");
    let of_folder = cloud.json(&["acl", "get", "/d"]);
    assert_eq!(of_folder["text"], "user:alice:rw,group:astro:r");
    assert_eq!(of_folder["acl"][1]["who"], "group:astro");
    assert_eq!((&of_folder["own"], &of_folder["from"]), (&true.into(), &"/d".into()));
    assert!(cloud.ok(&["ls", "-l", "/"]).contains(" +"), "an entry with rights of its own is marked");
    assert_eq!(cloud.json(&["stat", "/d/f"])["acl"], true);
    // Beside the bytes, on every node.
    let sidecar = |node: &str| fs::read(cloud.node_folder(node).join("slices/d/.f.sector")).unwrap();
    for node in ["node-1", "node-2"] {
        cloud.until("the sidecar says so", |_| sidecar(node).windows(3).any(|name| name == b"bob"));
    }
    cloud.down();
    cloud.up();
    assert_eq!(cloud.json(&["acl", "get", "/d/f"])["text"], "user:bob:rx");
    cloud.ok(&["acl", "remove", "/d/f", "user:bob"]);
    assert_eq!(cloud.json(&["acl", "get", "/d/f"])["text"], "none", "what is taken away opens nothing");
    cloud.fails(3, &["acl", "remove", "/d/f", "user:bob"]);
    cloud.ok(&["acl", "clear", "/d/f"]);
    let inherited = cloud.json(&["acl", "get", "/d/f"]);
    assert_eq!((&inherited["text"], &inherited["from"]), (&of_folder["text"], &"/d".into()));
    cloud.fails(2, &["acl", "set", "/d/f", "alice:rw"]);
    cloud.fails(3, &["acl", "get", "/nothing"]);
}
