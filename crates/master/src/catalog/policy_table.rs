//! Entries' own policies, and how the policies of the folders above them add up. Serves `policy`. It never knows a name:
//! who walks upwards says whose policy comes next.

use std::collections::BTreeMap;

use protocol::{FileId, Policy};
use store::RowChange;

use crate::{
    actions::{POLICIES_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row, file_key, parse_file_key},
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
    pub(super) policy: Policy,
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
        policy.versions_seconds = policy.versions_seconds.or(own.versions_seconds);
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
    pub(super) fn add_memory(&mut self, folder: FileId, policy: &Policy) {
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
