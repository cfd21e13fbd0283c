//! Folders that become equal: both directions, within the cloud, what is removed, and what never is.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::net::UnixListener,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cluster::{Cloud, Roles, random_bytes};

use crate::uploads::partial_bytes;

fn small() -> Cloud {
    Cloud::start(&["--nodes", "2", "--sites", "2"])
}

/// All files below a folder of this machine, with their bytes.
fn local_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for item in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = item.file_name().to_str().unwrap().to_owned();
        match item.file_type().unwrap().is_dir() {
            true => files
                .extend(local_files(&item.path()).into_iter().map(|(file, bytes)| (format!("{name}/{file}"), bytes))),
            false => drop(files.insert(name, fs::read(item.path()).unwrap())),
        }
    }
    files
}

/// All entries below a folder of the cloud, with the versions of files.
fn versions(cloud: &Cloud, folder: &str) -> Vec<(String, String)> {
    let entries = cloud.json(&["ls", "-R", folder]);
    let entry = |entry: &serde_json::Value| (entry["path"].as_str().unwrap().to_owned(), entry["version"].to_string());
    entries.as_array().unwrap().iter().map(entry).collect()
}

/// The lines of a dry run.
fn planned(cloud: &Cloud, arguments: &[&str]) -> Vec<String> {
    let words = [&["sync", "--dry-run"], arguments].concat();
    cloud.ok(&words).lines().map(str::to_owned).collect()
}

/// `src` with some files, and `/there` with the same.
fn both_alike(cloud: &Cloud) {
    for name in ["a.txt", "sub/b.txt", "sub/deep/c.bin"] {
        cloud.file(&format!("src/{name}"), name);
    }
    cloud.ok(&["sync", "src", "sector://there"]);
}

#[test]
fn a_local_folder_goes_to_the_cloud_and_back_and_a_second_run_sends_nothing() {
    let cloud = small();
    both_alike(&cloud);
    fs::create_dir_all(cloud.folder().join("src/empty/inner")).unwrap();
    let up = cloud.json(&["sync", "src", "sector://there"]);
    assert_eq!((up["files"].as_u64(), up["skipped"].as_u64(), up["deleted"].as_u64()), (Some(3), Some(3), Some(0)));
    assert_eq!(cloud.json(&["stat", "/there/empty/inner"])["kind"], "folder", "made in the second run");
    let before = versions(&cloud, "/there");
    cloud.file("src/a.txt", "A.TXT");
    cloud.file("src/new", "new");
    assert_eq!(planned(&cloud, &["src", "sector://there"]), ["new new", "changed a.txt"]);
    let up = cloud.json(&["sync", "src", "sector://there"]);
    assert_eq!((up["files"].as_u64(), up["skipped"].as_u64()), (Some(4), Some(2)));
    let (after, unchanged) =
        (versions(&cloud, "/there"), |path: &str| before.iter().find(|(at, _)| at == path).cloned());
    for (path, version) in &after {
        let is_same = unchanged(path) == Some((path.clone(), version.clone()));
        assert_eq!(is_same, path != "/there/a.txt" && path != "/there/new", "{path}");
    }
    for checksum in [&[][..], &["--checksum"]] {
        assert!(planned(&cloud, &[checksum, &["src", "sector://there"]].concat()).is_empty());
    }

    cloud.ok(&["sync", "sector://there", "back"]);
    assert_eq!(local_files(&cloud.folder().join("back")), local_files(&cloud.folder().join("src")));
    assert!(cloud.folder().join("back/empty/inner").is_dir());
    cloud.file("back/a.txt", "other");
    let down = cloud.json(&["sync", "sector://there/", "back/"]);
    assert_eq!((down["files"].as_u64(), down["skipped"].as_u64()), (Some(4), Some(3)), "what differs is replaced");
    assert_eq!(fs::read_to_string(cloud.folder().join("back/a.txt")).unwrap(), "A.TXT");
    assert!(planned(&cloud, &["sector://there", "back"]).is_empty());
}

#[test]
fn a_folder_of_the_cloud_becomes_equal_to_another_by_copies_between_nodes() {
    let cloud = small();
    both_alike(&cloud);
    cloud.ok(&["put", cloud.file("old", "old").to_str().unwrap(), "/copy/old"]);
    let copied = cloud.json(&["sync", "--delete", "sector://there", "sector://copy"]);
    assert_eq!((copied["files"].as_u64(), copied["deleted"].as_u64()), (Some(3), Some(1)));
    assert_eq!(cloud.ok(&["find", "/copy"]), "/copy/a.txt\n/copy/sub/b.txt\n/copy/sub/deep/c.bin\n");
    assert_eq!(cloud.ok(&["cat", "/copy/sub/b.txt"]), "sub/b.txt");
    let before = versions(&cloud, "/copy");
    let again = cloud.json(&["sync", "--delete", "--checksum", "sector://there", "sector://copy"]);
    assert_eq!((again["skipped"].as_u64(), again["deleted"].as_u64()), (Some(3), Some(0)));
    assert_eq!(versions(&cloud, "/copy"), before);
}

#[test]
fn what_the_source_lacks_goes_to_the_trash_with_delete_and_excluded_files_stay() {
    let cloud = small();
    both_alike(&cloud);
    fs::remove_file(cloud.folder().join("src/a.txt")).unwrap();
    fs::remove_dir_all(cloud.folder().join("src/sub/deep")).unwrap();
    for name in ["kept.log", "gone/kept.log", "gone/x"] {
        cloud.ok(&["put", cloud.file("x", name).to_str().unwrap(), &format!("/there/{name}")]);
    }
    let all = versions(&cloud, "/there");
    cloud.ok(&["sync", "src", "sector://there"]);
    assert_eq!(versions(&cloud, "/there"), all, "nothing is removed unless that is asked for");
    let arguments = ["--delete", "--exclude", "*.log", "src", "sector://there"];
    assert_eq!(
        planned(&cloud, &arguments),
        ["remove a.txt", "remove gone/x", "remove sub/deep/c.bin", "remove-folder sub/deep/"]
    );
    let ended = cloud.run(&[&["sync"][..], &arguments].concat());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert!(ended.errors.contains("sync: 1 file, 9 B, 1 skipped, 3 deleted"), "{}", ended.errors);
    assert_eq!(cloud.ok(&["find", "/there"]), "/there/gone/kept.log\n/there/kept.log\n/there/sub/b.txt\n");
    cloud.fails(3, &["stat", "/there/sub/deep"]);
    cloud.ok(&["trash", "restore", "/there/a.txt"]);
    assert_eq!(cloud.ok(&["cat", "/there/a.txt"]), "a.txt");

    // In the other direction, local files are removed, and no link or socket is.
    cloud.ok(&["sync", "--include", "*.txt", "sector://there", "back"]);
    assert_eq!(local_files(&cloud.folder().join("back")).len(), 2, "what an include names, and nothing else");
    for name in ["more.txt", "old/y.txt", "kept.log", "linked/z.txt"] {
        cloud.file(&format!("back/{name}"), name);
    }
    std::os::unix::fs::symlink("../x", cloud.folder().join("back/linked/link.txt")).unwrap();
    let down = cloud.json(&["sync", "--delete", "--exclude", "*.log", "sector://there", "back"]);
    assert_eq!(down["deleted"], 3, "{down}");
    let back = cloud.folder().join("back");
    assert!(back.join("kept.log").exists() && back.join("linked/link.txt").is_symlink());
    let again = cloud.run(&["sync", "--delete", "--exclude", "*.log", "sector://there", "back"]);
    assert!(again.errors.contains("back/linked/link.txt` stays, since it is a link"), "{}", again.errors);
    assert!(!back.join("old").exists() && !back.join("more.txt").exists() && !back.join("linked/z.txt").exists());
}

#[test]
fn a_dry_run_changes_nothing_and_says_in_order_what_would_be_done() {
    let cloud = small();
    both_alike(&cloud);
    cloud.file("src/z", "new");
    cloud.file("src/m/x", "new");
    cloud.file("src/a.txt", "longer than before");
    cloud.ok(&["put", cloud.file("old", "old").to_str().unwrap(), "/there/old"]);
    let (before, src) = (versions(&cloud, "/"), local_files(&cloud.folder().join("src")));
    let up = ["--delete", "src", "sector://there"];
    let expected = ["make-folder m/", "new m/x", "new z", "changed a.txt", "remove old"];
    assert_eq!(planned(&cloud, &up), expected);
    let document = cloud.json(&[&["sync", "--dry-run"][..], &up].concat());
    let actions: Vec<_> = document["actions"].as_array().unwrap().iter().collect();
    assert_eq!(actions.len(), expected.len());
    assert_eq!(
        (&actions[3]["action"], &actions[3]["path"], &actions[3]["bytes"]),
        (&"changed".into(), &"a.txt".into(), &18.into())
    );
    let down = ["--delete", "sector://there", "src"];
    assert_eq!(planned(&cloud, &down), ["new old", "changed a.txt", "remove m/x", "remove z", "remove-folder m/"]);
    assert_eq!(planned(&cloud, &["sector://there", "nowhere"]).len(), 7, "three folders with the first, four files");
    assert!(!cloud.folder().join("nowhere").exists());
    assert_eq!((versions(&cloud, "/"), local_files(&cloud.folder().join("src"))), (before, src));
}

#[test]
fn nothing_is_removed_where_a_file_could_not_go_or_a_folder_could_not_be_made() {
    let cloud = small();
    both_alike(&cloud);
    cloud.ok(&["put", cloud.file("old", "old").to_str().unwrap(), "/there/old"]);
    cloud.file("src/.x.sector", "its name cannot be one");
    cloud.file("src/new", "it goes all the same");
    let up = ["sync", "--delete", "src", "sector://there"];
    assert_eq!(cloud.fails(2, &[&up[..], &["--dry-run"]].concat()).lines().count(), 1);
    let said = cloud.fails(2, &up);
    assert!(said.contains("nothing was removed") && said.contains(".x.sector"), "{said}");
    assert_eq!(cloud.ok(&["cat", "/there/new", "/there/old"]), "it goes all the sameold");
    // A filter leaves the name out: then all goes well.
    cloud.ok(&[&up[..], &["--exclude", ".*"]].concat());
    cloud.fails(3, &["stat", "/there/old"]);

    fs::create_dir(cloud.folder().join("back")).unwrap();
    let _socket = UnixListener::bind(cloud.folder().join("back/sub")).unwrap();
    cloud.file("back/old", "old");
    let said = cloud.run(&["sync", "--delete", "sector://there", "back"]);
    assert_ne!(said.code, 0);
    assert!(cloud.folder().join("back/old").exists() && cloud.folder().join("back/a.txt").exists(), "{}", said.errors);
}

#[test]
fn no_local_file_is_removed_while_the_names_of_the_cloud_are_rebuilt() {
    let mut roles = Roles::start(2, 1);
    both_alike(&roles);
    roles.ok(&["sync", "sector://there", "back"]);
    roles.stop("master");
    roles.kill("node-2");
    fs::remove_file(roles.role_folder("master").join("journal.redb")).unwrap();
    roles.run_role("master");
    roles.until("the names are being rebuilt", |cloud| {
        let status = cloud.run(&["rebuild", "status", "--json"]);
        status.code == 0 && status.text().contains("\"running\"")
    });
    let refused = roles.fails(5, &["sync", "--delete", "--force", "sector://there", "back"]);
    assert!(refused.contains("sector rebuild status"), "{refused}");
    assert_eq!(local_files(&roles.folder().join("back")).len(), 3);
}

#[test]
fn times_of_change_go_with_files_and_say_which_need_not_be_read() {
    let cloud = small();
    let changed = UNIX_EPOCH + Duration::from_millis(1_600_000_000_123);
    let write = |name: &str, text: &str, time: SystemTime| {
        let file = cloud.file(name, text);
        fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    };
    let modified = |name: &str| fs::metadata(cloud.folder().join(name)).unwrap().modified().unwrap();
    write("src/a", "one", changed);
    write("src/tomorrow", "x", SystemTime::now() + Duration::from_secs(86_400));
    cloud.ok(&["put", "-r", "src", "/there"]);
    assert_eq!(cloud.json(&["stat", "/there/a"])["modified"], "2020-09-13T12:26:40.123Z");
    cloud.ok(&["get", "-r", "/there", "back"]);
    assert_eq!(modified("back/a"), changed);
    assert!(modified("back/tomorrow") < modified("src/tomorrow"), "the cloud has no files of tomorrow");
    // The same length and time in both directions: the other bytes are not even read.
    for (file, folders) in [("src/a", ["src", "sector://there"]), ("back/a", ["sector://there", "back"])] {
        write(file, "two", changed);
        assert!(planned(&cloud, &folders).is_empty());
        assert_eq!(planned(&cloud, &[&["--checksum"], &folders[..]].concat()), ["changed a"]);
        write(file, "one", changed + Duration::from_secs(7));
        assert!(planned(&cloud, &folders).is_empty(), "another time alone is no change: the digests are alike");
        write(file, "two", changed + Duration::from_secs(7));
        assert_eq!(planned(&cloud, &folders), ["changed a"]);
    }
    cloud.ok(&["sync", "sector://there", "back"]);
    assert_eq!(
        (fs::read_to_string(cloud.folder().join("back/a")).unwrap(), modified("back/a")),
        ("one".into(), changed)
    );
    cloud.ok(&["cp", "/there/a", "/copy"]);
    assert_ne!(cloud.json(&["stat", "/copy"])["modified"], "2020-09-13T12:26:40.123Z", "a copy is made today");
}

#[test]
fn what_makes_no_sense_or_would_empty_a_folder_by_mistake_is_refused() {
    let cloud = small();
    both_alike(&cloud);
    let before = versions(&cloud, "/");
    fs::create_dir(cloud.folder().join("empty")).unwrap();
    for arguments in [
        &["--delete", "empty", "sector://there"][..],
        &["--delete", "--include", "*.none", "src", "sector://there"],
        &["sector://there", "sector://there/sub"],
        &["sector://there/sub", "sector://there"],
        &["sector://there", "sector://there"],
        &["src", "back"],
        &["src/a.txt", "sector://there"],
        &["sector://there/a.txt", "back"],
        &["src", "sector://there/a.txt"],
        &["--exclude", "a[", "src", "sector://there"],
        &["--force", "src", "sector://there"],
    ] {
        cloud.fails(2, &[&["sync"], arguments].concat());
    }
    for (words, line) in [
        (["src", "/there"], "`src` to `sector://there`"),
        (["/there", "src"], "`sector://there` to `src`"),
        (["nowhere", "back"], "`nowhere` to `sector://back`"),
    ] {
        let refused = cloud.run(&["sync", words[0], words[1]]);
        assert!(refused.code == 2 && refused.errors.contains(line), "{}", refused.errors);
    }
    cloud.fails(3, &["sync", "nowhere", "sector://there"]);
    cloud.fails(3, &["sync", "--delete", "nowhere", "sector://there"]);
    cloud.fails(3, &["sync", "sector://nowhere", "back"]);
    assert_eq!(versions(&cloud, "/"), before);
    assert!(!cloud.folder().join("back").exists());
    let forced = cloud.json(&["sync", "--delete", "--force", "empty", "sector://there"]);
    assert_eq!(forced["deleted"], 3);
    assert_eq!(cloud.ok(&["ls", "/there"]), "");
}

#[test]
fn a_sync_that_was_interrupted_goes_on_when_it_is_typed_again() {
    let cloud = small();
    cloud.file("src/small", "small");
    cloud.random_file("src/large", 192 << 20);
    // Slow enough that it is still at it when the signal comes.
    let words = ["sync", "--limit", "16MB/s", "src", "sector://there"];
    let mut child = cloud.command(&words).stderr(Stdio::null()).spawn().unwrap();
    cloud.until("a node has a part of it, and the small file is there", |cloud| {
        let has_part = |node: &&str| partial_bytes(cloud, node) > 8 << 20;
        ["node-1", "node-2"].iter().any(has_part) && cloud.run(&["stat", "/there/small"]).code == 0
    });
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    cloud.fails(3, &["stat", "/there/large"]);
    let again = cloud.run(&["sync", "src", "sector://there"]);
    assert_eq!(again.code, 0, "{}", again.errors);
    assert!(again.errors.contains("1 skipped") && again.errors.contains("had arrived before"), "{}", again.errors);
    cloud.ok(&["get", "/there/large", "out"]);
    assert!(fs::read(cloud.folder().join("out")).unwrap() == random_bytes(192 << 20));
}
