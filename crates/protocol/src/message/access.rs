//! Door 2, rights: who may do what with an entry, who owns it, and which slices a job may read at a node. It serves
//! `acl` and `run`. It never says what a right means for other requests: `docs/semantics.md` does.

use serde::{Deserialize, Serialize};

pub use super::request::AclRequest;
use crate::{
    SectorPath, UserName,
    acl::{Acl, Rights},
    ticket::SignedTicket,
};

/// The master's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AclReply {
    /// The present state.
    Status(AclStatus),
    /// The right of a job, to go with a task.
    Inputs(SignedTicket),
}

/// Who may do what with an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclStatus {
    /// The entry.
    pub path: SectorPath,
    /// Whose it is.
    pub owner: UserName,
    /// Its own list.
    pub own: Option<Acl>,
    /// The list in effect for it.
    pub effective: Acl,
    /// The entry that the effective list comes from; `None`: the cloud's settings.
    pub from: Option<SectorPath>,
    /// What the asking user may do, also as owner and administrator.
    pub mine: Rights,
}
