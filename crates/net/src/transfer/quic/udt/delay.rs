//! How long packets wait in the queue of the narrowest link, and how long they may. The wait is the round trip now
//! above the shortest one seen lately. Pure: it never reads a clock.

use std::{collections::VecDeque, time::Duration};

/// Tracks round trips.
#[derive(Clone, Debug, Default)]
pub(super) struct Delay {
    smoothed: Option<Duration>,
    /// Shortest round trips of the last two periods of [`FORGET_AFTER`], and when the newer began.
    shortest: Option<(Duration, Duration)>,
    period_began: Duration,
    /// Recent round trips, each shorter than all that came after it.
    recent: VecDeque<(Duration, Duration)>,
}

impl Delay {
    /// A packet took `round_trip`.
    pub(super) fn on_round_trip(&mut self, now: Duration, round_trip: Duration) {
        if round_trip.is_zero() {
            return;
        }
        let smoothed = self.smoothed.unwrap_or(round_trip);
        self.smoothed = Some(smoothed.saturating_mul(7).saturating_add(round_trip) / 8);
        let (older, newer) = self.shortest.unwrap_or((round_trip, round_trip));
        self.shortest = Some(if now.saturating_sub(self.period_began) > FORGET_AFTER {
            self.period_began = now;
            (newer, round_trip)
        } else {
            (older, newer.min(round_trip))
        });
        while self.recent.back().is_some_and(|(_, longer)| *longer >= round_trip) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, round_trip));
        let oldest = now.saturating_sub(WINDOW);
        while self.recent.front().is_some_and(|(at, _)| *at < oldest) && self.recent.len() > 1
            || self.recent.len() > RECENT_MAX
        {
            self.recent.pop_front();
        }
    }

    /// Shortest round trip seen lately.
    pub(super) fn shortest(&self) -> Option<Duration> {
        self.shortest.map(|(older, newer)| older.min(newer))
    }

    /// The usual round trip, the queue included.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// How long even the luckiest recent packet waited.
    pub(super) fn queue(&self) -> Duration {
        let least = self.recent.front().map(|(_, round_trip)| *round_trip);
        least.zip(self.shortest()).map_or(Duration::ZERO, |(least, shortest)| least.saturating_sub(shortest))
    }
}

/// The queue at which the path counts as full for a flow of so many bytes a second. It is shorter for a faster flow, so
/// that of two flows the faster yields. It is the same for all round trips, so that near and far flows share.
pub(super) fn full_at(rate: f64) -> Duration {
    let decades = (QUEUE_RATE_REFERENCE / rate.max(1.0)).log10();
    let seconds = QUEUE_AT_REFERENCE.as_secs_f64() + decades * QUEUE_PER_DECADE.as_secs_f64();
    Duration::from_secs_f64(seconds.clamp(QUEUE_MIN.as_secs_f64(), QUEUE_MAX.as_secs_f64()))
}

/// After two such periods a round trip is forgotten, so that a longer path is believed.
const FORGET_AFTER: Duration = Duration::from_secs(10);
/// The luckiest packet of this time gives the queue's length: that filters out what acknowledgements and timers add.
const WINDOW: Duration = Duration::from_millis(25);
/// Round trips kept for that.
const RECENT_MAX: usize = 256;
/// The queue at which the path counts as full for a flow of [`QUEUE_RATE_REFERENCE`].
const QUEUE_AT_REFERENCE: Duration = Duration::from_millis(5);
/// Bytes a second: 1 Gbit/s.
const QUEUE_RATE_REFERENCE: f64 = 125e6;
/// How much longer a queue a flow of a tenth of that rate tolerates: of two flows the faster yields first.
const QUEUE_PER_DECADE: Duration = Duration::from_millis(10);
/// Shorter queues come from timers and threads.
const QUEUE_MIN: Duration = Duration::from_millis(3);
/// Longer ones disturb other flows.
const QUEUE_MAX: Duration = Duration::from_millis(25);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_queue_is_what_even_the_luckiest_packet_of_late_waited() {
        let mut delay = Delay::default();
        delay.on_round_trip(MS, 100 * MS);
        assert_eq!(delay.queue(), Duration::ZERO);
        for at in 100..200_u32 {
            delay.on_round_trip(MS * at, 130 * MS + MS * (at % 5));
        }
        assert_eq!(delay.queue(), 30 * MS);
        // One that was not held up is believed at once, and no longer than the window.
        delay.on_round_trip(200 * MS, 104 * MS);
        assert_eq!(delay.queue(), 4 * MS);
        delay.on_round_trip(240 * MS, 120 * MS);
        assert_eq!(delay.queue(), 20 * MS);
    }

    #[test]
    fn a_path_that_became_longer_is_believed_after_a_while() {
        let mut delay = Delay::default();
        delay.on_round_trip(MS, 50 * MS);
        for second in 1..60 {
            delay.on_round_trip(Duration::from_secs(second), 80 * MS);
        }
        assert_eq!(delay.shortest(), Some(80 * MS));
        assert_eq!(delay.queue(), Duration::ZERO);
    }

    #[test]
    fn a_faster_flow_counts_a_path_as_full_earlier_within_bounds() {
        let full = |mbit: f64| full_at(mbit * 125e3);
        assert_eq!((full(1e6), full(1_000.0), full(0.001)), (QUEUE_MIN, QUEUE_AT_REFERENCE, QUEUE_MAX));
        assert!(full(100.0) > full(200.0));
    }

    #[test]
    fn a_round_trip_of_nothing_is_not_one() {
        let mut delay = Delay::default();
        delay.on_round_trip(MS, Duration::ZERO);
        assert_eq!(delay.shortest(), None);
    }
}
