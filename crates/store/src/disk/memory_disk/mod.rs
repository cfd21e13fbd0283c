//! A disk in memory that loses power on command: the disk of the simulation and of the crash tests. Its crash model is
//! described at [`MemoryDisk`]; it must never be gentler than a real disk and file system may be.

mod content;
mod names;

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use crate::{
    disk::{
        Disk, DiskFile, FolderItem, FolderLock, empty_folder,
        memory_disk::{
            content::Content,
            names::{Name, NameChange, Names},
        },
    },
    locking::lock,
};

/// A disk in memory that forgets what was not synced when it [crashes](Self::crash). Seeded: the same calls in the same
/// order end in the same state. Clones are handles to the same disk.
///
/// # Crash model
///
/// A crash keeps what was synced; the seed decides about the rest:
/// - **Content** since the last `sync_data`: each page of 4 KiB is the new one or the old one (a torn write). The
///   length is the old one, the new one, or a page's end between them. Lost pages below the length are zeros.
/// - **Names** changed since the last `sync_folder` of their folder: each creation, rename and removal happened or did
///   not, independently. Only the rules of every journalling file system hold. A rename is atomic, changes of one name
///   keep their order, and nothing exists in a missing folder. A rename is safe once the folder of the *new* name is
///   synced.
/// - One crash in four loses everything unsynced, and one in four keeps everything, as harsh and gentle disks do.
/// - Unsynced content never becomes old content by itself. Names become safe after 256 further changes, as a kernel
///   writes them back after a while.
///
/// Handles and files opened before a crash belong to the dead process: every call on them fails.
#[derive(Clone)]
pub struct MemoryDisk {
    disk: Arc<Mutex<State>>,
    /// The life of the disk that this handle belongs to; see [`State::life`].
    life: u64,
}

impl MemoryDisk {
    /// An empty disk with plenty of room, whose crashes this seed decides.
    pub fn new(seed: u64) -> Self {
        let state = State {
            names: Names::new(),
            free_bytes: FREE_BYTES_AT_FIRST,
            rng: fastrand::Rng::with_seed(seed),
            life: 0,
            changes: 0,
            changes_max: u64::MAX,
            failing_change: None,
            fault: None,
            bad_folders: BTreeSet::new(),
        };
        Self { disk: Arc::new(Mutex::new(state)), life: 0 }
    }

    /// Loses power: only what the crash model keeps is left. All handles and files from before are dead; the returned
    /// one is the disk after the restart.
    #[must_use = "the old handles are dead, only this one works"]
    pub fn crash(&self) -> Self {
        let mut state = lock(&self.disk);
        let state = &mut *state;
        let mood = match state.rng.u8(0..4) {
            0 => CrashMode::LoseAll,
            1 => CrashMode::KeepAll,
            _ => CrashMode::Random,
        };
        let room = state.free_bytes + state.names.files().map(|content| lock(content).bytes()).sum::<u64>();
        state.names.crash(&mut || mood.keeps(&mut state.rng));
        let rng = &mut state.rng;
        let used: u64 = state.names.files().map(|content| lock(content).crash(&mut || mood.keeps(rng))).sum();
        state.free_bytes = room.saturating_sub(used);
        state.life += 1;
        state.changes_max = u64::MAX;
        state.failing_change = None;
        Self { disk: Arc::clone(&self.disk), life: state.life }
    }

    /// Sets how many bytes can still be written; removing files gives room back.
    pub fn set_free_bytes(&self, bytes: u64) {
        lock(&self.disk).free_bytes = bytes;
    }

    /// Flips the lowest bit of the byte at `offset`, as a rotting disk does: durably, and without an error.
    pub fn flip_bit(&self, path: &Path, offset: u64) -> io::Result<()> {
        let state = lock(&self.disk);
        lock(state.names.file(path)?).flip_bit(offset)
    }

    /// Makes one page of a file unreadable, the one around `offset`, or the whole file readable again (`None`). A read
    /// that touches the page gives `EIO`, as a bad sector does, while everything else works. The sector stays with the
    /// file through renames and crashes, and is gone with it. A folder with a bad sector cannot be listed. For a folder
    /// the offset does not matter, and the fault belongs to the name.
    pub fn set_bad_sector(&self, path: &Path, offset: Option<u64>) -> io::Result<()> {
        let mut state = lock(&self.disk);
        if state.names.is_folder(path) {
            match offset {
                Some(_) => state.bad_folders.insert(path.to_owned()),
                None => state.bad_folders.remove(path),
            };
            return Ok(());
        }
        lock(state.names.file(path)?).set_bad_sector(offset);
        Ok(())
    }

    /// Number of changes (writes, syncs, changes of names) so far; reads do not count.
    pub fn changes(&self) -> u64 {
        lock(&self.disk).changes
    }

    /// Lets this many more changes through, then switches the power off: every call fails until [`crash`](Self::crash).
    pub fn power_off_after(&self, changes: u64) {
        let mut state = lock(&self.disk);
        state.changes_max = state.changes.saturating_add(changes);
    }

    /// Lets this many more changes through, then fails one, without effect, and lets the following through again.
    pub fn fail_one_after(&self, changes: u64) {
        let mut state = lock(&self.disk);
        state.failing_change = state.changes.checked_add(changes);
    }

    /// Breaks the disk, or repairs it (`None`): from now on the calls named by the fault fail with its error, also
    /// after a crash.
    pub fn set_fault(&self, fault: Option<DiskFault>) {
        lock(&self.disk).fault = fault;
    }

    /// The state, for a call that changes nothing.
    fn read(&self) -> io::Result<std::sync::MutexGuard<'_, State>> {
        let state = lock(&self.disk);
        if self.life != state.life || state.changes >= state.changes_max {
            return Err(io::Error::other("the disk in memory lost power"));
        }
        if let Some(DiskFault::Everything(errno)) = state.fault {
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(state)
    }

    /// The state, for a call that changes something.
    fn change(&self) -> io::Result<std::sync::MutexGuard<'_, State>> {
        let mut state = self.read()?;
        if let Some(DiskFault::Changes(errno)) = state.fault {
            return Err(io::Error::from_raw_os_error(errno));
        }
        state.changes += 1;
        if state.failing_change == Some(state.changes - 1) {
            return Err(io::Error::other("the disk in memory failed once"));
        }
        Ok(state)
    }

    fn opened(&self, path: &Path, writable: bool) -> io::Result<Box<dyn DiskFile>> {
        let content = Arc::clone(self.read()?.names.file(path)?);
        Ok(Box::new(MemoryFile { disk: self.clone(), content, writable }))
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.change()?;
        // There are at most as many files as changes, so the count of changes tells them apart.
        let content = Arc::new(Mutex::new(Content::numbered(state.changes)));
        state.names.change(NameChange::Create(path.to_owned(), Name::File(Arc::clone(&content))))?;
        drop(state);
        Ok(Box::new(MemoryFile { disk: self.clone(), content, writable: true }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.opened(path, true)
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.opened(path, false)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.change()?;
        let replaced = state.names.file(to).map(|content| lock(content).bytes()).unwrap_or(0);
        state.names.change(NameChange::Rename { from: from.to_owned(), to: to.to_owned() })?;
        if from != to {
            state.free_bytes += replaced;
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.change()?;
        let bytes = lock(state.names.file(path)?).bytes();
        state.names.change(NameChange::Remove(path.to_owned()))?;
        state.free_bytes += bytes;
        Ok(())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.change()?;
        if !state.names.is_folder(path) {
            return Err(state.names.file(path).map_or_else(|error| error, |_| io::ErrorKind::NotADirectory.into()));
        }
        state.names.change(NameChange::Remove(path.to_owned()))
    }

    fn create_folder_all(&self, path: &Path) -> io::Result<()> {
        self.change()?.names.create_folder_all(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.change()?.names.sync_folder(path)
    }

    fn clear_scratch(&self, folder: &Path) -> io::Result<()> {
        empty_folder(self, folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<FolderItem>> {
        let state = self.read()?;
        if state.bad_folders.contains(folder) {
            return Err(rustix::io::Errno::IO.into());
        }
        state.names.list(folder)
    }

    fn bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        Ok(self.read()?.names.file(path).ok().map(|content| lock(content).bytes()))
    }

    fn free_bytes(&self, _folder: &Path) -> io::Result<u64> {
        Ok(self.read()?.free_bytes)
    }

    fn lock_folder(&self, _folder: &Path) -> io::Result<FolderLock> {
        // Only one process sees this disk.
        self.read().map(|_| FolderLock::alone())
    }
}

/// An open file of a [`MemoryDisk`].
struct MemoryFile {
    disk: MemoryDisk,
    content: Arc<Mutex<Content>>,
    writable: bool,
}

impl MemoryFile {
    /// Grows the file to `bytes` as far as there is room, and returns how far it got.
    fn grow(&self, state: &mut State, bytes: u64) -> u64 {
        let mut content = lock(&self.content);
        let more = bytes.saturating_sub(content.bytes()).min(state.free_bytes);
        if more > 0 {
            state.free_bytes -= more;
            let bytes = content.bytes() + more;
            content.set_len(bytes);
        }
        content.bytes()
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let _state = self.disk.read()?;
        lock(&self.content).read(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.change()?;
        let end = offset + bytes.len() as u64;
        let reached = self.grow(&mut state, end);
        // As on a real disk, what still fits is written before the disk is full.
        let written = &bytes[..bytes.len().min(reached.saturating_sub(offset) as usize)];
        lock(&self.content).write(written, offset);
        if reached < end { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let state = self.disk.change()?;
        if let Some(DiskFault::Syncs(errno)) = state.fault {
            lock(&self.content).fail_sync();
            return Err(io::Error::from_raw_os_error(errno));
        }
        lock(&self.content).sync();
        Ok(())
    }

    fn start_writeback(&self, from: u64, bytes: u64) -> io::Result<()> {
        let _state = self.disk.read()?;
        lock(&self.content).drop_cached(from, bytes);
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.change()?;
        let before = lock(&self.content).bytes();
        if bytes > before {
            // As on a real disk: a file is extended fully, or not at all.
            if bytes - before > state.free_bytes {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.grow(&mut state, bytes);
        } else {
            state.free_bytes += before - bytes;
            lock(&self.content).set_len(bytes);
        }
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        let _state = self.disk.read()?;
        Ok(lock(&self.content).bytes())
    }

    fn os_file(&self) -> Option<&File> {
        None
    }

    fn id(&self) -> io::Result<u64> {
        let _state = self.disk.read()?;
        Ok(lock(&self.content).number())
    }
}

struct State {
    names: Names,
    free_bytes: u64,
    rng: fastrand::Rng,
    /// Counts crashes. A handle of another life is dead.
    life: u64,
    changes: u64,
    /// The power goes off when `changes` reaches this.
    changes_max: u64,
    /// The one change that fails.
    failing_change: Option<u64>,
    fault: Option<DiskFault>,
    /// Folders that cannot be listed.
    bad_folders: BTreeSet<PathBuf>,
}

/// How a disk in memory is broken, with the error number (`EIO`, `EROFS`, …) that it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// It can be read but not changed.
    Changes(i32),
    /// Nothing works.
    Everything(i32),
    /// Synced content does not reach the disk. The error is returned once, and from then on the system treats the
    /// content as safe. It is read as written while it stays in memory, and no later sync writes it.
    Syncs(i32),
}

/// How a crash treats unsynced changes.
#[derive(Clone, Copy)]
enum CrashMode {
    LoseAll,
    KeepAll,
    Random,
}

impl CrashMode {
    fn keeps(self, rng: &mut fastrand::Rng) -> bool {
        match self {
            Self::LoseAll => false,
            Self::KeepAll => true,
            Self::Random => rng.bool(),
        }
    }
}

/// More than any simulation writes, in bytes.
const FREE_BYTES_AT_FIRST: u64 = 1 << 50;

#[cfg(test)]
mod tests;
