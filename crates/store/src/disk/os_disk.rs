//! The operating system's disk (Linux, also builds on other Unixes): plain files through `std`, hints and free space
//! through `rustix`. Used by every real node. It never interprets the content of a file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    num::NonZeroU64,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

use crate::disk::{Disk, DiskFile, FolderItem, FolderLock, scratch::clear_scratch};

/// The operating system's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

/// Name of the file in a data folder that holds the lock of the process using it.
const LOCK_NAME: &str = "lock";

impl Disk for OsDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OsFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OsFile(File::open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn create_folder_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn clear_scratch(&self, folder: &Path) -> io::Result<()> {
        clear_scratch(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<FolderItem>> {
        let mut items = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_folder = entry.file_type()?.is_dir();
            let bytes = match entry.metadata() {
                Ok(_) if is_folder => 0,
                Ok(metadata) => metadata.len(),
                // Removed since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            items.push(FolderItem { name, is_folder, bytes });
        }
        Ok(items)
    }

    fn bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(None),
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        let counts = rustix::fs::statvfs(folder)?;
        if counts.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
            // A file system becomes read-only after an error. It may have room, but nothing can be written.
            return Err(rustix::io::Errno::ROFS.into());
        }
        Ok(counts.f_bavail.saturating_mul(counts.f_frsize))
    }

    fn lock_folder(&self, folder: &Path) -> io::Result<FolderLock> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(LOCK_NAME))?;
        match file.try_lock() {
            Ok(()) => Ok(FolderLock::held_by(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// An open file of the operating system.
struct OsFile(File);

impl DiskFile for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(&self.0, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn start_writeback(&self, from: u64, bytes: u64) -> io::Result<()> {
        // Linux handles DONTNEED by starting to write the dirty pages of the range and by dropping the clean ones.
        // Pages just written are dirty, so they stay cached for the replication that soon reads them. The effect is
        // that of sync_file_range(2), which no safe wrapper offers.
        let Some(bytes) = NonZeroU64::new(bytes) else { return Ok(()) };
        Ok(rustix::fs::fadvise(&self.0, from, Some(bytes), rustix::fs::Advice::DontNeed)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn start_writeback(&self, _from: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn os_file(&self) -> Option<&File> {
        Some(&self.0)
    }

    fn id(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.ino())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_is_written_read_renamed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("deep/er/old"), folder.path().join("new"));
        OsDisk.create_folder_all(old.parent().unwrap()).unwrap();
        let file = OsDisk.create(&old).unwrap();
        file.write_all_at(b"bytes", 3).unwrap();
        file.start_writeback(0, 8).unwrap();
        file.sync_data().unwrap();
        assert_eq!(OsDisk.create(&old).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        OsDisk.rename(&old, &new).unwrap();
        OsDisk.sync_folder(folder.path()).unwrap();
        let mut buffer = [1; 16];
        let reader = OsDisk.open_to_read(&new).unwrap();
        assert_eq!(reader.read_at(&mut buffer, 0).unwrap(), 8);
        assert_eq!(&buffer[..8], b"\0\0\0bytes");
        assert!(reader.write_all_at(b"x", 0).is_err());
        OsDisk.remove_file(&new).unwrap();
        assert_eq!(reader.read_at(&mut buffer, 7).unwrap(), 1);
    }

    #[test]
    fn what_is_no_file_has_no_length() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        OsDisk.create(&file).unwrap().set_len(5).unwrap();
        assert_eq!(OsDisk.bytes(&file).unwrap(), Some(5));
        assert_eq!(OsDisk.bytes(folder.path()).unwrap(), None);
        assert_eq!(OsDisk.bytes(&folder.path().join("nothing")).unwrap(), None);
        assert_eq!(OsDisk.bytes(&file.join("below a file")).unwrap(), None);
        let mut items = OsDisk.list(folder.path()).unwrap();
        assert_eq!(items.pop().unwrap(), FolderItem { name: "file".into(), is_folder: false, bytes: 5 });
        assert!(OsDisk.free_bytes(folder.path()).unwrap() > 0);
    }

    #[test]
    fn a_folder_is_claimed_once_until_the_claim_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let lock = OsDisk.lock_folder(folder.path()).unwrap();
        assert_eq!(OsDisk.lock_folder(folder.path()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        OsDisk.lock_folder(folder.path()).unwrap();
    }
}
