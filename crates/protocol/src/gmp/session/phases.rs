//! Which key phase seals the next datagram (the idea of RFC 9001, section 6, for each direction by itself). It knows no
//! key: the driver derives the next one whenever the phase advances. A phase ends after so many datagrams or so much
//! time. The next begins only when the peer has said, in the head of an authentic datagram, that it has heard the
//! present one. So both ends are never more than one step apart, and a receiver never needs more keys than the last,
//! present and next.

use std::time::Duration;

use crate::{
    gmp::{KEY_AGE_MAX, KEY_PACKETS_MAX},
    wire::datagram::KEY_PHASES,
};

/// When a key phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// Datagrams that one key seals.
    pub packets_max: u64,
    /// How long it seals, from its first datagram on.
    pub age_max: Duration,
}

impl Default for KeyLimits {
    fn default() -> Self {
        Self { packets_max: KEY_PACKETS_MAX, age_max: KEY_AGE_MAX }
    }
}

/// The phases of one session, both directions.
#[derive(Clone, Debug)]
pub(super) struct Phases {
    /// The phase that this end seals with, counted from 0.
    own: u64,
    /// The first datagram of that phase, and when it was sent.
    began: Option<(u64, Duration)>,
    /// Whether the peer has heard it. The peer had the first phase from the start.
    is_confirmed: bool,
    /// The newest of the peer's phases that was heard.
    heard: u64,
}

impl Phases {
    pub(super) fn new() -> Self {
        Self { own: 0, began: None, is_confirmed: true, heard: 0 }
    }

    /// The phase that seals the datagram `packet`, which is sent now.
    pub(super) fn of_packet(&mut self, now: Duration, packet: u64, limits: &KeyLimits) -> u64 {
        let (first, since) = *self.began.get_or_insert((packet, now));
        let is_over = packet - first >= limits.packets_max || now.saturating_sub(since) >= limits.age_max;
        if is_over && self.is_confirmed {
            *self = Self { own: self.own + 1, began: Some((packet, now)), is_confirmed: false, heard: self.heard };
        }
        self.own
    }

    /// Takes the phases of an authentic datagram's head: its own, and the one that the peer has heard.
    pub(super) fn heard(&mut self, phase: u8, heard_phase: u8) {
        // The driver unseals the phase before, the present and the next; a late one tells nothing new.
        self.heard += u64::from(phase == in_head(self.heard + 1));
        self.is_confirmed |= heard_phase == in_head(self.own);
    }

    /// The newest phase heard, as it stands in a head.
    pub(super) fn newest_heard(&self) -> u8 {
        in_head(self.heard)
    }
}

/// A phase as it stands in a head.
pub(super) fn in_head(phase: u64) -> u8 {
    (phase % KEY_PHASES) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: KeyLimits = KeyLimits { packets_max: 3, age_max: Duration::from_secs(60) };

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_phase_ends_after_its_packets_once_the_peer_has_heard_it() {
        let mut phases = Phases::new();
        let sent: Vec<_> = (0..8).map(|packet| phases.of_packet(seconds(0), packet, &LIMITS)).collect();
        assert_eq!(sent, [0, 0, 0, 1, 1, 1, 1, 1], "the second waits for the peer");
        phases.heard(0, 0);
        assert_eq!(phases.of_packet(seconds(0), 8, &LIMITS), 1, "that was heard before");
        phases.heard(0, 1);
        assert_eq!(phases.of_packet(seconds(0), 9, &LIMITS), 2);
    }

    #[test]
    fn a_phase_ends_when_it_is_old_counted_from_its_first_datagram() {
        let mut phases = Phases::new();
        let at =
            [1_000, 1_059, 1_060].map(|at| phases.of_packet(seconds(at), at, &KeyLimits { packets_max: 99, ..LIMITS }));
        assert_eq!(at, [0, 0, 1]);
    }

    #[test]
    fn the_other_ends_phases_are_counted_on_over_the_heads_modulus() {
        let mut phases = Phases::new();
        for phase in 1..40u64 {
            phases.heard(in_head(phase), 0);
            phases.heard(in_head(phase - 1), 0);
            assert_eq!((phases.heard, phases.newest_heard()), (phase, (phase % 16) as u8));
        }
    }

    #[test]
    fn the_limits_of_a_key_are_far_below_what_its_cipher_and_its_numbers_allow() {
        let limits = KeyLimits::default();
        assert!(limits.packets_max <= 1 << 32 && limits.age_max <= seconds(3_600));
    }
}
