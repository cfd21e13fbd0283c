//! What becomes of the files of a transfer of many: what is told meanwhile, and what is given at its end (path:
//! `docs/paths/tree.md`). It never decides anything.

use std::{path::PathBuf, sync::Arc};

use protocol::message::client_master::Entry;

use crate::ClientError;

/// What became of all files.
#[derive(Debug, Default)]
pub struct TreeOutcome {
    /// Those that are in place, in the order of the plan.
    pub files: Vec<TransferredFile>,
    /// Those that failed, in the order in which they did.
    pub failures: Vec<FailedFile>,
    /// Bytes that an earlier attempt had brought, and that were not sent again.
    pub kept_bytes: u64,
    /// Files that were not tried, since a disk of this machine became full before their turn.
    pub not_begun: usize,
}

impl TreeOutcome {
    /// The length of all files that are in place, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// How many of them were there before, byte for byte.
    pub fn skipped(&self) -> usize {
        self.files.iter().filter(|file| file.is_skipped).count()
    }

    /// The files, or the first failure.
    ///
    /// # Errors
    /// If a file failed. The others are in place all the same.
    pub fn into_result(self) -> Result<Vec<TransferredFile>, ClientError> {
        match self.failures.into_iter().next() {
            Some(failed) => Err(failed.error),
            None => Ok(self.files),
        }
    }
}

/// A file that is in place.
#[derive(Clone, Debug)]
pub struct TransferredFile {
    /// Its source: a local file, or a path in the cloud.
    pub from: PathBuf,
    /// Its destination, likewise.
    pub to: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// It was there before, byte for byte.
    pub is_skipped: bool,
    /// The file in the cloud: the destination, or the source of a download.
    pub entry: Entry,
}

/// A file that failed.
#[derive(Debug)]
pub struct FailedFile {
    /// Its source: a local file, or a path in the cloud.
    pub from: PathBuf,
    /// Where it should have gone, likewise.
    pub to: PathBuf,
    /// Why it is not there.
    pub error: ClientError,
}

/// What happens during a transfer of many files.
#[derive(Debug)]
pub enum TreeEvent<'a> {
    /// This many bytes passed, or were there before.
    Bytes(u64),
    /// A file is in place.
    Done(&'a TransferredFile),
    /// A file failed; the others go on.
    Failed(&'a FailedFile),
}

/// Is told of every event, by whatever task moves the bytes.
pub type TreeObserver = Arc<dyn Fn(TreeEvent<'_>) + Send + Sync>;
