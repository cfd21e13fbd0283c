//! Owners' policies of files and folders, inherited field by field from the nearest folder that sets the field
//! (Sector/Sphere paper, 2.2, made finer). Serves `policy`, placement and replication. A policy belongs to the entry
//! itself, so it follows a rename and goes with a removal. It never moves a copy.

use protocol::{
    FileId, Now, Policy, Reason, Refusal, SectorPath,
    message::{
        client_master::{ClientReply, FileContent, PolicyStatus},
        master_security::UserRights,
    },
};
use store::RowChange;

use crate::catalog::{
    Catalog,
    namespace::{ROOT, change::NamespaceChange},
    policy_table::EffectivePolicy,
    quota_table::{QuotaLimits, StorageUsage},
};

impl Catalog {
    /// An entry's own policy, and the effective one.
    pub(crate) fn policy(&self, path: &SectorPath) -> Result<ClientReply, Refusal> {
        let id = self.names.get(path)?;
        Ok(self.policy_reply(id, Vec::new()))
    }

    /// Changes the policy of an entry. `open` is the refusal for a file that is being written; `warnings` are said with
    /// the reply.
    pub(crate) fn set_policy(
        &mut self,
        now: Now,
        by: &UserRights,
        path: &SectorPath,
        policy: Policy,
        open: Option<Refusal>,
        warnings: Vec<String>,
    ) -> Result<(NamespaceChange, ClientReply), Refusal> {
        let id = self.names.get(path)?;
        self.check_policy(by, id, path, &policy, open)?;
        let has_quota = policy.has_quota();
        let rows = match self.names.content(id) {
            None => self.policies.set(id, policy).into_iter().collect(),
            Some(content) => self.set_file_policy(now, id, content, policy),
        };
        self.track_folder(id, has_quota);
        let warnings = warnings.into_iter().chain(self.quota_warning(id)).collect();
        let change = NamespaceChange { rows, entry: Some(id), ..NamespaceChange::default() };
        Ok((change, self.policy_reply(id, warnings)))
    }

    /// The policy of an entry and its folders, without the cloud's settings. An entry in the trash is treated as at its
    /// former place: no site that was forbidden there gets a copy here.
    pub(crate) fn effective_policy(&self, id: FileId) -> EffectivePolicy {
        let mut gathered = EffectivePolicy::default();
        if let Some(content) = self.names.content(id).filter(|content| content.copies > 0) {
            gathered.policy.copies = Some(content.copies);
        }
        let memory = self.memory_folder();
        // This is so in most clouds, and this code runs for every entry of every listing.
        let is_silent = self.policies.is_empty() && self.trash.is_empty() && memory.is_none();
        let mut at = if is_silent { None } else { Some(id) };
        while let Some(entry) = at {
            if let Some(own) = self.policies.get(entry) {
                gathered.add(entry, own);
            }
            if memory == Some(entry) {
                gathered.add_memory(entry, &self.memory_policy());
            }
            if let Some(inherited) = self.trash.inherited(entry) {
                gathered.add(entry, inherited);
                break;
            }
            at = self.names.parent(entry);
        }
        gathered
    }

    /// The same for a file about to be written to a path. The existing entry decides, else the nearest folder on the
    /// way.
    pub(crate) fn effective_policy_at(&self, path: &SectorPath) -> EffectivePolicy {
        let mut gathered = self.effective_policy(self.names.deepest_existing(path).0);
        if path.is_in_memory() && self.memory_folder().is_none() {
            gathered.add_memory(ROOT, &self.memory_policy());
        }
        gathered
    }

    /// Copies that must be synced before an upload to a path is answered, of `copies` in all.
    pub(crate) fn sync_copies_at(&self, path: &SectorPath, copies: u8) -> u8 {
        let policy = self.effective_policy_at(path).into_policy();
        policy.sync_copies.unwrap_or(self.config.sync_copies).min(copies)
    }

    fn check_policy(
        &self,
        by: &UserRights,
        id: FileId,
        path: &SectorPath,
        policy: &Policy,
        open: Option<Refusal>,
    ) -> Result<(), Refusal> {
        if id == ROOT && !by.admin {
            return Err(Refusal::new(Reason::NoRight, format!("only an administrator sets the policy of `{path}`")));
        }
        policy.check().map_err(|why| Refusal::new(Reason::Invalid, why))?;
        if !self.names.is_folder(id) {
            policy.check_of_file().map_err(|why| Refusal::new(Reason::Invalid, why))?;
            // The open write would publish the number of copies that it began with.
            open.map_or(Ok(()), Err)?;
        }
        let old = self.policies.get(id);
        let quota = |policy: &Policy| (policy.quota_bytes, policy.quota_files);
        if !by.admin && old.map_or((None, None), quota) != quota(policy) {
            let message = format!("{} may not set the quota of `{path}`; ask an administrator", by.user);
            return Err(Refusal::new(Reason::NoRight, message));
        }
        if policy.has_quota() && !old.is_some_and(Policy::has_quota) && !self.quotas.has_room_for_folder() {
            let message = "too many folders have a quota; clear one that is not needed (`sector quota list`)";
            return Err(Refusal::new(Reason::LimitReached, message));
        }
        Ok(())
    }

    /// A file's number of copies is kept with its content, so that its sidecars have it.
    fn set_file_policy(&mut self, now: Now, id: FileId, content: FileContent, mut policy: Policy) -> Vec<RowChange> {
        let copies = policy.copies.take().unwrap_or(0);
        let mut rows = self.set_content_details(now, id, FileContent { copies, ..content });
        rows.extend(self.policies.set(id, policy));
        rows
    }

    fn policy_reply(&self, id: FileId, warnings: Vec<String>) -> ClientReply {
        let mut own = self.policies.get(id).cloned().unwrap_or_default();
        if let Some(content) = self.names.content(id).filter(|content| content.copies > 0) {
            own.copies = Some(content.copies);
        }
        let mut effective = self.effective_policy(id).into_policy();
        let copies = effective.copies.unwrap_or(self.config.copies);
        effective.copies = Some(copies);
        effective.sync_copies = Some(effective.sync_copies.unwrap_or(self.config.sync_copies).min(copies));
        effective.versions_seconds = Some(effective.versions_seconds.unwrap_or(self.config.versions.as_secs()));
        (effective.quota_bytes, effective.quota_files) = (own.quota_bytes, own.quota_files);
        ClientReply::Policy(PolicyStatus { own, effective, warnings })
    }

    /// Begins or ends the count of everything below a folder.
    fn track_folder(&mut self, id: FileId, has_quota: bool) {
        match (has_quota, self.quotas.folder(id).is_some()) {
            (true, false) => {
                let used = self.names.usage(id);
                self.quotas.track(id, StorageUsage { bytes: used.bytes, files: used.files });
            }
            (false, true) => self.quotas.untrack(id),
            _ => {}
        }
    }

    fn quota_warning(&self, id: FileId) -> Option<String> {
        let (used, policy) = (self.folder_usage_that_stays(id)?, self.policies.get(id)?);
        let path = self.names.path(id)?;
        QuotaLimits::of_folder(policy).is_below(used).then(|| {
            format!(
                "`{path}` holds {} bytes in {} files already, more than its quota; nothing can be added to it",
                used.bytes, used.files
            )
        })
    }
}
