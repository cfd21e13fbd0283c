//! Door 2, rights: who may do what with an entry, who owns it, and which slices a job may read at a node. It serves
//! `acl` and `run`. It never says what a right means for other requests: `docs/semantics.md` does.

use serde::{Deserialize, Serialize};

use crate::{
    JobId, NodeId, SectorPath, SliceId, UserName,
    acl::{Acl, Principal, Rights},
    ticket::SignedTicket,
};

/// What a client asks about rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AclRequest {
    /// Who may do what with an entry: [`AclReply::Status`].
    Get(SectorPath),
    /// Replace an entry's own list by this one: [`AclReply::Status`].
    Set {
        /// The entry.
        path: SectorPath,
        /// Its own list; it overrides those of the folders above.
        acl: Acl,
    },
    /// Remove these principals from an entry's own list; what is left stays its own list: [`AclReply::Status`].
    Remove {
        /// The entry; it must have a list of its own.
        path: SectorPath,
        /// Of whom.
        principals: Vec<Principal>,
    },
    /// Remove an entry's own list, so that the folders above decide again: [`AclReply::Status`].
    Clear(SectorPath),
    /// Give an entry to another user, for administrators: [`AclReply::Status`]. What lies below keeps its owners.
    GiveTo {
        /// The entry.
        path: SectorPath,
        /// Whose it is from now on.
        owner: UserName,
    },
    /// The right of a job to read slices at a node: [`AclReply::Inputs`]. Refused where the job's user may not read one
    /// of them and run jobs on it. Also refused where one is no longer the content of a file.
    Inputs {
        /// The job; it must be running.
        job: JobId,
        /// The node whose SPE reads.
        node: NodeId,
        /// Which, at most [`JOB_INPUTS_MAX`](crate::limits::JOB_INPUTS_MAX).
        slices: Vec<SliceId>,
    },
}

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
