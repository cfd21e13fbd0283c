//! How much users and folders may keep. Serves uploads, renames, restoring, and `quota`. Users' files are always
//! counted, folders' only if they have a quota. Each change of names updates the counts (`usage_accounting`), so a
//! check costs nothing. A file counts for its owner wherever it lies, the trash included, and for its present folders.
//! It never frees anything: a user over quota keeps everything and adds nothing, and administrators are no exception.

use std::collections::BTreeMap;

use protocol::{
    FileId, Reason, Refusal, SectorPath, UserName, limits,
    message::{
        client_master::{ClientReply, QuotaOf, QuotaPage, QuotaStatus},
        master_security::UserRights,
    },
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    actions::{QUOTAS_TABLE, StoredRow},
    catalog::{
        Catalog,
        namespace::{ROOT, damaged_row, decode_row, encode_row},
        usage_accounting::StorageUsage,
    },
    error::MasterError,
};

/// Usage and quotas.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    used: BTreeMap<UserName, StorageUsage>,
    of_users: BTreeMap<UserName, QuotaLimits>,
    /// Usage at and below each folder with a quota; the limit itself is in its policy.
    folders: BTreeMap<FileId, StorageUsage>,
}

/// The stored form of a user's quota. Field order is the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct QuotaLimits {
    bytes: Option<u64>,
    files: Option<u64>,
}

/// What the open writes will add once they are published: all that the quotas see of them.
pub(crate) trait OpenWrites {
    /// To a user's files.
    fn promised(&self, user: &UserName) -> StorageUsage;

    /// To the files at and below a folder.
    fn promised_below(&self, folder: &SectorPath) -> StorageUsage;
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

impl Catalog {
    /// Counts all files; once, at the start or when the names are rebuilt.
    pub(crate) fn recount_usage(&mut self) {
        for (id, _) in self.policies.with_quota() {
            self.quotas.track(id, StorageUsage::default());
        }
        let mut next = Some(0);
        while let Some(from) = next {
            let slices;
            (slices, next) = self.names.slices_from(from, COUNT_STEP);
            for slice in slices {
                let Some(file) = self.names.file_of_slice(slice).filter(|_| !self.names.is_pending_removal(slice))
                else {
                    continue;
                };
                let Some((owner, usage)) = self.names.owner(file).zip(self.file_usage(file)) else { continue };
                self.quotas.add_user(owner, usage);
                for folder in self.quota_folders_above(file) {
                    self.quotas.add_folder(folder, usage);
                }
            }
        }
    }

    /// The folders with a quota above an entry.
    pub(crate) fn quota_folders_above(&self, id: FileId) -> Vec<FileId> {
        if !self.quotas.has_folders() {
            return Vec::new();
        }
        let above = std::iter::successors(self.names.parent(id), |folder| self.names.parent(*folder));
        above.filter(|folder| self.quotas.folders.contains_key(folder)).collect()
    }

    /// Refuses a write after which a user or a folder would keep more than allowed. Checked before the write, so that
    /// nobody uploads in vain, and again when it is published.
    pub(crate) fn check_quotas(&self, path: &SectorPath, owner: &UserName, bytes: u64) -> Result<(), Refusal> {
        let more = self.growth_at(path, bytes);
        self.check_user_quota(path, owner, more)?;
        self.folder_of(path).map_or(Ok(()), |folder| self.check_folder_quotas(path, folder, more, &[]))
    }

    /// The same for a new write: open writes already count too. Returns the growth.
    pub(crate) fn check_quotas_of_write(
        &self,
        path: &SectorPath,
        owner: &UserName,
        bytes: u64,
        open: &impl OpenWrites,
    ) -> Result<StorageUsage, Refusal> {
        self.check_quotas(path, owner, bytes)?;
        let more = self.growth_at(path, bytes);
        match self.exceeded_with_promises(path, owner, more, open) {
            Some(why) => Err(Refusal::throttled(why, PROMISED_RETRY_SECONDS)),
            None => Ok(more),
        }
    }

    /// The growth when a file of this many bytes is at a path. A write smaller than the existing file is always
    /// allowed.
    pub(crate) fn growth_at(&self, path: &SectorPath, bytes: u64) -> StorageUsage {
        let there = self.names.find(path).and_then(|id| self.file_usage(id));
        StorageUsage { bytes, files: 1 }.beyond(there.unwrap_or_default())
    }

    /// Whose quota would be exceeded if all open writes were published, and `more` at `path` too.
    pub(crate) fn exceeded_with_promises(
        &self,
        path: &SectorPath,
        owner: &UserName,
        more: StorageUsage,
        open: &impl OpenWrites,
    ) -> Option<String> {
        let with = |promised: StorageUsage| StorageUsage {
            bytes: if more.bytes > 0 { more.bytes.saturating_add(promised.bytes) } else { 0 },
            files: if more.files > 0 { more.files.saturating_add(promised.files) } else { 0 },
        };
        if let Some(most) = self.quotas.of_users.get(owner) {
            let used = self.quotas.used.get(owner).copied().unwrap_or_default();
            if let Some(why) = most.exceeded(used, with(open.promised(owner))) {
                return Some(format!("{owner} {why} with `{path}` and all that is being written"));
            }
        }
        let folder = self.folder_of(path)?;
        let itself = self.quotas.folders.contains_key(&folder).then_some(folder);
        itself.into_iter().chain(self.quota_folders_above(folder)).find_map(|counted| {
            let (used, policy) = (self.quotas.folder(counted)?, self.policies.get(counted)?);
            let most = QuotaLimits { bytes: policy.quota_bytes, files: policy.quota_files };
            let counted = self.names.path(counted)?;
            let why = most.exceeded(used, with(open.promised_below(&counted)))?;
            Some(format!("the folder `{counted}` {why} with `{path}` and all that is being written"))
        })
    }

    /// The folder that a file at a path is in, or would be made below.
    fn folder_of(&self, path: &SectorPath) -> Option<FileId> {
        let (nearest, missing) = self.names.deepest_existing(path);
        if missing == 0 { self.names.parent(nearest) } else { Some(nearest) }
    }

    /// Refuses to move `more` to `path` in `folder`; the folders in `already` contain it already.
    pub(crate) fn check_folder_quotas(
        &self,
        path: &SectorPath,
        folder: FileId,
        more: StorageUsage,
        already: &[FileId],
    ) -> Result<(), Refusal> {
        let itself = self.quotas.folders.contains_key(&folder).then_some(folder);
        for counted in itself.into_iter().chain(self.quota_folders_above(folder)) {
            let (Some(used), Some(policy)) = (self.quotas.folder(counted), self.policies.get(counted)) else {
                continue;
            };
            let most = QuotaLimits { bytes: policy.quota_bytes, files: policy.quota_files };
            if !already.contains(&counted)
                && let Some(why) = most.exceeded(used, more)
            {
                let counted = self.names.path(counted).unwrap_or_else(SectorPath::root);
                let message = format!(
                    "the folder `{counted}` {why} with `{path}`; remove something from it, or ask an administrator for a \
                     larger quota (`sector policy set {counted} quota=…`)"
                );
                return Err(Refusal::new(Reason::QuotaExceeded, message));
            }
        }
        Ok(())
    }

    /// Refuses a rename into a folder whose quota it would exceed.
    pub(crate) fn check_moved_quotas(&self, id: FileId, to: &SectorPath) -> Result<(), Refusal> {
        let folder = to.parent().and_then(|folder| self.names.find(&folder));
        let Some(folder) = folder.filter(|_| self.quotas.has_folders()) else { return Ok(()) };
        let replaced = self.names.find(to).filter(|replaced| *replaced != id);
        let replaced = replaced.and_then(|replaced| self.file_usage(replaced)).unwrap_or_default();
        self.check_folder_quotas(to, folder, self.usage_below(id).beyond(replaced), &self.quota_folders_above(id))
    }

    /// The quotas and their usage.
    pub(crate) fn quota_list(&self, by: &UserRights, after: Option<&QuotaOf>) -> ClientReply {
        let users = self.quotas.used.keys().chain(self.quotas.of_users.keys());
        let users: std::collections::BTreeSet<_> = users.filter(|user| by.admin || **user == by.user).collect();
        let mut all: Vec<_> = users.into_iter().map(|user| self.quota_of_user(user)).collect();
        let mut folders: Vec<_> = self.quotas.folders.keys().filter_map(|id| self.quota_of_folder(by, *id)).collect();
        folders.sort_by(|a, b| a.of.cmp(&b.of));
        all.extend(folders);
        let mut rest = all.into_iter().filter(|quota| after.is_none_or(|after| quota.of > *after)).peekable();
        let (mut quotas, mut bytes) = (Vec::new(), 0);
        while let Some(quota) = rest.next_if(|_| bytes < PAGE_BYTES_MAX) {
            bytes += QUOTA_FIXED_BYTES + if let QuotaOf::Folder(path) = &quota.of { path.as_str().len() } else { 0 };
            quotas.push(quota);
        }
        ClientReply::Quotas(QuotaPage { quotas, more: rest.peek().is_some() })
    }

    /// Sets how much a user may keep.
    pub(crate) fn set_quota(
        &mut self,
        by: &UserRights,
        user: &UserName,
        bytes: Option<u64>,
        files: Option<u64>,
    ) -> Result<RowChange, Refusal> {
        if !by.admin {
            let message = format!("{} may not set quotas; ask an administrator", by.user);
            return Err(Refusal::new(Reason::NoRight, message));
        }
        let (key, most) = (user.as_str().as_bytes().to_vec(), QuotaLimits { bytes, files });
        if most == QuotaLimits::default() {
            self.quotas.of_users.remove(user);
            return Ok(RowChange::Remove { table: QUOTAS_TABLE, key });
        }
        if self.quotas.of_users.len() >= USER_QUOTAS_MAX && !self.quotas.of_users.contains_key(user) {
            let message = "too many users have a quota; clear one that is not needed (`sector quota list`)";
            return Err(Refusal::new(Reason::LimitReached, message));
        }
        self.quotas.of_users.insert(user.clone(), most);
        Ok(RowChange::Set { table: QUOTAS_TABLE, key, value: encode_row(&most) })
    }

    /// Refuses a change that would make a user keep more than allowed.
    pub(crate) fn check_user_quota(
        &self,
        path: &SectorPath,
        owner: &UserName,
        more: StorageUsage,
    ) -> Result<(), Refusal> {
        let Some(most) = self.quotas.of_users.get(owner) else { return Ok(()) };
        let used = self.quotas.used.get(owner).copied().unwrap_or_default();
        let Some(why) = most.exceeded(used, more) else { return Ok(()) };
        let message = format!(
            "{owner} {why} with `{path}`; remove files and empty the trash (`sector trash empty`), or ask an \
             administrator for a larger quota (`sector quota set {owner} …`)"
        );
        Err(Refusal::new(Reason::QuotaExceeded, message))
    }

    fn quota_of_user(&self, user: &UserName) -> QuotaStatus {
        let used = self.quotas.used.get(user).copied().unwrap_or_default();
        let most = self.quotas.of_users.get(user).copied().unwrap_or_default();
        most.status(QuotaOf::User(user.clone()), used)
    }

    fn quota_of_folder(&self, by: &UserRights, id: FileId) -> Option<QuotaStatus> {
        let is_shown = by.admin || (id != ROOT && self.names.owner(id) == Some(&by.user));
        let (path, used, policy) = (self.names.path(id)?, self.quotas.folder(id)?, self.policies.get(id)?);
        let most = QuotaLimits { bytes: policy.quota_bytes, files: policy.quota_files };
        is_shown.then(|| most.status(QuotaOf::Folder(path), used))
    }
}

impl QuotaLimits {
    /// Describes the excess, if there is any.
    fn exceeded(self, used: StorageUsage, more: StorageUsage) -> Option<String> {
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

    fn status(self, of: QuotaOf, used: StorageUsage) -> QuotaStatus {
        QuotaStatus { of, used_bytes: used.bytes, used_files: used.files, bytes: self.bytes, files: self.files }
    }
}

/// Most folders that may have a quota: each change costs a step for each quota folder above it.
const FOLDER_QUOTAS_MAX: usize = 16_384;
/// Most users that may have a quota, some 100 bytes each.
const USER_QUOTAS_MAX: usize = 262_144;
/// Where a page of quotas ends, in bytes: half of a message, which leaves room for the last one.
const PAGE_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
/// An upper bound of a quota's length in a message, in bytes, without a folder's path.
const QUOTA_FIXED_BYTES: usize = 120;
/// Half the life of a lease that is not renewed: an abandoned write has ended in twice that, in seconds.
const PROMISED_RETRY_SECONDS: u32 = 30;
/// Files counted between two checks of the map of slices.
const COUNT_STEP: usize = 4_096;
