//! Converts errors to Python's own: `FileNotFoundError` and its like, each with the cloud's message. Serves every
//! call. A status of the cloud may cover several of Python's errors; `Exists` also means that a folder is in the way
//! of a file. The cloud is then asked what is there. It is never asked before something has failed, and only to
//! choose the better error.

use client::{Client, ClientError, EntryKind, SectorPath, Status};
use pyo3::{
    PyErr, create_exception,
    exceptions::{
        PyConnectionError, PyException, PyFileExistsError, PyFileNotFoundError, PyIsADirectoryError,
        PyNotADirectoryError, PyOSError, PyPermissionError, PyValueError,
    },
};

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
    /// A folder is where a file should be.
    IsFolder(ClientError),
    /// A file is where a folder should be.
    NotFolder(ClientError),
    /// A folder that holds something should go.
    NotEmpty(ClientError),
    /// What was opened can no longer be used, and why.
    Closed(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let error = match failure {
            Failure::Client(error) => error,
            Failure::IsFolder(error) => return PyIsADirectoryError::new_err((EISDIR, error.to_string())),
            Failure::NotFolder(error) => return PyNotADirectoryError::new_err((ENOTDIR, error.to_string())),
            Failure::NotEmpty(error) => return PyOSError::new_err((ENOTEMPTY, error.to_string())),
            Failure::Closed(message) => return PyValueError::new_err(message),
        };
        let message = error.to_string();
        match error.status() {
            Status::NotFound => PyFileNotFoundError::new_err((ENOENT, message)),
            Status::Exists => PyFileExistsError::new_err((EEXIST, message)),
            Status::Refused => PyPermissionError::new_err((EACCES, message)),
            Status::Usage => PyValueError::new_err(message),
            Status::Unavailable => UnavailableError::new_err((EHOSTUNREACH, message)),
            Status::Corrupt => CorruptError::new_err((EBADMSG, message)),
            Status::Failed => PyOSError::new_err((EIO, message)),
        }
    }
}

/// Chooses the better error for a failed read or write of a file. Either a folder has its place, or a file has the
/// place of its folder.
pub(crate) async fn of_file(cloud: &Client, path: &SectorPath, error: ClientError) -> Failure {
    if !matches!(error.status(), Status::Exists | Status::Usage) {
        return Failure::Client(error);
    }
    match cloud.find(path).await {
        Ok(Some(entry)) if matches!(entry.kind, EntryKind::Folder) => Failure::IsFolder(error),
        Ok(None) if error.status() == Status::Exists => Failure::NotFolder(error),
        _ => Failure::Client(error),
    }
}

/// Chooses the better error for a failed creation of a folder: a file may have the place of one above it.
pub(crate) async fn of_folder(cloud: &Client, path: &SectorPath, error: ClientError) -> Failure {
    match error.status() {
        Status::Exists if matches!(cloud.find(path).await, Ok(None)) => Failure::NotFolder(error),
        _ => Failure::Client(error),
    }
}

/// Chooses the better error for a failed removal: the folder may hold something.
pub(crate) async fn of_removal(cloud: &Client, path: &SectorPath, error: ClientError) -> Failure {
    if error.status() != Status::Refused || path.is_root() {
        return Failure::Client(error);
    }
    let is_folder = matches!(cloud.find(path).await, Ok(Some(entry)) if matches!(entry.kind, EntryKind::Folder));
    match cloud.page(path, false, None).await {
        Ok(page) if is_folder && !page.entries.is_empty() => Failure::NotEmpty(error),
        _ => Failure::Client(error),
    }
}

// Linux's numbers, by which Python's `errno` knows them.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const ENOTEMPTY: i32 = 39;
const EBADMSG: i32 = 74;
const EHOSTUNREACH: i32 = 113;
