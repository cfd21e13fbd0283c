//! The kinds of failure: what a command ends with, and what a caller may do about an error. A kind never says why;
//! a [`Reason`](crate::Reason) does.

/// The kind of a failure, as the other end may act on it. The command line's exit codes are these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It went wrong for a reason of its own (a disk error, a bug). Exit code 1.
    Failed,
    /// The request makes no sense as it stands. Exit code 2.
    Usage,
    /// There is no such thing. Exit code 3.
    NotFound,
    /// You may not, or not now (someone else holds the lease). Exit code 4.
    Refused,
    /// A needed role cannot be reached or has no room. Exit code 5.
    Unavailable,
    /// The bytes are not those that were written. Exit code 6.
    Corrupt,
    /// It exists already. Exit code 7.
    Exists,
}

impl Status {
    /// Its name, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::NotFound => "not-found",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Exists => "exists",
        }
    }

    /// The exit code in the contract of the command line.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Unavailable => 5,
            Self::Corrupt => 6,
            Self::Exists => 7,
        }
    }
}

/// What a caller may do about an error. Every crate's error enum answers with one of these from `class()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The same call may succeed here, a little later.
    RetryHere,
    /// The same call may succeed at another node or master.
    RetryElsewhere,
    /// The call is wrong or not allowed; repeating it does not help.
    Refuse,
    /// Stored or received bytes do not match their checksum.
    Corrupt,
    /// Our own fault.
    Bug,
}
