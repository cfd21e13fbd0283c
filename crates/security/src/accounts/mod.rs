//! The accounts: users and [`machines`] as rows of a journal, and all of them in memory
//! (Sector/Sphere paper, 2.1). A row is read once, when it is loaded. A row that cannot be read stops the server, so
//! that nobody is let in or refused by mistake. This file makes changes of rows, but it never writes them to the
//! journal.

pub mod access_key_secrets;
pub mod changes;
pub mod credentials;
pub mod failed_logins;
pub mod machines;
pub mod password_hash;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use protocol::{CredentialId, MachineKind, NodeId, UserName, message::audit::AuditHead};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use store::{Journal, RowChange};

use crate::{
    AddressRange, SecurityError,
    accounts::{
        credentials::{LoginSession, Token},
        machines::{APPROVALS, MACHINES, Machines, TICKETS},
        password_hash::{PasswordHash, TokenHash},
    },
};

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The hash of the password, if the user has one.
    pub password: Option<PasswordHash>,
    /// The user's tokens, oldest first.
    pub tokens: Vec<Token>,
    /// The groups the user belongs to.
    pub groups: Vec<String>,
    /// Whether the user administers the cloud.
    pub admin: bool,
    /// From where the user may log in; empty: from anywhere.
    pub addresses: Vec<AddressRange>,
    /// A program, not a person: it has no password.
    pub service: bool,
    /// Whether the user may not log in for now.
    pub disabled: bool,
}

/// A user's row as the first version wrote it.
#[derive(Deserialize)]
struct UserVersion1 {
    password: Option<PasswordHash>,
    tokens: Vec<TokenHash>,
    groups: Vec<String>,
    admin: bool,
    addresses: Vec<AddressRange>,
}

impl From<UserVersion1> for User {
    fn from(old: UserVersion1) -> Self {
        // The ids are derived from the digests, which are random enough, so that they are the same at every start.
        let token = |(number, hash): (usize, TokenHash)| Token {
            id: hash.derived_id(),
            name: format!("token-{}", number + 1),
            hash,
            made_unix_millis: 0,
            until_unix_millis: None,
            used_unix_millis: 0,
        };
        let tokens = old.tokens.into_iter().enumerate().map(token).collect();
        let UserVersion1 { password, groups, admin, addresses, .. } = old;
        Self { password, tokens, groups, admin, addresses, service: false, disabled: false }
    }
}

/// The owner of a user's account, if that is not this server itself: only this provider can prove the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The provider, by its name in the settings.
    pub provider: String,
    /// An identifier that the provider never gives to another user, if it has one: names are reused.
    pub subject: Option<String>,
    /// Whether the provider, when last asked, no longer knew such a user, or did not let the user log in.
    pub is_disowned: bool,
}

/// All users and machines.
///
/// See the paper, 2.1: "the security server maintains user accounts, user passwords, [...] lists of IP addresses of the
/// authorized slave nodes".
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    users: BTreeMap<UserName, User>,
    origins: BTreeMap<UserName, Origin>,
    machines: Machines,
    groups: BTreeSet<String>,
    sessions: BTreeMap<CredentialId, LoginSession>,
}

impl Accounts {
    /// Reads all rows of a journal.
    pub fn load(journal: &Journal) -> Result<Self, SecurityError> {
        let mut accounts = Self::default();
        for table in [USERS, ORIGINS, MACHINES, TICKETS, APPROVALS, GROUPS, SESSIONS] {
            let mut outcome = Ok(());
            journal.load(table, &mut |key, value| {
                if outcome.is_ok() {
                    outcome = accounts.apply_row(table, key, Some(value));
                }
            })?;
            outcome?;
        }
        Ok(accounts)
    }

    /// A user.
    pub fn user(&self, name: &UserName) -> Option<&User> {
        self.users.get(name)
    }

    /// The provider a user's account belongs to; `None`: this server's own.
    pub fn origin(&self, name: &UserName) -> Option<&Origin> {
        self.origins.get(name)
    }

    /// The users that belong to providers, by name.
    pub fn origins(&self) -> impl Iterator<Item = (&UserName, &Origin)> {
        self.origins.iter()
    }

    /// All users, by name.
    pub fn users(&self) -> impl Iterator<Item = (&UserName, &User)> {
        self.users.iter()
    }

    /// The users that come after this name, by name; all users if no name is given.
    pub fn users_after(&self, after: Option<&UserName>) -> impl Iterator<Item = (&UserName, &User)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.users.range::<UserName, _>((from, Bound::Unbounded))
    }

    /// All groups, by name, including those without members.
    pub fn groups(&self) -> &BTreeSet<String> {
        &self.groups
    }

    /// All login sessions, by id, including those that have expired since.
    pub fn sessions(&self) -> &BTreeMap<CredentialId, LoginSession> {
        &self.sessions
    }

    /// The login sessions of one user.
    pub fn sessions_of<'a>(&'a self, user: &'a UserName) -> impl Iterator<Item = (CredentialId, &'a LoginSession)> {
        self.sessions.iter().filter(move |(_, session)| session.user == *user).map(|(id, session)| (*id, session))
    }

    /// All machines, with the tickets and approvals of those that are yet to join.
    pub fn machines(&self) -> &Machines {
        &self.machines
    }

    /// Applies a change that the journal has.
    pub fn apply(&mut self, change: &RowChange) -> Result<(), SecurityError> {
        match change {
            RowChange::Set { table, key, value } => self.apply_row(table, key, Some(value)),
            RowChange::Remove { table, key } => self.apply_row(table, key, None),
        }
    }

    fn apply_row(&mut self, table: &'static str, key: &[u8], value: Option<&[u8]>) -> Result<(), SecurityError> {
        let wrong = |why: &str| SecurityError::Row {
            table,
            key: String::from_utf8_lossy(key).chars().take(64).collect(),
            why: why.into(),
        };
        let name = std::str::from_utf8(key).map_err(|_| wrong("its key is not text"))?;
        match table {
            USERS => {
                let name = UserName::new(name).map_err(|error| wrong(&error.to_string()))?;
                match value {
                    Some(value) => drop(self.users.insert(name, decode_user(value).map_err(wrong)?)),
                    None => drop(self.users.remove(&name)),
                }
            }
            ORIGINS => {
                let name = UserName::new(name).map_err(|error| wrong(&error.to_string()))?;
                match value {
                    Some(value) => drop(self.origins.insert(name, decode(value).map_err(wrong)?)),
                    None => drop(self.origins.remove(&name)),
                }
            }
            MACHINES | TICKETS | APPROVALS => self.machines.apply_row(table, name, value)?,
            GROUPS => {
                check_group(name)?;
                match value {
                    Some(_) => drop(self.groups.insert(name.into())),
                    None => drop(self.groups.remove(name)),
                }
            }
            SESSIONS => {
                let id: CredentialId = name.parse().map_err(|_| wrong("its key is no id"))?;
                match value {
                    Some(value) => drop(self.sessions.insert(id, decode(value).map_err(wrong)?)),
                    None => drop(self.sessions.remove(&id)),
                }
            }
            _ => return Err(wrong("no such table is known")),
        }
        Ok(())
    }
}

/// The change that sets a user's row.
pub fn set_user(name: &UserName, user: &User) -> Result<RowChange, SecurityError> {
    row_change_as(USER_ROW_VERSION, USERS, name.as_str(), user)
}

/// The change that removes a user's row.
pub fn remove_user(name: &UserName) -> RowChange {
    RowChange::Remove { table: USERS, key: name.as_str().into() }
}

/// The change that says to which provider a user belongs.
pub fn set_origin(name: &UserName, origin: &Origin) -> Result<RowChange, SecurityError> {
    row_change(ORIGINS, name.as_str(), origin)
}

/// The change after which a user belongs to no provider.
pub fn remove_origin(name: &UserName) -> RowChange {
    RowChange::Remove { table: ORIGINS, key: name.as_str().into() }
}

/// The change that adds a group.
pub fn set_group(group: &str) -> Result<RowChange, SecurityError> {
    row_change(GROUPS, group, &())
}

/// The change that removes a group.
pub fn remove_group(group: &str) -> RowChange {
    RowChange::Remove { table: GROUPS, key: group.into() }
}

/// The change that sets a login session's row.
pub fn set_session(id: CredentialId, session: &LoginSession) -> Result<RowChange, SecurityError> {
    row_change(SESSIONS, &id.to_string(), session)
}

/// The change that ends a login session.
pub fn remove_session(id: CredentialId) -> RowChange {
    RowChange::Remove { table: SESSIONS, key: id.to_string().into() }
}

/// The change that stores how the audit record ends.
pub fn set_audit_head(head: AuditHead) -> RowChange {
    let value = [&head.number.to_be_bytes()[..], &head.hash].concat();
    RowChange::Set { table: AUDIT, key: AUDIT_HEAD.into(), value }
}

/// How the audit record ended when that was last stored.
pub fn audit_head(journal: &Journal) -> Result<Option<AuditHead>, SecurityError> {
    let mut head = None;
    journal.load(AUDIT, &mut |_, value| {
        let number = value.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let hash = value.get(8..).and_then(|bytes| bytes.try_into().ok());
        head = number.zip(hash).map(|(number, hash)| AuditHead { number, hash });
    })?;
    Ok(head)
}

/// The change that sets a row.
pub(crate) fn row_change<T: Serialize>(table: &'static str, key: &str, row: &T) -> Result<RowChange, SecurityError> {
    row_change_as(ROW_VERSION, table, key, row)
}

fn row_change_as<T: Serialize>(
    version: u8,
    table: &'static str,
    key: &str,
    row: &T,
) -> Result<RowChange, SecurityError> {
    let value = postcard::to_extend(row, vec![version]).map_err(|error| SecurityError::Row {
        table,
        key: key.into(),
        why: error.to_string(),
    })?;
    Ok(RowChange::Set { table, key: key.into(), value })
}

/// A row is one version byte, then the struct in postcard's encoding.
pub(crate) fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T, &'static str> {
    decode_as(ROW_VERSION, value)
}

fn decode_user(value: &[u8]) -> Result<User, &'static str> {
    match value.first() {
        Some(&ROW_VERSION) => decode_as::<UserVersion1>(ROW_VERSION, value).map(User::from),
        _ => decode_as(USER_ROW_VERSION, value),
    }
}

fn decode_as<T: DeserializeOwned>(version: u8, value: &[u8]) -> Result<T, &'static str> {
    match value.split_first() {
        Some((found, row)) if *found == version => match postcard::take_from_bytes(row) {
            Ok((row, [])) => Ok(row),
            Ok(_) => Err("it has bytes too many"),
            Err(_) => Err("it is malformed"),
        },
        Some(_) => Err("it was written by a newer version; use that one"),
        None => Err("it is empty"),
    }
}

/// The kind of machine that a name is reserved for, if any.
pub fn reserved_kind(id: &NodeId) -> Option<MachineKind> {
    match id.as_str() {
        MASTER => Some(MachineKind::Master),
        SECURITY => Some(MachineKind::Security),
        _ => None,
    }
}

/// Refuses what cannot be a group's name, which follows the rules of a user's.
pub fn check_group(group: &str) -> Result<(), SecurityError> {
    match UserName::new(group) {
        Ok(_) => Ok(()),
        Err(_) => Err(SecurityError::Group(group.chars().take(64).collect())),
    }
}

/// The name of the first master, which no node may have.
pub const MASTER: &str = "master";
/// The reserved name under which the security server's own certificate is registered.
pub const SECURITY: &str = "security";
/// Table of one row: how the audit record ends.
const AUDIT: &str = "audit";
/// Its key.
const AUDIT_HEAD: &str = "head";
/// Table of users.
const USERS: &str = "users";
/// Table of the providers that users belong to.
const ORIGINS: &str = "origins";
/// Table of groups.
const GROUPS: &str = "groups";
/// Table of login sessions.
pub(crate) const SESSIONS: &str = "sessions";
/// Version of the rows that this build writes and reads, except users.
const ROW_VERSION: u8 = 1;
/// Version of users' rows that this build writes; it reads the one before too.
const USER_ROW_VERSION: u8 = 2;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn token() -> Token {
        let hash = TokenHash::new(&[7; 32]);
        let (name, id) = ("token-1".into(), hash.derived_id());
        Token { id, name, hash, made_unix_millis: 0, until_unix_millis: None, used_unix_millis: 0 }
    }

    fn alice() -> (UserName, User) {
        let user = User {
            tokens: vec![token()],
            groups: vec!["astro".into()],
            admin: true,
            addresses: vec!["10.0.0.0/8".parse().unwrap()],
            ..User::default()
        };
        (UserName::new("alice").unwrap(), user)
    }

    #[test]
    fn a_user_is_the_same_after_its_row_and_gone_after_its_removal() {
        let (name, user) = alice();
        let mut accounts = Accounts::default();
        accounts.apply(&set_user(&name, &user).unwrap()).unwrap();
        assert_eq!(accounts.user(&name), Some(&user));
        accounts.apply(&remove_user(&name)).unwrap();
        assert_eq!(accounts.user(&name), None);
    }

    #[test]
    fn a_user_that_the_first_version_wrote_keeps_its_tokens() {
        let (name, user) = alice();
        let old = (None::<PasswordHash>, vec![TokenHash::new(&[7; 32])], &user.groups, user.admin, &user.addresses);
        let value = postcard::to_extend(&old, vec![1]).unwrap();
        let mut accounts = Accounts::default();
        accounts.apply(&RowChange::Set { table: USERS, key: name.as_str().into(), value }).unwrap();
        assert_eq!(accounts.user(&name), Some(&user));
    }

    #[test]
    fn the_names_of_roles_are_kept_for_them() {
        let kinds = [MASTER, SECURITY, "node-1"].map(|name| reserved_kind(&NodeId::new(name).unwrap()));
        assert_eq!(kinds, [Some(MachineKind::Master), Some(MachineKind::Security), None]);
    }

    #[test]
    fn a_row_that_cannot_be_read_is_an_error_that_names_it() {
        let (name, user) = alice();
        let RowChange::Set { table, key, value } = set_user(&name, &user).unwrap() else { panic!("a set") };
        let longer: Vec<u8> = value.iter().copied().chain([0]).collect();
        let newer: Vec<u8> = [3].into_iter().chain(value[1..].iter().copied()).collect();
        for broken in [&value[..value.len() - 1], &longer, &newer, &[]] {
            let change = RowChange::Set { table, key: key.clone(), value: broken.to_vec() };
            let error = Accounts::default().apply(&change).unwrap_err();
            assert!(error.to_string().contains("`alice` of the table users"), "{error}");
        }
        let nameless = RowChange::Set { table, key: b"../x".to_vec(), value };
        assert!(Accounts::default().apply(&nameless).is_err());
    }

    #[test]
    fn what_a_journal_holds_is_there_after_it_was_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("accounts.redb");
        let (name, user) = alice();
        let journal = Journal::open(&file).unwrap();
        journal.commit(&[set_user(&name, &user).unwrap()]).unwrap();
        drop(journal);
        let accounts = Accounts::load(&Journal::open(&file).unwrap()).unwrap();
        assert_eq!(accounts.users().collect::<Vec<_>>(), [(&name, &user)]);
    }
}
