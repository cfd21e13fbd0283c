//! Requests about a rebuild of the names. Each is one paragraph: what it is, its reply, its properties. This file
//! never handles one.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by, request_family};
use crate::{
    NodeId, SectorPath, SliceId,
    message::{audit::AuditKind, client_reply::ClientReply, rebuild::RebuildStatus},
};

request_family! {
    /// A person's request about a rebuild.
    RebuildRequest {
        Status(RebuildStatusRequest),
        Finish(FinishRebuildRequest),
        Recover(RecoverRequest),
        Dismiss(DismissRequest),
        Forget(ForgetNodeRequest),
    }
}

/// The progress, and the conflicts after this slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildStatusRequest {
    /// The last of the page before.
    pub after: Option<SliceId>,
}

impl TypedRequest for RebuildStatusRequest {
    answered_by!(RebuildStatus, ClientReply::Rebuild(status) => status);

    fn properties(&self) -> Properties<'_> {
        Properties::new("rebuild status", Need::Login).repeatable().during_rebuild().refused_as("look at rebuild", "")
    }
}

/// Wait for no further node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishRebuildRequest;

impl TypedRequest for FinishRebuildRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("finish rebuild", Need::Administrator("decide about a rebuild")).once().during_rebuild().noted(
            AuditKind::Admin,
            "rebuild",
            "",
        )
    }
}

/// Give an archived slice a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverRequest {
    /// The slice.
    pub slice: SliceId,
    /// A free path.
    pub path: SectorPath,
}

impl TypedRequest for RecoverRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("recover slice", Need::Administrator("decide about a rebuild"))
            .once()
            .changes(&self.path)
            .during_rebuild()
            .noted(AuditKind::Admin, "rebuild", "")
    }
}

/// Take a conflict off the list, or all of them where `None`; archived slices among them are removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DismissRequest(pub Option<SliceId>);

impl TypedRequest for DismissRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("dismiss conflict", Need::Administrator("decide about a rebuild"))
            .once()
            .during_rebuild()
            .noted(AuditKind::Admin, "rebuild", "")
    }
}

/// A node will never come back: nothing waits for it any longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetNodeRequest(pub NodeId);

impl TypedRequest for ForgetNodeRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("forget node", Need::Administrator("decide about a rebuild")).once().during_rebuild().noted(
            AuditKind::Admin,
            "rebuild",
            "",
        )
    }
}
