//! Taking a piece of a bucket from another node's task.

use std::sync::Arc;

use net::{
    identity::Bearer,
    rate_limiter::LimiterChain,
    transfer::{StreamFrame, TransferStream},
};
use protocol::{
    Status,
    message::{spe::PieceId, transfer::TransferReply},
    ticket::SignedTicket,
};

use super::{After, refuse, write::refuse_midway};
use crate::{
    NodeError, blocking,
    bucket::{Begun, PieceWriter},
    flow::{FrameSink, ReceiveError, STALL_MAX, receive},
    hands::Hands,
};

pub(super) async fn piece(
    hands: &Hands,
    stream: &mut TransferStream,
    bearer: &Bearer,
    ticket: &SignedTicket,
    piece: PieceId,
    bytes: u64,
) -> Result<After, NodeError> {
    let job = match hands.tickets.piece(bearer, ticket) {
        Ok(job) => job,
        Err(error) => return refuse(stream, &error).await,
    };
    if job != piece.bucket.job {
        let sentence = format!("the ticket is for job {job}, and the piece for job {}", piece.bucket.job);
        return refuse(stream, &NodeError::refused(Status::Refused, sentence)).await;
    }
    let buckets = Arc::clone(&hands.buckets);
    let writer = match blocking("beginning a piece", move || buckets.begin(piece, bytes)).await {
        Ok(Begun::Writer(writer)) => writer,
        Ok(Begun::Taken) => {
            stream.send(&TransferReply::Taken).await?;
            return Ok(After::Next);
        }
        Err(error) => {
            hands.watch_for_failed_disk(&error);
            return refuse(stream, &error).await;
        }
    };
    stream.send(&TransferReply::Ready).await?;
    let writer = match receive(stream, writer, &LimiterChain::unlimited(), STALL_MAX).await {
        Ok(writer) => writer,
        Err(ReceiveError::Stream(error)) => return Err(error),
        Err(ReceiveError::Sink(error)) => {
            hands.watch_for_failed_disk(&error);
            return refuse_midway(stream, &error).await;
        }
    };
    match blocking("finishing a piece", move || writer.commit()).await {
        Ok(()) => {
            stream.send(&TransferReply::Taken).await?;
            Ok(After::Next)
        }
        Err(error) => refuse(stream, &error).await,
    }
}

impl FrameSink for PieceWriter {
    fn take(&mut self, frame: &StreamFrame) -> Result<(), NodeError> {
        self.write(&frame.payload)
    }
}
