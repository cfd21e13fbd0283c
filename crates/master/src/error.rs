//! How the master fails as a whole. A single request that fails is answered with a [`Refusal`](protocol::Refusal),
//! which is never an error here.

use std::net::SocketAddr;

use daemon::group_commit::CommitError;
use protocol::{FileId, Reason, Refusal, status::ErrorClass};
use thiserror::Error;

/// Why the master could not start, or stopped.
#[derive(Debug, Error)]
pub enum MasterError {
    /// A row of the journal is damaged, or was written by a newer version.
    #[error("the row {key} of the table `{table}` in the master's journal cannot be read; restore the journal")]
    Row {
        /// The table.
        table: &'static str,
        /// The key in hexadecimal.
        key: String,
    },
    /// The journal's rows contradict each other.
    #[error("the master's journal is damaged at file {file}: {why}; restore the journal")]
    Names {
        /// Where.
        file: FileId,
        /// What is wrong.
        why: &'static str,
    },
    /// The journal could not be opened, read or written.
    #[error("cannot {operation} the master's journal: {source}")]
    Journal {
        /// `open`, `read` or `write`.
        operation: &'static str,
        /// Why.
        source: store::StoreError,
    },
    /// The master's folder or a file in it is missing.
    #[error("cannot {operation} `{path}`: {source}")]
    Folder {
        /// `make`.
        operation: &'static str,
        /// The path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Settings, certificate files or the ready line could not be used.
    #[error(transparent)]
    Daemon(#[from] daemon::DaemonError),
    /// The certificates cannot be used.
    #[error("the master's certificate cannot be used: {0}")]
    Identity(net::NetError),
    /// The port could not be opened.
    #[error("the master cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: net::NetError,
    },
    /// A part of the master ended unexpectedly.
    #[error("the master's {0} ended; this is a bug")]
    Ended(&'static str),
}

impl From<CommitError<store::StoreError>> for MasterError {
    fn from(error: CommitError<store::StoreError>) -> Self {
        match error {
            CommitError::Refused(source) => Self::Journal { operation: "write", source },
            CommitError::Panicked => Self::Ended("journal"),
        }
    }
}

impl MasterError {
    /// What a caller may do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Row { .. } | Self::Names { .. } => ErrorClass::Corrupt,
            Self::Journal { source, .. } => source.class(),
            Self::Folder { .. } => ErrorClass::Refuse,
            Self::Daemon(source) => source.class(),
            Self::Identity(source) | Self::Listen { source, .. } => source.class(),
            Self::Ended(_) => ErrorClass::Bug,
        }
    }

    /// The error as it is reported to others.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::Daemon(source) => return source.refusal(),
            Self::Row { .. } | Self::Names { .. } => Reason::Corrupt,
            Self::Journal { source, .. } => source.refusal().reason,
            Self::Identity(source) | Self::Listen { source, .. } => source.refusal().reason,
            Self::Folder { .. } | Self::Ended(_) => Reason::Failed,
        };
        Refusal::new(reason, self.to_string())
    }
}
