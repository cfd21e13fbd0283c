//! What this crate needs from a disk. Every file of a node's data folder is reached through [`Disk`]. So the same code
//! runs on the operating system ([`crate::OsDisk`]) and in memory ([`crate::MemoryDisk`]). The disk in memory loses
//! power, in tests and in the simulation. This file never knows what a slice is.

pub(crate) mod atomic_file;
pub(crate) mod atomic_file_set;
pub(crate) mod disk_failure;
pub(crate) mod group_sync;
pub(crate) mod memory_disk;
pub(crate) mod os_disk;
pub(crate) mod room;
pub(crate) mod scratch;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// A disk. All paths are absolute or relative as the implementation's user wishes, but always written the same way.
///
/// What a crash keeps: file content is safe after [`DiskFile::sync_data`]. A name (created, renamed, removed) is safe
/// after [`Disk::sync_folder`] of its folder; for a removed name, that is the folder it was in. A rename is atomic:
/// after a crash the file has its old name or its new one. Two changes of names that share no name may survive a crash
/// one without the other, in either order.
pub trait Disk: Send + Sync + 'static {
    /// Creates an empty file for reading and writing; fails if anything has that name.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading only: a descriptor that may be handed to a user's function.
    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, replacing a file of the new name. Fails with `IsADirectory` when a folder has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. A reader that has it open may go on reading.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Creates a folder and its missing ancestors.
    fn create_folder_all(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder safe against a crash.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes everything below a folder in which users' functions have worked, and keeps the folder. What may not be
    /// removed stays, and is no error.
    fn clear_scratch(&self, folder: &Path) -> io::Result<()>;
    /// The content of a folder, in no particular order. Names that are not UTF-8 are left out: none of ours is.
    fn list(&self, folder: &Path) -> io::Result<Vec<FolderItem>>;
    /// The length of a file in bytes; `None` if nothing, or a folder, has that name.
    fn bytes(&self, path: &Path) -> io::Result<Option<u64>>;
    /// Bytes that can still be written to the file system of `folder`; an error if it cannot be written at all.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
    /// Claims a folder for this process until the lock is dropped; fails with `WouldBlock` if another has it.
    fn lock_folder(&self, folder: &Path) -> io::Result<FolderLock>;
}

/// An open file. Shared use from several threads is allowed.
pub trait DiskFile: Send + Sync {
    /// Reads at an offset in bytes; fewer bytes than asked for only near the end, 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes at an offset; the file grows as needed.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes content and length safe against a crash.
    fn sync_data(&self) -> io::Result<()>;
    /// Hints that these bytes should be written to the disk, so that the final sync is short. Those already written may
    /// be dropped from memory. Does not wait for them.
    fn start_writeback(&self, from: u64, bytes: u64) -> io::Result<()>;
    /// Truncates or extends (with zeros) to this length in bytes.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// The length in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// The operating system's file, if there is one, for handing the descriptor to an SPE or to `copy_file_range`.
    fn os_file(&self) -> Option<&File>;
    /// Identifies this file on its disk, whatever its name is; the number may be reused once the file is gone.
    fn id(&self) -> io::Result<u64>;
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderItem {
    /// The last component of its path.
    pub name: String,
    /// Whether it is a folder. A symbolic link counts as a file.
    pub is_folder: bool,
    /// Length in bytes; 0 for a folder.
    pub bytes: u64,
}

/// A claim on a folder, released when dropped or when the process ends, however it ends.
#[derive(Debug)]
pub struct FolderLock {
    _file: Option<File>,
}

impl FolderLock {
    /// A claim that lives as long as this file, which holds the operating system's lock.
    pub(crate) fn held_by(file: File) -> Self {
        Self { _file: Some(file) }
    }

    /// A claim on a disk that only one process can see.
    pub(crate) fn alone() -> Self {
        Self { _file: None }
    }
}

/// Whether a read error says that the disk has lost these bytes: a bad sector, as long as it is the only one.
pub(crate) fn is_bad_sector(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Fills `buffer` from `offset`; fails with `UnexpectedEof` when the file ends first.
pub(crate) fn read_exactly(file: &dyn DiskFile, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes the next read return what is on the disk. After a failed sync the system may treat the bytes as safe and
/// return them, although they never reached the disk. Building on them means building on what a crash takes away.
pub(crate) fn drop_page_cache(file: &dyn DiskFile) -> io::Result<()> {
    // Only pages that are not being written can be dropped.
    file.sync_data()?;
    file.start_writeback(0, file.bytes()?)
}

/// Reads a whole small file; fails with `FileTooLarge` when it has more than `bytes_max` bytes.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = disk.open_to_read(path)?;
    let bytes = file.bytes()?;
    if bytes > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // The limit above is far below what an address can hold on the 64-bit machines we run on.
    let mut content = vec![0; bytes as usize];
    read_exactly(&*file, &mut content, 0)?;
    Ok(content)
}

/// Whether a folder has this name.
pub(crate) fn is_folder(disk: &dyn Disk, path: &Path) -> bool {
    matches!(disk.bytes(path), Ok(None)) && disk.list(path).is_ok()
}

/// Removes everything below a folder, and keeps the folder.
pub(crate) fn empty_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    // Folders are removed after their content, hence two passes: found on the way down, removed on the way back. It
    // uses its own stack, because a job may have nested its scratch folders deeper than a thread's stack allows.
    let mut unread = vec![folder.to_owned()];
    let mut found: Vec<PathBuf> = Vec::new();
    while let Some(inside) = unread.pop() {
        for item in disk.list(&inside)? {
            let path = inside.join(&item.name);
            if item.is_folder {
                unread.push(path.clone());
                found.push(path);
            } else {
                disk.remove_file(&path)?;
            }
        }
    }
    // A folder is always found before its content.
    found.iter().rev().try_for_each(|path| disk.remove_folder(path))
}

/// Removes a folder that contains nothing but empty folders. If there is a file anywhere in it, returns `false` and
/// removes nothing.
pub(crate) fn remove_if_only_folders(disk: &dyn Disk, folder: &Path) -> io::Result<bool> {
    let mut found = vec![folder.to_owned()];
    let mut next = 0;
    while next < found.len() {
        let inside = found[next].clone();
        for item in disk.list(&inside)? {
            if !item.is_folder {
                return Ok(false);
            }
            found.push(inside.join(&item.name));
        }
        next += 1;
    }
    found.iter().rev().try_for_each(|path| disk.remove_folder(path))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::MemoryDisk;

    /// A file that returns one byte at a time and is interrupted before each.
    struct Slow(std::sync::Mutex<bool>);

    impl DiskFile for Slow {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let mut interrupted = self.0.lock().unwrap();
            *interrupted = !*interrupted;
            match (*interrupted, buffer.first_mut()) {
                (true, _) => Err(io::ErrorKind::Interrupted.into()),
                (false, Some(byte)) if offset < 5 => {
                    *byte = offset as u8;
                    Ok(1)
                }
                (false, _) => Ok(0),
            }
        }
        fn write_all_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }
        fn start_writeback(&self, _from: u64, _bytes: u64) -> io::Result<()> {
            Ok(())
        }
        fn set_len(&self, _bytes: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn bytes(&self) -> io::Result<u64> {
            Ok(5)
        }
        fn os_file(&self) -> Option<&File> {
            None
        }
        fn id(&self) -> io::Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn a_read_goes_on_after_short_and_interrupted_ones_and_stops_at_the_end() {
        let slow = Slow(std::sync::Mutex::new(false));
        let mut buffer = [9; 3];
        read_exactly(&slow, &mut buffer, 2).unwrap();
        assert_eq!(buffer, [2, 3, 4]);
        assert_eq!(read_exactly(&slow, &mut buffer, 3).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_file_larger_than_allowed_is_not_read_into_memory() {
        let disk = MemoryDisk::new(0);
        let path = Path::new("/f");
        disk.create(path).unwrap().write_all_at(b"12345", 0).unwrap();
        assert_eq!(read_whole(&disk, path, 5).unwrap(), b"12345");
        assert_eq!(read_whole(&disk, path, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn only_folders_without_any_file_are_removed_and_an_emptied_folder_stays() {
        let disk = MemoryDisk::new(0);
        disk.create_folder_all(Path::new("/a/b/c")).unwrap();
        disk.create_folder_all(Path::new("/a/d")).unwrap();
        disk.create(Path::new("/a/b/file")).unwrap();
        assert!(!remove_if_only_folders(&disk, Path::new("/a")).unwrap());
        assert!(is_folder(&disk, Path::new("/a/d")), "all or nothing");
        disk.remove_file(Path::new("/a/b/file")).unwrap();
        assert!(remove_if_only_folders(&disk, Path::new("/a")).unwrap());
        assert!(!is_folder(&disk, Path::new("/a")));
        disk.create_folder_all(Path::new("/a/b/c")).unwrap();
        disk.create(Path::new("/a/b/c/file")).unwrap();
        empty_folder(&disk, Path::new("/a")).unwrap();
        assert_eq!(disk.list(Path::new("/a")).unwrap(), []);
    }
}
