//! The node's local socket (door 5 on one machine). A client of this machine gets a slice's open file with its block
//! checksums and verifies what it reads. Or it passes a file of its own to be stored. Serves the paths *download* and
//! *upload*. Each conversation has its own task, all are counted, and each wait has an end, so one client never delays
//! another. It never passes a file without a ticket for the whole slice, and never one that is writable.

use std::{ops::Range, os::fd::AsFd, sync::Arc};

use daemon::shutdown::ShutdownToken;
use net::{
    identity::Bearer,
    local::{LocalListener, LocalStream},
    unauthenticated::UNAUTHENTICATED_TIME_MAX,
};
use protocol::{
    Reason, SliceId,
    message::local::{CHECKSUMS_PER_MESSAGE_MAX, LocalReply, LocalRequest, SUSPECT_BYTES_MAX},
    ticket::SignedTicket,
};
use store::SliceReader;
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    connection_limits::{ACCEPT_PAUSE, REQUEST_IDLE_MAX, STOP_PATIENCE},
    local_write::{self, LocalUpload},
    slots::{too_busy, wait_for_transfer_slot},
};
use tracing::Instrument;

use crate::{NodeError, blocking, node_context::NodeContext, transfer::frame_pipe::STALL_MAX};

/// Serves the local socket until the node stops.
pub(super) async fn serve(
    context: Arc<NodeContext>,
    listener: LocalListener,
    connections_max: usize,
    stopping: ShutdownToken,
) {
    let room = Arc::new(Semaphore::new(connections_max));
    let mut conversations = JoinSet::new();
    let socket: Arc<str> = listener.name().into();
    while let Some(accepted) = stopping.run_until_cancelled(listener.accept()).await {
        while conversations.try_join_next().is_some() {}
        match accepted {
            Ok(stream) => {
                // A client that finds no room is disconnected, and goes to the transfer port without waiting here.
                let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
                let (context, stopping, socket) = (Arc::clone(&context), stopping.clone(), Arc::clone(&socket));
                conversations.spawn(async move {
                    if let Err(error) = answer_requests(&context, &socket, stream, &stopping).await {
                        tracing::debug!(%error, "a local conversation broke off");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a local conversation could not be taken");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let ended = async { while conversations.join_next().await.is_some() {} };
    let _ = timeout(STOP_PATIENCE, ended).await;
}

/// Answers one request after the other, until the client closes.
async fn answer_requests(
    context: &Arc<NodeContext>,
    socket: &str,
    mut stream: LocalStream,
    stopping: &ShutdownToken,
) -> Result<(), NodeError> {
    // The total time before the first good ticket, whatever is sent.
    let hello_until = Instant::now() + UNAUTHENTICATED_TIME_MAX;
    let mut is_known = false;
    let mut bearer = Bearer::local(socket);
    loop {
        let until = if is_known { Instant::now() + REQUEST_IDLE_MAX } else { hello_until };
        let next = stopping.run_until_cancelled(timeout_at(until, stream.receive::<LocalRequest>()));
        let Some(Ok(received)) = next.await else { return Ok(()) };
        let Some((request, file)) = received? else { return Ok(()) };
        let ticket = ticket_of(&request).cloned();
        if let (false, Some(ticket)) = (is_known, &ticket) {
            if let Err(error) = context.tickets.admits(&bearer, ticket) {
                let _ = timeout(STALL_MAX, refuse(&mut stream, &error)).await;
                continue;
            }
            is_known = true;
        }
        let answered = match request {
            LocalRequest::ProveKey { key, unix_millis, proof } => {
                if bearer.take_local_proof(context.tickets.now(), key, unix_millis, &proof) {
                    continue;
                }
                // This answers the request that follows the proof; there is no second try.
                let error = context.tickets.refuse_proof(&bearer);
                let _ = timeout(STALL_MAX, refuse(&mut stream, &error)).await;
                return Err(error);
            }
            LocalRequest::Open { ticket, slice } => match open(context, &bearer, &ticket, slice).await {
                Ok(reader) => timeout(STALL_MAX, give(&mut stream, &reader)).await,
                Err(error) => timeout(STALL_MAX, refuse(&mut stream, &error)).await,
            },
            LocalRequest::Suspect { ticket, slice, from, until } => {
                let reply = match recheck(context, &bearer, &ticket, slice, from..until).await {
                    Ok(()) => LocalReply::Done,
                    Err(error) => LocalReply::Refused(error.refusal()),
                };
                timeout(STALL_MAX, async { Ok(stream.send(&reply).await?) }).await
            }
            LocalRequest::Store { ticket, chain, bytes } => {
                let shown = ticket.clone();
                let upload = LocalUpload { ticket, chain, file, bytes };
                let span = tracing::info_span!("write", slice = tracing::field::Empty);
                let stored = tokio::select! {
                    biased;
                    // Cut off without a message, as at the transfer port.
                    () = context.tickets.revocations().wait_revoked(&shown, &bearer) => return Ok(()),
                    stored = Box::pin(local_write::store(context, &mut stream, &bearer, upload, stopping)).instrument(span) => stored,
                };
                let reply = match stored {
                    Ok((bytes, digest)) => LocalReply::Stored { bytes, digest },
                    Err(error) => LocalReply::Refused(error.refusal()),
                };
                timeout(STALL_MAX, async { Ok(stream.send(&reply).await?) }).await
            }
        };
        answered.map_err(|_| NodeError::Stalled { operation: "answering at the local socket", after: STALL_MAX })??;
    }
}

/// The ticket of a request; a proof has none.
fn ticket_of(request: &LocalRequest) -> Option<&SignedTicket> {
    match request {
        LocalRequest::Open { ticket, .. }
        | LocalRequest::Suspect { ticket, .. }
        | LocalRequest::Store { ticket, .. } => Some(ticket),
        LocalRequest::ProveKey { .. } => None,
    }
}

/// Opens a slice for a client whose ticket covers all of it.
async fn open(
    context: &NodeContext,
    bearer: &Bearer,
    ticket: &SignedTicket,
    slice: SliceId,
) -> Result<SliceReader, NodeError> {
    let allowed = context.tickets.read(bearer, ticket, slice)?;
    let Some(_turn) = wait_for_transfer_slot(context).await else { return Err(too_busy(context)) };
    let store = Arc::clone(&context.storage.slices);
    let opened = blocking("opening a slice", move || Ok(store.open_slice(slice)?)).await;
    let reader = match opened {
        Ok(reader) => reader,
        Err(error) => return Err(context.storage.quarantine_if_corrupt(slice, error).await),
    };
    if allowed.start > 0 || allowed.end < reader.metadata().bytes {
        let message = format!(
            "the ticket allows bytes {} to {} of slice {slice}; a file is given whole or not at all",
            allowed.start, allowed.end
        );
        return Err(context.tickets.refuse_range(bearer, message));
    }
    Ok(reader)
}

/// Sends the file, and then its checksums in pieces.
async fn give(stream: &mut LocalStream, reader: &SliceReader) -> Result<(), NodeError> {
    let metadata = reader.metadata();
    let Some(file) = reader.os_file() else {
        let message = "this node's disk has no files to pass; read from its transfer port";
        return refuse(stream, &NodeError::refused(Reason::Unavailable, message)).await;
    };
    let opened = LocalReply::Opened { bytes: metadata.bytes, digest: metadata.digest };
    stream.send_with_file(&opened, file.as_fd()).await?;
    for checksums in reader.checksums(0, metadata.bytes).chunks(CHECKSUMS_PER_MESSAGE_MAX) {
        stream.send(&LocalReply::Checksums(checksums.to_vec())).await?;
    }
    Ok(())
}

/// A client found bytes that do not match their checksums. Its own memory may be at fault, so the node reads them
/// itself.
async fn recheck(
    context: &NodeContext,
    bearer: &Bearer,
    ticket: &SignedTicket,
    slice: SliceId,
    suspect: Range<u64>,
) -> Result<(), NodeError> {
    let Range { start: from, end: until } = suspect;
    context.tickets.read(bearer, ticket, slice)?;
    let Some(_turn) = wait_for_transfer_slot(context).await else { return Err(too_busy(context)) };
    let until = until.min(from.saturating_add(SUSPECT_BYTES_MAX));
    let store = Arc::clone(&context.storage.slices);
    let looked = blocking("looking at suspect bytes", move || Ok(store.open_slice(slice)?.verify(from, until)?)).await;
    match looked {
        Ok(()) => tracing::warn!(%slice, from, until, "a client found bad bytes that are good here"),
        Err(error) => {
            context.storage.quarantine_if_corrupt(slice, error).await;
        }
    }
    Ok(())
}

async fn refuse(stream: &mut LocalStream, error: &NodeError) -> Result<(), NodeError> {
    Ok(stream.send(&LocalReply::Refused(error.refusal())).await?)
}
