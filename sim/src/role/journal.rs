//! The master's journal on a disk of the simulation: batches are written one transaction at a time, as
//! `daemon::group_commit` does. A crash keeps what was completed, loses what waited, and of the transaction that was
//! being written keeps all or nothing.

use std::{collections::BTreeMap, mem};

use fastrand::Rng;
use master::{BatchId, StoredRow};
use store::RowChange;

use crate::Sabotage;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    rows: Rows,
    waiting: Vec<RowChange>,
    newest: BatchId,
    writing: Option<(BatchId, Vec<RowChange>)>,
    /// Completed transactions that a sabotaged disk will forget.
    undo: Vec<Rows>,
    sabotage: Option<Sabotage>,
}

impl Journal {
    /// A journal, perhaps one that forgets what it had said was saved.
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self { sabotage, ..Self::default() }
    }

    /// Takes a batch; true when a write begins with it.
    pub(crate) fn push(&mut self, batch: BatchId, changes: Vec<RowChange>) -> bool {
        self.waiting.extend(changes);
        self.newest = batch;
        self.start()
    }

    /// The transaction being written is complete; gives its newest batch, and whether the next one begins.
    pub(crate) fn complete(&mut self) -> Option<(BatchId, bool)> {
        let (batch, changes) = self.writing.take()?;
        if self.sabotage == Some(Sabotage::JournalForgets) {
            self.undo.push(self.rows.clone());
            self.undo.drain(..self.undo.len().saturating_sub(FORGOTTEN_TRANSACTIONS));
        }
        self.apply(changes);
        Some((batch, self.start()))
    }

    /// The process died.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.waiting.clear();
        self.newest = BatchId(0);
        if let Some((_, changes)) = self.writing.take()
            && rng.bool()
        {
            self.apply(changes);
        }
        if let Some(older) = mem::take(&mut self.undo).into_iter().next() {
            self.rows = older;
        }
    }

    /// The disk is destroyed, and another one, empty, takes its place.
    pub(crate) fn lose(&mut self) {
        *self = Self::new(self.sabotage);
    }

    /// All rows, as a new process finds them.
    pub(crate) fn rows(&self) -> Vec<StoredRow> {
        let row = |((table, key), value): (&(&'static str, Vec<u8>), &Vec<u8>)| StoredRow {
            table,
            key: key.clone(),
            value: value.clone(),
        };
        let is_kept = |table: &str| self.sabotage != Some(Sabotage::VersionsAreForgotten) || table != "versions";
        self.rows.iter().filter(|((table, _), _)| is_kept(table)).map(row).collect()
    }

    fn start(&mut self) -> bool {
        if self.writing.is_some() || self.waiting.is_empty() {
            return false;
        }
        self.writing = Some((self.newest, mem::take(&mut self.waiting)));
        true
    }

    fn apply(&mut self, changes: Vec<RowChange>) {
        for change in changes {
            match change {
                RowChange::Set { table, key, value } => _ = self.rows.insert((table, key), value),
                RowChange::Remove { table, key } => _ = self.rows.remove(&(table, key)),
            }
        }
    }
}

/// Rows by table and key.
type Rows = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

/// Transactions that a sabotaged journal forgets in a crash.
const FORGOTTEN_TRANSACTIONS: usize = 8;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn set(key: u8) -> Vec<RowChange> {
        vec![RowChange::Set { table: "names", key: vec![key], value: vec![key] }]
    }

    #[test]
    fn a_crash_keeps_what_was_completed_and_never_a_part_of_a_batch() {
        for seed in 0..20 {
            let mut journal = Journal::new(None);
            assert!(journal.push(BatchId(1), set(1)));
            assert!(!journal.push(BatchId(2), [set(2), set(3)].concat()));
            assert_eq!(journal.complete(), Some((BatchId(1), true)));
            assert!(!journal.push(BatchId(3), set(4)));
            journal.crash(&mut Rng::with_seed(seed));
            let keys: Vec<_> = journal.rows().iter().map(|row| row.key[0]).collect();
            assert!(keys == [1] || keys == [1, 2, 3], "{keys:?}");
        }
    }

    #[test]
    fn a_sabotaged_journal_forgets_what_it_had_completed() {
        let mut journal = Journal::new(Some(Sabotage::JournalForgets));
        journal.push(BatchId(1), set(1));
        journal.complete();
        journal.crash(&mut Rng::with_seed(0));
        assert!(journal.rows().is_empty());
    }
}
