//! One session's connections to nodes, kept between transfers: many small files should not each pay a TCP and a TLS
//! handshake. It also keeps the names of nodes' local sockets that do not respond. On each connection we prove first
//! that our tickets are ours. A connection is never unencrypted unless its ticket allows that, within the node's site.

use std::sync::Arc;

use crate::{
    cloud::Cloud,
    cloud::idle_connections::{IdleConnections, IdleKey},
    file::local_slice::LocalSockets,
};
use net::{
    NetError,
    identity::HolderKeyPair,
    transfer::{Carriers, Locality, TransferStream},
};
use protocol::{
    NodeId, TransferQos,
    message::{
        client_master::Source,
        transfer::{TransferReply, TransferRequest},
    },
    ticket::Ticket,
    wire::codec,
};

/// The connections of one session.
pub(crate) struct Connections {
    carriers: Carriers,
    holder: Arc<HolderKeyPair>,
    local: LocalSockets,
    idle: Arc<IdleConnections>,
}

impl Connections {
    /// No connections yet.
    pub(crate) fn new(cloud: &Cloud, holder: Arc<HolderKeyPair>, over_network: bool) -> Self {
        let local = LocalSockets::new(Arc::clone(&holder), over_network);
        Self { carriers: cloud.carriers().clone(), holder, local, idle: Arc::clone(cloud.idle_connections()) }
    }

    /// The local sockets of nodes on this machine.
    pub(crate) fn local(&self) -> &LocalSockets {
        &self.local
    }

    /// Sends `request` to a node and gives its first reply with the connection it came on. A kept connection that
    /// turns out to be closed is replaced by a new one, since the node cannot have acted on it.
    pub(crate) async fn open(
        &self,
        source: &Source,
        request: &TransferRequest,
    ) -> Result<(TransferStream, TransferReply), NetError> {
        self.open_reusing(None, source, TransferQos::default(), request).await
    }

    /// The same, with a connection that the caller has used for this node before and would use again. That is the
    /// cheapest way for a node to serve a slice that it has open. The node sends at `pace`.
    pub(crate) async fn open_reusing(
        &self,
        line: Option<TransferStream>,
        source: &Source,
        pace: TransferQos,
        request: &TransferRequest,
    ) -> Result<(TransferStream, TransferReply), NetError> {
        let wants_plain = may_be_plaintext(source) && !self.idle.is_encrypted_only(&source.node);
        let mut kept = line.filter(|line| line.is_plain() == wants_plain && !line.is_suspect());
        while let Some(mut stream) = kept.or_else(|| self.idle.take(&self.idle_key(&source.node, wants_plain))) {
            kept = None;
            if let Ok(reply) = ask_at(&mut stream, pace, request).await {
                return Ok((stream, reply));
            }
        }
        if wants_plain {
            let mut stream = self.carriers.connect_by_tcp(source.address, source.node.as_str()).await?;
            prove(&mut stream, &self.holder).await?;
            self.stop_encryption(&mut stream, source).await?;
            let reply = ask_at(&mut stream, pace, request).await?;
            return Ok((stream, reply));
        }
        let mut tries_left = TRIES_SHARED;
        loop {
            let way = Locality::of(source.distance);
            let mut stream = self.carriers.connect(source.address, source.node.as_str(), way).await?;
            let is_shared = stream.is_shared();
            let asking = async {
                prove(&mut stream, &self.holder).await?;
                ask_at(&mut stream, pace, request).await
            };
            tries_left -= 1;
            match asking.await {
                Ok(reply) => return Ok((stream, reply)),
                // Connections that others have used may be dead without our knowing, for example after a restart of the
                // node. The first message shows it, and the next try gets a new connection.
                Err(NetError::Closed { .. } | NetError::Broken { .. }) if is_shared && tries_left > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps a connection on which everything was read, for the next transfer.
    pub(crate) fn release(&self, node: &NodeId, stream: TransferStream) {
        self.idle.put(self.idle_key(node, stream.is_plain()), stream);
    }

    /// Drops the idle connections, at the end of the session.
    pub(crate) fn close(&self) {
        self.idle.forget(self.holder.public());
    }

    /// Ends the encryption if the node agrees. Otherwise it stays on, and the node is not asked again.
    async fn stop_encryption(&self, stream: &mut TransferStream, source: &Source) -> Result<(), NetError> {
        match ask(stream, &TransferRequest::Plain { ticket: source.ticket.clone() }).await? {
            TransferReply::Ready => stream.go_plain().await,
            _ => {
                tracing::warn!(node = %source.node, "the node wants an encrypted connection, whatever the master says");
                self.idle.note_encrypted_only(&source.node);
                Ok(())
            }
        }
    }

    fn idle_key(&self, node: &NodeId, is_plain: bool) -> IdleKey {
        IdleKey { holder: self.holder.public(), node: node.clone(), is_plain }
    }
}

/// Proves on a new connection that our tickets are ours. The proof is sent along with the next message.
pub(crate) async fn prove(stream: &mut TransferStream, holder: &HolderKeyPair) -> Result<(), NetError> {
    let proof = holder.prove(stream)?;
    stream.queue(&TransferRequest::ProveKey { key: holder.public(), proof }).await
}

/// Whether the ticket allows no encryption at the site of the node.
fn may_be_plaintext(source: &Source) -> bool {
    let within = codec::decode::<Ticket>(&source.ticket.ticket).ok().and_then(|ticket| ticket.plain_within);
    within.is_some_and(|site| site == source.place.site)
}

/// Sends the request, or one to continue from there, at this pace.
async fn ask_at(
    stream: &mut TransferStream,
    pace: TransferQos,
    request: &TransferRequest,
) -> Result<TransferReply, NetError> {
    if pace != TransferQos::default() {
        stream.queue(&TransferRequest::Qos(pace)).await?;
    }
    ask(stream, request).await
}

async fn ask(stream: &mut TransferStream, request: &TransferRequest) -> Result<TransferReply, NetError> {
    stream.send(request).await?;
    stream.receive().await
}

/// How often a request is sent on connections that others may have used before.
const TRIES_SHARED: u32 = 2;
