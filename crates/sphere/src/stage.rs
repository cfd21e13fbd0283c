//! One stage in one run: its tasks, which of them wait, run or are done, and the buckets they fill. A stage knows which
//! attempts it counts on; news of any other is late and changes nothing.

use std::{collections::BTreeSet, time::Duration};

use protocol::{
    JobId, NodeId, Now, Status,
    message::{
        client_master::StageRecord,
        spe::{AttemptId, BucketId, TaskResult},
    },
};

use crate::{
    FinalOutput, JobPlan, SpeId, SphereError,
    action::{AssignedSegment, Assignment, SegmentPlace},
    bucket::{Buckets, Finish},
    fleet::Fleet,
    schedule::{Pool, Waiting},
    segment::{self, Segment},
    stream::Stream,
    task::{self, Task},
};

/// A stage at work.
#[derive(Debug)]
pub(crate) struct Stage {
    job: JobId,
    /// Which, from 0.
    pub(crate) number: u32,
    run: u32,
    stream: Stream,
    tasks: Vec<TaskState>,
    pool: Pool,
    /// Failed tasks that wait for a time.
    paused: BTreeSet<(Duration, u32)>,
    unfinished: usize,
    /// Where its results are.
    pub(crate) buckets: Buckets,
}

/// An attempt that a stage counts on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) spe: SpeId,
    pub(crate) node: NodeId,
    attempt: u32,
}

impl Stage {
    /// Cuts `stream` for the fleet's live nodes and lets all tasks wait.
    pub(crate) fn begin(
        plan: &JobPlan,
        number: u32,
        run: u32,
        stream: Stream,
        fleet: &Fleet,
    ) -> Result<Self, SphereError> {
        let weights = fleet.weights();
        let spes = weights.values().fold(0_u32, |sum, slots| sum.saturating_add(*slots));
        let segments = segment::cut(&stream, spes, plan.segment_bytes)?;
        let tasks = task::group(&stream, segments, &weights, plan.segment_bytes.0);
        let finish = match (plan.is_last(number), plan.output) {
            (false, _) => Finish::Keep,
            (true, FinalOutput::Publish) => Finish::Publish,
            (true, FinalOutput::Return) => Finish::Return,
        };
        let first = BucketId { job: plan.job, stage: number, run, bucket: 0 };
        let output = plan.stages[number as usize].output;
        let mut stage = Self {
            job: plan.job,
            number,
            run,
            pool: Pool::new(stream.is_pinned()),
            stream,
            paused: BTreeSet::new(),
            unfinished: tasks.len(),
            buckets: Buckets::new(first, output, finish, &weights),
            tasks: tasks.into_iter().map(TaskState::new).collect(),
        };
        for task in 0..stage.tasks.len() {
            stage.wait(fleet, task as u32);
        }
        if stage.tasks.is_empty() {
            stage.buckets.close(weights.keys().next());
        }
        Ok(stage)
    }

    /// The attempt that an idle SPE should make now; see [`Pool::take`].
    pub(crate) fn assign(
        &mut self,
        fleet: &Fleet,
        spe: SpeId,
        node: &NodeId,
        far: bool,
        record: &mut StageRecord,
    ) -> Option<Assignment> {
        let number = self.pool.take(fleet, node, far)?;
        let state = &mut self.tasks[number as usize];
        let attempt = state.begun;
        state.begun += 1;
        record.retried += u64::from(attempt > 0);
        state.running = Some(Running { spe, node: node.clone(), attempt });
        let state = &self.tasks[number as usize];
        let lacking = &state.lacking;
        let segments = state.task.segments.iter().map(|segment| self.assigned(fleet, segment, node, lacking)).collect();
        let attempt = AttemptId { job: self.job, stage: self.number, run: self.run, task: number, attempt };
        Some(Assignment { spe, node: node.clone(), attempt, segments, output: self.buckets.placement().clone() })
    }

    /// Who makes this attempt; `None` when it is not counted on.
    pub(crate) fn running(&self, attempt: AttemptId) -> Option<&Running> {
        let AttemptId { job, stage, run, task, attempt } = attempt;
        if (job, stage, run) != (self.job, self.number, self.run) {
            return None;
        }
        self.tasks.get(task as usize)?.running.as_ref().filter(|running| running.attempt == attempt)
    }

    /// An attempt that is [counted on](Self::running) finished: it has won its task.
    pub(crate) fn win(&mut self, fleet: &Fleet, attempt: AttemptId, result: &TaskResult, record: &mut StageRecord) {
        let Some(running) = self.end(attempt) else { return };
        let state = &mut self.tasks[attempt.task as usize];
        state.done = true;
        self.unfinished -= 1;
        let segments = &state.task.segments;
        record.done += segments.len() as u64;
        let is_local = |segment: &&Segment| self.stream.nodes(segment.member).contains(&running.node);
        record.local += segments.iter().filter(is_local).count() as u64;
        record.bytes_in += result.bytes_in;
        record.bytes_out += result.pieces.iter().map(|(_, bytes)| bytes).sum::<u64>();
        self.buckets.win(attempt, &running.node, &result.pieces);
        if self.unfinished == 0 {
            self.buckets.close(fleet.weights().keys().next());
        }
    }

    /// An attempt that is counted on failed at its node, with this status; the task waits for a while before it is tried
    /// again, elsewhere first. Gives how often it has failed.
    pub(crate) fn fail(&mut self, now: Now, attempt: AttemptId, status: Status) -> u32 {
        let Some(running) = self.end(attempt) else { return 0 };
        let state = &mut self.tasks[attempt.task as usize];
        state.failures += 1;
        if !self.stream.is_pinned() {
            if matches!(status, Status::NotFound | Status::Corrupt) {
                state.lacking.insert(running.node.clone());
            }
            state.avoid.insert(running.node);
        }
        let pause = RETRY_PAUSE * 2_u32.pow((state.failures - 1).min(RETRY_DOUBLINGS_MAX));
        self.paused.insert((now.monotonic + pause, attempt.task));
        state.failures
    }

    /// An attempt ended with its node: the task waits again, and nobody is to blame.
    pub(crate) fn requeue(&mut self, fleet: &Fleet, attempt: AttemptId) {
        if self.end(attempt).is_some() {
            self.wait(fleet, attempt.task);
        }
    }

    /// Tasks whose pause is over wait for an SPE again.
    pub(crate) fn resume_due(&mut self, now: Now, fleet: &Fleet) {
        while self.paused.first().is_some_and(|(when, _)| *when <= now.monotonic) {
            if let Some((_, task)) = self.paused.pop_first() {
                self.wait(fleet, task);
            }
        }
        self.buckets.resume_due(now);
    }

    /// A node was lost on which nothing of this stage [depends](Self::depends_on).
    pub(crate) fn forget_node(&mut self, fleet: &Fleet) {
        self.pool.rebuild(fleet);
    }

    /// Whether the loss of `node` loses results that are still needed: input that only it has, or output.
    pub(crate) fn depends_on(&self, node: &NodeId) -> bool {
        let is_input = |state: &TaskState| !state.done && state.task.holders.contains(node);
        (self.stream.is_pinned() && self.tasks.iter().any(is_input))
            || self.buckets.depend_on(node, self.unfinished > 0)
    }

    /// Whether a bucket that it reads is only where it was sealed.
    pub(crate) fn is_pinned(&self) -> bool {
        self.stream.is_pinned()
    }

    /// Whether every task is done and every bucket has reached its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.unfinished == 0 && self.buckets.are_complete()
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> u64 {
        self.tasks.iter().map(|state| state.task.segments.len() as u64).sum()
    }

    /// Bytes of its whole input.
    pub(crate) fn bytes(&self) -> u64 {
        self.tasks.iter().map(|state| state.task.bytes).sum()
    }

    /// Bytes of the tasks that are done.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.tasks.iter().filter(|state| state.done).map(|state| state.task.bytes).sum()
    }

    /// Buckets that its output could have.
    pub(crate) fn bucket_count(&self) -> u32 {
        match self.buckets.placement() {
            crate::Placement::Local => self.tasks.len() as u32,
            crate::Placement::Buckets(places) => places.len() as u32,
        }
    }

    /// The task of an attempt, for naming it and counting its segments.
    pub(crate) fn task_name(&self, attempt: AttemptId) -> (protocol::SectorPath, u64) {
        let task = self.tasks.get(attempt.task as usize).map(|state| &state.task);
        let path = task.and_then(|task| task.segments.first()).map(|segment| self.stream.path(segment.member));
        (path.unwrap_or_else(protocol::SectorPath::root), task.map_or(0, |task| task.segments.len() as u64))
    }

    /// When a pause ends.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        self.paused.first().map(|(when, _)| *when).into_iter().chain(self.buckets.next_timeout()).min()
    }

    fn wait(&mut self, fleet: &Fleet, task: u32) {
        let state = &self.tasks[task as usize];
        let waiting =
            Waiting { member: state.task.member(), holders: state.task.holders.clone(), avoid: state.avoid.clone() };
        self.pool.insert(fleet, task, waiting);
    }

    fn end(&mut self, attempt: AttemptId) -> Option<Running> {
        self.running(attempt)?;
        let state = &mut self.tasks[attempt.task as usize];
        self.pool.leave(state.task.member());
        state.running.take()
    }

    fn assigned(&self, fleet: &Fleet, segment: &Segment, node: &NodeId, lacking: &BTreeSet<NodeId>) -> AssignedSegment {
        let place = match &self.stream {
            Stream::Buckets(buckets) => SegmentPlace::Bucket(buckets[segment.member].bucket),
            Stream::Files(files) => {
                let file = &files[segment.member];
                if file.nodes.contains(node) && !lacking.contains(node) {
                    SegmentPlace::Local(file.slice)
                } else {
                    let live = file.nodes.iter().filter(|holder| fleet.is_live(holder) && !lacking.contains(holder));
                    let nearest = live.min_by_key(|holder| (fleet.distance(node, holder), *holder)).cloned();
                    SegmentPlace::Remote { slice: file.slice, nearest }
                }
            }
        };
        AssignedSegment {
            segment: segment.number,
            place,
            path: self.stream.path(segment.member),
            from: segment.from,
            until: segment.until,
            records: self.stream.records(segment.member),
        }
    }
}

#[derive(Debug)]
struct TaskState {
    task: Task,
    /// Nodes where it failed in this run.
    avoid: BTreeSet<NodeId>,
    /// Of these, those that did not have its bytes: copies are moved and replaced while a job runs. A further attempt
    /// there fetches them.
    lacking: BTreeSet<NodeId>,
    /// Attempts begun; the next one's number.
    begun: u32,
    failures: u32,
    running: Option<Running>,
    done: bool,
}

impl TaskState {
    fn new(task: Task) -> Self {
        Self {
            task,
            avoid: BTreeSet::new(),
            lacking: BTreeSet::new(),
            begun: 0,
            failures: 0,
            running: None,
            done: false,
        }
    }
}

/// Pause before a failed task is tried again, doubled with each failure up to three times: one, two and four seconds
/// outlast the time in which a dead node is noticed (then the job begins anew and the count of failures with it).
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const RETRY_DOUBLINGS_MAX: u32 = 3;
