//! How much users and folders may keep. Serves uploads, renames, restoring, and `quota`. Users' files are always
//! counted, folders' only if they have a quota, with each change of names (`usage_accounting`). A file counts for its
//! owner wherever it lies, the trash included, and for its present folders. Replaced content has only what a quota
//! leaves, and is not counted (`trash/replaced.rs`). A user over quota keeps everything and adds nothing, administrators
//! too. It never frees anything.

use protocol::{
    FileId, Reason, Refusal, SectorPath, UserName, limits,
    message::{
        client_master::{ClientReply, QuotaOf, QuotaPage, QuotaStatus},
        master_security::UserRights,
    },
};
use store::RowChange;

use crate::{
    actions::QUOTAS_TABLE,
    catalog::{
        Catalog,
        namespace::{ROOT, encode_row},
        quota_table::{OpenWrites, QuotaLimits, StorageUsage},
    },
};

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

    /// The same for a new write: open writes already count too. Only what others write is worth waiting for: writes of
    /// the same user are meant to be kept. Returns the growth.
    pub(crate) fn check_quotas_of_write(
        &self,
        path: &SectorPath,
        (by, owner): (&UserName, &UserName),
        bytes: u64,
        open: &impl OpenWrites,
    ) -> Result<StorageUsage, Refusal> {
        self.check_quotas(path, owner, bytes)?;
        let more = self.growth_at(path, bytes);
        let Some(why) = self.exceeded_with_promises(path, owner, more, open) else { return Ok(more) };
        match self.exceeded_with_promises(path, owner, more, &open.written_by(by)) {
            Some(why) => {
                let message = format!(
                    "{why} by {by}; remove something, or ask an administrator for a larger quota (a write that broke off \
                     counts for a minute more)"
                );
                Err(Refusal::new(Reason::QuotaExceeded, message))
            }
            None => Err(Refusal::throttled(why, PROMISED_RETRY_SECONDS)),
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
            let used = self.user_usage_that_stays(owner);
            if let Some(why) = most.exceeded(used, with(open.promised(owner))) {
                return Some(format!("{owner} {why} with `{path}` and all that is being written"));
            }
        }
        let folder = self.folder_of(path)?;
        let itself = self.quotas.folders.contains_key(&folder).then_some(folder);
        itself.into_iter().chain(self.quota_folders_above(folder)).find_map(|counted| {
            let (used, policy) = (self.folder_usage_that_stays(counted)?, self.policies.get(counted)?);
            let most = QuotaLimits::of_folder(policy);
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
            let used = self.folder_usage_that_stays(counted);
            let Some((used, policy)) = used.zip(self.policies.get(counted)) else { continue };
            let most = QuotaLimits::of_folder(policy);
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
        let used = self.user_usage_that_stays(owner);
        let Some(why) = most.exceeded(used, more) else { return Ok(()) };
        let message = format!(
            "{owner} {why} with `{path}`; remove files and empty the trash (`sector trash empty`), or ask an \
             administrator for a larger quota (`sector quota set {owner} …`)"
        );
        Err(Refusal::new(Reason::QuotaExceeded, message))
    }

    /// What a user keeps and would keep if more was needed: all but replaced content.
    pub(super) fn user_usage_that_stays(&self, user: &UserName) -> StorageUsage {
        self.quotas.used.get(user).copied().unwrap_or_default().beyond(self.trash.replaced_usage(user))
    }

    /// The same of a folder with a quota. The trash is below no folder but the root.
    pub(super) fn folder_usage_that_stays(&self, id: FileId) -> Option<StorageUsage> {
        let used = self.quotas.folder(id)?;
        Some(if id == ROOT { used.beyond(self.trash.whole_replaced_usage()) } else { used })
    }

    fn quota_of_user(&self, user: &UserName) -> QuotaStatus {
        let used = self.user_usage_that_stays(user);
        let most = self.quotas.of_users.get(user).copied().unwrap_or_default();
        most.status(QuotaOf::User(user.clone()), used)
    }

    fn quota_of_folder(&self, by: &UserRights, id: FileId) -> Option<QuotaStatus> {
        let is_shown = by.admin || (id != ROOT && self.names.owner(id) == Some(&by.user));
        let (path, used) = (self.names.path(id)?, self.folder_usage_that_stays(id)?);
        let most = QuotaLimits::of_folder(self.policies.get(id)?);
        is_shown.then(|| most.status(QuotaOf::Folder(path), used))
    }
}

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
