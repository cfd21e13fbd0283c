//! The state machine of a job: the client "is responsible for the control and scheduling of the program execution"
//! (Sector/Sphere paper, 3.4).
//!
//! A job goes through its stages in order. In each, SPEs are given tasks until all have a winner; buckets are sealed as
//! soon as nothing more can come into them; those of the last stage are published or returned, the others are the next
//! stage's stream. What is lost decides how far it goes back:
//!
//! | lost | what follows |
//! |---|---|
//! | an SPE, or it is silent too long | its task is tried again, elsewhere first; the SPE is replaced |
//! | a node without results that are needed | its tasks wait again and nothing else changes |
//! | a node with results, or a bucket with a winning piece | a new run from stage 0 on the nodes that are left |
//! | a function errs | the job ends with that error |
//!
//! It never does anything itself: it is told [`Event`]s and the time, and is asked for [`Action`]s.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use protocol::{
    NodeId, Now, Refusal, Status, limits,
    message::{
        client_master::{JobState, StageRecord},
        spe::{AttemptId, TaskResult},
    },
};

use crate::{
    Action, Event, FinalOutput, InputFile, JobPlan, Outcome, SpeId, SpeNodePlan, SphereError,
    bucket::{Step, StepRefusal},
    fleet::Fleet,
    stage::Stage,
    stream::Stream,
};

/// A job from its admission to its end.
#[derive(Debug)]
pub struct Job {
    plan: JobPlan,
    inputs: Arc<Vec<InputFile>>,
    fleet: Fleet,
    run: u32,
    stage: Stage,
    records: Vec<StageRecord>,
    returned_bytes: u64,
    actions: VecDeque<Action>,
    state: JobState,
}

/// How far a job is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run, from 0.
    pub run: u32,
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
        let stage = Stage::begin(&plan, 0, 0, Stream::Files(Arc::clone(&inputs)), &fleet)?;
        let actions = fleet.start_all(now).into_iter().map(|(spe, node)| Action::StartSpe { spe, node }).collect();
        let records = vec![StageRecord::default(); plan.stages.len()];
        let state = JobState::Running;
        let mut job = Self { plan, inputs, fleet, run: 0, stage, records, returned_bytes: 0, actions, state };
        job.records[0].segments = job.stage.segments();
        job.settle(now);
        Ok(job)
    }

    /// Something happened.
    pub fn handle_event(&mut self, now: Now, event: Event) {
        if self.state != JobState::Running {
            return;
        }
        match event {
            Event::SpeReady(spe) => {
                if !self.fleet.ready(spe) {
                    self.actions.push_back(Action::DropSpe(spe));
                }
            }
            Event::SpeLost { spe, refusal } => self.lose_spe(now, spe, refusal),
            Event::Progress { attempt, bytes } => {
                if let Some(spe) = self.stage.running(attempt).map(|running| running.spe) {
                    self.fleet.progress(now, spe, bytes);
                }
            }
            Event::TaskFinished { attempt, result } => self.finish_task(now, attempt, &result),
            Event::TaskFailed { attempt, refusal } => {
                if let Some(spe) = self.stage.running(attempt).map(|running| running.spe) {
                    self.lose_spe(now, spe, refusal);
                }
            }
            Event::FunctionFailed { attempt, error } => {
                if self.stage.running(attempt).is_some() {
                    self.records[self.stage.number as usize].failed += 1;
                    self.end(Err(SphereError::Function(error)));
                }
            }
            Event::Sealed { bucket, bytes } => match self.stage.buckets.sealed(bucket, bytes) {
                Ok(true) => self.check_returned(bucket.bucket, bytes),
                Ok(false) => {}
                Err(wrong) => self.begin_run(now, wrong),
            },
            Event::Published(bucket) | Event::Fetched(bucket) => {
                self.stage.buckets.delivered(bucket);
            }
            Event::BucketRefused { bucket, refusal } => match self.stage.buckets.refused(now, bucket, &refusal) {
                StepRefusal::Ignored | StepRefusal::Paused => {}
                StepRefusal::Lost => self.begin_run(now, refusal.sentence),
                StepRefusal::Final => self.end(Err(SphereError::Refused(refusal))),
            },
            Event::NodeLost(node) => self.lose_node(now, &node),
            Event::JobRefused(refusal) => self.end(Err(SphereError::Refused(refusal))),
            Event::Cancelled(why) => self.end(Err(SphereError::Cancelled(why))),
        }
        self.settle(now);
    }

    /// Time has passed: silent SPEs are given up, pauses end.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.state != JobState::Running {
            return;
        }
        for spe in self.fleet.silent(now) {
            let seconds = self.plan.progress_deadline.as_secs_f64();
            let sentence = format!("the SPE gave no sign of progress for {seconds} s");
            self.lose_spe(now, spe, Refusal::new(Status::Unavailable, sentence));
            if self.state != JobState::Running {
                return;
            }
        }
        for (spe, node) in self.fleet.start_due(now) {
            self.actions.push_back(Action::StartSpe { spe, node });
        }
        self.stage.resume_due(now, &self.fleet);
        self.settle(now);
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, on the monotonic clock.
    pub fn next_timeout(&self) -> Option<Duration> {
        if self.state != JobState::Running {
            return None;
        }
        self.fleet.next_timeout().into_iter().chain(self.stage.next_timeout()).min()
    }

    /// Counts of all stages; those of stages not yet begun are zero.
    pub fn stage_records(&self) -> &[StageRecord] {
        &self.records
    }

    /// How the job is.
    pub fn state(&self) -> JobState {
        self.state
    }

    /// How far the job is.
    pub fn progress(&self) -> Progress {
        let bytes = self.stage.bytes();
        let (buckets_done, buckets) = self.stage.buckets.progress();
        // An SPE may count bytes beyond its segment (the end of its last line).
        let bytes_done = (self.stage.bytes_done() + self.fleet.bytes_in_progress()).min(bytes);
        Progress { run: self.run, stage: self.stage.number, bytes_done, bytes, buckets_done, buckets }
    }

    /// Brings everything forward that can go forward.
    fn settle(&mut self, now: Now) {
        while self.state == JobState::Running && self.stage.is_complete() {
            if self.plan.is_last(self.stage.number) {
                let (buckets, outputs) = (self.stage.bucket_count(), self.stage.buckets.outputs());
                return self.end(Ok(Outcome { run: self.run, buckets, outputs }));
            }
            let records = self.plan.stages[self.stage.number as usize].records;
            self.begin_stage(self.stage.number + 1, Stream::Buckets(self.stage.buckets.as_stream(records)));
        }
        if self.state != JobState::Running {
            return;
        }
        // First everyone's own work, then what is left of others'.
        for far in [false, true] {
            for (spe, node) in self.fleet.idle() {
                let record = &mut self.records[self.stage.number as usize];
                if let Some(assignment) = self.stage.assign(&self.fleet, spe, &node, far, record) {
                    self.fleet.occupy(now, spe, assignment.attempt);
                    self.actions.push_back(Action::RunTask(assignment));
                }
            }
        }
        let records = self.plan.stages[self.stage.number as usize].records;
        for step in self.stage.buckets.next_steps() {
            self.actions.push_back(match step {
                Step::Seal(node, order) => Action::Seal { node, order },
                Step::Publish(node, bucket) => Action::Publish { node, bucket, records },
                Step::Fetch(node, bucket) => Action::Fetch { node, bucket },
            });
        }
    }

    fn begin_stage(&mut self, number: u32, stream: Stream) {
        match Stage::begin(&self.plan, number, self.run, stream, &self.fleet) {
            Ok(stage) => {
                self.records[number as usize].segments = stage.segments();
                self.stage = stage;
            }
            Err(error) => self.end(Err(error)),
        }
    }

    /// Everything again from stage 0, because of `why`.
    fn begin_run(&mut self, now: Now, why: String) {
        if self.run + 1 >= self.plan.runs_max {
            return self.end(Err(SphereError::Runs { runs: self.run + 1, last: why }));
        }
        self.run += 1;
        self.returned_bytes = 0;
        self.actions.push_back(Action::BeginRun { run: self.run });
        for (old, spe, node) in self.fleet.replace_busy(now) {
            self.actions.push_back(Action::DropSpe(old));
            self.actions.push_back(Action::StartSpe { spe, node });
        }
        for record in &mut self.records {
            // What was begun again stays visible; all else is counted anew.
            *record = StageRecord { retried: record.retried, ..StageRecord::default() };
        }
        self.begin_stage(0, Stream::Files(Arc::clone(&self.inputs)));
    }

    fn finish_task(&mut self, now: Now, attempt: AttemptId, result: &TaskResult) {
        let Some(spe) = self.stage.running(attempt).map(|running| running.spe) else { return };
        if let Err(wrong) = self.stage.buckets.check(attempt.task, &result.pieces) {
            return self.lose_spe(now, spe, Refusal::new(Status::Failed, wrong));
        }
        self.fleet.release(spe);
        self.stage.win(&self.fleet, attempt, result, &mut self.records[attempt.stage as usize]);
    }

    fn lose_spe(&mut self, now: Now, spe: SpeId, refusal: Refusal) {
        let Some(loss) = self.fleet.lose_spe(now, spe) else { return };
        self.actions.push_back(Action::DropSpe(spe));
        if let Some(attempt) = loss.attempt {
            self.fail_task(now, attempt, refusal);
        }
        if loss.node_given_up && self.state == JobState::Running {
            self.lose_node(now, &loss.node);
        }
    }

    fn fail_task(&mut self, now: Now, attempt: AttemptId, refusal: Refusal) {
        let failures = self.stage.fail(now, attempt, refusal.status);
        if self.stage.is_pinned() && matches!(refusal.status, Status::NotFound | Status::Refused) {
            // Its bucket, which nobody else has, is gone or no longer final: the node was started again.
            self.begin_run(now, refusal.sentence);
        } else if failures >= self.plan.attempts_max {
            let (path, segments) = self.stage.task_name(attempt);
            self.records[self.stage.number as usize].failed += segments;
            self.end(Err(SphereError::Task { path, failures, last: refusal }));
        }
    }

    fn lose_node(&mut self, now: Now, node: &NodeId) {
        let Some(spes) = self.fleet.lose_node(node) else { return };
        for (spe, attempt) in spes {
            self.actions.push_back(Action::DropSpe(spe));
            if let Some(attempt) = attempt {
                self.stage.requeue(&self.fleet, attempt);
            }
        }
        if self.fleet.weights().is_empty() {
            self.end(Err(SphereError::NoNodes));
        } else if self.stage.depends_on(node) {
            self.begin_run(now, format!("node `{node}` was lost with results of the job"));
        } else {
            self.stage.forget_node(&self.fleet);
        }
    }

    fn check_returned(&mut self, bucket: u32, bytes: u64) {
        if self.plan.output != FinalOutput::Return || !self.plan.is_last(self.stage.number) {
            return;
        }
        self.returned_bytes += bytes;
        let too_large = |bytes, most| Err(SphereError::ReturnTooLarge { bucket, bytes, most });
        if bytes > limits::FRAME_BYTES_MAX as u64 {
            self.end(too_large(bytes, limits::FRAME_BYTES_MAX as u64));
        } else if self.returned_bytes > RETURNED_BYTES_MAX {
            self.end(too_large(self.returned_bytes, RETURNED_BYTES_MAX));
        }
    }

    fn end(&mut self, result: Result<Outcome, SphereError>) {
        self.state = match &result {
            Ok(_) => JobState::Done,
            Err(SphereError::Cancelled(_)) => JobState::Cancelled,
            Err(_) => JobState::Failed,
        };
        // Whatever else was wanted is wanted no more.
        self.actions.clear();
        self.actions.push_back(Action::Finished(result));
    }
}

/// Most bytes returned to the driver in all: it keeps them in memory, of which no role may take more than 600 MB.
pub const RETURNED_BYTES_MAX: u64 = 256 << 20;
