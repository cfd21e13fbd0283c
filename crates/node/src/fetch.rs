//! Bytes of slices from other nodes: whole copies that the master ordered, and parts that a task wants to read.
//!
//! It never makes a copy visible that is not complete and synced.

use std::{sync::Arc, time::Duration};

use net::{
    NetError,
    transfer::{Frame, TransferStream},
};
use protocol::{
    SliceId, SliceMetadata,
    message::{
        client_master::Source,
        transfer::{TransferReply, TransferRequest},
    },
};
use tokio::time::Instant;

use crate::{
    NodeError, blocking,
    flow::{FrameSink, STALL_MAX, receive},
    hands::Hands,
    peers::Peer,
    rules::CopyOrder,
};

/// Makes a copy of a slice; one that is here already is a success at once.
pub(crate) async fn copy(hands: &Hands, order: CopyOrder) -> Result<SliceMetadata, NodeError> {
    let CopyOrder { header, bytes, from, rate_bytes_per_second } = order;
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
    let writer = fetch(hands, &from, slice, 0..bytes, Paced::new(writer, rate_bytes_per_second)).await?.inner;
    if writer.bytes() != bytes {
        let what = format!("the copy of slice {slice}");
        return Err(NodeError::Length { what, expected: bytes, found: writer.bytes() });
    }
    blocking("finishing a copy", move || Ok(writer.finish(None)?)).await
}

/// Reads a range of a slice of another node into `sink`, up to the slice's end where the range goes beyond it.
pub(crate) async fn fetch<S: FrameSink>(
    hands: &Hands,
    from: &Source,
    slice: SliceId,
    range: std::ops::Range<u64>,
    sink: S,
) -> Result<S, NodeError> {
    let peer = Peer::of(from, hands.tickets.site());
    let request = TransferRequest::Read { ticket: from.ticket.clone(), slice, from: range.start, until: range.end };
    let (mut stream, reply) = ask(hands, &peer, &request).await?;
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

/// A sink that takes no more than so many bytes per second: what is not taken is not read, and so not sent.
pub(crate) struct Paced<S> {
    inner: S,
    rate_bytes_per_second: Option<u64>,
    begun: Instant,
    taken_bytes: u64,
}

impl<S> Paced<S> {
    /// Takes as fast as it goes where there is no rate.
    pub(crate) fn new(inner: S, rate_bytes_per_second: Option<u64>) -> Self {
        Self { inner, rate_bytes_per_second, begun: Instant::now(), taken_bytes: 0 }
    }
}

impl<S: FrameSink> FrameSink for Paced<S> {
    fn take(&mut self, frame: &Frame) -> Result<(), NodeError> {
        self.taken_bytes += frame.payload.len() as u64;
        self.inner.take(frame)
    }

    /// When all that was taken would have come at the rate. A pause of the sender is not made up for by more than it
    /// lasted: counted from the beginning, so that the whole keeps to the rate.
    fn next_at(&self) -> Option<Instant> {
        let rate = self.rate_bytes_per_second?.max(1);
        Some(self.begun + Duration::from_secs_f64(self.taken_bytes as f64 / rate as f64))
    }
}

/// Sends a request to a node, over a kept connection if there is a good one, and gives the first answer.
pub(crate) async fn ask(
    hands: &Hands,
    peer: &Peer,
    request: &TransferRequest,
) -> Result<(TransferStream, TransferReply), NodeError> {
    if let Some(mut stream) = hands.peers.take(peer) {
        // Every request may be repeated, so a connection that the peer has closed meanwhile costs only this try.
        if let Ok(reply) = exchange(&mut stream, request).await {
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
    match exchange(&mut stream, request).await {
        // A connection that other conversations have used may be dead without our knowing, as where the peer was started
        // again. The first word shows it, and the next try gets one that is new.
        Err(NodeError::Net(NetError::Closed { .. } | NetError::Broken { .. })) if stream.is_shared() => {
            let mut stream = hands.peers.dial(peer).await?;
            let reply = exchange(&mut stream, request).await?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::limits;

    use super::*;
    use crate::flow::{FrameSource, Outflow};

    /// Counts what comes.
    struct Counting(u64);

    impl FrameSink for Counting {
        fn take(&mut self, frame: &Frame) -> Result<(), NodeError> {
            self.0 += frame.payload.len() as u64;
            Ok(())
        }
    }

    /// Gives so many full frames.
    struct Frames(u64);

    impl FrameSource for Frames {
        fn fill(&mut self, frame: &mut Frame) -> Result<(), NodeError> {
            frame.payload.clear();
            if self.0 > 0 {
                self.0 -= 1;
                frame.payload.resize(limits::FRAME_BYTES_MAX, 7);
            }
            Ok(())
        }
    }

    async fn span_of(frames: u64, rate_bytes_per_second: Option<u64>) -> Duration {
        let (a, b) = tokio::io::duplex(64 * 1024);
        let address = ([127, 0, 0, 1], 9).into();
        let end = |stream| TransferStream::in_memory(Box::new(stream), address, None, [1; 32]);
        let (mut here, mut there) = (end(a), end(b));
        let begun = Instant::now();
        let sending = async { Outflow::begin(Frames(frames)).await.unwrap().send(&mut here, STALL_MAX).await.unwrap() };
        let receiving = receive(&mut there, Paced::new(Counting(0), rate_bytes_per_second), STALL_MAX);
        let ((), sink) = tokio::join!(sending, receiving);
        assert_eq!(sink.unwrap().inner.0, frames * limits::FRAME_BYTES_MAX as u64);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_with_a_rate_takes_as_long_as_its_bytes_do() {
        let frame = limits::FRAME_BYTES_MAX as u64;
        let span = span_of(10, Some(frame / 2)).await;
        assert!((Duration::from_secs(18)..=Duration::from_secs(21)).contains(&span), "{span:?}");
        assert!(span_of(10, None).await < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_lowest_rate_does_not_look_like_a_peer_that_keeps_still() {
        let span = span_of(3, Some(64 * 1024)).await;
        assert!(span > Duration::from_secs(30), "{span:?}");
    }
}
