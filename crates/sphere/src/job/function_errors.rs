//! What a job does when a user's function errs (Sector/Sphere paper, 3.5.2). By default it ends with that report. If
//! the plan allows for some errors, it leaves the segment out, repeats the rest of the task, and keeps the report for
//! the end. It never tries a segment again on which a function erred, and never leaves one out whose results are in
//! use.

use protocol::{
    Now, Reason, Refusal, limits,
    message::spe::{AttemptId, FunctionFailure},
};

use super::Job;
use crate::{ErrorGroup, SkippedSegment, SphereError, job::stage::ErrorOutcome};

impl Job {
    /// A function erred on a segment of an attempt's task.
    ///
    /// See the paper, 3.5.2: "the data segment will not be processed by any other SPE. Instead, an error report is sent
    /// back to the client". A function may succeed the first time and err the second, after a node was lost. That costs
    /// a new run, as for a function whose results differ the second time.
    pub(super) fn handle_function_error(&mut self, now: Now, attempt: AttemptId, error: FunctionFailure) {
        let Some(spe) = self.spe_of(attempt) else { return };
        let most = self.plan.errors_max.min(limits::FUNCTION_ERRORS_MAX) as usize;
        let record = &mut self.records[attempt.stage as usize];
        if self.skipped_segments.len() >= most {
            record.failed += 1;
            return self.end(Err(SphereError::Function(error)));
        }
        let stage = &mut self.stages[attempt.stage as usize];
        match stage.skip_segment(&self.fleet, attempt, error.segment) {
            ErrorOutcome::Skipped { segment, others: rivals } => {
                record.failed += 1;
                let first_record = segment.first_record(stage.stream());
                let (from, until) = (segment.from, segment.until);
                self.error_groups.add(attempt.stage, &error.function, &error.message, error.segment);
                self.skipped_segments.push(SkippedSegment { stage: attempt.stage, from, until, first_record, error });
                // After an error the state of its process is unknown.
                self.replace_spe(now, spe);
                for rival in rivals {
                    self.replace_spe(now, rival.spe);
                }
            }
            ErrorOutcome::Differs => {
                let why = format!(
                    "what the function made of `{}` was lost, and when it was run again it failed: {}",
                    error.path, error.message
                );
                self.begin_epoch(now, why);
            }
            // The task does not have the reported segment: which one to leave out is unknown.
            ErrorOutcome::Unknown => {
                record.failed += 1;
                self.end(Err(SphereError::Function(error)));
            }
        }
    }

    /// A machine that had no more memory ended an attempt's process. The cause is unknown, so the task is tried again.
    /// But a function that takes all memory must not take down one machine after another: the second time counts as the
    /// function's error.
    pub(super) fn handle_out_of_memory(&mut self, now: Now, attempt: AttemptId, error: FunctionFailure) {
        let Some(spe) = self.spe_of(attempt) else { return };
        if self.out_of_memory.insert((attempt.stage, attempt.task)) {
            return self.lose_spe(now, spe, Refusal::new(Reason::Unavailable, error.message));
        }
        self.handle_function_error(now, attempt, error);
    }

    /// The segments that this run has left out so far, in the order in which their errors came.
    pub fn skipped_segments(&self) -> &[SkippedSegment] {
        &self.skipped_segments
    }

    /// The same segments, those together whose errors are alike.
    pub fn error_groups(&self) -> &[ErrorGroup] {
        self.error_groups.groups()
    }
}
