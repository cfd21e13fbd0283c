//! The QUIC listener: takes connections at an endpoint, and gives out their conversations one by one, whichever
//! connection they come on. Conversations that nobody takes wait in a bounded queue, then in their connections. A
//! caller never holds up another: each connection has its own task, and all are counted.

use std::{net::SocketAddr, sync::Arc};

use noq::{Endpoint, Incoming, ServerConfig, VarInt, crypto::rustls::QuicServerConfig};
use tokio::{
    sync::{Mutex, Semaphore, mpsc},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{
    ALPN,
    config::{QuicSettings, caller_key},
    endpoint,
    socket::{QuicSocket, SharedConnection},
};
use crate::{
    NetError,
    identity::TlsIdentity,
    transfer::{TransferStream, channel::Channel, handshake::HANDSHAKE_DEADLINE},
    unauthenticated::{UnauthenticatedPeers, UnauthenticatedSlot},
};

/// A port where QUIC is spoken.
pub(in crate::transfer) struct QuicListener {
    endpoint: Endpoint,
    conversations: Mutex<mpsc::Receiver<TransferStream>>,
    taking: AbortHandle,
}

impl QuicListener {
    /// Listens at `address`.
    ///
    /// # Errors
    /// [`NetError::Bind`]; [`NetError::Certificate`] for a client, which has no certificate to show.
    pub(in crate::transfer) fn bind(
        address: SocketAddr,
        identity: &TlsIdentity,
        settings: QuicSettings,
        strangers: &Arc<UnauthenticatedPeers>,
    ) -> Result<Self, NetError> {
        let endpoint = endpoint::open(address, identity.secret())?;
        // A first configuration to open the port; each connection is then accepted with the certificate of its day.
        endpoint.set_server_config(Some(server_configuration(identity)?));
        let (give, conversations) = mpsc::channel(WAITING_CONVERSATIONS_MAX);
        let strangers = Arc::clone(strangers);
        let taker = ConnectionAcceptor {
            endpoint: endpoint.clone(),
            identity: identity.clone(),
            settings,
            give,
            unauthenticated: strangers,
        };
        let taking = tokio::spawn(taker.run()).abort_handle();
        Ok(Self { endpoint, conversations: Mutex::new(conversations), taking })
    }

    /// The endpoint, for this process's own connections.
    pub(in crate::transfer) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The next conversation. Can be cancelled without loss; `None` never comes while the listener lives.
    pub(in crate::transfer) async fn accept(&self) -> Option<TransferStream> {
        self.conversations.lock().await.recv().await
    }
}

impl Drop for QuicListener {
    fn drop(&mut self) {
        // Conversations that were given out continue.
        self.taking.abort();
    }
}

/// Takes connections.
struct ConnectionAcceptor {
    endpoint: Endpoint,
    identity: TlsIdentity,
    settings: QuicSettings,
    give: mpsc::Sender<TransferStream>,
    unauthenticated: Arc<UnauthenticatedPeers>,
}

impl ConnectionAcceptor {
    async fn run(self) {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        while let Some(incoming) = self.endpoint.accept().await {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                incoming.refuse();
                continue;
            };
            // Once there is a crowd, a caller must prove its address: a flood under foreign addresses cannot.
            if room.available_permits() < CONNECTIONS_MAX - CROWD && incoming.may_retry() {
                let _ = incoming.retry();
                continue;
            }
            let Some(place) = self.unauthenticated.admit(incoming.remote_address().ip()) else {
                incoming.refuse();
                continue;
            };
            let conversing = self.conversing(incoming, Arc::new(place));
            connections.spawn(async move {
                conversing.await;
                drop(permit);
            });
        }
    }

    /// One connection: its handshake, then conversation after conversation.
    fn conversing(&self, incoming: Incoming, place: Arc<UnauthenticatedSlot>) -> impl Future<Output = ()> + use<> {
        let (identity, settings, give) = (self.identity.clone(), self.settings.clone(), self.give.clone());
        async move {
            let peer = incoming.remote_address();
            let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
            let Ok(mut configuration) = server_configuration(&identity) else { return };
            configuration.transport_config(settings.for_caller(peer.ip()));
            let Ok(connecting) = incoming.accept_with(Arc::new(configuration)) else { return };
            let connection = match place.run_bounded(timeout(HANDSHAKE_DEADLINE, connecting)).await {
                Ok(Ok(Ok(connection))) => connection,
                Ok(Ok(Err(error))) => return tracing::debug!(%peer, %error, "a QUIC connection did not come about"),
                Ok(Err(_)) => return tracing::debug!(%peer, "a QUIC connection kept still in its handshake"),
                Err(over) => return tracing::debug!(%peer, ?over, "a QUIC connection had no place any more"),
            };
            let shared = SharedConnection::new(connection.clone(), false, settings.learning(caller_key(peer.ip())));
            let conversations = async {
                for begun in 0u64.. {
                    if begun >= STRANGER_CONVERSATIONS_MAX {
                        place.authenticated().await;
                    }
                    let Ok((send, receive)) = connection.accept_bi().await else { return };
                    let socket = QuicSocket::new(shared.clone(), send, receive);
                    let stream = TransferStream::new(Channel::Quic(Box::new(socket)), peer);
                    if give.send(stream.with_slot(Arc::clone(&place))).await.is_err() {
                        return;
                    }
                }
            };
            if let Err(over) = place.run_bounded(conversations).await {
                tracing::debug!(%peer, ?over, "a QUIC connection has proved nothing");
                connection.close(VarInt::from_u32(0), b"nothing was proved");
            }
        }
    }
}

/// Our configuration for a caller that connects now.
pub(super) fn server_configuration(identity: &TlsIdentity) -> Result<ServerConfig, NetError> {
    let mut tls = (*identity.server_config()?).clone();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let crypto = QuicServerConfig::try_from(tls)
        .map_err(|error| NetError::Certificate { operation: "speak QUIC", why: error.to_string() })?;
    Ok(ServerConfig::with_crypto(Arc::new(crypto)))
}

/// Connections that callers may have with us at once.
const CONNECTIONS_MAX: usize = 4_096;
/// From this many on, a caller must first prove that it receives what is sent to its address.
const CROWD: usize = 64;
/// Conversations that may wait to be taken.
const WAITING_CONVERSATIONS_MAX: usize = 64;
/// Conversations of a connection on which nothing was proved yet: a client begins a few at once.
const STRANGER_CONVERSATIONS_MAX: u64 = 16;
