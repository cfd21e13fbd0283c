//! Converts errors to Python's own: `FileNotFoundError` and its like, each with the cloud's message. Serves every
//! call. The cloud is never asked what an error meant: its reason says it.

use client::{ClientError, Reason, Refusal};
use pyo3::{
    PyErr, Python, create_exception,
    exceptions::{
        PyConnectionError, PyException, PyFileExistsError, PyFileNotFoundError, PyIsADirectoryError,
        PyNotADirectoryError, PyOSError, PyPermissionError, PyValueError,
    },
    prelude::PyAnyMethods,
};

create_exception!(
    sector,
    BusyError,
    PyOSError,
    "Another writer has the file, or what should go is in use. The same call may succeed later."
);
create_exception!(
    sector,
    UnavailableError,
    PyConnectionError,
    "Who is needed (master, node, a good copy) cannot be reached or has no room. The same call may succeed later."
);
create_exception!(
    sector,
    CorruptError,
    PyOSError,
    "Bytes arrived that are not those that were written. None were given out."
);
create_exception!(
    sector,
    JobError,
    PyException,
    "A job failed: a function did, or it was cancelled. It left no output. `job_id` is its id, `errors` are the first few \
     errors of functions."
);

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// As the client says it.
    Client(ClientError),
    /// Some of several files failed: the error of the first, and what became of the others.
    Several {
        /// Why the first failed.
        first: ClientError,
        /// The others, a line each.
        others: Vec<String>,
    },
    /// A message of one's own did not go.
    Message(Refusal),
    /// What was opened can no longer be used, and why.
    Closed(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<gmp::NetError> for Failure {
    fn from(error: gmp::NetError) -> Self {
        Self::Message(error.refusal())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Client(error) => error_of(error.reason(), message_of(&error)),
            Failure::Several { first, others } => with_notes(error_of(first.reason(), message_of(&first)), &others),
            Failure::Message(refusal) => error_of(refusal.reason, refusal.message),
            Failure::Closed(message) => PyValueError::new_err(message),
        }
    }
}

/// The message, with what a caller in Python can do.
fn message_of(error: &ClientError) -> String {
    match error.cause() {
        ClientError::IsFolder { path } => format!("`{path}` is a folder; `get` takes it with recursive=True"),
        ClientError::IsLocalFolder { folder } => {
            format!("`{}` is a folder; `put` takes it with recursive=True", folder.display())
        }
        _ => error.to_string(),
    }
}

/// The error with the first of these lines as its notes, as a traceback shows them.
fn with_notes(error: PyErr, lines: &[String]) -> PyErr {
    Python::attach(|py| {
        let more = lines.len().saturating_sub(NOTES_MAX);
        let rest = (more > 0).then(|| format!("and {more} more failed"));
        for line in lines.iter().take(NOTES_MAX).chain(&rest) {
            // An error without notes is an error all the same.
            let _ = error.value(py).call_method1("add_note", (line,));
        }
    });
    error
}

/// Python's error for a reason, with its number.
fn error_of(reason: Reason, message: String) -> PyErr {
    match reason {
        Reason::NotFound => PyFileNotFoundError::new_err((ENOENT, message)),
        Reason::Exists => PyFileExistsError::new_err((EEXIST, message)),
        Reason::IsFolder => PyIsADirectoryError::new_err((EISDIR, message)),
        Reason::NotFolder => PyNotADirectoryError::new_err((ENOTDIR, message)),
        Reason::NotEmpty => PyOSError::new_err((ENOTEMPTY, message)),
        Reason::NoRight | Reason::NotAuthenticated | Reason::LockedOut { .. } => {
            PyPermissionError::new_err((EACCES, message))
        }
        Reason::NotPermitted | Reason::LimitReached | Reason::JobEnded => PyPermissionError::new_err((EPERM, message)),
        Reason::LeaseHeld { .. } | Reason::InUse => BusyError::new_err((EBUSY, message)),
        Reason::VersionChanged { .. } | Reason::LeaseEnded => PyOSError::new_err((ESTALE, message)),
        Reason::QuotaExceeded => PyOSError::new_err((EDQUOT, message)),
        Reason::NoSpace => UnavailableError::new_err((ENOSPC, message)),
        Reason::Busy | Reason::TooManyRequests { .. } | Reason::Rebuilding => {
            UnavailableError::new_err((EAGAIN, message))
        }
        Reason::Unavailable | Reason::NoCopy => UnavailableError::new_err((EHOSTUNREACH, message)),
        Reason::Corrupt => CorruptError::new_err((EBADMSG, message)),
        Reason::Invalid => PyValueError::new_err(message),
        Reason::Failed => PyOSError::new_err((EIO, message)),
    }
}

/// Notes of one error: a person reads no more.
const NOTES_MAX: usize = 10;
// Linux's numbers, by which Python's `errno` knows them.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const ENOSPC: i32 = 28;
const ENOTEMPTY: i32 = 39;
const EBADMSG: i32 = 74;
const EHOSTUNREACH: i32 = 113;
const ESTALE: i32 = 116;
const EDQUOT: i32 = 122;
