//! What makes a connection. [`Carrier`] is what callers know; [`Dial`] also lets the choice between carriers measure a
//! path. This file never chooses.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use super::stream::TransferStream;
use crate::NetError;

/// How bulk bytes travel: TCP with TLS 1.3 ([`TcpCarrier`](super::TcpCarrier)), QUIC ([`QuicCarrier`](super::QuicCarrier)), or in memory
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

/// A carrier that can connect before it proves who the peer is, so that the round trip is known between the two.
pub(super) trait Dial: Carrier {
    /// A connection before that proof.
    type Dialed: Send;

    /// Connects to an address, and measures how long the peer's answer took.
    fn dial(
        &self,
        address: SocketAddr,
        server: &str,
    ) -> impl Future<Output = Result<(Self::Dialed, Duration), NetError>> + Send;

    /// The rest of [`Carrier::connect`].
    fn finish(
        &self,
        dialed: Self::Dialed,
        server: &str,
    ) -> impl Future<Output = Result<TransferStream, NetError>> + Send;
}
