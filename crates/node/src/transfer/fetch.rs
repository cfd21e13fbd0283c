//! Asking other nodes for bytes of slices: for copies, and for what a task wants to read. It serves the paths
//! replication and job, and never keeps a connection that stands in the middle of something.

use std::ops::Range;

use crate::{
    NodeError,
    transfer::{
        connection_pool::Peer,
        frame_pipe::{FrameSink, STALL_MAX, receive_frames},
        peers::Peers,
        site_links::LinkDirection,
    },
};
use net::{NetError, transfer::TransferStream};
use protocol::{
    SliceId, TransferQos,
    message::{
        client_master::Source,
        transfer::{TransferReply, TransferRequest},
    },
};

/// Reads a range of a slice of another node into `sink`, up to the slice's end where the range goes beyond it. The
/// other node sends it at this pace.
pub(crate) async fn fetch<S: FrameSink>(
    peers: &Peers,
    from: &Source,
    slice: SliceId,
    range: Range<u64>,
    pace: TransferQos,
    sink: S,
) -> Result<S, NodeError> {
    let (peer, mut stream) = begin_reading(peers, from, slice, range, pace).await?;
    // The sender cuts the connection when it cannot give all that it announced.
    // With its own ticket the other node pays for the way; one that a client has handed to us says nothing of where we
    // are.
    let pays = from.ticket.delegation.is_some();
    let far = pays.then_some(from.place.site.as_str());
    let crossing = peers.site_limiters.for_transfer(far, LinkDirection::Received, TransferQos::default());
    crossing.meter(&mut stream);
    let sink = receive_frames(&mut stream, sink, crossing.limiter(), STALL_MAX).await?;
    peers.connections.release(peer, stream);
    Ok(sink)
}

/// Asks a node for a range; its frames are the next that come over the connection.
pub(crate) async fn begin_reading(
    peers: &Peers,
    from: &Source,
    slice: SliceId,
    range: Range<u64>,
    pace: TransferQos,
) -> Result<(Peer, TransferStream), NodeError> {
    let peer = Peer::of(from, &peers.site);
    let request = TransferRequest::Read { ticket: from.ticket.clone(), slice, from: range.start, until: range.end };
    let (stream, reply) = send_request_paced(peers, &peer, pace, &request).await?;
    match reply {
        TransferReply::Reading { .. } => Ok((peer, stream)),
        TransferReply::Refused(refusal) => {
            peers.connections.release(peer, stream);
            Err(NodeError::Refused(refusal))
        }
        other => Err(unexpected_reply(peer, "read a slice", &other)),
    }
}

/// Sends a request to a node, over a kept connection if there is a good one, and gives the first answer.
pub(crate) async fn send_request(
    peers: &Peers,
    peer: &Peer,
    request: &TransferRequest,
) -> Result<(TransferStream, TransferReply), NodeError> {
    send_request_paced(peers, peer, TransferQos::default(), request).await
}

/// The same for a request whose bytes are to come at this pace.
pub(crate) async fn send_request_paced(
    peers: &Peers,
    peer: &Peer,
    pace: TransferQos,
    request: &TransferRequest,
) -> Result<(TransferStream, TransferReply), NodeError> {
    if let Some(mut stream) = peers.connections.take_idle(peer) {
        // Every request may be repeated, so a connection that the peer has closed meanwhile costs only this try.
        if let Ok(reply) = exchange_paced(&mut stream, pace, request).await {
            return Ok((stream, reply));
        }
    }
    let mut stream = peers.connections.dial(peer).await?;
    if peer.is_plain
        && let TransferRequest::Read { ticket, .. } | TransferRequest::Write { ticket, .. } = request
    {
        // Who does not want that is spoken to with encryption; nothing is lost but a round trip.
        if exchange(&mut stream, &TransferRequest::Plain { ticket: ticket.clone() }).await? == TransferReply::Ready {
            stream.go_plain().await?;
        }
    }
    match exchange_paced(&mut stream, pace, request).await {
        // A connection that other conversations have used may be dead without our knowing, as where the peer was
        // started again. The first word shows it, and the next try gets one that is new.
        Err(NodeError::Net(NetError::Closed { .. } | NetError::Broken { .. })) if stream.is_shared() => {
            let mut stream = peers.connections.dial(peer).await?;
            let reply = exchange_paced(&mut stream, pace, request).await?;
            Ok((stream, reply))
        }
        reply => Ok((stream, reply?)),
    }
}

/// An answer that makes no sense.
pub(crate) fn unexpected_reply(peer: Peer, operation: &'static str, reply: &TransferReply) -> NodeError {
    let answer = match reply {
        TransferReply::Reading { .. } => "\"reading\"",
        TransferReply::Ready => "\"ready\"",
        TransferReply::Stored { .. } => "\"stored\"",
        TransferReply::Taken => "\"taken\"",
        TransferReply::Refused(_) => "\"refused\"",
        TransferReply::Verifying { .. } => "\"verifying\"",
        TransferReply::Verified { .. } => "\"verified\"",
        TransferReply::Partial { .. } => "\"partial\"",
        TransferReply::Files { .. } => "\"files\"",
        TransferReply::Imported { .. } => "\"imported\"",
        TransferReply::Pulling { .. } => "\"pulling\"",
    };
    NodeError::UnexpectedReply { node: peer.node, operation, answer }
}

/// Sends a request whose bytes are to come at this pace over a connection, and gives the first answer.
pub(crate) async fn exchange_paced(
    stream: &mut TransferStream,
    pace: TransferQos,
    request: &TransferRequest,
) -> Result<TransferReply, NodeError> {
    if pace != TransferQos::default() {
        stream.queue(&TransferRequest::Qos(pace)).await?;
    }
    exchange(stream, request).await
}

async fn exchange(stream: &mut TransferStream, request: &TransferRequest) -> Result<TransferReply, NodeError> {
    let exchange = async {
        stream.send(request).await?;
        stream.receive().await
    };
    match tokio::time::timeout(STALL_MAX, exchange).await {
        Ok(reply) => Ok(reply?),
        Err(_) => Err(NodeError::Stalled { operation: "waiting for a node's answer", after: STALL_MAX }),
    }
}
