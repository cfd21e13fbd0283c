//! Nodes that are written to: uploads, and copies that they make themselves.

use std::sync::Mutex;

use net::transfer::{StreamFrame, TransferStream};
use protocol::{
    Digest, NodeId, SliceId,
    message::transfer::{Pull, PullUpdate, ResumeFrom, TransferReply, TransferRequest},
    ticket::{HolderKey, SignedTicket},
};

use super::{World, lock, reading};

/// Serves uploads and copies over one connection, of which the first is known.
pub(super) async fn serve(
    world: &Mutex<World>,
    node: &NodeId,
    mut stream: TransferStream,
    key: HolderKey,
    first: TransferRequest,
) {
    let mut request = first;
    loop {
        let stored = match request {
            TransferRequest::Write { ticket, .. } => receive(world, node, &mut stream, &ticket).await,
            TransferRequest::Pull(pull) => copy(world, node, &mut stream, pull).await,
            request @ (TransferRequest::Read { .. } | TransferRequest::ReadRuns { .. }) => {
                return Box::pin(reading::serve(world, node, stream, key, request)).await;
            }
            other => panic!("an uploader does not ask {other:?}"),
        };
        let Some(reply) = stored else { return };
        if stream.send(&reply).await.is_err() {
            return;
        }
        match reading::next_request(world, &mut stream).await {
            Ok(Some(next)) => request = next,
            _ => return,
        }
    }
}

/// Receives an upload; `None` if it broke off.
async fn receive(
    world: &Mutex<World>,
    node: &NodeId,
    stream: &mut TransferStream,
    ticket: &SignedTicket,
) -> Option<TransferReply> {
    let slice = slice_of(ticket);
    lock(world).log.push(format!("write {slice} at {node}"));
    let partial = lock(world).partial_upload.take();
    let mut content = Vec::new();
    if let Some(partial) = partial {
        let digest = Digest(*blake3::hash(&partial).as_bytes());
        stream.send(&TransferReply::Partial { bytes: partial.len() as u64, digest }).await.ok()?;
        let ResumeFrom(from) = stream.receive().await.ok()?;
        content.extend_from_slice(&partial[..from as usize]);
    }
    stream.send(&TransferReply::Ready).await.ok()?;
    let mut frame = StreamFrame::default();
    while stream.receive_frame(&mut frame).await.ok()? {
        content.extend_from_slice(&frame.payload);
        lock(world).received_bytes += frame.payload.len() as u64;
    }
    Some(store(world, slice, content))
}

/// Makes a copy, once as many others are under way as the test wants.
async fn copy(world: &Mutex<World>, node: &NodeId, stream: &mut TransferStream, pull: Pull) -> Option<TransferReply> {
    let (slice, content) = {
        let mut world = lock(world);
        if let Some(refusal) = world.pulls_refused.clone() {
            world.log.push("copy refused".into());
            return Some(TransferReply::Refused(refusal));
        }
        world.log.push(format!("copy {} at {node}", pull.slice));
        world.copies_now += 1;
        (slice_of(&pull.write), world.slices[&pull.slice].clone())
    };
    let must_wait = |world: &World| world.copies_now < world.copies_awaited;
    while must_wait(&lock(world)) {
        tokio::task::yield_now().await;
    }
    stream.send(&TransferReply::Pulling { bytes: 0, wants: None }).await.ok()?;
    let PullUpdate { qos, .. } = stream.receive().await.ok()?;
    lock(world).log.push(format!("copy at {:?}", qos.rate_bytes_per_second));
    Some(store(world, slice, content))
}

fn store(world: &Mutex<World>, slice: SliceId, content: Vec<u8>) -> TransferReply {
    let (bytes, digest) = (content.len() as u64, Digest(*blake3::hash(&content).as_bytes()));
    lock(world).slices.insert(slice, content);
    TransferReply::Stored { bytes, digest }
}

fn slice_of(ticket: &SignedTicket) -> SliceId {
    SliceId(u128::from_be_bytes(ticket.ticket.clone().try_into().unwrap()))
}
