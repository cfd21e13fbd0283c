//! Bulk transfer: connections that carry messages and frames of bytes. They serve doors 3, 5 and 6, and begin sessions
//! at doors 2 and 4 (architecture, "How bytes and words travel"). [`Carrier`] makes connections: [`TcpCarrier`] of TCP
//! and TLS 1.3, [`QuicCarrier`] of QUIC. [`Carriers`] chooses between the two, and [`Listener`] takes both. Either
//! gives a [`TransferStream`]. It never interprets a message and never touches a file.

mod carried_bytes;
mod carrier;
mod carrier_choice;
mod channel;
mod handshake;
mod link_meter;
mod local_network;
mod named_host;
mod peer_cache;
mod quic;
mod stream;
mod tcp;
mod tcp_info;
mod tls_socket;

pub use carried_bytes::CarriedBytes;
pub use carrier::Carrier;
pub use carrier_choice::{CarrierSettings, Carriers};
pub use channel::ByteStream;
pub use handshake::{CONNECT_DEADLINE, HANDSHAKE_DEADLINE};
pub use link_meter::{LinkMeter, TransportCounts};
pub use named_host::{connect_to_host, resolve};
pub use peer_cache::{CachedPeer, Locality};
pub use protocol::ControllerKind;
pub use quic::{
    Batches, MemoryRateCache, QuicCarrier, QuicSettings, RateCache, SOCKET_BUFFER_BYTES as QUIC_SOCKET_BUFFER_BYTES,
    base_transport_config, udt,
};
pub use stream::{StreamFrame, TransferStream};
pub use tcp::{Incoming, Listener, TcpCarrier};
