//! Takes a piece of a bucket from another node's task. It never acknowledges a piece before its bucket has all of it.

use std::sync::Arc;

use net::{
    identity::Bearer,
    rate_limiter::LimiterChain,
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    Reason,
    message::{spe::PieceId, transfer::TransferReply},
    ticket::SignedTicket,
};

use super::{
    replies::{AfterRequest, refuse},
    write::refuse_midway,
};
use crate::{
    NodeError, blocking,
    bucket::{BeginOutcome, PieceWriter},
    node_context::NodeContext,
    transfer::frame_pipe::{FrameSink, ReceiveError, STALL_MAX, receive_frames},
};

pub(super) async fn piece(
    context: &NodeContext,
    stream: &mut TransferStream,
    bearer: &Bearer,
    ticket: &SignedTicket,
    piece: PieceId,
    bytes: u64,
) -> Result<AfterRequest, NodeError> {
    let job = match context.tickets.piece(bearer, ticket) {
        Ok(job) => job,
        Err(error) => return refuse(stream, &error).await,
    };
    if job != piece.bucket.job {
        let message = format!("the ticket is for job {job}, and the piece for job {}", piece.bucket.job);
        return refuse(stream, &NodeError::refused(Reason::NoRight, message)).await;
    }
    let buckets = Arc::clone(&context.storage.buckets);
    let writer = match blocking("beginning a piece", move || buckets.begin(piece, bytes)).await {
        Ok(BeginOutcome::Writer(writer)) => writer,
        Ok(BeginOutcome::Taken) => {
            stream.send(&TransferReply::Taken).await?;
            return Ok(AfterRequest::Next);
        }
        Err(error) => {
            context.storage.note_disk_error(&error);
            return refuse(stream, &error).await;
        }
    };
    stream.send(&TransferReply::Ready).await?;
    let writer = match receive_frames(stream, writer, &LimiterChain::unlimited(), STALL_MAX).await {
        Ok(writer) => writer,
        Err(ReceiveError::Stream(error)) => return Err(error),
        Err(ReceiveError::Sink(error)) => {
            context.storage.note_disk_error(&error);
            return refuse_midway(stream, &error).await;
        }
    };
    match blocking("finishing a piece", move || writer.commit()).await {
        Ok(()) => {
            stream.send(&TransferReply::Taken).await?;
            Ok(AfterRequest::Next)
        }
        Err(error) => refuse(stream, &error).await,
    }
}

impl FrameSink for PieceWriter {
    fn write_frame(&mut self, frame: &StreamFrame) -> Result<(), NodeError> {
        self.write(&frame.payload)
    }
}
