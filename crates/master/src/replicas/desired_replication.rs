//! What is wanted of a file's copies, with the policies of all folders above it. Serves placement, replication and
//! commits. Never counts copies and never moves any.

use protocol::FileId;

/// How many copies of a file, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DesiredReplication {
    /// Copies in the whole cloud, at least 1.
    pub(crate) copies: u8,
    /// Sites that must each have a copy.
    pub(crate) sites_wanted: Vec<String>,
    /// Sites that must have none; none of them is among the wanted ones.
    pub(crate) sites_forbidden: Vec<String>,
    /// The folder whose files all lie on the same nodes, if the file is in such a folder.
    pub(crate) colocated_folder: Option<FileId>,
    /// Whether they are kept in memory.
    pub(crate) is_in_memory: bool,
}
