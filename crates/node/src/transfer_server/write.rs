//! Takes a new slice: hashed while it arrives, and forwarded to the next node of its chain. If the sender breaks off
//! early, nothing remains. The exception is a master's ticket with a key, under which the bytes are kept for the next
//! attempt. It never acknowledges a slice before it is synced.

use std::{sync::Arc, time::Duration};

use daemon::shutdown::ShutdownToken;
use net::{
    identity::Bearer,
    rate_limiter::LimiterChain,
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    Digest, Reason, SliceHeader, SliceId, SliceMetadata, TransferQos,
    message::{
        client_master::Source,
        transfer::{ResumeFrom, TransferReply},
    },
    ticket::SignedTicket,
    ticket_verifier::{ProvedBearer, WriteGrant},
};
use store::{PartialKey, SliceWriter, StoreError};
use tokio::time::{sleep, timeout};

use super::replies::{AfterRequest, refuse};
use crate::{
    NodeError, blocking,
    disks::upload_locks::UploadLock,
    node_context::NodeContext,
    rules::NodeCompletion,
    tickets::WriteClaim,
    transfer::{
        forward::{BASE_BYTES_PER_SECOND_MIN, Forward, READY_TIME_MAX, report_forward_failed},
        frame_pipe::{FrameSink, UPLOAD_STALL_MAX, drain},
        receive_pipeline::{self, AsyncFrameSource, ConnectionSource, ReceiveEnd},
        site_limiters::remote_site,
        site_links::LinkDirection,
    },
};

/// A writer's request.
pub(super) struct WriteRequest {
    pub(super) ticket: SignedTicket,
    pub(super) chain: Vec<Source>,
    /// The rate and priority of the incoming bytes; they go on to the next node with the same priority.
    pub(super) pace: TransferQos,
}

/// Takes a slice with the ticket's right.
pub(super) async fn write(
    context: &Arc<NodeContext>,
    stream: &mut TransferStream,
    bearer: &Bearer,
    WriteRequest { ticket, chain, pace }: WriteRequest,
    stopping: &ShutdownToken,
) -> Result<AfterRequest, NodeError> {
    let (grant, claim) = match context.tickets.write(bearer, &ticket) {
        Ok(allowed) => allowed,
        Err(error) => return refuse(stream, &error).await,
    };
    let WriteGrant { header, user, resume, base, .. } = grant;
    let slice = header.slice;
    tracing::Span::current().record("slice", tracing::field::display(slice));
    tracing::debug!(from = bearer.from(), "a slice begins to arrive");
    // Another node pays for what it sends.
    let far = if bearer.is_role() { None } else { remote_site(bearer, &ticket) };
    let priority = pace.priority;
    let own = TransferQos { rate_bytes_per_second: None, priority };
    let crossing = context.peers.site_limiters.for_transfer(far.as_deref(), LinkDirection::Received, own);
    crossing.meter(stream);
    let toll = crossing.limiter();
    match (resume, base) {
        (_, Some(base)) => {
            // The next node copies the same bytes at the same time.
            let bytes = context.storage.slices.bytes_of(base).unwrap_or(0);
            let patience = READY_TIME_MAX + Duration::from_secs(bytes / BASE_BYTES_PER_SECOND_MIN);
            let forward = Forward::begin(context, slice, chain, priority, patience);
            match begin_with(context, header, base).await {
                Ok(writer) => take(context, (stream, toll), (writer, forward, None), claim, stopping).await,
                Err(error) => refuse(stream, &error).await,
            }
        }
        (Some(key), None) => {
            let begun = begin_resumable(context, header, PartialKey { user, key }).await;
            let (turn, writer) = match begun {
                Ok(begun) => begun,
                Err(error) => return refuse(stream, &error).await,
            };
            let writer = offer(stream, writer, &turn).await?;
            // Bytes that are already here cannot be forwarded in frames.
            let is_resumed = writer.bytes() > 0;
            let forward = if is_resumed {
                report_forward_failed(context, slice, chain.into_iter().map(|source| source.node)).await;
                None
            } else {
                Forward::begin(context, slice, chain, priority, READY_TIME_MAX)
            };
            take(context, (stream, toll), (writer, forward, Some(turn)), claim, stopping).await
        }
        (None, None) => {
            let forward = Forward::begin(context, slice, chain, priority, READY_TIME_MAX);
            let store = Arc::clone(&context.storage.slices);
            match blocking("beginning a slice", move || Ok(store.begin(header)?)).await {
                Ok(writer) => take(context, (stream, toll), (writer, forward, None), claim, stopping).await,
                Err(error) => refuse(stream, &error).await,
            }
        }
    }
}

/// Receives what follows the writer's bytes, and finishes the slice.
async fn take(
    context: &Arc<NodeContext>,
    (stream, toll): (&mut TransferStream, &LimiterChain),
    (writer, mut forward, turn): (SliceWriter, Option<Forward>, Option<UploadLock>),
    claim: WriteClaim,
    stopping: &ShutdownToken,
) -> Result<AfterRequest, NodeError> {
    stream.send(&TransferReply::Ready).await?;
    let stop = wait_for_preemption(turn.as_ref(), stopping);
    let mut sent = ConnectionSource { stream: &mut *stream, limiter: toll, stall: UPLOAD_STALL_MAX };
    let writer = match receive_pipeline::receive_slice(
        &mut sent,
        writer,
        &mut forward,
        Some(claim.active_write()),
        stop,
    )
    .await
    {
        Ok((writer, ReceiveEnd::Complete)) => writer,
        Ok((writer, ReceiveEnd::Interrupted(error))) => {
            drop(forward);
            save_partial(writer, turn).await;
            return Err(error);
        }
        Err(error) => {
            evict_partials_if_full(context, &error).await;
            return refuse_midway(stream, &error).await;
        }
    };
    if let Some(forward) = forward {
        forward.finish();
    }
    match finish(context, writer, claim).await {
        Ok((bytes, digest)) => {
            stream.send(&TransferReply::Stored { bytes, digest }).await?;
            Ok(AfterRequest::Next)
        }
        Err(error) => {
            evict_partials_if_full(context, &error).await;
            refuse(stream, &error).await
        }
    }
}

/// Receives the data to its end; returns the writer with all of it. If it breaks off, also through `gone` or the node's
/// stop, the received bytes are kept for the next attempt.
pub(super) async fn receive_upload(
    context: &NodeContext,
    arrival: &mut impl AsyncFrameSource,
    claim: &WriteClaim,
    (writer, turn): (SliceWriter, Option<UploadLock>),
    forward: &mut Option<Forward>,
    stopping: &ShutdownToken,
    gone: impl Future<Output = ()>,
) -> Result<SliceWriter, NodeError> {
    let stop = async {
        tokio::select! {
            () = wait_for_preemption(turn.as_ref(), stopping) => {}
            () = gone => {}
        }
    };
    match receive_pipeline::receive_slice(arrival, writer, forward, Some(claim.active_write()), stop).await {
        Ok((writer, ReceiveEnd::Complete)) => Ok(writer),
        Ok((writer, ReceiveEnd::Interrupted(error))) => {
            drop(forward.take());
            save_partial(writer, turn).await;
            Err(error)
        }
        Err(error) => {
            evict_partials_if_full(context, &error).await;
            Err(error)
        }
    }
}

/// Finishes the slice, and tells the master: the writer's commit waits for that.
pub(super) async fn finish(
    context: &NodeContext,
    writer: SliceWriter,
    claim: WriteClaim,
) -> Result<(u64, Digest), NodeError> {
    tracing::debug!(bytes = writer.bytes(), "a slice has arrived");
    let store = Arc::clone(&context.storage.slices);
    let finished = blocking("finishing a slice", move || {
        let metadata = writer.finish(None)?;
        // Its disk may have failed meanwhile: then it is not acknowledged, although the writer met no error.
        if store.contains(metadata.header.slice) { Ok(metadata) } else { Err(gone(&metadata)) }
    });
    let metadata = finished.await?;
    claim.consume();
    let stored = (metadata.bytes, metadata.digest);
    context.send_completion(NodeCompletion::Stored(metadata)).await;
    Ok(stored)
}

/// A writer that begins with all bytes of another slice of this node.
async fn begin_with(context: &NodeContext, header: SliceHeader, base: SliceId) -> Result<SliceWriter, NodeError> {
    let store = Arc::clone(&context.storage.slices);
    let begun = blocking("copying what an append begins with", move || {
        let reader = store.open_slice(base)?;
        let mut writer = store.begin(header)?;
        writer.write_slice(&reader)?;
        Ok(writer)
    });
    let error = match begun.await {
        Ok(writer) => return Ok(writer),
        Err(error) => context.storage.quarantine_if_corrupt(base, error).await,
    };
    evict_partials_if_full(context, &error).await;
    Err(match error {
        NodeError::Store(StoreError::NotHeld(_) | StoreError::Corrupt { .. }) => NodeError::refused(
            Reason::Unavailable,
            format!("node {} has no good copy of what is to be appended to; try again", context.node),
        ),
        other => other,
    })
}

/// The writer of a resumable upload; the newest connection gets it.
pub(crate) async fn begin_resumable(
    context: &NodeContext,
    header: SliceHeader,
    key: PartialKey,
) -> Result<(UploadLock, SliceWriter), NodeError> {
    let turn = context.storage.upload_locks.acquire(key.clone()).await?;
    let store = Arc::clone(&context.storage.slices);
    let writer = blocking("beginning a slice", move || Ok(store.begin_resumable(header, key)?)).await?;
    Ok((turn, writer))
}

/// Tells the sender what is here of an upload, and prepares the writer as the sender wants: to continue, or to begin
/// anew.
async fn offer(stream: &mut TransferStream, writer: SliceWriter, turn: &UploadLock) -> Result<SliceWriter, NodeError> {
    let bytes = writer.bytes();
    if bytes == 0 {
        return Ok(writer);
    }
    stream.send(&TransferReply::Partial { bytes, digest: writer.digest_so_far() }).await?;
    let answer = tokio::select! {
        // The sender first reads and hashes as many bytes.
        answer = timeout(UPLOAD_STALL_MAX, stream.receive::<ResumeFrom>()) => answer,
        () = turn.replaced() => {
            return Err(NodeError::refused(Reason::Unavailable, "a newer connection goes on with this upload"));
        }
    };
    match answer {
        Ok(Ok(ResumeFrom(from))) if from == bytes => Ok(writer),
        Ok(Ok(ResumeFrom(_))) => blocking("beginning a slice anew", move || Ok(writer.restart()?)).await,
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(NodeError::Stalled { operation: "waiting for a word", after: UPLOAD_STALL_MAX }),
    }
}

/// Ends when a resumable upload must be interrupted: a newer connection has come, or the node stops.
pub(super) async fn wait_for_preemption(turn: Option<&UploadLock>, stopping: &ShutdownToken) {
    match turn {
        Some(turn) => tokio::select! {
            () = turn.replaced() => {}
            () = async { stopping.cancelled().await; sleep(STOP_PATIENCE).await } => {}
        },
        None => std::future::pending().await,
    }
}

/// Keeps what arrived of a broken upload or copy if it can be resumed, else drops it. Returns how many bytes are kept.
pub(crate) async fn save_partial(writer: SliceWriter, turn: Option<UploadLock>) -> u64 {
    let kept = blocking("keeping what broke off", move || Ok(writer.split().0.save_partial()?)).await;
    let kept = kept.unwrap_or_else(|error| {
        tracing::warn!(%error, "what came of a broken transfer could not be kept");
        0
    });
    if kept > 0 {
        tracing::info!(bytes = kept, "a transfer broke off; what came is kept for the next attempt");
    }
    drop(turn);
    kept
}

/// If the disk is full, the kept parts of broken uploads go first.
pub(super) async fn evict_partials_if_full(context: &NodeContext, error: &NodeError) {
    if error.is_full() {
        let store = Arc::clone(&context.storage.slices);
        let _ = blocking("making room", move || Ok(store.drop_idle_partials(Duration::ZERO))).await;
    }
}

fn gone(metadata: &SliceMetadata) -> NodeError {
    let path = &metadata.header.path;
    NodeError::refused(
        Reason::Unavailable,
        format!("the disk failed on which `{path}` was being stored; write it again"),
    )
}

/// Refuses a peer that is still sending. It reads our message only after it has sent its own.
pub(super) async fn refuse_midway(stream: &mut TransferStream, error: &NodeError) -> Result<AfterRequest, NodeError> {
    stream.send(&TransferReply::Refused(error.refusal())).await?;
    Ok(if drain(stream).await { AfterRequest::Next } else { AfterRequest::Close })
}

impl FrameSink for SliceWriter {
    fn write_frame(&mut self, frame: &StreamFrame) -> Result<(), NodeError> {
        Ok(self.write_checked(&frame.payload, &frame.checksums)?)
    }
}

/// How long a resumable upload may still end when the node stops: its bytes must be safe before the port closes.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
