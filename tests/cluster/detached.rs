//! Jobs that nodes drive, and whose drivers die. Sector/Sphere paper, 3.4: "The client is responsible for the control
//! and scheduling of the program execution". Here a node is that client, and another node takes over when it is gone.
//! The functions stop in the middle of every segment until the test lets them go on.

use std::fs;

use cluster::{Cloud, descendants, kill, poll_until};
use serde_json::Value;

use crate::job_faults::{Text, count, go_on, standing};

/// A job of two stages over a text, driven by a node. Every node has an SPE in the middle of a task of the first
/// stage.
pub(super) struct Detached {
    pub(super) text: Text,
    job: String,
}

impl Detached {
    fn begin(nodes: u32) -> Self {
        Self::begin_with(Text::of(nodes, 3 * nodes), &[])
    }

    pub(super) fn begin_with(text: Text, more: &[&str]) -> Self {
        let [first, second] = ["first", "second"].map(|function| format!("{}:{function}", text.library));
        let words = ["run", "--detach", "--udf", &first, "--then", &second, "--buckets", "6", "--input", "/text"];
        let job = text.cloud.ok(&[&words[..], &["--output", "/out", "--segment-bytes", "1:1MB"], more].concat());
        let job = job.trim().to_owned();
        let detached = Self { text, job };
        detached.text.all_stand();
        detached
    }

    /// The processes of all nodes but one.
    fn pids_but(&self, left_out: Option<&str>) -> Vec<u32> {
        let others = self.text.nodes.iter().map(String::as_str).filter(|node| Some(*node) != left_out);
        self.text.pids(&others.collect::<Vec<_>>())
    }

    fn view(&self) -> Value {
        self.text.cloud.json(&["job", &self.job])
    }

    /// The node that drives it, and the process there that does.
    fn driver(&self) -> (String, u32) {
        poll_until("a node drives the job", || {
            let node = self.view()["driver"].as_str()?.to_owned();
            let is_driver = |pid: &u32| {
                let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                words.split('\0').nth(1) == Some("driver")
            };
            let driver = descendants(self.text.cloud.node_pid(&node)).into_iter().find(is_driver)?;
            Some((node, driver))
        })
    }

    /// Kills its driver, and waits until another node drives it.
    pub(super) fn kill_driver(&self) {
        let (node, driver) = self.driver();
        kill(driver);
        self.text.cloud.until("another node drives the job", |_| {
            self.view()["driver"].as_str().is_some_and(|driver| driver != node)
        });
    }

    /// Lets one task of each of these nodes go on, until two tasks are done and recorded in the journal.
    pub(super) fn two_are_done(&self, nodes: &[u32]) {
        let ready = nodes.iter().flat_map(|node| standing(*node, "first")).collect::<Vec<_>>();
        ready.into_iter().take(2).for_each(go_on);
        let done = |cloud: &Cloud| {
            let view = cloud.json(&["job", &self.job]);
            view["stages"][0]["done"].as_u64().is_some_and(|done| done >= 2)
        };
        self.text.cloud.until("two tasks are done", done);
        // A page begun after that contains them, and the next page is begun only when that one is written.
        let pages = self.pages();
        self.text.cloud.until("the journal knows it", |_| self.pages() >= pages + 2);
    }

    fn pages(&self) -> usize {
        let journal = format!("/.sphere-{}-journal", self.job);
        self.text.cloud.ok(&["ls", &journal]).lines().count()
    }

    /// Lets all SPEs of these nodes go on until the job has ended; returns its record.
    pub(super) fn end(&self, nodes: &[u32]) -> Value {
        self.text.cloud.until("the job has ended", |_| {
            let standing = nodes.iter().flat_map(|node| ["first", "second"].map(|function| standing(*node, function)));
            standing.flatten().for_each(go_on);
            self.view()["state"] != "running"
        });
        self.view()
    }

    /// Checks that it succeeded, that the change of drivers repeated no finished work, and that only the output is
    /// left.
    fn check(&self, ended: &Value) {
        assert_eq!((ended["state"].as_str(), &ended["driver"]), (Some("done"), &Value::Null), "{ended}");
        let stage = &ended["stages"][0];
        assert_eq!(count(stage, "done"), count(stage, "segments"), "{stage}");
        self.text.check_lines();
        self.text.cloud.until("only input and output are left", |cloud| {
            let left = cloud.ok(&["ls", "/"]);
            left.split_whitespace().collect::<Vec<_>>() == ["out/", "text/"]
        });
    }
}

// Promise 23.
#[test]
fn a_detached_job_whose_driver_is_killed_goes_on_with_another_from_where_it_stood() {
    let detached = Detached::begin(3);
    let nodes = detached.pids_but(None);
    detached.two_are_done(&nodes);
    detached.kill_driver();
    let ended = detached.end(&nodes);
    detached.check(&ended);
    let stage = &ended["stages"][0];
    let again = count(stage, "retried");
    assert!(
        again >= 1 && again + 2 <= count(stage, "segments"),
        "what stood is tried again, and nothing that was done: {stage}"
    );
    // What was done before the takeover is reported too.
    let segments: u64 = ended["stages"].as_array().unwrap().iter().map(|stage| count(stage, "segments")).sum();
    assert_eq!(detached.text.attempts_that_ended("done").len() as u64, segments);
}

// Promise 23.
#[test]
fn a_detached_job_whose_node_dies_with_its_driver_and_buckets_has_every_line_once() {
    // Of two nodes, the one that is left cannot write a page in two copies.
    for nodes in [3, 2] {
        let detached = Detached::begin(nodes);
        detached.two_are_done(&detached.pids_but(None));
        let (node, _) = detached.driver();
        let others = detached.pids_but(Some(&node));
        kill(detached.text.cloud.node_pid(&node));
        let ended = detached.end(&others);
        detached.check(&ended);
    }
}

#[test]
fn a_detached_job_that_is_cancelled_leaves_nothing() {
    let detached = Detached::begin(3);
    detached.driver();
    detached.text.cloud.ok(&["job", &detached.job, "--cancel"]);
    assert_eq!(detached.view()["state"], "cancelled");
    detached.text.cloud.until("only the input is left", |cloud| cloud.ok(&["ls", "/"]).trim() == "text/");
    let nodes = detached.pids_but(None);
    detached.text.cloud.until("nobody works for it", |_| {
        nodes.iter().all(|node| standing(*node, "first").is_empty() && standing(*node, "second").is_empty())
    });
}

#[test]
fn an_impossible_detached_job_is_refused_at_once_and_a_failing_function_told_later() {
    let cloud = Cloud::start(&["--nodes", "2", "--sites", "1"]);
    let file = cloud.file("text", "a\nb\n");
    cloud.ok(&["put", "--records", "lines", file.to_str().unwrap(), "/text"]);
    let run = ["run", "--detach", "--input", "/text", "--output", "/out"];
    cloud.fails(2, &[&run[..], &["--udf", "copy", "--records", "fixed:3"]].concat());
    cloud.fails(3, &["run", "--detach", "--udf", "copy", "--input", "/none", "--output", "/out"]);
    let job = cloud.ok(&[&run[..], &["--udf", "cmd:false"]].concat());
    let waited = cloud.run(&["job", job.trim(), "--wait"]);
    assert_eq!(waited.code, 1, "{}", waited.errors);
    let view = cloud.json(&["job", job.trim()]);
    assert_eq!(view["state"], "failed");
    assert!(view["errors"][0].as_str().is_some_and(|error| error.contains("false")), "{view}");
    cloud.until("only the input is left", |cloud| cloud.ok(&["ls", "/"]).trim() == "text");
}
