//! The readers of one fetch (path *download*): a reader slot for each connection, and how long the ranges are that
//! readers take. Near sources have one slot each. A far one has several: while one range comes, the next requests are
//! on their way or wait at the node. So the link is never idle for a round trip. It never has more than [`SLOTS_MAX`]
//! at once, and never reuses a failed source until sources are located again.

use std::collections::VecDeque;

use net::transfer::Locality;
use protocol::{NodeId, message::client_master::Source};

use super::{SPLIT_FROM_BYTES, fetch::WINDOW_BYTES, fetch_plan::RangePolicy, fetch_plan::SourceNumber};
use crate::Client;

/// A reader slot.
#[derive(Clone, Debug)]
pub(super) struct ReaderSlot {
    /// The number of its source.
    pub(super) number: SourceNumber,
    pub(super) source: Source,
}

/// The readers of one fetch, at work and in reserve.
pub(super) struct ReaderPool {
    style: Style,
    /// Readers at work at once, at most.
    slots: usize,
    /// The sources, by their numbers, and whether each has all its slots.
    sources: Vec<(Source, bool)>,
    /// Free slots.
    reserve: VecDeque<ReaderSlot>,
}

/// How a fetch reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// One connection at a time.
    Alone,
    /// In order, from several sources.
    InOrder,
    /// In any order; `is_far` if no source is near.
    Anywhere { is_far: bool },
}

impl ReaderPool {
    /// For `bytes` bytes from these sources, the nearest first.
    pub(super) fn new(client: &Client, sources: &[Source], bytes: u64, in_order: bool) -> Self {
        let seats = client.throttle().senders_max(SLOTS_MAX);
        Self::with(sources, (bytes, in_order), seats, |source| is_far(client, source))
    }

    fn with(
        sources: &[Source],
        (bytes, in_order): (u64, bool),
        seats: usize,
        is_far: impl Fn(&Source) -> bool,
    ) -> Self {
        let nearest_is_far = sources.first().is_some_and(&is_far);
        let nearest_is_unknown = sources.first().is_some_and(|source| source.distance.is_none());
        let style = match (bytes < SPLIT_FROM_BYTES, in_order) {
            (true, _) => Style::Alone,
            // In order, short ranges would each cost a round trip, and long ones would have to wait in memory.
            (_, true) if nearest_is_far || sources.len() < 2 => Style::Alone,
            (_, true) => Style::InOrder,
            (_, false) if sources.len() < 2 && !nearest_is_far && !nearest_is_unknown => Style::Alone,
            (_, false) => Style::Anywhere { is_far: nearest_is_far },
        };
        let seats = if style == Style::Alone { 1 } else { seats };
        let mut pool = Self { style, slots: seats, sources: Vec::new(), reserve: VecDeque::new() };
        pool.add_sources(sources);
        pool.add_far_slots(is_far);
        pool
    }

    /// How ranges are cut.
    pub(super) fn range_policy(&self) -> RangePolicy {
        let pieces = match self.style {
            Style::Alone | Style::InOrder => (PIECE_IN_ORDER_BYTES, PIECE_BYTES_MIN),
            Style::Anywhere { is_far: false } => (PIECE_BYTES, PIECE_BYTES_MIN),
            Style::Anywhere { is_far: true } => (PIECE_FAR_BYTES, PIECE_FAR_BYTES_MIN),
        };
        RangePolicy {
            piece_bytes: pieces.0,
            piece_bytes_min: pieces.1,
            readers: match self.style {
                Style::Alone => 1,
                // One may become several: see `recheck_distances`.
                _ => self.reserve.len().clamp(2, SLOTS_MAX).min(self.slots) as u64,
            },
            window_bytes: (self.style == Style::InOrder).then_some(WINDOW_BYTES),
        }
    }

    /// How many will be at work at once, if there are that many.
    pub(super) fn concurrency(&self, taken: usize) -> usize {
        self.slots.min(taken + self.reserve.len())
    }

    /// The next free slot, if `taken` are taken.
    pub(super) fn next_slot(&mut self, taken: usize) -> Option<ReaderSlot> {
        if taken < self.slots { self.reserve.pop_front() } else { None }
    }

    /// A first slot for each of these sources, which may have had slots before.
    pub(super) fn add_sources(&mut self, sources: &[Source]) {
        for source in sources {
            let known = self.sources.iter().position(|(known, _)| known.node == source.node);
            let number = known.unwrap_or(self.sources.len());
            match known {
                Some(known) => self.sources[known] = (source.clone(), false),
                None => self.sources.push((source.clone(), false)),
            }
            self.reserve.push_back(ReaderSlot { number, source: source.clone() });
        }
    }

    /// A source whose distance was unknown may have turned out to be far.
    pub(super) fn recheck_distances(&mut self, client: &Client) {
        self.add_far_slots(|source| is_far(client, source));
    }

    /// A source has failed: no further reader takes a slot at it.
    pub(super) fn exclude_node(&mut self, node: &NodeId) {
        self.reserve.retain(|slot| slot.source.node != *node);
    }

    /// The further slots of far sources.
    fn add_far_slots(&mut self, is_far: impl Fn(&Source) -> bool) {
        if !matches!(self.style, Style::Anywhere { .. }) {
            return;
        }
        let mut far = Vec::new();
        for (number, (source, is_full)) in self.sources.iter_mut().enumerate() {
            if !*is_full && is_far(source) {
                *is_full = true;
                far.push(ReaderSlot { number, source: source.clone() });
            }
        }
        // Round after round, so that each of several gets some.
        for _ in 1..SLOTS_FAR {
            self.reserve.extend(far.iter().cloned());
        }
    }
}

fn is_far(client: &Client, source: &Source) -> bool {
    client.carriers().is_far(source.address, Locality::of(source.distance))
}

/// Connections of one fetch at once: a file has no more near copies, and each uses a transfer of a node.
const SLOTS_MAX: usize = 8;
/// Connections with one far source: one whose bytes come, and others whose requests have arrived before its last byte
/// was sent.
const SLOTS_FAR: usize = 4;
/// Longest range requested of one source at once, in bytes: a request's round trip is short compared to it ...
const PIECE_BYTES: u64 = 16 * 1024 * 1024;
/// ... and shortest, except the last.
const PIECE_BYTES_MIN: u64 = 2 * 1024 * 1024;
/// The same between sites, where three such ranges must last for a round trip. This gives 10 Gbit/s over 100 ms, and
/// with the shortest ranges 1 Gbit/s over 200 ms.
const PIECE_FAR_BYTES: u64 = 64 * 1024 * 1024;
const PIECE_FAR_BYTES_MIN: u64 = 8 * 1024 * 1024;
/// Longest range for a stream that is written in order, in bytes: the window holds one for each source.
const PIECE_IN_ORDER_BYTES: u64 = WINDOW_BYTES / SLOTS_MAX as u64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::{Place, ticket::SignedTicket, topology::Distance};

    use super::*;

    const LARGE: u64 = 1 << 30;

    fn source(node: &str, distance: Option<Distance>) -> Source {
        Source {
            node: NodeId::new(node).unwrap(),
            place: Place::new("s", "r"),
            address: ([192, 0, 2, 1], 1).into(),
            distance,
            local: None,
            ticket: SignedTicket { ticket: vec![], signature: vec![], delegation: None },
        }
    }

    fn far(source: &Source) -> bool {
        source.distance == Some(Distance::OtherSite)
    }

    /// The nodes whose slots are taken at once, in order.
    fn taken(pool: &mut ReaderPool) -> Vec<String> {
        let mut seats = Vec::new();
        while let Some(slot) = pool.next_slot(seats.len()) {
            seats.push(slot.source.node.to_string());
        }
        seats
    }

    const NEAR: Option<Distance> = Some(Distance::SameSite);
    const FAR: Option<Distance> = Some(Distance::OtherSite);

    #[test]
    fn a_far_source_gets_several_long_ranges_at_once_and_a_near_one_a_single_range() {
        let mut pool = ReaderPool::with(&[source("a", FAR)], (LARGE, false), SLOTS_MAX, far);
        let shape = pool.range_policy();
        assert_eq!((shape.readers, shape.piece_bytes, shape.piece_bytes_min), (4, 64 << 20, 8 << 20));
        assert_eq!(taken(&mut pool), ["a"; SLOTS_FAR]);
        let mut pool = ReaderPool::with(&[source("a", NEAR)], (LARGE, false), SLOTS_MAX, far);
        assert_eq!((pool.range_policy().readers, taken(&mut pool)), (1, vec!["a".to_owned()]));
    }

    #[test]
    fn slots_are_bounded_and_every_source_has_one_before_any_has_two() {
        let sources: Vec<_> = ["a", "b", "c"].map(|node| source(node, FAR)).into();
        let mut pool = ReaderPool::with(&sources, (LARGE, false), SLOTS_MAX, far);
        assert_eq!(taken(&mut pool), ["a", "b", "c", "a", "b", "c", "a", "b"]);
        let mut mixed = ReaderPool::with(&[source("a", NEAR), source("b", FAR)], (LARGE, false), SLOTS_MAX, far);
        assert_eq!(mixed.range_policy().piece_bytes, PIECE_BYTES, "as for the nearest");
        assert_eq!(taken(&mut mixed), ["a", "b", "b", "b", "b"]);
        let mut limited = ReaderPool::with(&sources, (LARGE, false), 2, far);
        assert_eq!(
            (limited.range_policy().readers, limited.concurrency(0)),
            (2, 2),
            "slow bytes come evenly only from few"
        );
        assert_eq!(taken(&mut limited), ["a", "b"]);
    }

    #[test]
    fn short_or_in_order_reads_from_afar_have_one_reader_and_others_in_reserve() {
        for (bytes, in_order) in [(SPLIT_FROM_BYTES - 1, false), (LARGE, true)] {
            let mut pool = ReaderPool::with(&[source("a", FAR), source("b", FAR)], (bytes, in_order), SLOTS_MAX, far);
            assert_eq!((pool.range_policy().readers, pool.range_policy().window_bytes), (1, None));
            assert_eq!(taken(&mut pool), ["a"]);
            assert_eq!(taken(&mut pool), ["b"], "when the first has failed");
        }
        let mut near = ReaderPool::with(&[source("a", NEAR), source("b", NEAR)], (LARGE, true), SLOTS_MAX, far);
        assert_eq!((near.range_policy().readers, near.range_policy().window_bytes), (2, Some(WINDOW_BYTES)));
        assert_eq!(taken(&mut near), ["a", "b"]);
    }

    #[test]
    fn a_source_of_unknown_place_gets_further_slots_once_it_is_known_to_be_far() {
        let mut pool = ReaderPool::with(&[source("a", None)], (LARGE, false), SLOTS_MAX, far);
        assert_eq!((pool.range_policy().readers, pool.range_policy().piece_bytes), (2, PIECE_BYTES));
        assert_eq!(taken(&mut pool), ["a"]);
        pool.add_far_slots(|_| true);
        pool.add_far_slots(|_| true);
        assert_eq!(taken(&mut pool), ["a"; SLOTS_FAR - 1], "once");
    }

    #[test]
    fn a_source_that_failed_has_no_seat_until_sources_are_asked_for_again() {
        let sources = [source("a", FAR), source("b", FAR)];
        let mut pool = ReaderPool::with(&sources, (LARGE, false), SLOTS_MAX, far);
        pool.exclude_node(&sources[0].node);
        assert_eq!(taken(&mut pool), ["b"; SLOTS_FAR]);
        pool.add_sources(&sources);
        assert_eq!(taken(&mut pool), ["a", "b"]);
    }
}
