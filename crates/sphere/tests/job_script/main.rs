//! The job's state machine as text. A line that begins with `>` is what the job is told. The lines below it are what it
//! then wants done, all of it and in this order. Attempts are written `stage.run.task.attempt`. Buckets are written
//! `stage.run.bucket`, with `+generation` if they were made again.
#![allow(clippy::unwrap_used)]

mod errors;
mod failures;
mod history;
mod losses;
mod marked;
mod unavailable_input;

use std::{fmt::Write as _, time::Duration};

use protocol::{
    Counters, JobId, NodeId, Now, Place, Reason, RecordFraming, Refusal, SliceId,
    message::{
        client_master::{JobState, StageRecord},
        spe::{AttemptId, BucketId, FunctionFailure, PieceResult, TaskResult},
    },
};
use sphere::{
    BucketLocation, Delivery, Event, FileLayout, FinalOutput, History, InputFile, Job, JobAction, JobPlan, Outcome,
    Placement, SegmentLocation, SpeId, SpeNodePlan, SphereError, StageOutput, StagePlan,
};

const JOB: JobId = JobId(1);

struct Script {
    job: Job,
    history: History,
    now: Now,
    /// How the job ended, if well.
    outcome: Option<Outcome>,
}

/// Nodes are `name slots`, with `!` behind the name of a marked one; files are `path bytes holders`, of records of 10
/// bytes, cut at 100 bytes.
fn script(nodes: &[(&str, u32)], files: &[(&str, u64, &str)], stages: &[StageOutput], output: FinalOutput) -> Script {
    script_with_errors(nodes, files, stages, output, 0)
}

/// A job that goes on with so many errors of its function.
fn script_with_errors(
    nodes: &[(&str, u32)],
    files: &[(&str, u64, &str)],
    stages: &[StageOutput],
    output: FinalOutput,
    errors_max: u32,
) -> Script {
    let stage = |output: &StageOutput| StagePlan { output: *output, records: RecordFraming::Lines };
    let mut plan = JobPlan::new(JOB, stages.iter().map(stage).collect(), output);
    plan.segment_bytes = (100, 100);
    plan.epochs_max = 3;
    plan.errors_max = errors_max;
    let file = |(at, (path, bytes, holders)): (usize, &(&str, u64, &str))| InputFile {
        path: path.parse().unwrap(),
        slice: SliceId(at as u128),
        bytes: *bytes,
        records: RecordFraming::Fixed(10),
        nodes: holders.split_whitespace().map(|name| NodeId::new(name).unwrap()).collect(),
        layout: FileLayout::default(),
    };
    let node = |(name, slots): &(&str, u32)| SpeNodePlan {
        node: NodeId::new(name.trim_end_matches('!')).unwrap(),
        place: Place::new("site", "rack"),
        slots: *slots,
        is_marked: name.ends_with('!'),
    };
    let inputs = files.iter().enumerate().map(file).collect();
    let nodes: Vec<_> = nodes.iter().map(node).collect();
    let now = Now::default();
    Script { job: Job::new(now, plan, inputs, &nodes).unwrap(), history: History::new(now), now, outcome: None }
}

impl Script {
    /// Plays a script and compares what the job wants with what it says.
    fn play(&mut self, text: &str) -> &mut Self {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut played = String::new();
        if !lines().next().unwrap().starts_with('>') {
            self.write_actions(&mut played);
        }
        for line in lines().filter(|line| line.starts_with('>')) {
            writeln!(played, "{line}").unwrap();
            self.tell(line[1..].trim());
            self.write_actions(&mut played);
        }
        let wanted: String = lines().fold(String::new(), |all, line| all + line + "\n");
        assert_eq!(played, wanted, "\nplayed:\n{played}");
        self
    }

    fn tell(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let refusal = |at: usize| {
            let reason = match words[at] {
                "unavailable" => Reason::Unavailable,
                "notfound" => Reason::NotFound,
                "refused" => Reason::NoRight,
                "exists" => Reason::Exists,
                other => panic!("no such reason: {other}"),
            };
            Refusal::new(reason, words[at])
        };
        let event = match words[0] {
            "wait" => {
                self.now = self.now.after(Duration::from_millis(number(1)));
                return self.job.handle_timeout(self.now);
            }
            "ready" => Event::SpeReady(SpeId(number(1))),
            "lost" => Event::SpeLost { spe: SpeId(number(1)), refusal: Refusal::new(Reason::Unavailable, "broken") },
            "progress" => Event::Progress { attempt: attempt(words[1]), bytes: number(2) },
            "finish" => {
                let pieces = words[2..].iter().map(|word| piece(word)).collect();
                let mut counters = Counters::new();
                counters.add("finished", 1).unwrap();
                let result = TaskResult { records_in: 1, bytes_in: 10, records_out: 1, pieces, counters };
                Event::TaskFinished { attempt: attempt(words[1]), result }
            }
            "counts" => {
                // Under the names from one number to another.
                let mut counters = Counters::new();
                (number(2)..number(3)).for_each(|name| counters.add(&name.to_string(), 1).unwrap());
                let result = TaskResult { records_in: 1, bytes_in: 10, records_out: 1, pieces: vec![], counters };
                Event::TaskFinished { attempt: attempt(words[1]), result }
            }
            "fail" => Event::TaskFailed { attempt: attempt(words[1]), refusal: refusal(2) },
            "away" => Event::InputUnavailable { attempt: attempt(words[1]), refusal: refusal(2) },
            "erred" => {
                let (function, path, message) = ("f".into(), "/x".parse().unwrap(), "boom".into());
                let segment = words.get(2).map_or(0, |number| number.parse().unwrap());
                let error = FunctionFailure { function, path, segment, record: None, message, record_start: vec![] };
                Event::FunctionFailed { attempt: attempt(words[1]), error }
            }
            "starved" => {
                let (function, path, message) = ("f".into(), "/x".parse().unwrap(), "no more memory".into());
                let error = FunctionFailure { function, path, segment: 0, record: None, message, record_start: vec![] };
                Event::OutOfMemory { attempt: attempt(words[1]), error }
            }
            "sealed" => {
                let order = words[3..].iter().map(|task| task.parse().unwrap()).collect();
                Event::Sealed { bucket: bucket(words[1]), bytes: number(2), order }
            }
            "delivered" => Event::Delivered(attempt(words[1])),
            "undelivered" => Event::DeliveryRefused { attempt: attempt(words[1]), refusal: refusal(2) },
            "published" => Event::Published(bucket(words[1])),
            "published-as" => Event::PublishedAs { bucket: bucket(words[1]), slice: SliceId(u128::from(number(2))) },
            "fetched" => Event::Fetched(bucket(words[1])),
            "denied" => Event::BucketRefused { bucket: bucket(words[1]), refusal: refusal(2) },
            "gone" => Event::NodeLost(NodeId::new(words[1]).unwrap()),
            "unloadable" => Event::JobRefused(Refusal::new(Reason::NotFound, "no such symbol")),
            "cancel" => Event::Cancelled(Refusal::new(Reason::NoRight, "the job was cancelled by alice")),
            other => panic!("no such event: {other}"),
        };
        self.history.handle_event(self.now, &event);
        self.job.handle_event(self.now, event);
    }

    fn write_actions(&mut self, out: &mut String) {
        while let Some(action) = self.job.poll_action() {
            self.history.handle_action(self.now, &action);
            if let JobAction::Finished(Ok(outcome)) = &action {
                self.outcome = Some(outcome.clone());
            }
            writeln!(out, "{}", shown(&action)).unwrap();
        }
    }

    fn records(&self) -> &[StageRecord] {
        self.job.stage_records()
    }
}

fn attempt(word: &str) -> AttemptId {
    let n: Vec<u32> = word.split('.').map(|n| n.parse().unwrap()).collect();
    AttemptId { job: JOB, stage: n[0], epoch: n[1], task: n[2], attempt: n[3] }
}

fn bucket(word: &str) -> BucketId {
    let (word, making) = word.split_once('+').unwrap_or((word, "0"));
    let n: Vec<u32> = word.split('.').map(|n| n.parse().unwrap()).collect();
    BucketId { job: JOB, stage: n[0], epoch: n[1], bucket: n[2], generation: making.parse().unwrap() }
}

fn shown_bucket(id: &BucketId) -> String {
    let making = if id.generation > 0 { format!("+{}", id.generation) } else { String::new() };
    format!("{}.{}.{}{making}", id.stage, id.epoch, id.bucket)
}

/// `bucket:bytes`, followed by `?` if the piece is not in its bucket, and by `!` if its bytes differ.
fn piece(word: &str) -> PieceResult {
    let (bucket, bytes) = word.trim_end_matches(['?', '!']).split_once(':').unwrap();
    let checksum = u32::from(word.contains('!'));
    PieceResult {
        bucket: bucket.parse().unwrap(),
        bytes: bytes.parse().unwrap(),
        checksum,
        is_delivered: !word.contains('?'),
    }
}

fn shown_home(home: &BucketLocation) -> String {
    if home.generation > 0 { format!("{}+{}", home.node, home.generation) } else { home.node.to_string() }
}

fn shown(action: &JobAction) -> String {
    match action {
        JobAction::StartSpe { spe, node } => format!("start {} at {node}", spe.0),
        JobAction::DropSpe(spe) => format!("drop {}", spe.0),
        JobAction::RunTask(run) => {
            let AttemptId { stage, epoch: number, task, attempt, .. } = run.attempt;
            let mut text = format!("run {stage}.{number}.{task}.{attempt} on {} at {}:", run.spe.0, run.node);
            for s in run.segments.iter().map(|segment| &segment.first) {
                let place = match &s.location {
                    SegmentLocation::Local(_) => String::new(),
                    SegmentLocation::Remote { nearest: Some(node), .. } => format!(" from {node}"),
                    SegmentLocation::Remote { nearest: None, .. } => " from anyone".into(),
                    SegmentLocation::Bucket(id) => format!(" = {}", shown_bucket(id)),
                };
                let path = if matches!(s.location, SegmentLocation::Bucket(_)) { "" } else { s.path.as_str() };
                write!(text, " {path}[{}..{}]{place}", s.from, s.until).unwrap();
            }
            if let Placement::Buckets(places) = &run.output {
                write!(text, " to {}", places.iter().map(shown_home).collect::<Vec<_>>().join(",")).unwrap();
            }
            if let Some(wanted) = &run.wanted {
                write!(text, " for {}", wanted.iter().map(u32::to_string).collect::<Vec<_>>().join(",")).unwrap();
            }
            text
        }
        JobAction::Seal { node, order } => {
            let winners = order.winners.iter().map(|w| format!(" {}.{}:{}", w.task, w.attempt, w.bytes));
            let publish = if order.publish { " to publish" } else { "" };
            let in_order = if order.in_order { " in order" } else { "" };
            format!("seal {} at {node}:{}{publish}{in_order}", shown_bucket(&order.bucket), winners.collect::<String>())
        }
        JobAction::Publish { node, bucket, records } => format!("publish {} at {node} {records}", shown_bucket(bucket)),
        JobAction::Fetch { node, bucket } => format!("fetch {} at {node}", shown_bucket(bucket)),
        JobAction::Deliver(Delivery { node, attempt, locations: homes }) => {
            let AttemptId { stage, epoch: run, task, attempt, .. } = attempt;
            let homes = homes.iter().map(|(bucket, home)| format!(" {bucket}@{}", shown_home(home)));
            format!("deliver {stage}.{run}.{task}.{attempt} from {node}:{}", homes.collect::<String>())
        }
        JobAction::BeginEpoch { epoch: run } => format!("begin run {run}"),
        JobAction::Finished(Ok(outcome)) => {
            let outputs =
                outcome.outputs.iter().map(|o| format!(" {}@{}:{}", shown_bucket(&o.bucket), o.node, o.bytes));
            let left_out = match outcome.skipped_segments.len() {
                0 => String::new(),
                count => format!(" without {count}"),
            };
            format!("finished of {}:{}{left_out}", outcome.buckets, outputs.collect::<String>())
        }
        JobAction::Finished(Err(error)) => format!("ended: {error}"),
    }
}

const ONE_FILE: &[(&str, u64, &str)] = &[("/x", 100, "a")];
const LOCAL: &[StageOutput] = &[StageOutput::Local];

#[test]
fn two_stages_with_a_shuffle_go_from_files_to_published_files() {
    let stages = [StageOutput::Buckets(2), StageOutput::Local];
    let mut script =
        script(&[("a", 1), ("b", 1)], &[("/x", 100, "a"), ("/y", 100, "b")], &stages, FinalOutput::Publish);
    script.play(
        "start 1 at a
         start 2 at b
         > ready 2
         run 0.0.1.0 on 2 at b: /y[0..100] to a,b
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,b
         > finish 0.0.0.0 0:30 1:40
         > finish 0.0.1.0 0:50
         seal 0.0.0 at a: 0.0:30 1.0:50
         seal 0.0.1 at b: 0.0:40
         > sealed 0.0.1 40
         > sealed 0.0.0 80
         run 1.0.0.0 on 1 at a: [0..80] = 0.0.0
         run 1.0.1.0 on 2 at b: [0..40] = 0.0.1
         > finish 1.0.1.0 1:41
         seal 1.0.1 at b: 1.0:41 to publish
         > sealed 1.0.1 41
         publish 1.0.1 at b lines
         > finish 1.0.0.0 0:81
         seal 1.0.0 at a: 0.0:81 to publish
         > published 1.0.1
         > sealed 1.0.0 81
         publish 1.0.0 at a lines
         > published 1.0.0
         finished of 2: 1.0.0@a:81 1.0.1@b:41",
    );
    assert_eq!(script.job.state(), JobState::Done);
    let first = StageRecord { segments: 2, done: 2, local: 2, bytes_in: 20, bytes_out: 120, ..StageRecord::default() };
    let second = StageRecord { bytes_out: 122, ..first };
    assert_eq!(script.records(), [first, second]);
}

#[test]
fn empty_buckets_are_neither_sealed_nor_read() {
    let stages = [StageOutput::Buckets(3), StageOutput::Local];
    script(&[("a", 1)], ONE_FILE, &stages, FinalOutput::Return).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,a,a
         > finish 0.0.0.0 1:30 2:0
         seal 0.0.1 at a: 0.0:30
         > sealed 0.0.1 30
         run 1.0.0.0 on 1 at a: [0..30] = 0.0.1
         > finish 1.0.0.0
         finished of 1:",
    );
}

#[test]
fn a_job_that_finds_nothing_still_publishes_an_empty_file() {
    let stages = [StageOutput::Buckets(3), StageOutput::Buckets(2)];
    script(&[("a", 1), ("b", 1)], &[("/x", 0, "b")], &stages, FinalOutput::Publish).play(
        "start 1 at a
         start 2 at b
         seal 1.0.0 at a: to publish
         > sealed 1.0.0 0
         publish 1.0.0 at a lines
         > published 1.0.0
         finished of 2: 1.0.0@a:0",
    );
}

#[test]
fn small_files_of_one_node_travel_together() {
    let files = [("/1", 40, "a"), ("/2", 20, "b"), ("/3", 60, "a"), ("/4", 10, "a")];
    script(&[("a", 1), ("b", 1)], &files, LOCAL, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         > ready 1
         run 0.0.0.0 on 1 at a: /1[0..40] /3[0..60]
         > finish 0.0.0.0
         run 0.0.2.0 on 1 at a: /4[0..10]",
    );
}

#[test]
fn pieces_that_cannot_be_are_not_believed() {
    script(&[("a", 1)], ONE_FILE, &[StageOutput::Buckets(2)], FinalOutput::Return).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100] to a,a
         > finish 0.0.0.0 2:5
         drop 1",
    );
}

#[test]
fn what_is_too_large_to_return_is_refused_with_what_to_do() {
    let mut script = script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Return);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > finish 0.0.0.0 0:1048577
         seal 0.0.0 at a: 0.0:1048577
         > sealed 0.0.0 1048577
         ended: bucket 0 holds 1048577 bytes, more than the 1048576 that can be returned; give the job an output folder",
    );
}

#[test]
fn what_is_returned_is_bounded_in_all() {
    let mut script = script(&[("a", 1)], ONE_FILE, &[StageOutput::Buckets(300)], FinalOutput::Return);
    script.tell("ready 1");
    let pieces: String = (0..300).map(|bucket| format!(" {bucket}:1048576")).collect();
    script.tell(&format!("finish 0.0.0.0{pieces}"));
    let mut sealed = 0;
    while let Some(action) = script.job.poll_action() {
        match action {
            JobAction::Seal { order, .. } => {
                sealed += 1;
                script.tell(&format!("sealed {} 1048576", shown_bucket(&order.bucket)));
            }
            JobAction::Fetch { bucket, .. } => script.tell(&format!("fetched {}", shown_bucket(&bucket))),
            JobAction::Finished(result) => {
                assert_eq!(sealed, 257, "256 MiB may be returned");
                return assert!(matches!(result, Err(SphereError::ReturnTooLarge { .. })), "{result:?}");
            }
            _ => {}
        }
    }
    panic!("the job did not end");
}

#[test]
fn a_cancelled_job_wants_nothing_more() {
    let mut script = script(&[("a", 1)], ONE_FILE, LOCAL, FinalOutput::Publish);
    script.play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > cancel
         ended: the job was cancelled by alice
         > finish 0.0.0.0 0:1
         > cancel",
    );
    assert_eq!((script.job.state(), script.job.next_timeout()), (JobState::Cancelled, None));
}

#[test]
fn an_idle_spe_waits_for_a_node_that_is_about_to_do_its_own_work() {
    script(&[("a", 1), ("b", 1)], &[("/x", 200, "a")], LOCAL, FinalOutput::Return).play(
        "start 1 at a
         start 2 at b
         > ready 2
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         run 0.0.1.0 on 2 at b: /x[100..200] from a",
    );
}

#[test]
fn progress_counts_what_is_done_and_what_is_being_read() {
    let mut script = script(&[("a", 2)], &[("/x", 200, "a")], LOCAL, FinalOutput::Return);
    for line in ["ready 1", "ready 2", "finish 0.0.0.0 0:5", "progress 0.0.1.0 30"] {
        script.tell(line);
    }
    let progress = script.job.progress();
    assert_eq!((progress.bytes_done, progress.bytes), (130, 200));
    assert_eq!((progress.buckets_done, progress.buckets), (0, 1));
    script.tell("progress 0.0.1.0 5000");
    assert_eq!(script.job.progress().bytes_done, 200);
}

#[test]
fn a_file_with_half_a_record_is_refused_before_anything_starts() {
    let plan = JobPlan::new(
        JOB,
        vec![StagePlan { output: StageOutput::Local, records: RecordFraming::File }],
        FinalOutput::Return,
    );
    let file = InputFile {
        path: "/half".parse().unwrap(),
        slice: SliceId(1),
        bytes: 105,
        records: RecordFraming::Fixed(10),
        nodes: vec![],
        layout: FileLayout::default(),
    };
    let node = SpeNodePlan { node: NodeId::new("a").unwrap(), place: Place::new("s", "r"), slots: 1, is_marked: false };
    let error = Job::new(Now::default(), plan, vec![file], &[node]).unwrap_err();
    assert!(matches!(error, SphereError::PartialRecord { bytes: 105, record_bytes: 10, .. }), "{error}");
}

#[test]
fn functions_of_a_stage_that_count_under_too_many_names_end_the_job() {
    let files = [("/x", 100, "a"), ("/y", 100, "a")];
    script(&[("a", 1)], &files, LOCAL, FinalOutput::Publish).play(
        "start 1 at a
         > ready 1
         run 0.0.0.0 on 1 at a: /x[0..100]
         > counts 0.0.0.0 0 64
         run 0.0.1.0 on 1 at a: /y[0..100]
         > counts 0.0.1.0 63 65
         ended: the functions of stage 0 count under 65 names, those of all stages under 65; 64 and 256 are the most: emit what has many names as results instead",
    );
}
