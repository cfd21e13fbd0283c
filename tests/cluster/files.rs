//! Files through the command line: what goes in comes out, and what is wrong is said.

use std::{
    fs,
    io::Write,
    os::unix::fs::{FileTypeExt, PermissionsExt, symlink},
    process::Stdio,
};

use cluster::{Cloud, ended, kill, poll_until, random_bytes};

fn small() -> Cloud {
    Cloud::start(&["--nodes", "2", "--sites", "2"])
}

#[test]
fn bytes_come_back_as_they_went_whatever_their_number() {
    let cloud = small();
    for bytes in [0, 1, 65_535, 65_536, 65_537, 1 << 20, 5_000_001] {
        let file = cloud.random_file("in", bytes);
        cloud.ok(&["put", file.to_str().unwrap(), "/f/in"]);
        cloud.ok(&["get", "-f", "/f/in", "out"]);
        assert_eq!(fs::read(cloud.folder().join("out")).unwrap(), random_bytes(bytes), "{bytes} bytes");
        let stat = cloud.json(&["stat", "/f/in"]);
        assert_eq!(stat["size_bytes"], bytes);
        assert_eq!(stat["kind"], "file");
        assert_eq!(cloud.good_copies("/f/in").len(), 2, "put returns when two nodes have it");
    }
}

#[test]
fn a_range_is_the_bytes_from_first_to_last() {
    let cloud = small();
    let bytes = random_bytes(200_000);
    let file = cloud.random_file("in", 200_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/in"]);
    for (range, expected) in [
        ("0-99", 0..100),
        ("65530-65545", 65_530..65_546),
        ("199990-", 199_990..200_000),
        ("-10", 199_990..200_000),
        ("5-5", 5..6),
    ] {
        assert_eq!(cloud.run(&["cat", "--range", range, "/in"]).out, &bytes[expected], "{range}");
    }
    cloud.fails(2, &["cat", "--range", "9-5", "/in"]);
    cloud.fails(2, &["cat", "--range", "300000-300001", "/in"]);
}

#[test]
fn a_device_a_pipe_and_a_link_are_written_into_and_stay_what_they_are() {
    let cloud = small();
    let bytes = random_bytes(300_000);
    let file = cloud.random_file("in", 300_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/in"]);
    // Links to the devices: if one were replaced, the machine would not suffer.
    let at = |name: &str| cloud.folder().join(name);
    for device in ["null", "full"] {
        symlink(format!("/dev/{device}"), at(device)).unwrap();
    }
    cloud.ok(&["get", "/in", "null"]);
    cloud.ok(&["get", "-f", "/in", "null"]);
    let full = cloud.fails(1, &["get", "-f", "/in", "full"]);
    assert!(full.contains("No space left"), "{full}");
    for device in ["null", "full"] {
        assert!(fs::metadata(at(device)).unwrap().file_type().is_char_device(), "{device}");
    }
    assert_eq!(cloud.run(&["get", "-f", "/in", "/dev/stdout"]).out, bytes);
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let read = fs::File::create(at("read")).unwrap();
    let mut reader = std::process::Command::new("cat").arg(at("pipe")).stdout(read).spawn().unwrap();
    cloud.ok(&["get", "/in", "pipe"]);
    reader.wait().unwrap();
    assert_eq!(fs::read(at("read")).unwrap(), bytes);
    assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo());
    // A link stays one, and the file behind it has the bytes.
    cloud.file("real", "before");
    symlink("real", at("link")).unwrap();
    cloud.fails(7, &["get", "/in", "link"]);
    cloud.ok(&["get", "-f", "/in", "link"]);
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
    assert_eq!(fs::read(at("real")).unwrap(), bytes);
    // A file where a folder would have to be is no matter of force.
    let in_the_way = cloud.fails(1, &["get", "-f", "/in", "real/in"]);
    assert!(!in_the_way.contains("--force"), "{in_the_way}");
}

#[test]
fn a_glob_of_rm_names_folders_themselves_and_a_bad_path_holds_up_no_other() {
    let cloud = small();
    for path in ["/pro/a", "/pro/deep/b", "/prod", "/other"] {
        cloud.ok(&["put", cloud.file("in", path).to_str().unwrap(), path]);
    }
    cloud.ok(&["mkdir", "/prose"]);
    let said = cloud.fails(3, &["rm", "/nope", "/pro*", "/other"]);
    assert!(said.contains("`/pro` is a folder; remove it with `-r`") && said.contains("/prose"), "{said}");
    assert!(said.contains("/nope"), "{said}");
    assert_eq!(cloud.ok(&["ls"]), "pro/\nprose/\n", "the files went, also those behind what failed");
    cloud.ok(&["rm", "-r", "/pro*"]);
    assert_eq!(cloud.ok(&["ls"]), "");
    // And all comes back with one line.
    cloud.fails(3, &["trash", "restore", "/x*"]);
    cloud.ok(&["trash", "restore", "/pro*", "/other"]);
    assert_eq!(cloud.ok(&["ls"]), "other\npro/\nprod\nprose/\n");
    assert_eq!(cloud.ok(&["cat", "/pro/deep/b"]), "/pro/deep/b");
    // Others go on as well.
    let listed = cloud.run(&["ls", "-h", "/nope", "/pro"]);
    assert_eq!((listed.code, listed.text().as_str()), (3, "/pro/a\n/pro/deep/\n"));
    assert_eq!(cloud.run(&["find", "/nope", "/prod"]).text(), "/prod\n");
}

#[test]
fn standard_input_is_a_file_too() {
    let cloud = small();
    let mut child = cloud.command(&["put", "-", "/from/pipe"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through a pipe").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(cloud.ok(&["cat", "/from/pipe"]), "through a pipe");
}

#[test]
fn a_folder_goes_in_and_comes_out_with_its_shape() {
    let cloud = small();
    for name in ["tree/a.txt", "tree/sub/b.txt", "tree/sub/deep/c.txt"] {
        cloud.file(name, name);
    }
    cloud.fails(2, &["put", "tree", "/"]);
    fs::create_dir_all(cloud.folder().join("tree/empty/inner")).unwrap();
    cloud.ok(&["put", "-r", "tree", "/tree"]);
    cloud.ok(&["put", "-r", "tree", "/other"]);
    assert_eq!(cloud.ok(&["find", "/tree"]), "/tree/a.txt\n/tree/sub/b.txt\n/tree/sub/deep/c.txt\n");
    assert_eq!(cloud.ok(&["find", "/other/**/*.txt"]).lines().count(), 3);
    cloud.ok(&["get", "-r", "/tree", "back"]);
    for name in ["a.txt", "sub/b.txt", "sub/deep/c.txt"] {
        assert_eq!(fs::read_to_string(cloud.folder().join("back").join(name)).unwrap(), format!("tree/{name}"));
    }
    assert!(cloud.folder().join("back/empty/inner").is_dir(), "empty folders too");
    let du = cloud.json(&["du", "/tree"]);
    assert_eq!((du[0]["files"].as_u64(), du[0]["bytes"].as_u64()), (Some(3), Some(10 + 14 + 19)));
    // Again: nothing is sent twice, nothing changes, and nothing nests, however the destination is written.
    let (all, version) = (cloud.ok(&["ls", "-R", "/"]), cloud.json(&["stat", "/tree/a.txt"])["version"].clone());
    for [verb, from, to] in [
        ["put", "tree", "/tree"],
        ["put", "tree/", "/tree/"],
        ["put", "tree", "/other"],
        ["cp", "/tree", "/other/"],
        ["get", "/tree", "back"],
    ] {
        assert_eq!(cloud.json(&[verb, "-r", from, to])["skipped"], 3, "{verb} {from} {to}");
    }
    assert_eq!(cloud.ok(&["ls", "-R", "/"]), all);
    assert_eq!(cloud.json(&["stat", "/tree/a.txt"])["version"], version);
    assert_eq!(fs::read_dir(cloud.folder().join("back")).unwrap().count(), 3);
}

#[test]
fn a_get_that_was_killed_goes_on_and_counts_only_what_came_now() {
    let cloud = small();
    let bytes = 24 << 20;
    cloud.ok(&["put", cloud.random_file("in", bytes).to_str().unwrap(), "/in"]);
    let mut child = cloud.command(&["get", "--limit", "8MB", "/in", "out/in"]).stderr(Stdio::null()).spawn().unwrap();
    let part_bytes = || {
        let parts = fs::read_dir(cloud.folder().join("out")).into_iter().flatten().flatten();
        parts.filter_map(|part| part.metadata().ok()).map(|metadata| metadata.len()).sum::<u64>()
    };
    poll_until("a part is there", || (part_bytes() > 2 << 20).then_some(()));
    kill(child.id());
    child.wait().unwrap();
    let again = cloud.json(&["get", "/in", "out/in"]);
    let kept = again["kept_bytes"].as_u64().unwrap();
    assert!((2 << 20..bytes as u64).contains(&kept), "{again}");
    assert_eq!(fs::read(cloud.folder().join("out/in")).unwrap(), random_bytes(bytes));
}

/// Whether a local file may be run by its owner.
fn may_run(cloud: &Cloud, file: &str) -> bool {
    fs::metadata(cloud.folder().join(file)).unwrap().permissions().mode() & 0o100 != 0
}

#[test]
fn the_executable_bit_travels_with_a_file() {
    let cloud = small();
    let chmod = |file: &str, mode| {
        fs::set_permissions(cloud.folder().join(file), fs::Permissions::from_mode(mode)).unwrap();
    };
    cloud.file("tree/run.sh", "#!/bin/sh");
    cloud.file("tree/plain", "plain");
    chmod("tree/run.sh", 0o755);
    cloud.ok(&["put", "-r", "tree", "/t"]);
    assert_eq!(cloud.json(&["stat", "/t/run.sh"])["executable"], true);
    cloud.ok(&["cp", "-r", "/t", "/copy"]);
    cloud.ok(&["rm", "-r", "/t"]);
    cloud.ok(&["trash", "restore", "/t"]);
    cloud.down();
    cloud.up();
    for (from, to) in [("/t", "back"), ("/copy", "copied")] {
        cloud.ok(&["get", "-r", from, to]);
        let bits = ["run.sh", "plain"].map(|name| may_run(&cloud, &format!("{to}/{name}")));
        assert_eq!(bits, [true, false], "{from}");
    }
    // The same bytes: `get` adds the bit and never takes it, `put` and `sync` make it the same.
    chmod("back/run.sh", 0o644);
    chmod("back/plain", 0o755);
    cloud.ok(&["get", "-r", "/t", "back"]);
    assert_eq!([may_run(&cloud, "back/run.sh"), may_run(&cloud, "back/plain")], [true, true]);
    assert_eq!(cloud.ok(&["sync", "--dry-run", "sector://t", "back"]), "changed plain\n");
    cloud.ok(&["sync", "sector://t", "back"]);
    assert!(!may_run(&cloud, "back/plain"));
    assert_eq!(cloud.ok(&["sync", "--dry-run", "sector://t", "back"]), "");
    let before = cloud.json(&["stat", "/t/run.sh"]);
    chmod("tree/run.sh", 0o644);
    cloud.ok(&["put", "-r", "tree", "/t"]);
    let after = cloud.json(&["stat", "/t/run.sh"]);
    assert_eq!(
        (&after["executable"], &after["version"]),
        (&false.into(), &before["version"]),
        "no byte was sent again"
    );
    chmod("tree/plain", 0o700);
    cloud.ok(&["sync", "tree", "sector://t"]);
    cloud.ok(&["sync", "sector://t", "sector://copy"]);
    assert_eq!(cloud.json(&["stat", "/copy/plain"])["executable"], true);
}

#[test]
fn names_behave_as_in_unix() {
    let cloud = small();
    let file = cloud.file("x", "x");
    let file = file.to_str().unwrap();
    cloud.ok(&["mkdir", "-p", "/a/b/c"]);
    cloud.fails(7, &["mkdir", "/a/b"]);
    cloud.fails(3, &["mkdir", "/no/such/parent"]);
    cloud.ok(&["put", file, "/a/"]);
    cloud.ok(&["mv", "/a/x", "/a/b/y"]);
    cloud.fails(3, &["stat", "/a/x"]);
    cloud.ok(&["mv", "/a/b", "/d"]);
    assert_eq!(cloud.ok(&["cat", "/d/y"]), "x");
    cloud.fails(2, &["cp", "/d", "/e"]);
    cloud.ok(&["cp", "-r", "/d", "/e"]);
    assert_eq!(cloud.ok(&["cat", "/e/y"]), "x");
    let refused = cloud.run(&["mv", "/d", "/d/c/inside"]);
    assert!(refused.code == 2 || refused.code == 4, "a folder cannot move into itself: {}", refused.errors);
    let refused = cloud.run(&["rm", "/d"]);
    assert_ne!(refused.code, 0, "a folder needs -r");
    cloud.ok(&["rm", "-r", "/d", "/e", "/a"]);
    assert_eq!(cloud.ok(&["ls", "/"]), "");
    cloud.fails(3, &["rm", "/gone"]);
    cloud.ok(&["rm", "-f", "/gone"]);
}

#[test]
fn an_overwrite_is_a_new_version_and_the_copies_hold_it() {
    let cloud = small();
    let first = cloud.file("first", "the first");
    let second = cloud.file("second", "the second one");
    cloud.ok(&["put", first.to_str().unwrap(), "/f"]);
    let before = cloud.json(&["stat", "/f"])["version"].as_u64().unwrap();
    cloud.ok(&["put", second.to_str().unwrap(), "/f"]);
    assert!(cloud.json(&["stat", "/f"])["version"].as_u64().unwrap() > before);
    assert_eq!(cloud.ok(&["cat", "/f"]), "the second one");
    // Every node's own file follows, readable without us.
    for node in ["node-1", "node-2"] {
        let native = cloud.node_folder(node).join("slices/f");
        cloud.until("the node's own file is the second", |_| {
            fs::read_to_string(&native).is_ok_and(|text| text == "the second one")
        });
    }
}

#[test]
fn what_is_wrong_is_said_with_the_contracts_exit_code() {
    let cloud = small();
    let file = cloud.file("x", "x");
    let file = file.to_str().unwrap();
    assert!(cloud.fails(3, &["cat", "/nothing/here"]).contains("/nothing/here"));
    cloud.fails(3, &["get", "/nothing", "local"]);
    cloud.fails(3, &["ls", "/nothing"]);
    cloud.fails(3, &["find", "/*.nothing"]);
    cloud.fails(3, &["put", "no-such-local-file", "/x"]);
    for path in ["relative", "/../etc/passwd", "/a/../../b", "/a//b"] {
        assert!(cloud.fails(2, &["put", file, path]).contains(path), "{path}");
    }
    cloud.ok(&["put", file, "/x"]);
    cloud.ok(&["get", "/x", "local"]);
    // The same bytes are there already: nothing to do.
    cloud.ok(&["get", "/x", "local"]);
    fs::write(cloud.folder().join("local"), "y").unwrap();
    assert!(cloud.fails(7, &["get", "/x", "local"]).contains("--force"));
    assert_eq!(cloud.run(&["frobnicate"]).code, 2);
    assert_eq!(cloud.run(&["put", file]).code, 2);
    // A file where a folder is needed.
    let refused = cloud.run(&["put", file, "/x/below"]);
    assert_ne!(refused.code, 0);
    assert!(refused.errors.contains("/x"), "{}", refused.errors);
}

#[test]
fn a_large_file_passes_through_little_memory() {
    let cloud = small();
    let mut child = cloud
        .command(&["put", "--copies", "1", "--sync-copies", "1", "-", "/large"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let chunk = random_bytes(1 << 20);
    for _ in 0..600 {
        input.write_all(&chunk).unwrap();
    }
    // All but what is in a pipe has passed through; the process is still there.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    assert!(kilobytes < 100 * 1024, "{kilobytes} kB for 600 MiB");
    assert_eq!(cloud.json(&["stat", "/large"])["size_bytes"], 600u64 << 20);
    let ended = ended(cloud.command(&["cat", "--range", "-5", "/large"]).output().unwrap());
    assert_eq!(ended.out, chunk[chunk.len() - 5..]);
}

#[test]
fn measuring_names_gives_figures_and_leaves_nothing_behind() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let figures = cloud.json(&["oct", "bench", "names", "--files", "50", "--tasks", "2"]);
    let operations: Vec<_> = figures.as_array().unwrap().iter().map(|figure| figure["operation"].clone()).collect();
    assert_eq!(operations, ["put", "stat", "list of 2,000", "create", "rename", "remove"]);
    for figure in figures.as_array().unwrap() {
        assert!(figure["per_s"].as_f64().unwrap() > 0.0 && figure["p99_us"].as_u64() >= figure["p50_us"].as_u64());
    }
    assert_eq!(cloud.ok(&["ls", "/"]), "");
    // The files' bytes go in the background.
    cloud.until("no slice is left", |cloud| cloud.json(&["nodes"])[0]["used_bytes"] == 0);
}
