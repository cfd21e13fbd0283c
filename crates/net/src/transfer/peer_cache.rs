//! What is known of the paths to peers: the round trip, whether UDP gets through, and how fast the last transfer was.
//! From that it chooses the carrier of the next conversation. Pure; it serves every path that moves bytes. It is only a
//! hint: a caller that got a wrong one finds out and reports it. It never grows beyond [`PEERS_MAX`].

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use protocol::{CarrierChoice, topology::Distance};

use super::quic::udt::PathEstimate;

/// How far the other end of a conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locality {
    /// At the same site.
    Near,
    /// At another site.
    Far,
    /// Nobody has said which.
    Unknown,
}

impl Locality {
    /// By the distance that the master gives with a ticket.
    pub fn of(distance: Option<Distance>) -> Self {
        match distance {
            Some(Distance::SameNode | Distance::SameRack | Distance::SameSite) => Self::Near,
            Some(Distance::OtherSite) => Self::Far,
            None => Self::Unknown,
        }
    }
}

/// What one process keeps of a peer for the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CachedPeer {
    /// The peer's transfer address.
    pub address: SocketAddr,
    /// What the last transfers learned.
    pub learned: Option<PathEstimate>,
    /// For how much longer UDP is not tried, where it did not get through.
    pub udp_blocked_for: Option<Duration>,
}

/// How the next conversation with a peer is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialPlan {
    /// By TCP.
    Tcp,
    /// By QUIC only.
    Quic,
    /// By QUIC, and by TCP too where QUIC does not answer within this time.
    QuicFirst(Duration),
    /// By TCP, if that shows that the peer is near.
    Measure,
}

/// The known peers, keyed by address alone: what a path is like does not depend on who is at its end.
#[derive(Debug, Default)]
pub(super) struct PeerCache {
    peers: BTreeMap<SocketAddr, PeerRecord>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PeerRecord {
    round_trip: Option<Duration>,
    /// When UDP is tried again.
    blocked_until: Option<Duration>,
    learned: Option<PathEstimate>,
    /// When an entry was last updated.
    noted: Duration,
}

impl PeerCache {
    /// How to begin a conversation with `address`, at `now` since any fixed moment.
    pub(super) fn plan(&self, now: Duration, address: SocketAddr, choice: CarrierChoice, way: Locality) -> DialPlan {
        let known = self.peers.get(&address).copied().unwrap_or_default();
        match choice {
            CarrierChoice::Tcp => return DialPlan::Tcp,
            CarrierChoice::Quic => return DialPlan::Quic,
            CarrierChoice::Auto if way == Locality::Unknown && known.round_trip.is_none() => return DialPlan::Measure,
            CarrierChoice::Auto => {}
        }
        if !self.is_far(address, way) || known.blocked_until.is_some_and(|until| now < until) {
            return DialPlan::Tcp;
        }
        let head_start = known.round_trip.map_or(HEAD_START_UNKNOWN, |round_trip| {
            (round_trip * HEAD_START_ROUND_TRIPS).clamp(HEAD_START_MIN, HEAD_START_MAX)
        });
        DialPlan::QuicFirst(head_start)
    }

    /// Whether a peer is far, as far as that is known.
    pub(super) fn is_far(&self, address: SocketAddr, way: Locality) -> bool {
        let round_trip = self.peers.get(&address).and_then(|known| known.round_trip);
        match way {
            Locality::Near => false,
            Locality::Far => true,
            Locality::Unknown => round_trip.is_some_and(|round_trip| round_trip >= FAR_ROUND_TRIP_MIN),
        }
    }

    /// The longest of all round trips.
    pub(super) fn longest_round_trip(&self) -> Option<Duration> {
        self.peers.values().filter_map(|known| known.round_trip).max()
    }

    /// A round trip was measured.
    pub(super) fn note_round_trip(&mut self, now: Duration, address: SocketAddr, round_trip: Duration) {
        let known = self.note(now, address);
        // The shortest one is the path's; anything above it is a queue.
        known.round_trip = Some(known.round_trip.map_or(round_trip, |before| before.min(round_trip)));
    }

    /// QUIC got no answer where TCP did.
    pub(super) fn note_udp_blocked(&mut self, now: Duration, address: SocketAddr) {
        self.note(now, address).blocked_until = Some(now + BLOCKED_TIME);
    }

    /// QUIC got an answer.
    pub(super) fn note_udp_through(&mut self, now: Duration, address: SocketAddr) {
        if self.peers.get(&address).is_some_and(|known| known.blocked_until.is_some()) {
            self.note(now, address).blocked_until = None;
        }
    }

    /// A transfer has learned something.
    pub(super) fn learn(&mut self, now: Duration, address: SocketAddr, learned: PathEstimate) {
        self.note_round_trip(now, address, learned.round_trip);
        self.note(now, address).learned = Some(learned);
    }

    /// What a transfer learned last.
    pub(super) fn learned(&self, address: SocketAddr) -> Option<PathEstimate> {
        self.peers.get(&address)?.learned
    }

    /// The peers that are worth keeping for another process.
    pub(super) fn cached_peers(&self, now: Duration) -> Vec<CachedPeer> {
        let remembered = self.peers.iter().map(|(address, known)| CachedPeer {
            address: *address,
            learned: known.learned,
            udp_blocked_for: known.blocked_until.and_then(|until| until.checked_sub(now)),
        });
        remembered.filter(|peer| peer.learned.is_some() || peer.udp_blocked_for.is_some()).collect()
    }

    /// Takes a peer that another process kept.
    pub(super) fn restore(&mut self, now: Duration, peer: CachedPeer) {
        if let Some(learned) = peer.learned {
            self.learn(now, peer.address, learned);
        }
        if let Some(rest) = peer.udp_blocked_for {
            // A clock that was set back must not make it longer.
            self.note(now, peer.address).blocked_until = Some(now + rest.min(BLOCKED_TIME));
        }
    }

    /// The entry of a peer, with room made for it.
    fn note(&mut self, now: Duration, address: SocketAddr) -> &mut PeerRecord {
        if self.peers.len() >= PEERS_MAX
            && !self.peers.contains_key(&address)
            && let Some(oldest) = self.peers.iter().min_by_key(|(_, known)| known.noted).map(|(address, _)| *address)
        {
            self.peers.remove(&oldest);
        }
        let known = self.peers.entry(address).or_default();
        known.noted = now;
        known
    }
}

/// Round trip from which on a peer of unknown place counts as far. Within a site even a busy network takes less, and no
/// two sites are nearer than about 100 km of glass.
const FAR_ROUND_TRIP_MIN: Duration = Duration::from_millis(2);
/// Round trips that QUIC has before TCP is tried beside it: its handshake takes one, and then the peer must compute.
const HEAD_START_ROUND_TRIPS: u32 = 3;
/// No less, so that a busy peer does not get two handshakes from everyone ...
const HEAD_START_MIN: Duration = Duration::from_millis(200);
/// ... and no more, since nobody should wait for long where UDP is blocked.
const HEAD_START_MAX: Duration = Duration::from_secs(1);
/// The head start where no round trip is known.
const HEAD_START_UNKNOWN: Duration = Duration::from_millis(400);
/// How long UDP is not tried again with a peer that it did not reach. A firewall seldom changes, and a try costs one
/// conversation a few seconds.
const BLOCKED_TIME: Duration = Duration::from_secs(600);
/// Peers of which something is known, some 100 bytes each: the nodes of a large cloud.
pub(super) const PEERS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn address(number: u32) -> SocketAddr {
        (number.to_be_bytes(), 7410).into()
    }

    fn learned_of(book: &PeerCache, number: u32) -> Option<PathEstimate> {
        book.learned(address(number))
    }

    fn auto(book: &PeerCache, now: Duration, way: Locality) -> DialPlan {
        book.plan(now, address(1), CarrierChoice::Auto, way)
    }

    // Promise 51.
    #[test]
    fn a_site_speaks_tcp_within_and_quic_with_others_unless_a_setting_says_otherwise() {
        let book = PeerCache::default();
        assert_eq!(auto(&book, MS, Locality::Near), DialPlan::Tcp);
        assert_eq!(auto(&book, MS, Locality::Far), DialPlan::QuicFirst(HEAD_START_UNKNOWN));
        for way in [Locality::Near, Locality::Far, Locality::Unknown] {
            assert_eq!(book.plan(MS, address(1), CarrierChoice::Tcp, way), DialPlan::Tcp);
            assert_eq!(book.plan(MS, address(1), CarrierChoice::Quic, way), DialPlan::Quic);
        }
    }

    #[test]
    fn a_peer_of_unknown_place_is_as_near_as_its_round_trip_says() {
        let mut book = PeerCache::default();
        assert_eq!(auto(&book, MS, Locality::Unknown), DialPlan::Measure);
        book.note_round_trip(MS, address(1), 30 * MS);
        assert_eq!(auto(&book, MS, Locality::Unknown), DialPlan::QuicFirst(HEAD_START_MIN));
        book.note_round_trip(MS, address(1), MS);
        assert_eq!(auto(&book, MS, Locality::Unknown), DialPlan::Tcp, "the longer one was a queue");
    }

    #[test]
    fn where_udp_is_blocked_tcp_is_taken_for_ten_minutes_and_then_udp_is_tried_again() {
        let mut book = PeerCache::default();
        book.note_udp_blocked(MS, address(1));
        assert_eq!(auto(&book, BLOCKED_TIME, Locality::Far), DialPlan::Tcp);
        assert_eq!(auto(&book, BLOCKED_TIME + MS, Locality::Far), DialPlan::QuicFirst(HEAD_START_UNKNOWN));
        book.note_udp_through(2 * MS, address(1));
        assert_eq!(auto(&book, 2 * MS, Locality::Far), DialPlan::QuicFirst(HEAD_START_UNKNOWN));
    }

    #[test]
    fn the_head_start_grows_with_the_round_trip_within_its_bounds() {
        for (round_trip, expected) in [(10, HEAD_START_MIN), (100, 300 * MS), (700, HEAD_START_MAX)] {
            let mut book = PeerCache::default();
            book.note_round_trip(MS, address(1), round_trip * MS);
            assert_eq!(auto(&book, MS, Locality::Far), DialPlan::QuicFirst(expected));
        }
    }

    #[test]
    fn what_one_process_learned_the_next_one_knows() {
        let mut book = PeerCache::default();
        let learned = PathEstimate { rate_bytes_per_second: 90_000_000, round_trip: 100 * MS };
        book.learn(MS, address(1), learned);
        book.note_udp_blocked(MS, address(2));
        book.note_round_trip(MS, address(3), 5 * MS);
        let kept = book.cached_peers(BLOCKED_TIME);
        assert_eq!(kept.iter().map(|peer| peer.address).collect::<Vec<_>>(), [address(1), address(2)]);
        let mut next = PeerCache::default();
        kept.into_iter().for_each(|peer| next.restore(Duration::ZERO, peer));
        assert_eq!((learned_of(&next, 1), learned_of(&next, 2)), (Some(learned), None));
        let plan = |now| next.plan(now, address(2), CarrierChoice::Auto, Locality::Far);
        assert_eq!((plan(Duration::ZERO), plan(MS)), (DialPlan::Tcp, DialPlan::QuicFirst(HEAD_START_UNKNOWN)));
    }

    #[test]
    fn of_too_many_peers_the_one_of_longest_ago_is_forgotten() {
        let mut book = PeerCache::default();
        let learned = PathEstimate { rate_bytes_per_second: 1, round_trip: MS };
        for number in 0..=PEERS_MAX as u32 {
            book.learn(MS * (number + 1), address(number), learned);
        }
        assert_eq!(book.peers.len(), PEERS_MAX);
        assert_eq!((learned_of(&book, 0), learned_of(&book, 1)), (None, Some(learned)));
    }
}
