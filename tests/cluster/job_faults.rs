//! Jobs whose SPEs and nodes die or hang while they are at work (Sector/Sphere paper, 3.5.2). The functions stop
//! themselves in the middle of every segment until the test lets them go on. So no fault comes too early or too late,
//! and the job's own record proves what it cost.

// Promise 19.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use cluster::{Cloud, Roles, descendants, ended, kill, poll_until, random_bytes};
use serde_json::Value;

/// Each function sends every line to the bucket of its hash. Half-way it gives its thread its own name and stops its
/// process.
pub(super) const GATED: &str = r#"
    #define _GNU_SOURCE
    #include <signal.h>
    #include <string.h>
    #include <sys/prctl.h>
    #include "sector_udf.h"
    SECTOR_UDF_LIBRARY
    static int32_t lines(const char *name, const sector_input *input, sector_output *output) {
        const char *begin = (const char *)input->bytes, *end = begin + input->length, *at = begin;
        int gone_on = 0;
        while (at < end) {
            if (!gone_on && at - begin >= (end - begin) / 2) {
                prctl(PR_SET_NAME, name);
                raise(SIGSTOP);
                gone_on = 1;
            }
            const char *stop = memchr(at, 10, (size_t)(end - at));
            size_t length = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);
            int32_t closed = output->emit(output, sector_key_hash(at, length), at, length);
            if (closed) return closed;
            at += length;
            sector_count(output, "lines", 1);
        }
        return 0;
    }
    SECTOR_UDF_EXPORT int32_t first(const sector_input *input, sector_output *output) {
        return lines("first", input, output);
    }
    SECTOR_UDF_EXPORT int32_t second(const sector_input *input, sector_output *output) {
        return lines("second", input, output);
    }
"#;

/// A cloud of processes with a text of which every node has a full copy, and the lines of that text.
pub(super) struct Text {
    pub(super) cloud: Cloud,
    pub(super) nodes: Vec<String>,
    pub(super) library: String,
    lines: Vec<String>,
}

impl Text {
    /// One segment per file.
    pub(super) fn of(nodes: u32, files: u32) -> Self {
        let count = nodes.to_string();
        let cloud = Cloud::start(&["--nodes", &count, "--sites", "1", "--processes"]);
        let mut lines = Vec::new();
        for file in 0..files {
            let text: Vec<String> = (0..500).map(|line| format!("line {line} of file {file}")).collect();
            let path = cloud.file(&format!("{file}.txt"), text.join("\n") + "\n");
            let (path, to) = (path.to_str().unwrap(), format!("/text/{file}.txt"));
            cloud.ok(&["put", "--records", "lines", "--copies", &count, "--sync-copies", &count, path, &to]);
            lines.extend(text);
        }
        lines.sort();
        let library = cloud.compile("gated", GATED).display().to_string();
        let nodes = (1..=nodes).map(|number| format!("node-{number}")).collect();
        Self { cloud, nodes, library, lines }
    }

    /// Begins a job whose segments are tasks of their own.
    pub(super) fn begin(&self, more: &[&str]) -> Child {
        let udf = format!("{}:first", self.library);
        let words = ["run", "--udf", &udf, "--input", "/text", "--output", "/out", "--segment-bytes", "1:1MB"];
        let mut command = self.cloud.command(&[&words[..], more].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The same with a shuffle and a second stage.
    fn begin_shuffle(&self) -> Child {
        self.begin(&["--buckets", "6", "--then", &format!("{}:second", self.library)])
    }

    /// Waits until an SPE of the node has stopped in the middle of a segment, in this function.
    fn stands(&self, node: &str, function: &str) -> u32 {
        let pid = self.cloud.node_pid(node);
        poll_until("an SPE stands in the middle of its task", || standing(pid, function).first().copied())
    }

    /// Waits until each node has an SPE in the middle of a task of the first stage.
    pub(super) fn all_stand(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| self.stands(node, "first")).collect()
    }

    /// Waits until `node-3` has stopped in the middle of one of its buckets, in the second stage. Returns the
    /// processes of the other nodes, and its own.
    fn reads_its_buckets(&self) -> (Vec<u32>, u32) {
        // Then each node has results of the first stage.
        self.all_stand();
        let (others, node) = (self.pids(&["node-1", "node-2"]), self.cloud.node_pid("node-3"));
        self.cloud.until("the node reads its buckets", |_| {
            let firsts = others.iter().chain([&node]).flat_map(|node| standing(*node, "first"));
            firsts.for_each(go_on);
            !standing(node, "second").is_empty()
        });
        (others, node)
    }

    /// Of the first stage, the work of the lost node was repeated. Of the second, at least the interrupted task was.
    fn check_that_it_cost_a_part_of_both_stages(&self) {
        let stages = self.stages();
        let again = count(&stages[0], "retried");
        assert!(again >= 1 && again < count(&stages[0], "segments"), "{stages:?}");
        assert!(count(&stages[1], "retried") >= 1, "{stages:?}");
    }

    /// Lets all SPEs of these nodes go on, whenever they stop, until the job has ended. The job must have succeeded,
    /// with every line in its output once.
    pub(super) fn end(&self, mut job: Child, nodes: &[u32]) {
        self.cloud.until("the job has ended", |_| {
            let standing = nodes.iter().flat_map(|node| ["first", "second"].map(|function| standing(*node, function)));
            standing.flatten().for_each(go_on);
            job.try_wait().unwrap().is_some()
        });
        let ended = ended(job.wait_with_output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.errors);
        self.check_lines();
    }

    /// Every line is in the output once.
    pub(super) fn check_lines(&self) {
        let paths = self.cloud.ok(&["find", "/out"]);
        let mut lines: Vec<String> = Vec::new();
        for path in paths.lines() {
            lines.extend(self.cloud.ok(&["cat", path]).lines().map(str::to_owned));
        }
        lines.sort();
        assert_eq!(lines, self.lines);
    }

    /// Processes of these nodes.
    pub(super) fn pids(&self, nodes: &[&str]) -> Vec<u32> {
        nodes.iter().map(|node| self.cloud.node_pid(node)).collect()
    }

    /// The attempts of the job with this outcome.
    pub(super) fn attempts_that_ended(&self, end: &str) -> Vec<Value> {
        let jobs = self.cloud.json(&["jobs"]);
        let attempts = self.cloud.json(&["job", jobs[0]["id"].as_str().unwrap(), "--segments"]);
        attempts.as_array().unwrap().iter().filter(|attempt| attempt["end"] == end).cloned().collect()
    }

    /// How many attempts failed and were overtaken, a pair for each node.
    fn marks(&self) -> Vec<(u64, u64)> {
        let nodes = self.cloud.json(&["nodes"]);
        let marks = nodes.as_array().unwrap().iter().map(|node| &node["marks"]);
        marks.map(|marks| (count(marks, "failed"), count(marks, "overtaken"))).collect()
    }

    /// The job's stages, all of which are complete and have counted each line once, whatever died.
    pub(super) fn stages(&self) -> Vec<Value> {
        let stages = self.cloud.json(&["jobs"])[0]["stages"].as_array().unwrap().clone();
        for stage in &stages {
            assert_eq!((count(stage, "done"), count(stage, "failed")), (count(stage, "segments"), 0), "{stage}");
            assert_eq!(count(&stage["counters"], "lines"), self.lines.len() as u64, "each is counted once: {stage}");
        }
        stages
    }
}

pub(super) fn count(stage: &Value, what: &str) -> u64 {
    stage[what].as_u64().unwrap()
}

/// The stopped processes below a process whose thread has this name.
pub(super) fn standing(pid: u32, name: &str) -> Vec<u32> {
    let is_so = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let mut names = threads.map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
        status.contains("State:\tT (stopped)") && names.any(|found| found.trim_end() == name)
    };
    descendants(pid).into_iter().filter(is_so).collect()
}

fn signal(name: &str, pid: u32) -> bool {
    Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status().unwrap().success()
}

/// Lets a stopped process go on. It may have been ended meanwhile, since another was faster.
pub(super) fn go_on(pid: u32) {
    signal("-CONT", pid);
}

/// A stopped process, until this is dropped, so that it does not outlive a failed test.
struct Stopped(u32);

impl Stopped {
    fn stop(pid: u32) -> Self {
        assert!(signal("-STOP", pid), "the fault must have fired: process {pid} was there");
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        go_on(self.0);
    }
}

/// With a shuffle: the first Sector ended every job with buckets when it lost an SPE.
// Promise 18.
#[test]
fn an_spe_that_is_killed_in_the_middle_of_its_task_costs_that_task_alone() {
    let text = Text::of(2, 8);
    let job = text.begin_shuffle();
    let spes = text.all_stand();
    let nodes = text.pids(&["node-1", "node-2"]);
    kill(spes[0]);
    text.end(job, &nodes);
    let stages = text.stages();
    assert_eq!((count(&stages[0], "segments"), count(&stages[0], "retried")), (8, 1), "{stages:?}");
    assert_eq!(count(&stages[1], "retried"), 0, "{stages:?}");
    assert_eq!(text.pids(&["node-1", "node-2"]), nodes, "the node did not notice");

    let ends = text.attempts_that_ended("failed");
    let [failed] = &ends[..] else { panic!("{ends:?}") };
    assert_eq!((&failed["node"], &failed["stage"], &failed["attempt"]), (&"node-1".into(), &0.into(), &0.into()));
    assert!(failed["slice"].as_str().unwrap().starts_with("/text/"), "{failed}");
    assert_eq!(text.attempts_that_ended("done").len(), 8 + 6, "every segment and every bucket");
    assert_eq!(text.marks(), [(1, 0), (0, 0)]);
}

// Promise 18.
#[test]
fn a_node_that_dies_while_its_buckets_are_filled_costs_its_own_task_and_no_record() {
    let text = Text::of(3, 9);
    let job = text.begin_shuffle();
    let spes = text.all_stand();
    let nodes = text.pids(&["node-1", "node-2"]);
    // An SPE gets its next task when the pieces of the previous one are in their buckets.
    spes[..2].iter().copied().for_each(go_on);
    for node in &text.nodes[..2] {
        text.stands(node, "first");
    }
    kill(text.cloud.node_pid("node-3"));
    text.end(job, &nodes);
    let stages = text.stages();
    let again = count(&stages[0], "retried");
    // Its own, and those whose pieces were on their way to it when it died.
    assert!((1..=3).contains(&again) && count(&stages[0], "segments") == 9, "{stages:?}");
}

// Promise 18.
#[test]
fn a_node_that_dies_while_its_buckets_are_read_costs_what_it_held_and_no_record() {
    let text = Text::of(3, 9);
    let job = text.begin_shuffle();
    let (nodes, victim) = text.reads_its_buckets();
    kill(victim);
    text.end(job, &nodes);
    text.check_that_it_cost_a_part_of_both_stages();
}

/// A task that reads a bucket gets no speculative attempt: no other node has its bytes.
// Promise 18.
#[test]
fn a_node_that_hangs_while_its_buckets_are_read_costs_what_it_held_and_no_record() {
    let text = Text::of(3, 9);
    let job = text.begin_shuffle();
    let (nodes, victim) = text.reads_its_buckets();
    let stopped = Stopped::stop(victim);
    text.end(job, &nodes);
    drop(stopped);
    text.check_that_it_cost_a_part_of_both_stages();
}

// Promise 18.
#[test]
fn an_spe_that_stands_still_in_the_middle_of_its_task_is_overtaken() {
    let text = Text::of(2, 6);
    let job = text.begin(&[]);
    let spes = text.all_stand();
    text.end(job, &text.pids(&["node-2"]));
    let stage = &text.stages()[0];
    assert!(count(stage, "speculative") >= 1, "{stage}");
    let lost = format!("/proc/{}", spes[0]);
    poll_until("the one that lost has ended", || (!Path::new(&lost).exists()).then_some(()));
    let ends = text.attempts_that_ended("overtaken");
    let [overtaken] = &ends[..] else { panic!("{ends:?}") };
    assert_eq!(overtaken["node"], "node-1");
    assert!(overtaken["took_ms"].as_u64().unwrap() >= 2_000, "nobody is slow before: {overtaken}");
    assert_eq!(text.marks(), [(0, 1), (0, 0)]);
    let shown = text.cloud.ok(&["nodes"]);
    assert!(shown.contains("up, 1 overtaken"), "{shown}");
}

// Promise 18.
#[test]
fn a_node_that_stands_still_in_the_middle_of_a_job_is_overtaken() {
    let text = Text::of(3, 6);
    let job = text.begin(&[]);
    text.all_stand();
    let others = text.pids(&["node-1", "node-3"]);
    let stopped = Stopped::stop(text.cloud.node_pid("node-2"));
    text.end(job, &others);
    drop(stopped);
    let stage = &text.stages()[0];
    assert!(count(stage, "speculative") >= 1, "a rival was begun: {stage}");
}

// Promise 18.
#[test]
fn a_node_at_which_attempts_failed_holds_no_bucket_of_the_next_job() {
    let text = Text::of(3, 9);
    let nodes = text.pids(&["node-1", "node-2", "node-3"]);
    let job = text.begin(&[]);
    for _ in 0..3 {
        let spe = text.stands("node-1", "first");
        kill(spe);
        poll_until("the SPE is gone", || (!standing(nodes[0], "first").contains(&spe)).then_some(()));
    }
    text.end(job, &nodes);
    assert_eq!(text.attempts_that_ended("failed").len(), 3);
    assert_eq!(text.marks()[0].0, 3, "each task was then done elsewhere");

    text.cloud.ok(&["rm", "-r", "/out"]);
    text.end(text.begin_shuffle(), &nodes);
    let done = text.attempts_that_ended("done");
    let readers = done.iter().filter(|attempt| attempt["stage"] == 1);
    let at: Vec<_> = readers.map(|attempt| attempt["node"].as_str().unwrap()).collect();
    assert_eq!(at.len(), 6, "every bucket was read, where it was: {done:?}");
    assert!(!at.contains(&"node-1"), "{done:?}");
}

#[test]
fn a_job_waits_for_an_input_whose_only_node_is_away_and_says_so() {
    let mut cloud = Roles::start(3, 1);
    for name in ["a", "b"] {
        let file = cloud.file(name, random_bytes(100_000));
        let path = format!("/in/{name}");
        cloud.ok(&[
            "put",
            "--copies",
            "1",
            "--sync-copies",
            "1",
            "--records",
            "fixed:100",
            file.to_str().unwrap(),
            &path,
        ]);
    }
    let holder = cloud.good_copies("/in/a").pop().unwrap();
    cloud.kill(&holder);
    cloud.until_up(2);
    let words = ["run", "--udf", "copy", "--input", "/in/a", "--output", "/out"];
    let job = cloud.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    cloud.until("the job says what it waits for", |cloud| {
        let jobs = cloud.json(&["jobs"]);
        let errors = jobs[0]["errors"].as_array().into_iter().flatten();
        errors.filter_map(Value::as_str).any(|error| error.starts_with("waiting: no copy of `/in/a` can be reached"))
    });
    cloud.run_role(&holder);
    let ended = ended(job.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.errors);
    let record = &cloud.json(&["jobs"])[0];
    assert_eq!((record["errors"].as_array().map(Vec::len), &record["stages"][0]["retried"]), (Some(0), &0.into()));
    let [file, out] = ["/in/a", "/out/part-00000"].map(|path| cloud.command(&["cat", path]).output().unwrap().stdout);
    assert_eq!((file.len(), file == out), (100_000, true));
}

#[test]
fn a_bucket_goes_when_what_was_made_of_it_is_in_the_output_and_is_never_made_again() {
    let text = Text::of(3, 6);
    let nodes = text.pids(&["node-1", "node-2", "node-3"]);
    let job = text.begin_shuffle();
    text.reads_its_buckets();
    let buckets = || {
        let jobs = text.nodes.iter().flat_map(|node| fs::read_dir(text.cloud.node_folder(node).join("jobs")).unwrap());
        let files = jobs.filter_map(|job| fs::read_dir(job.unwrap().path().join("buckets")).ok()).flatten();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("0-0-")).count()
    };
    assert_eq!(buckets(), 6);
    go_on(text.stands("node-3", "second"));
    text.cloud.until("one of its buckets is gone", |_| buckets() < 6);
    // A task at work keeps its bucket: the bucket is read again after this.
    kill(text.stands("node-1", "second"));
    text.end(job, &nodes);
    let stages = text.stages();
    assert_eq!((count(&stages[0], "retried"), count(&stages[1], "retried")), (0, 1), "{stages:?}");
}
