//! Owners' policies of files and folders, inherited field by field from the nearest folder that sets the field
//! (Sector/Sphere paper, 2.2, made finer). Serves `policy`, and through
//! [`desired_replication`](Master::desired_replication) placement and replication. A policy belongs to the entry
//! itself, so it follows a rename and goes with a removal. It never moves a copy: it only has everything below checked
//! again.

use std::collections::BTreeMap;

use protocol::{
    FileId, Now, Policy, Reason, Refusal, SectorPath,
    message::{
        client_master::{ClientReply, FileContent, PolicyStatus},
        master_security::UserRights,
    },
};
use store::RowChange;

use crate::{
    actions::{POLICIES_TABLE, StoredRow},
    catalog::{
        Catalog,
        namespace::{ROOT, change::NamespaceChange, damaged_row, decode_row, encode_row},
        usage_accounting::{StorageUsage, file_key, parse_file_key},
    },
    error::MasterError,
};

/// Entries' own policies. A file's number of copies is not here but in its content, and so in its sidecars.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    own: BTreeMap<FileId, Box<Policy>>,
    /// How many of them set a lifetime.
    lifetimes: usize,
}

impl Policies {
    /// Takes a policy from its row.
    pub(crate) fn load(&mut self, row: &StoredRow) -> Result<(), MasterError> {
        let (id, policy) = parse_file_key(&row.key).zip(decode_row(&row.value)).ok_or_else(|| damaged_row(row))?;
        self.insert(id, policy);
        Ok(())
    }

    /// All entries with a policy.
    pub(crate) fn entries(&self) -> impl Iterator<Item = FileId> + '_ {
        self.own.keys().copied()
    }

    /// Forgets everything; returns the changes that remove the rows.
    pub(crate) fn clear(&mut self) -> Vec<RowChange> {
        let old = std::mem::take(self);
        old.own.into_keys().map(|id| RowChange::Remove { table: POLICIES_TABLE, key: file_key(id) }).collect()
    }

    pub(crate) fn get(&self, id: FileId) -> Option<&Policy> {
        self.own.get(&id).map(|policy| &**policy)
    }

    /// Whether no entry has a policy.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Whether any entry sets a lifetime.
    pub(crate) fn has_lifetimes(&self) -> bool {
        self.lifetimes > 0
    }

    /// Folders with a quota of their own.
    pub(crate) fn with_quota(&self) -> impl Iterator<Item = (FileId, &Policy)> {
        self.own.iter().filter(|(_, policy)| policy.has_quota()).map(|(id, policy)| (*id, &**policy))
    }

    /// Forgets an entry that is gone.
    pub(crate) fn forget(&mut self, id: FileId) -> Option<RowChange> {
        let old = self.own.remove(&id)?;
        self.lifetimes -= usize::from(old.lifetime_seconds.is_some());
        Some(RowChange::Remove { table: POLICIES_TABLE, key: file_key(id) })
    }

    /// Sets the policy of an entry; an empty one removes it. Returns its row if one has to change.
    pub(crate) fn set(&mut self, id: FileId, policy: Policy) -> Option<RowChange> {
        let forgotten = self.forget(id);
        if policy.is_empty() {
            return forgotten;
        }
        let row = RowChange::Set { table: POLICIES_TABLE, key: file_key(id), value: encode_row(&policy) };
        self.insert(id, policy);
        Some(row)
    }

    fn insert(&mut self, id: FileId, policy: Policy) {
        self.lifetimes += usize::from(policy.lifetime_seconds.is_some());
        self.own.insert(id, Box::new(policy));
    }
}

/// The policy of an entry and the folders above it, gathered from the entry upwards.
#[derive(Debug, Default)]
pub(crate) struct EffectivePolicy {
    policy: Policy,
    is_in_memory: bool,
    colocated_folder: Option<FileId>,
    level: usize,
    wanted_at: usize,
    forbidden_at: usize,
}

impl EffectivePolicy {
    /// Adds the policy of the next entry upwards: only fields that no nearer entry has set count.
    pub(crate) fn add(&mut self, id: FileId, own: &Policy) {
        self.level += 1;
        let policy = &mut self.policy;
        policy.copies = policy.copies.or(own.copies);
        policy.sync_copies = policy.sync_copies.or(own.sync_copies);
        policy.lifetime_seconds = policy.lifetime_seconds.or(own.lifetime_seconds);
        if policy.colocated.is_none() {
            policy.colocated = own.colocated;
            self.colocated_folder = own.colocated.filter(|together| *together).map(|_| id);
        }
        if policy.sites_wanted.is_empty() {
            policy.sites_wanted.clone_from(&own.sites_wanted);
            self.wanted_at = self.level;
        }
        if policy.sites_forbidden.is_empty() {
            policy.sites_forbidden.clone_from(&own.sites_forbidden);
            self.forbidden_at = self.level;
        }
    }

    /// Adds the policy of all files kept in memory.
    fn add_memory(&mut self, folder: FileId, policy: &Policy) {
        self.is_in_memory = true;
        self.add(folder, policy);
    }

    /// Whether the entry is kept in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// The co-located folder that the entry is in, if any.
    pub(crate) fn colocated_folder(&self) -> Option<FileId> {
        self.colocated_folder
    }

    /// All of it as one policy. If one entry wants a site and another forbids it, the nearer one wins.
    pub(crate) fn into_policy(self) -> Policy {
        let mut policy = self.policy;
        if self.wanted_at < self.forbidden_at {
            policy.sites_forbidden.retain(|site| !policy.sites_wanted.contains(site));
        } else {
            policy.sites_wanted.retain(|site| !policy.sites_forbidden.contains(site));
        }
        policy
    }
}

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
            Some(content) => self.set_file_policy(now, path, content, policy)?,
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
    fn set_file_policy(
        &mut self,
        now: Now,
        path: &SectorPath,
        content: FileContent,
        mut policy: Policy,
    ) -> Result<Vec<RowChange>, Refusal> {
        let id = self.names.get(path)?;
        let copies = policy.copies.take().unwrap_or(0);
        let mut rows = Vec::new();
        if copies != content.copies
            && let (Some(owner), Some(modified)) = (self.names.owner(id).cloned(), self.names.modified(id))
        {
            // The same content with another number of copies: the slice reported as freed is the one that stays.
            let content = FileContent { copies, ..content };
            rows = self.names.put_file(now, path, false, &owner, content, modified)?.rows;
        }
        rows.extend(self.policies.set(id, policy));
        Ok(rows)
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
        let (used, policy) = (self.quotas.folder(id)?, self.policies.get(id)?);
        let is_over = policy.quota_bytes.is_some_and(|most| used.bytes > most)
            || policy.quota_files.is_some_and(|most| used.files > most);
        let path = self.names.path(id)?;
        is_over.then(|| {
            format!(
                "`{path}` holds {} bytes in {} files already, more than its quota; nothing can be added to it",
                used.bytes, used.files
            )
        })
    }
}
