//! `job ID --segments`: the history of a job's segments. It never changes the job.

use client::{AttemptEnd, AttemptRecord, Client};
use protocol::JobId;
use serde::Serialize;
use terminal::{failure::Failure, show};

use crate::arguments::Global;

/// Prints the history of a job that has ended.
pub(super) async fn segments(cloud: &Client, job: JobId, global: &Global) -> Result<(), Failure> {
    let history = cloud.job_history(job).await?;
    let views: Vec<_> = history.attempts.into_iter().map(AttemptView::from).collect();
    if global.json {
        return show::json(&views);
    }
    let rows: Vec<_> = views.into_iter().map(AttemptView::row).collect();
    let columns = [" stage", " segment", " attempt", "node", " began", " took", " bytes", "ended", "slice"];
    show::table(&columns, &rows);
    if history.left_out > 0 {
        show::line(format!("{} others ended well and sooner than these", history.left_out));
    }
    Ok(())
}

/// One attempt at a segment, or at several small ones together.
#[derive(Serialize)]
struct AttemptView {
    stage: u32,
    /// How often the whole job had been started again.
    run: u32,
    /// The first segment.
    segment: u64,
    segments: u32,
    attempt: u32,
    node: String,
    /// Since the start of the job.
    began_ms: u64,
    took_ms: u64,
    bytes: u64,
    end: &'static str,
    /// The file, or the bucket of the previous stage.
    slice: String,
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

impl AttemptView {
    fn row(self) -> Vec<String> {
        let stage = if self.run == 0 { self.stage.to_string() } else { format!("{} (run {})", self.stage, self.run) };
        // The other segments of a task need not be the next ones: they lie at the same node.
        let others = self.segments.saturating_sub(1);
        let segment = if others > 0 { format!("{} (+{others})", self.segment) } else { self.segment.to_string() };
        let seconds = |millis: u64| format!("{:.3} s", millis as f64 / 1_000.0);
        let (began, took) = (seconds(self.began_ms), seconds(self.took_ms));
        let (attempt, bytes) = (self.attempt.to_string(), show::size(self.bytes));
        vec![stage, segment, attempt, self.node, began, took, bytes, self.end.to_owned(), self.slice]
    }
}
