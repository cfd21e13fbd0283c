//! What a job does when a user's function errs (Sector/Sphere paper, 3.5.2: "the data segment will not be processed by
//! any other SPE. Instead, an error report is sent back to the client"). By default the job ends with that report.
//! Where the plan bears some errors, the segment is left out, the rest of its task is done again, and the report is
//! kept for the end.
//!
//! It never tries a segment again on which a function erred, and never leaves one out whose results are in use: a
//! function that went well the first time and errs the second, after a node was lost, costs a new run like one that
//! left something else.

use protocol::{
    Now, Refusal, Status, limits,
    message::spe::{AttemptId, FunctionFailure},
};

use super::Job;
use crate::{SkippedSegment, SphereError, stage::ErrorOutcome};

impl Job {
    /// A function erred on a segment of an attempt's task.
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
                self.skipped_segments.push(SkippedSegment { stage: attempt.stage, from, until, first_record, error });
                // After an error nobody knows what is in its process.
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
            // It names a segment that its task does not have: nobody knows which is to be left out.
            ErrorOutcome::Unknown => {
                record.failed += 1;
                self.end(Err(SphereError::Function(error)));
            }
        }
    }

    /// A machine that had no more memory ended an attempt's process. Whose fault that was nobody knows, so that the
    /// task is tried again; but the next machine is not to be taken down as well by one that takes all there is. So the
    /// second time is the function's error.
    pub(super) fn handle_out_of_memory(&mut self, now: Now, attempt: AttemptId, error: FunctionFailure) {
        let Some(spe) = self.spe_of(attempt) else { return };
        if self.out_of_memory.insert((attempt.stage, attempt.task)) {
            return self.lose_spe(now, spe, Refusal::new(Status::Unavailable, error.message));
        }
        self.handle_function_error(now, attempt, error);
    }

    /// The segments that this run has left out so far, in the order in which their errors came.
    pub fn skipped_segments(&self) -> &[SkippedSegment] {
        &self.skipped_segments
    }
}
