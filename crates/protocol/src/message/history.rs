//! Door 2, the outcome of a job's attempts: its driver reports it at the end, and people ask for it afterwards. It
//! serves `job --segments` and `nodes`. Except for the marks, by which later jobs prefer nodes, it never decides
//! anything.

use serde::{Deserialize, Serialize};

use super::printed::SegmentOutput;
pub use super::request::HistoryRequest;
use crate::{NodeId, SectorPath, limits, wire::few::few};

/// The outcome of a job's attempts, and of the nodes that made them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobHistory {
    /// By stage, run and segment; at most [`HISTORY_ATTEMPTS_MAX`](crate::limits::HISTORY_ATTEMPTS_MAX). Where there
    /// are more, first those that failed and then those that took longest.
    pub attempts: Vec<AttemptRecord>,
    /// How many others there were.
    pub left_out: u64,
    /// The nodes at which attempts failed, though others could do the same.
    pub marks: Vec<(NodeId, NodeMarks)>,
}

/// One attempt at a task: at one segment, or at several small ones together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The stage, from 0.
    pub stage: u32,
    /// The run of the whole job, from 0.
    pub epoch: u32,
    /// Which attempt at the task it was, from 0.
    pub attempt: u32,
    /// The number of its first segment in the stage's input, from 0.
    pub segment: u64,
    /// How many segments it had.
    pub segments: u32,
    /// The file of its first segment, or the bucket of the stage before.
    pub slice: SectorPath,
    /// Bytes of all its segments; of several streams, those of the first.
    pub bytes: u64,
    /// Where it ran.
    pub node: NodeId,
    /// Milliseconds from the job's beginning to its own.
    pub began_millis: u64,
    /// Milliseconds from its beginning to its end, as the driver saw them.
    pub took_millis: u64,
    /// How it ended.
    pub end: AttemptEnd,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptEnd {
    /// It finished.
    Done,
    /// Another attempt at the same task was quicker.
    Overtaken,
    /// Its SPE or its node failed, or showed no sign of life.
    Failed,
    /// The user's function failed.
    Erred,
    /// The job ended, or began again, while it was at work.
    Stopped,
}

/// Attempts of jobs that failed at a node, though another node could do the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMarks {
    /// Their SPE or the node itself failed, and another node did the task.
    pub failed: u32,
    /// Another node was quicker.
    pub overtaken: u32,
}

impl NodeMarks {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            failed: self.failed.saturating_add(other.failed),
            overtaken: self.overtaken.saturating_add(other.overtaken),
        }
    }
}

/// What the functions of a job printed: of each stage while it was loaded, and of each segment in its last attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLogs {
    /// By stage and segment.
    #[serde(deserialize_with = "few::<{ limits::LOG_SEGMENTS_MAX }, _, _>")]
    pub segments: Vec<SegmentLog>,
    /// How often something was printed and is not in it, for want of room.
    pub left_out: u64,
}

/// What a function printed over one segment, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentLog {
    /// The stage, from 0.
    pub stage: u32,
    /// The run of the whole job, from 0.
    pub epoch: u32,
    /// Which attempt at the segment's task it was, from 0.
    pub attempt: u32,
    /// Where it ran.
    pub node: NodeId,
    /// Whether the function failed on this segment.
    pub failed: bool,
    /// What it printed.
    pub output: SegmentOutput,
}

impl SegmentLog {
    /// The stage and the segment: a later log of the same replaces an earlier one.
    pub fn key(&self) -> (u32, Option<u64>) {
        (self.stage, self.output.segment)
    }

    /// What it takes of [`JOB_LOG_BYTES_MAX`](limits::JOB_LOG_BYTES_MAX).
    pub fn bytes(&self) -> usize {
        limits::LOG_ENTRY_BYTES + self.output.first.len() + self.output.last.len()
    }

    /// Whether it may be added to a job's log of which so much is taken. The last part is for failures alone.
    pub fn fits(&self, taken_bytes: usize) -> bool {
        let kept = if self.failed { 0 } else { limits::JOB_LOG_BYTES_OF_FAILED };
        let is_short = self.output.first.len() + self.output.last.len() <= limits::SEGMENT_LOG_BYTES_MAX;
        is_short && taken_bytes.saturating_add(self.bytes()) <= limits::JOB_LOG_BYTES_MAX - kept
    }
}
