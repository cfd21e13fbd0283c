//! Listing and taking in native files of this node, for whoever has a ticket that allows it. Says again and again how
//! far it is, since a large file takes minutes to be read.

use std::sync::Arc;

use net::{identity::Bearer, transfer::TransferStream};
use protocol::{SliceId, message::transfer::TransferReply, ticket::SignedTicket, ticket_verifier::WriteGrant};
use tokio::sync::mpsc;

use super::{AfterRequest, refuse};
use crate::{NodeError, blocking, node_context::NodeContext, rules::NodeCompletion};

/// What is to be imported.
pub(super) struct ImportRequest {
    pub(super) folder: String,
    pub(super) file: String,
    pub(super) keep: bool,
}

pub(super) async fn list(
    context: &NodeContext,
    stream: &mut TransferStream,
    bearer: &Bearer,
    ticket: &SignedTicket,
    folder: String,
    after: Option<String>,
) -> Result<AfterRequest, NodeError> {
    if let Err(error) = context.tickets.import(bearer, ticket) {
        return refuse(stream, &error).await;
    }
    let import = Arc::clone(&context.import);
    match blocking("listing a folder", move || import.list(&folder, after.as_deref())).await {
        Ok((files, more)) => {
            stream.send(&TransferReply::Files { files, more }).await?;
            Ok(AfterRequest::Next)
        }
        Err(error) => refuse(stream, &error).await,
    }
}

pub(super) async fn import(
    context: &NodeContext,
    stream: &mut TransferStream,
    bearer: &Bearer,
    ticket: &SignedTicket,
    write: &SignedTicket,
    wanted: ImportRequest,
) -> Result<AfterRequest, NodeError> {
    let allowed = context.tickets.import(bearer, ticket).and_then(|()| context.tickets.write(bearer, write));
    let (WriteGrant { header, .. }, claim) = match allowed {
        Ok(allowed) => allowed,
        Err(error) => return refuse(stream, &error).await,
    };
    let (import, store) = (Arc::clone(&context.import), Arc::clone(&context.store));
    let (heard, mut hear) = mpsc::channel(PROGRESS_MAX);
    let work = blocking("importing a file", move || {
        let mut told = 0;
        let mut progress = |bytes: u64| {
            // Whoever is behind hears the next one.
            if bytes - told >= PROGRESS_BYTES && heard.try_send(bytes).is_ok() {
                told = bytes;
            }
        };
        import.import(&store, header, &wanted.folder, &wanted.file, wanted.keep, &mut progress)
    });
    tokio::pin!(work);
    let metadata = loop {
        tokio::select! {
            done = &mut work => break done,
            // Where the peer has gone, the work ends by itself and its slice by its lease.
            Some(bytes) = hear.recv() => stream.send(&TransferReply::Imported { bytes }).await?,
        }
    };
    match metadata {
        Ok(metadata) => {
            claim.consume();
            let reply = TransferReply::Stored { bytes: metadata.bytes, digest: metadata.digest };
            // The master first: the commit waits for this report.
            context.send_completion(NodeCompletion::Stored(metadata)).await;
            stream.send(&reply).await?;
            Ok(AfterRequest::Next)
        }
        Err(error) => refuse(stream, &error).await,
    }
}

pub(super) async fn unlink_original(
    context: &NodeContext,
    stream: &mut TransferStream,
    bearer: &Bearer,
    ticket: &SignedTicket,
    wanted: ImportRequest,
    slice: SliceId,
) -> Result<AfterRequest, NodeError> {
    if let Err(error) = context.tickets.import(bearer, ticket) {
        return refuse(stream, &error).await;
    }
    let import = Arc::clone(&context.import);
    match blocking("removing a name", move || import.unlink_original(&wanted.folder, &wanted.file, slice)).await {
        Ok(()) => {
            stream.send(&TransferReply::Ready).await?;
            Ok(AfterRequest::Next)
        }
        Err(error) => refuse(stream, &error).await,
    }
}

/// Bytes between two words on how far it is: a few a second.
const PROGRESS_BYTES: u64 = 64 << 20;
/// Such words that wait to be sent.
const PROGRESS_MAX: usize = 2;
