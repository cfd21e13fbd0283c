//! Removal of entries. A small subtree goes at once. A larger folder is cut off with one row, which hides it from
//! everyone, and its entries go in steps, the lowest first. Serves `rm -r`. A file keeps its slice until its own step,
//! as if its removal were not durable yet. A restart in between continues, and never brings an entry back.

use protocol::{FileId, Reason, Refusal, SectorPath, SliceId, Version};
use store::RowChange;

use super::{NO_PARENT, Namespace, change::NamespaceChange, entry_rows, not_found_refusal};
use crate::catalog::compact_storage::Slot;

impl Namespace {
    /// Removes an entry; a folder that is not empty only with `recursive`.
    pub(crate) fn remove(&mut self, path: &SectorPath, recursive: bool) -> Result<NamespaceChange, Refusal> {
        let slot = self.find_slot(path).ok_or_else(|| not_found_refusal(path))?;
        if slot == self.root {
            return Err(Refusal::new(Reason::NotPermitted, "the root folder `/` cannot be removed"));
        }
        if !recursive && self.items.folder(slot).is_some_and(|folder| !folder.children.is_empty()) {
            return Err(Refusal::new(
                Reason::NotEmpty,
                format!("the folder `{path}` is not empty; remove it with `-r`"),
            ));
        }
        let mut change = NamespaceChange::default();
        self.remove_item(slot, path, &mut change);
        Ok(change)
    }

    /// Whether entries of cut-off folders are still to be removed.
    pub(crate) fn has_pending_removals(&self) -> bool {
        !self.pending_removals.is_empty()
    }

    /// Whether a slice is the content of a file in a cut-off folder. Nothing more is done about it, except to remove it
    /// once its entry has gone.
    pub(crate) fn is_pending_removal(&self, slice: SliceId) -> bool {
        if self.pending_removals.is_empty() {
            return false;
        }
        let mut at = self.items.find_slice(slice);
        while let Some(slot) = at {
            if self.pending_removals.contains_key(&slot) {
                return true;
            }
            at = self.items.parent(slot);
        }
        false
    }

    /// Removes at most `count` entries of cut-off folders.
    pub(crate) fn purge_pending_removals(&mut self, count: usize) -> NamespaceChange {
        let mut change = NamespaceChange::default();
        while change.rows.len() < count
            && let Some(root) = self.pending_removals.keys().next().copied()
        {
            if self.remove_below(root, count, &mut change) {
                self.pending_removals.remove(&root);
            }
        }
        change
    }

    /// Takes an item from its folder and removes it with everything below, at once or in steps.
    pub(super) fn remove_item(&mut self, slot: Slot, path: &SectorPath, change: &mut NamespaceChange) {
        let usage = self.items.subtree_usage(slot);
        let parent = self.items.parent(slot).unwrap_or(NO_PARENT);
        self.items.unlink(slot);
        self.count_above(parent, |below| below.subtract(usage));
        self.items.set_parent(slot, NO_PARENT);
        if usage.entries() <= self.remove_at_once_max {
            self.remove_below(slot, usize::MAX, change);
        } else {
            self.pending_removals.insert(slot, path.clone());
            change.rows.extend(self.row(slot));
        }
    }

    /// Removes `root` and everything below, the lowest first, until `change` has `rows_max` rows. Returns whether all
    /// went.
    fn remove_below(&mut self, root: Slot, rows_max: usize, change: &mut NamespaceChange) -> bool {
        let mut newest = Version(0);
        let is_done = self.remove_entries_below(root, rows_max, change, &mut newest);
        change.rows.extend(self.note_removed(newest));
        is_done
    }

    /// Notes that no row records this version any more. So versions keep growing over a restart, whatever the clock
    /// does. The entries of a cut-off folder record theirs until their step.
    pub(super) fn note_removed(&mut self, version: Version) -> Option<RowChange> {
        if version.0 <= self.removed_version {
            return None;
        }
        self.removed_version = version.0;
        Some(entry_rows::removed_version(version.0))
    }

    fn remove_entries_below(
        &mut self,
        root: Slot,
        rows_max: usize,
        change: &mut NamespaceChange,
        newest: &mut Version,
    ) -> bool {
        let mut way = vec![root];
        while let Some(at) = way.last().copied() {
            if change.rows.len() >= rows_max {
                return false;
            }
            if let Some(child) = self.items.folder(at).and_then(|folder| folder.children.last()) {
                way.push(child);
                continue;
            }
            way.pop();
            if at != root {
                self.items.unlink(at);
            }
            *newest = self.items.version(at).map_or(*newest, |version| version.max(*newest));
            change.rows.push(entry_rows::remove_row(self.items.id(at).unwrap_or(FileId(0))));
            change.freed.extend(self.items.remove(at));
        }
        true
    }
}
