//! What a rebuild of the names puts back: whole tables of another journal's copy, and single things said before. Serves
//! the path of a rebuild. It never decides which copy is right.

use protocol::{FileId, Policy, UserName};
use store::RowChange;

use super::{
    Catalog,
    expiry_queue::ExpiryQueue,
    namespace::{Namespace, change::NamespaceChange, parse_file_key},
};
use crate::{
    actions::{POLICIES_TABLE, QUOTAS_TABLE, StoredRow, TRASH_TABLE},
    error::MasterError,
};

impl Catalog {
    /// Replaces the names, which the policies and the trash must fit. Returns the former ones.
    pub(crate) fn replace_names(&mut self, mut new: Namespace) -> Namespace {
        new.raise_version(self.names.last_version());
        std::mem::replace(&mut self.names, new)
    }

    /// Drops policies, trash and quotas, since entry ids meant something else in the names so far. Folders that were cut
    /// off go too: they must not be found among the new names.
    pub(crate) fn clear_tables(&mut self) -> NamespaceChange {
        let mut change = self.purge_pending_removals(usize::MAX);
        change.rows.extend(self.policies.clear());
        change.rows.extend(self.trash.clear());
        change.rows.extend(self.quotas.clear());
        self.lifetimes = ExpiryQueue::default();
        change
    }

    /// Takes a row of one of these tables; `None` for another table.
    pub(crate) fn load_row(&mut self, row: &StoredRow) -> Option<Result<(), MasterError>> {
        match row.table {
            POLICIES_TABLE => Some(self.policies.load(row)),
            TRASH_TABLE => {
                let loaded = self.trash.load(row);
                parse_file_key(&row.key).into_iter().for_each(|id| self.note_trash_end(id));
                Some(loaded)
            }
            QUOTAS_TABLE => Some(self.quotas.load(row)),
            _ => None,
        }
    }

    /// Counts again what users and folders keep.
    pub(crate) fn recount(&mut self) {
        self.quotas.forget_counts();
        self.recount_usage();
    }

    /// Gives an entry a policy that was said before, whatever its quota.
    pub(crate) fn restore_policy(&mut self, id: FileId, policy: Policy) -> Option<RowChange> {
        self.policies.set(id, policy)
    }

    /// Gives a user the quota in this stored form.
    pub(crate) fn restore_quota(&mut self, user: UserName, value: &[u8]) -> Option<RowChange> {
        self.quotas.restore(user, value)
    }

    /// An entry is not in the trash any more.
    pub(crate) fn forget_trashed(&mut self, id: FileId) -> Option<RowChange> {
        self.trash.forget(id)
    }
}
