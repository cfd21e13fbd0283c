//! Policies, trash and quotas through the command line.

use std::fs;

use cluster::Cloud;

fn small() -> Cloud {
    Cloud::start(&["--nodes", "2", "--sites", "2"])
}

// Promise 30.
#[test]
fn what_was_removed_comes_back_from_the_trash_byte_for_byte_also_after_a_restart() {
    let cloud = small();
    let file = cloud.random_file("in", 100_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/a/in"]);
    cloud.ok(&["put", file.to_str().unwrap(), "/a/b/in"]);
    cloud.ok(&["rm", "-r", "/a"]);
    assert_eq!(cloud.ok(&["ls", "/"]), "");
    assert_eq!(cloud.ok(&["ls", "-R", "/"]), "");
    assert_eq!(cloud.ok(&["tree", "/"]), "/\n");
    assert_eq!(cloud.json(&["du", "/"])[0]["files"], 0);
    cloud.fails(3, &["find", "/**"]);
    assert_eq!(cloud.ok(&["find", "/.trash"]).lines().count(), 2, "where it is named it shows");
    cloud.down();
    cloud.up();
    let trash = cloud.json(&["trash", "list"]);
    assert_eq!((trash[0]["path"].as_str(), trash[0]["kind"].as_str()), (Some("/a"), Some("folder")));
    cloud.ok(&["trash", "restore", "/a"]);
    cloud.ok(&["get", "-f", "/a/b/in", "out"]);
    assert_eq!(fs::read(cloud.folder().join("out")).unwrap(), fs::read(&file).unwrap());

    cloud.ok(&["rm", "/a/in"]);
    cloud.ok(&["put", file.to_str().unwrap(), "/a/in"]);
    let said = cloud.fails(7, &["trash", "restore", "/a/in"]);
    assert!(said.contains("--to"), "{said}");
    cloud.ok(&["mkdir", "/other"]);
    cloud.ok(&["trash", "restore", "/a/in", "--to", "/other/"]);
    cloud.ok(&["stat", "/other/in"]);
}

// Promise 30b.
#[test]
fn what_was_overwritten_is_listed_and_copied_back_byte_for_byte() {
    let cloud = small();
    let (old, new) = (cloud.random_file("old", 100_000), cloud.random_file("new", 50_000));
    let put = |file: &std::path::Path, at: &str| cloud.ok(&["put", file.to_str().unwrap(), at]);
    let sizes = |at: &str| {
        let versions = cloud.json(&["versions", at]);
        versions.as_array().unwrap().iter().map(|version| version["size_bytes"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    put(&old, "/a/in");
    put(&new, "/a/in");
    let version = cloud.json(&["versions", "/a/in"])[0].clone();
    let at = version["trash_path"].as_str().unwrap();
    assert_eq!((sizes("/a/in"), version["replaced_by"].as_str()), (vec![100_000], Some("admin")));
    assert!(cloud.ok(&["versions", "/a/in"]).contains(at));
    assert_eq!(cloud.json(&["trash", "list"]).as_array().unwrap().len(), 0);
    let said = cloud.fails(7, &["trash", "restore", at]);
    assert!(said.contains("sector cp"), "{said}");
    cloud.ok(&["cp", at, "/a/in"]);
    cloud.ok(&["get", "-f", "/a/in", "out"]);
    assert_eq!(fs::read(cloud.folder().join("out")).unwrap(), fs::read(&old).unwrap());
    assert_eq!(sizes("/a/in"), [100_000_u64, 50_000]);
    put(&new, "/b");
    cloud.ok(&["mv", "/b", "/a/in"]);
    assert_eq!(sizes("/a/in"), [100_000_u64, 50_000, 100_000]);
    cloud.fails(3, &["versions", "/a/none"]);
    // A folder may say otherwise.
    cloud.ok(&["policy", "set", "/a", "versions=no"]);
    assert!(cloud.ok(&["policy", "get", "/a"]).lines().any(|line| line.contains("versions") && line.contains("no")));
    put(&old, "/a/other");
    put(&new, "/a/other");
    assert_eq!(sizes("/a/other").len(), 0);
    cloud.ok(&["policy", "set", "/a", "versions=1s"]);
    put(&old, "/a/other");
    cloud.until("its second is over", |_| sizes("/a/other").is_empty());
}

#[test]
fn what_is_removed_now_or_emptied_leaves_the_disks() {
    let cloud = small();
    let file = cloud.random_file("in", 100_000);
    for at in ["/now", "/later"] {
        cloud.ok(&["put", file.to_str().unwrap(), at]);
    }
    cloud.ok(&["rm", "--now", "/now"]);
    cloud.ok(&["rm", "/later"]);
    assert_eq!(cloud.json(&["trash", "list"]).as_array().unwrap().len(), 1);
    let used = |cloud: &Cloud| -> u64 {
        cloud.json(&["nodes"]).as_array().unwrap().iter().map(|node| node["used_bytes"].as_u64().unwrap()).sum()
    };
    cloud.until("only the trash takes space", |cloud| used(cloud) == 200_000);
    cloud.ok(&["trash", "empty"]);
    assert_eq!(cloud.json(&["trash", "list"]).as_array().unwrap().len(), 0);
    cloud.until("nothing does", |cloud| used(cloud) == 0);
    cloud.fails(3, &["trash", "restore", "/later"]);
}

#[test]
fn a_folders_policy_is_set_shown_inherited_and_taken_back() {
    let cloud = small();
    let file = cloud.random_file("in", 1_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/d/in"]);
    cloud.ok(&["policy", "set", "/d", "copies=1", "sync-copies=1", "lifetime=30d", "sites=site-1"]);
    cloud.until("one copy is left", |cloud| cloud.good_copies("/d/in").len() == 1);
    let policy = cloud.json(&["policy", "get", "/d/in"]);
    assert_eq!((&policy["own"]["copies"], &policy["effective"]["copies"]), (&serde_json::Value::Null, &1.into()));
    assert_eq!(policy["effective"]["lifetime_seconds"], 30 * 86_400);
    assert!(cloud.ok(&["policy", "get", "/d"]).contains("30days"));
    cloud.ok(&["policy", "set", "/d", "copies="]);
    cloud.until("two again", |cloud| cloud.good_copies("/d/in").len() == 2);
    cloud.ok(&["policy", "clear", "/d"]);
    assert!(cloud.json(&["policy", "get", "/d"])["own"]["lifetime_seconds"].is_null());
    let warned = cloud.run(&["policy", "set", "/d", "forbidden-sites=nowhere"]);
    assert!(warned.errors.contains("`nowhere`"), "{}", warned.errors);
    for wrong in ["copies=0", "copies=17", "lifetime=0s", "copies=x", "unknown=1"] {
        cloud.fails(2, &["policy", "set", "/d", wrong]);
    }
    cloud.fails(3, &["policy", "get", "/none"]);
}

// Promise 31.
#[test]
fn a_quota_refuses_what_is_too_much_and_says_what_to_do() {
    let cloud = small();
    let file = cloud.random_file("in", 100_000);
    let file = file.to_str().unwrap();
    cloud.ok(&["mkdir", "/d"]);
    cloud.ok(&["policy", "set", "/d", "quota=150KB"]);
    cloud.ok(&["put", file, "/d/one"]);
    let said = cloud.fails(4, &["put", file, "/d/two"]);
    assert!(said.contains("`/d`") && said.contains("150000 bytes"), "{said}");
    cloud.ok(&["quota", "set", "admin", "bytes=210KB", "files=10"]);
    cloud.ok(&["put", file, "/two"]);
    cloud.ok(&["rm", "/two"]);
    let said = cloud.fails(4, &["put", file, "/three"]);
    assert!(said.contains("admin") && said.contains("trash"), "{said}");
    cloud.ok(&["trash", "empty"]);
    cloud.until("there is room again", |cloud| cloud.json(&["quota", "list"])[0]["used_bytes"] == 100_000);
    cloud.ok(&["put", file, "/three"]);
    let list = cloud.json(&["quota", "list"]);
    assert_eq!(
        (&list[0]["user"], &list[0]["bytes"], &list[0]["files"]),
        (&"admin".into(), &210_000.into(), &10.into())
    );
    assert_eq!((&list[1]["folder"], &list[1]["used_files"]), (&"/d".into(), &1.into()));
    cloud.ok(&["quota", "clear", "admin"]);
    cloud.ok(&["put", file, "/four"]);
}
