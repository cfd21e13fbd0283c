//! Where copies of a file may be: what its policies want, in the numbers of the existing nodes. The same for a path that
//! is about to be written. Serves placement and replication. It never chooses a node.

use protocol::{FileId, Now, SectorPath, SliceId};

use crate::{
    Master, catalog::policy_table::EffectivePolicy, fleet::placement_constraints::PlacementConstraints,
    replicas::desired_replication::DesiredReplication,
};

impl Master {
    /// What is wanted of a file's copies, as far as nodes have reported.
    pub(crate) fn constraints(&mut self, now: Now, file: FileId) -> PlacementConstraints {
        let desired = self.desired_replication(file);
        self.constraints_of(now, &desired)
    }

    /// The same for a file that is being written.
    pub(crate) fn constraints_at(&mut self, now: Now, path: &SectorPath, copies: u8) -> PlacementConstraints {
        let desired = self.desired_replication_at(path, copies);
        self.constraints_of(now, &desired)
    }

    pub(super) fn constraints_of_slice(&mut self, now: Now, slice: SliceId) -> Option<PlacementConstraints> {
        if let Some(lease) = self.writes.leases.of_slice(slice).and_then(|lease| self.writes.leases.get(lease)) {
            let (path, copies) = (lease.header.path.clone(), lease.header.copies);
            return Some(self.constraints_at(now, &path, copies));
        }
        let file = self.catalog.names().file_of_slice(slice)?;
        Some(self.constraints(now, file))
    }

    fn constraints_of(&mut self, now: Now, desired: &DesiredReplication) -> PlacementConstraints {
        let mut terms = PlacementConstraints::new(&self.fleet.nodes, desired);
        if let Some(folder) = desired.colocated_folder {
            terms.allowed_nodes = self.colocated_nodes(now, folder, &terms);
        }
        terms
    }

    /// What is wanted of the copies of a file; nothing for a folder and for an entry that does not exist.
    pub(crate) fn policy_replication(&self, file: FileId) -> DesiredReplication {
        match self.catalog.names().content(file) {
            Some(_) => self.replication_from(self.catalog.effective_policy(file)),
            None => DesiredReplication::default(),
        }
    }

    /// What is wanted of a file that is about to be written to a path. The existing file decides, else the nearest
    /// folder on the way. `copies` is what the writer asks for; 0 means nothing.
    pub(crate) fn policy_replication_at(&self, path: &SectorPath, copies: Option<u8>) -> DesiredReplication {
        let mut desired = self.replication_from(self.catalog.effective_policy_at(path));
        desired.copies = copies.filter(|copies| *copies > 0).unwrap_or(desired.copies);
        desired
    }

    fn replication_from(&self, gathered: EffectivePolicy) -> DesiredReplication {
        let (together, is_in_memory) = (gathered.colocated_folder(), gathered.is_in_memory());
        let policy = gathered.into_policy();
        DesiredReplication {
            copies: policy.copies.unwrap_or(self.config.copies),
            sites_wanted: policy.sites_wanted,
            sites_forbidden: policy.sites_forbidden,
            colocated_folder: together,
            is_in_memory,
        }
    }
}
