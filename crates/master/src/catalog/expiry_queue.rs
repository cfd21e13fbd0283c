//! When entries end: a queue by time. Serves lifetimes and the trash. It never decides how long an entry lives.

use std::collections::{BTreeMap, BTreeSet};

use protocol::FileId;

/// When entries end.
#[derive(Debug, Default)]
pub(crate) struct ExpiryQueue {
    /// By end, in milliseconds since the Unix epoch.
    queue: BTreeSet<(u64, FileId)>,
    ends: BTreeMap<FileId, u64>,
}

impl ExpiryQueue {
    /// Forgets an entry that is gone, or no longer ends.
    pub(crate) fn forget(&mut self, file: FileId) {
        if let Some(end) = self.ends.remove(&file) {
            self.queue.remove(&(end, file));
        }
    }

    /// Whether no entry ends.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn set(&mut self, file: FileId, end: u64) {
        self.forget(file);
        self.queue.insert((end, file));
        self.ends.insert(file, end);
    }

    /// The entry that ended first, if any has.
    pub(super) fn ended(&self, unix_millis: u64) -> Option<FileId> {
        self.queue.first().filter(|(end, _)| *end <= unix_millis).map(|(_, file)| *file)
    }

    /// The same, taken out of the queue.
    pub(super) fn take_ended(&mut self, unix_millis: u64) -> Option<FileId> {
        let file = self.ended(unix_millis)?;
        self.forget(file);
        Some(file)
    }

    /// When the next entry ends, in milliseconds since the Unix epoch.
    pub(super) fn next_end(&self) -> Option<u64> {
        self.queue.first().map(|(end, _)| *end)
    }

    pub(super) fn has_ended(&self, unix_millis: u64) -> bool {
        self.ended(unix_millis).is_some()
    }
}
