//! Jobs under chaos (`cargo xtask chaos jobs`): a terasort, and an inverted index of all texts of a folder.
//! Meanwhile, processes of functions, drivers, nodes and servers are killed and stopped at random. A result is
//! correct every time, or there is no output and a sentence that says why.

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::mpsc::sync_channel,
    thread,
    time::{Duration, Instant},
};

use cluster::{Ended, Roles, descendants, ended, kill};
use fastrand::Rng;
use functions::reference::{IndexSummary, ReferenceIndex};
use serde_json::Value;

use crate::fault::Faults;

/// What is to be run.
pub(crate) struct JobsPlan {
    /// Millions of bytes to sort.
    pub(crate) megabytes: u64,
    /// The folder whose text files are indexed.
    pub(crate) texts: PathBuf,
    /// The most of them, in millions of bytes.
    pub(crate) text_megabytes: u64,
    pub(crate) seed: u64,
}

/// Runs both; returns a sentence for each error.
pub(crate) fn run(plan: &JobsPlan) -> Vec<String> {
    let (cloud, rng) = (Roles::start(NODES, 2), Rng::with_seed(plan.seed));
    let mut trial = Trial { cloud, rng, faults: Faults::default(), killed: 0, given_up: BTreeMap::new() };
    let wrong: Vec<String> = [trial.sort(plan.megabytes), trial.index(&plan.texts, plan.text_megabytes << 20)]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    println!("{}, {} killed processes of functions and drivers", trial.faults.summary(), trial.killed);
    println!("jobs that gave up, without output: {:?}", trial.given_up);
    let too_little = trial.killed == 0 || !trial.faults.has_fired_at_nodes();
    let message = || "a kind of fault never fired: the run proves too little; give it more to do".into();
    wrong.into_iter().chain(too_little.then(message)).collect()
}

struct Trial {
    cloud: Roles,
    rng: Rng,
    faults: Faults,
    /// How many processes below nodes were killed.
    killed: u64,
    /// How often a job gave up, by its message.
    given_up: BTreeMap<String, u64>,
}

impl Trial {
    fn sort(&mut self, megabytes: u64) -> Result<(), String> {
        let records = (megabytes * 10_000).to_string();
        self.cloud.ok(&["oct", "terasort", "gen", "--records", &records, "--files", "16", "/gen"]);
        let generated = self.cloud.json(&["oct", "terasort", "validate", "/gen"]);
        let begun = Instant::now();
        self.run_until_done(&["oct", "terasort", "sort", "/gen", "/sorted"], "/sorted")?;
        let sorted = self.cloud.json(&["oct", "terasort", "validate", "/sorted"]);
        println!("{megabytes} MB sorted in {:.0} s", begun.elapsed().as_secs_f64());
        let is_right = sorted["sorted"] == true && same(&generated, &sorted, &["records", "checksum"]);
        if !is_right {
            return Err(format!("the sort of {generated} left {sorted}"));
        }
        self.cloud.ok(&["rm", "-r", "--now", "/gen", "/sorted"]);
        Ok(())
    }

    fn index(&mut self, texts: &Path, bytes_max: u64) -> Result<(), String> {
        let local = self.cloud.folder().join("texts");
        let mut reference = ReferenceIndex::new();
        let (mut bytes, mut files) = (0, 0);
        for text in text_files(texts) {
            if bytes >= bytes_max {
                break;
            }
            let Ok(content) = fs::read(&text) else { continue };
            let folder = local.join((files / FILES_A_FOLDER).to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(files.to_string()), &content).unwrap();
            reference.add(&format!("/texts/{}/{files}", files / FILES_A_FOLDER), &content);
            bytes += content.len() as u64;
            files += 1;
        }
        self.cloud.ok(&["put", "-r", local.to_str().unwrap(), "/texts"]);
        fs::remove_dir_all(&local).unwrap();
        let begun = Instant::now();
        self.run_until_done(&[&INDEX[..], &["--detach"]].concat(), "/index")?;
        println!("{files} texts of {} MB indexed in {:.0} s", bytes >> 20, begun.elapsed().as_secs_f64());
        let mut found = IndexSummary::default();
        for part in self.cloud.ok(&["find", "/index"]).lines() {
            for line in self.cloud.run(&["cat", part]).out.split_inclusive(|byte| *byte == b'\n') {
                found.add_line(line)?;
            }
        }
        let expected = reference.summary();
        if found == expected { Ok(()) } else { Err(format!("the index has {found:?} and not {expected:?}")) }
    }

    /// Runs a job among faults until it succeeds. One that gives up must have left nothing.
    fn run_until_done(&mut self, words: &[&str], output: &str) -> Result<(), String> {
        for _ in 0..TRIES {
            let command =
                self.cloud.command(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let job = command.unwrap();
            let ended = if words.contains(&"--detach") { self.stand_by_detached(job) } else { self.stand_by(job) };
            self.faults.heal(&mut self.cloud);
            self.cloud.until_up(NODES as usize);
            if ended.errors.contains("panicked") {
                return Err(ended.errors);
            }
            if ended.code == 0 {
                return Ok(());
            }
            let message = ended.errors.lines().last().unwrap_or_default().to_owned();
            println!("gave up: {message}");
            *self.given_up.entry(message).or_default() += 1;
            if self.cloud.run(&["ls", output]).code == 0 {
                return Err(format!("a job that gave up left `{output}`"));
            }
        }
        Err(format!("{TRIES} times `{}` gave up: {:?}", words.join(" "), self.given_up))
    }

    /// Injects faults until a process ends.
    fn stand_by(&mut self, process: Child) -> Ended {
        let (sender, end) = sync_channel(1);
        thread::spawn(move || sender.send(ended(process.wait_with_output().unwrap())));
        loop {
            match end.recv_timeout(STEP) {
                Ok(ended) => return ended,
                Err(_) => self.step(),
            }
        }
    }

    /// The same, until the job ends that a process leaves to a node.
    fn stand_by_detached(&mut self, process: Child) -> Ended {
        let begun = self.stand_by(process);
        if begun.code != 0 {
            return begun;
        }
        let job = begun.text().trim().to_owned();
        loop {
            self.step();
            let view = self.cloud.run(&["job", &job, "--json"]);
            let Ok(view) = serde_json::from_str::<Value>(&view.text()) else { continue };
            match view["state"].as_str() {
                Some("running") => {}
                Some("done") => return begun,
                _ => return Ended { code: 1, errors: format!("{} {}", view["state"], view["errors"]), ..begun },
            }
        }
    }

    /// One step, in which a fault may start.
    fn step(&mut self) {
        if self.faults.is_due() {
            if self.rng.u8(..10) < 6 {
                self.kill_a_process();
            } else {
                self.faults.fire_at_roles(&mut self.rng, &mut self.cloud);
            }
            self.faults.defer(Duration::from_millis(self.rng.u64(FAULT_PAUSE_MILLIS)));
        }
        self.faults.recover(&mut self.cloud, |_, _| true);
    }

    /// An SPE, its supervisor, or a driver.
    fn kill_a_process(&mut self) {
        let names = self.cloud.names();
        let nodes = names.iter().filter(|name| name.starts_with("node-") && self.cloud.is_running(name));
        let below: Vec<u32> =
            nodes.flat_map(|node| descendants(self.cloud.pid(node)).into_iter().skip(1).collect::<Vec<_>>()).collect();
        if let Some(pid) = self.rng.choice(below) {
            kill(pid);
            self.killed += 1;
        }
    }
}

fn same(a: &Value, b: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| a[key] == b[key])
}

/// Files below a folder that are text, in order of their paths.
fn text_files(below: &Path) -> Vec<PathBuf> {
    let (mut found, mut unread) = (Vec::new(), vec![below.to_owned()]);
    while let Some(folder) = unread.pop() {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = item.path();
            match item.file_type() {
                Ok(kind) if kind.is_dir() => unread.push(path),
                Ok(kind) if kind.is_file() && is_text(&path) => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn is_text(file: &Path) -> bool {
    let is_short = fs::metadata(file).is_ok_and(|found| (1..TEXT_BYTES_MAX).contains(&found.len()));
    is_short && fs::read(file).is_ok_and(|bytes| !bytes.contains(&0) && std::str::from_utf8(&bytes).is_ok())
}

/// Nodes of the cloud, in two sites.
const NODES: u32 = 4;
/// Jobs that may give up, one after the other: each survives several lost nodes.
const TRIES: u32 = 4;
/// Time between two faults: some hit a task at work, but they are rare enough for a job to make progress.
const FAULT_PAUSE_MILLIS: Range<u64> = 500..4_000;
/// Time between two checks whether something is due.
const STEP: Duration = Duration::from_millis(50);
/// Files in one folder.
const FILES_A_FOLDER: usize = 1_000;
/// A longer file is not text that someone wrote.
const TEXT_BYTES_MAX: u64 = 64 << 20;
/// The inverted index of the paper (3.6).
const INDEX: [&str; 11] =
    ["run", "--udf", "words", "--input", "/texts", "--buckets", "16", "--then", "index", "--output", "/index"];
