//! Removes files some time after their last write, because a policy of a folder says so. Serves lifetimes. Whoever
//! calls takes one expired file after the other, from a queue ordered by time. It never walks over all files.

use protocol::{FileId, Now, SectorPath, Version};

use super::{Catalog, namespace::change::NamespaceChange, quota_table::StorageUsage};
use crate::log::events::audience::Audience;

impl Catalog {
    /// Notes when a file expires: it was written or moved, or its folders' policies have changed.
    pub(crate) fn note_lifetime(&mut self, file: FileId) {
        match self.end_of_life(file) {
            Some(end) => self.lifetimes.set(file, end),
            None => self.lifetimes.forget(file),
        }
    }

    /// Whether something is to be removed by time now.
    pub(crate) fn has_ended(&self, now: Now) -> bool {
        self.clock.limit(now).is_some_and(|limit| self.lifetimes.has_ended(limit))
            || self.trash.ends.has_ended(self.trash_limit(now))
    }

    /// When something is next removed by time, in milliseconds since the Unix epoch.
    pub(crate) fn next_end(&self) -> Option<u64> {
        self.trash.ends.next_end().into_iter().chain(self.lifetimes.next_end()).min()
    }

    /// Takes the next file that has expired, if there is any, and removes it as its owner would with `rm`. Nothing
    /// changed if the file lives on by now.
    pub(crate) fn expire_next(&mut self, now: Now) -> Option<Expiry> {
        let limit = self.clock.limit(now)?;
        let file = self.lifetimes.take_ended(limit)?;
        Some(self.expire(now, file, limit).unwrap_or_default())
    }

    fn expire(&mut self, now: Now, file: FileId, limit: u64) -> Option<Expiry> {
        // Its folders' policies may have changed since it was queued.
        match self.end_of_life(file)? {
            end if end > limit => {
                self.lifetimes.set(file, end);
                return None;
            }
            _ => {}
        }
        // A cut-off entry still has its old path, where another entry may stand by now.
        let path = self.names.path(file).filter(|path| self.names.find(path) == Some(file))?;
        let (audience, usage) = (self.audience(file), self.usage_below(file));
        let moved = self.discard(now, file, &path, false, false);
        let change = moved.or_else(|_| self.remove_entry(&path, false)).ok()?;
        tracing::info!(%path, "a file was removed at the end of its lifetime");
        Some(Expiry { change, removed: Some((path, audience, usage)) })
    }

    fn end_of_life(&self, file: FileId) -> Option<u64> {
        let may_end = self.policies.has_lifetimes() || self.memory_folder().is_some();
        if !may_end || self.names.content(file).is_none() || self.is_trash(file) {
            return None;
        }
        let seconds = self.effective_policy(file).into_policy().lifetime_seconds?;
        if self.is_unfinished_job_output(file) {
            return None;
        }
        let written = [self.names.modified(file)?, self.written(file)?].map(|date| self.clock.to_current_date(date));
        Some(written.into_iter().max()?.saturating_add(seconds.saturating_mul(1_000)))
    }

    /// The date of a file that is written now. A client may give the date of its last change, but no later one than now.
    pub(crate) fn date_of_write(&self, now: Now, version: Version, given_unix_millis: Option<u64>) -> u64 {
        let today = self.clock.date(now);
        match given_unix_millis {
            Some(given) if self.clock.is_date_of_write(version) => given.min(today),
            // Else a lifetime could be counted from nothing but the date that was given.
            _ => today,
        }
    }

    /// When a file was written: its own date may be that of a change long before. A version is a date too, unless
    /// versions are ahead of the clock: then the file has no date but the master's.
    fn written(&self, file: FileId) -> Option<u64> {
        Some(self.clock.written(self.names.content(file)?.version).unwrap_or(0))
    }
}

/// What became of a file whose lifetime may be over.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    pub(crate) change: NamespaceChange,
    /// Where it was, who could read it there, and what it took; `None` if it lives on.
    pub(crate) removed: Option<(SectorPath, Audience, StorageUsage)>,
}
