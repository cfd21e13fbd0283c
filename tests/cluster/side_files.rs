//! Side files of functions: small slices that every call of a stage's function may read. Each is sent to a node once,
//! in the version that it had when the job began. That holds whichever node drives the job, and whatever happens to
//! the file.

use std::{fs, path::PathBuf};

use cluster::{Cloud, ended, kill, random_bytes};
use serde_json::Value;

use crate::{
    detached::Detached,
    job_faults::{GATED, Text, count},
};

/// Prepended to a gated function: it counts under the hash of its side file.
const READS: &str = r#"
        uint64_t side_length;
        const uint8_t *side = sector_side_file(input, "words", &side_length);
        if (!side) { output->fail(output, SECTOR_NO_RECORD, "there is no side file"); return 1; }
        static const char digits[] = "0123456789abcdef";
        char counter[] = "side 0123456789abcdef";
        for (int digit = 0; digit < 16; digit++)
            counter[5 + digit] = digits[sector_key_hash(side, side_length) >> (60 - 4 * digit) & 15];
        sector_count(output, counter, 1);
        int gone_on = 0;"#;

/// A text whose gated functions read the side file `words`, which one node holds; also the bytes of that file.
fn text(nodes: u32, files: u32) -> (Text, Vec<u8>) {
    let mut text = Text::of(nodes, files);
    text.library = text.cloud.compile("reads", &GATED.replace("int gone_on = 0;", READS)).display().to_string();
    let words = random_bytes(3_000_001);
    put(&text.cloud, "/side/words", &words);
    (text, words)
}

fn put(cloud: &Cloud, path: &str, bytes: &[u8]) {
    let file = cloud.file("side", bytes);
    cloud.ok(&["put", "--copies", "1", "--sync-copies", "1", file.to_str().unwrap(), path]);
}

/// What the functions counted under the hashes of their side file: one hash, and the number of segments.
fn hashed(stage: &Value) -> (String, u64) {
    let counters = stage["counters"].as_object().unwrap();
    let found: Vec<_> =
        counters.iter().filter_map(|(name, count)| Some((name.strip_prefix("side ")?, count))).collect();
    let [(hash, count)] = found[..] else { panic!("{counters:?}") };
    (hash.to_owned(), count.as_u64().unwrap())
}

/// The hash of `sector_udf.h`.
fn hash(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

/// The files of a node's jobs with these bytes.
fn fetched(cloud: &Cloud, node: &str, bytes: &[u8]) -> Vec<PathBuf> {
    let mut unread = vec![cloud.node_folder(node).join("jobs")];
    let mut found = Vec::new();
    while let Some(path) = unread.pop() {
        if path.is_dir() {
            unread.extend(fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if fs::metadata(&path).is_ok_and(|file| file.len() == bytes.len() as u64)
            && fs::read(&path).is_ok_and(|read| read == bytes)
        {
            found.push(path);
        }
    }
    found
}

// Promise 20.
#[test]
fn a_side_file_is_sent_once_to_a_node_and_every_call_reads_the_same_bytes() {
    let (text, words) = text(3, 12);
    let job = text.begin(&["--side", "words=/side/words"]);
    text.all_stand();
    let holders = text.cloud.good_copies("/side/words");
    assert_eq!(holders.len(), 1);
    let nodes = ["node-1", "node-2", "node-3"];
    for node in nodes {
        let expected = usize::from(holders[0] != node);
        assert_eq!(fetched(&text.cloud, node, &words).len(), expected, "{node}, while {holders:?} has it");
    }
    let processes = text.pids(&nodes);
    text.end(job, &processes);
    let stages = text.stages();
    assert_eq!(hashed(&stages[0]), (hash(&words), count(&stages[0], "segments")));
    text.cloud.until("the copies went with the job", |cloud| {
        nodes.iter().all(|node| fetched(cloud, node, &words).is_empty())
    });
}

// Promise 20.
#[test]
fn a_job_whose_side_file_is_overwritten_ends_before_another_version_is_read() {
    let (text, _) = text(2, 8);
    let job = text.begin(&["--side", "words=/side/words"]);
    let standing = text.all_stand();
    put(&text.cloud, "/side/words", b"other bytes");
    // The next process must load the function again.
    kill(standing[0]);
    let ended = ended(job.wait_with_output().unwrap());
    assert!(ended.code != 0 && ended.errors.contains("`/side/words` was changed"), "{}", ended.errors);
    text.cloud.fails(3, &["ls", "/out"]);
}

// Promise 20.
#[test]
fn a_detached_job_reads_its_side_files_under_the_next_driver_too() {
    let (text, words) = text(3, 9);
    let detached = Detached::begin_with(text, &["--side", "words=/side/words"]);
    let nodes = detached.text.pids(&["node-1", "node-2", "node-3"]);
    detached.two_are_done(&nodes);
    detached.kill_driver();
    let ended = detached.end(&nodes);
    assert_eq!(ended["state"], "done", "{ended}");
    for stage in ended["stages"].as_array().unwrap() {
        assert_eq!(hashed(stage), (hash(&words), count(stage, "segments")), "{stage}");
    }
    detached.text.check_lines();
}

#[test]
fn programs_read_side_files_by_name_and_invalid_ones_are_refused_before_any_work() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "2"]);
    let lines: String = (0..2_000).map(|line| format!("line {line}\n")).collect();
    let file = cloud.file("text", &lines);
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    put(&cloud, "/side/words", b"line 7\nline 1234\n");
    let run = ["run", "--input", "/text", "--output", "/out", "--udf", "cmd:grep -xFf side/words"];
    for (code, side, said) in [
        (3, "words=/side/none", "/side/none"),
        (2, "words=/side", "`words` is a folder"),
        (2, "my-words=/side/words", "my-words"),
        (2, "words", "NAME=PATH"),
    ] {
        let error = cloud.fails(code, &[&run[..], &["--side", side]].concat());
        assert!(error.contains(said), "{error}");
    }
    let twice = ["--side", "a=/side/words", "--side", "a=/side/words"];
    assert!(cloud.fails(2, &[&run[..], &twice].concat()).contains("`a`"));
    assert_eq!(cloud.json(&["jobs"]), serde_json::json!([]), "none of these was admitted");
    let small = ["--param", "exit_codes=0,1", "--segment-bytes", "1000:2000", "--side", "words=/side/words"];
    cloud.ok(&[&run[..], &small].concat());
    let mut found: Vec<_> = Vec::new();
    for path in cloud.ok(&["find", "/out"]).lines() {
        found.extend(cloud.ok(&["cat", path]).lines().map(str::to_owned));
    }
    found.sort();
    assert_eq!(found, ["line 1234", "line 7"]);
}
