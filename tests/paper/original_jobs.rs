//! Where the first Sector did not keep to its own paper in jobs, and this one does. Each test cites the section of the
//! paper. It also says what the first did instead (its code and runs of it: its SPE, its failures, paper against code).
//! The table at the end of this file names the tests for all of these points.

use std::{collections::BTreeSet, fs, process::Stdio};

use cluster::{Cloud, Roles, poll_until, random_bytes};

/// Functions that write outside their own memory: over their input, behind it, and over everything behind what they
/// have.
const SCRIBBLING: &str = r#"
    #include <stdlib.h>
    #include "sector_udf.h"
    SECTOR_UDF_LIBRARY
    static int32_t scribble(volatile char *at, size_t bytes) {
        for (size_t number = 0; number < bytes; number++) at[number] = 'X';
        return 0;
    }
    SECTOR_UDF_EXPORT int32_t over_input(const sector_input *input, sector_output *output) {
        (void)output;
        return scribble((volatile char *)input->bytes, input->length);
    }
    SECTOR_UDF_EXPORT int32_t behind_input(const sector_input *input, sector_output *output) {
        (void)output;
        return scribble((volatile char *)input->bytes + input->length, (size_t)1 << 40);
    }
    SECTOR_UDF_EXPORT int32_t over_the_heap(const sector_input *input, sector_output *output) {
        (void)input;
        (void)output;
        return scribble(malloc(16), (size_t)1 << 40);
    }
    SECTOR_UDF_EXPORT int32_t over_the_output(const sector_input *input, sector_output *output) {
        (void)input;
        return scribble((volatile char *)output, (size_t)1 << 40);
    }
"#;

/// 3.3: "the SPE then opens the dynamic libraries", and 3.5.2: "bugs in user defined functions" are reported. The
/// first ran functions within the slave. One that wrote past its buffers corrupted the slave's memory. One that
/// crashed took down the slave, with all its file service.
// Promise 22.
#[test]
fn a_function_that_writes_where_it_may_not_ends_alone_and_changes_no_slice() {
    let cloud = Cloud::start(&["--nodes", "1", "--sites", "1", "--processes"]);
    let file = cloud.random_file("in", 300_000);
    cloud.ok(&["put", file.to_str().unwrap(), "/in"]);
    let library = cloud.compile("scribbling", SCRIBBLING);
    let node = cloud.node_pid("node-1");
    for function in ["over_input", "behind_input", "over_the_heap", "over_the_output"] {
        let udf = format!("{}:{function}", library.display());
        let errors = cloud.fails(1, &["run", "--udf", &udf, "--input", "/in", "--output", "/out"]);
        let place = format!("the function `{function}` failed on `/in`, segment 0");
        assert!(errors.contains(&place) && errors.contains("SIG"), "{errors}");
        cloud.fails(3, &["ls", "/out"]);
    }
    assert_eq!(cloud.node_pid("node-1"), node, "the node did not notice");
    assert!(fs::read(cloud.node_folder("node-1").join("slices/in")).unwrap() == random_bytes(300_000));
    cloud.ok(&["run", "--udf", "count", "--input", "/in", "--output", "/out"]);
    assert!(cloud.ok(&["cat", "/out/part-00000"]).contains("300000"));
}

/// 3.5.2: "if errors occur … due to problems with the input data", they are reported. The first counted the segment
/// as failed and went on, so that a part of the output was lost. Here the results of the other files do not appear
/// either.
// Promise 19.
#[test]
fn an_input_without_a_good_copy_fails_its_job_whole() {
    let mut cloud = Roles::start(2, 1);
    for (name, byte) in [("a", b'a'), ("b", b'b'), ("c", b'c')] {
        let file = cloud.file(name, vec![byte; 100_000]);
        let to = format!("/in/{name}");
        cloud.ok(&["put", "--copies", "1", "--sync-copies", "1", file.to_str().unwrap(), &to]);
    }
    let run = ["run", "--udf", "copy", "--input", "/in", "--output", "/out", "--segment-bytes", "1:1MB"];
    let holder = cloud.good_copies("/in/b").remove(0);
    let native = cloud.role_folder(&holder).join("slices/in/b");
    let mut bytes = fs::read(&native).unwrap();
    bytes[50_000] ^= 1;
    fs::write(&native, bytes).unwrap();
    let errors = fails_whole(&cloud, &run);
    assert!(errors.contains("/in/b"), "{errors}");
    // If every node that has it is gone, the job waits and reports it. It leaves nothing if the user cancels the
    // wait.
    cloud.ok(&["rm", "/in/b"]);
    let lost = cloud.good_copies("/in/a").remove(0);
    cloud.kill(&lost);
    cloud.until("it counts as lost", |cloud| cloud.ok(&["nodes", "--json"]).contains("\"lost\""));
    let waiting = cloud.command(&run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let job = poll_until("the job waits for an input", || {
        let job = cloud.json(&["jobs"])[0].clone();
        let waits = job["errors"][0].as_str().is_some_and(|error| error.starts_with("waiting: no copy of `/in/"));
        (waits && job["state"] == "running").then(|| job["id"].as_str().unwrap().to_owned())
    });
    cloud.ok(&["job", &job, "--cancel"]);
    assert_ne!(waiting.wait_with_output().unwrap().status.code(), Some(0));
    leaves_nothing(&cloud);
}

/// Runs a job that fails and leaves nothing; returns its message.
fn fails_whole(cloud: &Cloud, run: &[&str]) -> String {
    let ended = cloud.run(run);
    assert_ne!(ended.code, 0, "{}", ended.text());
    assert_eq!(cloud.json(&["jobs"])[0]["state"], "failed");
    leaves_nothing(cloud);
    ended.errors
}

fn leaves_nothing(cloud: &Cloud) {
    cloud.fails(3, &["ls", "/out"]);
    let hidden = cloud.ok(&["find", "/"]);
    assert!(hidden.lines().all(|path| path.starts_with("/in/")), "{hidden}");
}

/// 3.6: "the inverted index consists of multiple files managed by Sector". The first told its master only of the
/// unsorted buckets. The results of its sort and its reduce were listed only after a restart of the slaves.
// Promise 19.
#[test]
fn every_file_of_a_mapreduce_is_listed_at_once_and_the_same_after_a_restart() {
    let cloud = Cloud::start(&["--nodes", "3", "--sites", "1"]);
    let text: String = (0..2_000).map(|number| format!("word{number} of many\n")).collect();
    let file = cloud.file("text", text);
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    let job = ["run", "--udf", "words", "--buckets", "12", "--then", "index", "--input", "/text", "--output", "/out"];
    cloud.ok(&job);
    let listed = || -> Vec<(String, String)> {
        let paths = cloud.json(&["ls", "/out"]);
        let paths = paths.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned());
        paths.map(|path| (cloud.ok(&["cat", &path]), path)).collect()
    };
    let files = listed();
    assert_eq!(files.len(), 12, "two thousand words leave no bucket empty");
    let lines = files.iter().flat_map(|(text, _)| text.lines());
    let words: BTreeSet<_> = lines.filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words.len(), 2_002);
    cloud.down();
    cloud.up();
    assert_eq!(listed(), files);
}

/// 3.5.1: "Sphere limits the data segment size between size boundaries … (the default values are 8MB and 128MB …)". The
/// first had 1 and 256.
#[test]
fn segments_are_of_8_to_128_mebibytes_by_default() {
    let mut cloud = Roles::start(1, 1);
    // A single SPE would get everything in one segment; sixteen would get a sixteenth each.
    for (slots, mebibytes, expected) in [("1", 128, 1), ("1", 129, 2), ("16", 24, 3)] {
        cloud.kill("node-1");
        cloud.change("node-1", "spe_slots", slots);
        cloud.run_role("node-1");
        cloud.until_up(1);
        let (file, path) = (cloud.folder().join("zeros"), format!("/in/{mebibytes}"));
        fs::File::create(&file).unwrap().set_len(mebibytes << 20).unwrap();
        cloud.ok(&["put", "--records", "fixed:1024", file.to_str().unwrap(), &path]);
        cloud.ok(&["run", "--udf", "count", "--input", &path, "--output", &format!("/out/{mebibytes}")]);
        let stage = &cloud.json(&["jobs"])[0]["stages"][0];
        assert_eq!(stage["segments"], expected, "{mebibytes} MiB over {slots} SPEs: {stage}");
    }
}

// What the first Sector did, and the tests that hold the paper's side here:
//
// | the first Sector | here it is held by |
// |---|---|
// | lost an SPE after buckets were used: the whole job failed | *tests/cluster* `an_spe_that_is_killed_in_the_middle_of_its_task_costs_that_task_alone`; *sphere* `whatever_dies_every_record_is_in_the_output_once` |
// | lost a node with bucket data: the job failed | *tests/cluster* `a_node_that_dies_while_its_buckets_are_filled_costs_its_own_task_and_no_record`, `a_node_that_dies_while_its_buckets_are_read_costs_what_it_held_and_no_record` |
// | no speculative copy in any revision; a slow SPE held up the job | *tests/cluster* `an_spe_that_stands_still_in_the_middle_of_its_task_is_overtaken`, `a_node_that_stands_still_in_the_middle_of_a_job_is_overtaken` |
// | a silent SPE was waited for | *sphere* `a_silent_spe_is_given_up_and_its_late_news_ignored` |
// | a function's error was ignored | `a_functions_error_is_reported_once_and_not_tried_elsewhere` beside this file |
// | a function that crashed took the node along | *tests/cluster* `a_function_that_crashes_fails_its_job_and_nothing_else`; past its buffers, `a_function_that_writes_where_it_may_not_ends_alone_and_changes_no_slice` |
// | a function that leaked took the node's memory | *tests/cluster* `a_hostile_function_gets_nothing_and_its_job_names_function_slice_and_reason` |
// | input that could not be read: the job went on and left a part out | `an_input_without_a_good_copy_fails_its_job_whole` |
// | a library that could not be loaded: the same | *tests/cluster* `a_library_without_the_symbol_or_the_version_is_named` |
// | results that could not be delivered: the same | *node* `what_a_dead_node_could_not_take_is_kept_and_sent_to_another` |
// | output of MapReduce was listed only after a restart | `every_file_of_a_mapreduce_is_listed_at_once_and_the_same_after_a_restart` |
// | segments of 1 to 256 MB | `segments_are_of_8_to_128_mebibytes_by_default` |
// | results sent from memory, before they were on a disk | *node* `of_the_scratch_files_only_what_went_to_another_node_is_kept` |
// | a random start in place of rule 2 (files read side by side) | *sphere* `own_bytes_come_first_then_other_files_then_the_order_of_the_stream`, `a_file_that_was_left_counts_as_unread` |
// | whole files only where they lay (no index: no data moved) | *node* `a_segment_of_another_node_is_read_as_if_it_were_here` |
// | one job at a time for each client | *client* `a_client_runs_a_job_while_another_of_its_jobs_stands_still` |
// | one copy of each file | `three_copies_are_made_by_default_and_lie_in_more_than_one_site` beside this file |
// | a tight loop where an input is empty; several nodes on one address leave buckets unsorted | [`original_weaknesses`](crate::original_weaknesses) |
