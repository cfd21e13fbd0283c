//! Small files that are replaced whole: settings, profiles, keys. A reader never sees half of one.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{Disk, OsDisk, disk::drop_page_cache};

/// Writes a small file whole or not at all (settings, keys): temporary file, sync, rename, sync folder. The file has
/// the permissions `mode` (`0o600` for a key) from its first byte. After an error the old file is unchanged. The
/// exception is a failure of the very last sync. The file is then the new one, and the error says that a crash may
/// bring the old one back.
pub fn write_file_atomically(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    write_with(path, bytes, mode, &mut |folder| File::open(folder)?.sync_all())
}

/// Reads a whole file as it is on the disk, and not as the system caches it after a failed sync.
///
/// # Errors
/// The operating system's error, including one of writing what it still had to write.
pub fn read_file_uncached(path: &Path) -> io::Result<Vec<u8>> {
    drop_page_cache(&*OsDisk.open_to_read(path)?)?;
    fs::read(path)
}

fn write_with(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    sync_folder: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    // Not derived from the file's name, which may have the maximal length. The process number and a counter keep two
    // writers apart.
    let count = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!(".sector-{}-{count}.tmp", std::process::id()));
    // A folder that cannot be synced is detected before anything is replaced.
    let written = write_new(&temporary, bytes, mode)
        .and_then(|()| sync_folder(&folder))
        .and_then(|()| fs::rename(&temporary, folder.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // Not undone: somebody else may have replaced it again by now.
    sync_folder(&folder).map_err(|error| {
        let message = format!("`{}` has its new content, which a crash may take back: {error}", path.display());
        io::Error::new(error.kind(), message)
    })
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // A crashed process of the same number may have left one.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    // Set again, because the process's umask may have removed some.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

static WRITTEN: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_with_its_permissions_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        write_file_atomically(&path, b"a long first content", 0o644).unwrap();
        write_file_atomically(&path, b"second", 0o600).unwrap();
        assert_eq!(read_file_uncached(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_synced_is_an_error_before_the_rename_or_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        for (failing, content, message) in [(1, "old", ""), (2, "new", "has its new content")] {
            fs::write(&path, "old").unwrap();
            let mut syncs = 0;
            let mut sync = |_: &Path| {
                syncs += 1;
                if syncs == failing { Err(rustix::io::Errno::IO.into()) } else { Ok(()) }
            };
            let error = write_with(&path, b"new", 0o600, &mut sync).unwrap_err().to_string();
            assert!(error.contains(message) && error.contains("os error 5"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
        }
    }

    #[test]
    fn a_write_that_fails_leaves_the_folder_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(write_file_atomically(&path, b"x", 0o600).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_file_atomically(&folder.path().join("no/folder"), b"x", 0o600).is_err());
        assert!(write_file_atomically(Path::new("/"), b"x", 0o600).is_err());
    }
}
