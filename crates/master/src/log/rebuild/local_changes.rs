//! Changes made under a journal before it met one that knows more, by path and user. Serves the rebuild of the names.
//! It never decides which of two changes stands.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{NodeId, Policy, SectorPath, SliceId, UserName, acl::Acl, message::cluster::Membership};
use serde::{Deserialize, Serialize};
use store::RowChange;

use super::rebuild_rows;
use crate::actions::{NAMES_TABLE, POLICIES_TABLE, QUOTAS_TABLE};

/// Files, folders, policies, quotas, and which nodes leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalChanges {
    pub(crate) slices: BTreeSet<SliceId>,
    pub(crate) folders: BTreeMap<SectorPath, LocalFolder>,
    pub(crate) policies: BTreeMap<SectorPath, Policy>,
    /// By user, in the stored form.
    pub(crate) quotas: BTreeMap<UserName, Vec<u8>>,
    pub(crate) memberships: BTreeMap<NodeId, Membership>,
}

/// A folder. Field order is the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalFolder {
    pub(crate) owner: UserName,
    pub(crate) acl: Option<Acl>,
}

/// Rows changed in lives of the master that had not heard all nodes. Each row has the last such life, identified by the
/// number of its first change.
#[derive(Debug, Default)]
pub(crate) struct ChangedRows {
    rows: BTreeMap<(&'static str, Vec<u8>), u64>,
    is_full: bool,
}

impl ChangedRows {
    /// Adds the rows of these changes; returns the keys under which new ones are recorded.
    pub(crate) fn add(&mut self, changes: &[RowChange], life: u64) -> Vec<Vec<u8>> {
        let mut new = Vec::new();
        for change in changes {
            let (RowChange::Set { table, key, .. } | RowChange::Remove { table, key }) = change;
            if !CHANGED_TABLES.contains(table) {
                continue;
            }
            if self.rows.len() >= CHANGED_ROWS_MAX {
                self.is_full = true;
            } else if self.rows.insert((table, key.clone()), life) != Some(life) {
                new.extend(stored_key(table, key));
            }
        }
        new
    }

    /// Takes a recorded row; `None` if it is none.
    pub(super) fn load(&mut self, stored: &[u8], life: u64) -> Option<()> {
        let (table, key) = stored.split_first()?;
        self.rows.insert((CHANGED_TABLES.get(usize::from(*table))?, key.to_vec()), life);
        self.is_full |= self.rows.len() >= CHANGED_ROWS_MAX;
        Some(())
    }

    /// The keys under which they are recorded.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        self.rows.keys().filter_map(|(table, key)| stored_key(table, key))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The last life that changed a row.
    pub(crate) fn incarnation(&self, table: &'static str, key: Vec<u8>) -> Option<u64> {
        self.rows.get(&(table, key)).copied()
    }
}

/// The key that records that a row of a table was changed.
fn stored_key(table: &str, key: &[u8]) -> Option<Vec<u8>> {
    let number = CHANGED_TABLES.iter().position(|touched| *touched == table)?;
    Some([&[u8::try_from(number).ok()?], key].concat())
}

impl LocalChanges {
    /// Forgets the rows with these keys.
    pub(crate) fn forget(&mut self, keys: &BTreeSet<Vec<u8>>) {
        let keeps = |kind, key: &[u8]| !keys.contains(&rebuild_rows::local_change_key(kind, key));
        self.slices.retain(|slice| keeps(rebuild_rows::LOCAL_SLICE, &slice.0.to_be_bytes()));
        self.folders.retain(|path, _| keeps(rebuild_rows::LOCAL_FOLDER, path.as_str().as_bytes()));
        self.policies.retain(|path, _| keeps(rebuild_rows::LOCAL_POLICY, path.as_str().as_bytes()));
        self.quotas.retain(|user, _| keeps(rebuild_rows::LOCAL_QUOTA, user.as_str().as_bytes()));
        self.memberships.retain(|node, _| keeps(rebuild_rows::LOCAL_MEMBERSHIP, node.as_str().as_bytes()));
    }
}

/// The rows that record the standing changes.
pub(crate) fn set_rows(own: &LocalChanges) -> Vec<RowChange> {
    rebuild_rows::local_change_entries(own).map(|(key, value)| rebuild_rows::local_change_row(key, value)).collect()
}

/// Removes these rows.
pub(crate) fn clear_rows(own: &LocalChanges) -> Vec<RowChange> {
    let before = own.folders.keys().map(rebuild_rows::old_folder_key);
    rebuild_rows::local_change_entries(own)
        .map(|(key, _)| key)
        .chain(before)
        .map(rebuild_rows::remove_journal_row)
        .collect()
}

/// Tables whose rows are remembered; their numbers are the format.
const CHANGED_TABLES: [&str; 4] = [NAMES_TABLE, POLICIES_TABLE, QUOTAS_TABLE, MEMBERSHIPS];
/// Not a table: what operators said of nodes, by name. A node's row also changes with its address.
pub(crate) const MEMBERSHIPS: &str = "standings";
/// Changed rows remembered while some node has not reported, about 10 MiB. Beyond that, a copy that knows more replaces
/// nothing.
const CHANGED_ROWS_MAX: usize = 100_000;
