//! The clock of a job: one time from its first driver to its last, whatever machine each runs on. It stands still while
//! nothing can be asked of anyone, since all deadlines are times of this clock: who was asked for nothing is not late,
//! neither then nor as soon as it goes on.

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
    /// Where `clock` was when this one was stopped, while it stands still.
    stopped: Option<Duration>,
    /// How long it has stood still before.
    stood: Duration,
}

impl JobClock {
    /// A clock that goes on from the last time that a job was told.
    pub(super) fn start_from(before: Duration) -> Self {
        Self { clock: Clock::start(), before, stopped: None, stood: Duration::ZERO }
    }

    pub(super) fn now(&self) -> Now {
        let now = self.clock.now();
        let passed = self.stopped.unwrap_or(now.monotonic).saturating_sub(self.stood);
        Now { monotonic: passed + self.before, ..now }
    }

    /// The runtime's instant of a time of the job; none is known while the clock stands still.
    pub(super) fn instant(&self, at: Duration) -> Option<Instant> {
        self.stopped.is_none().then(|| self.clock.instant(at.saturating_sub(self.before) + self.stood))
    }

    /// Stands still from now on, or as before.
    pub(super) fn stop(&mut self) {
        self.stopped.get_or_insert(self.clock.now().monotonic);
    }

    /// Goes on, where it stands still.
    pub(super) fn go_on(&mut self) {
        if let Some(stopped) = self.stopped.take() {
            self.stood += self.clock.now().monotonic.saturating_sub(stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_goes_on_where_the_one_before_stood() {
        let clock = JobClock::start_from(Duration::from_secs(100));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now().monotonic, Duration::from_secs(103));
        assert_eq!(clock.instant(Duration::from_secs(103)), Some(Instant::now()));
        assert!(clock.instant(Duration::from_secs(50)).unwrap() < Instant::now(), "what was due is due");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_due_while_the_clock_stands_still_and_all_of_it_as_much_later() {
        let mut clock = JobClock::start_from(Duration::from_secs(100));
        let due = Duration::from_secs(220);
        for stood in [Duration::from_secs(600), Duration::from_secs(1)] {
            tokio::time::advance(Duration::from_secs(10)).await;
            let left = clock.instant(due).unwrap() - Instant::now();
            clock.stop();
            let stopped = clock.now().monotonic;
            tokio::time::advance(stood).await;
            // A further page to wait for.
            clock.stop();
            assert_eq!((clock.now().monotonic, clock.instant(due)), (stopped, None));
            clock.go_on();
            assert_eq!((clock.now().monotonic, clock.instant(due)), (stopped, Some(Instant::now() + left)));
        }
        clock.go_on();
        assert_eq!(clock.now().monotonic, Duration::from_secs(120));
    }
}
