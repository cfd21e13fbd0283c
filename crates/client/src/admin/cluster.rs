//! The nodes of the cloud, for administrators (door 2 alone): draining, removing, rebalancing, and the topology. The
//! master decides: this file never moves a slice.

use protocol::{
    NodeId, Status,
    message::{
        cluster::{
            DrainRequest, MovePlan, NodeRemoval, RebalanceStatus, RebalanceVerb, RemoveNodeRequest, TopologyStatus,
        },
        request::TopologyRequest,
    },
};

use crate::{Client, ClientError};

impl Client {
    /// Has a node drained, or with `dry_run` reports what would move. The node is empty once its state in
    /// [`nodes`](Self::nodes) is [`Drained`](protocol::message::cluster::Membership::Drained).
    ///
    /// # Errors
    /// [`Status::Unavailable`] if files would find no other node.
    pub async fn drain_node(&self, node: &NodeId, dry_run: bool) -> Result<MovePlan, ClientError> {
        self.ask(DrainRequest { node: node.clone(), dry_run, undo: false }).await
    }

    /// Takes a node that was or is being drained into use again.
    ///
    /// # Errors
    /// If there is no such node.
    pub async fn undo_drain(&self, node: &NodeId) -> Result<(), ClientError> {
        self.ask(DrainRequest { node: node.clone(), dry_run: false, undo: true }).await.map(drop)
    }

    /// Forgets a node that was drained or is lost, and refuses its certificate from then on.
    ///
    /// # Errors
    /// [`Status::Refused`] if it is in use or files would be lost, unless forced.
    pub async fn remove_node(&self, request: RemoveNodeRequest) -> Result<NodeRemoval, ClientError> {
        let (node, undo, dry_run) = (request.node.clone(), request.undo, request.dry_run);
        let removal = match self.ask(request).await {
            Ok(removal) => removal,
            // A node that never joined still has a certificate, and a removal whose second half failed is repeated.
            Err(unknown) if unknown.status() == Status::NotFound && !dry_run => {
                return match self.revoke_node(&node, undo).await {
                    Ok(()) => Ok(NodeRemoval { removed: !undo, ..NodeRemoval::default() }),
                    Err(error) if error.status() == Status::NotFound => Err(unknown),
                    Err(error) => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        if removal.removed || undo {
            match self.revoke_node(&node, undo).await {
                // It never had a certificate that could be refused.
                Err(error) if error.status() == Status::NotFound => {}
                struck => struck?,
            }
        }
        Ok(removal)
    }

    /// Plans, begins, ends or reports the moving of slices from fuller to emptier nodes.
    ///
    /// # Errors
    /// See [`Status::Refused`].
    pub async fn rebalance(&self, verb: RebalanceVerb) -> Result<RebalanceStatus, ClientError> {
        self.ask(verb).await
    }

    /// The topology; with `reload` after the master has read its file again.
    ///
    /// # Errors
    /// With `reload`, what is wrong with the file; the topology before it then stays in use.
    pub async fn topology(&self, reload: bool) -> Result<TopologyStatus, ClientError> {
        self.ask(TopologyRequest { reload }).await
    }
}
