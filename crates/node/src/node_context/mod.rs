//! What every conversation of a node shares, by what it is about: storage, other nodes, limits, SPEs, tickets, and the
//! way to the rules. It never decides anything.

pub(crate) mod event;
pub(crate) mod gauge;

use protocol::NodeId;

use crate::{
    disks::storage::Storage,
    load::{LoadSamples, evidence::Evidence, links::LinkSamples},
    rules::NodeCompletion,
    task::spes::Spes,
    tickets::TicketAuthorizer,
    transfer::{peers::Peers, transfer_limits::TransferLimits},
};
use event::EventSender;

/// Shared by all tasks of a node.
pub(crate) struct NodeContext {
    pub(crate) node: NodeId,
    pub(crate) tickets: TicketAuthorizer,
    pub(crate) storage: Storage,
    pub(crate) peers: Peers,
    pub(crate) limits: TransferLimits,
    pub(crate) spes: Spes,
    pub(crate) load: LoadSamples,
    pub(crate) links: LinkSamples,
    pub(crate) evidence: Evidence,
    pub(crate) events: EventSender,
}

impl NodeContext {
    /// Tells the rules. Waits while their queue is full; they never wait for the caller.
    pub(crate) async fn send_completion(&self, completion: NodeCompletion) {
        self.events.send_completion(completion).await;
    }
}
