//! Door 2, rights: who may do what with an entry, whose it is, and which slices a job may read at a node. Serves `acl`
//! and `run`. What the rights mean for other requests is told in `docs/semantics.md`.

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
    /// Let an entry say this from now on, and nothing else: [`AclReply::Status`].
    Set {
        /// The entry.
        path: SectorPath,
        /// Its own list; it goes before what the folders above say.
        acl: Acl,
    },
    /// Take what an entry says itself of some away; what is left stays its own list: [`AclReply::Status`].
    Remove {
        /// The entry; it must have a list of its own.
        path: SectorPath,
        /// Of whom.
        principals: Vec<Principal>,
    },
    /// Let an entry say nothing: what the folders above say holds again: [`AclReply::Status`].
    Clear(SectorPath),
    /// Give an entry to another user, for administrators: [`AclReply::Status`]. What lies below keeps its owners.
    GiveTo {
        /// The entry.
        path: SectorPath,
        /// Whose it is from now on.
        owner: UserName,
    },
    /// The right of a job to read slices at a node: [`AclReply::Inputs`]. Refused where the job's user may not read one
    /// of them and run jobs on it, or where one is no file's content any more.
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
    /// How it is now.
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
    /// What it says itself.
    pub own: Option<Acl>,
    /// What holds for it.
    pub effective: Acl,
    /// The entry that says what holds; `None`: the cloud's settings.
    pub from: Option<SectorPath>,
    /// What the one who asks may do, as owner and administrator too.
    pub mine: Rights,
}
