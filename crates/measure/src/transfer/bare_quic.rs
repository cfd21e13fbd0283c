//! The QUIC library by itself, as its users would set it up for bulk data: BBR, windows sized for the path, and eight
//! streams. What this system's carrier adds must not make it slower than this. It never adds frames or checksums.

use std::{
    error::Error,
    iter,
    net::{IpAddr, SocketAddr},
    sync::{Arc, mpsc::SyncSender},
};

use bytes::Bytes;
use net::identity::{Authority, Credentials};
use noq::{
    ClientConfig, Connection, Endpoint, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt,
    congestion::Bbr3Config,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
    rustls::{
        self, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};
use tokio::task::JoinSet;

use super::{
    flow::{ByteCounter, Until},
    sector_carrier::ReceiverEndpoint,
};

/// Accepts this many connections, each with its streams.
pub(super) async fn receive(
    ip: IpAddr,
    flows: u32,
    meter: &Arc<ByteCounter>,
    say: &SyncSender<ReceiverEndpoint>,
) -> Result<(), String> {
    let authority = Authority::create("bench").map_err(text)?;
    let credentials = authority.issue(NODE).map_err(text)?;
    let mut configuration = ServerConfig::with_crypto(Arc::new(server_tls(&credentials)?));
    configuration.transport_config(transport());
    let endpoint = Endpoint::server(configuration, SocketAddr::new(ip, 0)).map_err(text)?;
    let address = endpoint.local_addr().map_err(text)?;
    let door = ReceiverEndpoint { address, authority_pem: authority.certificate_pem().to_owned() };
    say.send(door).map_err(|_| "the sender is gone".to_owned())?;
    let mut receiving = JoinSet::new();
    for _ in 0..flows {
        let connection = endpoint.accept().await.ok_or("the endpoint ended")?.await.map_err(text)?;
        for _ in 0..STREAMS {
            let (connection, meter) = (connection.clone(), Arc::clone(meter));
            receiving.spawn(async move { take(&connection, &meter).await });
        }
    }
    all(receiving).await?;
    endpoint.wait_idle().await;
    Ok(())
}

/// Sends over this many connections.
pub(super) async fn send(door: &ReceiverEndpoint, flows: u32, until: Until) -> Result<(), String> {
    let mut sending = JoinSet::new();
    for _ in 0..flows {
        let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0))).map_err(text)?;
        let mut configuration = ClientConfig::new(Arc::new(client_tls(door)?));
        configuration.transport_config(transport());
        let name = format!("{NODE}.sector");
        let connecting = endpoint.connect_with(configuration, door.address, &name).map_err(text)?;
        let connection = connecting.await.map_err(text)?;
        let each = match until {
            Until::Bytes(bytes, end) => Until::Bytes(bytes / u64::from(STREAMS), end),
            moment => moment,
        };
        for _ in 0..STREAMS {
            let connection = connection.clone();
            sending.spawn(async move { give(&connection, each).await });
        }
    }
    all(sending).await
}

async fn take(connection: &Connection, meter: &ByteCounter) -> Result<(), String> {
    let (mut send, mut receive) = connection.accept_bi().await.map_err(text)?;
    while let Some(piece) = receive.read_chunk(usize::MAX).await.map_err(text)? {
        meter.add(piece.len());
    }
    send.write_all(b"!").await.map_err(text)?;
    send.finish().map_err(text)?;
    let _ = send.stopped().await;
    Ok(())
}

async fn give(connection: &Connection, until: Until) -> Result<(), String> {
    let (mut send, mut receive) = connection.open_bi().await.map_err(text)?;
    let payload: Bytes = (0..PIECE_BYTES).map(|at| ((at * 31) >> 3) as u8).collect();
    let mut sent = 0;
    while let Some(bytes) = until.next(sent, PIECE_BYTES) {
        send.write_chunk(payload.slice(..bytes)).await.map_err(text)?;
        sent += bytes as u64;
    }
    send.finish().map_err(text)?;
    receive.read_to_end(1).await.map_err(text)?;
    Ok(())
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(1_472);
    transport
        .congestion_controller_factory(Arc::new(Bbr3Config::default()))
        .mtu_discovery_config(Some(discovery))
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(2 * u64::from(WINDOW_BYTES));
    Arc::new(transport)
}

fn server_tls(credentials: &Credentials) -> Result<QuicServerConfig, String> {
    let certificate = CertificateDer::from_pem_slice(credentials.certificate_pem.as_bytes()).map_err(text)?;
    let key = PrivateKeyDer::from_pem_slice(credentials.key_pem.as_bytes()).map_err(text)?;
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(text)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(text)?;
    QuicServerConfig::try_from(tls).map_err(text)
}

fn client_tls(door: &ReceiverEndpoint) -> Result<QuicClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(door.authority_pem.as_bytes()).map_err(text)?).map_err(text)?;
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(text)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    QuicClientConfig::try_from(tls).map_err(text)
}

async fn all(mut ends: JoinSet<Result<(), String>>) -> Result<(), String> {
    while let Some(ended) = ends.join_next().await {
        ended.map_err(text)??;
    }
    Ok(())
}

/// An error with its causes: "connection lost" alone does not say why.
fn text(error: impl Into<Box<dyn Error>>) -> String {
    let error = error.into();
    let causes = iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The role of the receiver.
const NODE: &str = "node-1";
/// Streams of a connection.
const STREAMS: u32 = 8;
/// Bytes handed to the library at once.
const PIECE_BYTES: usize = 256 * 1024;
/// Bytes of a stream that may be in flight.
const WINDOW_BYTES: u32 = 64 * 1024 * 1024;
