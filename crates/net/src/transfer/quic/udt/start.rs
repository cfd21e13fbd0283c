//! The start, while the rate is unknown: a window grows threefold each round trip until the path is full. Where an
//! earlier connection knew the path, half of its rate is tried at once, and the rest when that has arrived. Pure, like
//! [`rate_control`](super::rate_control), which tells it what arrives and asks it until the path is full. It never
//! reads a clock.

use std::time::Duration;

use super::rate_control::{PathEstimate, SYN};

/// The state of the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    window: f64,
    /// The window is not reduced below this.
    granted: f64,
    /// Best sample of a round trip, and how many later ones were no better.
    best: f64,
    rounds_without_growth: u32,
    /// Bytes a second that an earlier connection knew.
    goal: Option<f64>,
}

impl Start {
    /// Begins with a few packets.
    pub(super) fn new(packet_bytes: f64) -> Self {
        Self::from(0.0, packet_bytes)
    }

    /// Continues with a window that the path has shown to hold.
    pub(super) fn from(window: f64, packet_bytes: f64) -> Self {
        let window = window.max(PACKETS * packet_bytes);
        Self { window, granted: window, best: 0.0, rounds_without_growth: 0, goal: None }
    }

    /// Bytes that may be under way.
    pub(super) fn window(self) -> f64 {
        self.window
    }

    /// Bytes a second to send.
    pub(super) fn rate(self, round_trip: Duration) -> f64 {
        PACE * self.window / round_trip.as_secs_f64()
    }

    /// Bytes arrived.
    pub(super) fn on_acknowledged(&mut self, bytes: u64) {
        self.window += bytes as f64 * (FACTOR - 1.0);
    }

    /// Takes over what an earlier connection learned, if it is the same path.
    pub(super) fn resume(&mut self, learned: PathEstimate, round_trip: Duration) {
        let same = learned.round_trip / 2..=learned.round_trip.saturating_mul(2) + SYN;
        let rate = learned.rate_bytes_per_second as f64;
        // A rate below the one that a new path is tried with was learned in a bad moment.
        let first = self.window / round_trip.as_secs_f64();
        if self.goal.is_none() && same.contains(&round_trip) && rate > first {
            self.window = self.window.max(rate * round_trip.as_secs_f64() * RESUME_SHARE / PACE);
            self.granted = self.window;
            self.goal = Some(rate);
        }
    }

    /// The time over which arrivals are judged, on a path of this round trip.
    pub(super) fn looks_back(round_trip: Duration) -> Duration {
        (round_trip / 8).max(LATELY_MIN)
    }

    /// Limits the window. Where the sender has little to send, the limit follows what is used (`used_bytes` under way,
    /// and `path_bytes` at least). It also follows the recent arrival rate `of_late`, plus `spare_bytes`.
    pub(super) fn hold(
        &mut self,
        used_bytes: Option<f64>,
        path_bytes: f64,
        of_late: f64,
        round_trip: Duration,
        spare_bytes: f64,
    ) {
        if let Some(used) = used_bytes {
            // An unused window does not grow.
            self.window = self.window.min((used * FACTOR).max(path_bytes).max(self.granted));
        }
        if self.goal.is_none() {
            let most = of_late * round_trip.as_secs_f64() * WINDOWS + spare_bytes;
            self.window = self.window.min(most.max(self.granted));
        }
    }

    /// What an earlier connection knew, once the path carries it again: more than a window of it arrived.
    pub(super) fn reached(self, round_trip: Duration) -> Option<f64> {
        self.goal.filter(|goal| self.window * PACE >= goal * round_trip.as_secs_f64())
    }

    /// A round trip ends with this best sample. Returns whether the path is full: several round trips were no better.
    pub(super) fn end_round(&mut self, best: f64, is_idle: bool) -> bool {
        if best > self.best * GROWTH {
            self.best = best;
            self.rounds_without_growth = 0;
        } else if !is_idle {
            self.rounds_without_growth += 1;
        }
        self.rounds_without_growth >= ROUNDS_WITHOUT_GROWTH
    }
}

/// First window.
const PACKETS: f64 = 64.0;
/// Factor by which the window grows each round trip.
const FACTOR: f64 = 3.0;
/// A window that grows threefold each round trip is sent at 3/2 ln 3 windows a round trip.
const PACE: f64 = 1.65;
/// Most that is ever under way, as a multiple of what the path holds: a queue of one round trip then does not overflow.
const WINDOWS: f64 = 1.85;
/// Shortest time over which arrivals are judged.
const LATELY_MIN: Duration = Duration::from_millis(5);
/// Growth in a round that shows that the path is not full.
const GROWTH: f64 = 1.25;
/// After so many round trips without it, the path is full.
const ROUNDS_WITHOUT_GROWTH: u32 = 3;
/// Share of a learned rate that is tried at once.
const RESUME_SHARE: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET_BYTES: f64 = 1_500.0;
    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn resumed(rate_bytes_per_second: u64, round_trip: Duration) -> Start {
        let mut start = Start::new(PACKET_BYTES);
        start.resume(PathEstimate { rate_bytes_per_second, round_trip }, ROUND_TRIP);
        start
    }

    #[test]
    fn what_was_learned_is_tried_at_half_and_reached_when_that_arrived() {
        let mut start = resumed(25_000_000, ROUND_TRIP);
        assert_eq!(start.rate(ROUND_TRIP), 12_500_000.0);
        assert_eq!(start.reached(ROUND_TRIP), None);
        start.on_acknowledged(1_250_000);
        assert_eq!(start.reached(ROUND_TRIP), Some(25_000_000.0));
    }

    #[test]
    fn what_was_learned_of_another_path_or_in_a_bad_moment_is_not_tried() {
        for start in [resumed(25_000_000, ROUND_TRIP * 3), resumed(60_000, ROUND_TRIP)] {
            assert_eq!((start.window(), start.goal), (PACKETS * PACKET_BYTES, None));
        }
    }

    #[test]
    fn a_window_that_is_not_made_use_of_does_not_grow() {
        let mut start = Start::new(PACKET_BYTES);
        start.on_acknowledged(1_000_000);
        start.hold(Some(50_000.0), 0.0, 1e9, ROUND_TRIP, 0.0);
        assert_eq!(start.window(), 150_000.0);
    }

    #[test]
    fn three_rounds_that_bring_no_more_are_a_full_path_unless_little_was_sent() {
        let mut start = Start::new(PACKET_BYTES);
        assert!(!start.end_round(1e6, false));
        assert!((0..10).all(|_| !start.end_round(1e6, true)));
        assert!(!start.end_round(1.1e6, false) && !start.end_round(1.1e6, false));
        assert!(start.end_round(1.1e6, false));
    }
}
