//! How many fragments may be under way at once: additive increase, multiplicative decrease (RFC 5681), counted in
//! fragments. Words are small beside bulk data, but a page of a listing in one burst would overflow a socket buffer, and
//! a hundred nodes that send their inventories at once would overflow the master's.

use super::WINDOW_FRAGMENTS;

/// The congestion window of one session.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    window_fragments: usize,
    /// Below it the window doubles with each round trip, above it grows by one.
    threshold_fragments: usize,
    /// Acknowledged fragments since the window last grew by one.
    acknowledged: usize,
    /// Losses of packets before this one belong to a reduction already made.
    reduced_before_packet: u64,
}

impl Congestion {
    pub(super) fn new() -> Self {
        Self {
            window_fragments: WINDOW_INITIAL_FRAGMENTS,
            threshold_fragments: WINDOW_MAX_FRAGMENTS,
            acknowledged: 0,
            reduced_before_packet: 0,
        }
    }

    /// Fragments that may be under way.
    pub(super) fn window_fragments(&self) -> usize {
        self.window_fragments
    }

    /// Fragments were acknowledged for the first time.
    pub(super) fn acknowledged(&mut self, fragments: usize) {
        if self.window_fragments < self.threshold_fragments {
            self.window_fragments += fragments;
        } else {
            self.acknowledged += fragments;
            while self.acknowledged >= self.window_fragments {
                self.acknowledged -= self.window_fragments;
                self.window_fragments += 1;
            }
        }
        self.window_fragments = self.window_fragments.min(WINDOW_MAX_FRAGMENTS);
    }

    /// `packet` was lost while later ones arrived; `next_packet` will be sent next. One reduction for each flight.
    pub(super) fn lost(&mut self, packet: u64, next_packet: u64) {
        if packet >= self.reduced_before_packet {
            self.threshold_fragments = (self.window_fragments / 2).max(WINDOW_MIN_FRAGMENTS);
            self.window_fragments = self.threshold_fragments;
            self.acknowledged = 0;
            self.reduced_before_packet = next_packet;
        }
    }

    /// Nothing was acknowledged in time.
    pub(super) fn timed_out(&mut self, next_packet: u64) {
        self.threshold_fragments = (self.window_fragments / 2).max(WINDOW_MIN_FRAGMENTS);
        self.window_fragments = WINDOW_MIN_FRAGMENTS;
        self.acknowledged = 0;
        self.reduced_before_packet = next_packet;
    }
}

/// 42 KB: fits the smallest default socket buffer beside other sessions.
const WINDOW_INITIAL_FRAGMENTS: usize = 32;
/// Enough that one further loss is found by the datagrams behind it.
const WINDOW_MIN_FRAGMENTS: usize = 4;
const WINDOW_MAX_FRAGMENTS: usize = WINDOW_FRAGMENTS as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_to_its_limit_and_halves_once_for_each_flight() {
        let mut congestion = Congestion::new();
        for _ in 0..20 {
            congestion.acknowledged(32);
        }
        assert_eq!(congestion.window_fragments(), 256);
        congestion.lost(100, 200);
        congestion.lost(150, 210);
        assert_eq!(congestion.window_fragments(), 128);
        congestion.acknowledged(128);
        assert_eq!(congestion.window_fragments(), 129);
        congestion.lost(200, 300);
        assert_eq!(congestion.window_fragments(), 64);
    }

    #[test]
    fn a_timeout_starts_anew_and_never_stops_all() {
        let mut congestion = Congestion::new();
        for packet in 0..20 {
            congestion.timed_out(packet);
            assert_eq!(congestion.window_fragments(), 4);
        }
        congestion.acknowledged(4);
        assert!(congestion.window_fragments() > 4);
    }
}
