//! The results that tasks here have sent to buckets of other nodes, kept after sending. If such a bucket is lost with
//! its node, the piece is sent again and the task need not run again (Sector/Sphere paper, 3.5.2). [`RetainedOutputs`]
//! decides what is kept; this file has its bytes. It never promises to have anything: the oldest goes when there is too
//! much, and that task runs again.

use std::{
    os::unix::fs::FileExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use protocol::{JobId, message::spe::AttemptId};
use spe::Chunk;
use sphere::{RetainedOutputs, RetainedSize};

use super::scratch::{ClosedScratch, Scratch};
use crate::NodeError;

/// The kept results of a node. The paper (3.5.2) has "Each SPE dumps the result to local disk before attempting to send
/// the results to buckets on other nodes. In this way, if one node is down, the result can be sent to the same buckets
/// on other nodes".
#[derive(Debug, Default)]
pub struct RetainedResults {
    shelf: Mutex<RetainedOutputs<Arc<RetainedResult>>>,
}

/// What one attempt left.
#[derive(Debug)]
pub struct RetainedResult {
    /// Its bytes; removed with the last holder of this value.
    pub content: RetainedContent,
    /// Which part of it belongs to which bucket, in the order of the file.
    pub chunks: Vec<Chunk>,
}

/// Where the bytes of what was kept are.
#[derive(Debug)]
pub enum RetainedContent {
    /// In the scratch file of the attempt.
    File(ClosedScratch),
    /// In memory: the bytes are few, and their scratch file already serves another task.
    Memory(Arc<[u8]>),
}

impl RetainedResult {
    fn size(&self) -> RetainedSize {
        let memory_bytes = match &self.content {
            RetainedContent::File(_) => 0,
            RetainedContent::Memory(bytes) => bytes.len() as u64,
        };
        let bytes = self.chunks.iter().map(|chunk| chunk.bytes).sum();
        RetainedSize { bytes, chunks: self.chunks.len(), memory_bytes }
    }
}

impl RetainedResults {
    /// Keeps what an attempt left; false if it is larger than all results together may be.
    pub fn retain(&self, attempt: AttemptId, kept: RetainedResult) -> bool {
        let size = kept.size();
        let gone = self.lock().retain(attempt, size, Arc::new(kept));
        // The files of dropped results are removed here, where nobody waits for the lock.
        gone.is_ok()
    }

    /// The bytes of a scratch file up to `until`, if they are few enough to be kept in memory.
    pub(super) fn read_few(&self, scratch: &Scratch, until: u64) -> Option<Arc<[u8]>> {
        let has_room = self.lock().has_memory_for(until);
        let mut bytes = vec![0; has_room.then_some(until)? as usize];
        scratch.file().read_exact_at(&mut bytes, 0).ok()?;
        Some(bytes.into())
    }

    /// What an attempt left.
    ///
    /// # Errors
    /// When it is not here any more.
    pub fn find(&self, attempt: AttemptId) -> Result<Arc<RetainedResult>, NodeError> {
        self.lock().find(attempt).cloned().map_err(NodeError::Refused)
    }

    /// Removes all that a job's tasks left.
    pub(super) fn forget(&self, job: JobId) {
        let gone = self.lock().forget(job);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, RetainedOutputs<Arc<RetainedResult>>> {
        // Each change under this lock is complete in itself.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use sphere::retained_outputs::RETAINED_BYTES_MAX;

    use super::*;
    use crate::bucket::BucketStore;

    fn attempt(job: u64, task: u32) -> AttemptId {
        AttemptId { job: JobId(job), stage: 0, epoch: 0, task, attempt: 0 }
    }

    fn keep(store: &BucketStore, attempt: AttemptId, bytes: u64) -> bool {
        let content = RetainedContent::File(store.scratch(attempt.job).unwrap().close());
        store
            .retained()
            .retain(attempt, RetainedResult { content, chunks: vec![Chunk { bucket: 0, offset: 0, bytes }] })
    }

    fn files(folder: &tempfile::TempDir, job: u64) -> usize {
        std::fs::read_dir(folder.path().join(JobId(job).to_string()).join("scratch")).map_or(0, Iterator::count)
    }

    #[test]
    fn the_file_of_what_goes_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = BucketStore::new(folder.path().to_owned());
        for task in 0..3 {
            assert!(keep(&store, attempt(1, task), RETAINED_BYTES_MAX / 2));
        }
        assert!(store.retained().find(attempt(1, 0)).is_err());
        assert!(store.retained().find(attempt(1, 1)).is_ok() && store.retained().find(attempt(1, 2)).is_ok());
        assert_eq!(files(&folder, 1), 2);
        assert!(!keep(&store, attempt(1, 3), RETAINED_BYTES_MAX + 1));
        assert_eq!(files(&folder, 1), 2, "what cannot be kept is removed at once");
    }

    #[test]
    fn what_a_job_left_goes_with_the_job_and_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = BucketStore::new(folder.path().to_owned());
        for job in [1, 2] {
            keep(&store, attempt(job, 0), RETAINED_BYTES_MAX / 2);
        }
        store.forget(JobId(1)).unwrap();
        assert!(store.retained().find(attempt(1, 0)).is_err());
        keep(&store, attempt(2, 1), RETAINED_BYTES_MAX / 2);
        assert!(store.retained().find(attempt(2, 0)).is_ok(), "there was room for it");
        assert_eq!(files(&folder, 2), 2);
    }
}
