//! Removes files some time after their last write, because a policy of a folder says so. Also removes entries that have
//! been in the trash for long enough. Both run in steps between other work, from queues ordered by time. Except for the
//! sweep with which a master starts, it never walks over all files.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{FileId, Now};

use crate::{Master, log::journal_writes::Effect, replicas::reconcile::Sweep};

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

    fn set(&mut self, file: FileId, end: u64) {
        self.forget(file);
        self.queue.insert((end, file));
        self.ends.insert(file, end);
    }

    /// An expired file, taken out of the queue.
    fn take_ended(&mut self, unix_millis: u64) -> Option<FileId> {
        let file = self.queue.first().filter(|(end, _)| *end <= unix_millis).map(|(_, file)| *file)?;
        self.forget(file);
        Some(file)
    }

    fn has_ended(&self, unix_millis: u64) -> bool {
        self.queue.first().is_some_and(|(end, _)| *end <= unix_millis)
    }
}

impl Master {
    /// Notes when a file expires: it was written or moved, or its folders' policies have changed.
    pub(crate) fn note_lifetime(&mut self, file: FileId) {
        match self.end_of_life(file) {
            Some(end) => self.lifetimes.set(file, end),
            None => self.lifetimes.forget(file),
        }
    }

    /// Begins to remove expired files, if there are any.
    pub(crate) fn begin_expiry(&mut self, now: Now) {
        let is_under_way = self.sweeps.iter().any(|sweep| matches!(sweep, Sweep::Expire(_)));
        let has_ended = self.clock.limit(now).is_some_and(|limit| self.lifetimes.has_ended(limit));
        let has_ended = has_ended || self.trash.has_ended(self.trash_limit(now));
        if has_ended && !is_under_way {
            self.sweeps.push_back(Sweep::Expire(TICK_REMOVALS_MAX));
        }
    }

    /// Removes some expired files, `left` at most before the next tick.
    pub(crate) fn sweep_expired(&mut self, now: Now, left: usize) -> Option<Sweep> {
        let step = left.min(EXPIRY_STEP);
        let mut done = 0;
        while done < step
            && let Some(limit) = self.clock.limit(now)
            && let Some(file) = self.lifetimes.take_ended(limit)
        {
            self.expire(now, file, limit);
            done += 1;
        }
        done += self.purge(now, step - done);
        (done > 0 && left > done).then(|| Sweep::Expire(left - done))
    }

    /// Removes a file as its owner would with `rm`.
    fn expire(&mut self, now: Now, file: FileId, limit: u64) {
        // Its folders' policies may have changed since it was queued.
        match self.end_of_life(file) {
            None => return,
            Some(end) if end > limit => return self.lifetimes.set(file, end),
            Some(_) => {}
        }
        // A cut-off entry still has its old path, where another entry may stand by now.
        let Some(path) = self.names.path(file).filter(|path| self.names.find(path) == Some(file)) else { return };
        let moved = self.discard(now, file, &path, false, false);
        let Ok(change) = moved.or_else(|_| self.remove_entry(&path, false)) else { return };
        tracing::info!(%path, "a file was removed at the end of its lifetime");
        let slices = self.names.content(file).map(|content| content.slice).into_iter().chain(change.freed);
        let effects = slices.map(Effect::Reconcile).collect();
        self.save(now, change.rows, effects);
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
        Some(self.clock.to_current_date(self.names.modified(file)?).saturating_add(seconds.saturating_mul(1_000)))
    }
}

/// Entries removed in one step: a few milliseconds.
const EXPIRY_STEP: usize = 64;
/// Entries removed from one tick to the next: some two thousand a second. That leaves a journal on a slow disk room for
/// clients' work.
const TICK_REMOVALS_MAX: usize = 1_024;
