//! Who reads in one fetch (path *download*): a seat for each conversation, and how long the ranges are that readers take.
//!
//! Near sources have a seat each. A far one has several: while the range of one comes, the next requests are on their way
//! or wait at the node, so that the link never stands empty for a round trip. It never has more than [`SEATS_MAX`] at
//! once, and never takes a source again that has failed until sources are asked for anew.

use std::collections::VecDeque;

use net::transfer::Locality;
use protocol::{NodeId, message::client_master::Source};

use super::{SPLIT_FROM_BYTES, fetch::WINDOW_BYTES, ranges::Shape, ranges::SourceNumber};
use crate::Client;

/// A reader's place.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    /// Of the readers' sources, which one.
    pub(super) number: SourceNumber,
    pub(super) source: Source,
}

/// The readers of one fetch, at work and in reserve.
pub(super) struct Crew {
    style: Style,
    /// Readers at work at once, at most.
    seats: usize,
    /// The sources, by their numbers, and whether each has all its seats.
    sources: Vec<(Source, bool)>,
    /// Seats that nobody has taken.
    reserve: VecDeque<Seat>,
}

/// How a fetch reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// One conversation at a time.
    Alone,
    /// In order, from several sources.
    InOrder,
    /// In any order, and `is_far` where no source is near.
    Anywhere { is_far: bool },
}

impl Crew {
    /// For `bytes` bytes from these sources, the nearest first.
    pub(super) fn new(client: &Client, sources: &[Source], bytes: u64, in_order: bool) -> Self {
        let seats = client.throttle().senders(SEATS_MAX);
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
        let mut crew = Self { style, seats, sources: Vec::new(), reserve: VecDeque::new() };
        crew.seat(sources);
        crew.fill(is_far);
        crew
    }

    /// How ranges are cut.
    pub(super) fn shape(&self) -> Shape {
        let pieces = match self.style {
            Style::Alone | Style::InOrder => (PIECE_IN_ORDER_BYTES, PIECE_BYTES_MIN),
            Style::Anywhere { is_far: false } => (PIECE_BYTES, PIECE_BYTES_MIN),
            Style::Anywhere { is_far: true } => (PIECE_FAR_BYTES, PIECE_FAR_BYTES_MIN),
        };
        Shape {
            piece_bytes: pieces.0,
            piece_bytes_min: pieces.1,
            readers: match self.style {
                Style::Alone => 1,
                // One may become several: see `look_again`.
                _ => self.reserve.len().clamp(2, SEATS_MAX).min(self.seats) as u64,
            },
            window_bytes: (self.style == Style::InOrder).then_some(WINDOW_BYTES),
        }
    }

    /// How many will be at work at once, where so many are.
    pub(super) fn at_once(&self, taken: usize) -> usize {
        self.seats.min(taken + self.reserve.len())
    }

    /// The next seat to be taken, where `taken` are.
    pub(super) fn next(&mut self, taken: usize) -> Option<Seat> {
        if taken < self.seats { self.reserve.pop_front() } else { None }
    }

    /// A first seat for each of these sources, which may have had seats before.
    pub(super) fn seat(&mut self, sources: &[Source]) {
        for source in sources {
            let known = self.sources.iter().position(|(known, _)| known.node == source.node);
            let number = known.unwrap_or(self.sources.len());
            match known {
                Some(known) => self.sources[known] = (source.clone(), false),
                None => self.sources.push((source.clone(), false)),
            }
            self.reserve.push_back(Seat { number, source: source.clone() });
        }
    }

    /// A source of which nobody knew how far it is may have turned out to be far.
    pub(super) fn look_again(&mut self, client: &Client) {
        self.fill(|source| is_far(client, source));
    }

    /// A source has failed: nobody else takes a seat at it.
    pub(super) fn give_up(&mut self, node: &NodeId) {
        self.reserve.retain(|seat| seat.source.node != *node);
    }

    /// The further seats of sources that are far.
    fn fill(&mut self, is_far: impl Fn(&Source) -> bool) {
        if !matches!(self.style, Style::Anywhere { .. }) {
            return;
        }
        let mut far = Vec::new();
        for (number, (source, is_full)) in self.sources.iter_mut().enumerate() {
            if !*is_full && is_far(source) {
                *is_full = true;
                far.push(Seat { number, source: source.clone() });
            }
        }
        // Round after round, so that of several all get some.
        for _ in 1..SEATS_FAR {
            self.reserve.extend(far.iter().cloned());
        }
    }
}

fn is_far(client: &Client, source: &Source) -> bool {
    client.carriers().is_far(source.address, Locality::of(source.distance))
}

/// Conversations of one fetch at once: a file has no more copies that are near, and each holds a transfer of a node.
const SEATS_MAX: usize = 8;
/// Conversations with one far source: one whose bytes come, and others whose requests have arrived before its last byte
/// has left.
const SEATS_FAR: usize = 4;
/// Longest range asked of one source at once, in bytes: a request's round trip is small beside it ...
const PIECE_BYTES: u64 = 16 * 1024 * 1024;
/// ... and shortest, but for the last.
const PIECE_BYTES_MIN: u64 = 2 * 1024 * 1024;
/// The same between sites, where three such ranges must last for a round trip: 10 Gbit/s over 100 ms, and with the
/// shortest 1 Gbit/s over 200 ms.
const PIECE_FAR_BYTES: u64 = 64 * 1024 * 1024;
const PIECE_FAR_BYTES_MIN: u64 = 8 * 1024 * 1024;
/// Longest range for a stream that is written in order, in bytes: the window has one for each source.
const PIECE_IN_ORDER_BYTES: u64 = WINDOW_BYTES / SEATS_MAX as u64;

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

    /// The nodes whose seats are taken at once, in order.
    fn taken(crew: &mut Crew) -> Vec<String> {
        let mut seats = Vec::new();
        while let Some(seat) = crew.next(seats.len()) {
            seats.push(seat.source.node.to_string());
        }
        seats
    }

    const NEAR: Option<Distance> = Some(Distance::SameSite);
    const FAR: Option<Distance> = Some(Distance::OtherSite);

    #[test]
    fn a_far_source_is_asked_for_several_long_ranges_at_once_and_a_near_one_for_all_in_one_go() {
        let mut crew = Crew::with(&[source("a", FAR)], (LARGE, false), SEATS_MAX, far);
        let shape = crew.shape();
        assert_eq!((shape.readers, shape.piece_bytes, shape.piece_bytes_min), (4, 64 << 20, 8 << 20));
        assert_eq!(taken(&mut crew), ["a"; SEATS_FAR]);
        let mut crew = Crew::with(&[source("a", NEAR)], (LARGE, false), SEATS_MAX, far);
        assert_eq!((crew.shape().readers, taken(&mut crew)), (1, vec!["a".to_owned()]));
    }

    #[test]
    fn seats_are_bounded_and_every_source_has_one_before_any_has_two() {
        let sources: Vec<_> = ["a", "b", "c"].map(|node| source(node, FAR)).into();
        let mut crew = Crew::with(&sources, (LARGE, false), SEATS_MAX, far);
        assert_eq!(taken(&mut crew), ["a", "b", "c", "a", "b", "c", "a", "b"]);
        let mut mixed = Crew::with(&[source("a", NEAR), source("b", FAR)], (LARGE, false), SEATS_MAX, far);
        assert_eq!(mixed.shape().piece_bytes, PIECE_BYTES, "as for the nearest");
        assert_eq!(taken(&mut mixed), ["a", "b", "b", "b", "b"]);
        let mut limited = Crew::with(&sources, (LARGE, false), 2, far);
        assert_eq!((limited.shape().readers, limited.at_once(0)), (2, 2), "slow bytes come evenly only from few");
        assert_eq!(taken(&mut limited), ["a", "b"]);
    }

    #[test]
    fn what_is_short_or_written_in_order_from_afar_has_one_reader_and_the_others_stand_by() {
        for (bytes, in_order) in [(SPLIT_FROM_BYTES - 1, false), (LARGE, true)] {
            let mut crew = Crew::with(&[source("a", FAR), source("b", FAR)], (bytes, in_order), SEATS_MAX, far);
            assert_eq!((crew.shape().readers, crew.shape().window_bytes), (1, None));
            assert_eq!(taken(&mut crew), ["a"]);
            assert_eq!(taken(&mut crew), ["b"], "when the first has failed");
        }
        let mut near = Crew::with(&[source("a", NEAR), source("b", NEAR)], (LARGE, true), SEATS_MAX, far);
        assert_eq!((near.shape().readers, near.shape().window_bytes), (2, Some(WINDOW_BYTES)));
        assert_eq!(taken(&mut near), ["a", "b"]);
    }

    #[test]
    fn a_source_of_unknown_place_gets_its_further_seats_once_it_has_turned_out_to_be_far() {
        let mut crew = Crew::with(&[source("a", None)], (LARGE, false), SEATS_MAX, far);
        assert_eq!((crew.shape().readers, crew.shape().piece_bytes), (2, PIECE_BYTES));
        assert_eq!(taken(&mut crew), ["a"]);
        crew.fill(|_| true);
        crew.fill(|_| true);
        assert_eq!(taken(&mut crew), ["a"; SEATS_FAR - 1], "once");
    }

    #[test]
    fn a_source_that_failed_has_no_seat_until_sources_are_asked_for_again() {
        let sources = [source("a", FAR), source("b", FAR)];
        let mut crew = Crew::with(&sources, (LARGE, false), SEATS_MAX, far);
        crew.give_up(&sources[0].node);
        assert_eq!(taken(&mut crew), ["b"; SEATS_FAR]);
        crew.seat(&sources);
        assert_eq!(taken(&mut crew), ["a", "b"]);
    }
}
