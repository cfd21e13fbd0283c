//! Brings the slices on the nodes into agreement with the names. Serves publishing, renaming, removal, and the return
//! of a node. For one replica there is at most one thing to do, and it follows from the present state
//! ([`Master::due`]). So asking once for every replica is enough, and the order of earlier events never matters.

use protocol::{Now, SliceHeader, SliceId};

use crate::{
    Master,
    fleet::nodes::NodeKey,
    log::journal_writes::Effect,
    replicas::{
        orders::QueuedWork,
        replica_table::{HeaderFingerprint, Replica, ReplicaState},
    },
};

/// The work due for a replica.
pub(super) enum Due {
    Place(SliceHeader),
    Remove,
}

impl Master {
    /// Handles a change of a slice: its replicas are placed or removed, and its copies counted.
    pub(crate) fn reconcile_slice(&mut self, now: Now, slice: SliceId) {
        if self.is_placed_or_gone(slice) {
            self.release_superseded(now, slice);
        }
        let due: Vec<_> = self.replicas.table.of(slice).iter().map(|replica| replica.node).collect();
        for node in due {
            match self.due(slice, node) {
                Some(_) if self.fleet.nodes.get(node).is_up() => {
                    self.replicas.orders.push(node, QueuedWork::Reconcile(slice));
                }
                Some(Due::Place(_)) => self.note_change_waits(now, slice, node),
                _ => {}
            }
        }
        self.check_replication(now, slice);
    }

    /// Notes that a slice is no longer at a node.
    pub(crate) fn note_removed(&mut self, now: Now, slice: SliceId, node: NodeKey) {
        let confirmed = self.clear_tombstone(slice, node);
        self.save(now, confirmed, Vec::new());
        match self.replicas.table.at(slice, node) {
            Some(replica @ Replica { state: ReplicaState::Corrupt { .. }, .. }) => {
                let state = ReplicaState::Corrupt { is_quarantined: true };
                self.replicas.table.set(slice, Replica { state, ..replica });
                if self.catalog.names().file_of_slice(slice).is_none() {
                    self.forget_replica(slice, node);
                }
            }
            Some(_) => {
                let bytes = self.catalog.names().content_of_slice(slice).map_or(0, |content| content.bytes);
                self.fleet.nodes.get_mut(node).note_removed(bytes);
                self.forget_replica(slice, node);
            }
            None => {}
        }
        let followed = self.clear_missed_change(slice, node);
        self.save(now, followed.into_iter().collect(), Vec::new());
        self.check_replication(now, slice);
    }

    /// Notes the present state of a slice at a node.
    pub(crate) fn set_replica(&mut self, slice: SliceId, key: NodeKey, state: ReplicaState) {
        let epoch = self.fleet.nodes.get(key).epoch;
        if self.replicas.table.set(slice, Replica { node: key, state, epoch }) {
            self.fleet.nodes.get_mut(key).slice_count += 1;
        }
    }

    /// Forgets that a slice is at a node.
    pub(crate) fn forget_replica(&mut self, slice: SliceId, key: NodeKey) {
        if self.replicas.table.remove(slice, key) {
            self.fleet.nodes.get_mut(key).slice_count -= 1;
        }
    }

    /// The work due for a slice at a node, if any.
    pub(super) fn due(&self, slice: SliceId, node: NodeKey) -> Option<Due> {
        let replica = self.replicas.table.at(slice, node)?;
        let is_unsettled =
            self.log.journal_writes.has_unsaved_change(slice) || self.catalog.names().is_pending_removal(slice);
        // During a rebuild nobody knows yet what belongs where.
        if is_unsettled || self.log.rebuild.is_running() {
            return None;
        }
        match (replica.state, self.catalog.names().header_of_slice(slice, self.log.rebuild.id)) {
            (ReplicaState::Corrupt { is_quarantined: true }, _) => None,
            (ReplicaState::Corrupt { is_quarantined: false }, _) => Some(Due::Remove),
            // A copy made while a node is missing: an unplaced copy has no better knowledge.
            (ReplicaState::Staged, Some(header)) if !self.has_unmerged_mirror(node) => Some(Due::Place(header)),
            (ReplicaState::Excess, Some(header)) if !self.has_unmerged_mirror(node) => {
                // The other copies may have been lost since this one was found to be superfluous.
                let is_superfluous = self.certain_holders(slice).len() >= self.copies_to_keep(slice);
                Some(if is_superfluous { Due::Remove } else { Due::Place(header) })
            }
            // Nodes that have not reported may know more of it than the journal: its sidecar is not changed.
            _ if self.is_held_back(slice, node) => None,
            (ReplicaState::Placed(mark), Some(header)) if mark == HeaderFingerprint::of(&header) => None,
            (_, Some(header)) => Some(Due::Place(header)),
            (_, None) => {
                let is_needed = self.writes.leases.of_slice(slice).is_some()
                    || self.replicas.superseded.waits(slice)
                    || self.log.rebuild.is_archived(slice);
                (!is_needed).then_some(Due::Remove)
            }
        }
    }

    /// Whether a slice has to be removed at a node.
    pub(crate) fn is_to_be_removed(&self, slice: SliceId, node: NodeKey) -> bool {
        matches!(self.due(slice, node), Some(Due::Remove))
    }

    /// Whether nothing has to wait for this slice any longer: it stands at its path, or is no longer any file's
    /// content.
    fn is_placed_or_gone(&self, slice: SliceId) -> bool {
        match self.catalog.names().header_of_slice(slice, self.log.rebuild.id) {
            Some(header) => {
                let placed = ReplicaState::Placed(HeaderFingerprint::of(&header));
                self.replicas.table.of(slice).iter().any(|replica| replica.state == placed)
            }
            None => self.writes.leases.of_slice(slice).is_none(),
        }
    }

    fn release_superseded(&mut self, now: Now, slice: SliceId) {
        let released = self.replicas.superseded.release(slice);
        if !released.is_empty() {
            // Also if a node with it was lost meanwhile.
            self.save(now, Vec::new(), released.into_iter().map(Effect::Reconcile).collect());
        }
    }
}
