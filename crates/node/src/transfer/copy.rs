//! Whole copies of slices that the master ordered (path *replication*). A copy that breaks off keeps the bytes it has.
//! The next order for the same slice continues there, from whichever node it names. Partial copies are kept, bounded
//! and dropped like broken uploads. It never makes a copy visible that is not complete and synced.

use std::sync::Arc;

use net::rate_limiter::LimiterChain;
use protocol::{ResumeKey, SliceHeader, SliceMetadata};
use store::{PartialKey, SliceWriter};

use crate::{
    NodeError, blocking,
    node_context::NodeContext,
    rules::CopyOrder,
    transfer::{
        fetch::{begin_reading, fetch},
        frame_pipe::STALL_MAX,
        receive_pipeline::{self, ConnectionSource, ReceiveEnd},
    },
    transfer_server::write::{begin_resumable, save_partial},
};

/// A copy that was not made.
#[derive(Debug)]
pub(crate) struct CopyFailed {
    pub(crate) error: NodeError,
    /// The bytes that are kept here for the next order.
    pub(crate) kept_bytes: u64,
}

impl From<NodeError> for CopyFailed {
    fn from(error: NodeError) -> Self {
        Self { error, kept_bytes: 0 }
    }
}

/// Makes a copy of a slice; if it is here already, that is a success at once.
pub(crate) async fn copy(context: &NodeContext, order: CopyOrder) -> Result<SliceMetadata, CopyFailed> {
    let slice = order.header.slice;
    let store = Arc::clone(&context.storage.slices);
    let held = blocking("looking for a slice", move || {
        if !store.contains(slice) {
            return Ok(None);
        }
        Ok(Some(store.open_slice(slice)?.metadata().clone()))
    });
    let held = match held.await {
        Ok(held) => held,
        // The copy here is bad. The next order finds it in quarantine.
        Err(error) => return Err(context.storage.quarantine_if_corrupt(slice, error).await.into()),
    };
    if let Some(held) = held {
        return Ok(held);
    }
    let expected = order.bytes;
    let writer =
        if expected < KEPT_FROM_BYTES { copy_small(context, order).await? } else { go_on(context, order).await? };
    if writer.bytes() != expected {
        let what = format!("the copy of slice {slice}");
        return Err(NodeError::LengthMismatch { what, expected, found: writer.bytes() }.into());
    }
    Ok(blocking("finishing a copy", move || Ok(writer.finish(None)?)).await?)
}

async fn copy_small(context: &NodeContext, order: CopyOrder) -> Result<SliceWriter, NodeError> {
    let CopyOrder { header, bytes, from, pace } = order;
    let (store, slice) = (Arc::clone(&context.storage.slices), header.slice);
    let writer = blocking("beginning a copy", move || Ok(store.begin(header)?)).await?;
    fetch(&context.peers, &from, slice, 0..bytes, pace, writer).await
}

/// Fetches the missing bytes.
async fn go_on(context: &NodeContext, order: CopyOrder) -> Result<SliceWriter, CopyFailed> {
    let CopyOrder { header, bytes, from, pace } = order;
    let slice = header.slice;
    let key = key_of(&header);
    let (turn, writer) = begin_resumable(context, header, key).await?;
    let here = writer.bytes();
    if here >= bytes {
        return Ok(writer);
    }
    if here > 0 {
        tracing::info!(%slice, bytes = here, from = %from.node, "a broken copy is gone on with");
    }
    let (peer, mut stream) = match begin_reading(&context.peers, &from, slice, here..bytes, pace).await {
        Ok(begun) => begun,
        Err(error) => return Err(CopyFailed { error, kept_bytes: save_partial(writer, Some(turn)).await }),
    };
    let mut sent = ConnectionSource { stream: &mut stream, limiter: &LimiterChain::unlimited(), stall: STALL_MAX };
    match receive_pipeline::receive_slice(&mut sent, writer, &mut None, None, turn.replaced()).await? {
        (writer, ReceiveEnd::Complete) => {
            context.peers.connections.release(peer, stream);
            Ok(writer)
        }
        (writer, ReceiveEnd::Interrupted(error)) => {
            Err(CopyFailed { error, kept_bytes: save_partial(writer, Some(turn)).await })
        }
    }
}

/// The key under which a broken copy is kept. A slice never changes its content, so its id is enough.
fn key_of(header: &SliceHeader) -> PartialKey {
    PartialKey { user: header.owner.clone(), key: ResumeKey(header.slice.0) }
}

/// Copies of at least this many bytes are kept when they break off; a smaller one is soon fetched again.
const KEPT_FROM_BYTES: u64 = 4 << 20;
