//! Giving bytes of a slice: every block is verified before it leaves; a bad one is never served, and is reported.

use std::{ops::Range, sync::Arc};

use net::transfer::{Frame, TransferStream};
use protocol::{SliceId, Status, message::transfer::TransferReply, ticket::SignedTicket};
use store::SliceReader;

use super::{After, refuse};
use crate::{
    NodeError, blocking,
    flow::{FRAME_BYTES, FrameSource, Outflow, STALL_MAX},
    hands::Hands,
};

pub(super) async fn read(
    hands: &Hands,
    stream: &mut TransferStream,
    ticket: &SignedTicket,
    slice: SliceId,
    range: Range<u64>,
) -> Result<After, NodeError> {
    let begun = async {
        let allowed = hands.tickets.read(ticket, slice)?;
        let store = Arc::clone(&hands.store);
        let reader = blocking("opening a slice", move || Ok(store.open_slice(slice)?)).await?;
        // "To the end" may be said by any number behind it.
        let range = range.start..range.end.min(reader.metadata().bytes);
        if range.start < allowed.start || range.end > allowed.end {
            let sentence = format!("the ticket allows bytes {} to {} of slice {slice}", allowed.start, allowed.end);
            return Err(NodeError::refused(Status::Refused, sentence));
        }
        let bytes = range.end.saturating_sub(range.start);
        let flow = Outflow::begin(SliceSource { reader, next: range.start, until: range.end }).await?;
        Ok((flow, bytes))
    };
    let (flow, bytes) = match begun.await {
        Ok(begun) => begun,
        Err(error) => {
            let error = hands.watch_for_corruption(slice, error).await;
            return refuse(stream, &error).await;
        }
    };
    stream.send(&TransferReply::Reading { bytes }).await?;
    match flow.send(stream, STALL_MAX).await {
        Ok(()) => Ok(After::Next),
        // The connection is dropped: fewer bytes than announced are no answer, and the reader turns to another copy.
        Err(error) => Err(hands.watch_for_corruption(slice, error).await),
    }
}

/// Verified bytes of a slice.
struct SliceSource {
    reader: SliceReader,
    next: u64,
    until: u64,
}

impl FrameSource for SliceSource {
    fn fill(&mut self, frame: &mut Frame) -> Result<(), NodeError> {
        // Frames end where blocks end, so that no block is read and verified twice.
        let frame_end = (self.next / FRAME_BYTES as u64 + 1) * FRAME_BYTES as u64;
        let bytes = frame_end.min(self.until).saturating_sub(self.next);
        self.reader.read_at(&mut frame.payload, self.next, bytes as usize)?;
        // Those of the sidecar, where the frame is made of whole blocks: it was just compared with them.
        frame.checksums.extend(self.reader.checksums(self.next, bytes));
        self.next += bytes;
        Ok(())
    }
}
