//! How fast packets arrive at the other end, judged from acknowledgements. UDT's receiver measures this and reports it.
//! QUIC's acknowledgements carry no times, so the sender measures. Each packet is remembered with the bytes delivered
//! when it left. On its acknowledgement the bytes delivered since, divided by the time that took, are the path's rate.
//! That is never more than the rate at which they were sent. It never reads a clock.

use std::{collections::VecDeque, time::Duration};

/// Tracks what was sent and what arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivery {
    delivered_bytes: u64,
    delivered_at: Duration,
    /// When the packet left that was acknowledged last.
    acknowledged_sent_at: Duration,
    in_flight_bytes: u64,
    /// While fewer bytes than this were delivered, the sender had at times nothing to send.
    idle_until_bytes: u64,
    departures: VecDeque<Departure>,
    /// Recent totals of delivered bytes, each with its time.
    arrivals: VecDeque<(Duration, u64)>,
}

/// The state in which a packet left.
#[derive(Clone, Copy, Debug)]
struct Departure {
    sent_at: Duration,
    delivered_bytes: u64,
    delivered_at: Duration,
    acknowledged_sent_at: Duration,
    is_idle: bool,
}

/// One measurement of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Bytes a second that arrived.
    pub(super) rate_bytes_per_second: f64,
    /// The sender had at times nothing to send, so the path may carry more.
    pub(super) is_idle: bool,
}

impl Delivery {
    /// A packet leaves.
    pub(super) fn on_sent(&mut self, now: Duration, bytes: u64) {
        if self.in_flight_bytes == 0 {
            self.delivered_at = now;
            self.acknowledged_sent_at = now;
        }
        self.in_flight_bytes = self.in_flight_bytes.saturating_add(bytes);
        let departure = Departure {
            sent_at: now,
            delivered_bytes: self.delivered_bytes,
            delivered_at: self.delivered_at,
            acknowledged_sent_at: self.acknowledged_sent_at,
            is_idle: self.delivered_bytes < self.idle_until_bytes,
        };
        match self.departures.back() {
            // Packets that leave at the same time leave in the same state; a clock that goes back is not believed.
            Some(last) if last.sent_at >= now => {}
            Some(_) | None => self.departures.push_back(departure),
        }
        if self.departures.len() > DEPARTURES_MAX {
            self.departures.pop_front();
        }
    }

    /// A packet of `bytes` that left at `sent_at` has arrived.
    pub(super) fn on_acknowledged(&mut self, bytes: u64) {
        self.delivered_bytes = self.delivered_bytes.saturating_add(bytes);
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes);
    }

    /// Packets of `bytes` did not arrive.
    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes);
    }

    /// All packets of an acknowledgement were told, the newest of which left at `newest_sent_at`. `in_flight_bytes` is
    /// the connection's own count. `is_idle` says that it had nothing more to send.
    pub(super) fn on_batch(
        &mut self,
        now: Duration,
        newest_sent_at: Duration,
        in_flight_bytes: u64,
        is_idle: bool,
    ) -> Option<Sample> {
        self.in_flight_bytes = in_flight_bytes;
        self.arrivals.push_back((now, self.delivered_bytes));
        if self.arrivals.len() > ARRIVALS_MAX {
            self.arrivals.pop_front();
        }
        if is_idle {
            self.idle_until_bytes = self.delivered_bytes.saturating_add(in_flight_bytes).max(1);
        }
        let index = self.departures.partition_point(|departure| departure.sent_at <= newest_sent_at).checked_sub(1)?;
        let departure = *self.departures.get(index)?;
        // Older departures are asked for again only by packets that were overtaken, which say nothing new.
        self.departures.drain(..index);
        self.acknowledged_sent_at = self.acknowledged_sent_at.max(newest_sent_at);
        self.delivered_at = now;
        let sending = newest_sent_at.saturating_sub(departure.acknowledged_sent_at);
        let arriving = now.saturating_sub(departure.delivered_at);
        let seconds = sending.max(arriving).as_secs_f64();
        if seconds < SAMPLE_SECONDS_MIN {
            return None;
        }
        let bytes = self.delivered_bytes - departure.delivered_bytes;
        Some(Sample { rate_bytes_per_second: bytes as f64 / seconds, is_idle: departure.is_idle || is_idle })
    }

    /// Bytes a second that arrived in the `time` until now. That is known sooner than a sample, which takes a round
    /// trip. But it exceeds the path's rate where acknowledgements came late and all at once.
    pub(super) fn recent_rate(&self, time: Duration) -> f64 {
        let Some((now, bytes)) = self.arrivals.back() else { return 0.0 };
        let since = now.saturating_sub(time);
        let earlier = self.arrivals.partition_point(|(at, _)| *at <= since).checked_sub(1);
        let Some((at, before)) = earlier.and_then(|index| self.arrivals.get(index)) else { return 0.0 };
        (bytes - before) as f64 / now.saturating_sub(*at).as_secs_f64().max(SAMPLE_SECONDS_MIN)
    }

    /// Bytes under way.
    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }
}

/// Bursts that are remembered while under way. Bursts leave about a millisecond apart, so these cover more than the
/// longest round trips. Where it is exceeded the oldest are forgotten, and no sample is made of them.
const DEPARTURES_MAX: usize = 32_768;

/// Acknowledgements that are remembered.
const ARRIVALS_MAX: usize = 1_024;

/// A shorter measurement is only noise of the clock.
const SAMPLE_SECONDS_MIN: f64 = 0.000_05;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Sends a packet of 1,000 bytes each millisecond for 200 of them. They arrive 50 ms later, and so do the
    /// acknowledgements.
    fn steady(delivery: &mut Delivery) -> Option<Sample> {
        let mut last = None;
        for at in 0..250_u32 {
            if at < 200 {
                delivery.on_sent(MS * at, 1_000);
            }
            if at >= 50 {
                delivery.on_acknowledged(1_000);
                last = delivery.on_batch(MS * at, MS * (at - 50), delivery.in_flight_bytes(), false);
            }
        }
        last
    }

    #[test]
    fn what_arrives_steadily_is_measured_exactly() {
        let sample = steady(&mut Delivery::default());
        assert!(sample.is_some_and(|sample| (sample.rate_bytes_per_second - 1e6).abs() < 1.0), "{sample:?}");
    }

    #[test]
    fn acknowledgements_that_come_all_at_once_do_not_make_the_path_faster() {
        let mut delivery = Delivery::default();
        for at in 0..100_u32 {
            delivery.on_sent(MS * at, 1_000);
        }
        let mut best = 0.0_f64;
        for packet in 0..100_u32 {
            delivery.on_acknowledged(1_000);
            let sample = delivery.on_batch(MS * 150, MS * packet, delivery.in_flight_bytes(), false);
            best = best.max(sample.map_or(0.0, |sample| sample.rate_bytes_per_second));
        }
        assert!(best <= 1.02e6, "{best}");
    }

    #[test]
    fn a_sender_with_nothing_to_send_marks_what_is_on_its_way_and_no_more() {
        let mut delivery = Delivery::default();
        let mut send_and_hear = |sends_at: u32, of: u32, in_flight_bytes: u64, is_idle: bool| {
            delivery.on_sent(MS * sends_at, 1_000);
            delivery.on_acknowledged(1_000);
            let sample = delivery.on_batch(MS * (sends_at + 1), MS * of, in_flight_bytes, is_idle);
            sample.map(|sample| sample.is_idle)
        };
        send_and_hear(0, 0, 1_000, false);
        assert_eq!(send_and_hear(50, 0, 1_000, true), Some(true));
        // First packets that left while the sender had nothing more, and then packets that left afterwards.
        assert_eq!(send_and_hear(60, 60, 1_000, false), Some(true));
        assert_eq!(send_and_hear(120, 120, 1_000, false), Some(false));
    }

    #[test]
    fn no_more_departures_are_remembered_than_the_limit() {
        let mut delivery = Delivery::default();
        for at in 0..(DEPARTURES_MAX as u32 + 100) {
            delivery.on_sent(MS * at, 1_000);
        }
        assert_eq!(delivery.departures.len(), DEPARTURES_MAX);
    }
}
