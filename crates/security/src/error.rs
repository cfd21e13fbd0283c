//! What can go wrong in the security server and while its accounts are changed. The messages for people who log in are
//! in [`rules`](crate::rules). Those must never tell a wrong name from a wrong secret.

use std::{io, path::PathBuf};

use daemon::group_commit::CommitError;
use protocol::{CredentialId, NodeId, Reason, Refusal, UserName, address_range::RangeError, status::ErrorClass};
use thiserror::Error;

/// Why the security server does not serve, or an account was not changed.
#[derive(Debug, Error)]
pub enum SecurityError {
    /// Settings, credentials or the ready line.
    #[error(transparent)]
    Daemon(#[from] daemon::DaemonError),
    /// The network or a certificate.
    #[error(transparent)]
    Net(#[from] net::NetError),
    /// The journal of accounts.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// A text is not a range of addresses.
    #[error(transparent)]
    AddressRange(#[from] RangeError),
    /// A file of the cloud's folder, or of a role's, could not be read or written.
    #[error("cannot {operation} {}: {source}", file.display())]
    File {
        /// What was tried: "read the authority's key", …
        operation: &'static str,
        /// Which file or folder.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A secret lies in a file that is not its owner's alone.
    #[error("{} holds a secret and its mode is {mode:o}; `chmod 600` it, so that others cannot read it", file.display())]
    SecretReadable {
        /// The file.
        file: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The accounts exist, but the authority that issued their certificates does not.
    #[error("{} is missing, and the certificates of this cloud depend on it; bring it back from a backup", file.display())]
    AuthorityLost {
        /// The file that should be there.
        file: PathBuf,
    },
    /// A row of the journal cannot be understood.
    #[error("the row `{key}` of the table {table} of the accounts cannot be read: {why}")]
    Row {
        /// Which table.
        table: &'static str,
        /// Which row.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// A node may not be called like a role.
    #[error("a node cannot be called `{0}`, that name belongs to a role; choose another")]
    ReservedName(NodeId),
    /// A group's name is not one.
    #[error("`{0}` cannot be a group: use 1 to 64 letters, digits, `-`, `_` and `.`")]
    Group(String),
    /// There is no such group.
    #[error("there is no group `{0}`; add it with `sector group add {0}`")]
    NoSuchGroup(String),
    /// There is such a group already.
    #[error("the group `{0}` exists already")]
    GroupExists(String),
    /// A user has no such token.
    #[error("`{0}` has no token `{1}`; `sector user token list {0}` shows them")]
    NoSuchToken(UserName, String),
    /// A user has such a token already.
    #[error("`{0}` has a token `{1}` already; revoke it first, or choose another name")]
    TokenExists(UserName, String),
    /// There is no such login session.
    #[error("there is no session {0}; it has ended, or was never")]
    NoSuchSession(CredentialId),
    /// A limit on the number of something is reached.
    #[error("there are {most} {what} already, and there may be no more; remove one first")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// Most.
        most: usize,
    },
    /// There is such a user already.
    #[error("the user `{0}` exists already; remove it first, or choose another name")]
    UserExists(UserName),
    /// There is no such user.
    #[error("there is no user `{0}`")]
    NoSuchUser(UserName),
    /// The last administrator may not be removed or disabled.
    #[error("`{0}` is the last administrator who can come in; make another user with a password one first")]
    LastAdmin(UserName),
    /// A password is too short or too long.
    #[error("a password must have {least} to {most} bytes")]
    PasswordLength {
        /// Fewest bytes.
        least: usize,
        /// Most bytes.
        most: usize,
    },
    /// A password could not be hashed.
    #[error("cannot hash the password: {0}")]
    Hash(String),
    /// Work handed to another thread was lost.
    #[error("the security server failed while it {0}; please report it with the log")]
    Panicked(&'static str),
}

impl From<CommitError<store::StoreError>> for SecurityError {
    fn from(error: CommitError<store::StoreError>) -> Self {
        match error {
            CommitError::Refused(source) => Self::Store(source),
            CommitError::Panicked => Self::Panicked("wrote its accounts"),
        }
    }
}

impl SecurityError {
    /// What a caller may do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Daemon(error) => error.class(),
            Self::Net(error) => error.class(),
            Self::Store(error) => error.class(),
            Self::Row { .. } => ErrorClass::Corrupt,
            Self::Panicked(_) => ErrorClass::Bug,
            _ => ErrorClass::Refuse,
        }
    }

    /// Whether a disk is full: it is over once somebody has made room.
    pub fn is_full(&self) -> bool {
        match self {
            Self::File { source, .. } => store::is_full(source),
            Self::Store(error) => error.is_full(),
            _ => false,
        }
    }

    /// Whether a security server runs on the accounts: then that server must be asked.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Store(store::StoreError::JournalLocked { .. }))
    }

    /// The error as one sentence with its exit code.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::Daemon(error) => return error.refusal(),
            Self::Net(error) => return error.refusal(),
            Self::Store(error) => return error.refusal(),
            Self::Row { .. } => Reason::Corrupt,
            Self::AuthorityLost { .. }
            | Self::NoSuchUser(_)
            | Self::NoSuchGroup(_)
            | Self::NoSuchToken(..)
            | Self::NoSuchSession(_) => Reason::NotFound,
            Self::UserExists(_) | Self::GroupExists(_) | Self::TokenExists(..) => Reason::Exists,
            Self::TooMany { .. } => Reason::LimitReached,
            Self::LastAdmin(_) | Self::SecretReadable { .. } => Reason::NotPermitted,
            Self::AddressRange(_) | Self::ReservedName(_) | Self::Group(_) | Self::PasswordLength { .. } => {
                Reason::Invalid
            }
            Self::File { .. } | Self::Hash(_) | Self::Panicked(_) => Reason::Failed,
        };
        Refusal::new(reason, self.to_string())
    }
}
