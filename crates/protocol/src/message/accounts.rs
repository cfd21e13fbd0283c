//! Doors 2 and 3: questions about users, groups, tokens and sessions. A client asks its master, the master passes the words
//! on to the security server, which alone knows the answers (Sector/Sphere paper, 2.1). No secret that is kept anywhere
//! travels here: a password goes in once, a token comes out once.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{AddressRange, UserName, message::master_security::KnownUser};

/// What is asked about accounts. Where nothing else is said, only administrators may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccountsRequest {
    /// Who am I: [`AccountsReply::You`]. Everyone may ask.
    WhoAmI,
    /// A page of the users, by name: [`AccountsReply::Users`].
    Users {
        /// Only what comes after this name (the last of the previous page).
        after: Option<UserName>,
    },
    /// Add a user: [`AccountsReply::Done`].
    AddUser(NewUser),
    /// Remove a user with tokens and sessions, but never the last administrator: [`AccountsReply::Done`]. Files stay.
    RemoveUser(UserName),
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
}

/// A user to be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewUser {
    /// The name.
    pub user: UserName,
    /// The password; `None` for one who comes with tokens only.
    pub password: Option<Password>,
    /// Groups the user belongs to.
    pub groups: Vec<String>,
    /// Whether the user administers the cloud.
    pub admin: bool,
    /// From where the user may come; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
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
}

/// A password on its way to be hashed. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}
