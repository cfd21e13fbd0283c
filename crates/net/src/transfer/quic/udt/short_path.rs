//! The law for paths that are shorter than timers and threads are exact: within a site, or on one machine. There a
//! round trip is noise, and a rate would be only as good as the timers. So a window of the recent arrivals and a short
//! queue rules, and packets are sent faster than that. Pure, like [`rate_control`](super::rate_control), which asks it
//! while the path is short. It never reads a clock.

use std::time::Duration;

use super::rate_control::SYN;

/// The state of the law.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortPath {
    /// The queue that the window allows for.
    queue: Duration,
}

impl ShortPath {
    /// Allows for the longest queue at first.
    pub(super) fn new() -> Self {
        Self { queue: QUEUE_MAX }
    }

    /// Whether a path is so short.
    pub(super) fn is_short(round_trip: Duration) -> bool {
        round_trip < SHORT
    }

    /// Each [`SYN`]: `arrived` is the recent rate and `carried` the believed one, in bytes a second. Returns the new
    /// belief.
    pub(super) fn on_time(&mut self, arrived: f64, carried: f64, is_congestion: bool) -> f64 {
        if is_congestion {
            self.queue = self.queue.mul_f64(CUT);
            arrived.min(carried * DELIVERY_RATE_CUT)
        } else {
            self.queue = (self.queue + QUEUE_STEP).min(QUEUE_MAX);
            arrived.max(carried * FORGET)
        }
    }

    /// The path marked packets; returns the new belief.
    pub(super) fn on_marked(carried: f64) -> f64 {
        carried * DELIVERY_RATE_CUT
    }

    /// Bytes a second to send.
    pub(super) fn rate(carried: f64, packet_bytes: f64) -> f64 {
        (carried * PACE).max(PACKETS * packet_bytes / SYN.as_secs_f64())
    }

    /// Bytes that may be under way.
    pub(super) fn window(self, carried: f64, round_trip: Duration, packet_bytes: f64) -> f64 {
        carried * (round_trip + self.queue).as_secs_f64() + PACKETS * packet_bytes
    }
}

/// A path shorter than this is measured by arrivals, not by round trips.
const SHORT: Duration = Duration::from_millis(2);
/// The queue that a flow may keep, where there is room for it; what a loss leaves of that, and what returns each
/// [`SYN`].
const QUEUE_MAX: Duration = Duration::from_millis(4);
const CUT: f64 = 0.7;
const QUEUE_STEP: Duration = Duration::from_micros(5);
/// What is left of the believed rate where packets show that the path is full: UDT's decrease.
const DELIVERY_RATE_CUT: f64 = 8.0 / 9.0;
/// How much faster than the arrival rate packets are sent.
const PACE: f64 = 3.0;
/// What is left, after each [`SYN`], of a rate that once arrived.
const FORGET: f64 = 0.98;
/// Packets that may be under way at any rate.
const PACKETS: f64 = 64.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_shortens_the_queue_and_time_gives_it_back() {
        let mut law = ShortPath::new();
        assert_eq!(law.on_time(1e6, 1e6, true), 1e6 * DELIVERY_RATE_CUT);
        assert_eq!(law.queue, QUEUE_MAX.mul_f64(CUT));
        for _ in 0..1_000 {
            law.on_time(1e6, 1e6, false);
        }
        assert_eq!(law.queue, QUEUE_MAX);
    }

    #[test]
    fn what_arrives_is_believed_at_once_and_its_absence_slowly() {
        let mut law = ShortPath::new();
        assert_eq!(law.on_time(5e6, 1e6, false), 5e6);
        assert_eq!(law.on_time(0.0, 1e6, false), 1e6 * FORGET);
    }

    #[test]
    fn one_of_whom_nothing_is_known_may_send_some_packets() {
        assert_eq!(ShortPath::rate(0.0, 1_500.0), PACKETS * 1_500.0 / SYN.as_secs_f64());
        assert_eq!(ShortPath::new().window(0.0, Duration::ZERO, 1_500.0), PACKETS * 1_500.0);
        assert!(ShortPath::is_short(Duration::from_millis(1)) && !ShortPath::is_short(SHORT));
    }
}
