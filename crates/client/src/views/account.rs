//! Users, groups, tokens and quotas as JSON. Never a secret.

use serde::Serialize;

use super::rfc3339;
use crate::{GroupStatus, QuotaOf, QuotaStatus, TokenStatus, UserStatus};

/// A user.
#[derive(Serialize)]
pub struct UserView {
    pub user: String,
    pub groups: Vec<String>,
    pub admin: bool,
    pub enabled: bool,
    pub service: bool,
    pub password: bool,
    pub tokens: u32,
    pub addresses: Vec<String>,
    /// The identity provider whose user it is; null: the cloud's own.
    pub provider: Option<String>,
}

/// A group with its members.
#[derive(Serialize)]
pub struct GroupView {
    pub group: String,
    pub members: Vec<String>,
}

/// A named token; never the token itself.
#[derive(Serialize)]
pub struct TokenView {
    pub name: String,
    pub made: Option<String>,
    pub until: Option<String>,
    pub used: Option<String>,
}

/// A quota as JSON: of a user or of a folder.
#[derive(Serialize)]
pub struct QuotaView {
    pub user: Option<String>,
    pub folder: Option<String>,
    pub used_bytes: u64,
    pub used_files: u64,
    pub bytes: Option<u64>,
    pub files: Option<u64>,
}

impl From<UserStatus> for UserView {
    fn from(user: UserStatus) -> Self {
        Self {
            user: user.user.to_string(),
            groups: user.groups,
            admin: user.admin,
            enabled: user.enabled,
            service: user.service,
            password: user.has_password,
            tokens: user.tokens,
            addresses: user.addresses.iter().map(ToString::to_string).collect(),
            provider: user.provider,
        }
    }
}

impl From<GroupStatus> for GroupView {
    fn from(group: GroupStatus) -> Self {
        Self { group: group.group, members: group.members.iter().map(ToString::to_string).collect() }
    }
}

impl From<TokenStatus> for TokenView {
    fn from(token: TokenStatus) -> Self {
        Self {
            name: token.name,
            made: Some(rfc3339(token.made_unix_millis)),
            until: token.until_unix_millis.map(rfc3339),
            used: token.used_unix_millis.map(rfc3339),
        }
    }
}

impl From<QuotaStatus> for QuotaView {
    fn from(quota: QuotaStatus) -> Self {
        let (user, folder) = match quota.of {
            QuotaOf::User(user) => (Some(user.to_string()), None),
            QuotaOf::Folder(path) => (None, Some(path.to_string())),
        };
        let QuotaStatus { used_bytes, used_files, bytes, files, .. } = quota;
        Self { user, folder, used_bytes, used_files, bytes, files }
    }
}
