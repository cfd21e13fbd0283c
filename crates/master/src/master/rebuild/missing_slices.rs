//! Names without bytes: files of a restored journal of which no node has a copy. Nobody can say whether they were
//! removed since or lost. So they are listed until an administrator dismisses them; this file never drops one by
//! itself.

use protocol::{
    NodeId, Now, SectorPath, SliceId,
    message::rebuild::{Conflict, ConflictKind},
};
use store::RowChange;

use crate::{
    Master,
    catalog::trash::replaced::ReplacedContent,
    log::{journal_writes::Effect, rebuild::rebuild_rows},
    replicas::replica_table::Replica,
};

impl Master {
    /// Lists the files of an older journal of which no node has the bytes. A node that has not reported may have them:
    /// then they count as lost, like the files of any node that is away.
    pub(super) fn list_missing(&mut self) -> (Vec<RowChange>, Vec<Effect>) {
        let Ok(node) = NodeId::new(NOBODY) else { return Default::default() };
        if self.log.rebuild.fork.is_none() || !self.log.rebuild.absent.is_empty() {
            return Default::default();
        }
        let of_nobody = |slice: &SliceId| {
            let was_made_since =
                self.log.rebuild.local_changes.slices.contains(slice) || self.writes.leases.of_slice(*slice).is_some();
            self.replicas.table.of(*slice).is_empty()
                && !was_made_since
                && !self.log.rebuild.conflicts.contains_key(slice)
        };
        let slices: Vec<_> = self.catalog.names().all_slices().filter(of_nobody).collect();
        let missing: Vec<_> = slices.into_iter().filter_map(|slice| self.published(slice)).collect();
        let (mut changes, mut effects) = (Vec::new(), Vec::new());
        for metadata in missing {
            let slice = metadata.header.slice;
            // A file in memory goes with its node, and is no loss.
            if metadata.header.path.is_in_memory() {
                continue;
            }
            let kind = ConflictKind::NoBytes;
            let conflict = Conflict { metadata, node: node.clone(), kind, other: None, is_archived: false };
            changes.push(rebuild_rows::conflict_row(&conflict));
            effects.push(Effect::Reconcile(slice));
            self.log.rebuild.conflicts.insert(slice, conflict);
        }
        if !changes.is_empty() {
            tracing::warn!(files = changes.len(), "files of the older journal have no bytes at any node");
        }
        (changes, effects)
    }

    /// Whether a slice is listed as one without bytes at any node.
    pub(crate) fn is_listed_missing(&self, slice: SliceId) -> bool {
        self.log.rebuild.conflicts.get(&slice).is_some_and(|conflict| conflict.kind == ConflictKind::NoBytes)
    }

    /// The content at a path that is to be kept once it is replaced. Of one without bytes nothing could be had back: it
    /// would only be reported as lost for a while longer.
    pub(crate) fn content_to_keep(&self, path: &SectorPath) -> Option<ReplacedContent> {
        self.catalog.content_to_keep(path).filter(|old| self.may_have_bytes(old.slice()))
    }

    /// Whether a node has a good copy of a slice, or one that is away may have it.
    fn may_have_bytes(&self, slice: SliceId) -> bool {
        self.replicas.table.of(slice).iter().any(Replica::is_good)
            || self.log.rebuild.absent.iter().any(|id| self.may_hold(id, slice))
    }

    /// How many are listed so.
    pub(super) fn missing_count(&self) -> usize {
        self.log.rebuild.conflicts.values().filter(|conflict| conflict.kind == ConflictKind::NoBytes).count()
    }

    /// A listed slice was found after all, or is no longer any file's content.
    pub(crate) fn note_not_missing(&mut self, now: Now, slice: SliceId) {
        if self.is_listed_missing(slice) {
            let row = self.forget_conflict(slice);
            self.save(now, row.into_iter().collect(), Vec::new());
        }
    }

    /// Removes the name of a listed slice: it stands for nothing, and the administrator who dismissed it has seen that.
    pub(super) fn remove_missing(&mut self, slice: SliceId) -> Vec<RowChange> {
        let file = self.catalog.names().file_of_slice(slice).filter(|_| self.replicas.table.of(slice).is_empty());
        let path = file.and_then(|file| self.catalog.names().path(file));
        path.and_then(|path| self.catalog.remove_entry(&path, false).ok()).map(|change| change.rows).unwrap_or_default()
    }
}

/// Stands in a conflict for the node that has the slice.
const NOBODY: &str = "none";
