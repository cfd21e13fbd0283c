//! Connections to nodes, kept between transfers: a new one costs a TCP and a TLS handshake, which many small files
//! should not each pay. And the local sockets of nodes, as far as they are known to be of no use.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::file::local::LocalDoors;
use net::{
    NetError,
    transfer::{Carrier, TcpCarrier, TransferStream},
};
use protocol::{
    NodeId,
    message::{
        client_master::Source,
        transfer::{TransferReply, TransferRequest},
    },
};

/// Idle connections by node.
pub(crate) struct Connections {
    carrier: Arc<TcpCarrier>,
    local: LocalDoors,
    idle: Mutex<BTreeMap<NodeId, Vec<TransferStream>>>,
}

impl Connections {
    /// No connections yet.
    pub(crate) fn new(carrier: Arc<TcpCarrier>, over_network: bool) -> Self {
        Self { carrier, local: LocalDoors::new(over_network), idle: Mutex::default() }
    }

    /// The local sockets of nodes on this machine.
    pub(crate) fn local(&self) -> &LocalDoors {
        &self.local
    }

    /// Sends `request` to a node and gives its first reply with the connection it came on. A kept connection that
    /// turns out to be closed is replaced by a new one, since the node cannot have acted on it.
    pub(crate) async fn open(
        &self,
        source: &Source,
        request: &TransferRequest,
    ) -> Result<(TransferStream, TransferReply), NetError> {
        self.open_on(None, source, request).await
    }

    /// The same, with a connection that the caller has used for this node before and would use again: a node serves a
    /// slice that it has open on a connection with the least work.
    pub(crate) async fn open_on(
        &self,
        line: Option<TransferStream>,
        source: &Source,
        request: &TransferRequest,
    ) -> Result<(TransferStream, TransferReply), NetError> {
        let mut kept = line;
        while let Some(mut stream) = kept.or_else(|| self.take(&source.node)) {
            kept = None;
            if let Ok(reply) = ask(&mut stream, request).await {
                return Ok((stream, reply));
            }
        }
        let mut stream = self.carrier.connect(source.address, source.node.as_str()).await?;
        let reply = ask(&mut stream, request).await?;
        Ok((stream, reply))
    }

    /// Keeps a connection on which everything was read, for the next transfer.
    pub(crate) fn keep(&self, node: &NodeId, stream: TransferStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let streams = idle.entry(node.clone()).or_default();
        if streams.len() < IDLE_PER_NODE_MAX {
            streams.push(stream);
        }
    }

    fn take(&self, node: &NodeId) -> Option<TransferStream> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).get_mut(node)?.pop()
    }
}

async fn ask(stream: &mut TransferStream, request: &TransferRequest) -> Result<TransferReply, NetError> {
    stream.send(request).await?;
    stream.receive().await
}

/// Most idle connections kept for one node: as many as files are usually in flight to it.
const IDLE_PER_NODE_MAX: usize = 16;
