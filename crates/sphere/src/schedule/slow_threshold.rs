//! After how long an attempt is so slow that another is likely to end first (Sector/Sphere paper, 3.5.2). It compares
//! with the other tasks of the stage. It never judges before one of them is done: there is nothing to compare with, and
//! a silent SPE is given up anyway.

use std::time::Duration;

/// How long the finished tasks of a stage took.
///
/// See the paper, 3.5.2. "Near the end of the computation, when there are idle SPEs but incomplete data segments, each
/// idle SPE is assigned one of the incomplete segments". That rule alone would do the last round of every stage twice.
/// So an attempt gets a rival only under two conditions. It has taken twice as long as others took for as many bytes,
/// and it is not about to end either.
#[derive(Debug, Default)]
pub(crate) struct SlowThreshold {
    tasks: u64,
    bytes: u64,
    time: Duration,
}

impl SlowThreshold {
    /// A task of so many bytes took so long.
    pub(crate) fn note(&mut self, bytes: u64, time: Duration) {
        self.tasks += 1;
        self.bytes += bytes;
        self.time += time;
    }

    /// How long a task of so many bytes takes; `None` while no task is done.
    pub(crate) fn expected(&self, bytes: u64) -> Option<Duration> {
        if self.tasks == 0 {
            return None;
        }
        // Each task costs its bytes and a fixed part, represented by one more byte: tasks may be empty.
        let share = (bytes + 1) as f64 / (self.bytes + self.tasks) as f64;
        Some(Duration::try_from_secs_f64(self.time.as_secs_f64() * share).unwrap_or(Duration::MAX))
    }

    /// After how long an attempt is slow at a task of `bytes` bytes, of which it has read `read` and reads no more.
    /// Twice the expected time has then passed. At the attempt's rate, the rest would take as long as doing all of it
    /// elsewhere.
    pub(crate) fn slow_after(&self, bytes: u64, read: u64) -> Option<Duration> {
        let expected = self.expected(bytes)?;
        let left = bytes.saturating_sub(read).max(1);
        let at_its_rate = expected.as_secs_f64() * (read as f64 / left as f64);
        let at_its_rate = Duration::try_from_secs_f64(at_its_rate).unwrap_or(Duration::MAX);
        Some(SLOW_MIN.max(expected.saturating_mul(2)).max(at_its_rate))
    }
}

/// No attempt counts as slow before this: a rival costs a start of an SPE and a fetch of its input.
const SLOW_MIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn threshold() -> SlowThreshold {
        let mut threshold = SlowThreshold::default();
        threshold.note(999, seconds(10));
        threshold.note(999, seconds(10));
        threshold
    }

    #[test]
    fn nothing_is_slow_before_a_task_is_done() {
        assert_eq!(SlowThreshold::default().slow_after(100, 0), None);
    }

    #[test]
    fn an_attempt_that_stands_still_is_slow_after_twice_the_time_of_others() {
        assert_eq!(threshold().slow_after(999, 0), Some(seconds(20)));
        assert_eq!(threshold().slow_after(1_999, 0), Some(seconds(40)));
        assert_eq!(threshold().slow_after(0, 0), Some(SLOW_MIN), "an empty one ends soon");
    }

    #[test]
    fn an_attempt_that_is_nearly_through_is_left_alone() {
        assert!(threshold().slow_after(999, 900).unwrap() > seconds(90));
        assert!(threshold().slow_after(999, 5_000).unwrap() > seconds(10_000), "it reads beyond its end");
    }
}
