//! A task as an SPE is given it, and how it ended. Serves the path *job*, door 7. It never runs anything.

use std::fs::File;

use protocol::{
    Counters, Refusal,
    message::spe::{AttemptId, FunctionFailure, SegmentOrder},
};

use crate::messages::Chunk;

/// One task for an SPE.
pub struct TaskRun {
    /// The task and the attempt at it.
    pub attempt: AttemptId,
    /// Its segments, each with a file for each of its [sources](SegmentOrder::sources). A file that is not open yet is
    /// opened when its turn comes. Offsets in a file are those of the slice; for lines, the file continues after the
    /// segment to the end of its last line.
    pub segments: Vec<(SegmentOrder, Vec<SegmentFile>)>,
    /// The scratch file for its results: writable, and empty but for [`CLEARED_BYTES`].
    pub output: File,
    /// Number of buckets of its output, at least 1.
    pub buckets: u32,
}

/// A file of a segment, open or to be opened when its turn comes. So a task of thousands of small files does not hold
/// thousands of descriptors.
pub enum SegmentFile {
    /// Open for reading.
    Open(File),
    /// Opened when it is needed.
    Later(Box<dyn FnOnce() -> Result<File, Refusal> + Send>),
}

impl From<File> for SegmentFile {
    fn from(file: File) -> Self {
        Self::Open(file)
    }
}

impl SegmentFile {
    /// A file that `open` opens when it is needed.
    pub fn opened_by(open: impl FnOnce() -> Result<File, Refusal> + Send + 'static) -> Self {
        Self::Later(Box::new(open))
    }
}

/// How a task ended.
#[derive(Debug)]
pub enum SpeOutcome {
    /// It is processed; its results are in the scratch file (not synced).
    Finished(TaskOutput),
    /// The function failed on it: must not be tried again (paper, 3.5.2).
    FunctionFailed(FunctionFailure),
    /// The process was ended while the machine had no more memory, probably because of the function: may be tried once
    /// more.
    OutOfMemory(FunctionFailure),
    /// This node could not provide its input or keep its output: may be tried elsewhere. The SPE lives.
    Refused(Refusal),
    /// The process is gone or unusable, through no fault of the function: drop it and try again.
    Died(String),
}

/// See [`SpeOutcome::Finished`].
#[derive(Debug)]
pub struct TaskOutput {
    /// Records read.
    pub records_in: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Records written.
    pub records_out: u64,
    /// Which part of the scratch file belongs to which bucket, in the order of the file, which has no gaps.
    pub chunks: Vec<Chunk>,
    /// What the function counted.
    pub counters: Counters,
}

/// Bytes that a reused scratch file may still have before its task: they stay until they are overwritten.
pub const CLEARED_BYTES: u64 = 1;
