//! TCP with TLS 1.3: how a connection is made ([`TcpCarrier`]) and accepted ([`Listener`], which also accepts QUIC's
//! where wanted). It serves every door where bytes or first messages travel inside a site.
//!
//! A handshake is never done inside `accept`, so a silent caller holds up nobody; and a connection is never made
//! without one.

use std::{
    future::pending,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use rustls::{ClientConnection, Connection, ServerConnection};
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, sleep, timeout},
};

use super::{
    Carrier, TransferStream,
    carrier::Dial,
    channel::Channel,
    handshake::{CONNECT_DEADLINE, HANDSHAKE_DEADLINE, identity_error},
    local_network::is_on_local_network,
    quic::{QuicCarrier, QuicListener, QuicSettings},
    tls_socket::TlsSocket,
};
use crate::{
    NetError,
    identity::{TlsIdentity, server_name},
    unauthenticated::{UnauthenticatedLimits, UnauthenticatedPeers, UnauthenticatedSlot},
};

/// Connects by TCP and TLS 1.3.
#[derive(Clone)]
pub struct TcpCarrier {
    identity: TlsIdentity,
    from: Option<IpAddr>,
}

impl TcpCarrier {
    /// A carrier that shows `identity`'s certificate, if it has one.
    pub fn new(identity: TlsIdentity) -> Self {
        Self { identity, from: None }
    }

    /// Connects from this address of the machine, instead of the one that the system would choose.
    #[must_use]
    pub fn with_local_address(self, address: IpAddr) -> Self {
        Self { from: Some(address), ..self }
    }
}

impl Carrier for TcpCarrier {
    async fn connect(&self, address: SocketAddr, server: &str) -> Result<TransferStream, NetError> {
        let (dialed, _) = self.dial(address, server).await?;
        self.finish(dialed, server).await
    }
}

/// A TCP connection that we made, before its TLS handshake.
pub(super) struct Dialed {
    socket: TcpStream,
    address: SocketAddr,
}

impl Dial for TcpCarrier {
    type Dialed = Dialed;

    async fn dial(&self, address: SocketAddr, server: &str) -> Result<(Dialed, Duration), NetError> {
        // An invalid name is reported before anything is sent.
        server_name(server)?;
        let is_near = address.ip().is_loopback() || is_on_local_network(address);
        let socket =
            socket_for(address, is_near).map_err(|source| NetError::Socket { operation: "open a socket", source })?;
        let failed = |source| NetError::Connect { server: server.to_owned(), address, source };
        if let Some(from) = self.from {
            socket.bind(SocketAddr::new(from, 0)).map_err(failed)?;
        }
        let began = Instant::now();
        let socket = timeout(CONNECT_DEADLINE, socket.connect(address))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(failed)?;
        let round_trip = began.elapsed();
        set_options(&socket).map_err(failed)?;
        Ok((Dialed { socket, address }, round_trip))
    }

    async fn finish(&self, Dialed { socket, address }: Dialed, server: &str) -> Result<TransferStream, NetError> {
        let name = server_name(server)?;
        let peer = || format!("{server} at {address}");
        let session = ClientConnection::new(self.identity.client_config(), name)
            .map_err(|error| NetError::Handshake { peer: peer(), why: error.to_string() })?;
        tls_handshake(socket, session.into(), address, peer).await
    }
}

/// A listening port.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    identity: TlsIdentity,
    quic: Option<QuicListener>,
    unauthenticated: Arc<UnauthenticatedPeers>,
}

impl Listener {
    /// Listens on `address`; port 0 takes any free one.
    ///
    /// # Errors
    /// [`NetError::Bind`], which says in words that the port is in use; [`NetError::Certificate`] when `identity` is a
    /// client's, which has no certificate to show.
    pub async fn bind(address: SocketAddr, identity: TlsIdentity) -> Result<Self, NetError> {
        identity.server_config()?;
        let failed = |source| NetError::Bind { address, source };
        // Accepted sockets inherit the buffers, and callers of any address but this may be far away.
        let socket = socket_for(address, address.ip().is_loopback()).map_err(failed)?;
        // A role that restarts gets its port back at once; a port with a listener is refused all the same.
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        let socket = socket.listen(BACKLOG_CONNECTIONS).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let strangers = UnauthenticatedPeers::new(UnauthenticatedLimits::for_this_process());
        Ok(Self { socket, address, identity, quic: None, unauthenticated: strangers })
    }

    /// Listens on `address` for TCP, and on the UDP port of the same number for QUIC. Port 0 takes any that is free for
    /// both.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn bind_both(
        address: SocketAddr,
        identity: TlsIdentity,
        settings: QuicSettings,
    ) -> Result<Self, NetError> {
        for attempt in 1.. {
            let mut listener = Self::bind(address, identity.clone()).await?;
            match QuicListener::bind(listener.address, &identity, settings.clone(), &listener.unauthenticated) {
                Ok(quic) => {
                    listener.quic = Some(quic);
                    return Ok(listener);
                }
                // The free TCP port is taken for UDP: try the next.
                Err(_) if address.port() == 0 && attempt < FREE_PORT_ATTEMPTS => {}
                // An earlier run of this role, in this very process, still tells its peers that it has ended.
                Err(NetError::Bind { source, .. })
                    if source.kind() == io::ErrorKind::AddrInUse && attempt < TAKEN_PORT_ATTEMPTS =>
                {
                    drop(listener);
                    sleep(TAKEN_PORT_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Self::bind(address, identity).await
    }

    /// Sets the room for unauthenticated peers, instead of [what suits this
    /// process](UnauthenticatedLimits::for_this_process). For a listener of TCP alone.
    #[must_use]
    pub fn with_limits(mut self, room: UnauthenticatedLimits) -> Self {
        self.unauthenticated = UnauthenticatedPeers::new(room);
        self
    }

    /// The peers that have connected and proved nothing yet.
    pub fn unauthenticated(&self) -> &Arc<UnauthenticatedPeers> {
        &self.unauthenticated
    }

    /// A carrier that connects by QUIC from the port of this listener; `None` where it listens for TCP alone.
    pub fn quic_carrier(&self, settings: QuicSettings) -> Option<QuicCarrier> {
        let quic = self.quic.as_ref()?;
        Some(QuicCarrier::with_listener(quic, self.identity.clone(), settings))
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next TCP connection, or the next conversation over QUIC. The TLS handshake of a TCP connection has not been
    /// done yet, so that a silent peer holds up nobody. The caller has a [slot](crate::unauthenticated) among
    /// strangers, and is held to it until [`TransferStream::admit`]. Callers for whom there is no slot are disconnected
    /// here. Can be cancelled without loss.
    ///
    /// # Errors
    /// [`NetError::Accept`] when the system has no room for another connection; the call may simply be repeated.
    pub async fn accept(&self) -> Result<Incoming, NetError> {
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                Some(stream) = conversation(self.quic.as_ref()) => {
                    return Ok(Incoming { peer: stream.peer(), arrival: Arrival::Quic(stream) });
                }
            };
            match accepted {
                Ok((socket, peer)) => match self.unauthenticated.admit(peer.ip()) {
                    Some(place) => {
                        return Ok(Incoming { peer, arrival: Arrival::Tcp(socket, self.identity.clone(), place) });
                    }
                    None => tracing::debug!(%peer, "hung up on one whose address has enough connections"),
                },
                // The caller hung up while it waited in the queue: that concerns only the caller.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(source) => {
                    // Out of descriptors or memory. The connection stays in the queue, so a caller that retries at once
                    // would spin. An unauthenticated peer makes room for it.
                    self.unauthenticated.evict_oldest();
                    sleep(ACCEPT_PAUSE).await;
                    return Err(NetError::Accept { address: self.address, source });
                }
            }
        }
    }
}

/// The next conversation over QUIC; it never comes where the listener has no QUIC.
async fn conversation(quic: Option<&QuicListener>) -> Option<TransferStream> {
    match quic {
        Some(quic) => quic.accept().await,
        None => pending().await,
    }
}

/// A connection that someone made to us: over TCP before its TLS handshake, or a conversation over QUIC.
pub struct Incoming {
    peer: SocketAddr,
    arrival: Arrival,
}

enum Arrival {
    Tcp(TcpStream, TlsIdentity, UnauthenticatedSlot),
    Quic(TransferStream),
}

impl Incoming {
    /// The caller's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether it has proved nothing yet, and so has one of the slots of strangers. A conversation over an
    /// authenticated connection is counted only by the caller of this function.
    pub fn is_unauthenticated(&self) -> bool {
        match &self.arrival {
            Arrival::Tcp(..) => true,
            Arrival::Quic(stream) => stream.slot().is_some(),
        }
    }

    /// Does the TLS handshake where it is still to be done, within [`HANDSHAKE_DEADLINE`].
    ///
    /// # Errors
    /// [`NetError::Handshake`] when the caller does not speak our TLS or shows a foreign certificate.
    /// [`NetError::Deadline`] when it stays silent; [`NetError::Unauthenticated`] when its slot goes to another.
    pub async fn handshake(self) -> Result<TransferStream, NetError> {
        let (socket, identity, place) = match self.arrival {
            Arrival::Quic(stream) => return Ok(stream),
            Arrival::Tcp(socket, identity, place) => (socket, identity, place),
        };
        let peer = self.peer;
        set_options(&socket).map_err(|source| NetError::Socket { operation: "set up a connection", source })?;
        let session = ServerConnection::new(identity.server_config()?)
            .map_err(|error| NetError::Handshake { peer: peer.to_string(), why: error.to_string() })?;
        let shaken = place.run_bounded(tls_handshake(socket, session.into(), peer, || peer.to_string())).await;
        let stream = shaken.map_err(|over| NetError::Unauthenticated { peer, over })??;
        Ok(stream.with_slot(Arc::new(place)))
    }
}

/// The TLS handshake with its deadline.
async fn tls_handshake(
    socket: TcpStream,
    session: Connection,
    peer: SocketAddr,
    peer_name: impl Fn() -> String,
) -> Result<TransferStream, NetError> {
    match timeout(HANDSHAKE_DEADLINE, TlsSocket::handshake(socket, session)).await {
        Ok(Ok(socket)) => Ok(TransferStream::new(Channel::Tls(socket), peer)),
        Ok(Err(error)) => {
            let why = match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                    "it hung up; is that a port of sector?".to_owned()
                }
                _ => identity_error(&error).map_or_else(|| error.to_string(), str::to_owned),
            };
            Err(NetError::Handshake { peer: peer_name(), why })
        }
        Err(_) => Err(NetError::Deadline {
            operation: format!("the TLS handshake with {}", peer_name()),
            after: HANDSHAKE_DEADLINE,
        }),
    }
}

/// A TCP socket for `address`. A near one gets large buffers at once. They must be set before the connection, since its
/// first packet fixes the window's scale. For a far one the system chooses the size: ours would be too small for a long
/// fat pipe, and would stay so.
fn socket_for(address: SocketAddr, is_near: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if is_near && grants_large_buffers() {
        socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
        socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    }
    Ok(socket)
}

/// Whether this system grants [`SOCKET_BUFFER_BYTES`]. Where its limit is lower, asking would be worse than not asking.
/// Linux would cut the request to the limit and stop growing the buffer by itself.
fn grants_large_buffers() -> bool {
    static GRANTED: OnceLock<bool> = OnceLock::new();
    *GRANTED.get_or_init(|| {
        let probe = || -> io::Result<bool> {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            let wanted = SOCKET_BUFFER_BYTES as usize;
            socket.set_recv_buffer_size(wanted)?;
            socket.set_send_buffer_size(wanted)?;
            Ok(socket.recv_buffer_size()? >= wanted && socket.send_buffer_size()? >= wanted)
        };
        probe().unwrap_or(false)
    })
}

/// The options that both ends set on a connection.
fn set_options(socket: &TcpStream) -> io::Result<()> {
    // Messages are written whole; holding them back for more would only add a round trip.
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    // A receiver waits for a message without a deadline: a peer that lost its power must still be noticed.
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    socket.set_tcp_keepalive(&keepalive)
}

/// Bytes wanted in each direction's socket buffer: twice 1 Gbit/s over 16 ms, and a few frames ahead on a local link.
const SOCKET_BUFFER_BYTES: u32 = 4 * 1024 * 1024;
/// Connections that may wait for `accept`: all nodes of a cloud that connect to one node at once.
const BACKLOG_CONNECTIONS: u32 = 1024;
/// Free TCP ports tried until one is free for UDP too.
const FREE_PORT_ATTEMPTS: u32 = 16;
/// Tries for a port that is free for TCP and taken for UDP ...
const TAKEN_PORT_ATTEMPTS: u32 = 40;
/// ... with pauses between them, together two seconds: QUIC lets a connection die for three of its timeouts.
const TAKEN_PORT_PAUSE: Duration = Duration::from_millis(50);
/// Pause before a failed `accept` is reported, so that a loop around it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Silence after which the system asks whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Time between two such probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long sent bytes may stay unacknowledged, and probes unanswered, before the connection counts as cut.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
