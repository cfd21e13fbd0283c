//! How the first Sector lost or mixed up data, and that this one does not. Each test cites the weakness as "original,
//! AREA". They come from the list of weaknesses of the first implementation (its code and runs of it). Its areas are
//! security, correctness, performance and usability.

use std::{fs, io::Write, process::Stdio};

use cluster::{Cloud, Roles, random_bytes};

fn small() -> Cloud {
    Cloud::start(&["--nodes", "2", "--sites", "2"])
}

/// Original, correctness: "removal is acknowledged at once, slaves run a queue … and then removes by path". The list
/// goes on: "a file created again meanwhile is deleted after it was written".
#[test]
fn a_file_that_is_written_again_right_after_its_removal_is_not_removed_later() {
    let cloud = small();
    for round in 0..20 {
        let file = cloud.random_file("in", 1_000 + round);
        cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/d/f"]);
        cloud.ok(&["rm", "/d/f"]);
        let again = cloud.random_file("in", 5_000 + round);
        cloud.ok(&["put", "--copies", "2", again.to_str().unwrap(), "/d/f"]);
    }
    cloud.until("all is well", |cloud| cloud.run(&["health"]).code == 0);
    assert_eq!(cloud.run(&["cat", "/d/f"]).out, random_bytes(5_019));
    for node in ["node-1", "node-2"] {
        let native = cloud.node_folder(node).join("slices/d/f");
        cloud.until("the node has the last", |_| fs::read(&native).is_ok_and(|bytes| bytes == random_bytes(5_019)));
    }
}

/// The same: "the Terasort example starts by removing its old output". It adds: "of four checked re-runs two ended
/// with no result file on any disk while the tool reported success".
#[test]
fn a_job_that_writes_where_an_older_output_was_removed_has_all_its_output() {
    let cloud = Cloud::start(&[]);
    cloud.ok(&["oct", "terasort", "gen", "--records", "20000", "--files", "4", "/gen"]);
    for _ in 0..3 {
        cloud.ok(&["oct", "terasort", "sort", "/gen", "/sorted", "--buckets", "4"]);
        let valid = cloud.json(&["oct", "terasort", "validate", "/sorted"]);
        assert_eq!((valid["records"].as_u64(), valid["sorted"].as_bool()), (Some(20_000), Some(true)));
        cloud.ok(&["rm", "-r", "/sorted"]);
    }
}

/// Original, correctness: "a stale replica that joins first beats newer data (the newer goes to `.attic`)"; "replicas
/// are compared by size and 1-second mtime".
#[test]
fn a_stale_copy_of_the_same_size_that_joins_first_does_not_win() {
    let mut cloud = Roles::start(2, 1);
    let old = cloud.file("old", vec![b'o'; 100_000]);
    let new = cloud.file("new", vec![b'n'; 100_000]);
    cloud.ok(&["put", "--copies", "2", old.to_str().unwrap(), "/f"]);
    cloud.until("both hold it", |cloud| cloud.good_copies("/f").len() == 2);
    cloud.kill("node-1");
    cloud.until("it counts as lost", |cloud| cloud.ok(&["nodes", "--json"]).contains("\"lost\""));
    cloud.ok(&["put", "--copies", "2", new.to_str().unwrap(), "/f"]);
    // Everything stops; the node with the old copy comes first.
    cloud.kill("node-2");
    cloud.kill("master");
    cloud.run_role("master");
    cloud.run_role("node-1");
    cloud.until("it has joined", |cloud| cloud.ok(&["nodes", "--json"]).contains("\"up\""));
    let early = cloud.run(&["cat", "/f"]);
    assert_ne!(early.code, 0, "the old bytes are not the file's: {} bytes", early.out.len());
    cloud.run_role("node-2");
    cloud.until_up(2);
    assert_eq!(cloud.run(&["cat", "/f"]).out, vec![b'n'; 100_000]);
    let native = cloud.role_folder("node-1").join("slices/f");
    cloud.until("the stale copy is replaced", |_| fs::read(&native).is_ok_and(|bytes| bytes == vec![b'n'; 100_000]));
}

/// Original, correctness: "no checksums anywhere".
#[test]
fn a_byte_changed_behind_our_back_at_the_same_size_and_time_is_never_served() {
    let cloud = small();
    let file = cloud.random_file("in", 300_000);
    cloud.ok(&["put", "--copies", "2", file.to_str().unwrap(), "/f"]);
    let native = cloud.node_folder("node-1").join("slices/f");
    cloud.until("the slice is at its path", |_| native.exists());
    let modified = fs::metadata(&native).unwrap().modified().unwrap();
    let mut bytes = fs::read(&native).unwrap();
    bytes[123_456] ^= 0x40;
    fs::write(&native, &bytes).unwrap();
    fs::File::options().write(true).open(&native).unwrap().set_modified(modified).unwrap();
    for _ in 0..20 {
        assert_eq!(cloud.run(&["cat", "/f"]).out, random_bytes(300_000));
    }
}

/// Original, correctness: "no fsync". What was acknowledged is on the disk when everything is killed in that moment.
/// (The tests in `crates/store/tests` and `sim` use a disk that forgets, to check that it is *synced* and not only
/// written.)
#[test]
fn what_was_acknowledged_is_there_when_everything_is_killed_at_once() {
    let mut cloud = Roles::start(3, 1);
    let file = cloud.random_file("in", 700_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/f"]);
    for role in cloud.names() {
        cloud.kill(&role);
    }
    for role in ["security", "master", "node-1", "node-2", "node-3"] {
        cloud.run_role(role);
    }
    cloud.until_up(3);
    assert_eq!(cloud.run(&["cat", "/f"]).out, random_bytes(700_000));
}

/// Original, correctness: "several slaves on one IP: distance compares IPs only, so 'local' file segments go to a
/// slave without the file. Terasort then left 43 of 64 buckets unsorted and reported success". (All nodes here have
/// one address; `two_stages_sort_a_data_set_over_its_buckets` checks the sorted whole.)
#[test]
fn several_nodes_on_one_address_sort_every_bucket() {
    let cloud = Cloud::start(&["--processes", "--nodes", "4", "--sites", "2"]);
    cloud.ok(&["oct", "terasort", "gen", "--records", "64000", "--files", "8", "/gen"]);
    cloud.ok(&["oct", "terasort", "sort", "/gen", "/sorted", "--buckets", "64"]);
    let valid = cloud.json(&["oct", "terasort", "validate", "/sorted"]);
    let generated = cloud.json(&["oct", "terasort", "validate", "/gen"]);
    assert_eq!(valid["sorted"], true);
    assert_eq!((&valid["records"], &valid["checksum"]), (&generated["records"], &generated["checksum"]));
}

/// Original, correctness: "a lost slave's files leave the name space at once".
#[test]
fn the_names_of_a_lost_nodes_files_stay() {
    let mut cloud = Roles::start(2, 1);
    let file = cloud.random_file("in", 50_000);
    cloud.ok(&["put", "--copies", "1", "--sync-copies", "1", file.to_str().unwrap(), "/f"]);
    let holder = cloud.good_copies("/f").remove(0);
    cloud.kill(&holder);
    cloud.until("it counts as lost", |cloud| cloud.ok(&["nodes", "--json"]).contains("\"lost\""));
    assert_eq!(cloud.ok(&["ls", "/"]).trim(), "f");
    assert_eq!(cloud.json(&["stat", "/f"])["size_bytes"], 50_000);
    assert_eq!(cloud.run(&["cat", "/f"]).code, 5, "its bytes cannot be had now, and that is said");
    let health = cloud.run(&["health"]);
    assert!(health.code == 1 && health.text().contains("no copy"), "{}", health.text());
    cloud.run_role(&holder);
    cloud.until_up(2);
    assert_eq!(cloud.run(&["cat", "/f"]).out, random_bytes(50_000));
}

/// Original, correctness: "`ls` breaks on `;`, Sphere on blanks, metadata lines over 4 KB are dropped, newline names
/// skipped".
#[test]
fn any_name_is_a_name_to_files_listings_and_jobs() {
    let cloud = small();
    let names =
        ["a;b;c", "with blanks  in it", "'quotes\" and $dollars", "*[glob]?", "ü 文 🦀", "-r", "...", "a=b,c:d"];
    for name in names {
        let file = cloud.file("in", format!("{name}\n"));
        cloud.ok(&["put", file.to_str().unwrap(), &format!("/n/{name}")]);
    }
    let listed = cloud.json(&["ls", "/n"]);
    let mut listed: Vec<_> = listed.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    listed.sort_unstable();
    let mut expected: Vec<_> = names.iter().map(|name| format!("/n/{name}")).collect();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    cloud.ok(&["run", "--udf", "words", "--input", "/n/**", "--output", "/words"]);
    assert_eq!(cloud.json(&["jobs"])[0]["state"], "done");
    cloud.ok(&["get", "-r", "/n", "back"]);
    for name in names {
        assert_eq!(fs::read_to_string(cloud.folder().join("back").join(name)).unwrap(), format!("{name}\n"));
    }
    // A name that a line cannot hold is refused with a message, not skipped.
    let file = cloud.file("in", "x");
    let errors = cloud.fails(2, &["put", file.to_str().unwrap(), "/n/two\nlines"]);
    assert!(errors.contains("/n/"), "{errors}");
    assert_eq!(cloud.json(&["ls", "/n"]).as_array().unwrap().len(), names.len());
}

/// The same: "metadata lines over 4 KB are dropped".
#[test]
fn a_path_of_the_greatest_length_is_listed_and_read() {
    let cloud = small();
    let name = "n".repeat(240);
    let deep = format!("/{}", [name.as_str(); 3].join("/"));
    let file = cloud.file("in", "deep");
    cloud.ok(&["put", file.to_str().unwrap(), &deep]);
    assert_eq!(cloud.ok(&["find", "/"]).trim(), deep);
    assert_eq!(cloud.ok(&["cat", &deep]), "deep");
}

/// Original, correctness: "a tight loop follows in segmentation if a listed file is empty".
#[test]
fn empty_files_among_the_input_end_a_job_well() {
    let cloud = small();
    for (name, text) in [("a", ""), ("b", "one two\n"), ("c", ""), ("d", "")] {
        let file = cloud.file("in", text);
        cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), &format!("/in/{name}")]);
    }
    cloud.ok(&["run", "--udf", "words", "--input", "/in/*", "--output", "/out"]);
    assert_eq!(cloud.json(&["jobs"])[0]["state"], "done");
    cloud.run(&["run", "--udf", "words", "--input", "/in/a", "--output", "/nothing"]);
    assert_ne!(cloud.json(&["jobs"])[0]["state"], "running");
}

/// Original, correctness: "documented known bug: mass replica decrease hangs or crashes the master". A lost node's
/// copies are replaced; when the node comes back, all of these files have one copy too many at once.
#[test]
fn many_copies_that_are_too_many_at_once_are_removed_and_the_master_goes_on() {
    let mut cloud = Roles::start(3, 1);
    for number in 0..300 {
        cloud.file(&format!("many/{number}"), format!("{number}"));
    }
    cloud.ok(&["put", "-r", "--copies", "2", "many", "/many"]);
    cloud.until("all have their copies", |cloud| cloud.run(&["health"]).code == 0);
    cloud.kill("node-1");
    let on_two = |cloud: &Roles, nodes: &[&str]| {
        let count = |node: &&str| {
            let items = fs::read_dir(cloud.role_folder(node).join("slices/many")).into_iter().flatten();
            items.flatten().filter(|item| item.file_name().to_string_lossy().parse::<u32>().is_ok()).count()
        };
        nodes.iter().map(count).sum::<usize>()
    };
    cloud.until("all copies are on the other two", |_| on_two(&cloud, &["node-2", "node-3"]) == 600);
    let before = on_two(&cloud, &["node-1"]);
    assert!(before > 0, "the dead node still has its copies");
    cloud.run_role("node-1");
    cloud.until_up(3);
    cloud.until("there are two copies of each again", |_| on_two(&cloud, &["node-1", "node-2", "node-3"]) == 600);
    cloud.until("all is well", |cloud| cloud.run(&["health"]).code == 0);
    assert_eq!(cloud.json(&["du", "/many"])[0]["files"], 300);
}

/// Original, usability: "no log of a failed segment". (`a_functions_error_is_reported_once_and_not_tried_elsewhere`
/// checks that there is one line with its place.)
#[test]
fn what_failed_in_a_job_can_be_asked_for_later_by_anyone_of_the_cloud() {
    let cloud = small();
    let file = cloud.file("in", "no number\n");
    cloud.ok(&["put", file.to_str().unwrap(), "/in"]);
    assert_ne!(cloud.run(&["run", "--udf", "teragen", "--input", "/in", "--output", "/out"]).code, 0);
    cloud.down();
    cloud.up();
    let job = cloud.json(&["jobs"])[0].clone();
    assert_eq!(job["state"], "failed");
    let errors = cloud.ok(&["job", job["id"].as_str().unwrap(), "--errors"]);
    assert!(errors.contains("/in"), "{errors}");
}

/// Original, correctness: "`cp` onto a node that already has the source fails"; "permanent UDF copying fails (observed:
/// directory stays empty)".
#[test]
fn a_copy_beside_its_source_has_its_bytes() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let file = cloud.random_file("in", 200_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/f"]);
    cloud.ok(&["cp", "/f", "/g"]);
    assert_eq!(cloud.run(&["cat", "/g"]).out, random_bytes(200_000));
    cloud.ok(&["rm", "/f"]);
    assert_eq!(cloud.run(&["cat", "/g"]).out, random_bytes(200_000));
}

/// Original, security: "the TLS handshake runs in the accept thread and logins in one worker: one silent connection
/// blocks all joins".
#[test]
fn silent_connections_keep_nobody_out() {
    let mut cloud = Roles::start(1, 1);
    let profile = fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
    let address = profile.lines().find_map(|line| line.strip_prefix("address = ")).unwrap().trim_matches('"');
    let silent: Vec<_> = (0..20).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    cloud.ok(&["ls", "/"]);
    cloud.kill("node-1");
    cloud.run_role("node-1");
    cloud.until_up(1);
    drop(silent);
}

/// Original, security: "no message is authenticated … UDP spoofing is enough to delete files or start code".
#[test]
fn datagrams_of_strangers_change_nothing() {
    let cloud = small();
    let file = cloud.random_file("in", 1_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/f"]);
    let profile = fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
    let address = profile.lines().find_map(|line| line.strip_prefix("address = ")).unwrap().trim_matches('"');
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut datagram = vec![0; random.usize(0..1_400)];
        random.fill(&mut datagram);
        socket.send_to(&datagram, address).unwrap();
    }
    assert_eq!(cloud.run(&["cat", "/f"]).out, random_bytes(1_000));
    assert_eq!(cloud.json(&["nodes"]).as_array().unwrap().len(), 2);
}

/// Original, usability: "unknown options ignored".
#[test]
fn an_unknown_option_is_refused_by_name() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let errors = cloud.fails(2, &["ls", "--colour", "/"]);
    assert!(errors.contains("--colour"), "{errors}");
}

/// Original, security: "`system()` with strings built from … stream parameters". What a user names never reaches a
/// shell.
#[test]
fn a_parameter_is_never_run_as_a_command() {
    let cloud = small();
    let file = cloud.file("in", "one\n");
    cloud.ok(&["put", file.to_str().unwrap(), "/in"]);
    let evil = cloud.folder().join("evil");
    let words = format!("$(touch {0}); touch {0} `touch {0}`", evil.display());
    cloud.ok(&["run", "--udf", "cmd:cat", "--param", &format!("x={words}"), "--input", "/in", "--output", "/out"]);
    let mut child = cloud.command(&["put", "-", &format!("/{words}")]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    child.wait().unwrap();
    assert!(!evil.exists());
}
