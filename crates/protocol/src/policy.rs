//! What an owner wishes for a file or for all that lies below a folder: how many copies, where, for how long, and how
//! much (Sector/Sphere paper, 2.2: copies "according to the topology"; per file and folder here). A folder's wish holds
//! for everything below it that does not say otherwise. The master keeps policies; nothing here knows names or nodes.

use serde::{Deserialize, Serialize};

/// The policy of one entry. `None`, or an empty list, means: as the folder above says, at last as the cloud's settings
/// say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Copies wanted, 1 to [`COPIES_MAX`](crate::limits::COPIES_MAX).
    pub copies: Option<u8>,
    /// Copies that are synced before an upload is answered.
    pub sync_copies: Option<u8>,
    /// Sites that each shall have a copy.
    pub sites_wanted: Vec<String>,
    /// Sites that shall have none.
    pub sites_forbidden: Vec<String>,
    /// Files are removed this many seconds after they were last written.
    pub lifetime_seconds: Option<u64>,
    /// Of a folder: its files lie on the same nodes and are repaired as one.
    pub together: Option<bool>,
    /// Of a folder: most bytes of the files at and below it, each counted once.
    pub quota_bytes: Option<u64>,
    /// Of a folder: most files at and below it.
    pub quota_files: Option<u64>,
}

impl Policy {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
