//! When the machine of one end runs it, and when it has no time: a busy machine leaves a thread waiting.

use std::time::Duration;

use fastrand::Rng;

/// The machine of the senders, or of the receivers.
#[derive(Default)]
pub(crate) struct Machine {
    /// One time in which nothing runs.
    stalled: Option<(Duration, Duration)>,
    busy: Option<Busy>,
}

/// Short times in which nothing runs, from a seed.
struct Busy {
    chance: Rng,
    from: Duration,
    until: Duration,
}

impl Machine {
    /// Nothing runs between these two times.
    pub(crate) fn stall(&mut self, from: Duration, until: Duration) {
        self.stalled = Some((from, until));
    }

    /// From now on some twenty times a second nothing runs for 3 to 10 ms; or no longer.
    pub(crate) fn keep_busy(&mut self, seed: Option<u64>) {
        self.busy = seed.map(|seed| Busy { chance: Rng::with_seed(seed), from: Duration::ZERO, until: Duration::ZERO });
    }

    /// When what is due at `at` is done.
    pub(crate) fn runs_at(&mut self, at: Duration) -> Duration {
        if let Some((from, until)) = self.stalled
            && (from..until).contains(&at)
        {
            return until;
        }
        self.busy.as_mut().map_or(at, |busy| busy.runs_at(at))
    }
}

impl Busy {
    fn runs_at(&mut self, at: Duration) -> Duration {
        while self.until <= at {
            self.from = self.until + Duration::from_micros(self.chance.u64(10_000..80_000));
            self.until = self.from + Duration::from_micros(self.chance.u64(3_000..10_000));
        }
        if at < self.from { at } else { self.until }
    }
}
