//! Quotas of users and folders, and how much they keep. Serves `quota`. It never looks at a file: it is told of each
//! change.

use std::collections::BTreeMap;

use protocol::{
    FileId, Policy, SectorPath, UserName,
    message::client_master::{QuotaOf, QuotaStatus},
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    actions::{QUOTAS_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    error::MasterError,
};

/// Bytes and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageUsage {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

impl StorageUsage {
    pub(crate) fn add(&mut self, more: Self) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.files = self.files.saturating_add(more.files);
    }

    pub(crate) fn take(&mut self, less: Self) {
        *self = self.beyond(less);
    }

    /// How much this exceeds `other`.
    pub(crate) fn beyond(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(other.bytes), files: self.files.saturating_sub(other.files) }
    }
}

/// Usage and quotas.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    pub(super) used: BTreeMap<UserName, StorageUsage>,
    pub(super) of_users: BTreeMap<UserName, QuotaLimits>,
    /// Usage at and below each folder with a quota; the limit itself is in its policy.
    pub(super) folders: BTreeMap<FileId, StorageUsage>,
}

/// The stored form of a user's quota. Field order is the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QuotaLimits {
    pub(super) bytes: Option<u64>,
    pub(super) files: Option<u64>,
}

/// What the open writes will add once they are published: all that the quotas see of them.
pub(crate) trait OpenWrites {
    /// To a user's files.
    fn promised(&self, user: &UserName) -> StorageUsage;

    /// To the files at and below a folder.
    fn promised_below(&self, folder: &SectorPath) -> StorageUsage;

    /// The same of what one user writes.
    fn written_by(&self, user: &UserName) -> Self
    where
        Self: Sized;
}

impl Quotas {
    /// Takes a user's quota from its row.
    pub(crate) fn load(&mut self, row: &StoredRow) -> Result<(), MasterError> {
        let name = std::str::from_utf8(&row.key).ok().and_then(|name| UserName::new(name).ok());
        let (user, most) = name.zip(decode_row(&row.value)).ok_or_else(|| damaged_row(row))?;
        self.of_users.insert(user, most);
        Ok(())
    }

    /// Forgets all quotas; returns the changes that remove users' rows. Then everything has to be counted again.
    pub(crate) fn clear(&mut self) -> Vec<RowChange> {
        let old = std::mem::take(self);
        let key = |user: UserName| user.as_str().as_bytes().to_vec();
        old.of_users.into_keys().map(|user| RowChange::Remove { table: QUOTAS_TABLE, key: key(user) }).collect()
    }

    /// Users' quotas in the stored form.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (UserName, Vec<u8>)> + '_ {
        self.of_users.iter().map(|(user, most)| (user.clone(), encode_row(most)))
    }

    /// Gives a user the quota in this stored form; returns its row.
    pub(crate) fn restore(&mut self, user: UserName, value: &[u8]) -> Option<RowChange> {
        let most: QuotaLimits = decode_row(value)?;
        let key = user.as_str().as_bytes().to_vec();
        self.of_users.insert(user, most);
        Some(RowChange::Set { table: QUOTAS_TABLE, key, value: encode_row(&most) })
    }

    /// Whether a user has a quota.
    pub(crate) fn has_user(&self, user: &UserName) -> bool {
        self.of_users.contains_key(user)
    }

    /// Forgets the counts; the quotas stay.
    pub(crate) fn forget_counts(&mut self) {
        self.used = BTreeMap::new();
        self.folders = BTreeMap::new();
    }

    /// Usage of a folder with a quota.
    pub(crate) fn folder(&self, id: FileId) -> Option<StorageUsage> {
        self.folders.get(&id).copied()
    }

    pub(crate) fn has_folders(&self) -> bool {
        !self.folders.is_empty()
    }

    /// Whether another folder may have a quota.
    pub(crate) fn has_room_for_folder(&self) -> bool {
        self.folders.len() < FOLDER_QUOTAS_MAX
    }

    /// Begins to count a folder that holds this much.
    pub(crate) fn track(&mut self, id: FileId, used: StorageUsage) {
        self.folders.insert(id, used);
    }

    pub(crate) fn untrack(&mut self, id: FileId) {
        self.folders.remove(&id);
    }

    /// A user's files grew.
    pub(crate) fn add_user(&mut self, user: &UserName, more: StorageUsage) {
        match self.used.get_mut(user) {
            Some(used) => used.add(more),
            None => drop(self.used.insert(user.clone(), more)),
        }
    }

    /// A user's files shrank.
    pub(crate) fn take_user(&mut self, user: &UserName, less: StorageUsage) {
        if let Some(used) = self.used.get_mut(user) {
            used.take(less);
            if *used == StorageUsage::default() {
                self.used.remove(user);
            }
        }
    }

    pub(crate) fn add_folder(&mut self, id: FileId, more: StorageUsage) {
        if let Some(used) = self.folders.get_mut(&id) {
            used.add(more);
        }
    }

    pub(crate) fn take_folder(&mut self, id: FileId, less: StorageUsage) {
        if let Some(used) = self.folders.get_mut(&id) {
            used.take(less);
        }
    }
}

impl QuotaLimits {
    /// What a folder's policy says.
    pub(super) fn of_folder(policy: &Policy) -> Self {
        Self { bytes: policy.quota_bytes, files: policy.quota_files }
    }

    /// Whether more is kept than this.
    pub(super) fn is_below(self, used: StorageUsage) -> bool {
        self.bytes.is_some_and(|most| used.bytes > most) || self.files.is_some_and(|most| used.files > most)
    }

    /// Describes the excess, if there is any.
    pub(super) fn exceeded(self, used: StorageUsage, more: StorageUsage) -> Option<String> {
        let too_much = |most: Option<u64>, used: u64, more: u64| {
            most.filter(|most| more > 0 && used.saturating_add(more) > *most)
                .map(|most| (most, used.saturating_add(more)))
        };
        if let Some((most, would)) = too_much(self.bytes, used.bytes, more.bytes) {
            return Some(format!("may keep {most} bytes, has {} and would have {would}", used.bytes));
        }
        let (most, would) = too_much(self.files, used.files, more.files)?;
        Some(format!("may keep {most} files, has {} and would have {would}", used.files))
    }

    pub(super) fn status(self, of: QuotaOf, used: StorageUsage) -> QuotaStatus {
        QuotaStatus { of, used_bytes: used.bytes, used_files: used.files, bytes: self.bytes, files: self.files }
    }
}

/// Most folders that may have a quota: each change costs a step for each quota folder above it.
const FOLDER_QUOTAS_MAX: usize = 16_384;
