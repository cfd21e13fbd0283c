//! A disk that remembers its own failure. An error that speaks of the disk and not of one file (a write or a sync that
//! did not get there, a file system that has become read-only, a device that is gone) is noted by whoever meets it, on
//! whatever path: upload, download, copy, order, scrub. A full disk is no failed disk. Nor is one with a bad sector:
//! the first file whose bytes cannot be read is only noted, the second ends the disk.
//!
//! From then on nothing is written there any more, so that nothing is acknowledged that may not be safe. It never hides
//! an error and never repairs anything: who owns the disks decides what follows (see [`crate::DiskSet`]).

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
};

use crate::{
    disk::{Disk, DiskFile, FolderItem, FolderLock, is_bad_sector},
    locking::lock,
};

/// Whether and why a disk has failed. Once failed it stays so until the node is started again.
#[derive(Debug, Default)]
pub(crate) struct DiskFailure {
    why: OnceLock<String>,
    /// The first file that could not be read. Not remembered over a restart: what could not be read was put aside then,
    /// and nobody reads it again.
    unreadable: Mutex<Option<Unreadable>>,
}

#[derive(Debug)]
struct Unreadable {
    /// By its number ([`DiskFile::id`]): its name changes when it is put aside.
    file: Option<u64>,
    path: PathBuf,
}

impl DiskFailure {
    /// Notes a failure; the first one counts.
    pub(crate) fn note(&self, why: impl Into<String>) {
        let _ = self.why.set(why.into());
    }

    /// Why it failed, if it has.
    pub(crate) fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    /// Notes a file whose bytes cannot be read. One is a bad sector; a second is a disk that goes to pieces.
    pub(crate) fn note_unreadable(&self, file: Option<u64>, path: &Path, error: &io::Error) {
        let mut first = lock(&self.unreadable);
        match &*first {
            None => {
                tracing::error!(file = %path.display(), %error, "a file cannot be read; its disk goes on without it");
                *first = Some(Unreadable { file, path: path.to_owned() });
            }
            Some(first) if first.file.is_some() && first.file == file => {}
            Some(first) => {
                let first = first.path.display();
                self.note(format!("neither `{first}` nor `{}` can be read: {error}", path.display()));
            }
        }
    }

    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && is_disk_failure(error)
        {
            self.note(error.to_string());
        }
        result
    }

    /// Refuses a change of a disk that has failed.
    fn check(&self) -> io::Result<()> {
        match self.why() {
            // Whatever it said first: that is told elsewhere, and a caller needs to know only that it is the disk.
            Some(_) => Err(rustix::io::Errno::IO.into()),
            None => Ok(()),
        }
    }
}

/// Whether an error says that the disk is of no use, and not merely that one file is not.
pub(crate) fn is_disk_failure(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ReadOnlyFilesystem
        || error.raw_os_error().is_some_and(|code| DISK_ERRORS.iter().any(|errno| errno.raw_os_error() == code))
}

/// See the module.
pub(crate) struct WatchedDisk {
    disk: Arc<dyn Disk>,
    /// The folder that is asked for whether the disk is there at all.
    folder: PathBuf,
    failure: Arc<DiskFailure>,
}

impl WatchedDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: &Path, failure: Arc<DiskFailure>) -> Self {
        Self { disk, folder: folder.to_owned(), failure }
    }

    fn file(&self, path: &Path, opened: io::Result<Box<dyn DiskFile>>) -> io::Result<Box<dyn DiskFile>> {
        let file = self.failure.watch(opened)?;
        let (disk, folder, failure) = (Arc::clone(&self.disk), self.folder.clone(), Arc::clone(&self.failure));
        Ok(Box::new(WatchedFile { file, path: path.to_owned(), disk, folder, failure }))
    }

    fn change<T>(&self, change: impl FnOnce(&dyn Disk) -> io::Result<T>) -> io::Result<T> {
        self.failure.check()?;
        self.failure.watch(change(&*self.disk))
    }
}

impl Disk for WatchedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.failure.check()?;
        self.file(path, self.disk.create(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.failure.check()?;
        self.file(path, self.disk.open(path))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.file(path, self.disk.open_to_read(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|disk| disk.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(|disk| disk.remove_file(path))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.change(|disk| disk.remove_folder(path))
    }

    fn create_folder_all(&self, path: &Path) -> io::Result<()> {
        self.change(|disk| disk.create_folder_all(path))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.change(|disk| disk.sync_folder(path))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<FolderItem>> {
        self.failure.watch(self.disk.list(folder))
    }

    fn bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.failure.watch(self.disk.bytes(path))
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.failure.watch(self.disk.free_bytes(folder))
    }

    fn lock_folder(&self, folder: &Path) -> io::Result<FolderLock> {
        self.failure.watch(self.disk.lock_folder(folder))
    }
}

/// A file of a watched disk.
struct WatchedFile {
    file: Box<dyn DiskFile>,
    /// What it was called when it was opened.
    path: PathBuf,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    failure: Arc<DiskFailure>,
}

impl WatchedFile {
    /// A read that gave nothing for these bytes: of this file alone, if the disk answers otherwise.
    fn note_unreadable(&self, error: &io::Error) {
        if self.failure.watch(self.disk.free_bytes(&self.folder)).is_ok_and(|_| self.failure.why().is_none()) {
            self.failure.note_unreadable(self.file.id().ok(), &self.path, error);
        }
    }
}

impl DiskFile for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.file.read_at(buffer, offset) {
            Err(error) if is_bad_sector(&error) => {
                self.note_unreadable(&error);
                Err(error)
            }
            read => self.failure.watch(read),
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.failure.check()?;
        self.failure.watch(self.file.write_all_at(bytes, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.failure.check()?;
        self.failure.watch(self.file.sync_data())
    }

    fn start_writeback(&self, from: u64, bytes: u64) -> io::Result<()> {
        self.failure.watch(self.file.start_writeback(from, bytes))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.failure.check()?;
        self.failure.watch(self.file.set_len(bytes))
    }

    fn bytes(&self) -> io::Result<u64> {
        self.failure.watch(self.file.bytes())
    }

    fn os_file(&self) -> Option<&File> {
        self.file.os_file()
    }

    fn id(&self) -> io::Result<u64> {
        self.failure.watch(self.file.id())
    }
}

/// What the system says when a disk, its file system or the way to it is broken: unreadable or unwritable blocks, a
/// file system that was made read-only after an error or found damaged, a device or a mount that went away. Not among
/// them: no room, no permission, no such file, too many open files.
const DISK_ERRORS: [rustix::io::Errno; 9] = {
    use rustix::io::Errno;
    [
        Errno::IO,
        Errno::ROFS,
        Errno::NXIO,
        Errno::NODEV,
        Errno::STALE,
        Errno::NOTCONN,
        Errno::REMOTEIO,
        Errno::UCLEAN,
        Errno::NOMEDIUM,
    ]
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{MemoryDisk, memory_disk::DiskFault};

    #[test]
    fn a_broken_device_means_the_disk_and_a_full_one_or_a_missing_file_does_not() {
        for errno in DISK_ERRORS {
            assert!(is_disk_failure(&errno.into()), "{errno}");
        }
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied] {
            assert!(!is_disk_failure(&kind.into()), "{kind}");
        }
        assert!(!is_disk_failure(&rustix::io::Errno::NOSPC.into()));
        assert!(!is_disk_failure(&rustix::io::Errno::MFILE.into()));
    }

    #[test]
    fn after_a_disk_error_is_reported_writes_are_refused_and_reads_are_tried() {
        let (memory, failure) = (MemoryDisk::new(1), Arc::new(DiskFailure::default()));
        let disk = WatchedDisk::new(Arc::new(memory.clone()), Path::new("/"), Arc::clone(&failure));
        let file = disk.create(Path::new("/a")).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        memory.set_fault(Some(DiskFault::Changes(rustix::io::Errno::ROFS.raw_os_error())));
        assert_eq!(file.write_all_at(b"x", 0).unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert!(failure.why().unwrap().contains("ead-only"), "{failure:?}");
        memory.set_fault(None);
        assert!(file.sync_data().is_err(), "a disk that came back may have lost what it had not written");
        assert!(disk.rename(Path::new("/a"), Path::new("/b")).is_err());
        assert!(disk.create(Path::new("/c")).is_err());
        let mut buffer = [0; 3];
        assert_eq!(disk.open_to_read(Path::new("/a")).unwrap().read_at(&mut buffer, 0).unwrap(), 3);
    }

    #[test]
    fn one_unreadable_file_is_noted_under_any_name_and_a_second_fails_the_disk() {
        let (memory, failure) = (MemoryDisk::new(1), Arc::new(DiskFailure::default()));
        let disk = WatchedDisk::new(Arc::new(memory.clone()), Path::new("/"), Arc::clone(&failure));
        for name in ["/a", "/b"] {
            disk.create(Path::new(name)).unwrap().write_all_at(b"abc", 0).unwrap();
            memory.set_bad_sector(Path::new(name), Some(0)).unwrap();
        }
        let read = |name: &str| disk.open_to_read(Path::new(name)).unwrap().read_at(&mut [0; 3], 0);
        let open_before = disk.open_to_read(Path::new("/a")).unwrap();
        assert!(is_bad_sector(&read("/a").unwrap_err()));
        disk.rename(Path::new("/a"), Path::new("/aside")).unwrap();
        assert!(read("/aside").is_err() && open_before.read_at(&mut [0; 3], 0).is_err());
        assert_eq!(failure.why(), None, "it is the same file");
        // Another one under the name that it had.
        disk.rename(Path::new("/b"), Path::new("/a")).unwrap();
        assert!(read("/a").is_err());
        assert!(failure.why().unwrap().contains("neither `/a` nor `/a` can be read"), "{failure:?}");
        assert!(disk.rename(Path::new("/a"), Path::new("/b")).is_err());
    }
}
