//! A slice on its way in (upload, copy): bytes go to `unfinished/`, are hashed as they pass, and are sent on to the disk
//! in the background, so that little is left for the sync at the end.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::{Digest, SliceHeader, SliceMetadata, limits};

use crate::{Disk, DiskFile, SliceHasher, SliceStore, StoreError, error::WhileDoing, slice_store::Writing};

/// A slice being written. Dropped without `finish`: nothing remains.
pub struct SliceWriter {
    // Declared before `unfinished`, so that the file is closed before it is removed.
    file: Box<dyn DiskFile>,
    unfinished: Unfinished,
    store: Arc<SliceStore>,
    header: SliceHeader,
    _writing: Writing,
    hasher: SliceHasher,
    /// Up to here the disk has been told to write, in bytes.
    sent_on: u64,
    failed: bool,
}

impl SliceWriter {
    pub(crate) fn begin(store: Arc<SliceStore>, header: SliceHeader, writing: Writing) -> Result<Self, StoreError> {
        let unfinished = store.unfinished(header.slice);
        let file = store.disk.create(unfinished.path()).while_doing("create", unfinished.path())?;
        let hasher = SliceHasher::new();
        Ok(Self { file, unfinished, store, header, _writing: writing, hasher, sent_on: 0, failed: false })
    }

    /// Appends bytes. After an error the slice can only be dropped.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.append(bytes)?;
        self.hasher.update(bytes);
        Ok(())
    }

    /// As `write`, where the CRC32C of each 64 KiB block of `bytes` is already known and checked (a frame's).
    pub fn write_checked(&mut self, bytes: &[u8], checksums: &[u32]) -> Result<(), StoreError> {
        self.append(bytes)?;
        self.hasher.update_checked(bytes, checksums);
        Ok(())
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.hasher.bytes()
    }

    /// Syncs data, sidecar and folder; the slice is then staged. Refuses when `expected` names another digest. On an
    /// error nothing remains.
    pub fn finish(self, expected: Option<Digest>) -> Result<SliceMetadata, StoreError> {
        let Self { file, unfinished, store, header, hasher, failed, _writing, .. } = self;
        let slice = header.slice;
        if failed {
            return Err(StoreError::WriterFailed { slice });
        }
        let sums = hasher.finish();
        if let Some(expected) = expected.filter(|expected| *expected != sums.digest) {
            return Err(StoreError::DigestMismatch { slice, expected, found: sums.digest });
        }
        store.stage(header, &*file, unfinished.path(), sums)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let slice = self.header.slice;
        if self.failed {
            return Err(StoreError::WriterFailed { slice });
        }
        let offset = self.hasher.bytes();
        let end = offset + bytes.len() as u64;
        if end > limits::SLICE_BYTES_MAX {
            return Err(StoreError::TooLong { slice });
        }
        let written = self
            .store
            .check_room(bytes.len() as u64)
            .and_then(|()| self.file.write_all_at(bytes, offset).while_doing("write", self.unfinished.path()));
        if let Err(error) = written {
            self.failed = true;
            return Err(error);
        }
        if end - self.sent_on >= WRITEBACK_BYTES {
            // A hint; if the disk fails, the sync will tell.
            let _ = self.file.start_writeback(self.sent_on, end - self.sent_on);
            self.sent_on = end;
        }
        Ok(())
    }
}

/// A file of `unfinished/` that is removed when this is dropped, unless it was renamed.
pub(crate) struct Unfinished {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Unfinished {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Self { disk, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn rename(self, to: &Path) -> io::Result<()> {
        self.disk.rename(&self.path, to)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Nothing is there after a rename. If it cannot be removed, the next opening of the folder does it.
        let _ = self.disk.remove_file(&self.path);
    }
}

/// The disk is told to write after this many bytes: enough for large requests, little enough that the last sync is
/// short.
const WRITEBACK_BYTES: u64 = 8 << 20;
