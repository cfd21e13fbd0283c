//! Door 2, the outcome of a job's attempts: its driver reports it at the end, and people ask for it afterwards. It
//! serves `job --segments` and `nodes`. Except for the marks, by which later jobs prefer nodes, it never decides
//! anything.

use serde::{Deserialize, Serialize};

pub use super::request::HistoryRequest;
use crate::{NodeId, SectorPath};

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
