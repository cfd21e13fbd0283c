//! The state machine of a job: the client "is responsible for the control and scheduling of the program execution"
//! (Sector/Sphere paper, 3.4). It never does anything itself: it is given [`Event`]s and the time, and is asked for
//! [`JobAction`]s.

pub(crate) mod action;
pub(crate) mod counter_totals;
pub mod error_groups;
pub(crate) mod event;
mod function_errors;
pub mod history;
pub mod plan;
mod recovery;
pub(crate) mod stage;
mod takeover;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use protocol::{
    Counters, Now, Reason, Refusal, SliceId, Status,
    limits::{self, COUNTERS_MAX, JOB_COUNTERS_MAX},
    message::{
        client_master::{JobState, StageRecord},
        spe::{AttemptId, BucketId, TaskResult},
    },
};

use crate::{
    ErrorGroups, Event, FinalOutput, InputFile, JobAction, JobPlan, Outcome, SkippedSegment, SpeId, SpeNodePlan,
    SphereError,
    bucket::{BucketStep, StepRefusal},
    job::stage::{FinishOutcome, Stage, StageEpoch},
    schedule::fleet::Fleet,
    stream::Stream,
};

/// A job from its admission to its end.
///
/// A job goes through its stages in order. In each stage, SPEs are given tasks until every task has a winner. A bucket
/// is sealed as soon as nothing more can come into it. Buckets of the last stage are published or returned; the others
/// are the next stage's stream. A completed stage stays known, because its results may have to be made again:
///
/// | lost | what follows |
/// |---|---|
/// | an SPE, or it is silent too long | its task is tried again, elsewhere first; the SPE is replaced |
/// | a node | its tasks wait again; the buckets that it held are made again, if something is yet to read them ([`recovery`]) |
/// | a bucket, or a piece of it | that bucket is made again |
/// | a repeated task leaves something else than before | a new run from stage 0: a record might be twice in the output |
/// | a function errs | the job ends with that error, or goes on without that segment ([`function_errors`]) |
/// | the driver itself | another is given the same events again, as far as they were written down, and goes on ([`takeover`]) |
#[derive(Debug)]
pub struct Job {
    plan: JobPlan,
    inputs: Arc<Vec<InputFile>>,
    fleet: Fleet,
    epoch: u32,
    /// How often its driver was replaced.
    takeovers: u32,
    /// Those begun in this run; the last one is the current one.
    stages: Vec<Stage>,
    records: Vec<StageRecord>,
    /// Segments of this run on which a function erred.
    skipped_segments: Vec<SkippedSegment>,
    /// The same, those together whose errors are alike.
    error_groups: ErrorGroups,
    /// Tasks, by stage, that were ended once because their machine had no memory left.
    out_of_memory: BTreeSet<(u32, u32)>,
    actions: VecDeque<JobAction>,
    state: JobState,
    /// The last time that it was given.
    last_event_at: Duration,
}

/// The progress of a job, for people to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageProgress {
    /// The run, from 0.
    pub epoch: u32,
    /// The stage, from 0.
    pub stage: u32,
    /// Bytes of the stage's input that are processed.
    pub bytes_done: u64,
    /// Bytes of the stage's input.
    pub bytes: u64,
    /// Filled buckets of the stage that are sealed and, in the last stage, published or returned.
    pub buckets_done: usize,
    /// Filled buckets of the stage.
    pub buckets: usize,
}

impl Job {
    /// A job over `inputs`, in order, on `nodes`. It wants its SPEs started at once.
    ///
    /// # Errors
    /// A plan that cannot work: see [`SphereError`].
    pub fn new(now: Now, plan: JobPlan, inputs: Vec<InputFile>, nodes: &[SpeNodePlan]) -> Result<Self, SphereError> {
        plan.check(&inputs, nodes)?;
        let mut fleet = Fleet::new(nodes, plan.progress_deadline);
        let inputs = Arc::new(inputs);
        let stage = Stage::begin(&plan, 0, StageEpoch::default(), Stream::Files(Arc::clone(&inputs)), &fleet)?;
        let actions = fleet.start_all(now).into_iter().map(|(spe, node)| JobAction::StartSpe { spe, node }).collect();
        let records = vec![StageRecord::default(); plan.stages.len()];
        let state = JobState::Running;
        let mut job = Self {
            plan,
            inputs,
            fleet,
            epoch: 0,
            takeovers: 0,
            stages: vec![stage],
            records,
            skipped_segments: vec![],
            error_groups: ErrorGroups::default(),
            out_of_memory: BTreeSet::new(),
            actions,
            state,
            last_event_at: now.monotonic,
        };
        job.records[0].segments = job.stages[0].segments();
        job.advance(now);
        Ok(job)
    }

    /// Gives the job an event.
    pub fn handle_event(&mut self, now: Now, event: Event) {
        if self.state != JobState::Running {
            return;
        }
        match event {
            Event::SpeReady(spe) => {
                if !self.fleet.ready(spe) {
                    self.actions.push_back(JobAction::DropSpe(spe));
                }
            }
            Event::SpeLost { spe, refusal } => self.lose_spe(now, spe, refusal),
            Event::Progress { attempt, bytes } => {
                if let Some(stage) = self.stages.get_mut(attempt.stage as usize)
                    && let Some(spe) = stage.running(attempt).map(|running| running.spe)
                {
                    stage.progress(attempt, bytes);
                    self.fleet.progress(now, spe, bytes);
                }
            }
            Event::TaskFinished { attempt, result } => self.finish_task(now, attempt, &result),
            Event::TaskFailed { attempt, refusal } => {
                if let Some(spe) = self.spe_of(attempt) {
                    self.lose_spe(now, spe, refusal);
                }
            }
            Event::FunctionFailed { attempt, error } => self.handle_function_error(now, attempt, error),
            Event::OutOfMemory { attempt, error } => self.handle_out_of_memory(now, attempt, error),
            Event::Delivered(attempt) => {
                if let Some(stage) = self.stage_of(attempt) {
                    stage.delivered(attempt);
                }
            }
            Event::DeliveryRefused { attempt, refusal } => self.refuse_delivery(now, attempt, refusal),
            Event::Sealed { bucket, bytes, order } => self.seal(now, bucket, bytes, order),
            Event::Published(bucket) | Event::Fetched(bucket) => self.deliver(bucket, None),
            Event::PublishedAs { bucket, slice } => self.deliver(bucket, Some(slice)),
            Event::BucketRefused { bucket, refusal } => self.refuse_step(now, bucket, refusal),
            Event::NodeLost(node) => self.lose_node(&node),
            Event::DriverReplaced => self.take_over(now),
            Event::JobRefused(refusal) => self.end(Err(SphereError::Refused(refusal))),
            Event::Cancelled(why) => self.end(Err(SphereError::Cancelled(why))),
            Event::InputUnavailable { attempt, refusal } => self.await_input(now, attempt, refusal),
        }
        self.advance(now);
    }

    /// Time has passed: silent SPEs are given up, pauses end.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.state != JobState::Running {
            return;
        }
        for spe in self.fleet.silent(now) {
            let seconds = self.plan.progress_deadline.as_secs_f64();
            let message = format!("the SPE gave no sign of progress for {seconds} s");
            self.lose_spe(now, spe, Refusal::new(Reason::Unavailable, message));
            if self.state != JobState::Running {
                return;
            }
        }
        for (spe, node) in self.fleet.start_due(now) {
            self.actions.push_back(JobAction::StartSpe { spe, node });
        }
        for stage in &mut self.stages {
            stage.resume_due(now, &self.fleet);
        }
        self.advance(now);
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<JobAction> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, on the monotonic clock.
    pub fn next_timeout(&self) -> Option<Duration> {
        if self.state != JobState::Running {
            return None;
        }
        let spes_idle = self.fleet.has_idle();
        let stages = self.stages.iter().filter_map(|stage| stage.next_timeout(self.last_event_at, spes_idle));
        self.fleet.next_timeout().into_iter().chain(stages).min()
    }

    /// What the functions of each stage have counted; stages not yet begun are left out.
    pub fn stage_counters(&self) -> Vec<Counters> {
        // More names than there may be were refused when they came.
        self.stages.iter().map(|stage| stage.counter_totals().counters().unwrap_or_default()).collect()
    }

    /// Counts of all stages; those of stages not yet begun are zero.
    pub fn stage_records(&self) -> &[StageRecord] {
        &self.records
    }

    /// What the job waits for, if no copy of an input can be reached.
    pub fn awaited_input(&self) -> Option<&Refusal> {
        self.stages.iter().find_map(Stage::awaited_input)
    }

    /// The state of the job.
    pub fn state(&self) -> JobState {
        self.state
    }

    /// The progress of the job.
    pub fn progress(&self) -> StageProgress {
        let Some(stage) = self.stages.last() else {
            return StageProgress { epoch: self.epoch, stage: 0, bytes_done: 0, bytes: 0, buckets_done: 0, buckets: 0 };
        };
        let bytes = stage.bytes();
        let (buckets_done, buckets) = stage.buckets.progress();
        // An SPE may count bytes beyond its segment (the end of its last line), and bytes that it reads again.
        let bytes_done = (stage.bytes_done() + self.fleet.bytes_in_progress()).min(bytes);
        StageProgress { epoch: self.epoch, stage: stage.number, bytes_done, bytes, buckets_done, buckets }
    }

    /// Advances everything that can advance.
    fn advance(&mut self, now: Now) {
        self.last_event_at = now.monotonic;
        while self.state == JobState::Running
            && let Some(stage) = self.stages.last_mut()
            && stage.is_complete()
        {
            if self.plan.is_last(stage.number) {
                let (buckets, outputs) = (stage.bucket_count(), stage.buckets.outputs());
                return self.end(Ok(Outcome {
                    epoch: self.epoch,
                    buckets,
                    outputs,
                    skipped_segments: self.skipped_segments.clone(),
                }));
            }
            let records = self.plan.stages[stage.number as usize].records;
            let (next, stream) = (stage.number + 1, Stream::Buckets(stage.buckets.as_stream(records)));
            stage.buckets.begin_reading();
            self.begin_stage(next, stream);
        }
        if self.state != JobState::Running {
            return;
        }
        self.assign_tasks(now);
        for (stage, plan) in self.stages.iter_mut().zip(&self.plan.stages) {
            self.actions.extend(stage.next_deliveries().into_iter().map(JobAction::Deliver));
            self.actions.extend(stage.buckets.next_steps().into_iter().map(|step| match step {
                BucketStep::Seal(node, order) => JobAction::Seal { node, order },
                BucketStep::Publish(node, bucket) => JobAction::Publish { node, bucket, records: plan.records },
                BucketStep::Fetch(node, bucket) => JobAction::Fetch { node, bucket },
            }));
        }
    }

    /// Gives idle SPEs work. Tasks of the earliest stage come first, since all later stages wait for it. Each SPE first
    /// gets tasks of its own node, then those of other nodes, and at last a task at which another SPE is slow. SPEs of
    /// marked nodes come after the others each time.
    fn assign_tasks(&mut self, now: Now) {
        if self.stages.iter_mut().map(Stage::take_has_new).filter(|has_new| *has_new).count() > 0 {
            self.fleet.retry_all_idle();
        }
        for (far, preferred) in [(false, true), (false, false), (true, true), (true, false)] {
            for stage in self.stages.iter_mut().filter(|stage| stage.has_waiting()) {
                for (spe, node) in self.fleet.untried(preferred) {
                    let record = &mut self.records[stage.number as usize];
                    if let Some(assignment) = stage.assign(now, &self.fleet, spe, &node, far, record) {
                        self.fleet.assign(now, spe, assignment.attempt);
                        self.actions.push_back(JobAction::RunTask(assignment));
                    } else if far && stage.treats_all_alike() {
                        break;
                    }
                }
            }
        }
        self.fleet.all_tried();
        for stage in self.stages.iter_mut().filter(|stage| !stage.has_waiting()) {
            if !self.fleet.has_idle() {
                break;
            }
            let record = &mut self.records[stage.number as usize];
            let begun = stage.speculate(now, &mut self.fleet, record);
            self.actions.extend(begun.into_iter().map(JobAction::RunTask));
        }
    }

    fn begin_stage(&mut self, number: u32, stream: Stream) {
        let run = StageEpoch { epoch: self.epoch, attempts_from: self.attempts_from() };
        match Stage::begin(&self.plan, number, run, stream, &self.fleet) {
            Ok(stage) => {
                self.records[number as usize].segments = stage.segments();
                self.stages.push(stage);
            }
            Err(error) => self.end(Err(error)),
        }
    }

    /// Does everything again from stage 0, because of `why`.
    fn begin_epoch(&mut self, now: Now, why: String) {
        if self.epoch + 1 >= self.plan.epochs_max {
            return self.end(Err(SphereError::TooManyEpochs { runs: self.epoch + 1, last: why }));
        }
        self.epoch += 1;
        self.actions.push_back(JobAction::BeginEpoch { epoch: self.epoch });
        for (old, spe, node) in self.fleet.replace_busy(now) {
            self.actions.push_back(JobAction::DropSpe(old));
            self.actions.push_back(JobAction::StartSpe { spe, node });
        }
        for record in &mut self.records {
            // The repeats stay visible; everything else is counted anew.
            let StageRecord { retried, speculative, .. } = *record;
            *record = StageRecord { retried, speculative, ..StageRecord::default() };
        }
        self.skipped_segments.clear();
        self.error_groups = ErrorGroups::default();
        self.stages.clear();
        self.begin_stage(0, Stream::Files(Arc::clone(&self.inputs)));
    }

    fn stage_of(&mut self, attempt: AttemptId) -> Option<&mut Stage> {
        self.stages.get_mut(attempt.stage as usize).filter(|stage| stage.is_of(attempt.job, attempt.epoch))
    }

    /// The SPE that makes an attempt that is counted on.
    fn spe_of(&self, attempt: AttemptId) -> Option<SpeId> {
        Some(self.stages.get(attempt.stage as usize)?.running(attempt)?.spe)
    }

    fn deliver(&mut self, bucket: BucketId, slice: Option<SliceId>) {
        if let Some(stage) = self.stages.get_mut(bucket.stage as usize) {
            stage.buckets.delivered(bucket, slice);
        }
    }

    fn finish_task(&mut self, now: Now, attempt: AttemptId, result: &TaskResult) {
        let Some(spe) = self.spe_of(attempt) else { return };
        let stage = &self.stages[attempt.stage as usize];
        if let Err(wrong) = stage.buckets.check(attempt.task, &result.pieces) {
            return self.lose_spe(now, spe, Refusal::new(Reason::Failed, wrong));
        }
        if let Err(error) = self.check_counters(attempt.stage as usize, &result.counters) {
            return self.end(Err(error));
        }
        let (stage, record) = (&mut self.stages[attempt.stage as usize], &mut self.records[attempt.stage as usize]);
        self.fleet.release(spe);
        match stage.finish(now, &self.fleet, attempt, result, record) {
            FinishOutcome::Won(rivals) => {
                for rival in rivals {
                    self.replace_spe(now, rival.spe);
                }
            }
            FinishOutcome::Differs => {
                let (path, _) = stage.task_name(attempt);
                let why = format!(
                    "what the function made of `{path}` was lost, and when it was run again it made something else of it"
                );
                self.begin_epoch(now, why);
            }
        }
    }

    /// Refuses more counter names than a person reads: those of a stage, and of the whole job.
    fn check_counters(&self, stage: usize, counters: &Counters) -> Result<(), SphereError> {
        let names = self.stages[stage].counter_totals().names_with(counters);
        let others = self.stages.iter().enumerate().filter(|(number, _)| *number != stage);
        let all = names + others.map(|(_, other)| other.counter_totals().names()).sum::<usize>();
        if names <= COUNTERS_MAX && all <= JOB_COUNTERS_MAX {
            return Ok(());
        }
        Err(SphereError::Counters { stage, names, all })
    }

    /// Ends an SPE whose work is useless, and starts another in its place.
    fn replace_spe(&mut self, now: Now, old: SpeId) {
        if let Some((spe, node)) = self.fleet.replace(now, old) {
            self.actions.push_back(JobAction::DropSpe(old));
            self.actions.push_back(JobAction::StartSpe { spe, node });
        }
    }

    fn lose_spe(&mut self, now: Now, spe: SpeId, refusal: Refusal) {
        let Some(loss) = self.fleet.lose_spe(now, spe) else { return };
        self.actions.push_back(JobAction::DropSpe(spe));
        if let Some(attempt) = loss.attempt {
            self.fail_task(now, attempt, refusal);
        }
        if loss.node_given_up && self.state == JobState::Running {
            self.lose_node(&loss.node);
        }
    }

    /// No node failed: the task is tried again until its input is back, or has been unavailable for too long.
    fn await_input(&mut self, now: Now, attempt: AttemptId, refusal: Refusal) {
        let Some(spe) = self.spe_of(attempt) else { return };
        self.fleet.release(spe);
        let Some(stage) = self.stage_of(attempt) else { return };
        let waited = stage.await_input(now, attempt, &refusal);
        if waited >= INPUT_PATIENCE {
            let (path, segments) = stage.task_name(attempt);
            self.records[attempt.stage as usize].failed += segments;
            self.end(Err(SphereError::InputUnavailable { path, minutes: waited.as_secs() / 60, last: refusal }));
        }
    }

    fn fail_task(&mut self, now: Now, attempt: AttemptId, refusal: Refusal) {
        let attempts_max = self.plan.attempts_max;
        let Some(stage) = self.stage_of(attempt) else { return };
        let failures = stage.fail(now, attempt, refusal.status());
        let input =
            stage.input(attempt.task).filter(|_| matches!(refusal.status(), Status::NotFound | Status::Refused));
        if let Some(bucket) = input {
            // Its bucket is gone or no longer final: the node was started again.
            self.lose_bucket(now, attempt.stage - 1, bucket, refusal.message);
        } else if failures >= attempts_max {
            let (path, segments) = stage.task_name(attempt);
            self.records[attempt.stage as usize].failed += segments;
            self.end(Err(SphereError::Task { path, failures, last: refusal }));
        }
    }

    fn seal(&mut self, now: Now, bucket: BucketId, bytes: u64, order: Vec<u32>) {
        let Some(stage) = self.stages.get_mut(bucket.stage as usize) else { return };
        match stage.buckets.sealed(bucket, bytes, order) {
            Ok(true) => {
                self.check_returned(bucket, bytes);
                self.resume_reader(bucket.stage, bucket.bucket);
            }
            Ok(false) => {}
            Err(wrong) => self.lose_bucket(now, bucket.stage, bucket.bucket, wrong),
        }
    }

    fn refuse_step(&mut self, now: Now, bucket: BucketId, refusal: Refusal) {
        let Some(stage) = self.stages.get_mut(bucket.stage as usize) else { return };
        match stage.buckets.refused(now, bucket, &refusal) {
            StepRefusal::Ignored | StepRefusal::Paused => {}
            StepRefusal::Lost => self.lose_bucket(now, bucket.stage, bucket.bucket, refusal.message),
            StepRefusal::Final => self.end(Err(SphereError::Refused(refusal))),
        }
    }

    fn check_returned(&mut self, id: BucketId, bytes: u64) {
        let BucketId { bucket, stage, .. } = id;
        if self.plan.output != FinalOutput::Return || !self.plan.is_last(stage) {
            return;
        }
        let returned_bytes = self.stages.last().map_or(0, |stage| stage.buckets.sealed_bytes());
        let too_large = |bytes, most| Err(SphereError::ReturnTooLarge { bucket, bytes, most });
        if bytes > limits::FRAME_BYTES_MAX as u64 {
            self.end(too_large(bytes, limits::FRAME_BYTES_MAX as u64));
        } else if returned_bytes > RETURNED_BYTES_MAX {
            self.end(too_large(returned_bytes, RETURNED_BYTES_MAX));
        }
    }

    fn end(&mut self, result: Result<Outcome, SphereError>) {
        self.state = match &result {
            Ok(_) => JobState::Done,
            Err(SphereError::Cancelled(_)) => JobState::Cancelled,
            Err(_) => JobState::Failed,
        };
        // All other actions are no longer wanted.
        self.actions.clear();
        self.actions.push_back(JobAction::Finished(result));
    }
}

/// How long a job waits for an input of which no copy can be reached: long enough for a machine to be started again.
const INPUT_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Most bytes returned to the driver in all: it keeps them in memory, and no role may use more than 600 MB of that.
pub const RETURNED_BYTES_MAX: u64 = 256 << 20;
