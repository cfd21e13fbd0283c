//! The errors between this crate and a disk. Each variant names the operation and the object. [`StoreError::class`]
//! says what a caller may do about it, [`StoreError::refusal`] what a person should. This file never touches a disk
//! itself.

use std::{
    io,
    path::{Path, PathBuf},
};

use protocol::{Digest, Reason, Refusal, SectorPath, SliceId, status::ErrorClass};
use thiserror::Error;

use crate::{disk::disk_failure::is_disk_failure, slice_store::sidecar::SidecarError};

/// Why the store could not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("{operation} `{}` failed: {source}; see to the disk, or try another node", path.display())]
    Io {
        /// What was being done, as a verb: `write`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The disk (or the quota) is full.
    #[error("no room on the node's disk to {operation} `{}`: free some or add a node", path.display())]
    DiskFull {
        /// What was being done, as a verb: `write`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
    },
    /// A slice to be kept in memory does not fit into what the node lends for it.
    #[error(
        "no room in the memory that this node lends to files below `/memory` ({bytes_max} bytes, `memory_bytes`): remove some of them, or add a node"
    )]
    MemoryFull {
        /// The most bytes that they may take; 0 if none are kept.
        bytes_max: u64,
    },
    /// Only the reserve is left.
    #[error("no room on the disk of `{}` but the {reserve_bytes} bytes kept free (`reserve_bytes`): free some, or add a disk or a node", folder.display())]
    Reserve {
        /// The data folder.
        folder: PathBuf,
        /// Bytes that are kept free.
        reserve_bytes: u64,
    },
    /// The disk is out of service.
    #[error("the disk of `{}` has failed ({why}): use another copy, and replace the disk", folder.display())]
    DiskFailed {
        /// The data folder.
        folder: PathBuf,
        /// The disk's first error.
        why: String,
    },
    /// Another process has the data folder.
    #[error("the data folder `{}` is in use by another process: stop that one, or give this one another folder", folder.display())]
    Locked {
        /// The data folder.
        folder: PathBuf,
    },
    /// The slice is not here.
    #[error("slice {0} is not on this node: ask the master where it is")]
    NotHeld(SliceId),
    /// The slice is here already.
    #[error("slice {0} is on this node already: there is nothing to write")]
    Exists(SliceId),
    /// Another writer is just finishing the same slice.
    #[error("slice {0} is being finished by another writer: try again in a moment")]
    BeingFinished(SliceId),
    /// The header cannot be stored.
    #[error("slice {slice} cannot be stored: {why}")]
    Header {
        /// The slice.
        slice: SliceId,
        /// What is wrong with its header.
        why: &'static str,
    },
    /// More bytes than a slice may have.
    #[error("slice {slice} would be longer than {} bytes: split the file", protocol::limits::SLICE_BYTES_MAX)]
    TooLong {
        /// The slice.
        slice: SliceId,
    },
    /// An earlier write failed, so the slice cannot be finished.
    #[error("slice {slice} lost bytes when an earlier write failed: write it again from the start")]
    WriterFailed {
        /// The slice.
        slice: SliceId,
    },
    /// The received bytes are not the announced ones.
    #[error("slice {slice} arrived with digest {found} instead of {expected}: send it again")]
    DigestMismatch {
        /// The slice.
        slice: SliceId,
        /// The digest that the sender announced.
        expected: Digest,
        /// The digest of what was written.
        found: Digest,
    },
    /// Stored bytes are not those that were written.
    #[error("slice {slice} is damaged on this node ({what}): read another copy")]
    Corrupt {
        /// The slice.
        slice: SliceId,
        /// What does not match.
        what: String,
    },
    /// Something that is not a slice and may not be moved is at the path. The slice stays staged.
    #[error("slice {slice} cannot be placed at `{path}`: the folder `{}` there is not empty; move its files away", obstacle.display())]
    PathBlocked {
        /// The slice.
        slice: SliceId,
        /// Where it should go.
        path: SectorPath,
        /// What is there.
        obstacle: PathBuf,
    },
    /// A sidecar that this build must not touch.
    #[error("the sidecar `{}` cannot be used: {source}", path.display())]
    Sidecar {
        /// The sidecar.
        path: PathBuf,
        /// Why.
        #[source]
        source: SidecarError,
    },
    /// Another process has the journal.
    #[error("the journal `{}` is in use by another process: stop that one first", file.display())]
    JournalLocked {
        /// The journal.
        file: PathBuf,
    },
    /// The file is not a journal, or is damaged.
    #[error("`{}` is not a readable journal ({why}): restore it from a backup, or move it away to begin an empty one", file.display())]
    NotAJournal {
        /// The file.
        file: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// The journal could not be read or written. After a failed commit it is unknown whether it took effect.
    #[error("to {operation} the journal `{}` failed: {why}; see to the disk and start again", file.display())]
    Journal {
        /// What was being done, as a verb: `commit to`.
        operation: &'static str,
        /// The journal.
        file: PathBuf,
        /// The embedded store's error.
        why: String,
    },
}

impl StoreError {
    /// What the caller may do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Io { .. }
            | Self::DiskFull { .. }
            | Self::NotHeld(_)
            | Self::Reserve { .. }
            | Self::MemoryFull { .. }
            | Self::DiskFailed { .. } => ErrorClass::RetryElsewhere,
            Self::BeingFinished(_) | Self::WriterFailed { .. } | Self::PathBlocked { .. } => ErrorClass::RetryHere,
            Self::DigestMismatch { .. } | Self::Corrupt { .. } | Self::NotAJournal { .. } => ErrorClass::Corrupt,
            Self::Locked { .. }
            | Self::Exists(_)
            | Self::Header { .. }
            | Self::TooLong { .. }
            | Self::Sidecar { .. }
            | Self::JournalLocked { .. }
            | Self::Journal { .. } => ErrorClass::Refuse,
        }
    }

    /// The same in a form that is sent to others.
    pub fn refusal(&self) -> Refusal {
        let reason = match self {
            Self::DiskFull { .. } | Self::Reserve { .. } | Self::MemoryFull { .. } => Reason::NoSpace,
            Self::DiskFailed { .. } => Reason::Unavailable,
            Self::BeingFinished(_) => Reason::Busy,
            // The next try goes to another disk or another node.
            Self::Io { source, .. } if is_disk_failure(source) => Reason::Unavailable,
            Self::NotHeld(_) => Reason::NotFound,
            Self::Exists(_) => Reason::Exists,
            Self::Header { .. } | Self::TooLong { .. } => Reason::Invalid,
            Self::DigestMismatch { .. } | Self::Corrupt { .. } | Self::NotAJournal { .. } => Reason::Corrupt,
            Self::Locked { .. } | Self::JournalLocked { .. } => Reason::InUse,
            Self::PathBlocked { .. } => Reason::NotPermitted,
            Self::Io { .. } | Self::WriterFailed { .. } | Self::Sidecar { .. } | Self::Journal { .. } => Reason::Failed,
        };
        Refusal::new(reason, self.to_string())
    }

    /// Whether there is no room, which another node may have.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::DiskFull { .. } | Self::Reserve { .. })
    }

    /// An error of the disk while doing `operation` to `path`.
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { operation, path },
            _ => Self::Io { operation, path, source },
        }
    }
}

/// Adds the operation and its object to a disk's result.
pub(crate) trait WhileDoing<T> {
    /// `operation` is a verb, `path` the file or folder.
    fn while_doing(self, operation: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> WhileDoing<T> for io::Result<T> {
    fn while_doing(self, operation: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::io(operation, path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_to_be_full_and_sends_the_caller_elsewhere() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let error = StoreError::io("write", Path::new("unfinished/1"), kind.into());
            assert_eq!(error.class(), ErrorClass::RetryElsewhere);
            let refusal = error.refusal();
            assert_eq!(refusal.reason, Reason::NoSpace);
            assert!(refusal.message.contains("free some or add a node"), "{refusal}");
        }
    }

    #[test]
    fn every_refusal_is_one_sentence_that_names_the_thing() {
        let (slice, file) = (SliceId(0xabc), PathBuf::from("/data/thing"));
        let zero = Digest([0; 32]);
        let path = SectorPath::root();
        let (name, id) = ("/data/thing", "00000abc");
        let errors = [
            (StoreError::Io { operation: "write", path: file.clone(), source: io::ErrorKind::Other.into() }, name),
            (StoreError::DiskFull { operation: "write", path: file.clone() }, name),
            (StoreError::Locked { folder: file.clone() }, name),
            (StoreError::Reserve { folder: file.clone(), reserve_bytes: 5 }, name),
            (StoreError::MemoryFull { bytes_max: 5 }, "memory_bytes"),
            (StoreError::DiskFailed { folder: file.clone(), why: "why".into() }, name),
            (StoreError::NotHeld(slice), id),
            (StoreError::Exists(slice), id),
            (StoreError::BeingFinished(slice), id),
            (StoreError::Header { slice, why: "why" }, id),
            (StoreError::TooLong { slice }, id),
            (StoreError::WriterFailed { slice }, id),
            (StoreError::DigestMismatch { slice, expected: zero, found: zero }, id),
            (StoreError::Corrupt { slice, what: "block 1".into() }, id),
            (StoreError::PathBlocked { slice, path, obstacle: file.clone() }, name),
            (StoreError::Sidecar { path: file.clone(), source: SidecarError::Version(9) }, name),
            (StoreError::JournalLocked { file: file.clone() }, name),
            (StoreError::NotAJournal { file: file.clone(), why: "why".into() }, name),
            (StoreError::Journal { operation: "commit to", file, why: "why".into() }, name),
        ];
        for (error, thing) in errors {
            let Refusal { message: sentence, .. } = error.refusal();
            assert!(sentence.contains(thing), "{sentence}");
            assert!(!sentence.contains('\n') && !sentence.ends_with('.'), "{sentence}");
        }
    }

    #[test]
    fn damage_is_told_from_absence() {
        let damaged = StoreError::Corrupt { slice: SliceId(1), what: "block 3".into() };
        assert_eq!((damaged.class(), damaged.refusal().reason), (ErrorClass::Corrupt, Reason::Corrupt));
        let absent = StoreError::NotHeld(SliceId(1));
        assert_eq!((absent.class(), absent.refusal().reason), (ErrorClass::RetryElsewhere, Reason::NotFound));
    }
}
