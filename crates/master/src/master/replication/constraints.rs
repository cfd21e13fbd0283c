//! Where copies of a file may be, for a file and for a path that is about to be written. Serves placement and
//! replication. It never chooses a node.

use protocol::{FileId, SectorPath};

use crate::{Master, catalog::policy_table::EffectivePolicy, replicas::desired_replication::DesiredReplication};

impl Master {
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
