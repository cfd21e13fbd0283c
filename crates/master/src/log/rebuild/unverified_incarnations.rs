//! Lives of a master in which not all known nodes have reported, with the first change of each. Serves the rebuild of
//! the names. It never says which change is newer: the path of a rebuild does.

use protocol::Version;
use serde::{Deserialize, Serialize};

/// Where such a life began. Field order is the format.
///
/// Each change is recorded with its life. The copy that is taken tells where the lines forked: before the first life
/// that it does not go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Incarnation {
    /// The journal's last change before it.
    pub(crate) base: u64,
    /// Its first change.
    pub(crate) first: u64,
    /// The newest version that the journal had before it.
    pub(crate) version: Version,
}
