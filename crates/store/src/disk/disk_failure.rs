//! A disk that remembers its own failure. Any path (upload, download, copy, order, scrub) that meets an error of the
//! disk, not of one file, records it. A full disk has not failed, nor has one with a bad sector: the first unreadable
//! file is only recorded, the second fails the disk. A failed disk is no longer written, so nothing unsafe is
//! acknowledged. It never hides an error and never repairs anything: the owner of the disks decides what follows (see
//! [`crate::DiskSet`]).

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

/// Whether and why a disk has failed. Once failed it stays so until the node is restarted.
#[derive(Debug, Default)]
pub(crate) struct DiskFailure {
    why: OnceLock<String>,
    /// The first file that could not be read. It is not remembered over a restart: such a file was quarantined, and
    /// nobody reads it again.
    unreadable: Mutex<Option<Unreadable>>,
}

#[derive(Debug)]
struct Unreadable {
    /// The file's number ([`DiskFile::id`]): its name changes when it is quarantined.
    file: Option<u64>,
    path: PathBuf,
}

impl DiskFailure {
    /// Records a failure; the first one counts.
    pub(crate) fn note(&self, why: impl Into<String>) {
        let _ = self.why.set(why.into());
    }

    /// Why it failed, if it has.
    pub(crate) fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    /// Records a file whose bytes cannot be read. One is a bad sector; a second means that the disk is failing.
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

    /// Refuses a change to a failed disk.
    fn check(&self) -> io::Result<()> {
        match self.why() {
            // Hides the first error, which is reported elsewhere: a caller only needs to know that the disk is at
            // fault.
            Some(_) => Err(rustix::io::Errno::IO.into()),
            None => Ok(()),
        }
    }
}

/// Whether an error means that the disk is unusable, and not just one file.
pub(crate) fn is_disk_failure(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ReadOnlyFilesystem
        || error.raw_os_error().is_some_and(|code| DISK_ERRORS.iter().any(|errno| errno.raw_os_error() == code))
}

/// A disk whose errors are recorded, and which is no longer changed once it has failed.
pub(crate) struct WatchedDisk {
    disk: Arc<dyn Disk>,
    /// The folder that shows whether the disk is there at all.
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

    fn clear_scratch(&self, folder: &Path) -> io::Result<()> {
        self.change(|disk| disk.clear_scratch(folder))
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
    /// Its name when it was opened.
    path: PathBuf,
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    failure: Arc<DiskFailure>,
}

impl WatchedFile {
    /// Records a read that failed for these bytes: a failure of this file alone, if the disk still answers otherwise.
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

/// The system's errors for a broken disk, file system or connection to it:
/// - unreadable or unwritable blocks;
/// - a file system that was found damaged, or made read-only after an error;
/// - a device or a mount that went away.
///
/// Not among them: no room, no permission, no such file, too many open files.
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
    use crate::{MemoryDisk, disk::memory_disk::DiskFault};

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
