//! How long to wait for an acknowledgement: the smoothed round trip of RFC 6298 with Karn's rule. It never decides
//! anything but when a fragment is sent again.

use std::time::Duration;

use super::{ACKNOWLEDGEMENT_DELAY_MAX, RETRANSMISSION_TIME_INITIAL, RETRANSMISSION_TIME_MAX, RETRANSMISSION_TIME_MIN};

/// The measured round trip of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrip {
    /// Smoothed round trip and its mean deviation, once measured.
    smoothed: Option<(Duration, Duration)>,
    /// How often the time was doubled since the last clean measurement.
    doublings: u32,
}

impl RoundTrip {
    /// Takes a measurement from a fragment that was sent only once (Karn: otherwise it is unknown which transmission
    /// was acknowledged). Only such a measurement ends the doubling; otherwise a round trip that suddenly grew is never
    /// measured.
    pub(super) fn measured(&mut self, round_trip: Duration) {
        self.doublings = 0;
        self.smoothed = Some(match self.smoothed {
            None => (round_trip, round_trip / 2),
            Some((smoothed, deviation)) => {
                let error = smoothed.abs_diff(round_trip);
                ((smoothed * 7 + round_trip) / 8, (deviation * 3 + error) / 4)
            }
        });
    }

    /// Doubles the waiting time: an acknowledgement did not come.
    pub(super) fn back_off(&mut self) {
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
    }

    /// Whether an acknowledgement has been missing since the last clean measurement.
    pub(super) fn is_backed_off(&self) -> bool {
        self.doublings > 0
    }

    /// How long to wait now.
    pub(super) fn retransmission_time(&self) -> Duration {
        (self.estimate() * (1 << self.doublings)).min(RETRANSMISSION_TIME_MAX)
    }

    /// The longest time that an acknowledgement takes by the measurements, without the doubling.
    pub(super) fn estimate(&self) -> Duration {
        let Some((smoothed, deviation)) = self.smoothed else {
            return RETRANSMISSION_TIME_INITIAL;
        };
        // The deviation of a steady round trip tends to zero: an eighth of the round trip is kept for surprises.
        let time = smoothed + (deviation * 4).max(smoothed / 8) + ACKNOWLEDGEMENT_DELAY_MAX;
        time.clamp(RETRANSMISSION_TIME_MIN, RETRANSMISSION_TIME_MAX)
    }
}

/// Doublings that take the shortest time beyond the longest.
const DOUBLINGS_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_steady_round_trip_is_waited_for_a_little_longer_than_it_takes() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.retransmission_time(), RETRANSMISSION_TIME_INITIAL);
        for _ in 0..100 {
            round_trip.measured(ms(100));
        }
        let time = round_trip.retransmission_time();
        assert!(time >= ms(100) && time < ms(120), "{time:?}");
    }

    #[test]
    fn each_loss_doubles_the_time_up_to_its_limit_and_a_measurement_ends_it() {
        let mut round_trip = RoundTrip::default();
        round_trip.measured(ms(1));
        assert_eq!(round_trip.retransmission_time(), ms(15));
        for expected in [30, 60, 120, 240, 480, 960, 1_920, 2_000, 2_000] {
            round_trip.back_off();
            assert_eq!(round_trip.retransmission_time(), ms(expected));
        }
        assert_eq!(round_trip.estimate(), ms(15));
        round_trip.measured(ms(1));
        assert_eq!(round_trip.retransmission_time(), ms(15));
    }
}
