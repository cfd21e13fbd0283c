//! Door 3: the master asks the security server, over mutual TLS (Sector/Sphere paper, 2.3). One request, one reply, in
//! order, on a kept connection.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{
    CredentialId, NodeId, Refusal, UserName,
    message::{
        accounts::{AccountsReply, AccountsRequest},
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
    /// What a client asked the master about accounts: [`SecurityReply::Accounts`].
    Accounts {
        /// Who asks, as the master knows the session. The security server looks at its own accounts again.
        by: Asker,
        /// What is asked.
        request: AccountsRequest,
    },
    /// About the audit record.
    Audit(AuditRequest),
}

/// What the security server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityReply {
    /// The user is who they say.
    User(KnownUser),
    /// The node may join.
    NodeAllowed,
    /// No, and why.
    Refused(Refusal),
    /// About accounts.
    Accounts(AccountsReply),
    /// About the audit record.
    Audit(AuditReply),
}

/// A user who proved who they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownUser {
    /// What they may do.
    pub rights: UserRights,
    /// What proved them.
    pub credential: CredentialId,
    /// Until when that holds, in milliseconds since the Unix epoch; `None`: until it is revoked.
    pub until_unix_millis: Option<u64>,
}

/// Who asks about accounts, as the master knows the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// Who, and what they might do when the session began.
    pub rights: UserRights,
    /// What proved them then.
    pub credential: CredentialId,
    /// The address they came from.
    pub address: IpAddr,
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
