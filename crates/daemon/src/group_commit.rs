//! Group commit: rows on their way to a disk. While one transaction is being synced, incoming batches are collected for
//! the next. So a hundred clients share a sync, and a single one does not wait. Every change of names, jobs and
//! accounts uses it. It does not know what a row is, and never changes the order of batches.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep_until},
};

use crate::metrics::{Readings, definitions};

/// The rows that wait for a disk, and those that are being written by a thread of their own.
pub struct GroupCommit<Batch, Row, Error> {
    commit: Arc<Commit<Row, Error>>,
    waiting: Vec<Row>,
    /// The newest batch in `waiting`.
    newest: Option<Batch>,
    writing: Option<(Batch, JoinHandle<Written<Row, Error>>)>,
    /// When the rows that could not be written are tried again.
    retry_at: Option<Instant>,
    begun: Instant,
    counters: CommitCounters,
}

/// What was written so far.
#[derive(Clone, Copy, Debug, Default)]
struct CommitCounters {
    saves: u64,
    rows: u64,
    took: Duration,
}

/// The rows of a transaction, and how it went.
type Written<Row, Error> = (Vec<Row>, Result<(), Error>);

/// Makes rows durable, all or none.
type Commit<Row, Error> = dyn Fn(&[Row]) -> Result<(), Error> + Send + Sync;

/// Why rows were not written. What is in memory is then ahead of the disk. The role must end, or tell nobody of it until
/// it is saved.
#[derive(Debug)]
pub enum CommitError<Error> {
    /// The disk, or whatever keeps the rows, refused. The rows wait, and the next [`GroupCommit::saved`] tries them again
    /// after a pause.
    Refused(Error),
    /// Writing panicked.
    Panicked,
}

impl<Batch: Copy, Row: Send + 'static, Error: Send + 'static> GroupCommit<Batch, Row, Error> {
    /// A group commit that makes rows durable with `commit`.
    pub fn new(commit: impl Fn(&[Row]) -> Result<(), Error> + Send + Sync + 'static) -> Self {
        Self {
            commit: Arc::new(commit),
            waiting: Vec::new(),
            newest: None,
            writing: None,
            retry_at: None,
            begun: Instant::now(),
            counters: CommitCounters::default(),
        }
    }

    /// Takes a batch.
    pub fn push(&mut self, batch: Batch, rows: Vec<Row>) {
        self.waiting.extend(rows);
        self.newest = Some(batch);
    }

    /// Writes the waiting rows, unless a write is under way; then they are written next. Called when no more batches
    /// are at hand.
    pub fn begin(&mut self) {
        if self.writing.is_some() || self.waiting.is_empty() || self.retry_at.is_some() {
            return;
        }
        let Some(newest) = self.newest else { return };
        let (commit, rows) = (Arc::clone(&self.commit), std::mem::take(&mut self.waiting));
        self.counters.rows += rows.len() as u64;
        self.begun = Instant::now();
        self.writing = Some((
            newest,
            spawn_blocking(move || {
                let outcome = commit(&rows);
                (rows, outcome)
            }),
        ));
    }

    /// Rows that wait for the next transaction.
    pub fn waiting_rows(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits and nothing is being written.
    pub fn is_idle(&self) -> bool {
        self.writing.is_none() && self.waiting.is_empty()
    }

    /// The next batch that is durable with all before it. Waits forever while nothing is being written; can be
    /// cancelled without loss.
    ///
    /// # Errors
    /// When the rows cannot be written. They are kept, and tried again a little later if this is called again.
    pub async fn saved(&mut self) -> Result<Batch, CommitError<Error>> {
        if let Some(at) = self.retry_at {
            sleep_until(at).await;
            self.retry_at = None;
            self.begin();
        }
        let Some((batch, writing)) = &mut self.writing else { return std::future::pending().await };
        let (batch, written) = (*batch, writing.await);
        self.writing = None;
        let (mut rows, outcome) = written.map_err(|_| CommitError::Panicked)?;
        if let Err(error) = outcome {
            rows.append(&mut self.waiting);
            self.waiting = rows;
            self.retry_at = Some(Instant::now() + RETRY_AFTER);
            return Err(CommitError::Refused(error));
        }
        self.counters.saves += 1;
        self.counters.took += self.begun.elapsed();
        self.begin();
        Ok(batch)
    }

    /// Says what was written so far, in a role's metrics.
    pub fn read(&self, readings: &mut Readings) {
        let CommitCounters { saves, rows, took } = self.counters;
        readings.set(&definitions::JOURNAL_SAVES, saves);
        readings.set(&definitions::JOURNAL_ROWS, rows);
        readings.set_seconds(&definitions::JOURNAL_SAVE_SECONDS, took.as_secs_f64());
    }
}

impl<Batch: fmt::Debug, Row, Error> fmt::Debug for GroupCommit<Batch, Row, Error> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCommit").field("waiting", &self.waiting.len()).field("newest", &self.newest).finish()
    }
}

/// When rows for which there was no room are tried again: soon after somebody has made some.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn batches_that_come_during_a_write_share_the_next_one_in_their_order() {
        let transactions = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&transactions);
        let mut commit = GroupCommit::new(move |rows: &[u8]| {
            written.lock().unwrap().push(rows.to_vec());
            Ok::<_, &str>(())
        });
        for batch in 1..=5_u8 {
            commit.push(batch, vec![batch]);
            if batch <= 2 {
                commit.begin();
            }
        }
        assert_eq!(commit.waiting_rows(), 4);
        assert_eq!(commit.saved().await.unwrap(), 1);
        assert!(!commit.is_idle());
        assert_eq!(commit.saved().await.unwrap(), 5);
        assert!(commit.is_idle());
        assert_eq!(*transactions.lock().unwrap(), [vec![1], vec![2, 3, 4, 5]]);
    }

    #[tokio::test(start_paused = true)]
    async fn rows_that_found_no_room_are_tried_again_before_those_that_came_later() {
        let transactions = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&transactions);
        let mut commit = GroupCommit::new(move |rows: &[u8]| {
            let mut written = written.lock().unwrap();
            written.push(rows.to_vec());
            if written.len() < 3 { Err("full") } else { Ok(()) }
        });
        commit.push(1, vec![1]);
        commit.begin();
        assert!(matches!(commit.saved().await, Err(CommitError::Refused("full"))));
        commit.push(2, vec![2]);
        commit.begin();
        assert!(!commit.is_idle());
        assert!(matches!(commit.saved().await, Err(CommitError::Refused("full"))));
        assert_eq!(commit.saved().await.unwrap(), 2);
        assert!(commit.is_idle());
        assert_eq!(*transactions.lock().unwrap(), [vec![1], vec![1, 2], vec![1, 2]]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_written_is_said_and_so_is_a_panic() {
        let mut commit = GroupCommit::new(|rows: &[u8]| if rows.contains(&2) { panic!("broken") } else { Err("full") });
        commit.push(1, vec![1]);
        commit.begin();
        assert!(matches!(commit.saved().await, Err(CommitError::Refused("full"))));
        commit.push(2, vec![2]);
        commit.begin();
        assert!(matches!(commit.saved().await, Err(CommitError::Panicked)));
    }
}
