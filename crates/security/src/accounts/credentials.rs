//! The credentials that prove a user repeatedly: named tokens, and login sessions that people begin with a password.
//! They serve every login and its end. Only digests are kept, never the secrets.

use std::net::IpAddr;

use protocol::{CredentialId, Now, UserName};
use serde::{Deserialize, Serialize};

use crate::accounts::password_hash::TokenHash;

/// A token that its user keeps in a profile or gives to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The id by which sessions with masters know it.
    pub id: CredentialId,
    /// A name by which people know it.
    pub name: String,
    /// Its digest.
    pub hash: TokenHash,
    /// When it was made; all times in milliseconds since the Unix epoch.
    pub made_unix_millis: u64,
    /// Until when it is good; `None`: until it is revoked.
    pub until_unix_millis: Option<u64>,
    /// When it was last used, to within [`USED_STEP_MILLIS`]; 0: never.
    pub used_unix_millis: u64,
}

/// A login session: begun with a password, on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginSession {
    /// Its user.
    pub user: UserName,
    /// The digest of its token.
    pub hash: TokenHash,
    /// What the user calls the machine.
    pub machine: String,
    /// From where the user logged in.
    pub address: IpAddr,
    /// When it began; all times in milliseconds since the Unix epoch.
    pub began_unix_millis: u64,
    /// When it ends unless it is used before.
    pub until_unix_millis: u64,
    /// When it was last used, to within [`USED_STEP_MILLIS`].
    pub used_unix_millis: u64,
}

impl Token {
    /// Whether it is still good.
    pub fn is_good(&self, now: Now) -> bool {
        self.until_unix_millis.is_none_or(|until| now.unix_millis < until)
    }

    /// The token as used now; `None` if that is recorded already.
    pub fn used(&self, now: Now) -> Option<Self> {
        let is_noted = now.unix_millis < self.used_unix_millis.saturating_add(USED_STEP_MILLIS);
        (!is_noted).then(|| Self { used_unix_millis: now.unix_millis, ..self.clone() })
    }
}

impl LoginSession {
    /// Whether it is still good.
    pub fn is_good(&self, now: Now) -> bool {
        now.unix_millis < self.until_unix_millis
    }

    /// The session as used now, and so renewed, if it may be; `None` if that is recorded already.
    pub fn used(&self, now: Now, may_be_renewed: bool) -> Option<Self> {
        if now.unix_millis < self.used_unix_millis.saturating_add(USED_STEP_MILLIS) {
            return None;
        }
        if !may_be_renewed {
            return Some(Self { used_unix_millis: now.unix_millis, ..self.clone() });
        }
        let most = self.began_unix_millis.saturating_add(SESSION_LIFE_MILLIS_MAX);
        let until_unix_millis = now.unix_millis.saturating_add(SESSION_LIFE_MILLIS).min(most);
        Some(Self { used_unix_millis: now.unix_millis, until_unix_millis, ..self.clone() })
    }
}

/// Life of a login session that is not used. It spans a working day with its evening, so that nobody logs in twice a
/// day. A laptop that is found the next morning opens nothing.
pub const SESSION_LIFE_MILLIS: u64 = 12 * 3_600 * 1_000;
/// Longest life of a login session, however much it is used: a week, after which the password is asked for again.
pub const SESSION_LIFE_MILLIS_MAX: u64 = 7 * 24 * 3_600 * 1_000;
/// How exactly the time of last use is kept: a row for each use would cost a disk sync for each command.
pub const USED_STEP_MILLIS: u64 = 10 * 60 * 1_000;
/// Most tokens of one user: a profile on each of a person's machines.
pub const TOKENS_MAX: usize = 16;
/// Most login sessions of one user; the one unused for longest ends for a new one.
pub const SESSIONS_OF_USER_MAX: usize = 32;
