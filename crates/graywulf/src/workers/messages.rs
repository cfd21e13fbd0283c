//! What who asks and a worker say to each other beside the engine's own messages. It never sends anything.

use client::SectorPath;
use datafusion::DATAFUSION_VERSION;
use http::HeaderName;
use serde::{Deserialize, Serialize};

use crate::storage::{SliceReads, level_words};

/// What a worker read of one file for a query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkerReads {
    /// The file.
    pub(crate) path: String,
    /// How near the copy was, in words.
    pub(crate) level: String,
    /// Reads, each of which is one range of bytes.
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    /// Milliseconds that reads took, all of them together.
    pub(crate) millis: u64,
}

impl From<(SectorPath, SliceReads)> for WorkerReads {
    fn from((path, reads): (SectorPath, SliceReads)) -> Self {
        Self {
            path: path.to_string(),
            level: level_words(reads.distance).to_owned(),
            reads: reads.reads,
            bytes: reads.bytes,
            millis: reads.waited.as_millis() as u64,
        }
    }
}

/// What must be the same at both ends: plans travel in a form of the engine that has no promise between versions.
pub(super) fn version() -> String {
    format!("sector {} with DataFusion {DATAFUSION_VERSION}", env!("CARGO_PKG_VERSION"))
}

/// Where a worker says its version.
pub(super) const VERSION_PATH: &str = "/worker/version";
/// Where it says what it has read for a query.
pub(super) const READS_PATH: &str = "/worker/reads";
/// By what name a worker knows the query that a part belongs to.
pub(super) const QUERY_HEADER: HeaderName = HeaderName::from_static("x-sector-query");
