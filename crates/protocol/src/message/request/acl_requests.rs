//! Requests about rights and owners. Each is one paragraph: what it is, its reply, its properties. This file never
//! handles one.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by, request_family};
use crate::{
    Acl, JobId, NodeId, Principal, Rights, SectorPath, SliceId, UserName,
    message::{
        access::{AclReply, AclStatus},
        audit::AuditKind,
        client_reply::ClientReply,
    },
    ticket::SignedTicket,
};

request_family! {
    /// What a client asks about rights.
    AclRequest {
        Get(GetAclRequest),
        Set(SetAclRequest),
        Remove(RemoveFromAclRequest),
        Clear(ClearAclRequest),
        GiveTo(GiveToRequest),
        Inputs(JobInputsRequest),
        Add(AddToAclRequest),
    }
}

/// Who may do what with an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAclRequest(pub SectorPath);

impl TypedRequest for GetAclRequest {
    answered_by!(AclStatus, ClientReply::Acl(AclReply::Status(status)) => status);

    fn properties(&self) -> Properties<'_> {
        Properties::new("get rights", Need::On(&self.0, Rights::READ))
            .repeatable()
            .during_rebuild()
            .refused_as("look at rights", &self.0)
    }
}

/// Replace an entry's own list by this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAclRequest {
    /// The entry.
    pub path: SectorPath,
    /// Its own list; it overrides those of the folders above.
    pub acl: Acl,
}

impl TypedRequest for SetAclRequest {
    answered_by!(AclStatus, ClientReply::Acl(AclReply::Status(status)) => status);

    fn properties(&self) -> Properties<'_> {
        Properties::new("set rights", Need::rights_of(&self.path)).repeatable().noted(
            AuditKind::Grant,
            "set rights",
            &self.path,
        )
    }
}

/// Grant these rights besides those that hold for an entry. One without a list of its own begins with the list that
/// holds for it. Others that add at the same time lose nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddToAclRequest {
    /// The entry.
    pub path: SectorPath,
    /// What is granted.
    pub acl: Acl,
}

impl TypedRequest for AddToAclRequest {
    answered_by!(AclStatus, ClientReply::Acl(AclReply::Status(status)) => status);

    fn properties(&self) -> Properties<'_> {
        Properties::new("add rights", Need::rights_of(&self.path)).repeatable().noted(
            AuditKind::Grant,
            "add rights",
            &self.path,
        )
    }
}

/// Remove these principals from an entry's own list; what is left stays its own list. Once done, it cannot be done
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveFromAclRequest {
    /// The entry; it must have a list of its own.
    pub path: SectorPath,
    /// Of whom.
    pub principals: Vec<Principal>,
}

impl TypedRequest for RemoveFromAclRequest {
    answered_by!(AclStatus, ClientReply::Acl(AclReply::Status(status)) => status);

    fn properties(&self) -> Properties<'_> {
        Properties::new("remove rights", Need::rights_of(&self.path)).once().noted(
            AuditKind::Grant,
            "remove rights",
            &self.path,
        )
    }
}

/// Remove an entry's own list, so that the folders above decide again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClearAclRequest(pub SectorPath);

impl TypedRequest for ClearAclRequest {
    answered_by!(AclStatus, ClientReply::Acl(AclReply::Status(status)) => status);

    fn properties(&self) -> Properties<'_> {
        Properties::new("clear rights", Need::rights_of(&self.0)).repeatable().noted(
            AuditKind::Grant,
            "clear rights",
            &self.0,
        )
    }
}

/// Give an entry to another user. What lies below keeps its owners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveToRequest {
    /// The entry.
    pub path: SectorPath,
    /// Whose it is from now on.
    pub owner: UserName,
}

impl TypedRequest for GiveToRequest {
    answered_by!(AclStatus, ClientReply::Acl(AclReply::Status(status)) => status);

    fn properties(&self) -> Properties<'_> {
        Properties::new("give to another owner", Need::Administrator("give files to another user"))
            .repeatable()
            .changes(&self.path)
            .noted(AuditKind::Grant, "give to another owner", &self.path)
    }
}

/// The right of a job to read slices at a node. Refused where the job's user may not read one of them and run jobs on
/// it. Also refused where one is no longer the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInputsRequest {
    /// The job; it must be running.
    pub job: JobId,
    /// The node whose SPE reads.
    pub node: NodeId,
    /// Which, at most [`JOB_INPUTS_MAX`](crate::limits::JOB_INPUTS_MAX).
    pub slices: Vec<SliceId>,
}

impl TypedRequest for JobInputsRequest {
    answered_by!(SignedTicket, ClientReply::Acl(AclReply::Inputs(ticket)) => ticket);

    fn properties(&self) -> Properties<'_> {
        Properties::new("job inputs", Need::Holder).repeatable().during_rebuild().refused_as("read as a job", self.job)
    }
}
