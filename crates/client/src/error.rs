//! What can go wrong in a client call. Each variant names the operation and the object. It never retries anything:
//! callers do.

use std::{io, path::PathBuf, time::Duration};

use net::NetError;
use protocol::{Reason, Refusal, SectorPath, Status, ids::IdError, path::PathError, status::ErrorClass};
use thiserror::Error;

/// An error of a client call.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The master or a node refused.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// A node or the master could not be reached, or the connection failed.
    #[error("{what}: {source}")]
    Net {
        /// What was being done.
        what: String,
        /// The network's error.
        source: NetError,
    },
    /// A local file could not be read or written.
    #[error("cannot {what} `{}`: {source}", file.display())]
    File {
        /// What was being done to it.
        what: &'static str,
        /// The local file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The source or the destination of bytes failed.
    #[error("cannot {what}: {source}")]
    Stream {
        /// What was being done.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The profile cannot be used.
    #[error("the profile `{}` {why}", file.display())]
    Profile {
        /// The profile's file.
        file: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
        /// Whether it is missing or wrong.
        reason: Reason,
    },
    /// An invalid path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// An invalid name.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A file has no copy that can be read now.
    #[error("no copy of `{path}` can be read now: {last}; {}", advice_for_lost(path))]
    NoCopy {
        /// The file.
        path: SectorPath,
        /// Why the last source that was tried failed.
        last: String,
    },
    /// Bytes arrived that differ from those that were written.
    #[error("`{path}` does not have the digest it should have; nothing was kept of it")]
    Corrupt {
        /// The file.
        path: SectorPath,
    },
    /// A folder is where a file is needed.
    #[error("`{path}` is a folder, not a file")]
    IsFolder {
        /// The folder.
        path: SectorPath,
    },
    /// A local folder is where a file is needed.
    #[error("`{}` is a folder, not a file", folder.display())]
    IsLocalFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// A glob or another argument makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The other end answered with a message that does not fit the request: the versions differ.
    #[error("the {who} answered `{request}` with something else; is it of the same version as this client?")]
    Unexpected {
        /// The sender of the answer.
        who: &'static str,
        /// The request.
        request: &'static str,
    },
    /// An error in one of two clouds.
    #[error("in the cloud `{cloud}`: {error}")]
    InCloud {
        /// The name of its profile, or the address of its master.
        cloud: String,
        /// What happened there.
        error: Box<Self>,
    },
}

/// Advice for a file without a copy.
pub(crate) fn advice_for_lost(path: &SectorPath) -> String {
    if path.is_in_memory() {
        "it was kept in memory, which ends with its node: run the job again that made it".into()
    } else {
        format!("see `sector stat {path}`")
    }
}

impl ClientError {
    /// Why, for programs: each door maps it once.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Refused(refusal) => refusal.reason,
            Self::Net { source, .. } => source.refusal().reason,
            Self::File { source, .. } | Self::Stream { source, .. } => reason_of(source),
            Self::Profile { reason, .. } => *reason,
            Self::Path(_) | Self::Id(_) | Self::Usage(_) => Reason::Invalid,
            Self::IsFolder { .. } | Self::IsLocalFolder { .. } => Reason::IsFolder,
            Self::NoCopy { .. } => Reason::NoCopy,
            Self::Corrupt { .. } => Reason::Corrupt,
            Self::Unexpected { .. } => Reason::Failed,
            Self::InCloud { error, .. } => error.reason(),
        }
    }

    /// Whether a disk of this machine, or one's quota on it, has no room left.
    pub(crate) fn is_full_disk_here(&self) -> bool {
        matches!(self, Self::File { source, .. } | Self::Stream { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// The kind of failure: the exit code of a command.
    pub fn status(&self) -> Status {
        self.reason().status()
    }

    /// What the caller may do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Net { source, .. } => source.class(),
            Self::Refused(refusal) if refusal.retry_after().is_some() => ErrorClass::RetryHere,
            Self::Refused(refusal) if refusal.status() == Status::Unavailable => ErrorClass::RetryElsewhere,
            Self::NoCopy { .. } => ErrorClass::RetryHere,
            Self::Corrupt { .. } => ErrorClass::Corrupt,
            Self::Unexpected { .. } => ErrorClass::Bug,
            Self::InCloud { error, .. } => error.class(),
            _ => ErrorClass::Refuse,
        }
    }

    /// How long to wait before sending the master the same request again, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after(),
            Self::InCloud { error, .. } => error.retry_after(),
            _ => None,
        }
    }

    /// What happened, whichever cloud it happened in.
    pub fn cause(&self) -> &Self {
        match self {
            Self::InCloud { error, .. } => error.cause(),
            error => error,
        }
    }

    /// Wraps a network error with what was being done.
    pub(crate) fn net(what: impl Into<String>) -> impl FnOnce(NetError) -> Self {
        let what = what.into();
        move |source| Self::Net { what, source }
    }

    /// Wraps a local file's error with what was being done to it.
    pub(crate) fn file(what: &'static str, file: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |source| Self::File { what, file, source }
    }
}

/// Why a local file or stream could not be used.
pub fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::NotFound => Reason::NotFound,
        io::ErrorKind::PermissionDenied => Reason::NoRight,
        io::ErrorKind::AlreadyExists => Reason::Exists,
        // A full disk of one's own is no lack of room in the cloud: another node would not help.
        _ => Reason::Failed,
    }
}
