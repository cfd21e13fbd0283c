//! Requests about the audit record. Each is one paragraph: what it is, its reply, its properties. This file never
//! handles one.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by, request_family};
use crate::message::{
    audit::{AuditCheck, AuditPage, AuditQuery, AuditReply},
    client_reply::ClientReply,
};

request_family! {
    /// What an administrator asks.
    AuditQuestion {
        Show(AuditQuery),
        Verify(VerifyAuditRequest),
    }
}

impl TypedRequest for AuditQuery {
    answered_by!(AuditPage, ClientReply::Audit(AuditReply::Page(page)) => page);

    fn properties(&self) -> Properties<'_> {
        Properties::new("audit", Need::Administrator("look at the audit record"))
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at the audit record", "")
    }
}

/// Is the chain whole?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyAuditRequest;

impl TypedRequest for VerifyAuditRequest {
    answered_by!(AuditCheck, ClientReply::Audit(AuditReply::Checked(check)) => check);

    fn properties(&self) -> Properties<'_> {
        Properties::new("verify audit", Need::Administrator("look at the audit record"))
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at the audit record", "")
    }
}
