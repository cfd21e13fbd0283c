//! What a job does when its driver is gone and another takes its place. The new driver has given a job the same events,
//! as far as they were written down. So it is in the state that the old one was in then. What the old driver did after
//! that is unknown. The takeover never blames any task or node: none has failed.

use protocol::Now;

use super::Job;
use crate::JobAction;

impl Job {
    /// Asks again for everything that was under way, of new SPEs.
    ///
    /// No attempt number that the old driver may have used is used again. Its pieces may lie in buckets, or still come,
    /// and belong to no winner. The old driver may have sealed a bucket with winners that the new one does not know.
    /// The new driver is refused that bucket, and it is made again.
    ///
    /// A driver must have written down everything that the job was told, before it asks for anything
    ///
    /// - after [`Event::DriverReplaced`](crate::Event), which takes the numbers of the old driver away,
    /// - of a new run: to nodes that know of it, older runs mean nothing any more.
    pub(super) fn take_over(&mut self, now: Now) {
        self.takeovers += 1;
        // They were asked of the old driver.
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
