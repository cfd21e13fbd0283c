//! What became of a job's attempts: at which node, when, how long they took, and how they ended. It is given the job's
//! events and actions in their order, so it knows no more than the driver. It never decides anything: the stage starts
//! a rival of a slow attempt, or tries a failed task elsewhere.

use std::{collections::BTreeMap, time::Duration};

use protocol::{
    NodeId, Now, SectorPath,
    limits::{HISTORY_ATTEMPTS_MAX, HISTORY_BYTES_MAX},
    message::{
        history::{AttemptEnd, AttemptRecord, JobHistory, NodeMarks},
        spe::AttemptId,
    },
};

use crate::{Assignment, Event, JobAction, SpeId};

/// The history of a job.
///
/// It keeps at most [`HISTORY_ATTEMPTS_MAX`] attempts, however many the job makes: first those that came to nothing,
/// then those that took longest.
///
/// A node is marked for an attempt that was overtaken there. It is also marked for one that failed there once another
/// node has done the same task. If no node can do the task, or only that node can, the fault may lie in the function or
/// its input. A function's error marks no node.
#[derive(Debug)]
pub struct History {
    /// When the job began.
    began: Duration,
    /// The current attempt of each SPE.
    open: BTreeMap<SpeId, OpenAttempt>,
    /// The ones worth keeping, by [`Rank`].
    kept: BTreeMap<Rank, AttemptRecord>,
    ended: u64,
    /// Where attempts at tasks that are not done have failed.
    failed: BTreeMap<TaskKey, Vec<NodeId>>,
    marks: BTreeMap<NodeId, NodeMarks>,
}

impl History {
    /// The history of a job that begins now.
    pub fn new(now: Now) -> Self {
        Self {
            began: now.monotonic,
            open: BTreeMap::new(),
            kept: BTreeMap::new(),
            ended: 0,
            failed: BTreeMap::new(),
            marks: BTreeMap::new(),
        }
    }

    /// The job is about to be given this event; to be called before it is.
    pub fn handle_event(&mut self, now: Now, event: &Event) {
        match event {
            // The first to finish has won: any other attempt at the same task is overtaken.
            Event::TaskFinished { attempt, .. } => {
                self.end_attempt(now, *attempt, AttemptEnd::Done, AttemptEnd::Overtaken);
            }
            Event::FunctionFailed { attempt, .. } => {
                self.end_attempt(now, *attempt, AttemptEnd::Erred, AttemptEnd::Stopped);
            }
            // A second failure is the function's error, but only the job knows which time this was.
            Event::TaskFailed { attempt, .. } | Event::OutOfMemory { attempt, .. } => {
                self.end_attempt(now, *attempt, AttemptEnd::Failed, AttemptEnd::Failed);
            }
            // The attempt was never begun.
            Event::InputUnavailable { attempt, .. } => self.open.retain(|_, open| open.attempt != *attempt),
            Event::SpeLost { spe, .. } => self.end(now, *spe, AttemptEnd::Failed),
            Event::NodeLost(node) => {
                let here: Vec<SpeId> = self.spes(|open| open.node == *node);
                here.into_iter().for_each(|spe| self.end(now, spe, AttemptEnd::Failed));
            }
            // The driver that takes the job over gives out each task anew.
            Event::DriverReplaced => self.stop_all(now),
            _ => {}
        }
    }

    /// The job wants this action carried out.
    pub fn handle_action(&mut self, now: Now, action: &JobAction) {
        match action {
            JobAction::RunTask(assignment) => {
                self.open.insert(assignment.spe, OpenAttempt::of(now, assignment));
            }
            JobAction::DropSpe(spe) => {
                let fate = self.open.get(spe).map_or(AttemptEnd::Stopped, |open| open.fate);
                self.end(now, *spe, fate);
            }
            JobAction::BeginEpoch { .. } | JobAction::Finished(_) => self.stop_all(now),
            _ => {}
        }
    }

    /// Gives the whole history away, when the job has ended.
    pub fn finish(&mut self) -> JobHistory {
        let (mut attempts, mut bytes) = (Vec::new(), 0);
        for (_, record) in std::mem::take(&mut self.kept).into_iter().rev() {
            bytes += RECORD_BYTES + record.slice.as_str().len() + record.node.as_str().len();
            if bytes > HISTORY_BYTES_MAX {
                break;
            }
            attempts.push(record);
        }
        attempts.sort_by_key(|record| (record.stage, record.epoch, record.segment, record.attempt));
        let left_out = self.ended - attempts.len() as u64;
        JobHistory {
            attempts,
            left_out,
            marks: std::mem::take(&mut self.marks).into_iter().take(MARKED_NODES_MAX).collect(),
        }
    }

    fn mark(&mut self, node: NodeId, marks: NodeMarks) {
        let of_node = self.marks.entry(node).or_default();
        *of_node = of_node.plus(marks);
    }

    fn stop_all(&mut self, now: Now) {
        self.spes(|_| true).into_iter().for_each(|spe| self.end(now, spe, AttemptEnd::Stopped));
    }

    fn spes(&self, which: impl Fn(&OpenAttempt) -> bool) -> Vec<SpeId> {
        self.open.iter().filter(|(_, open)| which(open)).map(|(spe, _)| *spe).collect()
    }

    /// An attempt ended, if it is known. Others at its task get the fate `rivals` unless they report something before.
    fn end_attempt(&mut self, now: Now, attempt: AttemptId, end: AttemptEnd, rivals: AttemptEnd) {
        let Some(spe) = self.spes(|open| open.attempt == attempt).pop() else { return };
        self.end(now, spe, end);
        let is_rival = |open: &&mut OpenAttempt| AttemptId { attempt: attempt.attempt, ..open.attempt } == attempt;
        self.open.values_mut().filter(is_rival).for_each(|open| open.fate = rivals);
    }

    fn end(&mut self, now: Now, spe: SpeId, end: AttemptEnd) {
        let Some(open) = self.open.remove(&spe) else { return };
        let AttemptId { stage, epoch: run, task, .. } = open.attempt;
        match end {
            AttemptEnd::Failed => self.failed.entry((stage, run, task)).or_default().push(open.node.clone()),
            AttemptEnd::Overtaken => self.mark(open.node.clone(), NodeMarks { failed: 0, overtaken: 1 }),
            AttemptEnd::Done => {
                let failed = self.failed.remove(&(stage, run, task)).unwrap_or_default();
                for node in failed.into_iter().filter(|node| *node != open.node) {
                    self.mark(node, NodeMarks { failed: 1, overtaken: 0 });
                }
            }
            AttemptEnd::Erred | AttemptEnd::Stopped => {}
        }
        let took = now.monotonic.saturating_sub(open.began);
        let record = AttemptRecord {
            stage: open.attempt.stage,
            epoch: open.attempt.epoch,
            attempt: open.attempt.attempt,
            segment: open.segment,
            segments: open.segments,
            slice: open.slice,
            bytes: open.bytes,
            node: open.node,
            began_millis: millis(open.began.saturating_sub(self.began)),
            took_millis: millis(took),
            end,
        };
        self.kept.insert((end != AttemptEnd::Done, took, self.ended), record);
        self.ended += 1;
        if self.kept.len() > HISTORY_ATTEMPTS_MAX {
            self.kept.pop_first();
        }
    }
}

/// Stage, run and number of a task.
type TaskKey = (u32, u32, u32);

/// Whether it came to nothing, how long it took, and its number.
type Rank = (bool, Duration, u64);

/// An attempt that is being made.
#[derive(Debug)]
struct OpenAttempt {
    attempt: AttemptId,
    node: NodeId,
    began: Duration,
    segment: u64,
    segments: u32,
    slice: SectorPath,
    bytes: u64,
    /// How it will have ended if its SPE is dropped before it reports: as silent, unless something else is known.
    fate: AttemptEnd,
}

impl OpenAttempt {
    fn of(now: Now, assignment: &Assignment) -> Self {
        let first = assignment.segments.first();
        Self {
            attempt: assignment.attempt,
            node: assignment.node.clone(),
            began: now.monotonic,
            segment: first.map_or(0, |segment| segment.segment),
            segments: assignment.segments.len() as u32,
            slice: first.map_or_else(SectorPath::root, |segment| segment.first.path.clone()),
            bytes: assignment.segments.iter().map(|segment| segment.first.until - segment.first.from).sum(),
            fate: AttemptEnd::Failed,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// An upper bound of the bytes that an attempt takes in a message, without path and node.
const RECORD_BYTES: usize = 80;
/// Most nodes that a history marks: as many as a large cloud has.
const MARKED_NODES_MAX: usize = 1_000;
