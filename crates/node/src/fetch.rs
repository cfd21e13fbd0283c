//! Bytes of slices from other nodes: whole copies that the master ordered, and parts that a task wants to read.
//!
//! It never makes a copy visible that is not complete and synced.

use std::{ops::Range, sync::Arc};

use crate::{
    NodeError, blocking,
    flow::{FrameSink, STALL_MAX, receive},
    hands::Hands,
    peers::Peer,
    rules::CopyOrder,
};
use net::{NetError, transfer::TransferStream};
use protocol::{
    Pace, SliceId, SliceMetadata,
    message::{
        client_master::Source,
        transfer::{TransferReply, TransferRequest},
    },
};

/// Makes a copy of a slice; one that is here already is a success at once.
pub(crate) async fn copy(hands: &Hands, order: CopyOrder) -> Result<SliceMetadata, NodeError> {
    let CopyOrder { header, bytes, from, pace } = order;
    let slice = header.slice;
    let store = Arc::clone(&hands.store);
    let begun = blocking("beginning a copy", move || {
        if store.contains(slice) {
            return Ok(Err(store.open_slice(slice)?.metadata().clone()));
        }
        Ok(Ok(store.begin(header)?))
    });
    let writer = match begun.await? {
        Ok(writer) => writer,
        Err(held) => return Ok(held),
    };
    let writer = fetch(hands, &from, slice, 0..bytes, pace, writer).await?;
    if writer.bytes() != bytes {
        let what = format!("the copy of slice {slice}");
        return Err(NodeError::Length { what, expected: bytes, found: writer.bytes() });
    }
    blocking("finishing a copy", move || Ok(writer.finish(None)?)).await
}

/// Reads a range of a slice of another node into `sink`, up to the slice's end where the range goes beyond it. The other
/// node sends it at this pace.
pub(crate) async fn fetch<S: FrameSink>(
    hands: &Hands,
    from: &Source,
    slice: SliceId,
    range: Range<u64>,
    pace: Pace,
    sink: S,
) -> Result<S, NodeError> {
    let peer = Peer::of(from, hands.tickets.site());
    let request = TransferRequest::Read { ticket: from.ticket.clone(), slice, from: range.start, until: range.end };
    let (mut stream, reply) = ask_at(hands, &peer, pace, &request).await?;
    match reply {
        TransferReply::Reading { .. } => {}
        TransferReply::Refused(refusal) => {
            hands.peers.give_back(peer, stream);
            return Err(NodeError::Refused(refusal));
        }
        other => return Err(unexpected(peer, "read a slice", &other)),
    }
    // The sender cuts the connection when it cannot give all that it announced.
    let sink = receive(&mut stream, sink, STALL_MAX).await?;
    hands.peers.give_back(peer, stream);
    Ok(sink)
}

/// Sends a request to a node, over a kept connection if there is a good one, and gives the first answer.
pub(crate) async fn ask(
    hands: &Hands,
    peer: &Peer,
    request: &TransferRequest,
) -> Result<(TransferStream, TransferReply), NodeError> {
    ask_at(hands, peer, Pace::default(), request).await
}

/// The same for a request whose bytes are to come at this pace.
pub(crate) async fn ask_at(
    hands: &Hands,
    peer: &Peer,
    pace: Pace,
    request: &TransferRequest,
) -> Result<(TransferStream, TransferReply), NodeError> {
    if let Some(mut stream) = hands.peers.take(peer) {
        // Every request may be repeated, so a connection that the peer has closed meanwhile costs only this try.
        if let Ok(reply) = exchange_at(&mut stream, pace, request).await {
            return Ok((stream, reply));
        }
    }
    let mut stream = hands.peers.dial(peer).await?;
    if peer.is_plain
        && let TransferRequest::Read { ticket, .. } | TransferRequest::Write { ticket, .. } = request
    {
        // Who does not want that is spoken to with encryption; nothing is lost but a round trip.
        if exchange(&mut stream, &TransferRequest::Plain { ticket: ticket.clone() }).await? == TransferReply::Ready {
            stream.go_plain().await?;
        }
    }
    match exchange_at(&mut stream, pace, request).await {
        // A connection that other conversations have used may be dead without our knowing, as where the peer was started
        // again. The first word shows it, and the next try gets one that is new.
        Err(NodeError::Net(NetError::Closed { .. } | NetError::Broken { .. })) if stream.is_shared() => {
            let mut stream = hands.peers.dial(peer).await?;
            let reply = exchange_at(&mut stream, pace, request).await?;
            Ok((stream, reply))
        }
        reply => Ok((stream, reply?)),
    }
}

/// An answer that makes no sense.
pub(crate) fn unexpected(peer: Peer, operation: &'static str, reply: &TransferReply) -> NodeError {
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
    };
    NodeError::Answer { node: peer.node, operation, answer }
}

async fn exchange_at(
    stream: &mut TransferStream,
    pace: Pace,
    request: &TransferRequest,
) -> Result<TransferReply, NodeError> {
    if pace != Pace::default() {
        stream.queue(&TransferRequest::Pace(pace)).await?;
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
