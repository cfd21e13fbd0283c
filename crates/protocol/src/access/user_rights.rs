//! Who a user is known to be, and what they may do, as far as the security server knows. It never says what they may do
//! with a file: access lists do.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{CredentialId, UserName};

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
    /// Who, and their rights when the session began.
    pub rights: UserRights,
    /// What proved them then.
    pub credential: CredentialId,
    /// The address they came from.
    pub address: IpAddr,
}

/// A user's rights, as far as the security server knows. The master derives rights on files from these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRights {
    /// Who.
    pub user: UserName,
    /// The groups they belong to.
    pub groups: Vec<String>,
    /// Whether they administer the cloud.
    pub admin: bool,
}
