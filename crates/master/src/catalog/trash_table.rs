//! The removed entries that still exist, by time and by user. Serves the trash. From the path of an entry alone nobody
//! could tell which of the folders above it was removed. It never moves an entry.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{FileId, Policy, SectorPath, UserName, message::client_master::TrashKey};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    actions::{StoredRow, TRASH_TABLE},
    catalog::namespace::{damaged_row, decode_row, encode_row, file_key, parse_file_key},
    error::MasterError,
};

/// All removed entries that still exist.
#[derive(Debug, Default)]
pub(crate) struct Trash {
    pub(super) items: BTreeMap<FileId, Trashed>,
    pub(super) by_time: BTreeSet<TrashKey>,
    pub(super) by_user: BTreeMap<UserName, BTreeSet<TrashKey>>,
    /// The folder by time that each user's last removal went to.
    pub(super) last_stamps: BTreeMap<UserName, LastStamp>,
}

/// The folder to which a user's last removal went.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastStamp {
    pub(super) stamp: u64,
    /// When its first removal was, on the monotonic clock.
    pub(super) begun: Duration,
}

/// The stored form of a removed entry. Field order is the format.
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
}

impl Trash {
    /// Takes a removed entry from its row.
    pub(crate) fn load(&mut self, row: &StoredRow) -> Result<(), MasterError> {
        let (id, item) = parse_file_key(&row.key).zip(decode_row(&row.value)).ok_or_else(|| damaged_row(row))?;
        self.insert(id, item);
        Ok(())
    }

    /// All removed entries.
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

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether some entry was removed at `limit` or before.
    pub(crate) fn has_ended(&self, limit: u64) -> bool {
        self.ended(limit).is_some()
    }

    /// Forgets an entry that is gone, or was restored.
    pub(crate) fn forget(&mut self, id: FileId) -> Option<RowChange> {
        self.take_out(id)?;
        Some(RowChange::Remove { table: TRASH_TABLE, key: file_key(id) })
    }

    /// When the oldest entry was removed, in milliseconds since the Unix epoch.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.by_time.first().map(|key| key.removed_unix_millis)
    }

    pub(super) fn ended(&self, limit: u64) -> Option<FileId> {
        self.by_time.first().filter(|key| key.removed_unix_millis <= limit).map(|key| key.file)
    }

    pub(super) fn add(&mut self, id: FileId, item: Trashed) -> RowChange {
        let row = RowChange::Set { table: TRASH_TABLE, key: file_key(id), value: encode_row(&item) };
        self.insert(id, item);
        row
    }

    /// Lets an entry be removed for good as soon as there is time.
    pub(super) fn expire_now(&mut self, id: FileId) -> Option<RowChange> {
        let item = self.take_out(id)?;
        Some(self.add(id, Trashed { removed_unix_millis: 0, ..item }))
    }

    /// All restorable entries removed from a path: of one user, or of anyone, oldest first by their dates.
    pub(super) fn removed_from(
        &self,
        from: &SectorPath,
        user: Option<&UserName>,
    ) -> impl Iterator<Item = (&UserName, TrashKey)> {
        let keys = match user {
            Some(user) => self.by_user.get(user),
            None => Some(&self.by_time),
        };
        let keys = keys.into_iter().flatten().filter(|key| key.removed_unix_millis > 0);
        keys.filter_map(move |key| {
            let item = self.items.get(&key.file)?;
            (item.from == *from).then_some((&item.user, *key))
        })
    }

    pub(super) fn insert(&mut self, id: FileId, item: Trashed) {
        let key = TrashKey { removed_unix_millis: item.removed_unix_millis, file: id };
        self.by_time.insert(key);
        self.by_user.entry(item.user.clone()).or_default().insert(key);
        self.items.insert(id, item);
    }

    pub(super) fn take_out(&mut self, id: FileId) -> Option<Trashed> {
        let item = self.items.remove(&id)?;
        let key = TrashKey { removed_unix_millis: item.removed_unix_millis, file: id };
        self.by_time.remove(&key);
        if let Some(keys) = self.by_user.get_mut(&item.user) {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_user.remove(&item.user);
            }
        }
        Some(item)
    }
}
