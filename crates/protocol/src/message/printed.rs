//! What functions print, by segment. Serves the answers of SPEs and the logs of jobs. It never says what is kept.

use serde::{Deserialize, Serialize};

use crate::{limits, wire::few::few};

/// What a function wrote to standard output and standard error, both together, while it was loaded or did a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrintedOutput {
    /// By segment, in their order; those over which it printed nothing are not in it.
    #[serde(deserialize_with = "few::<{ limits::LOG_SEGMENTS_MAX }, _, _>")]
    pub segments: Vec<SegmentOutput>,
    /// Segments over which it printed too, and for which there was no more room.
    pub left_out: u64,
}

/// What a function printed over one segment, as text: at most
/// [`SEGMENT_LOG_BYTES_MAX`](crate::limits::SEGMENT_LOG_BYTES_MAX) bytes, the first and the last of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentOutput {
    /// The segment's number in the stage's input; `None` for what was printed while the function was loaded.
    pub segment: Option<u64>,
    /// All of it, or its beginning.
    pub first: String,
    /// Bytes between the two that are not kept.
    pub left_out_bytes: u64,
    /// Its end, if there is anything between.
    pub last: String,
}

impl SegmentOutput {
    /// Its text, with a line in place of what is not kept.
    pub fn text(&self) -> String {
        let Self { first, left_out_bytes, last, .. } = self;
        if *left_out_bytes == 0 {
            return format!("{first}{last}");
        }
        format!("{first}\n[{left_out_bytes} bytes are not kept]\n{last}")
    }
}
