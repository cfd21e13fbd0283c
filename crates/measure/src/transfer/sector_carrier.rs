//! This system's ends: frames over its carriers, sealed and with checksums, from memory to memory. It never touches a
//! disk.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, mpsc::SyncSender},
};

use net::{
    NetError,
    identity::{Authority, TlsIdentity},
    transfer::{
        Carrier, ControllerKind, Listener, MemoryRateCache, QuicCarrier, QuicSettings, StreamFrame, TcpCarrier,
        TransferStream,
    },
};
use protocol::limits::FRAME_BYTES_MAX;
use tokio::task::JoinSet;

use super::flow::{ByteCounter, Until};

/// Where a receiver can be reached, and which authority to trust.
pub(super) struct ReceiverEndpoint {
    pub(super) address: SocketAddr,
    pub(super) authority_pem: String,
}

/// How to send.
#[derive(Clone, Debug)]
pub(super) enum SendCarrier {
    Tcp,
    Quic(ControllerKind),
    /// With the rates learned from earlier transfers.
    Known(QuicSettings),
}

impl SendCarrier {
    /// QUIC that remembers the rates of peers.
    pub(super) fn known(controller: ControllerKind) -> Self {
        Self::Known(QuicSettings {
            controller,
            rate_cache: Some(Arc::new(MemoryRateCache::default())),
            ..QuicSettings::default()
        })
    }
}

/// Receives this many flows to their end, one after the other or at once.
pub(super) async fn receive(
    ip: IpAddr,
    flows: u32,
    meter: &Arc<ByteCounter>,
    say: &SyncSender<ReceiverEndpoint>,
) -> Result<(), String> {
    let authority = Authority::create("bench").map_err(text)?;
    let credentials = authority.issue(NODE).map_err(text)?;
    let identity = TlsIdentity::role(authority.certificate_pem(), &credentials).map_err(text)?;
    let listener =
        Listener::bind_both(SocketAddr::new(ip, 0), identity, QuicSettings::default()).await.map_err(text)?;
    let door = ReceiverEndpoint { address: listener.address(), authority_pem: authority.certificate_pem().to_owned() };
    say.send(door).map_err(|_| "the sender is gone".to_owned())?;
    let mut receiving = JoinSet::new();
    for _ in 0..flows {
        let incoming = listener.accept().await.map_err(text)?;
        let meter = Arc::clone(meter);
        receiving.spawn(async move {
            let mut stream = incoming.handshake().await?;
            stream.admit();
            take(stream, &meter).await
        });
    }
    all(receiving).await
}

/// Sends this many flows at once, each over a connection of its own.
pub(super) async fn send(door: &ReceiverEndpoint, by: SendCarrier, flows: u32, until: Until) -> Result<(), String> {
    let identity = TlsIdentity::client(&door.authority_pem).map_err(text)?;
    let mut sending = JoinSet::new();
    for _ in 0..flows {
        let (identity, by, address) = (identity.clone(), by.clone(), door.address);
        sending.spawn(async move {
            let stream = match by {
                SendCarrier::Tcp => TcpCarrier::new(identity).connect(address, NODE).await?,
                SendCarrier::Quic(controller) => {
                    let settings = QuicSettings { controller, ..QuicSettings::default() };
                    QuicCarrier::new(identity, settings).connect(address, NODE).await?
                }
                SendCarrier::Known(settings) => QuicCarrier::new(identity, settings).connect(address, NODE).await?,
            };
            give(stream, until).await
        });
    }
    all(sending).await
}

async fn take(mut stream: TransferStream, meter: &ByteCounter) -> Result<(), NetError> {
    stream.receive::<()>().await?;
    let (mut frame, mut bytes) = (StreamFrame::default(), 0);
    while stream.receive_frame(&mut frame).await? {
        meter.add(frame.payload.len());
        bytes += frame.payload.len() as u64;
    }
    stream.send(&bytes).await?;
    stream.close().await;
    Ok(())
}

async fn give(mut stream: TransferStream, until: Until) -> Result<(), NetError> {
    stream.queue(&()).await?;
    let payload: Vec<u8> = (0..FRAME_BYTES).map(|at| ((at * 31) >> 3) as u8).collect();
    let mut sent = 0;
    while let Some(bytes) = until.next(sent, FRAME_BYTES) {
        stream.send_frame(&payload[..bytes]).await?;
        sent += bytes as u64;
    }
    stream.end_frames().await?;
    let received: u64 = stream.receive().await?;
    stream.close().await;
    if received == sent {
        Ok(())
    } else {
        Err(NetError::TooLong { what: "a flow", bytes: received, bytes_max: sent as usize })
    }
}

async fn all(mut ends: JoinSet<Result<(), NetError>>) -> Result<(), String> {
    while let Some(ended) = ends.join_next().await {
        ended.map_err(|error| error.to_string())?.map_err(text)?;
    }
    Ok(())
}

fn text(error: NetError) -> String {
    error.to_string()
}

/// The role of the receiver.
const NODE: &str = "node-1";
/// Bytes of each frame.
const FRAME_BYTES: usize = FRAME_BYTES_MAX / 4;
