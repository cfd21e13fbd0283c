//! Copies a slice from elsewhere for a client that sees none of its bytes (path `docs/paths/third-party-copy.md`). The
//! bytes are treated as an upload's: hashed, forwarded along the chain, and synced before they are acknowledged. If the
//! copy breaks off, they are kept for the next attempt. It never reads with a right of this node's own: every byte
//! comes by a ticket that the client was given and assigned.

use std::sync::Arc;

use daemon::shutdown::ShutdownToken;
use net::{identity::Bearer, transfer::TransferStream};
use protocol::{
    Digest, Reason, SliceHeader, TransferQos,
    message::transfer::{Pull, TransferReply},
    ticket::Delegate,
    ticket_verifier::WriteGrant,
};
use store::{PartialKey, SliceWriter};

use super::{
    replies::{AfterRequest, refuse},
    write::{begin_resumable, evict_partials_if_full, finish, receive_upload},
};
use crate::{
    NodeError, blocking,
    disks::upload_locks::UploadLock,
    node_context::NodeContext,
    tickets::WriteClaim,
    transfer::{
        forward::{Forward, READY_TIME_MAX, report_forward_failed},
        pull::{PullSource, foreign_cloud::ForeignCloudClient, pull_control::PullControl},
    },
};

/// What a client asks for, with its rate and priority.
pub(super) struct PullRequest {
    pub(super) pull: Pull,
    pub(super) pace: TransferQos,
}

/// Makes a copy with the tickets' rights.
pub(super) async fn pull(
    context: &Arc<NodeContext>,
    stream: &mut TransferStream,
    bearer: &Bearer,
    PullRequest { pull, pace }: PullRequest,
    stopping: &ShutdownToken,
) -> Result<AfterRequest, NodeError> {
    let Pull { write, chain, slice, bytes, sources, authority } = pull;
    let (WriteGrant { header, user, resume, base, .. }, claim) = match context.tickets.write(bearer, &write) {
        Ok(allowed) => allowed,
        Err(error) => return refuse(stream, &error).await,
    };
    if base.is_some() {
        let message = "a copy cannot be appended to what is there; copy it to a path of its own";
        return refuse(stream, &NodeError::refused(Reason::Invalid, message)).await;
    }
    let abroad = match authority
        .map(|authority| ForeignCloudClient::open(context.peers.foreign_clouds, &context.node, &authority))
        .transpose()
    {
        Ok(abroad) => abroad,
        Err(error) => return refuse(stream, &error).await,
    };
    let puller = match &abroad {
        Some(abroad) => Delegate::Key(abroad.key()),
        None => Delegate::Node(context.node.clone()),
    };
    let copied = header.slice;
    let key = resume.map(|key| PartialKey { user, key });
    let (writer, turn) = match begin(context, header, key, bytes).await {
        Ok(begun) => begun,
        Err(error) => return refuse(stream, &error).await,
    };
    let from = writer.bytes();
    let mut forward = None;
    if from == 0 {
        forward = Forward::begin(context, copied, chain, pace.priority, READY_TIME_MAX);
    } else {
        // Bytes that are already here cannot be forwarded in frames.
        report_forward_failed(context, copied, chain.into_iter().map(|source| source.node)).await;
    }
    let talk = PullControl::new(puller, pace, sources);
    let mut pulled = PullSource::new(context, (bearer, &talk), abroad, slice, from..bytes);
    let making = async {
        let made = async {
            let begun = (writer, turn);
            let writer =
                receive_upload(context, &mut pulled, &claim, begun, &mut forward, stopping, talk.client_gone()).await?;
            if let Some(forward) = forward.take() {
                forward.finish();
            }
            store(context, writer, bytes, claim).await
        };
        let made = made.await;
        talk.end();
        made
    };
    let (made, spoken) = tokio::join!(making, talk.serve_client(stream));
    pulled.end();
    spoken?;
    match made {
        Ok((bytes, digest)) => {
            stream.send(&TransferReply::Stored { bytes, digest }).await?;
            Ok(AfterRequest::Next)
        }
        Err(error) => refuse(stream, &error).await,
    }
}

/// A writer for the copy, with what an earlier attempt left.
async fn begin(
    context: &NodeContext,
    header: SliceHeader,
    key: Option<PartialKey>,
    bytes: u64,
) -> Result<(SliceWriter, Option<UploadLock>), NodeError> {
    let Some(key) = key else {
        let store = Arc::clone(&context.storage.slices);
        return Ok((blocking("beginning a copy", move || Ok(store.begin(header)?)).await?, None));
    };
    let (turn, writer) = begin_resumable(context, header, key).await?;
    if writer.bytes() <= bytes {
        return Ok((writer, Some(turn)));
    }
    // The earlier bytes were of something else: the key was not what it should be.
    Ok((blocking("beginning a copy anew", move || Ok(writer.restart()?)).await?, Some(turn)))
}

async fn store(
    context: &NodeContext,
    writer: SliceWriter,
    bytes: u64,
    claim: WriteClaim,
) -> Result<(u64, Digest), NodeError> {
    if writer.bytes() != bytes {
        let what = format!("the copy at node {}", context.node);
        return Err(NodeError::LengthMismatch { what, expected: bytes, found: writer.bytes() });
    }
    let finished = finish(context, writer, claim).await;
    if let Err(error) = &finished {
        evict_partials_if_full(context, error).await;
    }
    finished
}
