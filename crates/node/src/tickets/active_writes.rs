//! The slices that clients are writing here and their progress. The master is told, and revokes the right to write
//! where nothing arrives. Serves upload. It forgets a write as soon as its conversation ends, and never decides
//! anything.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use protocol::{
    SliceId,
    message::node_master::{INCOMING_WRITES_PAGE_MAX, IncomingWrite, Report},
};

/// All writes under way; there are never more of them than conversations.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveWrites(Arc<Mutex<BTreeMap<SliceId, Arc<WriteProgress>>>>);

/// The progress of one write.
#[derive(Debug, Default)]
struct WriteProgress {
    bytes: AtomicU64,
    /// Whether this node waits for the writer, and not the other way round.
    waits: AtomicBool,
}

/// One write under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct ActiveWrite {
    all: ActiveWrites,
    slice: SliceId,
    progress: Arc<WriteProgress>,
}

impl ActiveWrites {
    /// Registers a conversation in which this slice is written.
    pub(crate) fn begin(&self, slice: SliceId) -> ActiveWrite {
        let progress = Arc::new(WriteProgress::default());
        self.lock().insert(slice, Arc::clone(&progress));
        ActiveWrite { all: self.clone(), slice, progress }
    }

    /// The reports for the master; always at least one.
    pub(crate) fn reports(&self) -> Vec<Report> {
        let all: Vec<_> = self.lock().iter().map(|(slice, progress)| progress.of(*slice)).collect();
        if all.is_empty() {
            return vec![Report::IncomingWrite(all)];
        }
        all.chunks(INCOMING_WRITES_PAGE_MAX).map(|page| Report::IncomingWrite(page.to_vec())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SliceId, Arc<WriteProgress>>> {
        // Each change under this lock is complete in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriteProgress {
    fn of(&self, slice: SliceId) -> IncomingWrite {
        let (bytes, waits) = (self.bytes.load(Ordering::Relaxed), self.waits.load(Ordering::Relaxed));
        IncomingWrite { slice, bytes, at_work: !waits }
    }
}

impl ActiveWrite {
    /// From now on this node waits for bytes.
    pub(crate) fn mark_waiting(&self) {
        self.progress.waits.store(true, Ordering::Relaxed);
    }

    /// Bytes arrived; now it is the writer that waits.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.progress.waits.store(false, Ordering::Relaxed);
    }
}

impl Drop for ActiveWrite {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // A later conversation may have taken its place.
        if all.get(&self.slice).is_some_and(|progress| Arc::ptr_eq(progress, &self.progress)) {
            all.remove(&self.slice);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn told(arrivals: &ActiveWrites) -> Vec<IncomingWrite> {
        let pages = arrivals.reports().into_iter().map(|report| match report {
            Report::IncomingWrite(page) => page,
            other => panic!("{other:?}"),
        });
        pages.flatten().collect()
    }

    // Promise 3.
    #[test]
    fn a_write_is_told_with_its_bytes_and_who_waits_for_whom_until_it_ends() {
        let arrivals = ActiveWrites::default();
        assert_eq!(arrivals.reports(), [Report::IncomingWrite(Vec::new())]);
        let (slice, writing) = (SliceId(7), arrivals.begin(SliceId(7)));
        assert_eq!(told(&arrivals), [IncomingWrite { slice, bytes: 0, at_work: true }]);
        writing.mark_waiting();
        assert_eq!(told(&arrivals), [IncomingWrite { slice, bytes: 0, at_work: false }]);
        writing.add_bytes(5);
        writing.add_bytes(6);
        assert_eq!(told(&arrivals), [IncomingWrite { slice, bytes: 11, at_work: true }]);
        // The writer returns before its first connection is known to be gone.
        let again = arrivals.begin(slice);
        drop(writing);
        assert_eq!(told(&arrivals), [IncomingWrite { slice, bytes: 0, at_work: true }]);
        drop(again);
        assert!(told(&arrivals).is_empty());
    }

    #[test]
    fn many_writes_are_told_in_pages() {
        let arrivals = ActiveWrites::default();
        let many: Vec<_> =
            (0..=INCOMING_WRITES_PAGE_MAX as u128).map(|number| arrivals.begin(SliceId(number))).collect();
        assert_eq!((arrivals.reports().len(), told(&arrivals).len()), (2, many.len()));
    }
}
