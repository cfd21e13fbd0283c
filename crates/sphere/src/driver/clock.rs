//! The time of a job: one clock from its first driver to its last, whatever machine each runs on. It stands still while
//! no requests can be sent, since all deadlines are times of this clock. A node that was asked nothing is then not
//! late, neither meanwhile nor once the clock goes on. It never reads a clock itself: each call is given the time.

use std::time::Duration;

use protocol::Now;

/// See the module. All other times are those of the monotonic clock of the driver's process.
#[derive(Clone, Copy, Debug)]
pub struct JobClock {
    /// When this driver began.
    began: Duration,
    /// How much of the job's time had passed by then.
    before: Duration,
    /// When it was stopped, while it stands still.
    stopped: Option<Duration>,
    /// How long it has stood still before.
    stood: Duration,
}

impl JobClock {
    /// Goes on now from the last time that the job was given.
    pub fn start_from(now: Now, before: Duration) -> Self {
        Self { began: now.monotonic, before, stopped: None, stood: Duration::ZERO }
    }

    /// The present in the job's time.
    pub fn at(&self, now: Now) -> Now {
        let passed = self.stopped.unwrap_or(now.monotonic).saturating_sub(self.began + self.stood);
        Now { monotonic: passed + self.before, ..now }
    }

    /// When a time of the job is reached; unknown while the clock stands still.
    pub fn due(&self, at: Duration) -> Option<Duration> {
        self.stopped.is_none().then(|| self.began + self.stood + at.saturating_sub(self.before))
    }

    /// Stands still from now on, or goes on standing still.
    pub fn stop(&mut self, now: Now) {
        self.stopped.get_or_insert(now.monotonic);
    }

    /// Goes on, where it stands still.
    pub fn resume(&mut self, now: Now) {
        if let Some(stopped) = self.stopped.take() {
            self.stood += now.monotonic.saturating_sub(stopped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Now {
        Now { monotonic: Duration::from_secs(second), ..Now::default() }
    }

    #[test]
    fn a_clock_goes_on_where_the_one_before_stood() {
        let time = JobClock::start_from(second(7), Duration::from_secs(100));
        assert_eq!(time.at(second(10)).monotonic, Duration::from_secs(103));
        assert_eq!(time.due(Duration::from_secs(103)), Some(Duration::from_secs(10)));
        assert!(time.due(Duration::from_secs(50)) <= Some(Duration::from_secs(7)), "what was due is due");
    }

    #[test]
    fn nothing_is_due_while_the_clock_stands_still_and_all_of_it_as_much_later() {
        let mut time = JobClock::start_from(second(0), Duration::from_secs(100));
        let due = Duration::from_secs(220);
        assert_eq!(time.due(due), Some(Duration::from_secs(120)));
        time.stop(second(10));
        // A further page to wait for.
        time.stop(second(300));
        assert_eq!((time.at(second(610)).monotonic, time.due(due)), (Duration::from_secs(110), None));
        time.resume(second(610));
        assert_eq!(time.at(second(610)).monotonic, Duration::from_secs(110));
        assert_eq!(time.due(due), Some(Duration::from_secs(720)));
        time.stop(second(620));
        time.resume(second(621));
        time.resume(second(621));
        assert_eq!(time.at(second(621)).monotonic, Duration::from_secs(120));
        assert_eq!(time.due(due), Some(Duration::from_secs(721)));
    }
}
