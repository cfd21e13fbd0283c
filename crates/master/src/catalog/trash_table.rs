//! The entries of the trash: by time and by user, what was removed apart from what was replaced, and all by their ends.
//! Serves the trash. From the path of an entry alone nobody could tell which of the folders above it was removed. It
//! never moves an entry.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{FileId, Policy, SectorPath, UserName, message::client_master::TrashKey};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    actions::{StoredRow, TRASH_TABLE},
    catalog::{
        expiry_queue::ExpiryQueue,
        namespace::{
            damaged_row, decode_extended_row, decode_row, encode_extended_row, encode_row, file_key, parse_file_key,
        },
        quota_table::StorageUsage,
    },
    error::MasterError,
};

/// All entries of the trash that still exist.
#[derive(Debug, Default)]
pub(crate) struct Trash {
    pub(super) items: BTreeMap<FileId, Trashed>,
    pub(super) removed: TrashIndex,
    pub(super) replaced: TrashIndex,
    /// Replaced contents by the path of their file.
    replaced_at: BTreeMap<SectorPath, BTreeSet<FileId>>,
    /// How much of what users keep is replaced content.
    replaced_usage: BTreeMap<UserName, StorageUsage>,
    /// No entry ends before its time in this queue; jumps of the clock may have put its end off.
    pub(super) ends: ExpiryQueue,
    /// The folder by time that each user's last removal went to.
    pub(super) last_stamps: BTreeMap<UserName, LastStamp>,
}

/// Entries by time and by user.
#[derive(Debug, Default)]
pub(super) struct TrashIndex {
    pub(super) by_time: BTreeSet<TrashKey>,
    pub(super) by_user: BTreeMap<UserName, BTreeSet<TrashKey>>,
}

/// The folder to which a user's last removal went.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastStamp {
    pub(super) stamp: u64,
    /// When its first removal was, on the monotonic clock.
    pub(super) begun: Duration,
}

/// The stored form of an entry of the trash. Field order is the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trashed {
    /// Its user: the owner, whoever removed it.
    pub(super) user: UserName,
    /// Its former path.
    pub(super) from: SectorPath,
    /// When it was removed; 0 if it must go and cannot be restored any more.
    pub(super) removed_unix_millis: u64,
    /// The replication policy of its former folders.
    pub(super) inherited: Policy,
    /// Set where it was not removed, but replaced. Such a row has a version of its own, and this comes last.
    #[serde(skip)]
    pub(super) replaced: Option<Replaced>,
}

/// What is known of replaced content. Field order is the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replaced {
    /// Who replaced it.
    pub(super) by: UserName,
    /// Its length.
    pub(super) bytes: u64,
    /// How long it is kept.
    pub(super) kept_seconds: u64,
}

impl TrashIndex {
    /// Of one user, or of all, oldest first by their dates.
    pub(super) fn keys(&self, user: Option<&UserName>) -> Option<&BTreeSet<TrashKey>> {
        match user {
            Some(user) => self.by_user.get(user),
            None => Some(&self.by_time),
        }
    }

    /// Of the user who has most.
    pub(super) fn greediest(&self) -> Option<&BTreeSet<TrashKey>> {
        self.by_user.values().max_by_key(|keys| keys.len())
    }

    fn insert(&mut self, user: &UserName, key: TrashKey) {
        self.by_time.insert(key);
        self.by_user.entry(user.clone()).or_default().insert(key);
    }

    fn remove(&mut self, user: &UserName, key: TrashKey) {
        self.by_time.remove(&key);
        if let Some(keys) = self.by_user.get_mut(user) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_user.remove(user);
            }
        }
    }
}

impl Trash {
    /// Takes an entry from its row. Its end is not known yet.
    pub(crate) fn load(&mut self, row: &StoredRow) -> Result<(), MasterError> {
        let item = decode_row(&row.value).or_else(|| {
            let (item, replaced) = decode_extended_row::<(Trashed, Replaced)>(&row.value)?;
            Some(Trashed { replaced: Some(replaced), ..item })
        });
        let (id, item) = parse_file_key(&row.key).zip(item).ok_or_else(|| damaged_row(row))?;
        self.take_out(id);
        self.insert(id, item);
        Ok(())
    }

    /// All entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = FileId> + '_ {
        self.items.keys().copied()
    }

    /// Forgets everything; returns the changes that remove the rows.
    pub(crate) fn clear(&mut self) -> Vec<RowChange> {
        let old = std::mem::take(self);
        old.items.into_keys().map(|id| RowChange::Remove { table: TRASH_TABLE, key: file_key(id) }).collect()
    }

    /// When an entry was removed, if it was removed itself.
    pub(crate) fn removed_at(&self, id: FileId) -> Option<u64> {
        self.items.get(&id).map(|item| item.removed_unix_millis)
    }

    /// The replication policy of a removed entry's former folders.
    pub(crate) fn inherited(&self, id: FileId) -> Option<&Policy> {
        self.items.get(&id).map(|item| &item.inherited)
    }

    /// What is known of an entry that was not removed, but replaced.
    pub(super) fn replaced(&self, id: FileId) -> Option<&Replaced> {
        self.items.get(&id)?.replaced.as_ref()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Forgets an entry that is gone, or was restored.
    pub(crate) fn forget(&mut self, id: FileId) -> Option<RowChange> {
        self.take_out(id)?;
        Some(RowChange::Remove { table: TRASH_TABLE, key: file_key(id) })
    }

    /// Adds an entry with its end, in milliseconds since the Unix epoch.
    pub(super) fn add(&mut self, id: FileId, item: Trashed, end: u64) -> RowChange {
        let value = match &item.replaced {
            None => encode_row(&item),
            Some(replaced) => encode_extended_row(&(&item, replaced)),
        };
        self.insert(id, item);
        self.ends.set(id, end);
        RowChange::Set { table: TRASH_TABLE, key: file_key(id), value }
    }

    /// Lets an entry be removed for good as soon as there is time.
    pub(super) fn expire_now(&mut self, id: FileId) -> Option<RowChange> {
        let item = self.take_out(id)?;
        Some(self.add(id, Trashed { removed_unix_millis: 0, ..item }, 0))
    }

    /// All restorable entries removed from a path: of one user, or of anyone, oldest first by their dates.
    pub(super) fn removed_from(
        &self,
        from: &SectorPath,
        user: Option<&UserName>,
    ) -> impl Iterator<Item = (&UserName, TrashKey)> {
        let keys = self.removed.keys(user).into_iter().flatten().filter(|key| key.removed_unix_millis > 0);
        keys.filter_map(move |key| {
            let item = self.items.get(&key.file)?;
            (item.from == *from).then_some((&item.user, *key))
        })
    }

    /// All contents that were replaced at a path and can be had back, in no order.
    pub(super) fn replaced_at(&self, path: &SectorPath) -> impl Iterator<Item = (FileId, &Trashed)> {
        let ids = self.replaced_at.get(path).into_iter().flatten();
        let items = ids.filter_map(|id| Some((*id, self.items.get(id)?)));
        items.filter(|(_, item)| item.removed_unix_millis > 0)
    }

    /// How much of what a user keeps is replaced content.
    pub(super) fn replaced_usage(&self, user: &UserName) -> StorageUsage {
        self.replaced_usage.get(user).copied().unwrap_or_default()
    }

    /// The same of all users.
    pub(super) fn whole_replaced_usage(&self) -> StorageUsage {
        let mut all = StorageUsage::default();
        self.replaced_usage.values().for_each(|usage| all.add(*usage));
        all
    }

    fn insert(&mut self, id: FileId, item: Trashed) {
        let key = TrashKey { removed_unix_millis: item.removed_unix_millis, file: id };
        match item.usage() {
            None => self.removed.insert(&item.user, key),
            Some(usage) => {
                self.replaced.insert(&item.user, key);
                self.replaced_at.entry(item.from.clone()).or_default().insert(id);
                self.replaced_usage.entry(item.user.clone()).or_default().add(usage);
            }
        }
        self.items.insert(id, item);
    }

    fn take_out(&mut self, id: FileId) -> Option<Trashed> {
        let item = self.items.remove(&id)?;
        self.ends.forget(id);
        let key = TrashKey { removed_unix_millis: item.removed_unix_millis, file: id };
        let Some(usage) = item.usage() else {
            self.removed.remove(&item.user, key);
            return Some(item);
        };
        self.replaced.remove(&item.user, key);
        if let Some(ids) = self.replaced_at.get_mut(&item.from) {
            ids.remove(&id);
            if ids.is_empty() {
                self.replaced_at.remove(&item.from);
            }
        }
        if let Some(used) = self.replaced_usage.get_mut(&item.user) {
            used.take(usage);
            if *used == StorageUsage::default() {
                self.replaced_usage.remove(&item.user);
            }
        }
        Some(item)
    }
}

impl Trashed {
    /// What replaced content counts for; `None` for what was removed.
    fn usage(&self) -> Option<StorageUsage> {
        self.replaced.as_ref().map(|replaced| StorageUsage { bytes: replaced.bytes, files: 1 })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn item() -> Trashed {
        Trashed {
            user: UserName::new("ann").unwrap(),
            from: "/a".parse().unwrap(),
            removed_unix_millis: 300,
            inherited: Policy { copies: Some(2), ..Policy::default() },
            replaced: None,
        }
    }

    /// The row of an entry, and what is read from it.
    fn stored(item: Trashed) -> (Vec<u8>, Trashed) {
        let RowChange::Set { table, key, value } = Trash::default().add(FileId(7), item, 0) else { panic!() };
        let mut read = Trash::default();
        read.load(&StoredRow { table, key, value: value.clone() }).unwrap();
        (value, read.items[&FileId(7)].clone())
    }

    #[test]
    fn rows_of_removed_entries_have_the_bytes_of_older_builds_and_replaced_ones_more() {
        let old = [2, 3, b'a', b'n', b'n', 2, b'/', b'a', 0xac, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(stored(item()), (old.to_vec(), item()));
        let by = UserName::new("bob").unwrap();
        let replaced = Trashed { replaced: Some(Replaced { by, bytes: 200, kept_seconds: 5 }), ..item() };
        let more = [&[3], &old[1..], &[3, b'b', b'o', b'b', 0xc8, 1, 5]].concat();
        assert_eq!(stored(replaced.clone()), (more, replaced));
    }
}
