//! Rows of accounts on their way to the journal, written on a thread of their own where they hold up nobody. Serves every
//! change of accounts. Batches that come while one is being synced share the next transaction; their order never changes.

use std::sync::Arc;

use store::{Journal, RowChange, StoreError};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{SecurityError, saves::BatchId};

/// The journal, and what waits for it.
pub(crate) struct JournalWriter {
    /// Held also for its lock: nobody else changes the accounts while they are in this server's memory.
    journal: Arc<Journal>,
    /// Bounded by the questions under way: each changes a few rows and waits for its answer.
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

    /// Whether nothing waits and nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.writing.is_none() && self.waiting.is_empty()
    }

    /// The next batch that is durable with all before it. Waits forever while nothing is written; can be cancelled
    /// without loss.
    ///
    /// # Errors
    /// When the journal cannot be written: the accounts in memory are then ahead of the disk, and the server must end.
    pub(crate) async fn saved(&mut self) -> Result<BatchId, SecurityError> {
        let Some((batch, writing)) = &mut self.writing else { return std::future::pending().await };
        let batch = *batch;
        let written = writing.await;
        self.writing = None;
        written.map_err(|_| SecurityError::Panicked("wrote its accounts"))??;
        self.begin();
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn batches_are_written_in_order_and_those_that_came_meanwhile_together() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("accounts.redb");
        let mut writer = JournalWriter::new(Journal::open(&file).unwrap());
        for batch in 1..=3 {
            let value = vec![u8::try_from(batch).unwrap()];
            writer.push(BatchId(batch), vec![RowChange::Set { table: "users", key: b"ann".to_vec(), value }]);
            writer.begin();
        }
        assert_eq!(writer.saved().await.unwrap(), BatchId(1));
        assert!(!writer.is_idle());
        assert_eq!(writer.saved().await.unwrap(), BatchId(3));
        assert!(writer.is_idle());
        drop(writer);
        let mut values = Vec::new();
        Journal::open(&file).unwrap().load("users", &mut |_, value| values.push(value.to_vec())).unwrap();
        assert_eq!(values, [[3]]);
    }
}
