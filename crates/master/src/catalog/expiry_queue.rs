//! When files expire: a queue by time. Serves lifetimes. It never decides how long a file lives.

use std::collections::{BTreeMap, BTreeSet};

use protocol::FileId;

/// When files expire.
#[derive(Debug, Default)]
pub(crate) struct Lifetimes {
    /// By expiry, in milliseconds since the Unix epoch.
    queue: BTreeSet<(u64, FileId)>,
    ends: BTreeMap<FileId, u64>,
}

impl Lifetimes {
    /// Forgets a file that is gone, or no longer expires.
    pub(crate) fn forget(&mut self, file: FileId) {
        if let Some(end) = self.ends.remove(&file) {
            self.queue.remove(&(end, file));
        }
    }

    /// Whether no file expires.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn set(&mut self, file: FileId, end: u64) {
        self.forget(file);
        self.queue.insert((end, file));
        self.ends.insert(file, end);
    }

    /// An expired file, taken out of the queue.
    pub(super) fn take_ended(&mut self, unix_millis: u64) -> Option<FileId> {
        let file = self.queue.first().filter(|(end, _)| *end <= unix_millis).map(|(_, file)| *file)?;
        self.forget(file);
        Some(file)
    }

    /// When the next file expires, in milliseconds since the Unix epoch.
    pub(super) fn next_end(&self) -> Option<u64> {
        self.queue.first().map(|(end, _)| *end)
    }

    pub(super) fn has_ended(&self, unix_millis: u64) -> bool {
        self.queue.first().is_some_and(|(end, _)| *end <= unix_millis)
    }
}
