//! One end of a simulated connection: a QUIC endpoint without sockets, and the application over it, which sends (or
//! takes) as much as it can. The real TLS and the real QUIC run; only time and the network are simulated.

use std::{
    net::SocketAddr,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use net::transfer::Batches;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, FourTuple,
    ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig,
    congestion::Controller,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::{RootCertStore, crypto::ring::default_provider, pki_types::PrivateKeyDer};

/// One end.
pub(crate) struct Host {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    peer: SocketAddr,
    role: Role,
    batches: Batches,
    buffer: Vec<u8>,
}

enum Role {
    Sender { left_bytes: u64, ready_bytes: u64, stream: Option<(StreamId, u64)>, is_connected: bool },
    Receiver { received_bytes: u64, streams: Vec<StreamId> },
}

/// What both ends of a connection show each other.
pub(crate) struct Trust {
    client: Arc<QuicClientConfig>,
    server: Arc<QuicServerConfig>,
}

impl Trust {
    /// A certificate and who believes it. Ed25519, whose signatures have one length, so that every run is the same.
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let certificate = CertificateParams::new([NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let provider = Arc::new(default_provider());
        let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .unwrap();
        server.max_early_data_size = 0;
        Self {
            client: Arc::new(QuicClientConfig::try_from(client).unwrap()),
            server: Arc::new(QuicServerConfig::try_from(server).unwrap()),
        }
    }
}

impl Host {
    /// Connects to `peer` and sends `bytes`.
    pub(crate) fn sender(
        now: Instant,
        seed: u8,
        trust: &Trust,
        transport: TransportConfig,
        peer: SocketAddr,
        bytes: u64,
    ) -> Self {
        let mut endpoint = Endpoint::new(endpoint_config(seed), None, true);
        let mut config = ClientConfig::new(trust.client.clone());
        config.transport_config(Arc::new(transport));
        let connection = endpoint.connect(now, config, peer, NAME).unwrap();
        let role = Role::Sender { left_bytes: bytes, ready_bytes: u64::MAX, stream: None, is_connected: false };
        Self { endpoint, connection: Some(connection), peer, role, batches: Batches::default(), buffer: Vec::new() }
    }

    /// Takes what `peer` sends.
    pub(crate) fn receiver(seed: u8, trust: &Trust, transport: TransportConfig, peer: SocketAddr) -> Self {
        let mut config = ServerConfig::with_crypto(trust.server.clone());
        config.transport_config(Arc::new(transport));
        let endpoint = Endpoint::new(endpoint_config(seed), Some(Arc::new(config)), true);
        let role = Role::Receiver { received_bytes: 0, streams: Vec::new() };
        Self { endpoint, connection: None, peer, role, batches: Batches::default(), buffer: Vec::new() }
    }

    /// Payload that has arrived here.
    pub(crate) fn received_bytes(&self) -> u64 {
        match &self.role {
            Role::Sender { .. } => 0,
            Role::Receiver { received_bytes, .. } => *received_bytes,
        }
    }

    /// The application has so many bytes to write for now, and no more.
    pub(crate) fn ready(&mut self, bytes: u64) {
        if let Role::Sender { ready_bytes, .. } = &mut self.role {
            *ready_bytes = bytes;
        }
    }

    /// The connection's controller.
    pub(crate) fn controller(&self) -> Option<&dyn Controller> {
        self.connection.as_ref()?.1.congestion_state(noq_proto::PathId::ZERO)
    }

    /// A datagram arrives.
    pub(crate) fn handle(&mut self, now: Instant, datagram: BytesMut, send: &mut dyn FnMut(&[u8])) {
        let path = FourTuple::new(self.peer, None);
        let event = self.endpoint.handle(now, path, None, datagram, &mut self.buffer);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut self.buffer, None).ok();
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(transmit)) => split(&transmit, &self.buffer, send),
            None => {}
        }
        self.buffer.clear();
    }

    /// A timer may have run out.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|at| at <= now)
        {
            connection.handle_timeout(now);
        }
    }

    /// When the next timer runs out.
    pub(crate) fn next_timeout(&mut self) -> Option<Instant> {
        self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout())
    }

    /// Lets application and connection do what they can.
    pub(crate) fn drive(&mut self, now: Instant, send: &mut dyn FnMut(&[u8])) {
        loop {
            let Some((handle, connection)) = &mut self.connection else { return };
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(event) = connection.poll() {
                match (event, &mut self.role) {
                    (Event::Connected, Role::Sender { is_connected, .. }) => *is_connected = true,
                    (Event::Stream(StreamEvent::Opened { dir: Dir::Uni }), Role::Receiver { streams, .. }) => {
                        while let Some(id) = connection.streams().accept(Dir::Uni) {
                            streams.push(id);
                        }
                    }
                    (Event::ConnectionLost { reason }, _) => panic!("connection lost: {reason}"),
                    _ => {}
                }
            }
            match &mut self.role {
                Role::Sender { left_bytes, ready_bytes, stream, is_connected } if *is_connected => {
                    write(connection, left_bytes, ready_bytes, stream);
                }
                Role::Sender { .. } => {}
                Role::Receiver { received_bytes, streams } => read(connection, received_bytes, streams),
            }
            let mut has_sent = false;
            let segments_max = self.batches.limit(now, SEGMENTS_MAX);
            while let Some(transmit) = connection.poll_transmit(now, segments_max, &mut self.buffer) {
                self.batches.record(now, transmit.size, transmit.segment_size);
                split(&transmit, &self.buffer, send);
                self.buffer.clear();
                has_sent = true;
            }
            if !has_sent {
                return;
            }
        }
    }
}

/// Writes what the connection takes, a new stream for each range.
fn write(
    connection: &mut Connection,
    left_bytes: &mut u64,
    ready_bytes: &mut u64,
    stream: &mut Option<(StreamId, u64)>,
) {
    while *left_bytes.min(ready_bytes) > 0 {
        let (id, range_bytes) = match *stream {
            Some(open) => open,
            None => match connection.streams().open(Dir::Uni) {
                Some(id) => (id, RANGE_BYTES),
                None => return,
            },
        };
        let wanted = range_bytes.min(*left_bytes).min(*ready_bytes).min(CHUNK_BYTES);
        let mut chunks = [Bytes::from_static(&ZEROS[..wanted as usize])];
        let written = connection.send_stream(id).write_chunks(&mut &mut chunks[..]).unwrap_or(0) as u64;
        *left_bytes -= written;
        *ready_bytes -= written;
        *stream = Some((id, range_bytes - written));
        if range_bytes == written || *left_bytes == 0 {
            connection.send_stream(id).finish().unwrap();
            *stream = None;
        }
        if written == 0 {
            return;
        }
    }
}

/// Reads what there is, in whatever order it came.
fn read(connection: &mut Connection, received_bytes: &mut u64, streams: &mut Vec<StreamId>) {
    streams.retain(|id| {
        let mut stream = connection.recv_stream(*id);
        let Ok(mut chunks) = stream.read(false) else { return false };
        let is_open = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => *received_bytes += chunk.bytes.len() as u64,
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        let _ = chunks.finalize();
        is_open
    });
}

fn split(transmit: &Transmit, buffer: &[u8], send: &mut dyn FnMut(&[u8])) {
    let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
    buffer[..transmit.size].chunks(segment).for_each(send);
}

fn endpoint_config(seed: u8) -> Arc<EndpointConfig> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[seed; 64]);
    let mut config = EndpointConfig::new(Arc::new(key));
    config.rng_seed(Some([seed; 32]));
    Arc::new(config)
}

/// What the receiver is called.
const NAME: &str = "receiver";
/// Datagrams that leave in one call, as the real driver's.
const SEGMENTS_MAX: NonZeroUsize = NonZeroUsize::new(10).unwrap();
/// Bytes of a stream: a range of a file.
const RANGE_BYTES: u64 = 16 * 1024 * 1024;
const CHUNK_BYTES: u64 = 256 * 1024;
static ZEROS: [u8; CHUNK_BYTES as usize] = [0; CHUNK_BYTES as usize];
/// How exactly the real runtime keeps its timers.
pub(crate) const TIMER: Duration = Duration::from_millis(1);
