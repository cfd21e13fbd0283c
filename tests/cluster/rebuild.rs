//! The master's disk is lost, and files are taken in that lie on a node: with real processes and real disks.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::PathBuf,
};

use cluster::{Cloud, Roles, kill, random_bytes};
use serde_json::Value;

fn journal(cloud: &Cloud) -> PathBuf {
    cloud.folder().join("data/master/journal.redb")
}

/// Every entry but for what changes from one look to the next.
fn everything(cloud: &Cloud) -> Vec<(Value, Value, Value)> {
    let listed = cloud.json(&["ls", "-R", "-l", "/"]);
    let mut entries: Vec<_> = listed.as_array().unwrap().clone();
    entries.sort_by_key(|entry| entry["path"].as_str().unwrap().to_owned());
    let shape = |entry: &Value| (entry["path"].clone(), entry["owner"].clone(), entry["digest"].clone());
    entries.iter().map(shape).collect()
}

fn master_pid(cloud: &Cloud) -> u32 {
    let settings = cloud.folder().join("data/master/settings.toml");
    let settings = settings.to_str().unwrap().to_owned();
    let of = |process: &fs::DirEntry| -> Option<u32> {
        let words = fs::read_to_string(process.path().join("cmdline")).ok()?;
        let is_it = words.contains("\0master\0") && words.contains(&settings);
        is_it.then(|| process.file_name().to_str()?.parse().ok()).flatten()
    };
    fs::read_dir("/proc").unwrap().flatten().find_map(|process| of(&process)).expect("the master's process")
}

fn settled(cloud: &Cloud) {
    cloud.until("the names are rebuilt", |cloud| cloud.json(&["rebuild", "status"])["state"] == "settled");
}

/// Makes folders below `/last` until every node keeps all that was done before.
fn kept_by_three_nodes(cloud: &Cloud) {
    // What was on its way to a node at one change has arrived when it writes for the next but one.
    for last in ["/last", "/last/but", "/last/but/one"] {
        let begun = std::time::SystemTime::now();
        cloud.ok(&["mkdir", last]);
        cloud.until("every node keeps the folders", |cloud| {
            let kept = |node: u32| cloud.node_folder(&format!("node-{node}")).join("kept.redb");
            let is_written = |node| fs::metadata(kept(node)).is_ok_and(|kept| kept.modified().unwrap() > begun);
            cloud.json(&["nodes"]).is_array() && (1..=3).all(is_written)
        });
    }
}

// Promise 17.
#[test]
fn a_cloud_that_lost_its_masters_disk_has_everything_back() {
    let cloud = Cloud::start(&["--processes", "--nodes", "3", "--sites", "3"]);
    let file = cloud.random_file("a", 300_000);
    cloud.ok(&["mkdir", "-p", "/empty/deep"]);
    for number in 0..20 {
        cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), &format!("/x/{number}")]);
    }
    cloud.ok(&["rm", "/x/3"]);
    cloud.ok(&["mv", "/x/4", "/x/moved"]);
    let before = everything(&cloud);
    kept_by_three_nodes(&cloud);
    kill(master_pid(&cloud));
    cloud.until("nobody answers", |cloud| cloud.run(&["ls", "/"]).code == 5);
    cloud.run(&["down"]);
    fs::remove_file(journal(&cloud)).unwrap();
    cloud.up();
    settled(&cloud);
    let mut after = everything(&cloud);
    after.retain(|(path, ..)| !path.as_str().unwrap().starts_with("/last"));
    assert_eq!(after, before);
    assert_eq!(cloud.run(&["cat", "/x/moved"]).out, random_bytes(300_000));
    let status = cloud.json(&["rebuild", "status"]);
    assert_eq!((&status["generation"], &status["missing"]), (&2.into(), &Value::Array(vec![])));
    // It goes on as any other cloud.
    cloud.ok(&["put", file.to_str().unwrap(), "/x/new"]);
    cloud.ok(&["rm", "-r", "/empty"]);
    cloud.down();
    cloud.up();
    assert_eq!(cloud.json(&["rebuild", "status"])["state"], "settled");
    cloud.fails(3, &["stat", "/empty"]);
}

// Promise 17.
#[test]
fn a_master_that_is_stopped_gives_its_last_changes_to_the_nodes_before_it_ends() {
    let mut roles = Roles::start(2, 1);
    for number in 0..3 {
        let folder = format!("/closed-{number}");
        roles.ok(&["mkdir", &folder]);
        roles.ok(&["acl", "set", &folder, "user:bob:r", "--unknown"]);
        // At once: what a node was not given by now, only this master's disk has.
        roles.stop("master");
        fs::remove_file(roles.role_folder("master").join("journal.redb")).unwrap();
        roles.run_role("master");
        settled(&roles);
        for folder in (0..=number).map(|number| format!("/closed-{number}")) {
            assert_eq!(roles.json(&["acl", "get", &folder])["text"], "user:bob:r", "{folder} after {number}");
        }
    }
}

// Promise 17.
#[test]
fn an_older_copy_of_the_masters_folder_costs_nothing_that_was_done_since() {
    let cloud = Cloud::start(&["--nodes", "3", "--sites", "3"]);
    let file = cloud.random_file("a", 300_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/a"]);
    cloud.down();
    let master = journal(&cloud).parent().unwrap().to_owned();
    let copy = cloud.folder().join("copy-of-the-master");
    copy_folder(&master, &copy);
    cloud.up();
    cloud.ok(&["put", file.to_str().unwrap(), "/b"]);
    cloud.ok(&["mkdir", "-p", "/private/empty"]);
    cloud.ok(&["acl", "set", "/private", "user:nobody-else:r", "--unknown"]);
    cloud.ok(&["rm", "/a"]);
    let before = everything(&cloud);
    let acl = cloud.json(&["acl", "get", "/private"]);
    kept_by_three_nodes(&cloud);
    cloud.down();
    fs::remove_dir_all(&master).unwrap();
    copy_folder(&copy, &master);
    cloud.up();
    settled(&cloud);
    let mut after = everything(&cloud);
    after.retain(|(path, ..)| !path.as_str().unwrap().starts_with("/last"));
    assert_eq!(after, before);
    assert_eq!(cloud.json(&["acl", "get", "/private"]), acl);
    assert_eq!(cloud.run(&["cat", "/b"]).out, random_bytes(300_000));
    assert_eq!(cloud.json(&["rebuild", "status"])["conflicts"], Value::Array(vec![]));
    cloud.ok(&["trash", "restore", "/a"]);
    assert_eq!(cloud.run(&["cat", "/a"]).out, random_bytes(300_000));
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn a_journal_is_set_aside_only_where_no_master_runs() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let file = cloud.file("f", "content");
    cloud.ok(&["put", file.to_str().unwrap(), "/f"]);
    let settings = cloud.folder().join("data/master/settings.toml");
    let rebuild = ["master", "rebuild", "--config", settings.to_str().unwrap()];
    let errors = cloud.fails(4, &rebuild);
    assert!(errors.contains("in use"), "{errors}");
    cloud.until("the slice is at its path", |cloud| cloud.node_folder("node-1").join("slices/f").exists());
    cloud.down();
    let said = cloud.ok(&rebuild);
    assert!(said.contains("journal.redb.aside-1"), "{said}");
    assert!(!journal(&cloud).exists() && journal(&cloud).with_extension("redb.aside-1").exists());
    cloud.fails(3, &rebuild);
    cloud.up();
    settled(&cloud);
    assert_eq!(cloud.ok(&["cat", "/f"]), "content");
}

// Promise 8.
#[test]
fn files_that_lie_on_a_node_are_taken_in_where_they_are() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let folder = cloud.node_folder("node-1").join("import/survey");
    fs::create_dir_all(folder.join("deep")).unwrap();
    for name in ["a", "deep/b", "c"] {
        fs::write(folder.join(name), random_bytes(200_000 + name.len())).unwrap();
    }
    symlink("/etc/passwd", folder.join("link")).unwrap();
    let inode = fs::metadata(folder.join("a")).unwrap().ino();
    let import = |extra: &[&str], from: &str| {
        let words = [&["import", "--node", "node-1"][..], extra, &[from, "/sky"][..]].concat();
        cloud.run(&words)
    };
    // Nothing outside can be named.
    for from in ["/etc", "../slices", "survey/../../.."] {
        assert_eq!(import(&[], from).code, 4, "{from}");
    }
    assert_eq!(import(&[], "absent").code, 3);
    let ended = import(&["--json"], "survey");
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let done: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!(done.as_array().unwrap().len(), 3, "and not the link");
    assert_eq!(cloud.run(&["cat", "/sky/deep/b"]).out, random_bytes(200_006));
    assert!(!folder.join("a").exists(), "it has given its name up");
    let placed = cloud.node_folder("node-1").join("slices/sky/a");
    cloud.until("the slice is at its path", |_| placed.exists());
    assert_eq!(fs::metadata(&placed).unwrap().ino(), inode, "no byte was copied");
    assert_eq!(cloud.good_copies("/sky/a").len(), 2, "and the second copy was synced");

    // A path that is taken is not replaced unless it is said, and the file stays.
    fs::write(folder.join("a"), "new").unwrap();
    assert_eq!(import(&[], "survey").code, 7);
    assert!(folder.join("a").exists());
    assert_eq!(import(&["--force", "--keep"], "survey").code, 0);
    assert_eq!((cloud.ok(&["cat", "/sky/a"]).as_str(), fs::read(folder.join("a")).unwrap()), ("new", b"new".to_vec()));
}

#[test]
fn damaged_copies_are_told_and_repaired_while_nobody_uses_them() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let file = cloud.random_file("f", 200_000);
    for path in ["/a", "/b"] {
        cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), path]);
    }
    let folder = cloud.node_folder("node-1");
    let (bytes, sidecar) = (folder.join("slices/a"), folder.join("slices/.b.sector"));
    cloud.until("both slices are at their paths", |_| bytes.exists() && sidecar.exists());
    let inspect = |kind: &str, extra: &str, at: &std::path::Path| {
        let words = ["inspect", kind, "--json", extra, at.to_str().unwrap()];
        cloud.run(&words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>())
    };
    assert_eq!(inspect("inventory", "", &folder).code, 4, "a node uses it");
    assert_eq!(inspect("journal", "", &journal(&cloud)).code, 4, "a master uses it");
    cloud.down();

    let found: Value = serde_json::from_slice(&inspect("journal", "", &journal(&cloud)).out).unwrap();
    assert_eq!((&found["files"], &found["problems"]), (&2.into(), &Value::Array(vec![])));
    assert_eq!(inspect("inventory", "--check", &folder).code, 0);
    let flip = |file: &std::path::Path, at: usize| {
        let mut content = fs::read(file).unwrap();
        content[at] ^= 1;
        fs::write(file, content).unwrap();
    };
    flip(&bytes, 100_000);
    flip(&sidecar, 30);
    let ended = inspect("inventory", "--check", &folder);
    assert_eq!(ended.code, 6);
    let found: Value = serde_json::from_slice(&ended.out).unwrap();
    let damaged = found["problems"].as_array().unwrap().iter().filter(|problem| problem["is_damage"] == true);
    assert_eq!(damaged.count(), 2, "{found}");
    assert_eq!(inspect("sidecar", "", &sidecar).code, 6);
    assert_eq!(inspect("sidecar", "--check", &folder.join("slices/.a.sector")).code, 6);
    let ended = inspect("sidecar", "--repair", &sidecar);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let made: Value = serde_json::from_slice(&ended.out).unwrap();
    assert!(made["lost"].as_str().unwrap().contains("owner") && made["sidecar"]["path"] == "/b", "{made}");
    // Both files are whole again from the other node, and what was made anew is not mistaken for the file.
    cloud.up();
    for path in ["/a", "/b"] {
        assert_eq!(cloud.run(&["cat", path]).out, random_bytes(200_000));
    }
    cloud.until("the made one is listed", |cloud| {
        let conflicts = &cloud.json(&["rebuild", "status"])["conflicts"];
        conflicts.as_array().unwrap().iter().any(|conflict| conflict["kind"] == "written-since")
    });
}
