//! Forwards a slice to the next node of its chain while it is still being received. In the paper (2.4) the client sends
//! once and the nodes copy afterwards; here both happen at the same time. Serves upload. A next node that is slow or
//! gone is left behind, and the master, when told, has that copy made in another way. It never delays the sender beyond
//! its limits, and never holds more than a few frames.

use std::{sync::Arc, time::Duration};

use net::transfer::StreamFrame;
use protocol::{
    NodeId, Priority, SliceId, TransferQos,
    message::{
        client_master::Source,
        transfer::{TransferReply, TransferRequest},
    },
};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    NodeError,
    node_context::NodeContext,
    rules::NodeCompletion,
    transfer::{
        connection_pool::Peer,
        fetch::{send_request_paced, unexpected_reply},
        frame_pipe::STALL_MAX,
        site_links::LinkDirection,
    },
};

/// The link to the next node of a chain. If it is dropped before [`finish`](Self::finish), it breaks off, and so does
/// the rest of the chain.
pub(crate) struct Forward {
    messages: mpsc::Sender<ForwardMessage>,
}

enum ForwardMessage {
    Frame(Arc<StreamFrame>),
    End,
}

impl Forward {
    /// Begins to forward a slice; `None` if the chain has no further node. `patience` is how long the next node may
    /// take to report that it is ready.
    pub(crate) fn begin(
        context: &Arc<NodeContext>,
        slice: SliceId,
        chain: Vec<Source>,
        priority: Priority,
        patience: Duration,
    ) -> Option<Self> {
        if chain.is_empty() {
            return None;
        }
        let (words, received) = mpsc::channel(FRAMES_AHEAD);
        let context = Arc::clone(context);
        // The task outlives the conversation with the sender, which does not wait for the other nodes' syncs. It ends
        // by itself.
        tokio::spawn(async move {
            let failed: Vec<_> = chain.iter().map(|source| source.node.clone()).collect();
            if let Err(error) =
                pass_on(&context, chain, TransferQos { rate_bytes_per_second: None, priority }, patience, received)
                    .await
            {
                tracing::warn!(%slice, next = %failed[0], %error, "a slice cannot be passed on; this node goes on alone");
                report_forward_failed(&context, slice, failed).await;
            }
        });
        Some(Self { messages: words })
    }

    /// Forwards a frame, and waits while the next node is behind. False once the next node is left behind for good.
    pub(crate) async fn send_frame(&self, frame: &Arc<StreamFrame>) -> bool {
        self.messages.send(ForwardMessage::Frame(Arc::clone(frame))).await.is_ok()
    }

    /// All frames were given. Another task waits for the next node's own answer.
    pub(crate) fn finish(self) {
        tokio::spawn(async move { self.messages.send(ForwardMessage::End).await });
    }
}

/// Tells the master that these nodes will not get the slice from here.
pub(crate) async fn report_forward_failed(
    context: &NodeContext,
    slice: SliceId,
    nodes: impl IntoIterator<Item = NodeId>,
) {
    for node in nodes {
        context.send_completion(NodeCompletion::ForwardFailed { slice, node }).await;
    }
}

async fn pass_on(
    context: &NodeContext,
    mut chain: Vec<Source>,
    pace: TransferQos,
    patience: Duration,
    mut words: mpsc::Receiver<ForwardMessage>,
) -> Result<(), NodeError> {
    let next = chain.remove(0);
    let crossing = context.peers.site_limiters.for_transfer(Some(&next.place.site), LinkDirection::Sent, pace);
    let peer = Peer::of(&next, &context.peers.site);
    let request = TransferRequest::Write { ticket: next.ticket, chain };
    let (mut stream, reply) = within(
        patience,
        "waiting for the next node of a chain",
        send_request_paced(&context.peers, &peer, pace, &request),
    )
    .await?;
    crossing.meter(&mut stream);
    match reply {
        TransferReply::Ready => {}
        TransferReply::Refused(refusal) => {
            context.peers.connections.release(peer, stream);
            return Err(NodeError::Refused(refusal));
        }
        other => return Err(unexpected_reply(peer, "take a slice", &other)),
    }
    const PASSING: &str = "passing bytes on to the next node of a chain";
    while let Some(word) = words.recv().await {
        match word {
            ForwardMessage::Frame(frame) => {
                // A rate limit, unlike a slow node, is waited for.
                let (payload, checksums) = (&frame.payload, &frame.checksums);
                crossing.limiter().send_parts(&mut stream, payload, checksums, FORWARD_STALL_MAX).await?;
            }
            ForwardMessage::End => {
                within(FORWARD_STALL_MAX, PASSING, async { Ok(stream.end_frames().await?) }).await?;
                // The next node's report to the master is what counts; this is for the case that there is none.
                let reply = async { Ok(stream.receive::<TransferReply>().await?) };
                return match within(STALL_MAX, "waiting for the next node's sync", reply).await? {
                    TransferReply::Stored { .. } => {
                        context.peers.connections.release(peer, stream);
                        Ok(())
                    }
                    TransferReply::Refused(refusal) => Err(NodeError::Refused(refusal)),
                    other => Err(unexpected_reply(peer, "take a slice", &other)),
                };
            }
        }
    }
    // Our own sender broke off: the connection is dropped, and with it what the next node received.
    Ok(())
}

async fn within<T>(
    after: Duration,
    operation: &'static str,
    work: impl Future<Output = Result<T, NodeError>>,
) -> Result<T, NodeError> {
    timeout(after, work).await.unwrap_or(Err(NodeError::Stalled { operation, after }))
}

/// How long the next node may take to be ready to receive a new slice ...
pub(crate) const READY_TIME_MAX: Duration = Duration::from_secs(5);
/// ... and longer where it first copies bytes that it has, at this rate in bytes per second.
pub(crate) const BASE_BYTES_PER_SECOND_MIN: u64 = 32 << 20;
/// How long the next node may delay a frame before it is left behind: long enough for one write to a slow disk.
const FORWARD_STALL_MAX: Duration = Duration::from_secs(10);
/// Frames by which the next node may lag: 4 MiB.
const FRAMES_AHEAD: usize = 4;
