//! What is wanted of a file's copies, with every folder's say taken into account. Serves placement, replication and
//! commits. Never counts copies and never moves any.

use protocol::FileId;

use crate::Master;

/// How many copies of a file, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Copies in the whole cloud, at least 1.
    pub(crate) copies: u8,
    /// Sites that each shall have a copy.
    pub(crate) sites_wanted: Vec<String>,
    /// Sites that shall have none.
    pub(crate) sites_forbidden: Vec<String>,
    /// The folder whose files all lie on the same nodes, where the file is in such a one.
    pub(crate) together: Option<FileId>,
}

impl Master {
    /// What is wanted of the copies of a file; nothing for a folder and for what is not there.
    pub(crate) fn wish(&self, file: FileId) -> Wish {
        let copies = self.names.content(file).map_or(0, |content| content.copies);
        Wish { copies, ..Wish::default() }
    }
}
