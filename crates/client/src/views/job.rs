//! Jobs as JSON: how far they are, the history of their segments, and what their functions printed. What functions
//! printed is text that never was made safe for a terminal.

use protocol::Counters;
use serde::Serialize;

use super::rfc3339_seconds;
use crate::{AttemptEnd, AttemptRecord, JobLogs, JobRecord, SegmentLog, StageRecord};

/// A job as JSON (contract: `job`).
#[derive(Serialize)]
pub struct JobView {
    pub id: String,
    pub state: &'static str,
    pub user: String,
    pub title: String,
    /// When the master admitted it; `None` where only its own client knows it.
    pub started: Option<String>,
    pub stages: Vec<StageView>,
    pub errors: Vec<String>,
    /// Segments that were given up, in all stages.
    pub failed_segments: u64,
    pub error_slice: Option<String>,
    /// The node that drives it, where it was detached and still runs.
    pub driver: Option<String>,
}

impl From<&JobRecord> for JobView {
    fn from(record: &JobRecord) -> Self {
        // Stages that have not begun have none.
        let counters = record.counters.iter().cloned().chain(std::iter::repeat(Counters::new()));
        Self {
            id: record.job.to_string(),
            state: record.state.as_str(),
            user: record.user.to_string(),
            title: record.title.clone(),
            started: Some(record.started_unix_millis).filter(|at| *at > 0).map(rfc3339_seconds),
            stages: record
                .stages
                .iter()
                .zip(counters)
                .map(|(stage, counters)| StageView::of(stage, counters))
                .collect(),
            errors: record.errors.clone(),
            failed_segments: record.stages.iter().map(|stage| stage.failed).sum(),
            error_slice: record.error_slice.as_ref().map(ToString::to_string),
            driver: record.driver.as_ref().map(ToString::to_string),
        }
    }
}

/// One stage of a job.
#[derive(Serialize)]
pub struct StageView {
    pub segments: u64,
    pub done: u64,
    pub failed: u64,
    pub retried: u64,
    pub speculative: u64,
    pub local: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// What its functions have counted, by name.
    pub counters: Counters,
}

impl StageView {
    fn of(stage: &StageRecord, counters: Counters) -> Self {
        let StageRecord { segments, done, failed, retried, speculative, local, bytes_in, bytes_out } = *stage;
        Self { segments, done, failed, retried, speculative, local, bytes_in, bytes_out, counters }
    }
}

/// One attempt at a segment, or at several small ones together.
#[derive(Serialize)]
pub struct AttemptView {
    pub stage: u32,
    /// How often the whole job had been started again.
    pub run: u32,
    /// The first segment.
    pub segment: u64,
    pub segments: u32,
    pub attempt: u32,
    pub node: String,
    /// Since the start of the job.
    pub began_ms: u64,
    pub took_ms: u64,
    pub bytes: u64,
    pub end: &'static str,
    /// The file, or the bucket of the previous stage.
    pub slice: String,
}

impl From<AttemptRecord> for AttemptView {
    fn from(record: AttemptRecord) -> Self {
        Self {
            stage: record.stage,
            run: record.epoch,
            segment: record.segment,
            segments: record.segments,
            attempt: record.attempt,
            node: record.node.to_string(),
            began_ms: record.began_millis,
            took_ms: record.took_millis,
            bytes: record.bytes,
            end: match record.end {
                AttemptEnd::Done => "done",
                AttemptEnd::Overtaken => "overtaken",
                AttemptEnd::Failed => "failed",
                AttemptEnd::Erred => "erred",
                AttemptEnd::Stopped => "stopped",
            },
            slice: record.slice.to_string(),
        }
    }
}

/// A job's log as JSON (contract: `job --logs`).
#[derive(Serialize)]
pub struct LogsView {
    pub segments: Vec<LogView>,
    /// Segments over which something was printed, and for which there is no room.
    pub left_out: u64,
}

impl From<&JobLogs> for LogsView {
    fn from(logs: &JobLogs) -> Self {
        Self { segments: logs.segments.iter().map(LogView::from).collect(), left_out: logs.left_out }
    }
}

/// What was printed over one segment.
#[derive(Serialize)]
pub struct LogView {
    pub stage: u32,
    /// `null` for what was printed while the function was loaded.
    pub segment: Option<u64>,
    /// How often the whole job had been started again.
    pub run: u32,
    pub attempt: u32,
    pub node: String,
    pub failed: bool,
    pub text: String,
    /// Bytes in the middle of the text that are not kept.
    pub left_out_bytes: u64,
}

impl From<&SegmentLog> for LogView {
    fn from(log: &SegmentLog) -> Self {
        Self {
            stage: log.stage,
            segment: log.output.segment,
            run: log.epoch,
            attempt: log.attempt,
            node: log.node.to_string(),
            failed: log.failed,
            text: log.output.text(),
            left_out_bytes: log.output.left_out_bytes,
        }
    }
}
