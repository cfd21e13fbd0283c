//! What a job does when its driver is gone and another takes its place. The new one has told a job the same, event by
//! event, up to where that was written down, and stands where the old one stood then; what the old one did after that
//! nobody knows.
//!
//! So everything that was under way is asked for again, of SPEs of its own, and no number of an attempt that the old
//! one may have used is used again: its pieces may lie in buckets, or still come, and belong to no winner. A bucket
//! that the old one sealed with winners of which the new one does not know is refused to it, and made again.
//!
//! Whoever writes down what a job is told must have done so, with all of it, before anything is asked for
//!
//! - after [`Event::DriverReplaced`](crate::Event), which takes the numbers of the old one away,
//! - of a new run: to nodes that have heard of it, older ones mean nothing any more.
//!
//! It never blames anyone: neither a task nor a node has failed.

use protocol::Now;

use super::Job;
use crate::JobAction;

impl Job {
    /// See the module.
    pub(super) fn take_over(&mut self, now: Now) {
        self.takeovers += 1;
        // They were asked of the driver that is gone.
        self.actions.clear();
        let attempts_from = self.attempts_from();
        for stage in &mut self.stages {
            stage.resume_after_takeover(attempts_from);
        }
        for (spe, node, attempt) in self.fleet.replace_all(now) {
            if let Some(attempt) = attempt
                && let Some(stage) = self.stages.get_mut(attempt.stage as usize)
            {
                stage.requeue(&self.fleet, attempt);
            }
            self.actions.push_back(JobAction::StartSpe { spe, node });
        }
    }

    /// The number of the first attempt at each task, for the present driver.
    pub(super) fn attempts_from(&self) -> u32 {
        self.takeovers.saturating_mul(ATTEMPTS_PER_DRIVER)
    }
}

/// Numbers that each driver has for the attempts at one task: far more than a task can be tried, lost and done again.
const ATTEMPTS_PER_DRIVER: u32 = 1 << 16;
