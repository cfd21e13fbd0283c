//! What tasks have left at their node for buckets of other nodes, kept after it was sent (Sector/Sphere paper, 3.5.2).
//! If such a bucket is lost with its node, the piece is sent again, and the task need not run again. The rules here
//! decide what is kept; callers store the bytes. It never promises to have anything: the oldest goes when there is too
//! much, and then the task runs again.

use std::collections::VecDeque;

use protocol::{JobId, Reason, Refusal, message::spe::AttemptId};

/// What attempts of tasks left at one node, oldest first.
#[derive(Debug)]
pub struct RetainedOutputs<T> {
    all: VecDeque<(AttemptId, RetainedSize, T)>,
    total: RetainedSize,
}

/// How much room a kept result takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetainedSize {
    /// Its length in bytes.
    pub bytes: u64,
    /// How many chunks are recorded for it.
    pub chunks: usize,
    /// How many of its bytes are in memory.
    pub memory_bytes: u64,
}

impl<T> Default for RetainedOutputs<T> {
    fn default() -> Self {
        Self { all: VecDeque::new(), total: RetainedSize::default() }
    }
}

impl<T> RetainedOutputs<T> {
    /// Keeps what an attempt left; gives back what has to go for it.
    ///
    /// # Errors
    /// The content itself, if it is larger than may be kept at all.
    pub fn retain(&mut self, attempt: AttemptId, size: RetainedSize, content: T) -> Result<Vec<T>, T> {
        if size.bytes > RETAINED_BYTES_MAX || size.chunks > RETAINED_CHUNKS_MAX {
            return Err(content);
        }
        self.total.bytes += size.bytes;
        self.total.chunks += size.chunks;
        self.total.memory_bytes += size.memory_bytes;
        self.all.push_back((attempt, size, content));
        let mut gone = Vec::new();
        while self.total.bytes > RETAINED_BYTES_MAX || self.total.chunks > RETAINED_CHUNKS_MAX {
            let Some((_, size, oldest)) = self.all.pop_front() else { break };
            self.count_out(size);
            gone.push(oldest);
        }
        Ok(gone)
    }

    /// Whether this many bytes are few enough to be kept in memory.
    pub fn has_memory_for(&self, bytes: u64) -> bool {
        bytes <= MEMORY_ITEM_BYTES_MAX && self.total.memory_bytes + bytes <= MEMORY_BYTES_MAX
    }

    /// What an attempt left.
    ///
    /// # Errors
    /// When it is not here any more.
    pub fn find(&self, attempt: AttemptId) -> Result<&T, Refusal> {
        let found = self.all.iter().find(|(of, ..)| *of == attempt).map(|(.., content)| content);
        found.ok_or_else(|| {
            let AttemptId { task, attempt, .. } = attempt;
            Refusal::new(Reason::NotFound, format!("what attempt {attempt} of task {task} left is not kept any more"))
        })
    }

    /// A job is over: gives back everything that its tasks left.
    pub fn forget(&mut self, job: JobId) -> Vec<T> {
        let mut gone = Vec::new();
        for (attempt, size, content) in std::mem::take(&mut self.all) {
            if attempt.job == job {
                self.count_out(size);
                gone.push(content);
            } else {
                self.all.push_back((attempt, size, content));
            }
        }
        gone
    }

    fn count_out(&mut self, size: RetainedSize) {
        self.total.bytes -= size.bytes;
        self.total.chunks -= size.chunks;
        self.total.memory_bytes -= size.memory_bytes;
    }
}

/// Most bytes kept. Data that is removed soon after it was written mostly never reaches the disk. Keeping more would
/// cost every job disk time for the sake of the few that lose a node.
pub const RETAINED_BYTES_MAX: u64 = 256 << 20;
/// Most bytes of one attempt kept in memory: longer ones are worth a file.
pub const MEMORY_ITEM_BYTES_MAX: u64 = 64 << 10;
/// Most bytes kept in memory: a thousand tasks of that size.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Most chunks recorded, at 24 bytes each: 24 MB.
const RETAINED_CHUNKS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Status;

    fn attempt(job: u64, task: u32) -> AttemptId {
        AttemptId { job: JobId(job), stage: 0, epoch: 0, task, attempt: 0 }
    }

    fn long(bytes: u64) -> RetainedSize {
        RetainedSize { bytes, chunks: 1, memory_bytes: 0 }
    }

    #[test]
    fn what_was_kept_longest_goes_when_there_is_too_much() {
        let mut shelf = RetainedOutputs::default();
        assert_eq!(shelf.retain(attempt(1, 0), long(RETAINED_BYTES_MAX / 2), 0), Ok(vec![]));
        assert_eq!(shelf.retain(attempt(1, 1), long(RETAINED_BYTES_MAX / 2), 1), Ok(vec![]));
        assert_eq!(shelf.retain(attempt(1, 2), long(RETAINED_BYTES_MAX), 2), Ok(vec![0, 1]));
        assert_eq!(shelf.find(attempt(1, 0)).map_err(|refusal| refusal.status()), Err(Status::NotFound));
        assert_eq!(shelf.find(attempt(1, 2)), Ok(&2));
        assert_eq!(shelf.retain(attempt(1, 3), long(RETAINED_BYTES_MAX + 1), 3), Err(3));
        assert_eq!(shelf.find(attempt(1, 2)), Ok(&2), "nothing goes for what cannot be kept");
        let many = RetainedSize { chunks: RETAINED_CHUNKS_MAX, ..long(0) };
        assert_eq!(shelf.retain(attempt(1, 4), many, 4), Ok(vec![2]));
    }

    #[test]
    fn what_a_job_left_goes_with_the_job_and_makes_room() {
        let mut shelf = RetainedOutputs::default();
        for job in [1, 2] {
            assert_eq!(shelf.retain(attempt(job, 0), long(RETAINED_BYTES_MAX / 2), job), Ok(vec![]));
        }
        assert_eq!(shelf.forget(JobId(1)), vec![1]);
        assert_eq!(shelf.retain(attempt(2, 1), long(RETAINED_BYTES_MAX / 2), 3), Ok(vec![]), "there was room for it");
        assert!(shelf.find(attempt(1, 0)).is_err() && shelf.find(attempt(2, 0)).is_ok());
    }

    #[test]
    fn few_bytes_are_kept_in_memory_while_there_is_room() {
        let mut shelf = RetainedOutputs::default();
        assert!(shelf.has_memory_for(MEMORY_ITEM_BYTES_MAX) && !shelf.has_memory_for(MEMORY_ITEM_BYTES_MAX + 1));
        let small = RetainedSize { bytes: MEMORY_ITEM_BYTES_MAX, chunks: 1, memory_bytes: MEMORY_ITEM_BYTES_MAX };
        for task in 0..(MEMORY_BYTES_MAX / MEMORY_ITEM_BYTES_MAX) as u32 {
            assert!(shelf.has_memory_for(MEMORY_ITEM_BYTES_MAX));
            assert_eq!(shelf.retain(attempt(1, task), small, ()), Ok(vec![]));
        }
        assert!(!shelf.has_memory_for(1));
        shelf.forget(JobId(1));
        assert!(shelf.has_memory_for(1));
    }
}
