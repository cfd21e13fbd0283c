//! The audit record, for administrators (door 2). The security server keeps it; this file never reads it directly.

use protocol::message::{
    audit::{AuditCheck, AuditPage, AuditQuery},
    request::VerifyAuditRequest,
};

use crate::{Client, ClientError};

impl Client {
    /// A page of the record's lines, oldest first.
    ///
    /// # Errors
    /// `Refused` for anyone but administrators, `Unavailable` if the security server cannot be reached.
    pub async fn audit_page(&self, query: AuditQuery) -> Result<AuditPage, ClientError> {
        self.ask(query).await
    }

    /// Has the whole chain checked against the heads that the security server and the master store.
    ///
    /// # Errors
    /// As [`audit_page`](Self::audit_page).
    pub async fn verify_audit(&self) -> Result<AuditCheck, ClientError> {
        self.ask(VerifyAuditRequest).await
    }
}
