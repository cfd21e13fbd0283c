//! What is wanted of a file's copies, with every folder's say taken into account. Serves placement, replication and
//! commits. Never counts copies and never moves any.

use protocol::{FileId, SectorPath};

use crate::{Master, policies::Gathered};

/// How many copies of a file, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Copies in the whole cloud, at least 1.
    pub(crate) copies: u8,
    /// Sites that each shall have a copy.
    pub(crate) sites_wanted: Vec<String>,
    /// Sites that shall have none; none of them is wanted too.
    pub(crate) sites_forbidden: Vec<String>,
    /// The folder whose files all lie on the same nodes, where the file is in such a one.
    pub(crate) together: Option<FileId>,
    /// Whether they are kept in memory.
    pub(crate) is_in_memory: bool,
}

impl Master {
    /// What is wanted of the copies of a file; nothing for a folder and for what is not there.
    pub(crate) fn wish(&self, file: FileId) -> Wish {
        match self.names.content(file) {
            Some(_) => self.wish_from(self.gather(file)),
            None => Wish::default(),
        }
    }

    /// What is wanted of a file that is about to be written to a path: as of the file that is there, else as the nearest
    /// folder on the way says. `copies` is what the writer himself asks for; 0 means nothing.
    pub(crate) fn wish_at(&self, path: &SectorPath, copies: Option<u8>) -> Wish {
        let mut wish = self.wish_from(self.gather_at(path));
        wish.copies = copies.filter(|copies| *copies > 0).unwrap_or(wish.copies);
        wish
    }

    fn wish_from(&self, gathered: Gathered) -> Wish {
        let (together, is_in_memory) = (gathered.together(), gathered.is_in_memory());
        let policy = gathered.into_policy();
        Wish {
            copies: policy.copies.unwrap_or(self.config.copies),
            sites_wanted: policy.sites_wanted,
            sites_forbidden: policy.sites_forbidden,
            together,
            is_in_memory,
        }
    }
}
