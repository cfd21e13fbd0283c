//! `job ID --logs`: what a job's functions printed, by stage and segment. Functions are users' programs: their text
//! never reaches a terminal as it is, only through what makes it safe.

use client::{Client, SegmentLog, views::LogsView};
use protocol::JobId;
use terminal::{failure::Failure, show};

use crate::arguments::Global;

/// Prints what the functions of a job have printed so far.
pub(super) async fn logs(cloud: &Client, job: JobId, global: &Global) -> Result<(), Failure> {
    let logs = cloud.job_logs(job).await?;
    if global.json {
        return show::json(&LogsView::from(&logs));
    }
    for log in &logs.segments {
        show::line(heading(log));
        log.output.text().lines().for_each(|line| show::line(format!("  {line}")));
    }
    match logs.left_out {
        0 if logs.segments.is_empty() => show::line("its functions have printed nothing"),
        0 => {}
        count => show::line(format!("{count} more segments printed something, for which there is no room")),
    }
    Ok(())
}

/// What stands above the text of a segment.
fn heading(log: &SegmentLog) -> String {
    let SegmentLog { stage, epoch, attempt, node, failed, output } = log;
    let place = match output.segment {
        Some(segment) => format!("segment {segment}"),
        None => "while the function was loaded".into(),
    };
    let run = if *epoch == 0 { String::new() } else { format!(", run {epoch}") };
    let attempt = if *attempt == 0 { String::new() } else { format!(", attempt {attempt}") };
    let end = if *failed { ", which failed" } else { "" };
    format!("stage {stage}, {place}, at {node}{run}{attempt}{end}:")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{NodeId, message::spe::SegmentOutput};

    use super::*;

    #[test]
    fn a_heading_says_where_and_whether_the_function_failed() {
        let output = SegmentOutput { segment: Some(3), ..SegmentOutput::default() };
        let node = NodeId::new("n1").unwrap();
        let mut log = SegmentLog { stage: 1, epoch: 0, attempt: 0, node, failed: false, output };
        assert_eq!(heading(&log), "stage 1, segment 3, at n1:");
        (log.epoch, log.attempt, log.failed, log.output.segment) = (2, 1, true, None);
        assert_eq!(heading(&log), "stage 1, while the function was loaded, at n1, run 2, attempt 1, which failed:");
    }
}
