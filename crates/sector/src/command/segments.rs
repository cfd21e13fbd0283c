//! `job ID --segments`: the history of a job's segments. It never changes the job.

use client::{Client, views::AttemptView};
use protocol::JobId;
use terminal::{failure::Failure, show};

use crate::arguments::Global;

/// Prints the history of a job that has ended.
pub(super) async fn segments(cloud: &Client, job: JobId, global: &Global) -> Result<(), Failure> {
    let history = cloud.job_history(job).await?;
    let views: Vec<_> = history.attempts.into_iter().map(AttemptView::from).collect();
    if global.json {
        return show::json(&views);
    }
    let rows: Vec<_> = views.into_iter().map(row).collect();
    let columns = [" stage", " segment", " attempt", "node", " began", " took", " bytes", "ended", "slice"];
    show::table(&columns, &rows);
    if history.left_out > 0 {
        show::line(format!("{} others ended well and sooner than these", history.left_out));
    }
    Ok(())
}

/// An attempt for people.
fn row(view: AttemptView) -> Vec<String> {
    let stage = if view.run == 0 { view.stage.to_string() } else { format!("{} (run {})", view.stage, view.run) };
    // The other segments of a task need not be the next ones: they lie at the same node.
    let others = view.segments.saturating_sub(1);
    let segment = if others > 0 { format!("{} (+{others})", view.segment) } else { view.segment.to_string() };
    let seconds = |millis: u64| format!("{:.3} s", millis as f64 / 1_000.0);
    let (began, took) = (seconds(view.began_ms), seconds(view.took_ms));
    let (attempt, bytes) = (view.attempt.to_string(), show::size(view.bytes));
    vec![stage, segment, attempt, view.node, began, took, bytes, view.end.to_owned(), view.slice]
}
