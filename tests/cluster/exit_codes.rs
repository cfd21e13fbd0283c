//! No command loses a file, or what it was to print, and ends with exit code 0.

use std::{
    fs::{self, File},
    process::Stdio,
};

use cluster::{Cloud, ended};

fn cloud() -> Cloud {
    Cloud::start(&["--nodes", "2", "--sites", "2"])
}

/// A cloud with `/a/1/x`, which holds `one`, and `/a/2/x`, which holds `two`; and `/c`, which is empty.
fn two_of_a_name() -> Cloud {
    let cloud = cloud();
    for (name, text) in [("1", "one"), ("2", "two")] {
        let file = cloud.file(&format!("{name}/x"), text);
        cloud.ok(&["put", file.to_str().unwrap(), &format!("/a/{name}/x")]);
    }
    cloud.ok(&["mkdir", "/c"]);
    cloud
}

/// It is refused as wrong use, both sources are named, and all is as it was.
fn is_refused(cloud: &Cloud, arguments: &[&str], named: [&str; 2]) {
    let before = cloud.ok(&["find", "/"]);
    let errors = cloud.fails(2, arguments);
    for part in named.into_iter().chain(["nothing was done"]) {
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    }
    assert_eq!(cloud.ok(&["find", "/"]), before, "{arguments:?}");
    for (path, text) in [("/a/1/x", "one"), ("/a/2/x", "two")] {
        assert_eq!(cloud.ok(&["cat", path]), text, "{arguments:?}");
    }
}

// Promise 30.
#[test]
fn several_sources_of_one_name_are_refused_before_anything_is_done() {
    let cloud = two_of_a_name();
    for verb in ["mv", "cp"] {
        is_refused(&cloud, &[verb, "/a/*/x", "/c/"], ["`/a/1/x`", "`/a/2/x`"]);
        is_refused(&cloud, &[verb, "/a/1/x", "/a/2/x", "/c"], ["`/a/1/x`", "`/c/x`"]);
    }
    // The one would become the other, which is there already.
    is_refused(&cloud, &["mv", "/a/2/x", "/a/1/x", "/a/1/"], ["`/a/2/x`", "`/a/1/x`"]);
    cloud.fails(2, &["cp", "/a/2/x", "/a/1/x", "/a/1/"]);
    assert_eq!(cloud.ok(&["cat", "/a/1/x"]), "one");
    let (one, two) = (cloud.folder().join("1"), cloud.folder().join("2"));
    let [one, two] = [&one, &two].map(|folder| folder.join("x").to_str().unwrap().to_owned());
    is_refused(&cloud, &["put", &one, &two, "/c/"], [&one, &two]);
    is_refused(&cloud, &["get", "/a/*/x", "out/"], ["`/a/1/x`", "`/a/2/x`"]);
    is_refused(&cloud, &["get", "-f", "/a/1/x", "/a/2/x", "out"], ["`/a/1/x`", "out/x"]);
    assert!(!cloud.folder().join("out").exists(), "not even the folder was made");
    // One file that is named twice is one file.
    cloud.ok(&["mv", "/a/1/x", "/a/1/*", "/c/"]);
    assert_eq!(cloud.ok(&["cat", "/c/x"]), "one");
}

// Promise 30.
#[test]
fn trees_that_overlap_are_refused_and_those_that_do_not_come_together() {
    let cloud = two_of_a_name();
    for (path, text) in [("/t/1/d/x", "1"), ("/t/2/d/x", "2"), ("/t/3/d/y", "3"), ("/t/4/d", "4")] {
        let file = cloud.file("one", text);
        cloud.ok(&["put", file.to_str().unwrap(), path]);
    }
    is_refused(&cloud, &["cp", "-r", "/t/1/d", "/t/2/d", "/c"], ["`/t/1/d/x`", "`/t/2/d/x`"]);
    is_refused(&cloud, &["cp", "-r", "/t/1", "/t/4/d", "/c"], ["`/t/1/d/x`", "`/t/4/d`"]);
    is_refused(&cloud, &["mv", "/t/1/d", "/t/2/d", "/c"], ["`/t/1/d`", "`/t/2/d`"]);
    is_refused(&cloud, &["get", "-r", "/t/1/d", "/t/2/d", "out"], ["`/t/1/d/x`", "`/t/2/d/x`"]);
    for (name, text) in [("p/1/d/x", "1"), ("p/2/d/x", "2")] {
        cloud.file(name, text);
    }
    is_refused(&cloud, &["put", "-r", "p/1/d", "p/2/d", "/c"], ["`p/1/d/x`", "`p/2/d/x`"]);
    cloud.ok(&["cp", "-r", "/t/1/d", "/t/3/d", "/c"]);
    assert_eq!(cloud.ok(&["find", "/c"]), "/c/x\n/c/y\n");
    cloud.ok(&["get", "-r", "/t/1/d", "/t/3/d", "out"]);
    assert_eq!(fs::read_to_string(cloud.folder().join("out/y")).unwrap(), "3");
    // Into itself, below itself, onto itself.
    cloud.fails(2, &["cp", "-r", "/t", "/t/1"]);
    cloud.fails(4, &["mv", "/t", "/t/1"]);
    cloud.fails(2, &["cp", "/t/4/d", "/t/4/"]);
    cloud.ok(&["mv", "/t/4/d", "/t/4/"]);
    assert_eq!(cloud.ok(&["cat", "/t/4/d"]), "4");
}

// Promise 30.
#[test]
fn every_listing_that_cannot_be_written_fails_and_says_why() {
    let cloud = cloud();
    let file = cloud.file("words", "bee cow\n");
    cloud.ok(&["put", file.to_str().unwrap(), "/in/words"]);
    cloud.ok(&["run", "--udf", "words", "--input", "/in", "--output", "/out"]);
    cloud.ok(&["put", file.to_str().unwrap(), "/gone"]);
    cloud.ok(&["rm", "/gone"]);
    let jobs = cloud.json(&["jobs"]);
    let job = jobs[0]["id"].as_str().unwrap();
    let lists: Vec<Vec<&str>> = [
        "ls /",
        "ls -l /",
        "ls -R /",
        "tree /",
        "find /",
        "du /",
        "stat /in/words",
        "check /in/words",
        "cat /in/words",
        "get /in/words -",
        "nodes",
        "node list",
        "node requests",
        "health",
        "topology show",
        "rebuild status",
        "doctor",
        "jobs",
        "acl get /",
        "policy get /",
        "quota list",
        "trash list",
        "versions /in/words",
        "whoami",
        "user list",
        "group list",
        "session list",
        "audit show",
        "audit verify",
        "rebalance --dry-run",
        "--help",
        "put --help",
        "--version",
    ]
    .iter()
    .map(|line| line.split(' ').collect())
    .chain([vec!["job", job], vec!["job", job, "--segments"]])
    .collect();
    for list in &lists {
        let is_json = ["cat", "get", "--help", "put", "--version"].contains(&list[0]);
        for more in [&[][..], &["--json"][..if is_json { 0 } else { 1 }]] {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let mut command = cloud.command(&[list, more].concat());
            let ended = ended(command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output().unwrap());
            assert_eq!(ended.code, 1, "{list:?} {more:?}: {}", ended.errors);
            assert!(ended.errors.contains("No space left"), "{list:?} {more:?}: {}", ended.errors);
        }
    }
    // What is said on standard error may be lost; what is done is not.
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let file = file.to_str().unwrap();
    let ended = ended(cloud.command(&["-v", "put", file, "/second"]).stderr(full()).output().unwrap());
    assert_eq!((ended.code, cloud.ok(&["cat", "/second"])), (0, "bee cow\n".to_owned()));
}

#[test]
fn a_cancelled_job_ends_whoever_waits_for_it_with_a_failure_and_its_id_is_json() {
    let cloud = cloud();
    let file = cloud.file("words", "bee cow\n");
    cloud.ok(&["put", file.to_str().unwrap(), "/in/words"]);
    let begun = cloud.json(&["run", "--udf", "cmd:sleep 1000", "--input", "/in", "--output", "/out", "--detach"]);
    let job = begun["id"].as_str().unwrap();
    assert_eq!(begun["state"], "running");
    cloud.ok(&["job", job, "--cancel"]);
    assert_eq!(cloud.run(&["job", job, "--wait"]).code, 1);
    assert_eq!(cloud.json(&["job", job])["state"], "cancelled");
}
