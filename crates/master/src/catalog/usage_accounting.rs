//! Keeps the tables beside the names (policies, trash, quotas, lifetimes) in step with them. All changes of entries
//! (put, move and remove) pass through here, whoever asks for them. So no table mentions an entry that is gone, and no
//! count drifts. Never decides whether a change may be made.

use std::collections::BTreeMap;

use protocol::{FileId, Now, Refusal, SectorPath, UserName, message::client_master::FileContent};
use store::RowChange;

use crate::{
    actions::NAMES_TABLE,
    catalog::{
        Catalog,
        namespace::{change::NamespaceChange, parse_file_key},
        quota_table::StorageUsage,
    },
};

impl Catalog {
    /// Makes `content` the content of the file at `path` (see [`put_file`](crate::Namespace)).
    pub(crate) fn put_entry(
        &mut self,
        now: Now,
        path: &SectorPath,
        parents: bool,
        owner: &UserName,
        content: FileContent,
        modified_unix_millis: u64,
    ) -> Result<NamespaceChange, Refusal> {
        let before = self.names.find(path).and_then(|id| self.file_usage(id));
        let change = self.names.put_file(now, path, parents, owner, content, modified_unix_millis)?;
        let Some(file) = change.entry else { return Ok(change) };
        let (Some(owner), Some(after)) = (self.names.owner(file), self.file_usage(file)) else { return Ok(change) };
        let before = before.unwrap_or_default();
        self.quotas.add_user(owner, after);
        self.quotas.take_user(owner, before);
        for folder in self.quota_folders_above(file) {
            self.quotas.add_folder(folder, after);
            self.quotas.take_folder(folder, before);
        }
        self.note_lifetime(file);
        Ok(change)
    }

    /// Gives a file, whose content stays the same slice, another number of copies or other user metadata. Returns its row
    /// if something has changed.
    pub(crate) fn set_content_details(&mut self, now: Now, id: FileId, content: FileContent) -> Vec<RowChange> {
        let names = &self.names;
        if names.content(id).is_none_or(|there| there == content || there.slice != content.slice) {
            return Vec::new();
        }
        let there = names.path(id).zip(names.owner(id).cloned()).zip(names.modified(id));
        let Some(((path, owner), modified)) = there else { return Vec::new() };
        // The slice that this reports as freed is the one that stays.
        let change = self.names.put_file(now, &path, false, &owner, content, modified);
        change.map(|change| change.rows).unwrap_or_default()
    }

    /// Gives an entry another path (see [`rename`](crate::Namespace)).
    pub(crate) fn move_entry(&mut self, from: &SectorPath, to: &SectorPath) -> Result<NamespaceChange, Refusal> {
        let id = self.names.get(from)?;
        let replaced = self.names.find(to).filter(|replaced| *replaced != id);
        let replaced = replaced.and_then(|file| Some((self.names.owner(file)?.clone(), self.file_usage(file)?)));
        let above_before = self.quota_folders_above(id);
        let mut change = self.names.rename(from, to)?;
        let above_after = self.quota_folders_above(id);
        if above_before != above_after {
            let moved = self.usage_below(id);
            for folder in above_before.iter().filter(|folder| !above_after.contains(folder)) {
                self.quotas.take_folder(*folder, moved);
            }
            for folder in above_after.iter().filter(|folder| !above_before.contains(folder)) {
                self.quotas.add_folder(*folder, moved);
            }
        }
        if let Some((owner, tally)) = replaced {
            self.quotas.take_user(&owner, tally);
            above_after.iter().for_each(|folder| self.quotas.take_folder(*folder, tally));
        }
        self.forget_removed(&mut change);
        self.note_lifetime(id);
        Ok(change)
    }

    /// Removes an entry with all below it (see [`remove`](crate::Namespace)).
    pub(crate) fn remove_entry(&mut self, path: &SectorPath, recursive: bool) -> Result<NamespaceChange, Refusal> {
        let id = self.names.get(path)?;
        // A folder that is not empty is refused below, and an empty one has no files.
        let has_files = recursive || !self.names.is_folder(id);
        let removed = if has_files { self.usage_by_owner(id) } else { BTreeMap::new() };
        let above = self.quota_folders_above(id);
        let mut change = self.names.remove(path, recursive)?;
        for (owner, tally) in &removed {
            self.quotas.take_user(owner, *tally);
            above.iter().for_each(|folder| self.quotas.take_folder(*folder, *tally));
        }
        self.forget_removed(&mut change);
        Ok(change)
    }

    /// Gives an entry to another user; entries below a folder keep their owners. Returns its row.
    pub(crate) fn change_entry_owner(&mut self, id: FileId, owner: &UserName) -> Vec<RowChange> {
        if let (Some(tally), Some(before)) = (self.file_usage(id), self.names.owner(id).cloned()) {
            self.quotas.take_user(&before, tally);
            self.quotas.add_user(owner, tally);
        }
        self.names.set_owner(id, owner)
    }

    /// The bytes of a file, counted as one; `None` for a folder.
    pub(crate) fn file_usage(&self, id: FileId) -> Option<StorageUsage> {
        self.names.content(id).map(|content| StorageUsage { bytes: content.bytes, files: 1 })
    }

    /// Usage at and below an entry.
    pub(crate) fn usage_below(&self, id: FileId) -> StorageUsage {
        self.quotas.folder(id).unwrap_or_else(|| {
            let usage = self.names.usage(id);
            StorageUsage { bytes: usage.bytes, files: usage.files }
        })
    }

    fn usage_by_owner(&self, id: FileId) -> BTreeMap<UserName, StorageUsage> {
        let mut tallies: BTreeMap<UserName, StorageUsage> = BTreeMap::new();
        let mut rest = vec![id];
        while let Some(at) = rest.pop() {
            match self.file_usage(at) {
                None => rest.extend(self.names.children(at)),
                Some(tally) => {
                    let Some(owner) = self.names.owner(at) else { continue };
                    match tallies.get_mut(owner) {
                        Some(sum) => sum.add(tally),
                        None => drop(tallies.insert(owner.clone(), tally)),
                    }
                }
            }
        }
        tallies
    }

    /// Drops the tables' rows of entries that a change has removed.
    pub(crate) fn forget_removed(&mut self, change: &mut NamespaceChange) {
        let removed = change.rows.iter().filter_map(|row| match row {
            RowChange::Remove { table: NAMES_TABLE, key } => parse_file_key(key),
            _ => None,
        });
        for id in removed.collect::<Vec<_>>() {
            change.rows.extend(self.policies.forget(id));
            change.rows.extend(self.trash.forget(id));
            self.quotas.untrack(id);
            self.lifetimes.forget(id);
        }
    }
}
