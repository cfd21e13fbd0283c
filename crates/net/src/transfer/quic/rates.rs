//! What connections have learned of the ways to their peers, for the next connection to begin with: a transfer of a few
//! seconds would else spend them on finding its rate.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use noq::{Connection, PathId};

use super::udt::{Learned, Udt};

/// Keeps what was learned. It is only ever a hint: who begins with it still looks whether it holds.
pub trait Rates: Send + Sync + fmt::Debug {
    /// What was learned of the way to a peer.
    fn learned(&self, peer: SocketAddr) -> Option<Learned>;

    /// Something was learned of the way to a peer.
    fn learn(&self, peer: SocketAddr, learned: Learned);
}

/// Where a connection writes down what it has learned.
#[derive(Clone, Debug)]
pub(super) struct Learning {
    pub(super) rates: Arc<dyn Rates>,
    pub(super) peer: SocketAddr,
}

impl Learning {
    /// Writes down what the controller of `connection` knows by now.
    pub(super) fn write_down(&self, connection: &Connection) {
        let learned = connection.congestion_state(PathId::ZERO).and_then(Udt::of).and_then(|udt| udt.learned());
        if let Some(learned) = learned {
            self.rates.learn(self.peer, learned);
        }
    }
}

/// Keeps it in memory.
#[derive(Debug, Default)]
pub struct RateMemory {
    peers: Mutex<BTreeMap<SocketAddr, Learned>>,
}

impl Rates for RateMemory {
    fn learned(&self, peer: SocketAddr) -> Option<Learned> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).get(&peer).copied()
    }

    fn learn(&self, peer: SocketAddr, learned: Learned) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= PEERS_MAX && !peers.contains_key(&peer) {
            // Any one: it is learned anew in a second.
            peers.pop_first();
        }
        peers.insert(peer, learned);
    }
}

/// Most peers that are remembered.
const PEERS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_learned_is_kept_of_a_bounded_number_of_peers() {
        let memory = RateMemory::default();
        let peer = |number: u32| SocketAddr::from((number.to_be_bytes(), 1));
        let learned = Learned { rate_bytes_per_second: 1_000, round_trip: Duration::from_millis(10) };
        for number in 0..=PEERS_MAX as u32 {
            memory.learn(peer(number), learned);
            assert_eq!(memory.learned(peer(number)), Some(learned));
        }
        assert_eq!(memory.learned(peer(0)), None);
        assert_eq!(memory.peers.lock().unwrap_or_else(PoisonError::into_inner).len(), PEERS_MAX);
    }
}
