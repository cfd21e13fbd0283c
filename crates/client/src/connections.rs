//! Connections to nodes, kept between transfers: a new one costs a TCP and a TLS handshake, which many small files
//! should not each pay.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

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
    idle: Mutex<BTreeMap<NodeId, Vec<TransferStream>>>,
}

impl Connections {
    /// No connections yet.
    pub(crate) fn new(carrier: Arc<TcpCarrier>) -> Self {
        Self { carrier, idle: Mutex::default() }
    }

    /// Sends `request` to a node and gives its first reply with the connection it came on. A kept connection that
    /// turns out to be closed is replaced by a new one, since the node cannot have acted on it.
    pub(crate) async fn open(
        &self,
        source: &Source,
        request: &TransferRequest,
    ) -> Result<(TransferStream, TransferReply), NetError> {
        while let Some(mut stream) = self.take(&source.node) {
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
