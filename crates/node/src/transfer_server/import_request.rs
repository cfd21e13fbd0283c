//! Lists and imports native files of this node for clients whose ticket allows it. Reports its progress regularly,
//! since a large file takes minutes to read. It never opens a file itself:
//! [`ImportFolders`](crate::disks::import::ImportFolders) does.

use std::sync::Arc;

use net::{identity::Bearer, transfer::TransferStream};
use protocol::{SliceId, message::transfer::TransferReply, ticket::SignedTicket, ticket_verifier::WriteGrant};
use tokio::sync::mpsc;

use super::replies::{AfterRequest, refuse};
use crate::{NodeError, blocking, node_context::NodeContext, rules::NodeCompletion};

/// The file to import.
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
    let import = Arc::clone(&context.storage.import);
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
    let (import, store) = (Arc::clone(&context.storage.import), Arc::clone(&context.storage.slices));
    let (heard, mut hear) = mpsc::channel(PROGRESS_MAX);
    let work = blocking("importing a file", move || {
        let mut told = 0;
        let mut progress = |bytes: u64| {
            // A client that lags gets the next report.
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
            // If the peer has gone, the work ends by itself, and its slice with its lease.
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
    let import = Arc::clone(&context.storage.import);
    match blocking("removing a name", move || import.unlink_original(&wanted.folder, &wanted.file, slice)).await {
        Ok(()) => {
            stream.send(&TransferReply::Ready).await?;
            Ok(AfterRequest::Next)
        }
        Err(error) => refuse(stream, &error).await,
    }
}

/// Bytes between two progress reports: a few reports a second.
const PROGRESS_BYTES: u64 = 64 << 20;
/// Progress reports that may wait to be sent.
const PROGRESS_MAX: usize = 2;
