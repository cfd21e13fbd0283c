//! The setup of a QUIC connection: its windows, packets, acknowledgements and controller. It never opens a socket or a
//! connection itself.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use noq::{
    AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt,
    congestion::{Bbr3Config, ControllerFactory, CubicConfig},
};
use protocol::ControllerKind;

use super::{
    lanes::{LANE_WINDOW_BYTES, LANES},
    rate_cache::{RateCache, RateRecorder},
    udt::{PathEstimate, UdtFactory},
};

/// The settings of QUIC connections.
#[derive(Clone, Debug, Default)]
pub struct QuicSettings {
    /// The controller that decides how fast to send.
    pub controller: ControllerKind,
    /// Largest UDP payload in bytes that path MTU discovery may reach. `None` for what fits into Ethernet's 1,500 bytes
    /// (and more on the loopback). Networks with jumbo frames gain from 6,400, which is the most.
    pub datagram_bytes_max: Option<u16>,
    /// Where rates are kept from one connection to the next; `None`: nowhere.
    pub rate_cache: Option<Arc<dyn RateCache>>,
}

fn factory(controller: ControllerKind, learned: Option<PathEstimate>) -> Arc<dyn ControllerFactory + Send + Sync> {
    match controller {
        ControllerKind::Udt => {
            let seed = u64::from_be_bytes(crate::identity::random());
            Arc::new(UdtFactory::new(seed, learned))
        }
        ControllerKind::Bbr => Arc::new(Bbr3Config::default()),
        ControllerKind::Cubic => Arc::new(CubicConfig::default()),
    }
}

impl QuicSettings {
    /// Where a connection with `peer` records what it has learned.
    pub(super) fn learning(&self, peer: SocketAddr) -> Option<RateRecorder> {
        self.rate_cache.clone().map(|rates| RateRecorder { cache: rates, peer })
    }

    /// Largest UDP payload in bytes to `peer`.
    fn datagram_bytes_to(&self, peer: IpAddr) -> u16 {
        self.datagram_bytes_max.map(|bytes| bytes.min(DATAGRAM_BYTES_MAX)).unwrap_or(match peer {
            _ if peer.to_canonical().is_loopback() => DATAGRAM_BYTES_MAX,
            peer if peer.to_canonical().is_ipv4() => 1_500 - 28,
            _ => 1_500 - 48,
        })
    }

    /// The setup of an outgoing connection.
    pub(super) fn to_peer(&self, peer: SocketAddr) -> Arc<TransportConfig> {
        self.transport(peer, RECEIVE_WINDOW_BYTES)
    }

    /// The setup of an incoming connection, perhaps from a stranger: its window opens when bulk is wanted.
    pub(super) fn for_caller(&self, peer: IpAddr) -> Arc<TransportConfig> {
        self.transport(caller_key(peer), NARROW_WINDOW_BYTES)
    }

    fn transport(&self, peer: SocketAddr, window_bytes: u32) -> Arc<TransportConfig> {
        let learned = self.rate_cache.as_ref().and_then(|rates| rates.learned(peer));
        let mut transport = base_transport_config(self.datagram_bytes_to(peer.ip()), factory(self.controller, learned));
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(CONVERSATIONS_MAX))
            .max_concurrent_uni_streams(VarInt::from_u32(CONVERSATIONS_MAX * u32::from(LANES - 1)))
            .datagram_receive_buffer_size(None)
            .stream_receive_window(VarInt::from_u32(LANE_WINDOW_BYTES))
            .receive_window(VarInt::from_u32(window_bytes))
            .max_idle_timeout(IdleTimeout::try_from(SILENCE_MAX).ok())
            .keep_alive_interval(Some(KEEPALIVE_INTERVAL));
        Arc::new(transport)
    }
}

/// How packets of a connection are made, acknowledged and given up under this controller. That is the whole setup that
/// a controller notices. The simulation of controllers takes it from here too, so that it simulates the real one. UDP
/// payloads are at most `datagram_bytes_max` long.
pub fn base_transport_config(
    datagram_bytes_max: u16,
    controller: Arc<dyn ControllerFactory + Send + Sync>,
) -> TransportConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(datagram_bytes_max);
    let mut acknowledgements = AckFrequencyConfig::default();
    acknowledgements
        .ack_eliciting_threshold(VarInt::from_u32(ACK_EVERY_PACKETS - 1))
        .max_ack_delay(Some(ACK_DELAY))
        .reordering_threshold(VarInt::from_u32(OVERTAKEN_PACKETS_MAX - 1));
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(controller)
        // One range after the other: sending all at once would only finish all of them late.
        .send_fairness(false)
        .packet_threshold(OVERTAKEN_PACKETS_MAX)
        .initial_rtt(ROUND_TRIP_GUESS)
        .mtu_discovery_config(Some(discovery))
        .ack_frequency_config(Some(acknowledgements));
    transport
}

/// The key under which a caller is remembered. Its port may be any, so what is learned belongs to its machine.
pub(super) fn caller_key(peer: IpAddr) -> SocketAddr {
    SocketAddr::new(peer, 0)
}

/// Bytes of all conversations of a connection that may be under way or unread. Sixteen conversations can have stalled
/// readers before the others feel it.
pub(super) const RECEIVE_WINDOW_BYTES: u32 = 512 * 1024 * 1024;
/// The same before a peer has shown that it may send bulk.
pub(super) const NARROW_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// Conversations that a peer may have on one connection at once.
const CONVERSATIONS_MAX: u32 = 1_024;
/// Packets that share an acknowledgement. Each costs as much as a packet of bytes, and the controllers average anyway.
const ACK_EVERY_PACKETS: u32 = 40;
/// How long an acknowledgement may wait for further packets.
const ACK_DELAY: Duration = Duration::from_millis(2);
/// Packets that may overtake one before it counts as lost, on links that carry packets side by side: a millisecond of
/// 1.5 Gbit/s. With the usual three, a packet that was only held back is sent again, and taken for loss. A slow flow
/// does not wait for so many: a packet is also lost when a round trip and an eighth have passed.
const OVERTAKEN_PACKETS_MAX: u32 = 128;
/// The round trip assumed for the first packets. Between sites it is rarely longer, and a lost first packet is then
/// sent again after 0.3 s.
const ROUND_TRIP_GUESS: Duration = Duration::from_millis(100);
/// Silence after which a connection counts as cut, as with TCP.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Silence after which we ask whether the peer is still there. It also keeps open what routers forget after 20 to 30 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Largest UDP payload in bytes that we take or send. The library hands ten of them to the kernel at once, which takes
/// 65,507 bytes. Anything above is not sent at all, and looks like loss.
pub(super) const DATAGRAM_BYTES_MAX: u16 = 6_400;
const _: () = assert!(10 * DATAGRAM_BYTES_MAX as usize <= 65_507, "ten datagrams must fit into one call");
