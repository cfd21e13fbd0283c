//! Connections to other nodes, kept for a while after use. A task gives pieces to many buckets on few nodes, and a
//! handshake for each would cost more than the bytes. It never hands out a connection that a request left in an unknown
//! state: a user whose request fails drops the connection.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use net::transfer::{CarriedBytes, Carriers, Locality, TransferStream};
use protocol::{NodeId, message::client_master::Source, ticket::Ticket, wire::codec};

use crate::NodeError;

/// The connections of this node to others.
pub(crate) struct ConnectionPool {
    carriers: Carriers,
    /// Bytes to and from other nodes and clients, on connections of either side.
    pub(crate) carried: Arc<CarriedBytes>,
    idle: Mutex<BTreeMap<Peer, Vec<Idle>>>,
}

/// A node at an address: the same node at another address is another peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) address: SocketAddr,
    /// Whether the connection is unencrypted, as a ticket allows.
    pub(crate) is_plain: bool,
    /// How far away it is.
    pub(crate) locality: Locality,
}

impl Peer {
    /// The node of a source. The connection is unencrypted if its ticket allows that within `own_site` and the source
    /// is there.
    pub(crate) fn of(source: &Source, own_site: &str) -> Self {
        let within = codec::decode::<Ticket>(&source.ticket.ticket).ok().and_then(|ticket| ticket.plain_within);
        let is_plain = source.place.site == own_site && within.as_deref() == Some(own_site);
        Self { node: source.node.clone(), address: source.address, is_plain, locality: Locality::of(source.distance) }
    }
}

struct Idle {
    stream: TransferStream,
    since: Instant,
}

impl ConnectionPool {
    pub(crate) fn new(carriers: Carriers) -> Self {
        Self { carriers, carried: Arc::default(), idle: Mutex::default() }
    }

    /// An idle connection, if there is one. The peer may have closed it meanwhile; if the first message over it fails,
    /// call [`dial`](Self::dial).
    pub(crate) fn take_idle(&self, peer: &Peer) -> Option<TransferStream> {
        let mut idle = self.lock();
        let streams = idle.get_mut(peer)?;
        streams.retain(|idle| idle.since.elapsed() < IDLE_TIME_MAX && !idle.stream.is_suspect());
        let stream = streams.pop().map(|idle| idle.stream);
        if streams.is_empty() {
            idle.remove(peer);
        }
        stream
    }

    /// A new connection.
    pub(crate) async fn dial(&self, peer: &Peer) -> Result<TransferStream, NodeError> {
        let connecting = async {
            if peer.is_plain {
                return self.carriers.connect_by_tcp(peer.address, peer.node.as_str()).await;
            }
            self.carriers.connect(peer.address, peer.node.as_str(), peer.locality).await
        };
        let mut stream = connecting.await?;
        stream.count_with(Arc::clone(&self.carried));
        Ok(stream)
    }

    /// Keeps a connection on which every request has been answered in full.
    pub(crate) fn release(&self, peer: Peer, stream: TransferStream) {
        let mut idle = self.lock();
        for streams in idle.values_mut() {
            streams.retain(|idle| idle.since.elapsed() < IDLE_TIME_MAX);
        }
        idle.retain(|_, streams| !streams.is_empty());
        if idle.values().map(Vec::len).sum::<usize>() >= IDLE_MAX {
            return;
        }
        let streams = idle.entry(peer).or_default();
        if streams.len() < IDLE_PER_PEER_MAX {
            streams.push(Idle { stream, since: Instant::now() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Peer, Vec<Idle>>> {
        // Each change under this lock is complete in itself.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connections kept per node: as many as tasks of this node usually deliver to it at once.
const IDLE_PER_PEER_MAX: usize = 8;
/// Connections kept in all.
const IDLE_MAX: usize = 256;
/// How long one is kept: less than the time after which the other end closes it ([`REQUEST_IDLE_MAX`]).
///
/// [`REQUEST_IDLE_MAX`]: crate::transfer_server::connection_limits::REQUEST_IDLE_MAX
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);
