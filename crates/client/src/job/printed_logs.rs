//! What a job's functions print, on its way to the master, which keeps it for `job --logs`. It travels with the reports,
//! so that it can be read while the job runs. It is not in a detached job's journal, where it would be read by each
//! further driver and by nobody else. It never holds more than a job's log may have.

use std::collections::BTreeSet;

use protocol::{
    NodeId,
    message::{
        history::{JobLogs, SegmentLog},
        spe::{AttemptId, PrintedOutput},
    },
};

/// What was printed and not yet told.
#[derive(Default)]
pub(super) struct PrintedLogs {
    new: Vec<SegmentLog>,
    /// What was told, or is about to be.
    taken_bytes: usize,
    /// The stages whose function printed something while it was loaded: at each SPE the same, most likely.
    loaded: BTreeSet<u32>,
    left_out: u64,
    told_left_out: u64,
}

/// How the load or the task ended over which a function printed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrintedBefore {
    Success,
    /// The function could not be loaded.
    RefusedLoad,
    /// The function failed on this segment.
    Failure(u64),
}

impl PrintedLogs {
    /// Takes what an attempt printed at a node.
    pub(super) fn add(&mut self, attempt: AttemptId, node: &NodeId, end: PrintedBefore, printed: PrintedOutput) {
        self.left_out = self.left_out.saturating_add(printed.left_out);
        for output in printed.segments {
            let failed = match output.segment {
                None => end == PrintedBefore::RefusedLoad,
                Some(segment) => end == PrintedBefore::Failure(segment),
            };
            if output.segment.is_none() && !failed && !self.loaded.insert(attempt.stage) {
                continue;
            }
            let AttemptId { stage, epoch, attempt, .. } = attempt;
            let log = SegmentLog { stage, epoch, attempt, node: node.clone(), failed, output };
            if log.fits(self.taken_bytes) {
                self.taken_bytes += log.bytes();
                self.new.push(log);
            } else {
                self.left_out = self.left_out.saturating_add(1);
            }
        }
    }

    /// What the master does not have yet.
    pub(super) fn take(&mut self) -> Option<JobLogs> {
        if self.new.is_empty() && self.left_out == self.told_left_out {
            return None;
        }
        self.told_left_out = self.left_out;
        Some(JobLogs { segments: std::mem::take(&mut self.new), left_out: self.left_out })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{JobId, limits, message::spe::SegmentOutput};

    use super::*;

    fn attempt(attempt: u32) -> AttemptId {
        AttemptId { job: JobId(1), stage: 2, epoch: 0, task: 5, attempt }
    }

    fn printed(segments: &[(Option<u64>, &str)]) -> PrintedOutput {
        let output = |(segment, text): &(Option<u64>, &str)| SegmentOutput {
            segment: *segment,
            first: (*text).into(),
            ..SegmentOutput::default()
        };
        PrintedOutput { segments: segments.iter().map(output).collect(), left_out: 0 }
    }

    #[test]
    fn each_log_is_told_once_with_its_attempt_and_where_the_function_failed() {
        let (mut logs, node) = (PrintedLogs::default(), NodeId::new("n1").unwrap());
        assert_eq!(logs.take(), None);
        logs.add(attempt(1), &node, PrintedBefore::Failure(8), printed(&[(None, "i"), (Some(7), "a"), (Some(8), "b")]));
        // Another SPE loads the same.
        logs.add(attempt(1), &node, PrintedBefore::Success, printed(&[(None, "i")]));
        let told = logs.take().unwrap();
        let found: Vec<_> = told.segments.iter().map(|log| (log.key(), log.attempt, log.failed)).collect();
        assert_eq!(found, [((2, None), 1, false), ((2, Some(7)), 1, false), ((2, Some(8)), 1, true)]);
        assert_eq!((told.left_out, logs.take()), (0, None));
        logs.add(attempt(1), &node, PrintedBefore::RefusedLoad, printed(&[(None, "why")]));
        assert!(logs.take().unwrap().segments[0].failed);
    }

    #[test]
    fn what_is_printed_without_end_is_left_out_but_for_what_precedes_a_failure() {
        let (mut logs, node) = (PrintedLogs::default(), NodeId::new("n1").unwrap());
        let long = "x".repeat(limits::SEGMENT_LOG_BYTES_MAX);
        for segment in 0..1_000 {
            logs.add(attempt(0), &node, PrintedBefore::Success, printed(&[(Some(segment), &long)]));
        }
        let told = logs.take().unwrap();
        assert!(told.segments.iter().map(SegmentLog::bytes).sum::<usize>() <= limits::JOB_LOG_BYTES_MAX);
        assert_eq!(told.segments.len() as u64 + told.left_out, 1_000);
        logs.add(attempt(0), &node, PrintedBefore::Failure(1_000), printed(&[(Some(1_000), &long)]));
        assert_eq!(logs.take().unwrap().segments.len(), 1);
        logs.add(attempt(0), &node, PrintedBefore::Success, printed(&[(Some(1_001), &long)]));
        let more = logs.take().unwrap();
        assert_eq!((more.segments.len(), more.left_out), (0, told.left_out + 1), "how much is missing is told too");
    }
}
