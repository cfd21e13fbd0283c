//! The edge of the command line: exit codes and documents that scripts can trust. Also names as people write them, and
//! trees with odd things in them.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::unix::{ffi::OsStrExt, fs::symlink},
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, UNIX_EPOCH},
};

use cluster::{Cloud, Ended, ended, random_bytes};
use serde_json::Value;

fn cloud() -> Cloud {
    Cloud::start(&["--nodes", "1", "--sites", "1"])
}

/// The one document of a command, however it ended.
fn document(ended: &Ended) -> Value {
    serde_json::from_slice(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// A `put` from a pipe that is in the middle of its upload.
fn writer(cloud: &Cloud, path: &str) -> Child {
    let mut child = cloud.command(&["put", "-", path]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&random_bytes(3 << 20)).unwrap();
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn a_path_that_another_writes_is_busy_and_one_that_is_not_mine_is_denied() {
    let cloud = cloud();
    let mut other = writer(&cloud, "/f");
    let file = cloud.file("x", "x");
    let busy = cloud.run(&["--json", "put", file.to_str().unwrap(), "/f"]);
    assert_eq!(busy.code, 8, "{}", busy.errors);
    let document = document(&busy);
    assert_eq!(document["failed"][0]["reason"], "lease_held", "{document}");
    assert_eq!(document["failed"][0]["path"], file.to_str().unwrap());
    signal(&other, "-INT");
    other.wait().unwrap();
    cloud.ok(&["put", file.to_str().unwrap(), "/f"]);
    cloud.fails(4, &["rm", "-r", "/"]);
}

/// A command that waits for another writer: it has said so, which is its first line.
fn waiting(cloud: &Cloud, words: &[&str]) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = cloud.command(words).stderr(Stdio::piped()).spawn().unwrap();
    let (mut said, mut line) = (BufReader::new(child.stderr.take().unwrap()), String::new());
    said.read_line(&mut line).unwrap();
    (child, said, line)
}

#[test]
fn who_waits_for_another_writer_says_so_once_and_then_writes() {
    let cloud = cloud();
    let (file, length) = (cloud.file("x", "mine"), 3 << 20);
    let file = file.to_str().unwrap();
    let mut other = writer(&cloud, "/f");
    let gives_up = cloud.run(&["put", "--wait=1ms", file, "/f"]);
    assert_eq!(gives_up.code, 8, "{}", gives_up.errors);
    for words in [&["put", "--wait", "--append", file, "/f"][..], &["cp", "--wait=1h", "/f", "/f2"]] {
        if words[0] == "cp" {
            other = writer(&cloud, "/f2");
            assert_eq!(cloud.run(&["cp", "/f", "/f2"]).code, 8);
        }
        let (mut mine, mut said, line) = waiting(&cloud, words);
        assert!(line.starts_with("sector: waiting: `/f") && line.contains("by admin"), "{line}");
        drop(other.stdin.take());
        assert!(other.wait().unwrap().success());
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(mine.wait().unwrap().success() && !rest.contains("waiting"), "{rest}");
        let found = cloud.run(&["cat", if words[0] == "cp" { "/f2" } else { "/f" }]).out;
        assert_eq!((found.len(), &found[length..]), (length + 4, &b"mine"[..]), "behind what the other wrote");
    }
}

#[test]
fn a_pipe_that_is_named_is_read_to_its_end() {
    let cloud = cloud();
    let mut child = cloud.command(&["put", "/dev/stdin", "/piped"]).stdin(Stdio::piped()).spawn().unwrap();
    let bytes = random_bytes(3 << 20);
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(cloud.run(&["cat", "/piped"]).out, bytes);
    let refused = cloud.command(&["put", "/dev/stdin", "/"]).stdin(Stdio::piped()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn times_are_shown_in_the_zone_of_who_looks_and_in_utc_where_that_is_asked_for() {
    let cloud = cloud();
    let file = cloud.file("dated", "x");
    File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(UNIX_EPOCH + Duration::from_secs(1_768_478_400))
        .unwrap();
    cloud.ok(&["put", file.to_str().unwrap(), "/dated"]);
    for (words, time) in [
        (&["ls", "-l", "/"][..], "2026-01-15T17:30:00+05:30"),
        (&["ls", "-l", "--utc", "/"], "2026-01-15T12:00:00Z"),
        (&["--json", "ls", "/"], "2026-01-15T12:00:00.000Z"),
    ] {
        let shown = cloud.command(words).env("TZ", "IST-5:30").output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains(time), "{shown}");
    }
}

#[test]
fn tables_show_times_in_the_zone_of_who_looks_and_json_in_utc() {
    let cloud = cloud();
    cloud.ok(&["put", cloud.file("x", "x").to_str().unwrap(), "/x"]);
    cloud.ok(&["rm", "/x"]);
    for words in [&["user", "add", "ann"][..], &["--profile", "ann", "login", "ann"]] {
        let words = [words, &["--password-stdin"]].concat();
        let mut child = cloud.command(&words).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"correct horse").unwrap();
        assert!(child.wait().unwrap().success(), "{words:?}");
    }
    let shown = |words: &[&str]| {
        let ended = cloud.command(words).env("TZ", "IST-5:30").output().unwrap();
        String::from_utf8(ended.stdout).unwrap()
    };
    for words in [
        &["trash", "list"][..],
        &["--profile", "ann", "session", "list"],
        &["--profile", "ann", "whoami"],
        &["audit", "--kind", "removal"],
        &["events"],
        &["work"],
    ] {
        let (table, json) = (shown(words), shown(&[words, &["--json"]].concat()));
        assert!(table.contains("+05:30") && !table.contains("Z "), "{words:?}: {table}");
        assert!(!json.contains("+05:30"), "{words:?}: {json}");
    }
}

#[test]
fn who_waits_for_a_master_that_stands_still_hears_of_it() {
    let cloud = cloud();
    let pid = cloud.node_pid("node-1").to_string();
    let stop = |how: &str| assert!(Command::new("kill").args([how, &pid]).status().unwrap().success());
    stop("-STOP");
    let mut child = cloud.command(&["ls", "/"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    stop("-CONT");
    assert!(line.starts_with("sector: waiting: the master at 127.0.0.1:"), "{line}");
    child.wait().unwrap();
}

#[test]
fn a_path_with_the_address_of_a_cloud_is_taken_or_it_is_said_what_to_type() {
    let (cloud, other) = (cloud(), cloud());
    let address = |of: &Cloud| {
        let text = fs::read_to_string(of.home.join("profile.toml")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("address = ")).unwrap();
        line.trim_matches('"').to_owned()
    };
    let (own, elsewhere) = (address(&cloud), address(&other));
    cloud.ok(&["put", cloud.file("x", "x").to_str().unwrap(), &format!("sector://{own}/d/x")]);
    assert_eq!(cloud.ok(&["find", &format!("sector://{own}")]), "/d/x\n");
    let unknown = cloud.fails(2, &["ls", &format!("sector://{elsewhere}/d")]);
    assert!(unknown.contains("sector login") && unknown.contains(&elsewhere), "{unknown}");
    cloud.fails(2, &["cp", "/d/x", &format!("sector://{elsewhere}/x")]);
    cloud.ok(&["profile", "add", "other", other.home.join("profile.toml").to_str().unwrap()]);
    let known = cloud.fails(2, &["ls", &format!("sector://{elsewhere}/d")]);
    assert!(known.contains("write `--profile other` and `/d`"), "{known}");
    cloud.ok(&["cp", "/d/x", &format!("sector://{elsewhere}/x")]);
    cloud.ok(&["sync", &format!("sector://{own}/d"), &format!("sector://{elsewhere}/e")]);
    assert_eq!(other.ok(&["find", "/"]), "/e/x\n/x\n");
}

#[test]
fn a_listing_has_the_order_that_was_asked_for() {
    let cloud = cloud();
    for (name, bytes, seconds) in [("a", 2, 300), ("b", 1, 100), ("c", 3, 200)] {
        let file = cloud.file(name, "x".repeat(bytes));
        let date = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
        File::options().write(true).open(&file).unwrap().set_modified(date).unwrap();
        cloud.ok(&["put", file.to_str().unwrap(), &format!("/d/{name}")]);
    }
    for (options, order) in
        [("-l", "abc"), ("-t", "acb"), ("-tr", "bca"), ("-S", "cab"), ("-Sr", "bac"), ("-r", "cba"), ("-ltra", "bca")]
    {
        let listed = cloud.ok(&["ls", options, "/d"]);
        let names: String = listed.lines().map(|line| line.chars().next_back().unwrap()).collect();
        assert_eq!(names.trim_start_matches('e'), order, "{options}");
    }
    let hidden = cloud.file("hidden", "x");
    cloud.ok(&["put", hidden.to_str().unwrap(), "/.sphere-x/y"]);
    assert_eq!((cloud.ok(&["ls"]).as_str(), cloud.ok(&["ls", "-a"]).as_str()), ("d/\n", ".sphere-x/\nd/\n"));
    assert!(cloud.fails(2, &["find", "/", "-name", "*.txt"]).contains("sector find '/folder/**/*.txt'"));
}

#[test]
fn a_sync_of_two_local_folders_shows_both_lines_whatever_is_there() {
    let cloud = cloud();
    cloud.file("logs/a", "a");
    for there in ["/sy", cloud.folder().to_str().unwrap()] {
        let said = cloud.fails(2, &["sync", "logs", there]);
        let lines =
            [format!("from `logs` to `sector:/{there}` sends"), format!("from `sector://logs` to `{there}` fetches")];
        assert!(lines.iter().all(|line| said.contains(line)), "{said}");
    }
}

#[test]
fn a_folder_above_the_destination_is_made_and_named() {
    let cloud = cloud();
    cloud.ok(&["put", cloud.file("x", "x").to_str().unwrap(), "/d/x"]);
    for (line, made) in [
        (&["get", "/d/x", "no/such/x"][..], Some("`no/such` is made")),
        (&["get", "/d/x", "no/such/y"], None),
        (&["get", "-r", "/d", "more"], None),
        (&["get", "-r", "/d", "deep/er"], Some("`deep` is made")),
    ] {
        let ended = cloud.run(line);
        assert_eq!(ended.code, 0, "{}", ended.errors);
        assert_eq!(ended.errors.lines().count(), 1 + usize::from(made.is_some()), "{line:?}: {}", ended.errors);
        assert!(made.is_none_or(|made| ended.errors.contains(made)), "{line:?}: {}", ended.errors);
    }
}

#[test]
fn a_lease_is_listed_and_broken_and_then_another_may_write() {
    let cloud = cloud();
    let mut other = writer(&cloud, "/f");
    let listed = document(&cloud.run(&["--json", "lease", "list", "--all-users"]));
    assert_eq!((&listed[0]["path"], &listed[0]["user"]), (&"/f".into(), &"admin".into()), "{listed}");
    assert!(cloud.ok(&["lease", "list"]).contains("/f"));
    cloud.ok(&["lease", "break", "/f"]);
    cloud.fails(3, &["lease", "break", "/f"]);
    assert_eq!(document(&cloud.run(&["--json", "lease", "list", "--all-users"])), Value::Array(Vec::new()));
    let file = cloud.file("x", "mine");
    cloud.ok(&["put", file.to_str().unwrap(), "/f"]);
    drop(other.stdin.take());
    assert!(!other.wait().unwrap().success(), "its bytes were given up");
    assert_eq!(cloud.ok(&["cat", "/f"]), "mine");
}

#[test]
fn a_command_that_a_signal_ends_says_which() {
    let cloud = cloud();
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut child = writer(&cloud, "/f");
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
    }
}

#[test]
fn each_command_with_json_prints_one_document_also_when_it_fails() {
    let cloud = cloud();
    let file = cloud.file("x", "x");
    let file = file.to_str().unwrap();
    for line in [
        &["put", file, "/d/x"][..],
        &["put", file, "/d/x"],
        &["get", "/d/x", "copy"],
        &["cp", "/d/x", "/d/y"],
        &["mkdir", "/e"],
        &["mv", "/d/y", "/e/"],
        &["rm", "--dry-run", "-r", "/e"],
        &["rm", "-r", "/e"],
        &["trash", "restore", "/e"],
        &["trash", "empty"],
        &["policy", "set", "/d", "copies=1"],
        &["policy", "clear", "/d"],
        &["acl", "set", "/d", "everyone:r"],
        &["quota", "set", "admin", "bytes=1TB"],
        &["quota", "clear", "admin"],
        &["group", "add", "g"],
        &["group", "remove", "g"],
        &["tree", "/d", "/e"],
        &["run", "--udf", "words", "--input", "/d", "--output", "/out"],
    ] {
        let ended = cloud.run(&[line, &["--json"]].concat());
        assert_eq!(ended.code, 0, "{line:?}: {}", ended.errors);
        assert!(document(&ended).get("error").is_none(), "{line:?}");
    }
    for (code, reason, path, line) in [
        (3, "not_found", Some("/no"), &["stat", "/no"][..]),
        (3, "not_found", Some("/no"), &["ls", "/no"]),
        (3, "not_found", Some("/no"), &["rm", "/no"]),
        (3, "not_found", None, &["get", "/no", "x"]),
        (7, "exists", Some("/d"), &["mkdir", "/d"]),
        (2, "invalid", Some("/d"), &["get", "/d", "x"]),
        (2, "invalid", None, &["put", file]),
        (2, "invalid", None, &["put", "--nonsense"]),
        (2, "invalid", None, &["nosuchcommand"]),
        (3, "not_found", None, &["job", "0000000000000001"]),
        (5, "unavailable", None, &["--profile", "elsewhere.toml", "ls"]),
    ] {
        if line[0] == "--profile" {
            let text = fs::read_to_string(cloud.home.join("profile.toml")).unwrap();
            let address = text.lines().find(|line| line.starts_with("address")).unwrap();
            cloud.file("elsewhere.toml", text.replace(address, "address = \"127.0.0.1:1\""));
        }
        let ended = cloud.run(&[&["--json"], line].concat());
        assert_eq!(ended.code, code, "{line:?}: {}", ended.errors);
        let error = &document(&ended)["error"];
        assert_eq!((&error["reason"], error["path"].as_str()), (&Value::from(reason), path), "{line:?}: {error}");
        assert!(!error["message"].as_str().unwrap().is_empty() && !ended.errors.is_empty(), "{line:?}");
    }
}

#[test]
fn names_are_taken_as_urls_and_what_looks_like_a_glob_is_first_a_name() {
    let cloud = cloud();
    for name in ["a[1].csv", "a1.csv", "star*glob", "starxglob"] {
        let file = cloud.file("in", name);
        cloud.ok(&["put", file.to_str().unwrap(), &format!("sector://t/{name}")]);
    }
    assert_eq!(cloud.ok(&["cat", "/t/a[1].csv"]), "a[1].csv");
    assert_eq!(cloud.ok(&["cat", "sector:///t/star*glob"]), "star*glob");
    assert_eq!(cloud.ok(&["ls", "sector://t/star?glob"]), "star*glob\nstarxglob\n");
    cloud.ok(&["get", "/t/a[1].csv", "out.csv"]);
    assert_eq!(fs::read_to_string(cloud.folder().join("out.csv")).unwrap(), "a[1].csv");
    cloud.ok(&["mv", "sector://t/a[1].csv", "sector://t/b"]);
    cloud.ok(&["rm", "/t/star*glob"]);
    assert_eq!(cloud.ok(&["ls", "/t"]), "a1.csv\nb\nstarxglob\n");
    assert_eq!(cloud.ok(&["cat", "/t/a[1].csv"]), "a1.csv", "now it is a glob");
    cloud.ok(&["run", "--udf", "words", "--input", "sector://t", "--output", "sector://out"]);
}

#[test]
fn transfers_end_with_one_line_and_a_job_with_its_id() {
    let cloud = cloud();
    cloud.file("d/a", "words");
    cloud.file("d/b", "other words");
    for (line, says) in [
        (&["put", "-r", "d", "/d"][..], "put: 2 files, 16 B"),
        (&["put", "d/a", "--copies", "1", "d/b", "/d/"], "put: 2 files, 16 B, 2 skipped"),
        (&["get", "/d/a", "-f", "a"], "get: 1 file, 5 B"),
        (&["cp", "/d/a", "--limit", "10MB/s", "/c"], "cp: 1 file, 5 B"),
    ] {
        let ended = cloud.run(line);
        assert_eq!((ended.code, ended.errors.lines().count()), (0, 1), "{line:?}: {}", ended.errors);
        assert!(ended.errors.starts_with(says), "{line:?}: {}", ended.errors);
        assert_eq!(cloud.run(&[&["-q"], line].concat()).errors, "", "{line:?}");
    }
    let said = cloud.ok(&["run", "--udf", "words", "--input", "/d", "--output", "/out"]);
    let job = cloud.json(&["jobs"])[0]["id"].as_str().unwrap().to_owned();
    assert!(said.contains(&job), "{said}");
    let quiet = cloud.run(&["run", "--quiet", "--udf", "words", "--input", "/d", "--output", "/quiet"]);
    assert_eq!((quiet.code, quiet.text(), quiet.errors), (0, String::new(), String::new()));
}

#[test]
fn nothing_is_overwritten_or_removed_where_that_is_asked_for() {
    let cloud = cloud();
    for (path, text) in [("/a/x", "new"), ("/a/y", "new"), ("/b/x", "old")] {
        let file = cloud.file("in", text);
        cloud.ok(&["put", file.to_str().unwrap(), path]);
    }
    cloud.ok(&["cp", "-n", "/a/x", "/a/y", "/b/"]);
    assert_eq!((cloud.ok(&["cat", "/b/x"]), cloud.ok(&["cat", "/b/y"])), ("old".into(), "new".into()));
    cloud.ok(&["rm", "/b/y"]);
    cloud.ok(&["mv", "/a/x", "-n", "/a/y", "/b/"]);
    assert_eq!((cloud.ok(&["cat", "/b/x"]), cloud.ok(&["cat", "/a/x"])), ("old".into(), "new".into()));
    assert_eq!(cloud.ok(&["find", "/"]), "/a/x\n/b/x\n/b/y\n");
    assert_eq!(cloud.ok(&["rm", "--dry-run", "-r", "/b", "/a/*"]), "/b/\n/b/x\n/b/y\n/a/x\n");
    cloud.fails(4, &["rm", "--dry-run", "/b"]);
    cloud.fails(3, &["rm", "--dry-run", "/c"]);
    cloud.ok(&["rm", "--dry-run", "-f", "/c"]);
    assert_eq!(cloud.ok(&["find", "/"]), "/a/x\n/b/x\n/b/y\n");
}

#[test]
fn a_tree_with_odd_things_goes_without_them_and_each_is_named() {
    let cloud = cloud();
    cloud.file("tree/good", "good");
    let tree = cloud.folder().join("tree");
    symlink("good", tree.join("link")).unwrap();
    assert!(Command::new("mkfifo").arg(tree.join("pipe")).status().unwrap().success());
    let ended_put = cloud.run(&["put", "-r", "tree", "/t"]);
    assert_eq!(ended_put.code, 0, "{}", ended_put.errors);
    for name in ["tree/link", "tree/pipe"] {
        assert!(ended_put.errors.contains(name), "{}", ended_put.errors);
    }
    assert_eq!(cloud.ok(&["find", "/t"]), "/t/good\n");
    cloud.ok(&["put", "-r", "-L", "tree", "/t"]);
    assert_eq!(cloud.ok(&["cat", "/t/link"]), "good");
    // A link that was typed keeps its own name.
    cloud.ok(&["put", "tree/link", "/l/"]);
    assert_eq!(cloud.ok(&["find", "/l"]), "/l/link\n");
    let bad = [OsStr::from_bytes(b"not\xff-utf8"), OsStr::new("tab\tname"), OsStr::new(".x.sector")];
    for name in bad {
        File::create(tree.join(name)).unwrap();
    }
    cloud.file("tree/late", "late");
    let ended = ended(cloud.command(&["put", "-r", "tree", "/u"]).stdin(Stdio::null()).output().unwrap());
    assert_eq!(ended.code, 2, "{}", ended.errors);
    for name in ["-utf8", "name", ".x.sector"] {
        assert!(ended.errors.contains(name), "{}", ended.errors);
    }
    assert!(ended.errors.contains("3 failed"), "{}", ended.errors);
    assert_eq!(cloud.ok(&["find", "/u"]), "/u/good\n/u/late\n", "the good ones went");
}

#[test]
fn of_many_files_that_cannot_go_ten_are_named_and_the_others_counted() {
    let cloud = cloud();
    for number in 0..25 {
        cloud.file(&format!("tree/bad\t{number}"), "x");
        symlink("nowhere", cloud.folder().join(format!("tree/link{number}"))).unwrap();
    }
    cloud.file("tree/good", "good");
    let put = cloud.run(&["put", "-r", "tree", "/t"]);
    let named = |errors: &str, what: &str| errors.lines().filter(|line| line.contains(what)).count();
    assert_eq!(put.code, 2, "{}", put.errors);
    assert_eq!((named(&put.errors, "tree/link"), named(&put.errors, "control")), (10, 10), "{}", put.errors);
    assert!(put.errors.contains("15 more are left out") && put.errors.contains("15 more failed"), "{}", put.errors);
    let all = cloud.run(&["put", "-v", "-r", "tree", "/t"]);
    assert_eq!((named(&all.errors, "is left out"), named(&all.errors, "control")), (25, 25), "{}", all.errors);
    let listed = document(&cloud.run(&["--json", "put", "-r", "tree", "/t"]));
    assert_eq!((listed["failed"].as_array().unwrap().len(), listed["left_out"].as_array().unwrap().len()), (25, 25));
}

/// What bash offers after this has been typed.
fn offered(cloud: &Cloud, typed: &str) -> Vec<String> {
    let script = r#"
        source "$COMPLETIONS"
        COMP_LINE="$TYPED" COMP_POINT=${#TYPED}
        read -ra COMP_WORDS <<< "$TYPED"
        [[ "$TYPED" == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _sector_with_paths "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let typed = format!("{} {typed}", cluster::program().display());
    let ended = Command::new("bash")
        .args(["--norc", "-c", script])
        .env("COMPLETIONS", cloud.file("completions", cloud.ok(&["completions", "bash"])))
        .env("TYPED", typed)
        .env("SECTOR_HOME", &cloud.home)
        .env_remove("SECTOR_PROFILE")
        .current_dir(cloud.folder())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "nothing is said to who types");
    String::from_utf8(ended.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_paths_in_the_cloud() {
    let cloud = cloud();
    for path in ["/logs/a b.txt", "/logs/day/1", "/logs/day2", "/lost", "/other"] {
        cloud.ok(&["put", cloud.file("x", "x").to_str().unwrap(), path]);
    }
    for (typed, offers) in [
        ("ls /lo", &["/logs/", "/lost"][..]),
        ("ls -l /logs/day", &["/logs/day/", "/logs/day2"]),
        ("rm /logs/a", &["/logs/a b.txt"]),
        ("acl set /ot", &["/other"]),
        ("cat ", &["/logs/", "/lost", "/other"]),
        // Bash has taken the word apart at the colon.
        ("sync . sector://lo", &["//logs/", "//lost"]),
    ] {
        assert_eq!(offered(&cloud, typed), offers, "{typed}");
    }
    assert!(offered(&cloud, "put").contains(&"put".to_owned()), "commands as before");
    assert!(offered(&cloud, "ls --lo").contains(&"--long".to_owned()), "options too");
    let mixed = cloud.file("lo/x", "x").display().to_string();
    let mixed = mixed.strip_suffix("/x").unwrap();
    assert_eq!(offered(&cloud, &format!("put {mixed}")), [""; 1], "bash completes files of this machine by itself");
    cloud.down();
    assert_eq!(offered(&cloud, "ls /lo"), [""; 1], "without a cloud, nothing");
}

#[test]
fn the_program_tells_shells_and_readers_what_it_takes() {
    let cloud = cloud();
    for (shell, says) in [("bash", "complete "), ("zsh", "#compdef sector"), ("fish", "complete -c sector")] {
        let script = cloud.ok(&["completions", shell]);
        assert!(script.contains(says) && script.contains("sync-copies"), "{shell}");
    }
    cloud.ok(&["man", "man1"]);
    let page = fs::read_to_string(cloud.folder().join("man1/sector-put.1")).unwrap();
    assert!(page.contains("sync\\-copies") && page.contains("SRC... DST"), "{page}");
    assert!(!cloud.folder().join("man1/sector-driver.1").exists(), "nothing for people");
    for line in [&["help"][..], &["help", "put"], &["put", "--help"]] {
        assert!(cloud.ok(line).contains("Options of every command"), "{line:?}");
    }
    assert!(cloud.ok(&["help", "put"]).contains("sector put [OPTIONS] SRC... DST"));
    let doctor = cloud.ok(&["doctor", "/nonexistent/folder"]);
    assert!(doctor.contains("/nonexistent/folder: it is not there"), "{doctor}");
    assert!(!doctor.contains("disk sync"), "{doctor}");
}
