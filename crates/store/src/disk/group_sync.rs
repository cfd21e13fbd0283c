//! One sync of a folder for all callers that need it at about the same time. Many small slices finish at once and each
//! needs `staging/` synced; one sync covers every rename done before it began. It never lets a caller go before such a
//! sync has ended.

use std::{
    io,
    sync::{Condvar, Mutex, PoisonError},
};

use crate::locking::lock;

/// Shares the syncs of one folder.
#[derive(Default)]
pub(crate) struct GroupSync {
    state: Mutex<State>,
    ended: Condvar,
}

/// Syncs are numbered from 1 in the order they begin; one runs at a time.
#[derive(Default)]
struct State {
    begun: u64,
    ended: u64,
    /// The newest sync that failed, and its error. 0: none.
    failed: u64,
    failure: Option<io::ErrorKind>,
}

impl GroupSync {
    /// Returns when a sync that began after this call has ended; runs it, unless another caller does.
    pub(crate) fn sync(&self, run: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = lock(&self.state);
        // A running sync may have begun before the caller's rename, so the next one counts.
        let wanted = state.begun + 1;
        while state.ended < wanted {
            if state.begun == state.ended {
                state.begun += 1;
                drop(state);
                let outcome = run();
                let mut state = lock(&self.state);
                state.ended = state.begun;
                if let Err(error) = &outcome {
                    state.failed = state.ended;
                    state.failure = Some(error.kind());
                }
                self.ended.notify_all();
                return outcome;
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.failure {
            // The system reports a failed sync only once. All callers that shared it must get the error, and not retry
            // and believe the second answer. (A later sync may have failed instead; the caller then fails needlessly.)
            Some(kind) if state.failed >= wanted => Err(kind.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        sync::{
            Barrier,
            atomic::{AtomicU64, Ordering},
        },
        thread,
    };

    use super::*;

    #[test]
    fn everyone_is_covered_by_a_sync_that_began_after_they_asked() {
        let shared = GroupSync::default();
        let (written, synced) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        let run = || {
                            let covered = written.load(Ordering::SeqCst);
                            thread::yield_now();
                            synced.fetch_max(covered, Ordering::SeqCst);
                            Ok(())
                        };
                        shared.sync(run).unwrap();
                        assert!(synced.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
    }

    #[test]
    fn those_who_share_a_failed_sync_fail_and_the_next_one_counts_anew() {
        let shared = GroupSync::default();
        let runs = AtomicU64::new(0);
        let (first_runs, others_wait) = (Barrier::new(2), Barrier::new(2));
        let full = || {
            runs.fetch_add(1, Ordering::SeqCst);
            Err(io::ErrorKind::StorageFull.into())
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let run = || {
                    first_runs.wait();
                    others_wait.wait();
                    Ok(())
                };
                shared.sync(run).unwrap();
            });
            first_runs.wait();
            let others: Vec<_> = (0..4).map(|_| scope.spawn(|| shared.sync(full))).collect();
            others_wait.wait();
            for other in others {
                assert_eq!(other.join().unwrap().unwrap_err().kind(), io::ErrorKind::StorageFull);
            }
        });
        assert!((1..=4).contains(&runs.load(Ordering::SeqCst)));
        shared.sync(|| Ok(())).unwrap();
    }
}
