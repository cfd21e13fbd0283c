//! Claims of the papers, each with its section, tested against the running system. The paper is "Sector and Sphere:
//! the design and implementation of a high-performance data cloud".

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod original_jobs;
mod original_weaknesses;
mod sphere;

use std::{collections::BTreeSet, fs};

use cluster::{Cloud, random_bytes};

/// 2.2: "each Sector Slice is stored as one single file in the native file system".
// Promise 12.
#[test]
fn a_slice_is_one_native_file_at_its_own_path() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1"]);
    let file = cloud.random_file("in", 5_000_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/sdss/sdss1.dat"]);
    let native = cloud.node_folder("node-1").join("slices/sdss/sdss1.dat");
    cloud.until("the slice is at its path", |_| native.exists());
    assert_eq!(fs::read(native).unwrap(), random_bytes(5_000_000));
}

/// 2.2: "the current default is 3 [copies] … The new location of the file copy is based on the topology".
// Promise 14.
#[test]
fn three_copies_are_made_by_default_and_lie_in_more_than_one_site() {
    let cloud = Cloud::start(&[]);
    let file = cloud.random_file("in", 100_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/in"]);
    cloud.until("three nodes hold it", |cloud| cloud.good_copies("/in").len() == 3);
    let stat = cloud.json(&["stat", "/in"]);
    assert_eq!(stat["copies_wanted"], 3);
    let sites: BTreeSet<_> =
        stat["copies"].as_array().unwrap().iter().map(|copy| copy["site"].as_str().unwrap()).collect();
    assert_eq!(sites.len(), 2);
}

/// 2.2: "a Sector user can connect to a single slave node to upload or download a file". With one copy there is one
/// node, and it has the whole file.
#[test]
fn one_node_has_the_whole_file() {
    let cloud = Cloud::start(&[]);
    let file = cloud.random_file("in", 3_000_000);
    cloud.ok(&["put", "--copies", "1", "--sync-copies", "1", file.to_str().unwrap(), "/in"]);
    let holders = cloud.good_copies("/in");
    assert_eq!(holders.len(), 1);
    let native = cloud.node_folder(&holders[0]).join("slices/in");
    cloud.until("the slice is at its path", |_| native.exists());
    assert_eq!(fs::metadata(native).unwrap().len(), 3_000_000);
}

/// 3.5.1: segments lie between the least and the largest size, and are whole records of one file.
#[test]
fn segments_are_within_their_bounds_and_whole_records() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "1"]);
    let file = cloud.random_file("in", 1_000_000);
    cloud.ok(&["put", "--records", "fixed:1000", file.to_str().unwrap(), "/in"]);
    // The average, a million bytes divided by the SPEs, is above the largest: ten segments of a hundred records.
    cloud.ok(&["run", "--udf", "count", "--input", "/in", "--output", "/out", "--segment-bytes", "1000:100000"]);
    let job = &cloud.json(&["jobs"])[0];
    assert_eq!(job["stages"][0]["segments"], 10);
    let mut records = 0;
    for path in cloud.ok(&["find", "/out"]).lines() {
        let line = cloud.ok(&["cat", path]);
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(numbers[1], 100, "{line}");
        records += numbers[1];
    }
    assert_eq!(records, 1000);
}

/// 3.5.2, rule 1: "each data segment is assigned to an SPE on the same node if there is one available". The tests in
/// `crates/sphere` check the rule itself against every order of events. This test shows that the second stage runs
/// where the buckets lie, and nowhere else.
#[test]
fn buckets_are_processed_where_they_lie() {
    let cloud = Cloud::start(&[]);
    cloud.ok(&["oct", "terasort", "gen", "--records", "80000", "--files", "8", "/gen"]);
    cloud.ok(&["oct", "terasort", "sort", "/gen", "/sorted", "--buckets", "8"]);
    let job = &cloud.json(&["jobs"])[0];
    let stages = job["stages"].as_array().unwrap();
    assert!(stages.iter().all(|stage| stage["done"] == stage["segments"]), "{job}");
    assert_eq!(stages[1]["local"], stages[1]["segments"], "{job}");
}

/// 3.5.2 is about errors "due to problems with the input data or bugs in user defined functions". It says: "the data
/// segment will not be processed by any other SPE. Instead, an error report is sent back to the client".
// Promise 21.
#[test]
fn a_functions_error_is_reported_once_and_not_tried_elsewhere() {
    let cloud = Cloud::start(&[]);
    let file = cloud.file("in", "three words here\n");
    cloud.ok(&["put", "--copies", "4", file.to_str().unwrap(), "/in"]);
    // `teragen` expects numbers and finds words.
    let ended = cloud.run(&["run", "--udf", "teragen", "--input", "/in", "--output", "/out"]);
    assert_eq!(ended.code, 1, "{}", ended.errors);
    let job = &cloud.json(&["jobs"])[0];
    assert_eq!(job["state"], "failed");
    assert_eq!(job["stages"][0]["retried"], 0);
    let id = job["id"].as_str().unwrap();
    let errors = cloud.ok(&["job", id, "--errors"]);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("/in"), "{errors}");
}

/// 3.2 and Figure 3: "after stage 2, the entire dataset (stream) is now sorted. This is because all elements in a
/// bucket are smaller than all the elements in any buckets further along".
#[test]
fn two_stages_sort_a_data_set_over_its_buckets() {
    let cloud = Cloud::start(&[]);
    cloud.ok(&["oct", "terasort", "gen", "--records", "30000", "/gen"]);
    cloud.ok(&["oct", "terasort", "sort", "/gen", "/sorted", "--buckets", "6"]);
    let mut last: Option<Vec<u8>> = None;
    let files = cloud.ok(&["find", "/sorted"]);
    assert!(files.lines().count() >= 5, "several buckets: {files}");
    for path in files.lines() {
        let bytes = cloud.run(&["cat", path]).out;
        let keys: Vec<_> = bytes.chunks(100).map(|record| record[..10].to_vec()).collect();
        assert!(keys.is_sorted());
        if let (Some(last), Some(first)) = (&last, keys.first()) {
            assert!(last <= first, "{path} begins before the file before it ends");
        }
        last = keys.last().cloned().or(last);
    }
}
