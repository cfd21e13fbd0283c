//! One stage in one run: its tasks, which of them wait, run or are done, and the buckets they fill. A stage knows which
//! attempts it counts on; reports of any other are late and change nothing. It never begins a new run: the
//! [job](crate::job) does.

mod assignment;
mod regeneration;
mod speculation;
mod unavailable_input;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{
    JobId, NodeId, Now, Status,
    message::{
        client_master::StageRecord,
        spe::{AttemptId, BucketId, TaskResult},
    },
};

use self::unavailable_input::{OutageSpan, UnavailableInput};
use crate::{
    FinalOutput, JobPlan, SpeId, SphereError, StageOutput,
    bucket::{
        Buckets, Finish, PreviousPiece, WinOutcome,
        bucket_shares::BucketShares,
        delivery::{Deliveries, DeliveryRefusal},
    },
    job::{
        action::{Delivery, Placement},
        counter_totals::{CountedShare, CounterTotals},
    },
    schedule::{
        Candidate, TaskPool,
        fleet::Fleet,
        slow_threshold::SlowThreshold,
        task::{self, Segments, Task},
    },
    stream::{
        Stream,
        segment_cuts::{self, Segment},
    },
};

/// A stage at work.
///
/// A finished task may have to be done [again](Stage::rerun): its results are lost, or a later stage needs what its
/// bucket held. A task that reads a bucket waits while that bucket is being made again.
#[derive(Debug)]
pub(crate) struct Stage {
    job: JobId,
    /// Its number, from 0.
    pub(crate) number: u32,
    epoch: u32,
    /// The number of each task's first attempt. No number is used twice, even by a driver that does not know of every
    /// attempt the one before it has begun.
    attempts_from: u32,
    stream: Stream,
    tasks: Vec<TaskState>,
    pool: TaskPool,
    /// Failed tasks that wait for a time.
    paused: BTreeSet<(Duration, u32)>,
    unfinished: usize,
    /// Tasks that are being done, and the attempts at each: one, or a slow one and its rival.
    running_attempts: BTreeMap<u32, Vec<Running>>,
    slow_threshold: SlowThreshold,
    counts: Counts,
    /// Where its results are.
    pub(crate) buckets: Buckets,
    /// How its buckets are shared out over sites.
    bucket_shares: BucketShares,
    deliveries: Deliveries,
    counter_totals: CounterTotals,
    unavailable_input: Option<UnavailableInput>,
}

/// Where a stage stands in the life of its job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageEpoch {
    /// How often the job was begun anew before.
    pub(crate) epoch: u32,
    /// The number of the first attempt at each task.
    pub(crate) attempts_from: u32,
}

/// An attempt that a stage counts on.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) spe: SpeId,
    pub(crate) node: NodeId,
    attempt: u32,
    began: Duration,
    read_bytes: u64,
    /// Where it was told to send its results.
    placement: Placement,
}

/// What a finished attempt means.
#[derive(Debug)]
pub(crate) enum FinishOutcome {
    /// It has won; these attempts at the same task have lost.
    Won(Vec<Running>),
    /// Its results differ from those of the attempt before, and some of those are in use.
    Differs,
}

/// What a function's error means.
#[derive(Debug)]
pub(crate) enum ErrorOutcome {
    /// This segment is left out; these attempts at its task are useless now.
    Skipped { segment: Segment, others: Vec<Running> },
    /// The task was done before, and what it left may be in use.
    Differs,
    /// The task has no such segment.
    Unknown,
}

impl Stage {
    /// Cuts `stream` for the fleet's live nodes and lets all tasks wait.
    pub(crate) fn begin(
        plan: &JobPlan,
        number: u32,
        run: StageEpoch,
        stream: Stream,
        fleet: &Fleet,
    ) -> Result<Self, SphereError> {
        let StageEpoch { epoch: run, attempts_from } = run;
        let weights = fleet.weights();
        let spes = weights.values().fold(0_u32, |sum, slots| sum.saturating_add(*slots));
        let segments = segment_cuts::cut(&stream, spes, plan.segment_bytes)?;
        let tasks = task::group(&stream, segments, fleet, plan.segment_bytes.0);
        let finish = match (plan.is_last(number), plan.output) {
            (false, _) => Finish::Keep,
            (true, FinalOutput::Publish) => Finish::Publish,
            (true, FinalOutput::Return) => Finish::Return,
        };
        let first = BucketId { job: plan.job, stage: number, epoch: run, bucket: 0, generation: 0 };
        let output = plan.stages[number as usize].output;
        let counts = Counts::of(&tasks);
        let shares = match output {
            StageOutput::Buckets(count) if !plan.links.is_empty() => {
                BucketShares::of(fleet, &plan.links, &bytes_by_site(fleet, &tasks), count)
            }
            _ => BucketShares::default(),
        };
        let split = |task: Task| (TaskState::new(task.segments), Candidate::new(task.member, task.holders));
        let (tasks, candidates): (Vec<_>, Vec<_>) = tasks.into_iter().map(split).unzip();
        let mut stage = Self {
            job: plan.job,
            number,
            epoch: run,
            attempts_from,
            pool: TaskPool::new(stream.is_pinned(), candidates),
            stream,
            paused: BTreeSet::new(),
            unfinished: tasks.len(),
            running_attempts: BTreeMap::new(),
            slow_threshold: SlowThreshold::default(),
            counts,
            buckets: Buckets::new(first, output, finish, &shares.weights(fleet)),
            bucket_shares: shares,
            tasks,
            deliveries: Deliveries::default(),
            counter_totals: CounterTotals::default(),
            unavailable_input: None,
        };
        for task in 0..stage.tasks.len() {
            stage.enqueue(fleet, task as u32);
        }
        if stage.tasks.is_empty() {
            stage.buckets.close(fleet.preferred().keys().next());
        }
        Ok(stage)
    }

    /// What its functions have counted.
    pub(crate) fn counter_totals(&self) -> &CounterTotals {
        &self.counter_totals
    }

    /// The running attempt; `None` if it is not counted on.
    pub(crate) fn running(&self, attempt: AttemptId) -> Option<&Running> {
        let AttemptId { job, stage, epoch: run, task, attempt } = attempt;
        if (job, stage, run) != (self.job, self.number, self.epoch) {
            return None;
        }
        self.running_attempts.get(&task)?.iter().find(|running| running.attempt == attempt)
    }

    /// An attempt has read so many bytes.
    pub(crate) fn progress(&mut self, attempt: AttemptId, read_bytes: u64) {
        if let Some(running) = self.running_attempts.get_mut(&attempt.task)
            && let Some(running) = running.iter_mut().find(|running| running.attempt == attempt.attempt)
        {
            running.read_bytes = read_bytes;
            self.has_input(attempt.task);
        }
    }

    /// An attempt that is [counted on](Self::running) finished.
    pub(crate) fn finish(
        &mut self,
        now: Now,
        fleet: &Fleet,
        attempt: AttemptId,
        result: &TaskResult,
        record: &mut StageRecord,
    ) -> FinishOutcome {
        let Some(running) = self.end(attempt) else { return FinishOutcome::Won(vec![]) };
        let number = attempt.task;
        let rivals = self.end_all(number);
        self.has_input(number);
        let former = self.tasks[number as usize].past.as_mut().and_then(|past| past.previous.take());
        let won =
            self.buckets.record_win(attempt, &running.node, &running.placement, &result.pieces, former.as_deref());
        let WinOutcome::Taken(lacking) = won else { return FinishOutcome::Differs };
        let segments = &self.tasks[number as usize].segments;
        let bytes = segments.bytes();
        let is_local = |segment: &&Segment| self.stream.nodes(segment.member).contains(&running.node);
        let account = Account {
            local: segments.iter().filter(is_local).count() as u32,
            bytes_in: result.bytes_in,
            bytes_out: result.pieces.iter().map(|piece| piece.bytes).sum(),
            counted: self.counter_totals.add(&result.counters),
        };
        record.done += segments.len() as u64;
        record.local += u64::from(account.local);
        record.bytes_in += account.bytes_in;
        record.bytes_out += account.bytes_out;
        self.counts.bytes_done += bytes;
        self.slow_threshold.note(bytes, now.monotonic.saturating_sub(running.began));
        self.deliveries.request(number, &running.node, attempt.attempt, lacking);
        self.record_win(fleet, number, Winner { attempt: attempt.attempt, node: running.node, account });
        FinishOutcome::Won(rivals)
    }

    /// The function erred on this segment of the task of an attempt that is counted on. The segment is left out from
    /// now on, and the rest of the task waits again. If there is no rest, the task is done, with no results.
    pub(crate) fn skip_segment(&mut self, fleet: &Fleet, attempt: AttemptId, segment: u64) -> ErrorOutcome {
        let number = attempt.task;
        let state = &self.tasks[number as usize];
        let Some(at) = state.segments.iter().position(|part| part.number == segment) else {
            return ErrorOutcome::Unknown;
        };
        if state.past.as_ref().is_some_and(|past| past.previous.is_some()) {
            return ErrorOutcome::Differs;
        }
        let Some(running) = self.end(attempt) else { return ErrorOutcome::Unknown };
        self.has_input(number);
        let rivals = self.end_all(number);
        let segments = &mut self.tasks[number as usize].segments;
        let segment = segments.remove(at);
        let is_empty = segments.is_empty();
        self.counts.bytes -= segment.bytes;
        if is_empty {
            // Without pieces, nothing can differ.
            self.buckets.record_win(attempt, &running.node, &running.placement, &[], None);
            self.record_win(
                fleet,
                number,
                Winner { attempt: attempt.attempt, node: running.node, account: Account::default() },
            );
        } else {
            self.tasks[number as usize].is_unblamed = true;
            self.enqueue(fleet, number);
        }
        ErrorOutcome::Skipped { segment, others: rivals }
    }

    /// An attempt that is counted on failed at its node with this status. Unless another attempt at the task is at
    /// work, the task waits for a while before it is tried again, elsewhere first. Gives how often it has failed.
    pub(crate) fn fail(&mut self, now: Now, attempt: AttemptId, status: Status) -> u32 {
        let Some(running) = self.end(attempt) else { return 0 };
        self.has_input(attempt.task);
        let past = self.tasks[attempt.task as usize].past.get_or_insert_default();
        past.failures += 1;
        let failures = past.failures;
        if !self.stream.is_pinned() {
            if matches!(status, Status::NotFound | Status::Corrupt) {
                past.lacking.insert(running.node.clone());
            }
            self.pool.avoid(attempt.task, running.node);
        }
        if !self.running_attempts.contains_key(&attempt.task) {
            let pause = RETRY_PAUSE * 2_u32.pow((failures - 1).min(RETRY_DOUBLINGS_MAX));
            self.paused.insert((now.monotonic + pause, attempt.task));
        }
        failures
    }

    /// An attempt ended with its node: the task waits again, and this counts as no failure.
    pub(crate) fn requeue(&mut self, fleet: &Fleet, attempt: AttemptId) {
        if self.end(attempt).is_some() {
            self.has_input(attempt.task);
            if !self.running_attempts.contains_key(&attempt.task) {
                self.enqueue(fleet, attempt.task);
            }
        }
    }

    /// Tasks whose pause is over wait for an SPE again.
    pub(crate) fn resume_due(&mut self, now: Now, fleet: &Fleet) {
        while self.paused.first().is_some_and(|(when, _)| *when <= now.monotonic) {
            if let Some((_, task)) = self.paused.pop_first() {
                self.enqueue(fleet, task);
            }
        }
        self.buckets.resume_due(now);
        self.deliveries.resume_due(now);
    }

    /// The bucket that a task reads; `None` where it reads files.
    pub(crate) fn input(&self, task: u32) -> Option<u32> {
        let Stream::Buckets(buckets) = &self.stream else { return None };
        self.tasks.get(task as usize)?;
        Some(buckets[self.pool.member(task)].bucket.bucket)
    }

    /// Deliveries that can be ordered now.
    pub(crate) fn next_deliveries(&mut self) -> Vec<Delivery> {
        let mut orders = Vec::new();
        while let Some((task, attempt, node, mut spots)) = self.deliveries.next() {
            spots.sort_by_key(|spot| spot.bucket);
            spots.dedup();
            spots.retain(|spot| !self.buckets.is_there(*spot));
            let homes: Vec<_> =
                spots.iter().filter_map(|spot| Some((*spot, self.buckets.location_of(*spot)?))).collect();
            self.deliveries.sent(task, homes.iter().map(|(spot, home)| (*spot, home.generation)).collect());
            if !homes.is_empty() {
                let attempt = AttemptId { job: self.job, stage: self.number, epoch: self.epoch, task, attempt };
                let homes = homes.into_iter().map(|(spot, home)| (spot.bucket, home)).collect();
                orders.push(Delivery { node, attempt, locations: homes });
            }
        }
        orders
    }

    /// A delivery ended well.
    pub(crate) fn delivered(&mut self, attempt: AttemptId) {
        for (spot, making) in self.deliveries.done(attempt.task, attempt.attempt).unwrap_or_default() {
            self.buckets.note_arrived(spot, attempt.attempt, making);
        }
    }

    /// A delivery was refused. Where its task must be done again, gives how often it has failed.
    pub(crate) fn delivery_refused(&mut self, now: Now, attempt: AttemptId, status: Status) -> Option<u32> {
        if self.deliveries.refused(now, attempt.task, attempt.attempt, status) != DeliveryRefusal::Lost {
            return None;
        }
        let past = self.tasks.get_mut(attempt.task as usize)?.past.get_or_insert_default();
        // It is no failure if a node keeps no more than it has room for.
        past.failures += u32::from(status != Status::NotFound);
        Some(past.failures)
    }

    /// Whether a report belongs to this stage in this run.
    pub(crate) fn is_of(&self, job: JobId, run: u32) -> bool {
        (job, run) == (self.job, self.epoch)
    }

    /// Whether a task waits for an SPE.
    pub(crate) fn has_waiting(&self) -> bool {
        self.pool.has_waiting()
    }

    /// Whether tasks have come to wait since this was last asked.
    pub(crate) fn take_has_new(&mut self) -> bool {
        self.pool.take_has_new()
    }

    /// See [`TaskPool::treats_all_alike`].
    pub(crate) fn treats_all_alike(&self) -> bool {
        self.pool.treats_all_alike()
    }

    /// Whether every task is done and every bucket has reached its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.unfinished == 0 && self.buckets.are_complete()
    }

    /// The stream that it reads.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> u64 {
        self.counts.segments
    }

    /// Bytes of its whole input.
    pub(crate) fn bytes(&self) -> u64 {
        self.counts.bytes
    }

    /// Bytes of the tasks that are done.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.counts.bytes_done
    }

    /// Buckets that its output could have.
    pub(crate) fn bucket_count(&self) -> u32 {
        match self.buckets.placement() {
            Placement::Local => self.tasks.len() as u32,
            Placement::Buckets(homes) => homes.len() as u32,
        }
    }

    /// The task of an attempt, for naming it and counting its segments.
    pub(crate) fn task_name(&self, attempt: AttemptId) -> (protocol::SectorPath, u64) {
        let segments = self.tasks.get(attempt.task as usize).map_or(&[][..], |state| &state.segments);
        let path = segments.first().map(|segment| self.stream.path(segment.member));
        (path.unwrap_or_else(protocol::SectorPath::root), segments.len() as u64)
    }

    /// When something here is due next. `spes_idle`: whether an SPE waits for an attempt to become slow.
    pub(crate) fn next_timeout(&self, now: Duration, spes_idle: bool) -> Option<Duration> {
        let paused = self.paused.first().map(|(when, _)| *when);
        let slow = if spes_idle { self.next_slow(now) } else { None };
        [paused, slow, self.buckets.next_timeout(), self.deliveries.next_timeout()].into_iter().flatten().min()
    }

    /// Whether the reader of a bucket is yet to read it to its end.
    fn needs(&self, bucket: u32) -> bool {
        self.reader(bucket).is_some_and(|task| self.tasks[task as usize].winner.is_none())
    }

    /// The task that reads a bucket: there is one for each, in the same order.
    fn reader(&self, bucket: u32) -> Option<u32> {
        let Stream::Buckets(buckets) = &self.stream else { return None };
        let at = buckets.binary_search_by_key(&bucket, |input| input.bucket.bucket).ok()?;
        Some(at as u32)
    }

    /// A task is done.
    fn record_win(&mut self, fleet: &Fleet, task: u32, winner: Winner) {
        self.tasks[task as usize].winner = Some(winner);
        self.unfinished -= 1;
        if self.unfinished == 0 {
            self.buckets.close(fleet.preferred().keys().next());
        }
    }

    fn enqueue(&mut self, fleet: &Fleet, task: u32) {
        if !self.tasks[task as usize].lacks_input {
            self.pool.insert(fleet, task);
        }
    }

    fn end(&mut self, attempt: AttemptId) -> Option<Running> {
        self.running(attempt)?;
        let running = self.running_attempts.get_mut(&attempt.task)?;
        let at = running.iter().position(|running| running.attempt == attempt.attempt)?;
        let ended = running.swap_remove(at);
        if running.is_empty() {
            self.running_attempts.remove(&attempt.task);
        }
        self.pool.remove_reader(attempt.task);
        Some(ended)
    }

    fn end_all(&mut self, task: u32) -> Vec<Running> {
        let ended = self.running_attempts.remove(&task).unwrap_or_default();
        ended.iter().for_each(|_| self.pool.remove_reader(task));
        ended
    }
}

/// The state of one task. It is small, since there may be a million.
#[derive(Debug)]
struct TaskState {
    segments: Segments,
    /// The attempt that has done it.
    winner: Option<Winner>,
    past: Option<Box<Past>>,
    /// Attempts begun; the next one's number.
    begun: u32,
    /// Whether the bucket that it reads is being made again.
    lacks_input: bool,
    /// Whether it waits because a segment was left out of it or its input was unavailable, and no attempt has failed
    /// since.
    is_unblamed: bool,
}

/// Further state of a task that has failed or is done again. Few have any.
#[derive(Debug, Default)]
struct Past {
    failures: u32,
    /// Of the nodes where it failed in this run, those that did not have its bytes: copies are moved and replaced while
    /// a job runs. A further attempt there fetches them.
    lacking: BTreeSet<NodeId>,
    /// Set while no copy of its input can be reached.
    outage: Option<OutageSpan>,
    /// Attempts that were not begun for that reason.
    not_begun: u32,
    /// It gets no rival before this time.
    speculate_after: Duration,
    /// What it left when it was done before, until it is done again.
    previous: Option<Vec<PreviousPiece>>,
}

/// The attempt that won a task. Its node has kept its results, if it could.
#[derive(Debug)]
struct Winner {
    attempt: u32,
    node: NodeId,
    account: Account,
}

/// What a task added to its stage's record.
#[derive(Debug, Default)]
struct Account {
    local: u32,
    bytes_in: u64,
    bytes_out: u64,
    counted: CountedShare,
}

/// Sums over the tasks, so that they need not be added up again.
#[derive(Debug)]
struct Counts {
    segments: u64,
    bytes: u64,
    bytes_done: u64,
}

impl Counts {
    fn of(tasks: &[Task]) -> Self {
        let segments = tasks.iter().map(|task| task.segments.len() as u64).sum();
        Self { segments, bytes: tasks.iter().map(|task| task.segments.bytes()).sum(), bytes_done: 0 }
    }
}

impl TaskState {
    fn new(segments: Segments) -> Self {
        Self { segments, winner: None, past: None, begun: 0, lacks_input: false, is_unblamed: false }
    }
}

/// Bytes of the tasks at each site; a task that lies at several counts a part at each.
fn bytes_by_site(fleet: &Fleet, tasks: &[Task]) -> BTreeMap<String, u64> {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for task in tasks {
        let live = task.holders.iter().filter(|holder| fleet.is_live(holder));
        let sites: BTreeSet<&str> = live.filter_map(|holder| Some(&fleet.place(holder)?.site[..])).collect();
        let part = task.segments.bytes() / (sites.len() as u64).max(1);
        sites.into_iter().for_each(|site| *bytes.entry(site).or_default() += part);
    }
    bytes.into_iter().map(|(site, bytes)| (site.to_owned(), bytes)).collect()
}

/// Pause before a failed task is tried again, doubled with each failure up to three times. One, two and four seconds
/// last longer than it takes to notice a dead node; then its tasks go elsewhere.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const RETRY_DOUBLINGS_MAX: u32 = 3;
