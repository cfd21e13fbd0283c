//! A folder for the doctor's own files, and the least that makes anything durable. It never touches other files.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// A folder for a test, removed at its end.
pub(super) struct ScratchFolder(pub(super) PathBuf);

impl ScratchFolder {
    /// Makes a scratch folder in `folder`, which is created too.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!(".sector-doctor-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed is recognisable by its name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a small file and syncs it and its folder. The file stays.
pub(super) fn sync_once(folder: &Path, number: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(folder.join(format!("small-{number}")))?;
    file.write_all_at(&[7; SMALL_BYTES], 0)?;
    file.sync_all()?;
    File::open(folder)?.sync_all()
}

/// Bytes of a small file.
const SMALL_BYTES: usize = 4_096;
