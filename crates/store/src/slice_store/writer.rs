//! A slice being written (upload, copy). Its bytes go to a file and are hashed as they pass. They are sent to the disk
//! in the background, so that little is left for the sync at the end. Two threads may feed the two halves, file and
//! digest, at the same time. A slice is never visible before [`SliceWriter::finish`].

use std::{path::Path, sync::Arc};

use protocol::{Digest, SliceHeader, SliceMetadata, limits};

use crate::{
    Checkpoint, DiskFile, SliceReader, SliceStore, StoreError,
    error::WhileDoing,
    slice_store::{WriteGuard, check_header, hasher::BlockSums, unfinished_file::UnfinishedFile},
    uploads::{partial_file::PartialFile, partials::PARTIAL_BYTES_MIN},
};

/// A slice being written. If it is dropped without `finish`, nothing remains, unless it was begun as a
/// [resumable](SliceStore::begin_resumable) one.
pub struct SliceWriter {
    file: SliceFile,
    digest: SliceDigest,
}

/// The half of a [`SliceWriter`] that keeps the bytes and the checksums of their blocks.
pub struct SliceFile {
    // Declared before `at`, so that the file is closed before it is removed.
    file: Arc<dyn DiskFile>,
    at: WriteTarget,
    store: Arc<SliceStore>,
    header: SliceHeader,
    /// Until it is dropped the slice counts as being written.
    writing: WriteGuard,
    sums: BlockSums,
    /// The disk has been told to write up to here, in bytes.
    sent_on: u64,
    failed: bool,
}

/// The half of a [`SliceWriter`] that hashes the whole.
pub struct SliceDigest {
    whole: blake3::Hasher,
    bytes: u64,
}

/// The place of the bytes until they are a slice.
enum WriteTarget {
    Unfinished(UnfinishedFile),
    Partial(PartialFile),
}

impl SliceStore {
    /// Begins to write a slice. Two writers may write the same slice at once (a client that lost its connection returns
    /// before we notice); the first to finish wins. Fails with [`StoreError::Exists`] if the slice is held.
    pub fn begin(self: &Arc<Self>, header: SliceHeader) -> Result<SliceWriter, StoreError> {
        check_header(&header)?;
        if self.contains(header.slice) {
            return Err(StoreError::Exists(header.slice));
        }
        let writing = self.claim_writing(header.slice);
        SliceWriter::begin(Arc::clone(self), header, writing)
    }
}

impl SliceWriter {
    pub(crate) fn begin(store: Arc<SliceStore>, header: SliceHeader, writing: WriteGuard) -> Result<Self, StoreError> {
        let unfinished = store.unfinished(header.slice);
        let file = store.disk.create(unfinished.path()).while_doing("create", unfinished.path())?;
        let at = WriteTarget::Unfinished(unfinished);
        let sums = BlockSums::default();
        let file = SliceFile { file: Arc::from(file), at, store, header, writing, sums, sent_on: 0, failed: false };
        Ok(Self { file, digest: SliceDigest { whole: blake3::Hasher::new(), bytes: 0 } })
    }

    /// Continues after the bytes of `partial`, whose hash is `whole`.
    pub(crate) fn resume(
        store: Arc<SliceStore>,
        header: SliceHeader,
        writing: WriteGuard,
        mut partial: PartialFile,
        whole: blake3::Hasher,
    ) -> Self {
        let sums = partial.take_sums();
        let bytes = sums.bytes();
        let (file, at) = (Arc::clone(partial.file()), WriteTarget::Partial(partial));
        let file = SliceFile { file, at, store, header, writing, sums, sent_on: bytes, failed: false };
        Self { file, digest: SliceDigest { whole, bytes } }
    }

    /// Drops all bytes and begins anew.
    pub fn restart(self) -> Result<Self, StoreError> {
        let SliceFile { file, at, store, header, writing, .. } = self.file;
        drop(file);
        let slice = header.slice;
        drop(writing);
        let writing = store.claim_writing(slice);
        match at {
            WriteTarget::Unfinished(_) => Self::begin(store, header, writing),
            WriteTarget::Partial(partial) => {
                Ok(Self::resume(store, header, writing, partial.restart()?, blake3::Hasher::new()))
            }
        }
    }

    /// Appends bytes. After an error the slice can only be dropped.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.write_checked(bytes, &[])
    }

    /// As `write`, for callers that already know and have checked the CRC32C of each 64 KiB block of `bytes` (a
    /// frame's).
    pub fn write_checked(&mut self, bytes: &[u8], checksums: &[u32]) -> Result<(), StoreError> {
        self.file.write_checked(bytes, checksums)?;
        self.digest.update(bytes);
        Ok(())
    }

    /// Appends all bytes of another slice, each verified as it is read.
    pub fn write_slice(&mut self, from: &SliceReader) -> Result<(), StoreError> {
        let (mut buffer, mut at, bytes) = (Vec::new(), 0, from.metadata().bytes);
        while at < bytes {
            from.read_at(&mut buffer, at, limits::FRAME_BYTES_MAX)?;
            self.write_checked(&buffer, from.checksums(at, buffer.len() as u64))?;
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// Bytes so far, including those that were there at the beginning.
    pub fn bytes(&self) -> u64 {
        self.digest.bytes
    }

    /// BLAKE3 of the bytes so far.
    pub fn digest_so_far(&self) -> Digest {
        Digest(*self.digest.whole.finalize().as_bytes())
    }

    /// The two halves: each must be given the same bytes.
    pub fn split(self) -> (SliceFile, SliceDigest) {
        (self.file, self.digest)
    }

    /// Joins the halves again.
    pub fn join(file: SliceFile, digest: SliceDigest) -> Self {
        Self { file, digest }
    }

    /// Syncs data, sidecar and folder; the slice is then staged. Refuses when `expected` is another digest. After an
    /// error nothing remains, except for what a resumable upload had made safe.
    pub fn finish(self, expected: Option<Digest>) -> Result<SliceMetadata, StoreError> {
        let Self { file: SliceFile { file, at, store, header, writing: _writing, sums, failed, .. }, digest } = self;
        let slice = header.slice;
        if failed || digest.bytes != sums.bytes() {
            return Err(StoreError::WriterFailed { slice });
        }
        let sums = sums.finish(Digest(*digest.whole.finalize().as_bytes()));
        if let Some(expected) = expected.filter(|expected| *expected != sums.digest) {
            return Err(StoreError::DigestMismatch { slice, expected, found: sums.digest });
        }
        let metadata = store.stage(header, &*file, at.path(), sums)?;
        if let WriteTarget::Partial(partial) = at {
            partial.finished();
        }
        Ok(metadata)
    }
}

impl SliceFile {
    /// As [`SliceWriter::write_checked`], for this half. If there are not as many checksums as blocks, they are
    /// computed anew.
    pub fn write_checked(&mut self, bytes: &[u8], checksums: &[u32]) -> Result<(), StoreError> {
        let slice = self.header.slice;
        if self.failed {
            return Err(StoreError::WriterFailed { slice });
        }
        let offset = self.sums.bytes();
        let end = offset + bytes.len() as u64;
        if end > limits::SLICE_BYTES_MAX {
            return Err(StoreError::TooLong { slice });
        }
        let written = self
            .store
            .allocate_bytes(&mut self.writing, bytes.len() as u64)
            .and_then(|()| self.file.write_all_at(bytes, offset).while_doing("write", self.at.path()));
        if let Err(error) = written {
            self.failed = true;
            return Err(error);
        }
        self.sums.update_checked(bytes, checksums);
        if end - self.sent_on >= WRITEBACK_BYTES {
            // A hint; if the disk fails, the sync will report it.
            let _ = self.file.start_writeback(self.sent_on, end - self.sent_on);
            self.sent_on = end;
        }
        Ok(())
    }

    /// Whether it is time for a checkpoint.
    pub fn is_checkpoint_due(&self) -> bool {
        match &self.at {
            WriteTarget::Unfinished(_) => false,
            WriteTarget::Partial(partial) => partial.bytes_without_checkpoint(&self.sums) >= CHECKPOINT_BYTES,
        }
    }

    /// A checkpoint that makes the bytes so far safe, if one is due and the slice is resumable. It must be
    /// [run](Checkpoint::run), on any thread, before the next one is requested.
    pub fn checkpoint_due(&mut self) -> Option<Checkpoint> {
        self.checkpoint(CHECKPOINT_BYTES)
    }

    /// Ends the writing: makes the bytes safe for the next attempt, if the slice is resumable, up to a whole block.
    /// Every checkpoint must have run. Returns how many bytes are kept, 0 if it is not worth it.
    pub fn save_partial(mut self) -> Result<u64, StoreError> {
        if self.failed {
            return Ok(0);
        }
        if self.sums.bytes() >= PARTIAL_BYTES_MIN
            && let Some(checkpoint) = self.checkpoint(0)
        {
            checkpoint.run()?;
        }
        let full = self.sums.bytes() / limits::BLOCK_BYTES * limits::BLOCK_BYTES;
        let is_kept = matches!(self.at, WriteTarget::Partial(_)) && full >= PARTIAL_BYTES_MIN;
        Ok(if is_kept { full } else { 0 })
    }

    fn checkpoint(&mut self, bytes_min: u64) -> Option<Checkpoint> {
        match &mut self.at {
            WriteTarget::Unfinished(_) => None,
            WriteTarget::Partial(partial) => partial.checkpoint(&self.sums, bytes_min),
        }
    }
}

impl SliceDigest {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.whole.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl WriteTarget {
    fn path(&self) -> &Path {
        match self {
            Self::Unfinished(unfinished) => unfinished.path(),
            Self::Partial(partial) => partial.path(),
        }
    }
}

/// The disk is told to write after this many bytes. That is enough for large requests, and few enough that the disk
/// begins at once and the last sync is short.
const WRITEBACK_BYTES: u64 = 4 << 20;
/// Bytes between two checkpoints of a resumable upload, and so the most that is sent again: a second or less on most
/// links. The syncs are so few that they cost nothing beside the bytes.
const CHECKPOINT_BYTES: u64 = 64 << 20;
