//! What tasks here have left for buckets of other nodes, kept after it was sent: where such a bucket is lost with its node,
//! the piece is sent again, and the task need not run again (Sector/Sphere paper, 3.5.2: "Each SPE dumps the result to local
//! disk before attempting to send the results to buckets on other nodes. In this way, if one node is down, the result can be
//! sent to the same buckets on other nodes").
//!
//! It never promises to have anything: what was kept longest goes when there is too much, and then the task runs again.

use std::{
    collections::VecDeque,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::{JobId, message::spe::AttemptId};

use super::{ClosedScratch, Scratch};
use crate::spe::Chunk;

/// See the module.
#[derive(Debug, Default)]
pub struct KeptResults {
    shelf: Mutex<Shelf>,
}

/// What one attempt left.
#[derive(Debug)]
pub struct Kept {
    /// Whose it is.
    pub attempt: AttemptId,
    /// Its bytes; gone with the last who holds this.
    pub content: KeptContent,
    /// What of it belongs to which bucket, in the order of the file.
    pub chunks: Vec<Chunk>,
}

/// Where the bytes of what was kept are.
#[derive(Debug)]
pub enum KeptContent {
    /// In the scratch file of the attempt.
    File(ClosedScratch),
    /// Here: they are few, and their scratch file is another task's by now.
    Memory(Arc<[u8]>),
}

impl Kept {
    /// Its length in bytes.
    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }

    fn memory_bytes(&self) -> u64 {
        match &self.content {
            KeptContent::File(_) => 0,
            KeptContent::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl KeptResults {
    /// Keeps what an attempt left; false where it is more than may be kept at all.
    pub fn keep(&self, kept: Kept) -> bool {
        let (bytes, chunks) = (kept.bytes(), kept.chunks.len());
        if bytes > KEPT_BYTES_MAX || chunks > KEPT_CHUNKS_MAX {
            return false;
        }
        let mut gone = Vec::new();
        {
            let mut shelf = self.lock();
            shelf.bytes += bytes;
            shelf.chunks += chunks;
            shelf.memory_bytes += kept.memory_bytes();
            shelf.all.push_back(Arc::new(kept));
            while shelf.bytes > KEPT_BYTES_MAX || shelf.chunks > KEPT_CHUNKS_MAX {
                let Some(oldest) = shelf.all.pop_front() else { break };
                shelf.count_out(&oldest);
                gone.push(oldest);
            }
        }
        // The files are removed here, where nobody waits for the lock.
        drop(gone);
        true
    }

    /// The bytes of a scratch file up to this one, where they are few enough to be kept in memory.
    pub(super) fn read_few(&self, scratch: &Scratch, until: u64) -> Option<Arc<[u8]>> {
        let has_room = until <= FEW_BYTES_MAX && self.lock().memory_bytes + until <= MEMORY_BYTES_MAX;
        let mut bytes = vec![0; has_room.then_some(until)? as usize];
        scratch.file().read_exact_at(&mut bytes, 0).ok()?;
        Some(bytes.into())
    }

    /// What an attempt left, if it is still here.
    pub fn find(&self, attempt: AttemptId) -> Option<Arc<Kept>> {
        self.lock().all.iter().find(|kept| kept.attempt == attempt).cloned()
    }

    /// Removes all that a job's tasks left.
    pub(super) fn forget(&self, job: JobId) {
        let mut gone = Vec::new();
        {
            let mut shelf = self.lock();
            for kept in std::mem::take(&mut shelf.all) {
                if kept.attempt.job == job {
                    shelf.count_out(&kept);
                    gone.push(kept);
                } else {
                    shelf.all.push_back(kept);
                }
            }
        }
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        // Each change under this lock is complete in itself.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Shelf {
    /// Oldest first.
    all: VecDeque<Arc<Kept>>,
    bytes: u64,
    chunks: usize,
    memory_bytes: u64,
}

impl Shelf {
    fn count_out(&mut self, kept: &Kept) {
        self.bytes -= kept.bytes();
        self.memory_bytes -= kept.memory_bytes();
        self.chunks -= kept.chunks.len();
    }
}

/// Most bytes kept: what is removed soon after it was written mostly never reaches the disk, so that keeping more would cost
/// every job the disk's time for the sake of the few that lose a node.
const KEPT_BYTES_MAX: u64 = 256 << 20;
/// What is kept in memory of one attempt at most: what is longer is worth a file.
const FEW_BYTES_MAX: u64 = 64 << 10;
/// Most bytes kept in memory: a thousand tasks with as many as that.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Most chunks kept account of, at 24 bytes each: 24 MB.
const KEPT_CHUNKS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::bucket::BucketStore;

    fn attempt(job: u64, task: u32) -> AttemptId {
        AttemptId { job: JobId(job), stage: 0, run: 0, task, attempt: 0 }
    }

    fn kept(store: &BucketStore, attempt: AttemptId, bytes: u64) -> Kept {
        let content = KeptContent::File(store.scratch(attempt.job).unwrap().close());
        Kept { attempt, content, chunks: vec![Chunk { bucket: 0, offset: 0, bytes }] }
    }

    fn files(folder: &tempfile::TempDir, job: u64) -> usize {
        std::fs::read_dir(folder.path().join(JobId(job).to_string()).join("scratch")).map_or(0, Iterator::count)
    }

    #[test]
    fn what_was_kept_longest_goes_when_there_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let store = BucketStore::new(folder.path().to_owned());
        for task in 0..3 {
            assert!(store.kept().keep(kept(&store, attempt(1, task), KEPT_BYTES_MAX / 2)));
        }
        assert!(store.kept().find(attempt(1, 0)).is_none());
        assert!(store.kept().find(attempt(1, 1)).is_some() && store.kept().find(attempt(1, 2)).is_some());
        assert_eq!(files(&folder, 1), 2);
        assert!(!store.kept().keep(kept(&store, attempt(1, 3), KEPT_BYTES_MAX + 1)));
        assert_eq!(files(&folder, 1), 2, "what cannot be kept is removed at once");
    }

    #[test]
    fn what_a_job_left_goes_with_the_job_and_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = BucketStore::new(folder.path().to_owned());
        for job in [1, 2] {
            store.kept().keep(kept(&store, attempt(job, 0), KEPT_BYTES_MAX / 2));
        }
        store.forget(JobId(1)).unwrap();
        assert!(store.kept().find(attempt(1, 0)).is_none());
        store.kept().keep(kept(&store, attempt(2, 1), KEPT_BYTES_MAX / 2));
        assert!(store.kept().find(attempt(2, 0)).is_some(), "there was room for it");
        assert_eq!(files(&folder, 2), 2);
    }
}
