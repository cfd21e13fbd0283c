//! Bulk transfer: connections that carry messages and frames of bytes. They serve doors 3, 5 and 6, and begin sessions
//! at doors 2 and 4 (architecture, "How bytes and words travel"). [`Carrier`] makes connections: [`TcpCarrier`] of TCP
//! and TLS 1.3, [`QuicCarrier`] of QUIC. [`Carriers`] chooses between the two, and [`Listener`] takes both. Either
//! gives a [`TransferStream`]. It never interprets a message and never touches a file.

mod carriers;
mod channel;
mod peer_cache;
mod quic;
mod stream;
mod tcp;
mod tls_socket;

use std::{net::SocketAddr, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};

pub use carriers::{CarrierSettings, Carriers};
pub use peer_cache::{CachedPeer, Locality};
pub use protocol::ControllerKind;
pub use quic::{
    MemoryRateCache, QuicCarrier, QuicSettings, RateCache, SOCKET_BUFFER_BYTES as QUIC_SOCKET_BUFFER_BYTES,
    base_transport_config, udt,
};
pub use stream::{StreamFrame, TransferStream};
pub use tcp::{CONNECT_DEADLINE, HANDSHAKE_DEADLINE, Incoming, Listener, TcpCarrier};

use crate::NetError;

/// How bulk bytes travel: TCP with TLS 1.3 ([`TcpCarrier`]), QUIC ([`QuicCarrier`]), or in memory
/// ([`memory_network`](crate::memory_network)).
pub trait Carrier: Send + Sync + 'static {
    /// Opens a connection. `server` is the role or node id whose certificate must be shown at `address`.
    ///
    /// # Errors
    /// [`NetError::Connect`] when nobody answers, [`NetError::Handshake`] when someone else does.
    fn connect(
        &self,
        address: SocketAddr,
        server: &str,
    ) -> impl Future<Output = Result<TransferStream, NetError>> + Send;
}

impl<C: Carrier> Carrier for Arc<C> {
    async fn connect(&self, address: SocketAddr, server: &str) -> Result<TransferStream, NetError> {
        C::connect(self, address, server).await
    }
}

/// Both directions of a byte stream in memory, such as `tokio::io::DuplexStream`.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}
