//! The clock of a job: one time from its first driver to its last, whatever machine each runs on.

use std::time::Duration;

use net::clock::Clock;
use protocol::Now;
use tokio::time::Instant;

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct JobClock {
    clock: Clock,
    /// What had passed of the job when this clock was started.
    before: Duration,
}

impl JobClock {
    /// A clock that goes on from the last time that a job was told.
    pub(super) fn start_from(before: Duration) -> Self {
        Self { clock: Clock::start(), before }
    }

    pub(super) fn now(&self) -> Now {
        let now = self.clock.now();
        Now { monotonic: now.monotonic + self.before, ..now }
    }

    /// The runtime's instant of a time of the job.
    pub(super) fn instant(&self, at: Duration) -> Instant {
        self.clock.instant(at.saturating_sub(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_goes_on_where_the_one_before_stood() {
        let clock = JobClock::start_from(Duration::from_secs(100));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now().monotonic, Duration::from_secs(103));
        assert_eq!(clock.instant(Duration::from_secs(103)), Instant::now());
        assert!(clock.instant(Duration::from_secs(50)) < Instant::now(), "what was due is due");
    }
}
