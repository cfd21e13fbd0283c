//! A file that a task writes or that was fetched for a job. It never outlives its owner, unless it became a bucket.

use std::{
    fs::{self, File},
    io::Seek,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use spe::CLEARED_BYTES;

use crate::NodeError;

/// A scratch file, open for reading and writing.
#[derive(Debug)]
pub struct Scratch {
    name: ClosedScratch,
    file: File,
}

impl Scratch {
    /// Creates an empty file in `folder` under a name that `count` makes unique in this process. Files of earlier
    /// processes were removed when the store was opened.
    pub(super) fn create(folder: &Path, count: &AtomicU64) -> Result<Self, NodeError> {
        let path = folder.join(count.fetch_add(1, Ordering::Relaxed).to_string());
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(NodeError::io("create", &path))?;
        Ok(Self { name: ClosedScratch { path, kept: false }, file })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is, for errors.
    pub fn path(&self) -> &Path {
        &self.name.path
    }

    /// A further descriptor of the same open file, for an SPE.
    pub fn share(&self) -> Result<File, NodeError> {
        self.file.try_clone().map_err(NodeError::io("share", self.path()))
    }

    /// Prepares the file for another task, which costs a file system much less than a new file; returns whether it did.
    /// One byte stays, to be overwritten by the next task. The reason is ext4: a file that was truncated to nothing and
    /// rewritten looks like a replacement, so ext4 flushes it when it is closed.
    pub(super) fn clear(&self) -> bool {
        let is_short = self.file.metadata().is_ok_and(|found| found.len() <= CLEARED_BYTES_MAX);
        is_short && self.file.set_len(CLEARED_BYTES).and_then(|()| (&self.file).rewind()).is_ok()
    }

    /// Closes the file and keeps its name: a task may have more files than a process may have open.
    pub fn close(self) -> ClosedScratch {
        self.name
    }

    /// Gives the file this name for good.
    pub(super) fn rename(mut self, to: &Path) -> Result<(), NodeError> {
        fs::rename(self.path(), to).map_err(NodeError::io("rename to the bucket", to))?;
        self.name.kept = true;
        Ok(())
    }
}

/// A longer file is cheaper to remove than to clear: it may never have been on the disk.
const CLEARED_BYTES_MAX: u64 = 64 << 10;

/// A scratch file that is not open.
#[derive(Debug)]
pub struct ClosedScratch {
    path: PathBuf,
    kept: bool,
}

impl ClosedScratch {
    /// Where it is, for errors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for reading.
    pub fn open(&self) -> Result<File, NodeError> {
        File::open(&self.path).map_err(NodeError::io("open", &self.path))
    }
}

impl Drop for ClosedScratch {
    fn drop(&mut self) {
        if !self.kept {
            // It may be gone with its job's folder. A file that cannot be removed goes when the node restarts.
            let _ = fs::remove_file(&self.path);
        }
    }
}
