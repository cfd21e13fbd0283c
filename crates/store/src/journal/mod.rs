//! Rows that must outlive the process: the master's names and jobs, the security server's users and nodes. A thin layer
//! over redb with one promise: when a commit returns without error, the whole batch is on the disk. A batch is never
//! applied in part.

mod export;
mod open;

pub use export::{RowVisitor, RowsError, read_rows, write_refusal};

use std::{
    fs::{self, OpenOptions},
    ops::Bound,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use self::open::{open_file, open_on_disk};
use crate::{
    Disk, StoreError,
    disk::room::{is_full, keep_room},
    locking::lock,
};

/// Rows by key in an embedded store (redb): one transaction a batch, durable when `commit` returns. Used by the master
/// for names and jobs (`table` = "names", "jobs") and by the security server ("users", "nodes"). All calls block.
pub struct Journal {
    file: PathBuf,
    open: Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>,
    /// `None` after a failed commit: redb refuses everything after a disk error, so the file is reopened.
    database: Mutex<Option<Database>>,
    /// How long the file was when room was last kept for it; `None` on disks of the simulation.
    kept_bytes: Option<AtomicU64>,
}

/// One change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// The row has this value from now on.
    Set {
        /// The table's name.
        table: &'static str,
        /// The row's key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// The row is removed; no error if it was not there.
    Remove {
        /// The table's name.
        table: &'static str,
        /// The row's key.
        key: Vec<u8>,
    },
}

impl Journal {
    /// Opens a journal, or begins an empty one if there is no file; after a crash it is as the last commit left it. It
    /// is read from the disk, never from the system's cache of a failed commit, and its name is made durable first.
    /// Fails with [`StoreError::JournalLocked`] or [`StoreError::NotAJournal`].
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let path = file.to_owned();
        let mut journal = Self::open_by(file, Box::new(move || open_file(&path)))?;
        journal.kept_bytes = Some(AtomicU64::new(0));
        journal.keep_room();
        Ok(journal)
    }

    /// As [`open`](Self::open), on any disk: for the simulation, whose disks lose power. Nothing keeps out a second
    /// process.
    pub fn open_on(disk: Arc<dyn Disk>, file: &Path) -> Result<Self, StoreError> {
        let path = file.to_owned();
        Self::open_by(file, Box::new(move || open_on_disk(&*disk, &path)))
    }

    /// Makes all changes, in order, or none; they are on the disk when it returns. After an error the outcome is
    /// unknown: a caller that needs to know loads the rows again. The same changes may be tried again.
    pub fn commit(&self, changes: &[RowChange]) -> Result<(), StoreError> {
        let mut database = lock(&self.database);
        let outcome = commit(self.opened(&mut database)?, changes);
        if outcome.is_err() {
            *database = None;
        }
        self.keep_room();
        outcome.map_err(|error| self.error("commit to", error))
    }

    /// Passes every row of a table (key, value) to `row` in the order of the keys; none if nothing was ever set in it.
    /// `row` may use the journal; it sees the rows as they were when `load` was called.
    pub fn load(&self, table: &'static str, row: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        let begin = || -> Result<ReadTransaction, StoreError> {
            let mut database = lock(&self.database);
            let begun = self.opened(&mut database)?.begin_read();
            begun.map_err(|error| self.error("load", error.into()))
        };
        load(&begin()?, table, row).map_err(|error| self.error("load", error))
    }

    /// Passes the rows of a table after a key (all if it is `None`), in order, until `row` wants no more.
    pub fn load_after(
        &self,
        table: &'static str,
        after: Option<&[u8]>,
        row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let begin = || -> Result<ReadTransaction, StoreError> {
            let mut database = lock(&self.database);
            let begun = self.opened(&mut database)?.begin_read();
            begun.map_err(|error| self.error("load", error.into()))
        };
        load_after(&begin()?, table, after, row).map_err(|error| self.error("load", error))
    }

    fn open_by(
        file: &Path,
        open: Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>,
    ) -> Result<Self, StoreError> {
        let database = open()?;
        Ok(Self { file: file.to_owned(), open, database: Mutex::new(Some(database)), kept_bytes: None })
    }

    /// Keeps room for all of the file and for some more. So small changes can be saved where others have filled the disk,
    /// above all the removals that make room. Best effort.
    fn keep_room(&self) {
        let Some(kept_bytes) = &self.kept_bytes else { return };
        let Ok(bytes) = fs::metadata(&self.file).map(|found| found.len()) else { return };
        if kept_bytes.swap(bytes, Ordering::Relaxed) == bytes {
            return;
        }
        let wanted = bytes + bytes.clamp(ROOM_BYTES_MIN, ROOM_BYTES_MAX);
        let kept = OpenOptions::new().write(true).open(&self.file).and_then(|file| keep_room(&file, wanted));
        if kept.is_err_and(|error| is_full(&error)) {
            // Tried again at the next commit.
            kept_bytes.store(0, Ordering::Relaxed);
        }
    }

    fn opened<'a>(&self, database: &'a mut Option<Database>) -> Result<&'a Database, StoreError> {
        match database {
            Some(database) => Ok(database),
            None => Ok(database.insert((self.open)()?)),
        }
    }

    fn error(&self, operation: &'static str, error: redb::Error) -> StoreError {
        match error {
            redb::Error::Io(source) => StoreError::io(operation, &self.file, source),
            redb::Error::Corrupted(why) => StoreError::NotAJournal { file: self.file.clone(), why },
            other => StoreError::Journal { operation, file: self.file.clone(), why: other.to_string() },
        }
    }
}

fn commit(database: &Database, changes: &[RowChange]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    // A table is opened once for all its changes, which keep their order. Opening one takes longer than a change.
    let mut by_table: Vec<_> = changes.iter().collect();
    by_table.sort_by_key(|change| change.table());
    for run in by_table.chunk_by(|a, b| a.table() == b.table()) {
        let Some(first) = run.first() else { continue };
        let mut table = transaction.open_table(definition(first.table()))?;
        for change in run {
            match change {
                RowChange::Set { key, value, .. } => table.insert(key.as_slice(), value.as_slice())?,
                RowChange::Remove { key, .. } => table.remove(key.as_slice())?,
            };
        }
    }
    transaction.commit()?;
    Ok(())
}

fn load(
    transaction: &ReadTransaction,
    table: &'static str,
    row: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), redb::Error> {
    let table = match transaction.open_table(definition(table)) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        table => table?,
    };
    for entry in table.iter()? {
        let (key, value) = entry?;
        row(key.value(), value.value());
    }
    Ok(())
}

fn load_after(
    transaction: &ReadTransaction,
    table: &'static str,
    after: Option<&[u8]>,
    row: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> Result<(), redb::Error> {
    let table = match transaction.open_table(definition(table)) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        table => table?,
    };
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    for entry in table.range::<&[u8]>((from, Bound::Unbounded))? {
        let (key, value) = entry?;
        if !row(key.value(), value.value()) {
            break;
        }
    }
    Ok(())
}

fn definition(table: &'static str) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(table)
}

/// Least room that is kept ahead of a journal's end. redb doubles a small file when it is full.
const ROOM_BYTES_MIN: u64 = 1 << 20;
/// Most: the changes of an hour's work, and little of a disk that holds a large journal.
const ROOM_BYTES_MAX: u64 = 64 << 20;

impl RowChange {
    fn table(&self) -> &'static str {
        match self {
            Self::Set { table, .. } | Self::Remove { table, .. } => table,
        }
    }
}

#[cfg(test)]
mod tests;
