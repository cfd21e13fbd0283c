//! The catalogue: names, and what holds for them: rights, policies, lifetimes, quotas and the trash. Serves every request
//! about names. A state machine of its own: each change checks everything first, changes memory, and returns the rows
//! that make it durable. It reads no clock and draws nothing at random. It never knows where a copy lies, nor who is
//! connected.

pub(crate) mod clock_guard;
pub(crate) mod compact_storage;
pub(crate) mod expiry_queue;
pub(crate) mod lifetimes;
pub(crate) mod memory_files;
pub mod namespace;
pub(crate) mod policies;
pub(crate) mod policy_table;
pub(crate) mod quota_table;
pub(crate) mod quotas;
pub(crate) mod rebuilt_tables;
#[cfg(test)]
mod replay;
pub(crate) mod rights;
pub(crate) mod trash;
pub(crate) mod trash_table;
pub(crate) mod usage_accounting;

use clock_guard::ClockGuard;
use expiry_queue::ExpiryQueue;
use namespace::{Namespace, change::NamespaceChange};
use policy_table::Policies;
use protocol::{FileId, Now, Refusal, SectorPath, UserName, Version, acl::Acl, limits};
use quota_table::Quotas;
use store::RowChange;
use trash_table::Trash;

use crate::config::MasterConfig;

/// The names of a cloud with everything that is said of them. (Paper, 2.1: "the metadata of the files stored in the
/// system".)
///
/// What it returns as rows is the command: whoever sets the same rows in the same order has the same catalogue.
/// Decision 0035 says why it is not the request.
#[derive(Debug)]
pub(crate) struct Catalog {
    config: MasterConfig,
    names: Namespace,
    policies: Policies,
    trash: Trash,
    quotas: Quotas,
    lifetimes: ExpiryQueue,
    /// Most replaced contents that are kept: [`VERSIONS_IN_ALL_MAX`](protocol::limits::VERSIONS_IN_ALL_MAX), fewer in
    /// tests.
    pub(crate) versions_max: usize,
    clock: ClockGuard,
    /// Whether the names are being rebuilt: then a folder's list may be older than its last change.
    is_rebuilding: bool,
}

impl Catalog {
    /// The catalogue as its tables were loaded.
    pub(crate) fn new(
        config: MasterConfig,
        names: Namespace,
        (policies, trash, quotas): (Policies, Trash, Quotas),
        clock: ClockGuard,
        is_rebuilding: bool,
    ) -> Self {
        let lifetimes = ExpiryQueue::default();
        let versions_max = limits::VERSIONS_IN_ALL_MAX;
        let mut catalog =
            Self { config, names, policies, trash, quotas, lifetimes, versions_max, clock, is_rebuilding };
        catalog.recount_usage();
        catalog.trash.entries().collect::<Vec<_>>().into_iter().for_each(|id| catalog.note_trash_end(id));
        catalog
    }

    /// The names.
    pub(crate) fn names(&self) -> &Namespace {
        &self.names
    }

    /// Entries' own policies.
    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The removed entries that can still be restored.
    pub(crate) fn trash(&self) -> &Trash {
        &self.trash
    }

    /// Users' and folders' quotas.
    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// The clock by which entries are dated and removed.
    pub(crate) fn clock(&self) -> &ClockGuard {
        &self.clock
    }

    /// The same, to tell it the time or what others say of it.
    pub(crate) fn clock_mut(&mut self) -> &mut ClockGuard {
        &mut self.clock
    }

    /// What is wrong with the clock, if anything.
    pub(crate) fn clock_reason(&self) -> Option<String> {
        self.clock.reason(self.trash.is_empty() && self.lifetimes.is_empty())
    }

    /// Says whether the names are being rebuilt.
    pub(crate) fn set_rebuilding(&mut self, is_rebuilding: bool) {
        self.is_rebuilding = is_rebuilding;
    }

    /// A version larger than any before.
    pub(crate) fn next_version(&mut self, now: Now) -> Version {
        self.names.next_version(now)
    }

    /// Notes a version that someone has: the next ones are larger.
    pub(crate) fn raise_version(&mut self, version: Version) {
        self.names.raise_version(version);
    }

    /// Makes a folder (see [`Namespace::make_folder`]).
    pub(crate) fn make_folder(
        &mut self,
        now: Now,
        path: &SectorPath,
        parents: bool,
        owner: &UserName,
    ) -> Result<NamespaceChange, Refusal> {
        self.names.make_folder(now, path, parents, owner)
    }

    /// Gives an entry a list of rights of its own, or none. Returns its row if the list has changed.
    pub(crate) fn set_acl(&mut self, id: FileId, acl: Option<Acl>) -> Vec<RowChange> {
        self.names.set_acl(id, acl)
    }

    /// Removes at most `count` entries of cut-off folders, and what is said of them.
    pub(crate) fn purge_pending_removals(&mut self, count: usize) -> NamespaceChange {
        let mut change = self.names.purge_pending_removals(count);
        self.forget_removed(&mut change);
        change
    }
}
