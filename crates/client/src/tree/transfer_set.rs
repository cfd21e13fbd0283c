//! Carries out the transfers of a plan, several at once, and collects what became of them (path:
//! `docs/paths/tree.md`). Dropping it ends what is under way. It never decides how many run at once: the window does.

use std::{collections::BTreeMap, io, path::PathBuf};

use protocol::message::client_master::{Entry, EntryKind};
use tokio::task::{Id, JoinError, JoinSet};

use super::{
    in_flight::InFlightWindow,
    outcome::{FailedFile, TransferredFile, TreeEvent, TreeObserver, TreeOutcome},
};
use crate::ClientError;

/// One file to transfer.
pub(super) struct FileTransfer<F> {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    pub(super) bytes: u64,
    /// Does it. In a box: by value, it is large enough to fill a thread's stack where nothing is optimised.
    pub(super) work: F,
}

/// How a transfer ended well.
pub(super) struct TransferEnd {
    pub(super) entry: Entry,
    /// It was there before.
    pub(super) is_skipped: bool,
}

/// Carries out all transfers, as many at once as `files_max` says at each moment. Once a disk of this machine is full, no
/// further one begins: each would fail.
pub(super) async fn run_all<F>(
    transfers: impl Iterator<Item = FileTransfer<F>> + Send,
    files_max: impl Fn() -> usize + Send + Sync,
    observer: &TreeObserver,
) -> TreeOutcome
where
    F: Future<Output = Result<TransferEnd, ClientError>> + Send + 'static,
{
    let mut set = TransferSet::new(observer);
    for (number, transfer) in transfers.enumerate() {
        while !set.window.has_room(transfer.bytes, files_max()) {
            set.wait_for_one().await;
        }
        if set.is_disk_full {
            set.not_begun += 1;
        } else {
            set.start(number, transfer);
        }
    }
    while !set.running.is_empty() {
        set.wait_for_one().await;
    }
    set.into_outcome()
}

/// The transfers under way and those that have ended.
struct TransferSet<'a> {
    observer: &'a TreeObserver,
    window: InFlightWindow,
    running: JoinSet<Result<TransferEnd, ClientError>>,
    /// The files under way, by their tasks.
    files: BTreeMap<Id, FileInFlight>,
    /// By their numbers in the plan.
    done: BTreeMap<usize, TransferredFile>,
    failures: Vec<FailedFile>,
    is_disk_full: bool,
    not_begun: usize,
}

/// A file under way.
struct FileInFlight {
    number: usize,
    from: PathBuf,
    to: PathBuf,
    bytes: u64,
}

impl<'a> TransferSet<'a> {
    fn new(observer: &'a TreeObserver) -> Self {
        Self {
            observer,
            window: InFlightWindow::default(),
            running: JoinSet::new(),
            files: BTreeMap::new(),
            done: BTreeMap::new(),
            failures: Vec::new(),
            is_disk_full: false,
            not_begun: 0,
        }
    }

    fn start<F>(&mut self, number: usize, transfer: FileTransfer<F>)
    where
        F: Future<Output = Result<TransferEnd, ClientError>> + Send + 'static,
    {
        let FileTransfer { from, to, bytes, work } = transfer;
        self.window.begin(bytes);
        let task = self.running.spawn(work);
        self.files.insert(task.id(), FileInFlight { number, from, to, bytes });
    }

    async fn wait_for_one(&mut self) {
        let Some(ended) = self.running.join_next_with_id().await else { return };
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(error) => (error.id(), Err(ended_early(error))),
        };
        let Some(FileInFlight { number, from, to, bytes }) = self.files.remove(&id) else { return };
        self.window.end(bytes);
        match result {
            Ok(TransferEnd { entry, is_skipped }) => {
                // Nobody knew how much would come out of a pipe.
                let bytes = match &entry.kind {
                    EntryKind::File(content) => content.bytes,
                    EntryKind::Folder => bytes,
                };
                let file = TransferredFile { from, to, bytes, is_skipped, entry };
                (self.observer)(TreeEvent::Done(&file));
                self.done.insert(number, file);
            }
            Err(error) => {
                self.is_disk_full |= error.is_full_disk_here();
                let failed = FailedFile { from, to, error };
                (self.observer)(TreeEvent::Failed(&failed));
                self.failures.push(failed);
            }
        }
    }

    fn into_outcome(self) -> TreeOutcome {
        TreeOutcome {
            files: self.done.into_values().collect(),
            failures: self.failures,
            kept_bytes: 0,
            not_begun: self.not_begun,
        }
    }
}

/// The task of a file panicked.
fn ended_early(error: JoinError) -> ClientError {
    ClientError::Stream { what: "finish a transfer", source: io::Error::other(error) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        path::Path,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use protocol::{FileId, SectorPath, Status, UserName};
    use tokio::time::{Instant, sleep};

    use super::{super::in_flight::files_at_once, *};

    fn end() -> TransferEnd {
        let entry = Entry {
            path: SectorPath::root(),
            id: FileId(1),
            owner: UserName::new("alice").unwrap(),
            modified_unix_millis: 0,
            kind: EntryKind::Folder,
            nodes: vec![],
            has_acl: false,
        };
        TransferEnd { entry, is_skipped: false }
    }

    fn transfer<F>(number: usize, bytes: u64, work: F) -> FileTransfer<F> {
        FileTransfer { from: format!("from/{number}").into(), to: format!("/to/{number}").into(), bytes, work }
    }

    fn unobserved() -> TreeObserver {
        Arc::new(|_| ())
    }

    /// How many files were in flight at most, and how long all took, if each takes six round trips.
    async fn flown(files: usize, bytes: u64, round_trip: Duration) -> (usize, Duration) {
        let (now, most, began) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Instant::now());
        let transfers = (0..files).map(|number| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            transfer(number, bytes, async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(round_trip * 6).await;
                now.fetch_sub(1, Ordering::Relaxed);
                Ok(end())
            })
        });
        let outcome = run_all(transfers, || files_at_once(Some(round_trip)), &unobserved()).await;
        assert_eq!(outcome.files.len(), files);
        (most.load(Ordering::Relaxed), began.elapsed())
    }

    // Promise 56.
    #[tokio::test(start_paused = true)]
    async fn a_thousand_files_of_a_megabyte_do_not_wait_for_round_trips_of_100_ms() {
        let (most, span) = flown(1_000, 1_000_000, Duration::from_millis(100)).await;
        assert_eq!(most, 128);
        assert!(span < Duration::from_secs(8), "a gigabyte at a gigabit a second takes longer: {span:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn near_by_fewer_are_under_way_and_large_ones_only_as_many_as_memory_allows() {
        assert_eq!(flown(200, 1_000, Duration::from_micros(500)).await.0, 32);
        assert_eq!(flown(200, 1 << 30, Duration::from_millis(300)).await.0, 32);
        assert_eq!(flown(3, 1 << 40, Duration::from_millis(1)).await.0, 3);
    }

    #[tokio::test]
    async fn what_fails_is_told_at_once_and_holds_up_nothing() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let observer: TreeObserver = {
            let told = Arc::clone(&told);
            Arc::new(move |event| {
                if let TreeEvent::Failed(failed) = event {
                    told.lock().unwrap().push(failed.from.clone());
                }
            })
        };
        let transfers = (0..40).map(|number| {
            transfer(number, 1, async move {
                match number {
                    3 => Err(ClientError::Corrupt { path: SectorPath::root() }),
                    5 => panic!("a bug"),
                    _ => Ok(end()),
                }
            })
        });
        let outcome = run_all(transfers, || 8, &observer).await;
        let numbers: Vec<_> = outcome.files.iter().map(|file| file.from.clone()).collect();
        let expected = (0..40).filter(|number| ![3, 5].contains(number)).map(|number| format!("from/{number}").into());
        assert_eq!(numbers, expected.collect::<Vec<PathBuf>>(), "in the order of the plan");
        let mut failed: Vec<_> = outcome.failures.iter().map(|failed| failed.from.clone()).collect();
        assert_eq!(*told.lock().unwrap(), failed);
        failed.sort();
        assert_eq!(failed, [PathBuf::from("from/3"), PathBuf::from("from/5")]);
        let statuses: Vec<_> = outcome.failures.iter().map(|failed| failed.error.status()).collect();
        assert!(statuses.contains(&Status::Corrupt) && statuses.contains(&Status::Failed), "{statuses:?}");
        assert!(outcome.into_result().is_err());
    }

    #[tokio::test]
    async fn a_full_disk_here_fails_for_those_under_way_and_the_others_do_not_begin() {
        let tried = Arc::new(AtomicUsize::new(0));
        let transfers = (0..1_000).map(|number| {
            let tried = Arc::clone(&tried);
            transfer(number, 1, async move {
                tried.fetch_add(1, Ordering::Relaxed);
                match number {
                    0..20 => Ok(end()),
                    _ => Err(ClientError::file("write", Path::new("/to"))(io::ErrorKind::StorageFull.into())),
                }
            })
        });
        let outcome = run_all(transfers, || 8, &unobserved()).await;
        let (failed, tried) = (outcome.failures.len(), tried.load(Ordering::Relaxed));
        assert!(outcome.files.len() == 20 && (1..=8).contains(&failed), "{failed}");
        assert_eq!((tried, outcome.not_begun), (20 + failed, 1_000 - tried));
    }
}
