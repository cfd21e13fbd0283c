//! The scheduler alone, at the size that it is meant for: a job of a million segments on a thousand nodes. It uses no
//! sockets, disks or functions. Task times are drawn from a seed; some SPEs are ten times slower, some die, and some
//! nodes are lost. Every call of the rules is timed, together with carrying out what it asks for.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    fs,
    time::{Duration, Instant},
};

use protocol::{
    Counters, JobId, NodeId, Now, Place, Reason, RecordFraming, Refusal, SliceId,
    message::{
        client_master::JobState,
        spe::{AttemptId, PieceResult, TaskResult},
    },
};
use sphere::{
    Assignment, Event, FileLayout, FinalOutput, InputFile, Job, JobAction, JobPlan, Placement, SpeId, SpeNodePlan,
    StageOutput, StagePlan,
};

/// The size of the job.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Nodes of four SPEs each, in four sites of some racks
    #[arg(long, default_value_t = 1_000)]
    nodes: u32,
    /// Segments of 128 MiB; ten are a file, of which three nodes have a copy
    #[arg(long, default_value_t = 1_000_000)]
    segments: u64,
    /// Buckets of the first stage; 0: each task's results stay where it ran
    #[arg(long, default_value_t = 16)]
    buckets: u32,
    /// Nodes that are lost on the way
    #[arg(long, default_value_t = 3)]
    losses: u32,
    /// What all lots are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the job and prints what its decisions took.
pub(crate) fn schedule(wanted: &Schedule) -> Result<(), String> {
    let before = resident_bytes("VmRSS");
    let mut cloud = Cloud::new(wanted)?;
    let begun = resident_bytes("VmRSS");
    let began = Instant::now();
    cloud.run()?;
    let mut times = std::mem::take(&mut cloud.times);
    times.sort_unstable();
    let at =
        |share: f64| f64::from(times.get(((times.len() as f64 - 1.0) * share) as usize).copied().unwrap_or(0)) / 1e3;
    println!("schedule: {} nodes, {} segments, {} buckets", wanted.nodes, wanted.segments, wanted.buckets);
    println!("  begin (cut, group, first tasks)  {:9.1} ms", micros(cloud.begin) / 1e3);
    println!("  decisions                        {:9}    in {:.1} s", times.len(), began.elapsed().as_secs_f64());
    println!(
        "  median, 99 %, 99.99 %, most      {:9.1} us {:.1} us {:.1} us {:.1} us",
        at(0.5),
        at(0.99),
        at(0.9999),
        at(1.0)
    );
    println!("  loss of a node, most             {:9.1} ms", micros(cloud.loss_max) / 1e3);
    println!("  memory once it has begun         {:9} MB", begun.saturating_sub(before) / 1_000_000);
    println!("  most memory                      {:9} MB", resident_bytes("VmHWM") / 1_000_000);
    let (retried, speculative) = cloud
        .job
        .stage_records()
        .iter()
        .fold((0, 0), |sum, record| (sum.0 + record.retried, sum.1 + record.speculative));
    println!("  tried again {retried}, beside slow ones {speculative}");
    Ok(())
}

/// The fake cloud around the rules. It reports events in the order of their time.
struct Cloud {
    rng: fastrand::Rng,
    now: Now,
    job: Job,
    begin: Duration,
    buckets: u32,
    news: BinaryHeap<Reverse<(Duration, u64)>>,
    events: BTreeMap<u64, Event>,
    next: u64,
    nodes: BTreeMap<SpeId, NodeId>,
    /// When a node is lost, in decisions.
    losses: Vec<(usize, NodeId)>,
    /// Nanoseconds of each call.
    times: Vec<u32>,
    loss_max: Duration,
}

impl Cloud {
    fn new(wanted: &Schedule) -> Result<Self, String> {
        let mut rng = fastrand::Rng::with_seed(wanted.seed);
        let name = |at: u32| NodeId::new(format!("node-{at:04}")).map_err(|error| error.to_string());
        let names: Vec<NodeId> = (0..wanted.nodes).map(name).collect::<Result<_, _>>()?;
        let place = |at: usize| Place::new(format!("site-{}", at % 4), format!("rack-{}", at / 4 / 20));
        let plans = names.iter().enumerate();
        let plans: Vec<_> = plans
            .map(|(at, node)| SpeNodePlan { node: node.clone(), place: place(at), slots: SLOTS, is_marked: false })
            .collect();
        let files = wanted.segments.div_ceil(SEGMENTS_PER_FILE);
        let mut inputs = Vec::new();
        for at in 0..files {
            let segments = SEGMENTS_PER_FILE.min(wanted.segments - at * SEGMENTS_PER_FILE);
            let copies = (0..COPIES).map(|_| names[rng.usize(..names.len())].clone()).collect();
            inputs.push(InputFile {
                path: format!("/sky/band-{}/{at:08}.fits", at % 5).parse().map_err(|error| format!("{error}"))?,
                slice: SliceId(u128::from(at)),
                bytes: segments * SEGMENT_BYTES,
                records: RecordFraming::Fixed(1 << 10),
                nodes: copies,
                layout: FileLayout::default(),
            });
        }
        let output = if wanted.buckets == 0 { StageOutput::Local } else { StageOutput::Buckets(wanted.buckets) };
        let stage = |output| StagePlan { output, records: RecordFraming::Lines };
        let stages = vec![stage(output), stage(StageOutput::Local)];
        let mut plan = JobPlan::new(JobId(1), stages, FinalOutput::Publish);
        plan.segment_bytes = (SEGMENT_BYTES, SEGMENT_BYTES);
        let step = (wanted.segments * 2 / u64::from(wanted.losses + 1)) as usize;
        let losses = (0..wanted.losses as usize).map(|at| ((at + 1) * step, names[at * 7 % names.len()].clone()));
        let losses = losses.rev().collect();
        let now = Now::default();
        let began = Instant::now();
        let job = Job::new(now, plan, inputs, &plans).map_err(|error| error.to_string())?;
        Ok(Self {
            rng,
            now,
            job,
            begin: began.elapsed(),
            buckets: wanted.buckets,
            news: BinaryHeap::new(),
            events: BTreeMap::new(),
            next: 0,
            nodes: BTreeMap::new(),
            losses,
            times: Vec::new(),
            loss_max: Duration::ZERO,
        })
    }

    fn run(&mut self) -> Result<(), String> {
        self.carry_out()?;
        while self.job.state() == JobState::Running {
            let due = self.job.next_timeout();
            let first = self.news.peek().map(|Reverse((at, _))| *at);
            let began;
            if let Some((_, node)) = self.losses.pop_if(|(at, _)| *at <= self.times.len()) {
                began = Instant::now();
                self.job.handle_event(self.now, Event::NodeLost(node));
                self.carry_out()?;
                self.loss_max = self.loss_max.max(began.elapsed());
                continue;
            } else if due.is_some_and(|due| first.is_none_or(|first| due < first)) {
                self.now.monotonic = self.now.monotonic.max(due.unwrap_or_default());
                began = Instant::now();
                self.job.handle_timeout(self.now);
            } else if let Some(Reverse((at, number))) = self.news.pop() {
                let Some(event) = self.events.remove(&number) else { continue };
                self.now.monotonic = self.now.monotonic.max(at);
                began = Instant::now();
                self.job.handle_event(self.now, event);
            } else {
                return Err("nothing is under way, and the job has not ended".into());
            }
            self.carry_out()?;
            self.times.push(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    fn carry_out(&mut self) -> Result<(), String> {
        while let Some(action) = self.job.poll_action() {
            match action {
                JobAction::StartSpe { spe, node } => {
                    self.nodes.insert(spe, node);
                    self.tell(20, Event::SpeReady(spe));
                }
                JobAction::DropSpe(spe) => {
                    self.nodes.remove(&spe);
                }
                JobAction::RunTask(assignment) => self.work(&assignment),
                JobAction::Seal { order, .. } => {
                    let bytes = order.winners.iter().map(|winner| winner.bytes).sum();
                    let tasks = order.winners.iter().map(|winner| winner.task).collect();
                    self.tell(10, Event::Sealed { bucket: order.bucket, bytes, order: tasks });
                }
                JobAction::Publish { bucket, .. } => self.tell(10, Event::Published(bucket)),
                JobAction::Fetch { bucket, .. } => self.tell(10, Event::Fetched(bucket)),
                JobAction::Deliver(delivery) => self.tell(50, Event::Delivered(delivery.attempt)),
                JobAction::BeginEpoch { epoch: run } => return Err(format!("run {run} begins: too much was lost")),
                JobAction::Finished(result) => result.map(|_| ()).map_err(|error| error.to_string())?,
            }
        }
        Ok(())
    }

    /// An SPE runs a task: it reports progress, then finishes or dies.
    fn work(&mut self, assignment: &Assignment) {
        let attempt = assignment.attempt;
        let slowness = if self.rng.u32(..2_000) == 0 { 10 } else { 1 };
        let millis = self.rng.u64(800..1_200) * slowness;
        self.tell(millis / 2, Event::Progress { attempt, bytes: SEGMENT_BYTES / 2 });
        if self.rng.u32(..20_000) == 0 {
            let refusal = Refusal::new(Reason::Unavailable, "the SPE died");
            return self.tell(millis, Event::TaskFailed { attempt, refusal });
        }
        let (pieces, counters) = (self.pieces(assignment), Counters::new());
        let result = TaskResult { records_in: 1, bytes_in: 1, records_out: 1, pieces, counters };
        self.tell(millis, Event::TaskFinished { attempt, result });
    }

    fn pieces(&self, assignment: &Assignment) -> Vec<PieceResult> {
        let AttemptId { task, stage, .. } = assignment.attempt;
        let piece = |bucket| PieceResult { bucket, bytes: 1_000, checksum: task ^ bucket, is_delivered: true };
        match &assignment.output {
            Placement::Buckets(_) if stage == 0 => (0..self.buckets).map(piece).collect(),
            _ => vec![piece(task)],
        }
    }

    fn tell(&mut self, millis: u64, event: Event) {
        self.next += 1;
        self.news.push(Reverse((self.now.monotonic + Duration::from_millis(millis), self.next)));
        self.events.insert(self.next, event);
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A field of this process's status that counts kilobytes, in bytes; 0 where the system reports none.
fn resident_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap_or(0) * 1_024
}

/// SPEs of a node.
const SLOTS: u32 = 4;
/// Nodes that have a file.
const COPIES: u32 = 3;
/// Bytes of a segment.
const SEGMENT_BYTES: u64 = 128 << 20;
/// Segments of a file.
const SEGMENTS_PER_FILE: u64 = 10;
