//! How one disk of a node is, and how far the scrub of it: told by a node in its status, shown to people by the master.

use serde::{Deserialize, Serialize};

use crate::SliceId;

/// One disk of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Its data folder.
    pub folder: String,
    /// How it is.
    pub state: DiskState,
    /// Bytes its slices take.
    pub used_bytes: u64,
    /// Bytes it can still take, above what is kept free.
    pub free_bytes: u64,
    /// What is wrong, where something is.
    pub why: String,
    /// How far its scrub is; `None` where it is not scrubbed.
    pub scrub: Option<ScrubStatus>,
}

/// How a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskState {
    /// It works.
    Ok,
    /// It has failed: nothing of it is served, and nothing is written to it until its node is started again.
    Failed,
    /// It was not there when its node started.
    Missing,
}

/// How far the scrub of a disk is: a pass reads every slice again, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// The last slice that was read in this pass.
    pub position: Option<SliceId>,
    /// When this pass began, in milliseconds since the Unix epoch; `None` between two passes.
    pub began_unix_millis: Option<u64>,
    /// When the last complete pass began.
    pub last_began_unix_millis: Option<u64>,
    /// When the last complete pass ended.
    pub finished_unix_millis: Option<u64>,
    /// Bytes read in this pass.
    pub checked_bytes: u64,
    /// Bytes there are to read.
    pub total_bytes: u64,
    /// Damaged slices that all passes found.
    pub corrupt: u64,
}
