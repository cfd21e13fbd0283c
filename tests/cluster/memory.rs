//! Results that are kept in the memory of nodes, for jobs that come after (`/memory`): real processes, a real file
//! system in memory.

use std::{fs, path::PathBuf};

use cluster::{Cloud, kill};

const NODES: [&str; 2] = ["node-1", "node-2"];

/// A cloud with 20 lines of text.
fn cloud() -> Cloud {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "1", "--processes"]);
    let text: String = (0..20).map(|line| format!("line {line}\n")).collect();
    let file = cloud.file("text", text);
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    cloud
}

/// Copies a stream, each line to one of two buckets.
fn copy(cloud: &Cloud, from: &str, to: &str) {
    let words = ["run", "--udf", "hash", "--result-records", "lines", "--buckets", "2"];
    cloud.ok(&[&words[..], &["--input", from, "--output", to]].concat());
}

fn lines(cloud: &Cloud, folder: &str) -> usize {
    let paths = cloud.ok(&["find", folder]);
    paths.lines().map(|path| cloud.ok(&["cat", path]).lines().count()).sum()
}

/// Where a node keeps its files in memory.
fn memory_of(cloud: &Cloud, node: &str) -> PathBuf {
    let data = fs::canonicalize(cloud.node_folder(node)).unwrap();
    let folders = fs::read_dir("/dev/shm").unwrap().map(|item| item.unwrap().path());
    let is_of = |folder: &PathBuf| {
        fs::read_to_string(folder.join("data-folder")).is_ok_and(|owner| owner == data.to_str().unwrap())
    };
    folders.filter(|folder| folder.is_dir()).find(is_of).expect("a folder in memory")
}

/// The files of slices below a folder of the operating system, sidecars left out.
fn slices(below: PathBuf) -> Vec<String> {
    let mut found = Vec::new();
    let mut unread = vec![below];
    while let Some(folder) = unread.pop() {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            if item.file_type().unwrap().is_dir() {
                unread.push(item.path());
            } else if !item.file_name().to_str().unwrap().starts_with('.') {
                found.push(item.file_name().into_string().unwrap());
            }
        }
    }
    found
}

// Promise 23.
#[test]
fn what_a_job_leaves_in_memory_is_read_by_the_next_and_lies_on_no_disk() {
    let cloud = cloud();
    copy(&cloud, "/text", "/memory/round-1");
    copy(&cloud, "/memory/round-1", "/memory/round-2");
    copy(&cloud, "/memory/round-2", "/out");
    assert_eq!([lines(&cloud, "/memory/round-1"), lines(&cloud, "/out")], [20, 20]);
    let stat = cloud.json(&["stat", "/memory/round-1/part-00000"]);
    assert_eq!((&stat["copies_wanted"], stat["copies"].as_array().unwrap().len()), (&1.into(), 1), "{stat}");
    let in_memory = NODES.map(|node| slices(memory_of(&cloud, node).join("slices")).len());
    let on_disks = NODES.map(|node| slices(cloud.node_folder(node).join("slices/memory")).len());
    assert_eq!((in_memory.iter().sum::<usize>(), on_disks), (4, [0, 0]), "two parts of each round");

    // Removed, it is gone at once, and its memory free.
    cloud.ok(&["rm", "-r", "/memory/round-1", "/memory/round-2"]);
    let is_empty = |node: &&str| slices(memory_of(&cloud, node).join("slices")).is_empty();
    cloud.until("the memory is free", |_| NODES.iter().all(is_empty));
    assert!(!cloud.ok(&["trash", "list"]).contains("/memory"));
}

// Promise 23.
#[test]
fn files_in_memory_outlive_a_crash_of_their_nodes_process_and_not_their_stop() {
    let cloud = cloud();
    copy(&cloud, "/text", "/memory/kept");
    let folders = NODES.map(|node| memory_of(&cloud, node));
    for node in NODES {
        kill(cloud.node_pid(node));
    }
    cloud.down();
    cloud.up();
    cloud.until("all is there again", |cloud| cloud.run(&["cat", "/memory/kept/part-00000"]).code == 0);
    cloud.until("all is there again", |_| lines(&cloud, "/memory/kept") == 20);

    cloud.down();
    assert!(folders.iter().all(|folder| !folder.exists()), "nothing is left in memory");
    cloud.up();
    let told = |cloud: &Cloud| cloud.run(&["health"]).text().contains("2 files below `/memory` are gone");
    cloud.until("it is said that they are gone", told);
    let error = cloud.fails(5, &["cat", "/memory/kept/part-00000"]);
    assert!(error.contains("run the job again that made it"), "{error}");
    let error = cloud.fails(5, &["run", "--udf", "copy", "--input", "/memory/kept", "--output", "/out"]);
    assert!(error.contains("run the job again that made it"), "{error}");
    copy(&cloud, "/text", "/memory/again");
    cloud.ok(&["rm", "-r", "/memory/kept"]);
    assert_eq!(lines(&cloud, "/memory/again"), 20);
}

#[test]
fn files_go_into_memory_and_out_of_it_by_copies_and_the_folder_itself_is_no_output() {
    let cloud = cloud();
    cloud.ok(&["mkdir", "/memory"]);
    cloud.ok(&["cp", "/text", "/memory/text"]);
    assert_eq!(cloud.good_copies("/memory/text").len(), 1);
    let error = cloud.fails(2, &["mv", "/memory/text", "/elsewhere"]);
    assert!(error.contains("sector cp"), "{error}");
    cloud.ok(&["mv", "/memory/text", "/memory/words"]);
    cloud.ok(&["cp", "/memory/words", "/elsewhere"]);
    assert_eq!(cloud.ok(&["cat", "/elsewhere"]), cloud.ok(&["cat", "/text"]));
    let error = cloud.fails(2, &["run", "--udf", "copy", "--input", "/text", "--output", "/memory"]);
    assert!(error.contains("a folder of its own"), "{error}");
    // A job that a node drives keeps its journal beside its output.
    let job = cloud.ok(&["run", "--detach", "--udf", "copy", "--input", "/text", "--output", "/memory/detached"]);
    cloud.ok(&["job", job.trim(), "--wait"]);
    assert_eq!(lines(&cloud, "/memory/detached"), 20);
    cloud.until("its journal is gone", |cloud| cloud.ok(&["ls", "/memory"]).lines().count() == 2);
}
