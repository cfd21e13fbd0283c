//! Checking a slice where it lies (`sector check`): read whole from the disk, compared block by block and as a whole.
//! It never believes an earlier check; a bad slice is put aside and reported, so that the master replaces it.

use std::sync::Arc;

use net::{identity::Bearer, transfer::TransferStream};
use protocol::{SliceId, message::transfer::TransferReply, ticket::SignedTicket};
use store::{CheckStep, SliceCheck};

use super::replies::{AfterRequest, refuse};
use crate::{NodeError, blocking, node_context::NodeContext};

pub(super) async fn verify(
    context: &NodeContext,
    stream: &mut TransferStream,
    bearer: &Bearer,
    ticket: &SignedTicket,
    slice: SliceId,
) -> Result<AfterRequest, NodeError> {
    let mut bytes_done = 0;
    let mut check = match begin(context, bearer, ticket, slice).await {
        Ok(check) => check,
        Err(error) => {
            let error = context.storage.quarantine_if_corrupt(slice, error).await;
            return refuse(stream, &error).await;
        }
    };
    loop {
        let step = blocking("verifying a slice", move || {
            let step = check.step(STEP_BYTES)?;
            Ok((check, step))
        });
        match step.await {
            Ok((more, CheckStep::More(bytes))) => {
                (check, bytes_done) = (more, bytes_done + bytes);
                stream.send(&TransferReply::Verifying { bytes: bytes_done }).await?;
            }
            Ok((_, CheckStep::Good { digest, .. })) => {
                stream.send(&TransferReply::Verified { digest }).await?;
                return Ok(AfterRequest::Next);
            }
            Err(error) => {
                let error = context.storage.quarantine_if_corrupt(slice, error).await;
                return refuse(stream, &error).await;
            }
        }
    }
}

async fn begin(
    context: &NodeContext,
    bearer: &Bearer,
    ticket: &SignedTicket,
    slice: SliceId,
) -> Result<SliceCheck, NodeError> {
    let allowed = context.tickets.read(bearer, ticket, slice)?;
    let store = Arc::clone(&context.storage.slices);
    let reader = blocking("opening a slice", move || Ok(store.open_slice(slice)?)).await?;
    if allowed.start > 0 || allowed.end < reader.metadata().bytes {
        let message = format!("the ticket allows bytes {} to {} of slice {slice}", allowed.start, allowed.end);
        return Err(context.tickets.refuse_range(bearer, message));
    }
    Ok(SliceCheck::begin(reader))
}

/// Bytes between two signs of life: read in seconds also where a busy disk gives a megabyte a second.
const STEP_BYTES: u64 = 8 << 20;
