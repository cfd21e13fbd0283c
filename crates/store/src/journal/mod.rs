//! Rows that must outlive the process: the master's names and jobs, the security server's users and nodes. A thin layer
//! over redb with one promise: when a commit returns without error, the whole batch is on the disk. A batch is never
//! applied in part.

mod export;

pub use export::{RowVisitor, RowsError, read_rows, write_refusal};

use std::{
    fmt,
    fs::{self, OpenOptions, TryLockError},
    io,
    ops::Bound,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, StorageError,
    TableDefinition, TableError,
};

use crate::{
    Disk, DiskFile, OsDisk, StoreError,
    disk::{drop_page_cache, read_exactly},
    error::WhileDoing,
    locking::lock,
};

/// Rows by key in an embedded store (redb): one transaction a batch, durable when `commit` returns. Used by the master
/// for names and jobs (`table` = "names", "jobs") and by the security server ("users", "nodes"). All calls block.
pub struct Journal {
    file: PathBuf,
    open: Box<dyn Fn() -> Result<Database, StoreError> + Send + Sync>,
    /// `None` after a failed commit: redb refuses everything after a disk error, so the file is reopened.
    database: Mutex<Option<Database>>,
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
        Self::open_by(file, Box::new(move || open_file(&path)))
    }

    /// As [`open`](Self::open), on any disk: for the simulation, whose disks lose power. Nothing keeps out a second
    /// process.
    pub fn open_on(disk: Arc<dyn Disk>, file: &Path) -> Result<Self, StoreError> {
        let path = file.to_owned();
        Self::open_by(file, Box::new(move || open_on_disk(&*disk, &path)))
    }

    /// Makes all changes, in order, or none; they are on the disk when it returns. After an error the outcome is
    /// unknown: a caller that needs to know loads the rows again.
    pub fn commit(&self, changes: &[RowChange]) -> Result<(), StoreError> {
        let mut database = lock(&self.database);
        let outcome = commit(self.opened(&mut database)?, changes);
        if outcome.is_err() {
            *database = None;
        }
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
        Ok(Self { file: file.to_owned(), open, database: Mutex::new(Some(database)) })
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

fn open_file(path: &Path) -> Result<Database, StoreError> {
    if !has_bytes(&OsDisk, path)?
        && let Some(database) = begin_file(path)?
    {
        return Ok(database);
    }
    make_name_durable(&OsDisk, path)?;
    let file = OpenOptions::new().read(true).write(true).open(path).while_doing("open", path)?;
    OsDisk.open(path).and_then(|file| drop_page_cache(&*file)).while_doing("open", path)?;
    builder().create_file(file).map_err(|error| open_error(path, error))
}

/// Begins an empty journal: made under another name, synced, and only then renamed. So a file of that name was whole
/// once. What a first start left half made (a full disk, a power cut) does no harm. `None` if another process was
/// first.
fn begin_file(path: &Path) -> Result<Option<Database>, StoreError> {
    let new = new_name(path);
    // For its owner only: the security server's journal contains password hashes.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&new).while_doing("open", path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(StoreError::JournalLocked { file: path.to_owned() }),
        Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &new, error)),
    }
    // With the lock held: its previous holder may have finished its work.
    if has_bytes(&OsDisk, path)? {
        return Ok(None);
    }
    file.set_len(0).while_doing("empty", &new)?;
    let kept = file.try_clone().while_doing("open", &new)?;
    let database = builder().create_file(file).map_err(|error| open_error(path, error))?;
    kept.sync_all().while_doing("sync", &new)?;
    fs::rename(&new, path).while_doing("rename", &new)?;
    make_name_durable(&OsDisk, path)?;
    Ok(Some(database))
}

fn open_on_disk(disk: &dyn Disk, path: &Path) -> Result<Database, StoreError> {
    if !has_bytes(disk, path)? {
        begin_on_disk(disk, path)?;
    }
    make_name_durable(disk, path)?;
    let file = disk.open(path).while_doing("open", path)?;
    drop_page_cache(&*file).while_doing("open", path)?;
    builder().create_with_backend(DiskBackend(file)).map_err(|error| open_error(path, error))
}

/// As [`begin_file`].
fn begin_on_disk(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    let new = new_name(path);
    if disk.bytes(&new).while_doing("look at", &new)?.is_some() {
        disk.remove_file(&new).while_doing("remove", &new)?;
    }
    let file = disk.create(&new).while_doing("create", &new)?;
    drop(builder().create_with_backend(DiskBackend(file)).map_err(|error| open_error(path, error))?);
    disk.open(&new).and_then(|file| file.sync_data()).while_doing("sync", &new)?;
    disk.rename(&new, path).while_doing("rename", &new)
}

/// Syncs the folder of a journal's file, and not only of a new one. An earlier start may have ended between the rename
/// and this. Whoever put a copy back may have synced nothing. Without it a power cut can remove the name, and with it
/// all that was committed since.
fn make_name_durable(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    disk.sync_folder(folder_of(path)).while_doing("sync", folder_of(path))
}

/// Whether there is content under a name; an empty file counts as none.
fn has_bytes(disk: &dyn Disk, path: &Path) -> Result<bool, StoreError> {
    Ok(disk.bytes(path).while_doing("open", path)?.is_some_and(|bytes| bytes > 0))
}

/// The name of a journal until it is whole.
fn new_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open_error(path: &Path, error: DatabaseError) -> StoreError {
    let file = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::JournalLocked { file },
        DatabaseError::UpgradeRequired(version) => {
            StoreError::NotAJournal { file, why: format!("its format has version {version}") }
        }
        // A file too short for its own head is not a journal; any other error is the disk's.
        DatabaseError::Storage(StorageError::Io(source))
            if !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            StoreError::io("open", path, source)
        }
        other => StoreError::NotAJournal { file, why: other.to_string() },
    }
}

fn commit(database: &Database, changes: &[RowChange]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    // The changes of one table usually follow each other: open it once for each run of them.
    for run in changes.chunk_by(|a, b| a.table() == b.table()) {
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

impl RowChange {
    fn table(&self) -> &'static str {
        match self {
            Self::Set { table, .. } | Self::Remove { table, .. } => table,
        }
    }
}

/// redb's view of a file of ours.
struct DiskBackend(Box<dyn DiskFile>);

impl StorageBackend for DiskBackend {
    fn len(&self) -> io::Result<u64> {
        self.0.bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_exactly(&*self.0, out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

impl fmt::Debug for DiskBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnDisk")
    }
}

/// Memory for pages of the journal, in bytes. Rows are read once, at the start, and live in the owner's memory after
/// that. The default of redb is 1 GiB.
const CACHE_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests;
