//! A whole fake cloud around one job, from one seed. Actions are carried out in random order, and SPEs die with half
//! their pieces delivered. Nodes die or come back without their buckets, and reports come late, twice or never. At the
//! end every record of the input must be in the output exactly once, once the output is in its place. The fake nodes
//! keep what a real node keeps and nothing more: whole pieces by bucket, cut to the winners at the seal.
#![allow(clippy::unwrap_used)]

mod buckets;
mod faults;
mod output_commit;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use fastrand::Rng;
use protocol::{
    Counters, JobId, NodeId, Now, Place, Reason, RecordFraming, Refusal, SectorPath, SliceId,
    message::{
        client_master::{JobState, SiteLink},
        spe::{AttemptId, BucketId, FunctionFailure, PieceId, PieceResult, SealOrder, TaskResult, Winner},
    },
};
use sphere::{
    Assignment, BucketLocation, Delivery, Event, FileLayout, FinalOutput, InputFile, Job, JobAction, JobPlan, Outcome,
    Placement, SegmentLocation, SpeId, SpeNodePlan, SphereError, StageOutput, StagePlan,
};

/// A record: its file, its number in it, and the marks that the attempts put on it.
type Record = (SectorPath, u64, u64);
type Content = Vec<Record>;

const RECORD_BYTES: u64 = 10;
/// More than any seed needs; a job that takes longer does not end.
const STEPS_MAX: usize = 200_000;

#[derive(Default)]
struct Node {
    is_down: bool,
    pieces: BTreeMap<PieceId, Content>,
    sealed: BTreeMap<BucketId, (Vec<Winner>, Content)>,
    /// The newest run seen; what older ones left is void.
    run: u32,
    /// The only bucket from which an attempt here made its own.
    made_from: BTreeMap<BucketId, BucketId>,
    /// What attempts here left, by bucket.
    kept: BTreeMap<AttemptId, BTreeMap<u32, Content>>,
    /// Buckets that became files: nothing of them is left to be published.
    became_files: BTreeSet<BucketId>,
}

/// A file of the output.
#[derive(Clone, Debug)]
struct File {
    slice: SliceId,
    content: Content,
}

/// What a function does when it is called again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    /// The same.
    Steady,
    /// Each record in another bucket.
    Fickle,
    /// The same, with its own number on each record.
    Tagging,
}

/// Something that is under way.
enum Work {
    Start(SpeId, NodeId),
    Run(Assignment),
    Seal(NodeId, SealOrder),
    Publish(NodeId, BucketId),
    Fetch(NodeId, BucketId),
    Deliver(Delivery),
    Tell(Event),
}

/// What a job is told.
#[derive(Clone)]
enum Told {
    Event(Event),
    Time,
}

struct Cloud {
    rng: Rng,
    now: Now,
    job: Job,
    /// The same job at its beginning.
    begin: (JobPlan, Vec<InputFile>, Vec<SpeNodePlan>),
    /// What it was told, and how much of that a new driver would know of.
    journal: Vec<(Now, Told)>,
    written: usize,
    nodes: BTreeMap<NodeId, Node>,
    spes: BTreeMap<SpeId, NodeId>,
    work: Vec<Work>,
    /// Output by bucket, of the current run only; if published, the files of its hidden folder.
    output: BTreeMap<u32, File>,
    output_run: u32,
    slices: u128,
    is_published: bool,
    faults_left: u32,
    /// Faults that fired, by name: proof that the test tests something.
    fired: BTreeMap<&'static str, u32>,
    erring_record: Option<Record>,
    function: Function,
    /// How many reports that a bucket became a file are still to be lost.
    answers_to_lose: u32,
    ended: Vec<Result<Outcome, SphereError>>,
}

impl Cloud {
    fn new(seed: u64, faults: u32) -> (Self, Content) {
        Self::bearing(seed, faults, 0)
    }

    /// A cloud whose job tolerates this many errors of its function.
    fn bearing(seed: u64, faults: u32, errors_max: u32) -> (Self, Content) {
        let mut rng = Rng::with_seed(seed);
        // Drawn from a separate generator, so that a seed's cloud is the same as without marks and links.
        let mut marks = Rng::with_seed(!seed);
        let names: Vec<NodeId> = (0..rng.u32(1..6)).map(|at| NodeId::new(format!("n{at}")).unwrap()).collect();
        let plans: Vec<SpeNodePlan> = names
            .iter()
            .map(|node| SpeNodePlan {
                node: node.clone(),
                place: Place::new(format!("s{}", rng.u8(0..2)), format!("r{}", rng.u8(0..2))),
                slots: rng.u32(1..4),
                is_marked: marks.u8(0..3) == 0,
            })
            .collect();
        let mut records = Content::new();
        let inputs: Vec<InputFile> = (0..rng.u64(1..12))
            .map(|at| {
                let path: SectorPath = format!("/in/{at}").parse().unwrap();
                let count = if rng.u8(0..4) == 0 { rng.u64(0..200) } else { rng.u64(0..20) };
                records.extend((0..count).map(|record| (path.clone(), record, 0)));
                let mut holders = names.clone();
                rng.shuffle(&mut holders);
                holders.truncate(rng.usize(1..3));
                let (slice, bytes, records) =
                    (SliceId(u128::from(at)), count * RECORD_BYTES, RecordFraming::Fixed(RECORD_BYTES as u32));
                InputFile { path, slice, bytes, records, nodes: holders, layout: FileLayout::default() }
            })
            .collect();
        let stages: Vec<StagePlan> = (0..rng.usize(1..4))
            .map(|_| StagePlan {
                output: if rng.bool() { StageOutput::Buckets(rng.u32(1..9)) } else { StageOutput::Local },
                records: RecordFraming::Fixed(RECORD_BYTES as u32),
            })
            .collect();
        let output = if rng.bool() { FinalOutput::Publish } else { FinalOutput::Return };
        let mut plan = JobPlan::new(JobId(seed), stages, output);
        plan.segment_bytes = (rng.u64(1..200), 200 + rng.u64(0..500));
        plan.errors_max = errors_max;
        plan.attempts_max = 2 * faults + 4;
        plan.epochs_max = 4 * faults + 8;
        if marks.bool() {
            plan.links = vec![SiteLink { a: "s0".into(), b: "s1".into(), bytes_per_second: 1 + marks.u64(..100_000) }];
        }
        let is_published = output == FinalOutput::Publish;
        let now = Now::default();
        let begin = (plan.clone(), inputs.clone(), plans.clone());
        let job = Job::new(now, plan, inputs, &plans).unwrap();
        let nodes = names.into_iter().map(|name| (name, Node::default())).collect();
        let cloud = Self {
            rng,
            now,
            job,
            begin,
            journal: vec![],
            written: 0,
            nodes,
            spes: BTreeMap::new(),
            work: vec![],
            output: BTreeMap::new(),
            output_run: 0,
            is_published,
            faults_left: faults,
            fired: BTreeMap::new(),
            erring_record: None,
            slices: 0,
            function: Function::Steady,
            answers_to_lose: faults,
            ended: vec![],
        };
        (cloud, records)
    }

    /// Runs the job to its end.
    fn run(&mut self) -> Result<Outcome, SphereError> {
        for _ in 0..STEPS_MAX {
            while let Some(action) = self.job.poll_action() {
                self.accept(action);
            }
            if self.job.state() != JobState::Running {
                self.finish_all_work();
                assert_eq!(self.ended.len(), 1, "a job ends once");
                return self.ended.pop().unwrap();
            }
            if self.faults_left > 0 && self.rng.u8(0..12) == 0 {
                self.faults_left -= 1;
                self.fault();
            }
            if self.rng.u8(0..6) == 0 {
                self.written = self.journal.len();
            }
            let pass_time = self.work.is_empty() || self.rng.u8(0..10) == 0;
            match self.job.next_timeout() {
                Some(next) if pass_time => {
                    self.now = self.now.after(next.saturating_sub(self.now.monotonic).min(Duration::from_secs(2)));
                    self.pass_time();
                }
                _ => {
                    assert!(!self.work.is_empty(), "the job waits for nothing");
                    let at = self.rng.usize(0..self.work.len());
                    let work = self.work.swap_remove(at);
                    self.carry_out(work);
                }
            }
        }
        panic!("the job does not end: {:?}", self.job.progress());
    }

    fn hear(&mut self, event: Event) {
        self.journal.push((self.now, Told::Event(event.clone())));
        self.job.handle_event(self.now, event);
    }

    fn pass_time(&mut self) {
        self.journal.push((self.now, Told::Time));
        self.job.handle_timeout(self.now);
    }

    /// The driver dies with what it had not written down. Another is given the rest again, and goes on. What the old
    /// one had ordered may still happen, and nobody hears of it.
    fn replace_driver(&mut self) -> Option<&'static str> {
        self.journal.truncate(self.written);
        let (plan, inputs, nodes) = self.begin.clone();
        self.job = Job::new(Now::default(), plan, inputs, &nodes).unwrap();
        let run = |job: &mut Job| {
            while let Some(action) = job.poll_action() {
                assert!(!matches!(action, JobAction::Finished(_)), "an end is not replaced");
            }
        };
        run(&mut self.job);
        for (now, told) in &self.journal {
            match told {
                Told::Event(event) => self.job.handle_event(*now, event.clone()),
                Told::Time => self.job.handle_timeout(*now),
            }
            run(&mut self.job);
        }
        let known = self.job.progress().epoch;
        // What another run left is in another place.
        self.output.retain(|_, _| known == self.output_run);
        self.output_run = known;
        for work in std::mem::take(&mut self.work) {
            if !matches!(work, Work::Tell(_) | Work::Start(..)) && self.rng.bool() {
                self.carry_out(work);
            }
        }
        self.work.clear();
        self.spes.clear();
        // The next one must know of it, and of the numbers of this one's attempts.
        self.hear(Event::DriverReplaced);
        self.written = self.journal.len();
        Some("driver replaced")
    }

    /// What was under way when the job ended still happens, and must change nothing.
    fn finish_all_work(&mut self) {
        for work in std::mem::take(&mut self.work) {
            if let Work::Tell(event) = work {
                self.hear(event);
            }
        }
        assert_eq!(self.job.poll_action(), None, "an ended job wants nothing");
    }

    fn accept(&mut self, action: JobAction) {
        match action {
            JobAction::StartSpe { spe, node } => self.work.push(Work::Start(spe, node)),
            JobAction::DropSpe(spe) => {
                self.spes.remove(&spe);
            }
            JobAction::RunTask(assignment) => {
                assert!(self.spes.contains_key(&assignment.spe), "a task for an SPE that is not there");
                self.work.push(Work::Run(assignment));
            }
            JobAction::Seal { node, order } => self.work.push(Work::Seal(node, order)),
            JobAction::Publish { node, bucket, .. } => self.work.push(Work::Publish(node, bucket)),
            JobAction::Fetch { node, bucket } => self.work.push(Work::Fetch(node, bucket)),
            JobAction::Deliver(delivery) => self.work.push(Work::Deliver(delivery)),
            JobAction::BeginEpoch { epoch: run } => {
                // To nodes that know of this run, older runs mean nothing: the next driver must know of it too.
                self.written = self.journal.len();
                self.output_run = run;
                self.output.clear();
            }
            JobAction::Finished(result) => self.ended.push(result),
        }
    }

    fn carry_out(&mut self, work: Work) {
        let unreachable = Refusal::new(Reason::Unavailable, "cannot be reached");
        match work {
            Work::Tell(event) => {
                if self.rng.u8(0..8) == 0 {
                    *self.fired.entry("told twice").or_default() += 1;
                    self.hear(event.clone());
                }
                self.hear(event);
            }
            Work::Start(spe, node) if self.nodes[&node].is_down => {
                self.tell(Event::SpeLost { spe, refusal: unreachable });
            }
            Work::Start(spe, node) => {
                self.spes.insert(spe, node);
                self.tell(Event::SpeReady(spe));
            }
            Work::Run(assignment) => {
                let event = self.process(&assignment, usize::MAX);
                self.tell(event);
            }
            Work::Seal(node, order) => {
                let event = match self.seal(&node, &order) {
                    Ok((bytes, order_found)) => Event::Sealed { bucket: order.bucket, bytes, order: order_found },
                    Err(refusal) => Event::BucketRefused { bucket: order.bucket, refusal },
                };
                self.tell(event);
            }
            Work::Deliver(delivery) => {
                let attempt = delivery.attempt;
                let event = match self.deliver_again(&delivery) {
                    Ok(()) => Event::Delivered(attempt),
                    Err(refusal) => Event::DeliveryRefused { attempt, refusal },
                };
                self.tell(event);
            }
            Work::Publish(node, bucket) => {
                self.publish(&node, bucket);
                // As far as the node knows, the bucket it was made from is no longer needed.
                let at = self.nodes.get_mut(&node).unwrap();
                if let Some(input) = at.made_from.get(&bucket).filter(|_| !at.is_down) {
                    let is_there = at.sealed.remove(input).is_some();
                    *self.fired.entry("input removed").or_default() += u32::from(is_there);
                }
            }
            Work::Fetch(node, bucket) => self.deliver(&node, bucket, Event::Fetched(bucket)),
        }
    }

    /// Reports take time: other things may happen before one arrives.
    fn tell(&mut self, event: Event) {
        self.work.push(Work::Tell(event));
    }

    /// Does a task, but delivers at most `pieces_max` pieces.
    fn process(&mut self, run: &Assignment, pieces_max: usize) -> Event {
        let attempt = run.attempt;
        let failed = |reason, sentence: &str| Event::TaskFailed { attempt, refusal: Refusal::new(reason, sentence) };
        if self.nodes[&run.node].is_down {
            return failed(Reason::Unavailable, "the node is down");
        }
        let mut pieces: BTreeMap<u32, Content> = BTreeMap::new();
        let mut records_in = 0;
        // A fickle function gives a record another bucket each time.
        let salt = if self.function == Function::Fickle { self.rng.u64(..) } else { 0 };
        let tag = if self.function == Function::Tagging { self.rng.u64(..) } else { 0 };
        for segment in &run.segments {
            let records: Content = match &segment.first.location {
                SegmentLocation::Bucket(bucket) => match self.nodes[&run.node].sealed.get(bucket) {
                    Some((_, content)) => content.clone(),
                    None => return failed(Reason::NotFound, "no such bucket"),
                },
                // The path and range give the bytes of a file; that any copy can be read is not tested here.
                SegmentLocation::Local(_) | SegmentLocation::Remote { .. } => (segment.first.from / RECORD_BYTES
                    ..segment.first.until / RECORD_BYTES)
                    .map(|at| (segment.first.path.clone(), at, 0))
                    .collect(),
            };
            for mut record in records {
                if self.erring_record.as_ref() == Some(&record) {
                    let (function, path) = ("sees".to_owned(), segment.first.path.clone());
                    let (record, message) = (Some(record.1), "bad record".to_owned());
                    let error = FunctionFailure {
                        function,
                        path,
                        segment: segment.segment,
                        record,
                        message,
                        record_start: vec![],
                    };
                    return Event::FunctionFailed { attempt, error };
                }
                records_in += 1;
                record.2 ^= tag;
                let bucket = match &run.output {
                    Placement::Local => attempt.task,
                    Placement::Buckets(places) => ((record.1 ^ salt) % places.len() as u64) as u32,
                };
                pieces.entry(bucket).or_default().push(record);
            }
        }
        if self.function == Function::Fickle {
            // Another order each time.
            pieces.values_mut().for_each(|content| self.rng.shuffle(content));
        }
        let mut results = Vec::new();
        for (number, content) in pieces.iter().take(pieces_max) {
            let own = BucketLocation { node: run.node.clone(), generation: attempt.attempt };
            let home = match &run.output {
                Placement::Local => &own,
                Placement::Buckets(places) => &places[*number as usize],
            };
            let is_wanted = run.wanted.as_ref().is_none_or(|wanted| wanted.contains(number));
            let is_delivered = is_wanted && self.give(attempt, *number, home, content);
            let (bytes, checksum) = (content.len() as u64 * RECORD_BYTES, checksum(content));
            results.push(PieceResult { bucket: *number, bytes, checksum, is_delivered });
        }
        let inputs: Vec<_> = run.segments.iter().map(|segment| segment.first.location.clone()).collect();
        if let ([SegmentLocation::Bucket(input)], Placement::Local) = (&inputs[..], &run.output) {
            let AttemptId { job, stage, epoch: number, task, attempt } = attempt;
            let own = BucketId { job, stage, epoch: number, bucket: task, generation: attempt };
            self.nodes.get_mut(&run.node).unwrap().made_from.insert(own, *input);
        }
        if run.output != Placement::Local && self.rng.u8(0..6) > 0 {
            self.nodes.get_mut(&run.node).unwrap().kept.insert(attempt, pieces);
        } else if results.iter().any(|piece| !piece.is_delivered) {
            return failed(Reason::Unavailable, "a piece could be neither delivered nor kept");
        }
        let mut counters = Counters::new();
        counters.add("records", records_in).unwrap();
        let (bytes_in, records_out) = (records_in * RECORD_BYTES, records_in);
        let result = TaskResult { records_in, bytes_in, records_out, pieces: results, counters };
        Event::TaskFinished { attempt, result }
    }
}

/// It depends on the order, like a checksum of real bytes.
fn checksum(content: &Content) -> u32 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish() as u32
}

/// The records in order, without the marks of attempts: as many of each as there are.
fn sorted(mut content: Content) -> Content {
    content.iter_mut().for_each(|record| record.2 = 0);
    content.sort();
    content
}

/// What happened in a seed, the runs that were begun anew among it.
fn check_seed(seed: u64, faults: u32, function: Function) -> BTreeMap<&'static str, u32> {
    let (mut cloud, records) = Cloud::new(seed, faults);
    cloud.function = function;
    let outcome = cloud.run().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let stages = cloud.job.stage_records().to_vec();
    for stage in &stages {
        assert_eq!((stage.done, stage.failed), (stage.segments, 0), "seed {seed}");
        assert_eq!(stage.bytes_in, records.len() as u64 * RECORD_BYTES, "seed {seed}");
        assert!(stage.local <= stage.done, "seed {seed}");
    }
    let output = output_commit::reveal(&mut cloud, &outcome);
    let delivered: BTreeSet<u32> = output.keys().copied().collect();
    let promised: BTreeSet<u32> = outcome.outputs.iter().map(|output| output.bucket.bucket).collect();
    for counters in cloud.job.stage_counters() {
        assert_eq!(counters.get("records").unwrap_or(0), records.len() as u64, "seed {seed}: counted once");
    }
    assert_eq!(delivered, promised, "seed {seed}");
    assert!(promised.iter().all(|number| *number < outcome.buckets.max(1)), "seed {seed}");
    if cloud.is_published {
        assert!(!promised.is_empty(), "seed {seed}: no trace is left");
    }
    let found = sorted(output.values().flat_map(|file| file.content.clone()).collect());
    assert_eq!(found, sorted(records), "seed {seed}");
    let mut fired = cloud.fired;
    fired.insert("run begun anew", outcome.epoch);
    fired.insert("task done again", stages.iter().map(|stage| stage.retried as u32).sum());
    fired
}

#[test]
fn without_faults_every_record_is_in_the_output_once() {
    for seed in 0..300 {
        let fired = check_seed(seed, 0, [Function::Steady, Function::Fickle, Function::Tagging][seed as usize % 3]);
        assert_eq!((fired["run begun anew"], fired["task done again"]), (0, 0), "seed {seed}");
    }
}

// Promise 18, 19, 23.
#[test]
fn whatever_dies_every_record_is_in_the_output_once() {
    let mut fired: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..1_000 {
        for (kind, count) in check_seed(seed, 1 + (seed % 12) as u32, Function::Steady) {
            *fired.entry(kind).or_default() += count;
        }
    }
    let kinds = ["SPE killed", "SPE silent", "node killed", "node emptied", "input away", "driver replaced"];
    for kind in kinds.into_iter().chain([
        "told twice",
        "delivered again",
        "input removed",
        "answer lost",
        "answer of the reveal lost",
    ]) {
        assert!(fired.get(kind).is_some_and(|count| *count > 100), "{kind} hardly ever happened: {fired:?}");
    }
    assert_eq!(fired["run begun anew"], 0, "what was lost is made again, and nothing else: {fired:?}");
}

// Promise 18, 23.
#[test]
fn a_function_that_leaves_something_else_each_time_still_leaves_every_record_once() {
    for function in [Function::Fickle, Function::Tagging] {
        let mut fired: BTreeMap<&str, u32> = BTreeMap::new();
        for seed in 0..500 {
            for (kind, count) in check_seed(seed, 1 + (seed % 12) as u32, function) {
                *fired.entry(kind).or_default() += count;
            }
        }
        assert!(fired["run begun anew"] > 20, "nothing of it was ever in use: {fired:?}");
        assert!(fired["driver replaced"] > 100 && fired["answer lost"] > 100, "{fired:?}");
        assert!(fired["stray part"] > 10, "{fired:?}");
    }
}

#[test]
fn an_erring_record_ends_the_job_whatever_else_dies() {
    let mut ended = 0;
    for seed in 0..300 {
        let (mut cloud, records) = Cloud::new(seed, (seed % 4) as u32);
        let Some(record) = records.get(seed as usize % records.len().max(1)).cloned() else { continue };
        cloud.erring_record = Some(record.clone());
        match cloud.run() {
            Err(SphereError::Function(error)) => {
                assert_eq!((error.record, error.message.as_str()), (Some(record.1), "bad record"), "seed {seed}");
                ended += 1;
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(ended > 200);
}

// Promise 21.
#[test]
fn a_job_that_bears_errors_has_every_record_once_but_of_skipped_segments() {
    let mut done = 0;
    for seed in 0..600 {
        let (mut cloud, records) = Cloud::bearing(seed, (seed % 8) as u32, 3);
        let Some(record) = records.get(seed as usize % records.len().max(1)).cloned() else { continue };
        cloud.erring_record = Some(record.clone());
        let outcome = cloud.run().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        // The first function that sees the record fails on it: no later one does.
        let [left_out] = &outcome.skipped_segments[..] else { panic!("seed {seed}: {:?}", outcome.skipped_segments) };
        assert_eq!((left_out.stage, left_out.error.record, &left_out.error.path), (0, Some(record.1), &record.0));
        assert_eq!(left_out.first_record, Some(left_out.from / RECORD_BYTES), "seed {seed}");
        let lost = left_out.from / RECORD_BYTES..left_out.until / RECORD_BYTES;
        assert!(lost.contains(&record.1), "seed {seed}");
        let expected = records.into_iter().filter(|(path, at, _)| *path != record.0 || !lost.contains(at)).collect();
        let found = sorted(cloud.output.values().flat_map(|file| file.content.clone()).collect());
        assert_eq!(found, sorted(expected), "seed {seed}");
        let first = cloud.job.stage_records()[0];
        assert_eq!((first.done + first.failed, first.failed), (first.segments, 1), "seed {seed}");
        done += 1;
    }
    assert!(done > 400, "{done}");
}

#[test]
fn the_same_seed_gives_the_same_story() {
    let story = |seed| {
        let (mut cloud, _) = Cloud::new(seed, 8);
        let outcome = cloud.run();
        (outcome, cloud.now, cloud.job.stage_records().to_vec())
    };
    for seed in 0..20 {
        assert_eq!(story(seed), story(seed));
    }
}
