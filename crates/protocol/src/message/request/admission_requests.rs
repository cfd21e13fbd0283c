//! Requests about machines that join. The security server decides what only administrators may ask. Each is one
//! paragraph: what it is, its reply, its properties. This file never handles one.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by, request_family};
use crate::{
    AddressRange, KeyDigest, MachineKind, NodeId,
    message::{
        admission::{AdmissionReply, MachinePage, WaitingMachine},
        client_reply::ClientReply,
    },
};

request_family! {
    /// What an administrator does about machines.
    AdmissionVerb {
        AddTicket(AddTicketRequest),
        Requests(WaitingMachinesRequest),
        Approve(ApproveRequest),
        Reject(RejectRequest),
        Allow(AllowRequest),
        Machines(MachinesRequest),
        Strike(StrikeRequest),
    }
}

/// Register a ticket. Its secret stays with its maker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddTicketRequest {
    /// What its bearer may become. One for a master can only be made at the security server.
    pub kind: MachineKind,
    /// The secret's digest (`net::identity::ticket_digest`).
    pub digest: [u8; 32],
    /// The only name it is good for; otherwise any that is free.
    pub name: Option<NodeId>,
    /// For how long, in seconds.
    pub life_seconds: u64,
}

impl TypedRequest for AddTicketRequest {
    answered_by!((), ClientReply::Admission(AdmissionReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("add ticket", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("administer machines", "")
    }
}

/// Which machines wait for a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMachinesRequest;

impl TypedRequest for WaitingMachinesRequest {
    answered_by!(Vec<WaitingMachine>, ClientReply::Admission(AdmissionReply::Requests(waiting)) => waiting);

    fn properties(&self) -> Properties<'_> {
        Properties::new("waiting machines", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("administer machines", "")
    }
}

/// Admit a waiting machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApproveRequest {
    /// Which.
    pub name: NodeId,
    /// Its key, to be sure, or to choose one of several.
    pub key: Option<KeyDigest>,
}

impl TypedRequest for ApproveRequest {
    answered_by!((), ClientReply::Admission(AdmissionReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("approve machine", Need::Login)
            .during_rebuild()
            .without_names()
            .refused_as("administer machines", "")
    }
}

/// Turn away all machines that want this name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectRequest {
    /// Which name.
    pub name: NodeId,
}

impl TypedRequest for RejectRequest {
    answered_by!((), ClientReply::Admission(AdmissionReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("reject machine", Need::Login)
            .during_rebuild()
            .without_names()
            .refused_as("administer machines", "")
    }
}

/// From where a node may join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowRequest {
    /// Which.
    pub name: NodeId,
    /// From where; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
}

impl TypedRequest for AllowRequest {
    answered_by!((), ClientReply::Admission(AdmissionReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("allow addresses", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("administer machines", "")
    }
}

/// The machines that have a certificate, a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachinesRequest {
    /// The last one of the page before; none for the first page.
    pub after: Option<NodeId>,
}

impl TypedRequest for MachinesRequest {
    answered_by!(MachinePage, ClientReply::Admission(AdmissionReply::Machines { machines, more }) => MachinePage { machines, more });

    fn properties(&self) -> Properties<'_> {
        Properties::new("machines", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("administer machines", "")
    }
}

/// Refuse a machine's certificate from now on, or with `undo` accept it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrikeRequest {
    /// Which.
    pub name: NodeId,
    /// Accept it again.
    pub undo: bool,
}

impl TypedRequest for StrikeRequest {
    answered_by!((), ClientReply::Admission(AdmissionReply::Done) => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("strike off", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("administer machines", "")
    }
}
