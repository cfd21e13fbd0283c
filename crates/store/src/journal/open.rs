//! Opens the file of a journal, and begins one where there is none. After a crash, opening goes back to the last commit
//! that was durable: redb undoes what an unfinished one has left. Nothing else has to be repaired here. It never
//! changes a row, and never empties a file that has content.

use std::{
    fmt,
    fs::{self, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use redb::{Database, DatabaseError, StorageBackend, StorageError};

use crate::{
    Disk, DiskFile, OsDisk, StoreError,
    disk::{drop_page_cache, read_exactly},
    error::WhileDoing,
};

pub(super) fn open_file(path: &Path) -> Result<Database, StoreError> {
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

pub(super) fn open_on_disk(disk: &dyn Disk, path: &Path) -> Result<Database, StoreError> {
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

pub(super) fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn open_error(path: &Path, error: DatabaseError) -> StoreError {
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
