//! Whether packets are lost because the link is bad or because we send too much. UDT takes every loss for the latter.
//! Then one lost packet in a hundred costs it most of a clean link's rate. Here the share decides: a link's random loss
//! is the same at any rate, while the loss of a full queue grows with our rate. It never reads a clock.

/// Counts packets of one round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    arrived_packets: f64,
    lost_packets: f64,
}

impl Losses {
    /// Packets arrived.
    pub(super) fn on_arrived(&mut self, packets: f64) {
        self.arrived_packets += packets;
    }

    /// Packets were lost.
    pub(super) fn on_lost(&mut self, packets: f64) {
        self.lost_packets += packets;
    }

    /// Whether more was lost than chance explains, of at least `expected_packets` a round trip.
    pub(super) fn is_congestion(&self, expected_packets: f64) -> bool {
        let packets = (self.arrived_packets + self.lost_packets).max(expected_packets);
        let by_chance = packets * LOSS_SHARE;
        self.lost_packets > by_chance + CHANCE_DEVIATIONS * by_chance.sqrt() + 1.0
    }

    /// Starts counting anew.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }
}

/// The share that a link may lose by chance: twice the worst that wide-area links are built for.
const LOSS_SHARE: f64 = 0.02;
/// By how many standard deviations a round trip may be unlucky.
const CHANCE_DEVIATIONS: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(lost_packets: f64, of: f64) -> bool {
        let mut losses = Losses::default();
        losses.on_arrived(of - lost_packets);
        losses.on_lost(lost_packets);
        losses.is_congestion(0.0)
    }

    #[test]
    fn one_packet_in_a_hundred_is_chance_and_one_in_ten_is_not() {
        assert!(!lost(17.0, 1_700.0));
        assert!(!lost(34.0, 1_700.0));
        assert!(lost(170.0, 1_700.0));
    }

    #[test]
    fn the_first_lost_packets_of_a_round_trip_are_no_share_of_it_yet() {
        let mut losses = Losses::default();
        losses.on_lost(5.0);
        assert!(!losses.is_congestion(1_000.0));
        losses.on_lost(50.0);
        assert!(losses.is_congestion(1_000.0));
        losses.restart();
        assert!(!losses.is_congestion(1_000.0));
    }
}
