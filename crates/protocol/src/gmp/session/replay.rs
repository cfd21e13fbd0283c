//! The replay filter: it runs before everything else that a session does with a datagram, and a packet number is never
//! taken twice.

use crate::gmp::{REPLAY_WINDOW_PACKETS, bits::Bits};

/// The packet numbers that have come.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    /// The window's lower end; older numbers are refused.
    base: u64,
    seen: Bits<WORDS>,
    /// The highest number taken.
    newest: Option<u64>,
}

/// What a packet number is to the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// Higher than all before.
    Newest,
    /// New, and overtaken by others.
    Late,
    /// Seen before, or too old to tell.
    Replayed,
}

impl Replay {
    pub(super) fn new() -> Self {
        Self { base: 0, seen: Bits::new(), newest: None }
    }

    /// Takes the number of an authentic datagram.
    pub(super) fn take(&mut self, packet: u64) -> Novelty {
        let Some(mut at) = packet.checked_sub(self.base) else {
            return Novelty::Replayed;
        };
        if at >= REPLAY_WINDOW_PACKETS {
            let by = at - (REPLAY_WINDOW_PACKETS - 1);
            self.seen.advance(by);
            self.base += by;
            at -= by;
        }
        if self.seen.get(at) {
            return Novelty::Replayed;
        }
        self.seen.set(at);
        if self.newest.is_none_or(|newest| packet > newest) {
            self.newest = Some(packet);
            Novelty::Newest
        } else {
            Novelty::Late
        }
    }
}

const WORDS: usize = (REPLAY_WINDOW_PACKETS / 64) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once_in_whatever_order() {
        let mut replay = Replay::new();
        let taken: Vec<_> = [3, 0, 3, 5, 4, 0, 5].into_iter().map(|packet| replay.take(packet)).collect();
        use Novelty::{Late, Newest, Replayed};
        assert_eq!(taken, [Newest, Late, Replayed, Newest, Late, Replayed, Replayed]);
    }

    #[test]
    fn what_is_too_old_to_know_is_refused() {
        let mut replay = Replay::new();
        assert_eq!(replay.take(REPLAY_WINDOW_PACKETS), Novelty::Newest);
        assert_eq!(replay.take(0), Novelty::Replayed);
        assert_eq!(replay.take(1), Novelty::Late);
        assert_eq!(replay.take(u64::MAX), Novelty::Newest);
        assert_eq!(replay.take(u64::MAX), Novelty::Replayed);
        assert_eq!(replay.take(REPLAY_WINDOW_PACKETS + 1), Novelty::Replayed);
    }
}
