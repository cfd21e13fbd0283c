//! Door 3: the master asks the security server, over mutual TLS (Sector/Sphere paper, 2.3). One request, one reply, in
//! order, on a kept connection.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    NodeId, Refusal, UserName,
    message::{
        audit::{AuditReply, AuditRequest},
        join::Secret,
    },
};

/// What the master asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityRequest {
    /// Is this user who they say, and what may they do?
    CheckUser {
        /// Who.
        user: UserName,
        /// The proof given.
        secret: Secret,
        /// The address they come from.
        address: IpAddr,
    },
    /// May this node join?
    CheckNode {
        /// The name it gives.
        node: NodeId,
        /// SHA-256 of the certificate it proved, 32 bytes.
        fingerprint: [u8; 32],
        /// The address it comes from.
        address: IpAddr,
    },
    /// About the audit record.
    Audit(AuditRequest),
}

/// What the security server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityReply {
    /// The user is who they say.
    User(UserRights),
    /// The node may join.
    NodeAllowed,
    /// No, and why.
    Refused(Refusal),
    /// About the audit record.
    Audit(AuditReply),
}

/// What a user may do, as far as the security server knows. Rights on files are the master's, from these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRights {
    /// Who.
    pub user: UserName,
    /// The groups they belong to.
    pub groups: Vec<String>,
    /// Whether they administer the cloud.
    pub admin: bool,
}
