//! Why a request is refused: a closed list of reasons that a program can act on, and a sentence for a person. Each
//! door maps a reason once: to an exit code, to an `errno`, later to an HTTP status. A reason never needs a second
//! request to be understood.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Status, Version};

/// Why a request is refused (`docs/decisions/0033-reasons.md`). The order is the wire format: new ones go last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// It went wrong for a reason of its own: a disk error, or a bug.
    Failed,
    /// The request makes no sense as it stands.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// This user may not do it; another one may.
    NoRight,
    /// A node or server that is needed cannot be reached now.
    Unavailable,
    /// The bytes are not those that were written.
    Corrupt,
    /// It exists already.
    Exists,
    /// A folder is where a file is needed.
    IsFolder,
    /// A file is where a folder is needed.
    NotFolder,
    /// The folder holds something.
    NotEmpty,
    /// Someone else is writing the file.
    LeaseHeld {
        /// For how long, in seconds, unless the writer renews its lease.
        seconds: u32,
    },
    /// The right to write the file has ended, or went to another attempt.
    LeaseEnded,
    /// The file has another version than the one that was meant.
    VersionChanged {
        /// The version that it has now, where that is known.
        current: Option<Version>,
    },
    /// A quota has no room for it.
    QuotaExceeded,
    /// No disk that may take it has room for it.
    NoSpace,
    /// There are as many of these as there may be: something must go first.
    LimitReached,
    /// As much is under way already as can be done at once: a little later there will be a place.
    Busy,
    /// The user has a share of something already that others want too. Nothing was done.
    TooManyRequests {
        /// When to try again, in seconds: before that the answer will hardly be another one.
        seconds: u32,
    },
    /// Too many logins failed.
    LockedOut {
        /// For how long no login is checked, in seconds.
        seconds: u32,
    },
    /// The password, token, certificate or session is not valid, or not valid any more.
    NotAuthenticated,
    /// Nobody may do it, whoever asks: the root folder stays, and a folder is not moved into itself.
    NotPermitted,
    /// It is in use: stop, empty or replace it first.
    InUse,
    /// The job has ended, or another driver has it.
    JobEnded,
    /// The names are being put together, and nothing can be changed yet.
    Rebuilding,
    /// No copy of the file can be read now.
    NoCopy,
}

impl Reason {
    /// The kind of failure, by which commands end.
    pub fn status(self) -> Status {
        match self {
            Self::Failed => Status::Failed,
            Self::Invalid => Status::Usage,
            Self::NotFound => Status::NotFound,
            Self::NoRight
            | Self::NotEmpty
            | Self::LeaseHeld { .. }
            | Self::LeaseEnded
            | Self::VersionChanged { .. }
            | Self::QuotaExceeded
            | Self::LimitReached
            | Self::LockedOut { .. }
            | Self::NotAuthenticated
            | Self::NotPermitted
            | Self::InUse
            | Self::JobEnded => Status::Refused,
            Self::Unavailable
            | Self::NoSpace
            | Self::Busy
            | Self::TooManyRequests { .. }
            | Self::Rebuilding
            | Self::NoCopy => Status::Unavailable,
            Self::Corrupt => Status::Corrupt,
            Self::Exists | Self::IsFolder | Self::NotFolder => Status::Exists,
        }
    }

    /// Its name in JSON. It never changes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::NoRight => "no_right",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Exists => "exists",
            Self::IsFolder => "is_folder",
            Self::NotFolder => "not_folder",
            Self::NotEmpty => "not_empty",
            Self::LeaseHeld { .. } => "lease_held",
            Self::LeaseEnded => "lease_ended",
            Self::VersionChanged { .. } => "version_changed",
            Self::QuotaExceeded => "quota_exceeded",
            Self::NoSpace => "no_space",
            Self::LimitReached => "limit_reached",
            Self::Busy => "busy",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::LockedOut { .. } => "locked_out",
            Self::NotAuthenticated => "not_authenticated",
            Self::NotPermitted => "not_permitted",
            Self::InUse => "in_use",
            Self::JobEnded => "job_ended",
            Self::Rebuilding => "rebuilding",
            Self::NoCopy => "no_copy",
        }
    }
}

/// A refusal that travels: why, and one sentence for a person that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Why, for programs.
    pub reason: Reason,
    /// One sentence, without a full stop, that names the operation and the thing.
    pub message: String,
}

impl Refusal {
    /// A refusal for `reason` with its sentence.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// A refusal of more than a user's share for so many seconds. The sentence says for how long.
    pub fn throttled(message: impl fmt::Display, seconds: u32) -> Self {
        Self::new(Reason::TooManyRequests { seconds }, format!("{message}; try again in {seconds} s"))
    }

    /// The kind of failure.
    pub fn status(&self) -> Status {
        self.reason.status()
    }

    /// How long a program waits before it repeats the request by itself: only where the user's share is in the way. A
    /// lease may be renewed, and a lockout is for a person to wait for; their seconds are only told.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.reason {
            Reason::TooManyRequests { seconds } => Some(Duration::from_secs(seconds.into())),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl std::error::Error for Refusal {}
