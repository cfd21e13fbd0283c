//! Real connections over the loopback; losses come from a relay that drops by count, so no run differs in what is lost.
#![allow(clippy::unwrap_used)]

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use protocol::limits::FRAME_BYTES_MAX;
use tokio::net::UdpSocket;

use super::*;
use crate::{
    identity::{Authority, TlsIdentity},
    transfer::{Carrier, Listener, QuicCarrier, QuicSettings, StreamFrame, TcpCarrier, TransferStream},
};

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A listener for both carriers, and the identity of a client.
async fn cloud() -> (Listener, TlsIdentity) {
    let authority = Authority::create("cloud").unwrap();
    let role = TlsIdentity::role(authority.certificate_pem(), &authority.issue("node-1").unwrap()).unwrap();
    let listener = Listener::bind_both(any_port(), role, QuicSettings::default()).await.unwrap();
    (listener, TlsIdentity::client(authority.certificate_pem()).unwrap())
}

async fn pair(carrier: &impl Carrier, listener: &Listener, address: SocketAddr) -> (TransferStream, TransferStream) {
    let connecting = async {
        let mut ours = carrier.connect(address, "node-1").await.unwrap();
        // A conversation over QUIC is there for the other end when its first word is.
        ours.send(&()).await.unwrap();
        ours
    };
    let accepting = async {
        let mut theirs = listener.accept().await.unwrap().handshake().await.unwrap();
        theirs.admit();
        theirs.receive::<()>().await.unwrap();
        theirs
    };
    tokio::join!(connecting, accepting)
}

/// Sends frames, and waits until the other end has them all and has said so.
async fn send(ours: &mut TransferStream, theirs: &mut TransferStream, frames: usize) {
    let sending = async {
        for _ in 0..frames {
            ours.send_frame(&vec![7; FRAME_BYTES_MAX]).await.unwrap();
        }
        ours.end_frames().await.unwrap();
        ours.receive::<()>().await.unwrap();
    };
    let receiving = async {
        let mut frame = StreamFrame::default();
        while theirs.receive_frame(&mut frame).await.unwrap() {}
        theirs.send(&()).await.unwrap();
    };
    tokio::join!(sending, receiving);
}

/// Both carriers count what leaves, at the end that sends it, and keep it when the connection has ended.
async fn counts_what_it_sends(carrier: &impl Carrier, listener: &Listener) {
    let (mut ours, mut theirs) = pair(carrier, listener, listener.address()).await;
    let (sender, receiver) = (LinkMeter::default(), LinkMeter::default());
    send(&mut ours, &mut theirs, 4).await;
    ours.meter_with(&sender);
    theirs.meter_with(&receiver);
    let first = sender.counts();
    let least = 4 * FRAME_BYTES_MAX as u64 / PACKET_BYTES_MAX;
    assert!(first.sent_packets >= least, "what it sent before it had a meter counts too: {first:?}");
    assert!(receiver.counts().sent_packets < first.sent_packets, "answers are few: {:?}", receiver.counts());
    let round_trip = Duration::from_micros(first.round_trip_micros / first.sent_packets);
    assert!(round_trip > Duration::ZERO && round_trip < Duration::from_secs(5), "{round_trip:?}");
    // A second meter gets nothing, and a second reading without traffic adds next to nothing.
    let another = LinkMeter::default();
    ours.meter_with(&another);
    send(&mut ours, &mut theirs, 8).await;
    let second = sender.counts();
    assert!(second.sent_packets >= first.sent_packets + 2 * least, "{first:?} {second:?}");
    assert_eq!(another.counts(), TransportCounts::default());
    send(&mut ours, &mut theirs, 8).await;
    drop(ours);
    let last = sender.counts();
    assert!(last.sent_packets >= second.sent_packets + 2 * least, "the last reading was taken: {second:?} {last:?}");
    assert!(sender.lock().connections.is_empty(), "an ended connection is not kept");
    assert_eq!(sender.counts(), last);
}

#[tokio::test]
async fn what_leaves_by_tcp_is_counted_and_kept() {
    let (listener, identity) = cloud().await;
    counts_what_it_sends(&TcpCarrier::new(identity), &listener).await;
}

#[tokio::test]
async fn what_leaves_by_quic_is_counted_and_kept() {
    let (listener, identity) = cloud().await;
    counts_what_it_sends(&QuicCarrier::new(identity, QuicSettings::default()), &listener).await;
}

#[tokio::test]
async fn conversations_that_share_a_connection_count_it_once_until_the_last_ends() {
    let (listener, identity) = cloud().await;
    let carrier = QuicCarrier::new(identity, QuicSettings::default());
    let (mut ours, mut theirs) = pair(&carrier, &listener, listener.address()).await;
    let (mut further, _theirs) = pair(&carrier, &listener, listener.address()).await;
    let meter = LinkMeter::default();
    ours.meter_with(&meter);
    further.meter_with(&meter);
    assert_eq!(meter.lock().connections.len(), 1);
    drop(further);
    let before = meter.counts();
    send(&mut ours, &mut theirs, 4).await;
    assert!(meter.counts().sent_packets > before.sent_packets, "it goes on with the conversation that is left");
    assert_eq!(meter.lock().connections.len(), 1);
}

#[tokio::test]
async fn ended_connections_do_not_gather_where_nobody_asks() {
    let meter = LinkMeter::default();
    for _ in 0..10_000 {
        // No socket has this number.
        drop(meter.add(TransportHandle::Tcp(-1)));
    }
    assert!(meter.lock().connections.capacity() < 100);
    assert_eq!(meter.counts(), TransportCounts::default());
}

/// Passes datagrams between a client and `server`, and drops every twentieth full one of the client's, which it counts.
async fn lossy_relay(server: SocketAddr, dropped: Arc<AtomicU64>) -> SocketAddr {
    let (near, far) = (UdpSocket::bind(any_port()).await.unwrap(), UdpSocket::bind(any_port()).await.unwrap());
    far.connect(server).await.unwrap();
    let address = near.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let (mut client, mut full) = (None, 0u64);
        loop {
            tokio::select! {
                Ok((bytes, from)) = near.recv_from(&mut up) => {
                    client = Some(from);
                    full += u64::from(bytes >= FULL_BYTES);
                    if bytes >= FULL_BYTES && full % 20 == 0 {
                        dropped.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let _ = far.send(&up[..bytes]).await;
                }
                Ok(bytes) = far.recv(&mut down) => {
                    if let Some(client) = client {
                        let _ = near.send_to(&down[..bytes], client).await;
                    }
                }
            }
        }
    });
    address
}

#[tokio::test]
async fn losses_on_the_way_are_those_that_quic_counts() {
    let (listener, identity) = cloud().await;
    let dropped = Arc::new(AtomicU64::new(0));
    let relay = lossy_relay(listener.address(), Arc::clone(&dropped)).await;
    let carrier = QuicCarrier::new(identity, QuicSettings::default());
    let (mut ours, mut theirs) = pair(&carrier, &listener, relay).await;
    let meter = LinkMeter::default();
    ours.meter_with(&meter);
    send(&mut ours, &mut theirs, 4).await;
    let (counts, dropped) = (meter.counts(), dropped.load(Ordering::Relaxed));
    assert!(dropped > 10, "the frames were enough to lose some: {dropped}");
    // The relay's own socket may drop more than the relay does, and a few are not yet known as lost.
    assert!(counts.lost_packets >= dropped / 2, "{counts:?} {dropped}");
    assert!(counts.lost_packets < counts.sent_packets, "{counts:?}");
    assert!(counts.retransmitted_bytes >= counts.lost_packets * 100, "{counts:?}");
}

/// No datagram and no segment of the loopback is longer.
const PACKET_BYTES_MAX: u64 = 1 << 16;
/// A datagram of bulk: every handshake passes.
const FULL_BYTES: usize = 1_201;
