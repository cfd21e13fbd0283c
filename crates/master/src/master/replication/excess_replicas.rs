//! Which copies of a slice are removed when there are too many, and when there are. Which one goes is
//! [chosen](crate::fleet::excess_replica_choice) by places. It never removes a copy: the [orders](super::node_orders)
//! do, if enough other copies are still certain then.

use protocol::SliceId;

use crate::{
    Master,
    fleet::{
        excess_replica_choice::choose_excess_replica, nodes::NodeKey, placement_constraints::PlacementConstraints,
    },
    replicas::{
        orders::QueuedWork,
        replica_table::{Replica, ReplicaState},
    },
};

impl Master {
    /// Has superfluous copies removed, the worst placed first. A lost node came back after its copies had been made
    /// again, or a better placed copy was made.
    pub(super) fn remove_excess_replicas(&mut self, slice: SliceId, terms: &PlacementConstraints) {
        let mut holders = self.certain_holders(slice);
        let kept = terms.copies_to_keep(&self.fleet.nodes);
        while holders.len() > kept {
            let first = self.fleet.rebalance.source_node(slice);
            let Some(superfluous) = choose_excess_replica(&self.fleet.nodes, terms, &holders, first, slice) else {
                return;
            };
            holders.retain(|holder| *holder != superfluous);
            if let Some(replica) = self.replicas.table.at(slice, superfluous) {
                self.replicas.table.set(slice, Replica { state: ReplicaState::Excess, ..replica });
                self.replicas.orders.push(superfluous, QueuedWork::Reconcile(slice));
            }
        }
    }

    /// The number of copies of a slice below which none is removed.
    pub(crate) fn copies_to_keep(&self, slice: SliceId) -> usize {
        let desired =
            self.catalog.names().file_of_slice(slice).map(|file| self.desired_replication(file)).unwrap_or_default();
        PlacementConstraints::new(&self.fleet.nodes, &desired).copies_to_keep(&self.fleet.nodes)
    }

    /// The nodes that certainly have a good copy now: they are up, and named it in their newest inventory or since.
    /// Only these count when a copy is to be removed.
    pub(crate) fn certain_holders(&self, slice: SliceId) -> Vec<NodeKey> {
        self.holders_where(slice, |master, replica| {
            let node = master.fleet.nodes.get(replica.node);
            node.is_up() && node.epoch == replica.epoch
        })
    }
}
