//! The slots of transfers, as requests wait for them. It serves every path through the transfer port. It never lets a
//! request wait for ever: without a slot in time, the peer is told to come back.

use std::{sync::Arc, time::Duration};

use net::transfer::TransferStream;
use protocol::{Reason, message::transfer::TransferReply};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    NodeError,
    node_context::{NodeContext, gauge::GaugeGuard},
};

/// The slot of one transfer.
pub(super) struct TransferSlot {
    _permit: OwnedSemaphorePermit,
    _counted: GaugeGuard,
}

/// Waits for a slot; if none is free in time, the peer is told to come back.
pub(super) async fn acquire_slot(
    context: &NodeContext,
    stream: &mut TransferStream,
) -> Result<Option<TransferSlot>, NodeError> {
    acquire_slot_of(context, &context.limits.transfer_slots, stream).await
}

/// The same for a writer; a node that forwards a slice has slots of its own.
pub(super) async fn acquire_write_slot(
    context: &NodeContext,
    stream: &mut TransferStream,
) -> Result<Option<TransferSlot>, NodeError> {
    let turns = if stream.peer_fingerprint().is_some() {
        &context.limits.forward_slots
    } else {
        &context.limits.transfer_slots
    };
    acquire_slot_of(context, turns, stream).await
}

/// The same for the slots of a kind.
pub(super) async fn acquire_slot_of(
    context: &NodeContext,
    turns: &Arc<Semaphore>,
    stream: &mut TransferStream,
) -> Result<Option<TransferSlot>, NodeError> {
    let turn = wait_for_slot(context, turns).await;
    if turn.is_none() {
        stream.send(&TransferReply::Refused(too_busy(context).refusal())).await?;
    }
    Ok(turn)
}

/// Waits for a slot, but not for ever.
pub(super) async fn wait_for_transfer_slot(context: &NodeContext) -> Option<TransferSlot> {
    wait_for_slot(context, &context.limits.transfer_slots).await
}

pub(super) async fn wait_for_slot(context: &NodeContext, turns: &Arc<Semaphore>) -> Option<TransferSlot> {
    match timeout(SLOT_WAIT_MAX, Arc::clone(turns).acquire_owned()).await {
        Ok(Ok(permit)) => Some(TransferSlot { _permit: permit, _counted: context.limits.transfers_running.count() }),
        _ => None,
    }
}

pub(super) fn too_busy(context: &NodeContext) -> NodeError {
    let message = format!("node {} serves as many transfers as it may; try again a little later", context.node);
    NodeError::refused(Reason::Busy, message)
}

/// How long a request may wait for its slot before it is sent elsewhere.
const SLOT_WAIT_MAX: Duration = Duration::from_secs(15);
