//! The master's journal: the real one (redb) on a simulated disk. Batches are written one transaction at a time, as
//! `daemon::group_commit` does. A crash loses waiting batches and tears the open transaction. The disk may fail, be
//! full, or be lost. Without sabotage, a crash never loses a completed transaction.

use std::{mem, path::Path, sync::Arc};

use fastrand::Rng;
use master::{BatchId, StoredRow, TABLES};
use store::{Disk, MemoryDisk, RowChange, StoreError};

use crate::Sabotage;

/// See the module.
pub(crate) struct Journal {
    disk: MemoryDisk,
    /// The open file, while the process lives.
    open: Option<store::Journal>,
    /// Whether it was ever opened.
    is_made: bool,
    waiting: Vec<RowChange>,
    newest: BatchId,
    writing: Option<(BatchId, Vec<RowChange>)>,
    /// Copies of the file that a sabotaged disk will come back with, the oldest first.
    older: Vec<Vec<u8>>,
    sabotage: Option<Sabotage>,
}

impl Journal {
    /// A journal, perhaps one that forgets changes it reported as saved.
    pub(crate) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        Self {
            disk: MemoryDisk::new(seed),
            open: None,
            is_made: false,
            waiting: Vec::new(),
            newest: BatchId(0),
            writing: None,
            older: Vec::new(),
            sabotage,
        }
    }

    /// Opens the file and returns all rows, as a new process finds them.
    ///
    /// # Errors
    /// Those of the real journal.
    pub(crate) fn open(&mut self) -> Result<Vec<StoredRow>, StoreError> {
        let journal = store::Journal::open_on(Arc::new(self.disk.clone()), Path::new(FILE))?;
        self.is_made = true;
        let is_kept = |table: &str| self.sabotage != Some(Sabotage::VersionsAreForgotten) || table != "versions";
        let mut rows = Vec::new();
        for table in TABLES.into_iter().filter(|table| is_kept(table)) {
            let mut take =
                |key: &[u8], value: &[u8]| rows.push(StoredRow { table, key: key.to_vec(), value: value.to_vec() });
            journal.load(table, &mut take)?;
        }
        self.open = Some(journal);
        Ok(rows)
    }

    /// Takes a batch; true when a write begins with it.
    pub(crate) fn push(&mut self, batch: BatchId, changes: Vec<RowChange>) -> bool {
        self.waiting.extend(changes);
        self.newest = batch;
        self.start()
    }

    /// Ends the open transaction; returns its newest batch, and whether the next one begins.
    ///
    /// # Errors
    /// Those of the disk: nobody knows whether it was written, and the process must end.
    pub(crate) fn complete(&mut self) -> Result<Option<(BatchId, bool)>, StoreError> {
        let (Some((batch, changes)), Some(journal)) = (self.writing.take(), &self.open) else { return Ok(None) };
        if self.sabotage == Some(Sabotage::JournalForgets) && batch.0 % FORGOTTEN_BATCHES == 0 {
            self.older.push(self.copy());
            self.older.drain(..self.older.len().saturating_sub(2));
        }
        journal.commit(&changes)?;
        Ok(Some((batch, self.start())))
    }

    /// The process died.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.waiting.clear();
        self.newest = BatchId(0);
        if let (Some((_, changes)), Some(journal), true) = (self.writing.take(), &self.open, rng.bool()) {
            self.disk.power_off_after(rng.u64(..TORN_CHANGES_MAX));
            let _ = journal.commit(&changes);
        }
        // The disk first: later actions of the dying process have no effect on it.
        self.disk = self.disk.crash();
        self.open = None;
        if let Some(older) = mem::take(&mut self.older).into_iter().next() {
            self.put_back(&older);
        }
    }

    /// The disk is destroyed, and another one, empty, takes its place.
    pub(crate) fn lose(&mut self, seed: u64) {
        *self = Self::new(seed, self.sabotage);
    }

    /// Whether there ever was a complete journal on the disk.
    pub(crate) fn is_made(&self) -> bool {
        self.is_made
    }

    /// The disk, to let it fail.
    pub(crate) fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    /// The file as it is now: what a backup takes between two transactions.
    pub(crate) fn copy(&self) -> Vec<u8> {
        let read = || {
            let file = self.disk.open_to_read(Path::new(FILE))?;
            let mut bytes = vec![0; usize::try_from(file.bytes()?).unwrap_or(0)];
            file.read_at(&mut bytes, 0).map(|_| bytes)
        };
        read().unwrap_or_default()
    }

    /// Replaces the file by such a copy. The process must be dead. Tried again after an error of the disk, as an operator
    /// would: otherwise the journal would not be the one that the model believes in.
    pub(crate) fn put_back(&self, copy: &[u8]) {
        let write = || {
            let _ = self.disk.remove_file(Path::new(FILE));
            let file = self.disk.create(Path::new(FILE))?;
            file.write_all_at(copy, 0)?;
            file.sync_data()?;
            self.disk.sync_folder(Path::new("/"))
        };
        let _: std::io::Result<()> = write().or_else(|_| write());
    }

    fn start(&mut self) -> bool {
        if self.writing.is_some() || self.waiting.is_empty() {
            return false;
        }
        self.writing = Some((self.newest, mem::take(&mut self.waiting)));
        true
    }
}

/// The journal's file on its disk.
const FILE: &str = "/journal.redb";
/// A sabotaged journal forgets at least the last of this many batches in a crash.
const FORGOTTEN_BATCHES: u64 = 16;
/// Changes of the disk within one transaction: rather too many than too few, so that some are torn at each place.
const TORN_CHANGES_MAX: u64 = 24;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn set(key: u8) -> Vec<RowChange> {
        vec![RowChange::Set { table: "names", key: vec![key], value: vec![key] }]
    }

    #[test]
    fn a_crash_keeps_what_was_completed_and_never_a_part_of_a_batch() {
        for seed in 0..40 {
            let mut journal = Journal::new(seed, None);
            assert!(journal.open().unwrap().is_empty());
            assert!(journal.push(BatchId(1), set(1)));
            assert!(!journal.push(BatchId(2), [set(2), set(3)].concat()));
            assert_eq!(journal.complete().unwrap(), Some((BatchId(1), true)));
            assert!(!journal.push(BatchId(3), set(4)));
            journal.crash(&mut Rng::with_seed(seed));
            let keys: Vec<_> = journal.open().unwrap().iter().map(|row| row.key[0]).collect();
            assert!(keys == [1] || keys == [1, 2, 3], "{keys:?}");
        }
    }

    #[test]
    fn what_cannot_be_written_ends_the_process_and_the_next_one_has_what_was_completed() {
        let mut journal = Journal::new(1, None);
        journal.open().unwrap();
        journal.push(BatchId(1), set(1));
        journal.complete().unwrap();
        journal.disk().set_free_bytes(0);
        let many = (0..200).flat_map(|key| {
            let value = vec![key; 60_000];
            [RowChange::Set { table: "names", key: vec![key, 1], value }]
        });
        journal.push(BatchId(2), many.collect());
        assert!(journal.complete().is_err());
        journal.crash(&mut Rng::with_seed(1));
        journal.disk().set_free_bytes(1 << 40);
        assert_eq!(journal.open().unwrap().len(), 1);
    }

    #[test]
    fn a_copy_that_is_put_back_is_the_journal_as_it_was() {
        let mut journal = Journal::new(1, None);
        journal.open().unwrap();
        journal.push(BatchId(1), set(1));
        journal.complete().unwrap();
        let copy = journal.copy();
        journal.push(BatchId(2), set(2));
        journal.complete().unwrap();
        journal.crash(&mut Rng::with_seed(1));
        assert_eq!(journal.open().unwrap().len(), 2);
        journal.crash(&mut Rng::with_seed(1));
        journal.put_back(&copy);
        assert_eq!(journal.open().unwrap().len(), 1);
    }

    #[test]
    fn a_copy_is_put_back_whole_and_for_good_though_the_disk_fails_once() {
        for (failing, seed) in (0..5).flat_map(|failing| (0..8).map(move |seed| (failing, seed))) {
            let mut journal = Journal::new(seed, None);
            journal.open().unwrap();
            journal.push(BatchId(1), set(1));
            journal.complete().unwrap();
            let copy = journal.copy();
            journal.push(BatchId(2), set(2));
            journal.complete().unwrap();
            journal.crash(&mut Rng::with_seed(seed));
            journal.disk().fail_one_after(failing);
            journal.put_back(&copy);
            journal.disk = journal.disk.crash();
            let keys: Vec<_> = journal.open().unwrap().iter().map(|row| row.key[0]).collect();
            assert_eq!(keys, [1], "step {failing}, seed {seed}");
        }
    }

    #[test]
    fn a_sabotaged_journal_forgets_what_it_had_completed() {
        let mut journal = Journal::new(1, Some(Sabotage::JournalForgets));
        journal.open().unwrap();
        journal.push(BatchId(FORGOTTEN_BATCHES), set(1));
        journal.complete().unwrap();
        journal.crash(&mut Rng::with_seed(0));
        assert!(journal.open().unwrap().is_empty());
    }
}
