//! From which clouds a node may be told to fetch copies. The values here never check an address or a ticket.

use serde::{Deserialize, Serialize};

/// From which clouds clients may have a node copy files to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThirdPartyFrom {
    /// From every cloud that the client can use.
    Any,
    /// From other nodes of its own cloud only.
    OwnCloud,
}
