//! The file of a resumable upload: its bytes in `partial/`, and beside them the record of the safe ones. Serves upload.
//! A [`Checkpoint`] makes bytes safe and may run on another thread. It never lets bytes count that no record covers,
//! and never delays a writer.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use protocol::limits;

use crate::{
    Disk, DiskFile, PartialKey, SliceStore, StoreError,
    disk::{read_exactly, read_whole},
    error::WhileDoing,
    locking::lock,
    slice_store::hasher::BlockSums,
    uploads::{
        partial_record::{PartialRecord, RECORD_BYTES_MAX, RECORD_SUFFIX},
        partials::PARTIAL_BYTES_MIN,
    },
};

/// An upload's bytes while they are written. When it is dropped, what the last checkpoint made safe is kept for the
/// next attempt.
pub(crate) struct PartialFile {
    store: Arc<SliceStore>,
    key: PartialKey,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    record: Arc<RecordFile>,
    /// The sums of the bytes that were there at the beginning.
    there: Vec<u32>,
    /// Full blocks for which a checkpoint was taken, whether it has run or not.
    taken: usize,
    is_done: bool,
}

impl PartialFile {
    /// Opens an upload that this caller has claimed, or begins it if nothing good is `there`. Also returns the hash of
    /// the bytes so far.
    pub(crate) fn open(
        store: Arc<SliceStore>,
        key: PartialKey,
        there: u64,
    ) -> Result<(Self, blake3::Hasher), StoreError> {
        let claim = Claim { store: &store, key: &key };
        let opened = if there > 0 { claim.reopen() } else { None };
        let opened = match opened {
            Some(opened) => opened,
            None => {
                store.remove_partial_files(&key);
                claim.create().inspect_err(|_| lock(&store.partials).remove(&key))?
            }
        };
        let Opened { file, path, record, there, whole } = opened;
        let taken = lock(&record.state).blocks;
        let record = Arc::new(record);
        Ok((Self { store, key, file, path, record, there, taken, is_done: false }, whole))
    }

    /// Drops the existing bytes and begins anew.
    pub(crate) fn restart(mut self) -> Result<Self, StoreError> {
        self.is_done = true;
        let (store, key) = (Arc::clone(&self.store), self.key.clone());
        drop(self);
        Self::open(store, key, 0).map(|(file, _)| file)
    }

    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The sums of the blocks that were there at the beginning.
    pub(crate) fn take_sums(&mut self) -> BlockSums {
        BlockSums::of_blocks(std::mem::take(&mut self.there))
    }

    /// Bytes in full blocks for which no checkpoint was taken.
    pub(crate) fn bytes_without_checkpoint(&self, sums: &BlockSums) -> u64 {
        (sums.full().len() - self.taken.min(sums.full().len())) as u64 * limits::BLOCK_BYTES
    }

    /// A checkpoint for all full blocks so far, if at least `bytes_min` bytes have arrived since the last.
    pub(crate) fn checkpoint(&mut self, sums: &BlockSums, bytes_min: u64) -> Option<Checkpoint> {
        let blocks = sums.full().get(self.taken..)?;
        if blocks.is_empty() || (blocks.len() as u64) * limits::BLOCK_BYTES < bytes_min {
            return None;
        }
        let checkpoint = Checkpoint {
            store: Arc::clone(&self.store),
            key: self.key.clone(),
            file: Arc::clone(&self.file),
            path: self.path.clone(),
            record: Arc::clone(&self.record),
            first: self.taken,
            blocks: blocks.to_vec(),
        };
        self.taken = sums.full().len();
        Some(checkpoint)
    }

    /// The bytes are now a slice, and no longer a partial upload.
    pub(crate) fn finished(mut self) {
        self.is_done = true;
        self.store.remove_partial_files(&self.key);
        lock(&self.store.partials).remove(&self.key);
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let safe = lock(&self.record.state).blocks as u64 * limits::BLOCK_BYTES;
        let mut partials = lock(&self.store.partials);
        // The file is missing if a failed finish has moved it.
        let is_there = matches!(self.store.disk.bytes(&self.path), Ok(Some(bytes)) if bytes >= safe);
        if is_there && safe >= PARTIAL_BYTES_MIN {
            partials.release(&self.key, safe);
        } else {
            partials.remove(&self.key);
            self.store.remove_partial_files(&self.key);
        }
    }
}

/// Makes the bytes of an upload safe up to a point. Checkpoints of one upload must run one after the other, in the
/// order in which they were taken; writing may continue meanwhile.
pub struct Checkpoint {
    store: Arc<SliceStore>,
    key: PartialKey,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    record: Arc<RecordFile>,
    first: usize,
    blocks: Vec<u32>,
}

impl Checkpoint {
    /// Blocks until the disk has the bytes and their checksums. After an error the upload continues, and what was safe
    /// before stays safe.
    pub fn run(self) -> Result<(), StoreError> {
        // Bytes before the record that says that they are there.
        self.file.sync_data().while_doing("sync", &self.path)?;
        let mut state = lock(&self.record.state);
        if state.blocks != self.first {
            // An earlier checkpoint failed: nothing can be entered after its gap.
            return Ok(());
        }
        let (path, disk) = (&self.record.path, &self.store.disk);
        let is_new = state.file.is_none();
        if is_new {
            let file = disk.create(path).while_doing("create", path)?;
            let head = PartialRecord::encode_head(&self.key);
            file.write_all_at(&head, 0).while_doing("write", path)?;
            state.end = head.len() as u64;
            state.file = Some(file);
        }
        let end = state.end;
        let Some(file) = &state.file else { return Ok(()) };
        let entry = PartialRecord::encode_entry(self.first as u64, &self.blocks);
        file.write_all_at(&entry, end).while_doing("write", path)?;
        file.sync_data().while_doing("sync", path)?;
        if is_new {
            // Both names, including that of the bytes.
            let folder = &self.store.layout.partial;
            disk.sync_folder(folder).while_doing("sync", folder)?;
        }
        state.end = end + entry.len() as u64;
        state.blocks += self.blocks.len();
        Ok(())
    }
}

/// The record's file and its position.
struct RecordFile {
    path: PathBuf,
    state: Mutex<RecordState>,
}

#[derive(Default)]
struct RecordState {
    /// Created by the first checkpoint.
    file: Option<Box<dyn DiskFile>>,
    /// Where the next entry goes, in bytes.
    end: u64,
    /// Blocks that are safe.
    blocks: usize,
}

/// The parts of a [`PartialFile`] before it exists.
struct Opened {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    record: RecordFile,
    there: Vec<u32>,
    whole: blake3::Hasher,
}

/// The right to open an upload's files.
struct Claim<'a> {
    store: &'a SliceStore,
    key: &'a PartialKey,
}

impl Claim<'_> {
    fn paths(&self) -> (PathBuf, PathBuf) {
        let (folder, name) = (&self.store.layout.partial, self.key.file_name());
        (folder.join(&name), folder.join(format!("{name}{RECORD_SUFFIX}")))
    }

    fn create(&self) -> Result<Opened, StoreError> {
        let (path, record_path) = self.paths();
        let file = self.store.disk.create(&path).while_doing("create", &path)?;
        let record = RecordFile { path: record_path, state: Mutex::default() };
        Ok(Opened { file: Arc::from(file), path, record, there: Vec::new(), whole: blake3::Hasher::new() })
    }

    /// Opens the existing file and reads it whole; it is good up to the first bad block. `None` if there is nothing, or
    /// it cannot be read: then it is sent again.
    fn reopen(&self) -> Option<Opened> {
        let (path, record_path) = self.paths();
        let disk: &dyn Disk = &*self.store.disk;
        let mut found = PartialRecord::decode(&read_whole(disk, &record_path, RECORD_BYTES_MAX).ok()?)?;
        if found.key != *self.key {
            return None;
        }
        let file = disk.open(&path).ok()?;
        let (good, whole) = verify(&*file, &found.blocks);
        let record_file = disk.open(&record_path).ok()?;
        let mut state = RecordState { end: found.end, blocks: good, file: None };
        if good < found.blocks.len() {
            tracing::warn!(file = %path.display(), good, of = found.blocks.len(), "a kept upload is damaged, and cut");
            found.blocks.truncate(good);
            // The next checkpoint enters all blocks anew.
            (state.end, state.blocks) = (PartialRecord::encode_head(self.key).len() as u64, 0);
        }
        if good == 0 {
            return None;
        }
        record_file.set_len(state.end).ok()?;
        file.set_len(good as u64 * limits::BLOCK_BYTES).ok()?;
        state.file = Some(record_file);
        let record = RecordFile { path: record_path, state: Mutex::new(state) };
        Some(Opened { file: Arc::from(file), path, record, there: found.blocks, whole })
    }
}

/// The number of good blocks from the beginning, and their hash.
fn verify(file: &dyn DiskFile, blocks: &[u32]) -> (usize, blake3::Hasher) {
    let mut whole = blake3::Hasher::new();
    let mut buffer = vec![0; VERIFY_BLOCKS * limits::BLOCK_BYTES as usize];
    let mut good = 0;
    for some in blocks.chunks(VERIFY_BLOCKS) {
        let buffer = &mut buffer[..some.len() * limits::BLOCK_BYTES as usize];
        let from = good as u64 * limits::BLOCK_BYTES;
        // A truncated file is read block by block, up to its end.
        let is_read = read_exactly(file, buffer, from).is_ok();
        for (block, checksum) in buffer.chunks_mut(limits::BLOCK_BYTES as usize).zip(some) {
            let at = good as u64 * limits::BLOCK_BYTES;
            if !is_read && read_exactly(file, block, at).is_err() || crc32c::crc32c(block) != *checksum {
                return (good, whole);
            }
            whole.update(block);
            good += 1;
        }
    }
    (good, whole)
}

/// Blocks read at once: 1 MiB.
const VERIFY_BLOCKS: usize = 16;
