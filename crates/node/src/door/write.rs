//! Taking a new slice: hashed while it arrives, synced before it is acknowledged, and gone without a trace when the
//! sender goes away before the end.

use std::sync::Arc;

use net::transfer::{Frame, TransferStream};
use protocol::{SliceMetadata, Status, message::transfer::TransferReply, ticket::SignedTicket};
use store::SliceWriter;

use super::{After, refuse};
use crate::{
    NodeError, blocking,
    flow::{FrameSink, ReceiveError, UPLOAD_STALL_MAX, drain, receive},
    hands::Hands,
    rules::Completion,
};

pub(super) async fn write(
    hands: &Hands,
    stream: &mut TransferStream,
    ticket: &SignedTicket,
) -> Result<After, NodeError> {
    let (header, claim) = match hands.tickets.write(ticket) {
        Ok(allowed) => allowed,
        Err(error) => return refuse(stream, &error).await,
    };
    let store = Arc::clone(&hands.store);
    let writer = match blocking("beginning a slice", move || Ok(store.begin(header)?)).await {
        Ok(writer) => writer,
        Err(error) => return refuse(stream, &error).await,
    };
    stream.send(&TransferReply::Ready).await?;
    let writer = match receive(stream, writer, UPLOAD_STALL_MAX).await {
        Ok(writer) => writer,
        Err(ReceiveError::Stream(error)) => return Err(error),
        Err(ReceiveError::Sink(error)) => return refuse_midway(stream, &error).await,
    };
    let store = Arc::clone(&hands.store);
    let finished = blocking("finishing a slice", move || {
        let metadata = writer.finish(None)?;
        // Its disk may have failed meanwhile: then it is not acknowledged, although the writer met no error.
        if store.contains(metadata.header.slice) { Ok(metadata) } else { Err(gone(&metadata)) }
    });
    match finished.await {
        Ok(metadata) => {
            claim.used();
            let reply = TransferReply::Stored { bytes: metadata.bytes, digest: metadata.digest };
            // The master first: the writer's commit waits for this report.
            hands.tell(Completion::Stored(metadata)).await;
            stream.send(&reply).await?;
            Ok(After::Next)
        }
        Err(error) => refuse(stream, &error).await,
    }
}

fn gone(metadata: &SliceMetadata) -> NodeError {
    let path = &metadata.header.path;
    NodeError::refused(
        Status::Unavailable,
        format!("the disk failed on which `{path}` was being stored; write it again"),
    )
}

/// Says no to one who is still sending. It reads our word only when it has got rid of its own.
pub(super) async fn refuse_midway(stream: &mut TransferStream, error: &NodeError) -> Result<After, NodeError> {
    stream.send(&TransferReply::Refused(error.refusal())).await?;
    Ok(if drain(stream).await { After::Next } else { After::Close })
}

impl FrameSink for SliceWriter {
    fn take(&mut self, frame: &Frame) -> Result<(), NodeError> {
        Ok(self.write_checked(&frame.payload, &frame.checksums)?)
    }
}
