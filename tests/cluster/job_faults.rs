//! A job whose node stands still while it is at work (Sector/Sphere paper, 3.5.2). The job's own record proves that the fault
//! cost something.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use cluster::{Cloud, ended, watch};
use serde_json::Value;

use crate::jobs::compile;

/// Gives each line to the bucket of its hash, after some work for each segment.
const SLOW: &str = r#"
    #include <stdlib.h>
    #include <string.h>
    #include "sector_udf.h"
    SECTOR_UDF_LIBRARY
    SECTOR_UDF_EXPORT int32_t slow(const sector_input *input, sector_output *output) {
        const char *at = (const char *)input->bytes, *end = at + input->length;
        for (volatile long turn = 0, turns = atol(input->parameter(input, "turns")); turn < turns; turn++) { }
        while (at < end) {
            const char *stop = memchr(at, 10, (size_t)(end - at));
            size_t length = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);
            int32_t closed = output->emit(output, sector_key_hash(at, length), at, length);
            if (closed) return closed;
            at += length;
        }
        return 0;
    }
"#;

/// Turns of a loop that take a processor about half a second.
const TURNS: &str = "turns=250000000";

/// A cloud of three nodes, each a process, with a text of six files in it, of which each node has all; and its lines.
fn cloud() -> (Cloud, String, Vec<String>) {
    let cloud = Cloud::start(&["--nodes", "3", "--sites", "1", "--processes"]);
    let mut lines = Vec::new();
    for file in 0..6 {
        let text: Vec<String> = (0..500).map(|line| format!("line {line} of file {file}")).collect();
        let path = cloud.file(&format!("{file}.txt"), text.join("\n") + "\n");
        let to = format!("/text/{file}.txt");
        let copies = ["--copies", "3", "--sync-copies", "3"];
        cloud.ok(&[&["put", "--records", "lines"], &copies[..], &[path.to_str().unwrap(), &to]].concat());
        lines.extend(text);
    }
    let udf = format!("{}:slow", compile(&cloud, "slow", SLOW).display());
    lines.sort();
    (cloud, udf, lines)
}

/// Begins a job whose segments are tasks of their own.
fn begin(cloud: &Cloud, udf: &str) -> Child {
    let words = ["run", "--udf", udf, "--input", "/text", "--output", "/out", "--param", TURNS];
    let cut = ["--segment-bytes", "1:1MB"];
    let mut command = cloud.command(&[&words[..], &cut[..]].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The newest job's stages, as the master was told last.
fn stages(cloud: &Cloud) -> Option<Vec<Value>> {
    cloud.json(&["jobs"])[0]["stages"].as_array().filter(|stages| !stages.is_empty()).cloned()
}

fn count(stage: &Value, what: &str) -> u64 {
    stage[what].as_u64().unwrap()
}

/// All lines of the output, in order.
fn output(cloud: &Cloud) -> Vec<String> {
    let paths = cloud.ok(&["find", "/out"]);
    let mut lines: Vec<String> = Vec::new();
    for path in paths.lines().filter(|path| path.contains("part-")) {
        lines.extend(cloud.ok(&["cat", path]).lines().map(str::to_owned));
    }
    lines.sort();
    lines
}

/// Processes below a process, children before theirs.
fn descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        for task in fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found.split_off(1)
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "process {pid} was there");
}

#[test]
fn a_node_that_stands_still_in_the_middle_of_a_job_is_overtaken() {
    let (cloud, udf, lines) = cloud();
    let job = begin(&cloud, &udf);
    let node = cloud.node_pid("node-2");
    watch("the node is at work", || (!descendants(node).is_empty()).then_some(()));
    signal("-STOP", node);
    let ended = ended(job.wait_with_output().unwrap());
    // Before anything is asserted: a process that stands still would outlive the test.
    signal("-CONT", node);
    assert_eq!(ended.code, 0, "{}", ended.errors);
    assert_eq!(output(&cloud), lines);
    let stage = &stages(&cloud).unwrap()[0];
    assert!(count(stage, "speculative") >= 1, "a rival was begun: {stage}");
    assert_eq!((count(stage, "done"), count(stage, "failed")), (count(stage, "segments"), 0), "{stage}");
}
