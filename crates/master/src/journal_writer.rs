//! Rows on their way to the journal. Serves every change of names and jobs. While one transaction is being synced, the
//! batches that come in are collected for the next: so a hundred clients share a sync, and a single one does not wait.
//! Never changes the order of batches.

use std::sync::Arc;

use store::{Journal, RowChange, StoreError};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{actions::BatchId, error::MasterError};

/// The journal, and what waits for it.
pub(crate) struct JournalWriter {
    journal: Arc<Journal>,
    waiting: Vec<RowChange>,
    /// The newest batch in `waiting`.
    newest: BatchId,
    writing: Option<(BatchId, JoinHandle<Result<(), StoreError>>)>,
}

impl JournalWriter {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { journal: Arc::new(journal), waiting: Vec::new(), newest: BatchId(0), writing: None }
    }

    /// Takes a batch.
    pub(crate) fn push(&mut self, batch: BatchId, changes: Vec<RowChange>) {
        self.waiting.extend(changes);
        self.newest = batch;
    }

    /// Writes what waits, unless the disk is at work; then it is written next. Called when no more batches are at hand.
    pub(crate) fn begin(&mut self) {
        if self.writing.is_some() || self.waiting.is_empty() {
            return;
        }
        let (journal, changes) = (Arc::clone(&self.journal), std::mem::take(&mut self.waiting));
        self.writing = Some((self.newest, spawn_blocking(move || journal.commit(&changes))));
    }

    /// Whether clients should be listened to: while false, what they change would only pile up here.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_ROWS_MAX
    }

    /// Whether nothing waits and nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.writing.is_none() && self.waiting.is_empty()
    }

    /// The next batch that is durable with all before it. Waits forever while nothing is written; can be cancelled
    /// without loss.
    ///
    /// # Errors
    /// When the journal cannot be written: the names in memory are then ahead of the disk, and the master must end.
    pub(crate) async fn saved(&mut self) -> Result<BatchId, MasterError> {
        let Some((batch, writing)) = &mut self.writing else { return std::future::pending().await };
        let batch = *batch;
        let written = writing.await;
        self.writing = None;
        match written {
            Ok(Ok(())) => {
                self.begin();
                Ok(batch)
            }
            Ok(Err(source)) => Err(MasterError::Journal { operation: "write", source }),
            Err(_) => Err(MasterError::Ended("journal")),
        }
    }
}

/// Rows that wait before clients have to: about 4 MiB. One batch may exceed it, such as the removal of a large folder.
const WAITING_ROWS_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn set(key: u8) -> Vec<RowChange> {
        vec![RowChange::Set { table: "names", key: vec![key], value: vec![key] }]
    }

    #[tokio::test]
    async fn batches_that_come_during_a_write_share_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.redb");
        let mut writer = JournalWriter::new(Journal::open(&file).unwrap());
        for batch in 1..=5 {
            writer.push(BatchId(u64::from(batch)), set(batch));
            if batch <= 2 {
                writer.begin();
            }
        }
        assert_eq!(writer.saved().await.unwrap(), BatchId(1));
        assert!(!writer.is_idle());
        assert_eq!(writer.saved().await.unwrap(), BatchId(5));
        assert!(writer.is_idle());
        drop(writer);
        let mut keys = Vec::new();
        let journal = Journal::open(&file).unwrap();
        journal.load("names", &mut |key, _| keys.push(key[0])).unwrap();
        assert_eq!(keys, [1, 2, 3, 4, 5]);
    }
}
