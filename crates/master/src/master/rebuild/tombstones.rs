//! Removals that a node missed: a slice that is no longer any file's content but lies at a node that is away. With its
//! journal the master does not need them, since a slice without a name belongs to nobody. Without it, the file would
//! get its name back. So each is recorded, kept at the nodes, and never crossed out before the node has come and the
//! slice is gone.

use std::collections::BTreeSet;

use protocol::{NodeId, Now, SliceId};
use store::RowChange;

use crate::{
    Master,
    fleet::nodes::NodeKey,
    log::{journal_writes::Effect, rebuild::rebuild_rows},
};

impl Master {
    /// Records which slices among `effects` have lost their file while a node was away that has them, or may have them.
    pub(crate) fn add_tombstones(&mut self, changes: &mut Vec<RowChange>, effects: &[Effect]) {
        // Almost always.
        if self.log.rebuild.absent.is_empty() {
            return;
        }
        for effect in effects {
            let Effect::Reconcile(slice) = effect else { continue };
            let slice = *slice;
            let is_freed = self.catalog.names().file_of_slice(slice).is_none()
                && self.writes.leases.of_slice(slice).is_none()
                && !self.log.rebuild.is_archived(slice)
                && !self.log.rebuild.tombstones.contains_key(&slice);
            if !is_freed || self.log.rebuild.tombstones.len() >= TOMBSTONES_MAX {
                continue;
            }
            let nodes: BTreeSet<_> =
                self.log.rebuild.absent.iter().filter(|id| self.may_hold(id, slice)).cloned().collect();
            if !nodes.is_empty() {
                changes.push(rebuild_rows::tombstone_row(slice, &nodes));
                self.log.rebuild.tombstones.insert(slice, nodes);
            }
        }
    }

    /// Records what is pending at a node that is silent, was lost, or has joined again: nobody knows whether it did that.
    pub(crate) fn note_missed_orders(&mut self, now: Now, key: NodeKey) {
        let id = self.fleet.nodes.get(key).id.clone();
        if !self.log.rebuild.members.contains(&id) {
            return;
        }
        let mut changes = Vec::new();
        for slice in self.replicas.orders.reconciling(key) {
            if self.is_to_be_removed(slice, key)
                && self.catalog.names().file_of_slice(slice).is_none()
                && self.log.rebuild.tombstones.len() < TOMBSTONES_MAX
                && changes.len() < MISSED_MAX
            {
                let nodes = self.log.rebuild.tombstones.entry(slice).or_default();
                if nodes.insert(id.clone()) {
                    changes.push(rebuild_rows::tombstone_row(slice, nodes));
                }
            } else if changes.len() < MISSED_MAX {
                changes.extend(self.note_missed_by(&id, slice));
            }
        }
        if !changes.is_empty() {
            self.save(now, changes, Vec::new());
        }
    }

    /// A node has removed a slice.
    pub(crate) fn clear_tombstone(&mut self, slice: SliceId, key: NodeKey) -> Vec<RowChange> {
        let Some(nodes) = self.log.rebuild.tombstones.get_mut(&slice) else { return Vec::new() };
        if !nodes.remove(&self.fleet.nodes.get(key).id) {
            return Vec::new();
        }
        let row = rebuild_rows::tombstone_row(slice, nodes);
        if nodes.is_empty() {
            self.log.rebuild.tombstones.remove(&slice);
        }
        vec![row]
    }

    /// A node has completed its inventory: slices missing from it are removed.
    pub(super) fn clear_tombstones_after_inventory(&mut self, key: NodeKey) -> Vec<RowChange> {
        let id = self.fleet.nodes.get(key).id.clone();
        let epoch = self.fleet.nodes.get(key).epoch;
        let replicas = std::mem::take(&mut self.replicas.table);
        let changes =
            self.clear_tombstones(&id, |slice| replicas.at(slice, key).is_none_or(|replica| replica.epoch != epoch));
        self.replicas.table = replicas;
        changes
    }

    /// Crosses a node out at every slice for which `is_gone` is true.
    pub(super) fn clear_tombstones(&mut self, id: &NodeId, is_gone: impl Fn(SliceId) -> bool) -> Vec<RowChange> {
        let mut changes = Vec::new();
        self.log.rebuild.tombstones.retain(|slice, nodes| {
            if nodes.contains(id) && is_gone(*slice) {
                nodes.remove(id);
                changes.push(rebuild_rows::tombstone_row(*slice, nodes));
            }
            !nodes.is_empty()
        });
        changes
    }

    /// Whether a node that is away has a slice, as far as known.
    pub(super) fn may_hold(&self, id: &NodeId, slice: SliceId) -> bool {
        match self.fleet.nodes.of_id(id) {
            Some(key) if !self.fleet.nodes.get(key).inventory_open => self.replicas.table.at(slice, key).is_some(),
            _ => true,
        }
    }
}

/// Missed removals that are recorded, about 200 MiB of memory. Beyond that, a removed file may come back if its node is
/// away and the journal is lost.
const TOMBSTONES_MAX: usize = 1_000_000;
/// Orders in progress at a silent or lost node that are recorded, in one save.
const MISSED_MAX: usize = 30_000;
