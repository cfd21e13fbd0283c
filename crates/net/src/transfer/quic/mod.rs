//! QUIC: the carrier between sites (Sector/Sphere paper, 2.4: UDT), for the paths *download*, *upload*, *replication*
//! and *job*. One UDP socket serves all connections of a process; one connection to a peer serves all conversations
//! with it. So a further one costs no round trip and starts at the speed that the others have found. Each
//! [`TransferStream`](super::TransferStream) is a bidirectional stream of its own, with lanes beside it ([`socket`],
//! [`lanes`]). It never interprets what is sent on it.

mod batches;
mod config;
mod endpoint;
mod lanes;
mod listener;
mod rate_cache;
mod socket;
pub mod udt;

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use noq::{
    ClientConfig, ConnectError, Connection, Endpoint, VarInt,
    crypto::rustls::QuicClientConfig,
    rustls::{self, client::Resumption},
};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

pub use batches::Batches;
pub use config::{QuicSettings, base_transport_config};
pub use endpoint::SOCKET_BUFFER_BYTES;
pub(super) use listener::QuicListener;
pub use rate_cache::{MemoryRateCache, RateCache};
pub(super) use socket::QuicSocket;
use socket::{SharedConnection, WeakSharedConnection, connection_failure};

use super::{
    Carrier, TransferStream,
    channel::Channel,
    handshake::{HANDSHAKE_DEADLINE, identity_error},
};
use crate::{
    NetError,
    identity::{TlsIdentity, server_name},
};

/// Connects by QUIC. Clones share the socket and the connections.
#[derive(Clone)]
pub struct QuicCarrier {
    inner: Arc<Inner>,
}

struct Inner {
    identity: TlsIdentity,
    settings: QuicSettings,
    endpoints: Mutex<Endpoints>,
    peers: Mutex<BTreeMap<Peer, Arc<AsyncMutex<PeerConnection>>>>,
}

/// The sockets, opened when they are first needed.
#[derive(Default)]
struct Endpoints {
    v4: Option<Endpoint>,
    v6: Option<Endpoint>,
}

/// A role at an address.
type Peer = (SocketAddr, String);

/// The connection to a peer, as long as there is a conversation on it.
#[derive(Default)]
struct PeerConnection {
    connection: Option<WeakSharedConnection>,
}

impl QuicCarrier {
    /// A carrier that shows `identity`'s certificate, if it has one. It takes a UDP port of its own when it first
    /// connects.
    pub fn new(identity: TlsIdentity, settings: QuicSettings) -> Self {
        Self::over(identity, settings, Endpoints::default())
    }

    /// A carrier that connects from the port where this process listens.
    pub(super) fn with_listener(listener: &QuicListener, identity: TlsIdentity, settings: QuicSettings) -> Self {
        let endpoint = Some(listener.endpoint().clone());
        let is_v6 = listener.endpoint().local_addr().is_ok_and(|address| address.is_ipv6());
        let endpoints = if is_v6 { Endpoints { v4: None, v6: endpoint } } else { Endpoints { v4: endpoint, v6: None } };
        Self::over(identity, settings, endpoints)
    }

    fn over(identity: TlsIdentity, settings: QuicSettings, endpoints: Endpoints) -> Self {
        let endpoints = Mutex::new(endpoints);
        Self { inner: Arc::new(Inner { identity, settings, endpoints, peers: Mutex::default() }) }
    }

    /// Ends all connections and tells the peers, so that none of them waits in vain. For a process that is about to
    /// end.
    pub async fn close(&self) {
        let endpoints: Vec<_> = {
            let endpoints = self.inner.endpoints();
            [&endpoints.v4, &endpoints.v6].into_iter().flatten().cloned().collect()
        };
        for endpoint in &endpoints {
            endpoint.close(VarInt::from_u32(0), b"");
        }
        for endpoint in &endpoints {
            // The rest, several round trips, is for peers that did not hear it: that is not worth a person's time.
            let _ = timeout(FAREWELL, endpoint.wait_all_draining()).await;
        }
    }

    /// The connection to `server` at `address`: the existing one, or a new one. Concurrent callers wait for the same
    /// one.
    async fn connection(&self, address: SocketAddr, server: &str) -> Result<SharedConnection, NetError> {
        let line = self.inner.peer_connection((address, server.to_owned()));
        let mut line = line.lock().await;
        let standing = line.connection.as_ref().and_then(WeakSharedConnection::upgrade);
        if let Some(shared) = standing.filter(SharedConnection::is_good) {
            return Ok(shared);
        }
        let shared = SharedConnection::new(
            self.inner.connect(address, server).await?,
            true,
            self.inner.settings.learning(address),
        );
        line.connection = Some(shared.downgrade());
        Ok(shared)
    }
}

impl Carrier for QuicCarrier {
    async fn connect(&self, address: SocketAddr, server: &str) -> Result<TransferStream, NetError> {
        let shared = self.connection(address, server).await?;
        let opened = timeout(HANDSHAKE_DEADLINE, shared.connection.open_bi()).await;
        let (send, receive) = match opened {
            Ok(opened) => opened.map_err(|error| NetError::Connect {
                server: server.to_owned(),
                address,
                source: connection_failure(error),
            })?,
            Err(_) => {
                let operation = format!("opening a further conversation with {server} at {address}");
                return Err(NetError::Deadline { operation, after: HANDSHAKE_DEADLINE });
            }
        };
        let socket = QuicSocket::new(shared, send, receive);
        Ok(TransferStream::new(Channel::Quic(Box::new(socket)), address))
    }
}

impl Inner {
    fn peer_connection(&self, peer: Peer) -> Arc<AsyncMutex<PeerConnection>> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= PEERS_SWEEP {
            // Entries that nobody waits for and whose connection has gone.
            peers.retain(|_, line| Arc::strong_count(line) > 1 || line.try_lock().is_ok_and(|line| line.is_alive()));
        }
        Arc::clone(peers.entry(peer).or_default())
    }

    async fn connect(&self, address: SocketAddr, server: &str) -> Result<Connection, NetError> {
        let name = server_name(server)?.to_str().into_owned();
        let endpoint = self.endpoints().to(address, &self.identity)?;
        let mut configuration = self.configuration()?;
        configuration.transport_config(self.settings.to_peer(address));
        let peer = || format!("{server} at {address}");
        let connecting = endpoint.connect_with(configuration, address, &name).map_err(|error| match error {
            ConnectError::EndpointStopping => NetError::Connect {
                server: server.to_owned(),
                address,
                source: io::ErrorKind::ConnectionAborted.into(),
            },
            other => NetError::Handshake { peer: peer(), why: other.to_string() },
        })?;
        let Ok(connected) = timeout(HANDSHAKE_DEADLINE, connecting).await else {
            let source = io::ErrorKind::TimedOut.into();
            return Err(NetError::Connect { server: server.to_owned(), address, source });
        };
        connected.map_err(|error| {
            let source = connection_failure(error);
            match identity_error(&source) {
                Some(why) => NetError::Handshake { peer: peer(), why: why.to_owned() },
                None => NetError::Connect { server: server.to_owned(), address, source },
            }
        })
    }

    /// Our configuration for a peer that we connect to now.
    fn configuration(&self) -> Result<ClientConfig, NetError> {
        let mut tls: rustls::ClientConfig = (*self.identity.client_config()).clone();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        // QUIC cannot resume a session of TCP; and connections are shared, so new ones are rare.
        tls.resumption = Resumption::disabled();
        let crypto = QuicClientConfig::try_from(tls)
            .map_err(|error| NetError::Certificate { operation: "speak QUIC", why: error.to_string() })?;
        Ok(ClientConfig::new(Arc::new(crypto)))
    }

    fn endpoints(&self) -> MutexGuard<'_, Endpoints> {
        // Each change under this lock is complete in itself.
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PeerConnection {
    fn is_alive(&self) -> bool {
        self.connection.as_ref().is_some_and(|line| line.upgrade().is_some())
    }
}

impl Endpoints {
    /// The endpoint from which `peer` can be reached.
    fn to(&mut self, peer: SocketAddr, identity: &TlsIdentity) -> Result<Endpoint, NetError> {
        let (slot, any): (_, SocketAddr) = match peer {
            // A socket for all addresses of both families reaches both.
            SocketAddr::V4(_) if self.v4.is_none() && self.v6.is_some() => {
                (&mut self.v6, (Ipv6Addr::UNSPECIFIED, 0).into())
            }
            SocketAddr::V4(_) => (&mut self.v4, (Ipv4Addr::UNSPECIFIED, 0).into()),
            SocketAddr::V6(_) => (&mut self.v6, (Ipv6Addr::UNSPECIFIED, 0).into()),
        };
        if let Some(endpoint) = slot {
            return Ok(endpoint.clone());
        }
        let endpoint = endpoint::open(any, identity.secret())?;
        *slot = Some(endpoint.clone());
        Ok(endpoint)
    }
}

/// The protocol name that we speak over QUIC, so that no other service is taken for ours.
const ALPN: &[u8] = b"sector";
/// How long the closing packets of a connection may take to leave.
const FAREWELL: Duration = Duration::from_millis(20);
/// Number of peers from which on entries without a connection are removed.
const PEERS_SWEEP: usize = 1_024;

#[cfg(test)]
mod tests;
