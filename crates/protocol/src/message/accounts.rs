//! Doors 2 and 3: questions about users, groups, tokens and sessions. A client asks its master, which passes them on to
//! the security server, which alone knows the answers (Sector/Sphere paper, 2.1). A secret that is kept anywhere never
//! travels here: a password goes in once, a token comes out once.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

pub use super::request::AccountsRequest;
use crate::{AddressRange, CredentialId, UserName, access::user_rights::KnownUser};

/// A change to a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UserChange {
    /// Whether the user may log in at all; never false for the last administrator.
    Enabled(bool),
    /// Whether the user administers the cloud; never false for the last administrator.
    Admin(bool),
    /// From where the user may come; empty: from anywhere.
    Addresses(Vec<AddressRange>),
}

/// What the security server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountsReply {
    /// It is done, and durable.
    Done,
    /// Who asks.
    You(KnownUser),
    /// A page of the users.
    Users {
        /// By name.
        users: Vec<UserStatus>,
        /// Whether more come after them.
        more: bool,
    },
    /// A page of the groups.
    Groups {
        /// By name.
        groups: Vec<GroupStatus>,
        /// Whether more come after them.
        more: bool,
    },
    /// A new token, kept nowhere else.
    Token(NewSession),
    /// A user's tokens, oldest first.
    Tokens(Vec<TokenStatus>),
    /// A page of login sessions.
    Sessions {
        /// By id.
        sessions: Vec<SessionStatus>,
        /// Whether more come after them.
        more: bool,
    },
    /// A new access key, whose secret is kept nowhere.
    AccessKey(NewAccessKey),
    /// Whose an access key is.
    AccessKeyOwner(AccessKeyOwner),
}

/// A page of what accounts list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountsPage<T> {
    /// In their order.
    pub items: Vec<T>,
    /// Whether more come after them.
    pub more: bool,
}

/// A token, given out only once: for a login session, or by its name for a program.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// The id by which it is listed and revoked.
    pub credential: CredentialId,
    /// The token, 32 random bytes.
    pub token: [u8; 32],
    /// Until when it is good unless it is renewed, in milliseconds since the Unix epoch.
    pub until_unix_millis: u64,
}

impl fmt::Debug for NewSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewSession({})", self.credential)
    }
}

/// A key by which doors know a user that check signatures, as S3 does. Its secret is given to its user once, and is kept
/// nowhere: the security server can make it again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAccessKey {
    /// The id, which requests name: the name of the token that it is.
    pub id: String,
    /// The secret that requests are signed with.
    pub secret: String,
    /// Until when it is good, in milliseconds since the Unix epoch.
    pub until_unix_millis: u64,
}

impl fmt::Debug for NewAccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewAccessKey({})", self.id)
    }
}

/// Whose an access key is, as a door learns it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKeyOwner {
    /// The user.
    pub user: UserName,
    /// The secret that requests are signed with.
    pub secret: String,
    /// The token that logs the user in.
    pub token: [u8; 32],
}

impl fmt::Debug for AccessKeyOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessKeyOwner({})", self.user)
    }
}

/// Whether this is the id of an access key. A token that people name is never called so.
pub fn is_access_key_id(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    text.len() == ACCESS_KEY_ID_LETTERS && text.starts_with(ACCESS_KEY_PREFIX) && text.bytes().all(is_letter)
}

/// A group with those in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// The name.
    pub group: String,
    /// Who is in it, by name.
    pub members: Vec<UserName>,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenStatus {
    /// Its name.
    pub name: String,
    /// When it was made; this and what follows in milliseconds since the Unix epoch.
    pub made_unix_millis: u64,
    /// Until when it is good; `None`: until it is revoked.
    pub until_unix_millis: Option<u64>,
    /// When it was last used, to within ten minutes; `None`: never.
    pub used_unix_millis: Option<u64>,
}

/// A login session without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its id.
    pub session: CredentialId,
    /// Whose.
    pub user: UserName,
    /// What the client called its machine.
    pub machine: String,
    /// The address from which the user logged in.
    pub address: IpAddr,
    /// When it began; this and what follows in milliseconds since the Unix epoch.
    pub began_unix_millis: u64,
    /// When it ends unless it is used before.
    pub until_unix_millis: u64,
    /// When it was last used, to within ten minutes.
    pub used_unix_millis: u64,
}

/// A user to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewUser {
    /// The name.
    pub user: UserName,
    /// The password; `None` for a user with tokens only.
    pub password: Option<Password>,
    /// Groups the user belongs to.
    pub groups: Vec<String>,
    /// Whether the user administers the cloud.
    pub admin: bool,
    /// From where the user may come; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
    /// A program, not a person: it never has a password.
    pub service: bool,
}

/// A user, as administrators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserStatus {
    /// The name.
    pub user: UserName,
    /// Groups the user belongs to.
    pub groups: Vec<String>,
    /// Whether the user administers the cloud.
    pub admin: bool,
    /// From where the user may come; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
    /// Whether the user has a password.
    pub has_password: bool,
    /// How many tokens the user has.
    pub tokens: u32,
    /// Whether it is a program, not a person.
    pub service: bool,
    /// Whether the user may come in at all.
    pub enabled: bool,
    /// The identity provider whose user it is; `None`: the account is the cloud's own.
    pub provider: Option<String>,
}

/// A password on its way to be hashed. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// What the id of an access key begins with; then come letters and digits of base 32.
pub const ACCESS_KEY_PREFIX: &str = "SK";
/// Letters of the id of an access key, as many as clients expect.
pub const ACCESS_KEY_ID_LETTERS: usize = 20;
/// The group whose members learn whose an access key is, so that they can serve requests that are signed with it.
pub const GATEWAYS_GROUP: &str = "gateways";
/// Longest life of a token in seconds: a year and a day, so that what is forgotten ends by itself.
pub const TOKEN_LIFE_SECONDS_MAX: u64 = 366 * 24 * 3_600;
