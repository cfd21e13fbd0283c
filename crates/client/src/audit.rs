//! The audit record, for administrators (door 2). The security server keeps it; this file never reads it directly.

use protocol::message::{
    audit::{AuditCheck, AuditPage, AuditQuery, AuditQuestion, AuditReply},
    client_master::{ClientReply, ClientRequest},
};

use crate::{Client, ClientError};

impl Client {
    /// A page of the record's lines, oldest first.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, `Unavailable` if the security server cannot be reached.
    pub async fn audit_page(&self, query: AuditQuery) -> Result<AuditPage, ClientError> {
        match self.ask(ClientRequest::Audit(AuditQuestion::Show(query))).await? {
            ClientReply::Audit(AuditReply::Page(page)) => Ok(page),
            _ => Err(ClientError::Unexpected { who: "master", request: "audit" }),
        }
    }

    /// Has the whole chain checked against the heads that the security server and the master store.
    ///
    /// # Errors
    /// As [`audit_page`](Self::audit_page).
    pub async fn verify_audit(&self) -> Result<AuditCheck, ClientError> {
        match self.ask(ClientRequest::Audit(AuditQuestion::Verify)).await? {
            ClientReply::Audit(AuditReply::Checked(check)) => Ok(check),
            _ => Err(ClientError::Unexpected { who: "master", request: "audit" }),
        }
    }
}
