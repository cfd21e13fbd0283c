//! What was done under a journal before it met one that knows more: it stands beside what the other one brings. Files
//! keep their paths, folders their owners, and of two lists of rights both hold, so that nobody sees what either one
//! closed to him.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{Now, Policy, SectorPath, SliceId, UserName, acl::Acl};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    Master,
    actions::{NAMES_TABLE, POLICIES_TABLE, QUOTAS_TABLE},
    namespace::{ROOT, decode_row},
    upkeep::{file_key, parse_file_key},
};

use super::rows;

/// Files, folders, policies and quotas.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    pub(super) slices: BTreeSet<SliceId>,
    pub(super) folders: BTreeMap<SectorPath, OwnFolder>,
    pub(super) policies: BTreeMap<SectorPath, Policy>,
    /// By user, in the stored form.
    pub(super) quotas: BTreeMap<UserName, Vec<u8>>,
}

/// A folder. Field order is the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnFolder {
    pub(super) owner: UserName,
    pub(super) acl: Option<Acl>,
}

/// What has been changed in this master's life, as long as it may turn out that its journal is behind.
#[derive(Debug, Default)]
pub(super) struct Touched {
    rows: BTreeSet<(&'static str, Vec<u8>)>,
    is_full: bool,
}

impl Touched {
    pub(super) fn add(&mut self, changes: &[RowChange]) {
        for change in changes {
            let (RowChange::Set { table, key, .. } | RowChange::Remove { table, key }) = change;
            if ![NAMES_TABLE, POLICIES_TABLE, QUOTAS_TABLE].contains(table) {
                continue;
            }
            if self.rows.len() < TOUCHED_MAX {
                self.rows.insert((table, key.clone()));
            } else {
                self.is_full = true;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    fn has(&self, table: &'static str, key: Vec<u8>) -> bool {
        self.rows.contains(&(table, key))
    }
}

impl Master {
    /// What stands when names are put together: with `all`, whatever there is, else what this master's life changed.
    pub(super) fn gather_own(&self, all: bool) -> Own {
        let touched = |table, key| all || self.rebuild.touched.has(table, key);
        let mut own = Own::default();
        for entry in self.entries_below_root().into_iter().chain(self.names.entry(ROOT)) {
            let is_new = touched(NAMES_TABLE, file_key(entry.id));
            if let Some(policy) = self.policies.get(entry.id).filter(|_| touched(POLICIES_TABLE, file_key(entry.id))) {
                own.policies.insert(entry.path.clone(), policy.clone());
            }
            match self.names.content(entry.id) {
                Some(content) if is_new || content.version > self.rebuild.version_at_start => {
                    own.slices.insert(content.slice);
                }
                None if is_new => {
                    let acl = self.names.own_acl(entry.id).cloned();
                    own.folders.insert(entry.path, OwnFolder { owner: entry.owner, acl });
                }
                _ => {}
            }
        }
        for (user, value) in self.quotas.stored() {
            if touched(QUOTAS_TABLE, user.as_str().as_bytes().to_vec()) {
                own.quotas.insert(user, value);
            }
        }
        own
    }

    /// Makes the folders that stand, with what they say of rights.
    pub(super) fn make_own_folders(&mut self, now: Now) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for (path, OwnFolder { owner, acl }) in self.rebuild.own.folders.clone() {
            let Ok(change) = self.names.make_folder(now, &path, true, &owner) else { continue };
            changes.extend(change.rows);
            changes.extend(change.entry.map(|id| self.close_to_both(id, acl)).unwrap_or_default());
        }
        changes
    }

    /// Lets policies and quotas that stand hold again, once files have their names.
    pub(super) fn restore_own_wishes(&mut self) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for (path, policy) in self.rebuild.own.policies.clone() {
            changes.extend(self.names.find(&path).and_then(|id| self.policies.set(id, policy)));
        }
        for (user, value) in self.rebuild.own.quotas.clone() {
            changes.extend(self.quotas.restore(user, &value));
        }
        changes
    }

    /// Two sides say differently who may do what with a folder, and both may be right: what both grant holds.
    pub(super) fn close_to_both(&mut self, folder: protocol::FileId, other: Option<Acl>) -> Vec<RowChange> {
        let acl = match (self.names.own_acl(folder), other) {
            (Some(one), Some(other)) => Some(one.common(&other)),
            (one, other) => one.cloned().or(other),
        };
        self.names.set_acl(folder, acl)
    }

    /// Adds what a copy of another journal says that nothing here contradicts: folders, rights, policies, quotas. What is
    /// here stays; what the copy has in the trash is found by its sidecars.
    pub(super) fn merge_tree(
        &mut self,
        now: Now,
        tree: &crate::namespace::Namespace,
        policies: &[(Vec<u8>, Vec<u8>)],
    ) -> Vec<RowChange> {
        let mut changes = Vec::new();
        let mut rest = vec![ROOT];
        while let Some(id) = rest.pop() {
            rest.extend(tree.children(id).into_iter().filter(|child| tree.is_folder(*child)));
            let Some((path, owner)) = tree.path(id).zip(tree.owner(id)) else { continue };
            let is_new = self.names.find(&path).is_none();
            // Where a file stands now, its folder is no more.
            let Ok(change) = self.names.make_folder(now, &path, true, owner) else { continue };
            changes.extend(change.rows);
            self.rebuild.folders += u64::from(is_new);
            let acl = tree.own_acl(id).cloned();
            changes.extend(change.entry.map(|here| self.close_to_both(here, acl)).unwrap_or_default());
        }
        for (key, value) in policies {
            let path = parse_file_key(key).and_then(|id| tree.path(id));
            let here = path.and_then(|path| self.names.find(&path)).filter(|here| self.policies.get(*here).is_none());
            let Some((here, policy)) = here.zip(decode_row::<Policy>(value)) else { continue };
            changes.extend(self.policies.set(here, policy));
        }
        changes
    }
}

/// The rows of what stands.
pub(super) fn set_rows(own: &Own) -> Vec<RowChange> {
    rows::own(own).map(|(key, value)| rows::own_row(key, value)).collect()
}

/// Takes these rows away.
pub(super) fn clear_rows(own: &Own) -> Vec<RowChange> {
    let before = own.folders.keys().map(rows::own_folder_key_before);
    rows::own(own).map(|(key, _)| key).chain(before).map(rows::no_own_row).collect()
}

/// Changed rows remembered while some node has not told, about 10 MiB. With more,
/// a copy that knows more replaces nothing.
const TOUCHED_MAX: usize = 100_000;
