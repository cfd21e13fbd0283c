//! How many bytes of fragments may be under way: additive increase, multiplicative decrease (RFC 5681). Messages are
//! small beside bulk data. But a listing's page in one burst would overflow a socket buffer, and a hundred nodes'
//! inventories at once the master's. Fifty small messages share a datagram. A window counted in messages would after a
//! loss hold a fraction of one datagram a round trip, and others' messages would wait for seconds. So it counts bytes
//! and never messages.

use super::{FRAGMENT_BYTES_MAX, WINDOW_FRAGMENTS, frame::FRAGMENT_HEAD_BYTES};

/// The congestion window of one session.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    window_bytes: usize,
    /// Below it the window doubles with each round trip; above it the window grows by one full fragment.
    threshold_bytes: usize,
    /// Bytes acknowledged since the window last grew by one fragment.
    acknowledged_bytes: usize,
    /// Losses of packets before this one belong to a reduction already made.
    reduced_before_packet: u64,
}

impl Congestion {
    pub(super) fn new() -> Self {
        Self {
            window_bytes: WINDOW_INITIAL_BYTES,
            threshold_bytes: WINDOW_MAX_BYTES,
            acknowledged_bytes: 0,
            reduced_before_packet: 0,
        }
    }

    /// Bytes of fragments, their heads included, that may be under way.
    pub(super) fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// So many bytes of fragments were acknowledged for the first time.
    pub(super) fn acknowledged(&mut self, bytes: usize) {
        if self.window_bytes < self.threshold_bytes {
            self.window_bytes += bytes;
        } else {
            self.acknowledged_bytes += bytes;
            while self.acknowledged_bytes >= self.window_bytes {
                self.acknowledged_bytes -= self.window_bytes;
                self.window_bytes += FULL_BYTES;
            }
        }
        self.window_bytes = self.window_bytes.min(WINDOW_MAX_BYTES);
    }

    /// `packet` was lost while later ones arrived; `next_packet` will be sent next. There is one reduction for each
    /// flight.
    pub(super) fn lost(&mut self, packet: u64, next_packet: u64) {
        if packet >= self.reduced_before_packet {
            self.threshold_bytes = (self.window_bytes / 2).max(WINDOW_MIN_BYTES);
            self.window_bytes = self.threshold_bytes;
            self.acknowledged_bytes = 0;
            self.reduced_before_packet = next_packet;
        }
    }

    /// Nothing was acknowledged in time.
    pub(super) fn timed_out(&mut self, next_packet: u64) {
        self.threshold_bytes = (self.window_bytes / 2).max(WINDOW_MIN_BYTES);
        self.window_bytes = WINDOW_MIN_BYTES;
        self.acknowledged_bytes = 0;
        self.reduced_before_packet = next_packet;
    }
}

/// A fragment that fills its datagram.
pub(super) const FULL_BYTES: usize = FRAGMENT_HEAD_BYTES + FRAGMENT_BYTES_MAX;
/// 42 KB: fits the smallest default socket buffer beside other sessions.
const WINDOW_INITIAL_BYTES: usize = 32 * FULL_BYTES;
/// Enough that the datagrams behind it reveal one further loss.
const WINDOW_MIN_BYTES: usize = 4 * FULL_BYTES;
const WINDOW_MAX_BYTES: usize = WINDOW_FRAGMENTS as usize * FULL_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_to_its_limit_and_halves_once_for_each_flight() {
        let mut congestion = Congestion::new();
        for _ in 0..20 {
            congestion.acknowledged(32 * FULL_BYTES);
        }
        assert_eq!(congestion.window_bytes(), 256 * FULL_BYTES);
        congestion.lost(100, 200);
        congestion.lost(150, 210);
        assert_eq!(congestion.window_bytes(), 128 * FULL_BYTES);
        congestion.acknowledged(128 * FULL_BYTES);
        assert_eq!(congestion.window_bytes(), 129 * FULL_BYTES);
        congestion.lost(200, 300);
        assert_eq!(congestion.window_bytes(), 129 * FULL_BYTES / 2);
    }

    #[test]
    fn a_timeout_starts_anew_and_never_stops_all() {
        let mut congestion = Congestion::new();
        for packet in 0..20 {
            congestion.timed_out(packet);
            assert_eq!(congestion.window_bytes(), 4 * FULL_BYTES);
        }
        congestion.acknowledged(4 * FULL_BYTES);
        assert!(congestion.window_bytes() > 4 * FULL_BYTES);
    }
}
