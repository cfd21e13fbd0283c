//! Changes that a node missed: a file has another path or other rights by now. A node that is away has it as it was.
//! Should all other copies and the journal be lost, the file would be there again. So each is recorded with the
//! outdated paths, which keeps the file's own row at the nodes. It is never crossed out before the node has followed.

use protocol::{FileId, NodeId, Now, SectorPath, SliceId};
use store::RowChange;

use crate::{
    Master,
    catalog::namespace::change::NamespaceChange,
    fleet::nodes::NodeKey,
    log::{
        journal_writes::Effect,
        rebuild::{outdated_paths::NO_MARK, rebuild_rows},
    },
    master::rebuild::outdated_path_recovery::OUTDATED_MAX,
    replicas::replica_table::{HeaderFingerprint, Replica, ReplicaState},
};

impl Master {
    /// An entry has got another path or other rights. Adds rows for the files at and below it that nodes which are away
    /// have as they were.
    pub(crate) fn note_missed_change(&mut self, changes: &mut Vec<RowChange>, entry: FileId) {
        // Almost always.
        if self.log.rebuild.absent.is_empty() {
            return;
        }
        let absent: Vec<_> = self.log.rebuild.absent.iter().cloned().collect();
        let (mut unread, mut room) = (vec![entry], OUTDATED_MAX);
        while let Some(entry) = unread.pop() {
            let children = self.catalog.names().children_after(entry, None, room);
            room -= children.len();
            unread.extend(children);
            if let Some(slice) = self.catalog.names().slice_of(entry) {
                changes.extend(absent.iter().filter_map(|id| self.note_missed_by(id, slice)));
            }
        }
    }

    /// The same for further files that a change of names has given another path.
    pub(crate) fn note_missed_changes_of_touched(&mut self, change: &mut NamespaceChange) {
        let files: Vec<_> =
            change.touched.iter().filter_map(|slice| self.catalog.names().file_of_slice(*slice)).collect();
        files.into_iter().for_each(|file| self.note_missed_change(&mut change.rows, file));
    }

    /// A slice was looked at, and a change of it waits for this node, which is not up.
    pub(crate) fn note_change_waits(&mut self, now: Now, slice: SliceId, key: NodeKey) {
        let id = self.fleet.nodes.get(key).id.clone();
        let state = self.replicas.table.at(slice, key).map(|replica| replica.state);
        // A staged one may have been there for the first time.
        if matches!(state, Some(ReplicaState::Placed(_) | ReplicaState::Retired)) {
            let row = self.note_missed_by(&id, slice);
            self.save(now, row.into_iter().collect(), Vec::new());
        }
    }

    /// Records that a node has a slice under an old header; returns the row, if that is new.
    pub(crate) fn note_missed_by(&mut self, id: &NodeId, slice: SliceId) -> Option<RowChange> {
        if !self.log.rebuild.members.contains(id) || !self.may_lag(id, slice) {
            return None;
        }
        let outdated = &mut self.log.rebuild.outdated_paths;
        if !outdated.contains_key(&slice) && outdated.len() >= OUTDATED_MAX {
            return None;
        }
        let of_slice = outdated.entry(slice).or_default();
        let is_new = of_slice.insert((id.clone(), SectorPath::root()), NO_MARK).is_none();
        is_new.then(|| rebuild_rows::outdated_row(slice, of_slice))
    }

    /// A slice at a node was placed or removed, or the node's inventory is complete: crosses it out where it has
    /// followed.
    pub(crate) fn clear_missed_change(&mut self, slice: SliceId, key: NodeKey) -> Option<RowChange> {
        let id = self.fleet.nodes.get(key).id.clone();
        let is_known = self.log.rebuild.outdated_paths.get(&slice)?.keys().any(|(node, _)| *node == id);
        if !is_known || (self.replicas.table.at(slice, key).is_some() && self.may_lag(&id, slice)) {
            return None;
        }
        self.remove_outdated(slice, |node| *node == id)
    }

    /// A node has completed its inventory.
    pub(super) fn clear_missed_changes_after_inventory(&mut self, key: NodeKey) -> Vec<RowChange> {
        let id = &self.fleet.nodes.get(key).id;
        let epoch = self.fleet.nodes.get(key).epoch;
        let of_node = self.log.rebuild.outdated_paths.iter();
        let of_node = of_node.filter(|(_, outdated)| outdated.keys().any(|(node, _)| node == id));
        let is_there = |slice| self.replicas.table.at(slice, key).is_some_and(|replica| replica.epoch == epoch);
        let done = of_node.map(|(slice, _)| *slice).filter(|slice| !is_there(*slice) || !self.may_lag(id, *slice));
        let (id, done) = (id.clone(), done.collect::<Vec<_>>());
        done.into_iter().filter_map(|slice| self.remove_outdated(slice, |node| *node == id)).collect()
    }

    /// Nobody waits for a node any longer.
    pub(super) fn clear_missed_changes_of(&mut self, id: &NodeId) -> Vec<RowChange> {
        let slices: Vec<_> = self.log.rebuild.outdated_paths.keys().copied().collect();
        slices.into_iter().filter_map(|slice| self.remove_outdated(slice, |node| node == id)).collect()
    }

    /// Drops the rows of slices among `effects` that have lost their file: there is nothing to follow.
    pub(crate) fn drop_void_changes(&mut self, changes: &mut Vec<RowChange>, effects: &[Effect]) {
        if self.log.rebuild.outdated_paths.is_empty() || self.log.rebuild.is_running() {
            return;
        }
        for effect in effects {
            let Effect::Reconcile(slice) = effect else { continue };
            if self.catalog.names().file_of_slice(*slice).is_none() {
                changes.extend(self.remove_outdated(*slice, |_| true));
            }
        }
    }

    /// All have reported, or the rebuild has ended: nodes that are there are told to follow.
    pub(super) fn forget_outdated_paths(&mut self) -> Vec<RowChange> {
        let slices: Vec<_> = self.log.rebuild.outdated_paths.keys().copied().collect();
        let absent = self.log.rebuild.absent.clone();
        slices.into_iter().filter_map(|slice| self.remove_outdated(slice, |node| !absent.contains(node))).collect()
    }

    /// Removes the outdated paths of some nodes; returns the row, if there were any.
    fn remove_outdated(&mut self, slice: SliceId, is_of: impl Fn(&NodeId) -> bool) -> Option<RowChange> {
        let outdated = self.log.rebuild.outdated_paths.get_mut(&slice)?;
        let before = outdated.len();
        outdated.retain(|(node, _), _| !is_of(node));
        if outdated.len() == before {
            return None;
        }
        if !outdated.is_empty() {
            return Some(rebuild_rows::outdated_row(slice, outdated));
        }
        self.log.rebuild.outdated_paths.remove(&slice);
        Some(rebuild_rows::remove_outdated_row(slice))
    }

    /// Whether a node has a file's slice under another header than the present one, as far as known.
    fn may_lag(&self, id: &NodeId, slice: SliceId) -> bool {
        let Some(header) = self.catalog.names().header_of_slice(slice, self.log.rebuild.id) else { return false };
        let key = self.fleet.nodes.of_id(id);
        match key.and_then(|key| self.replicas.table.at(slice, key)) {
            Some(Replica { state: ReplicaState::Placed(mark), .. }) => mark != HeaderFingerprint::of(&header),
            Some(Replica { state: ReplicaState::Staged | ReplicaState::Retired, .. }) => true,
            Some(Replica { state: ReplicaState::Excess | ReplicaState::Corrupt { .. }, .. }) => false,
            // One that has told nothing in this life can only have what was written before.
            None => {
                header.version <= self.version_at_start
                    && key.is_none_or(|key| self.fleet.nodes.get(key).inventory_open)
            }
        }
    }
}
