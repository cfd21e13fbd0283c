//! What connections have learned of the paths to their peers, for the next connection to begin with. Without it a
//! transfer of a few seconds would spend them on finding its rate. It is only a hint and never decides how fast to
//! send.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use noq::{Connection, PathId};

use super::udt::{PathEstimate, Udt};

/// Keeps what was learned. It is only a hint: a connection that begins with it still checks it.
pub trait RateCache: Send + Sync + fmt::Debug {
    /// What was learned of the path to a peer.
    fn learned(&self, peer: SocketAddr) -> Option<PathEstimate>;

    /// Notes what was learned of the path to a peer.
    fn learn(&self, peer: SocketAddr, learned: PathEstimate);
}

/// Where a connection records what it has learned.
#[derive(Clone, Debug)]
pub(super) struct RateRecorder {
    pub(super) cache: Arc<dyn RateCache>,
    pub(super) peer: SocketAddr,
}

impl RateRecorder {
    /// Records what the controller of `connection` knows by now.
    pub(super) fn record(&self, connection: &Connection) {
        let learned = connection.congestion_state(PathId::ZERO).and_then(Udt::of).and_then(|udt| udt.learned());
        if let Some(learned) = learned {
            self.cache.learn(self.peer, learned);
        }
    }
}

/// Keeps it in memory, machine by machine. What was learned by calling a peer also holds where that peer calls us, from
/// whatever port.
#[derive(Debug, Default)]
pub struct MemoryRateCache {
    machines: Mutex<BTreeMap<IpAddr, PathEstimate>>,
}

impl RateCache for MemoryRateCache {
    fn learned(&self, peer: SocketAddr) -> Option<PathEstimate> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner).get(&peer.ip().to_canonical()).copied()
    }

    fn learn(&self, peer: SocketAddr, learned: PathEstimate) {
        let machine = peer.ip().to_canonical();
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        if machines.len() >= MACHINES_MAX && !machines.contains_key(&machine) {
            // Any entry: it is learned again in a second.
            machines.pop_first();
        }
        machines.insert(machine, learned);
    }
}

/// Most machines that are remembered, some 50 bytes each.
const MACHINES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_learned_is_kept_of_a_bounded_number_of_machines() {
        let memory = MemoryRateCache::default();
        let peer = |number: u32| SocketAddr::from((number.to_be_bytes(), 1));
        let learned = PathEstimate { rate_bytes_per_second: 1_000, round_trip: Duration::from_millis(10) };
        for number in 0..=MACHINES_MAX as u32 {
            memory.learn(peer(number), learned);
            assert_eq!(memory.learned(peer(number)), Some(learned));
        }
        assert_eq!(memory.learned(peer(0)), None);
        assert_eq!(memory.machines.lock().unwrap_or_else(PoisonError::into_inner).len(), MACHINES_MAX);
    }

    #[test]
    fn a_machine_is_the_same_whichever_port_it_speaks_from() {
        let memory = MemoryRateCache::default();
        let learned = PathEstimate { rate_bytes_per_second: 1_000, round_trip: Duration::from_millis(10) };
        memory.learn(SocketAddr::from(([10, 0, 0, 1], 0)), learned);
        assert_eq!(memory.learned("[::ffff:10.0.0.1]:7000".parse().unwrap()), Some(learned));
        assert_eq!(memory.learned(SocketAddr::from(([10, 0, 0, 2], 0))), None);
    }
}
