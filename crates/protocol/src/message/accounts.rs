//! Doors 2 and 3: questions about users, groups, tokens and sessions. A client asks its master, which passes them on to
//! the security server, which alone knows the answers (Sector/Sphere paper, 2.1). A secret that is kept anywhere never
//! travels here: a password goes in once, a token comes out once.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{AddressRange, CredentialId, UserName, message::master_security::KnownUser};

/// Questions about accounts. Unless stated otherwise, only administrators may ask.
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
    /// Change what a user may do: [`AccountsReply::Done`].
    ChangeUser {
        /// Who.
        user: UserName,
        /// What becomes of them.
        change: UserChange,
    },
    /// Give a user a new password; all other login sessions of the user end: [`AccountsReply::Done`]. Everyone may, for
    /// themselves, with the old one.
    SetPassword {
        /// Who.
        user: UserName,
        /// The password so far; administrators need none for others.
        old: Option<Password>,
        /// The new one.
        new: Password,
    },
    /// A page of the groups, by name: [`AccountsReply::Groups`].
    Groups {
        /// Only what comes after this name.
        after: Option<String>,
    },
    /// Add a group: [`AccountsReply::Done`].
    AddGroup(String),
    /// Remove a group; nobody is in it any more: [`AccountsReply::Done`].
    RemoveGroup(String),
    /// Take a user into a group, or out of it: [`AccountsReply::Done`].
    SetMember {
        /// The group.
        group: String,
        /// The user.
        user: UserName,
        /// Whether the user is in it from now on.
        member: bool,
    },
    /// Give a user a token: [`AccountsReply::Token`]. Everyone may for themselves, in a login session.
    AddToken {
        /// Who.
        user: UserName,
        /// A name by which people know it.
        name: String,
        /// How long it is good, in seconds; at most [`TOKEN_LIFE_SECONDS_MAX`].
        life_seconds: u64,
    },
    /// A user's tokens: [`AccountsReply::Tokens`]. Everyone may ask for their own.
    Tokens(UserName),
    /// Make a token worthless: [`AccountsReply::Done`]. Everyone may, of their own.
    RevokeToken {
        /// Whose.
        user: UserName,
        /// Its name.
        name: String,
    },
    /// A page of login sessions: [`AccountsReply::Sessions`]. Other users than administrators see their own.
    Sessions {
        /// Only what comes after this one.
        after: Option<CredentialId>,
    },
    /// End a login session: [`AccountsReply::Done`]. Everyone may end their own.
    RevokeSession(CredentialId),
    /// End all login sessions of a user: [`AccountsReply::Done`]. Everyone may end their own.
    RevokeSessionsOf(UserName),
}

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

/// Longest life of a token in seconds: a year and a day, so that what is forgotten ends by itself.
pub const TOKEN_LIFE_SECONDS_MAX: u64 = 366 * 24 * 3_600;
