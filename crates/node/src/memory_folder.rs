//! The folder in memory in which a node keeps the files below `/memory` (path of a job, "Results in memory"). It lies in a
//! file system in memory (tmpfs), under a name made from the number of the node's data folder: so a node that was killed
//! finds it again when it starts, also where that folder was renamed; and one that is stopped in order takes it along.
//!
//! Such a folder outlives a node that never starts again. So each says of which data folder it is, and whoever starts
//! next removes those of data folders that are gone.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// A node's folder in memory; it is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct MemoryFolder {
    path: PathBuf,
}

impl MemoryFolder {
    /// Makes the folder of the node with these data, below `below`; whatever it held is still there. Another process of the
    /// same node may have it: only who has the data folder may [hold](Self::hold) it.
    pub(crate) fn make(below: &Path, data_folder: &Path) -> io::Result<PathBuf> {
        let data_folder = fs::canonicalize(data_folder)?;
        let path = below.join(name_of(&data_folder)?);
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_own(&path)?,
            made => made?,
        }
        fs::write(path.join(OWNER_NAME), data_folder.as_os_str().as_encoded_bytes())?;
        remove_orphans(below);
        Ok(path)
    }

    pub(crate) fn hold(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(folder = %self.path.display(), %error, "what was kept in memory could not be removed");
        }
    }
}

/// By what the file system calls it: one that was removed and made anew has none of what the old one had.
fn name_of(data_folder: &Path) -> io::Result<String> {
    let found = fs::metadata(data_folder)?;
    Ok(format!("{NAME_PREFIX}{:x}-{:x}", found.dev(), found.ino()))
}

/// Everyone may write where such folders lie: one that another user made is none of ours.
fn check_own(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("`{}` belongs to someone else", path.display())))
}

/// Best effort: what cannot be removed is another user's, or goes when the machine stops.
fn remove_orphans(below: &Path) {
    for item in fs::read_dir(below).into_iter().flatten().flatten() {
        let name = item.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(NAME_PREFIX)) else { continue };
        let Ok(owner) = fs::read_to_string(item.path().join(OWNER_NAME)) else { continue };
        let is_orphan = name_of(Path::new(&owner)).ok().is_none_or(|of_owner| of_owner != name);
        if is_orphan && fs::remove_dir_all(item.path()).is_ok() {
            tracing::info!(folder = %item.path().display(), owner, "removed what a node that is gone had kept in memory");
        }
    }
}

/// How the names of these folders begin.
const NAME_PREFIX: &str = "sector-";
/// The file in such a folder that names its data folder.
const OWNER_NAME: &str = "data-folder";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_folder_is_found_again_after_a_crash_and_gone_after_a_stop() {
        let home = tempfile::tempdir().unwrap();
        let [memory, data] = ["memory", "data"].map(|name| home.path().join(name));
        fs::create_dir(&memory).unwrap();
        fs::create_dir(&data).unwrap();
        let folder = MemoryFolder::make(&memory, &data).unwrap();
        let file = folder.join("file");
        fs::write(&file, "x").unwrap();
        assert_eq!(MemoryFolder::make(&memory, &data).unwrap(), folder);
        assert_eq!(fs::read(&file).unwrap(), b"x");
        drop(MemoryFolder::hold(folder));
        assert_eq!(fs::read_dir(&memory).unwrap().count(), 0);
    }

    #[test]
    fn what_a_node_left_whose_data_are_gone_is_removed_by_the_next_that_starts_and_nothing_else_is() {
        let home = tempfile::tempdir().unwrap();
        let [memory, gone, there, next] = ["memory", "gone", "there", "next"].map(|name| {
            let folder = home.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        });
        fs::create_dir(memory.join("sector-of-someone")).unwrap();
        fs::create_dir(memory.join("others")).unwrap();
        fs::write(memory.join("others").join(OWNER_NAME), "/none").unwrap();
        let [of_gone, of_there] = [&gone, &there].map(|data| MemoryFolder::make(&memory, data).unwrap());
        fs::remove_dir(&gone).unwrap();
        MemoryFolder::make(&memory, &next).unwrap();
        assert_eq!(fs::read_dir(&memory).unwrap().count(), 4, "of someone, others, there, next");
        // A data folder that was renamed is the same, and one made in its place is not.
        let (renamed, anew) = (home.path().join("renamed"), &there);
        fs::rename(&there, &renamed).unwrap();
        fs::create_dir(anew).unwrap();
        assert_ne!(MemoryFolder::make(&memory, anew).unwrap(), of_there);
        assert!(!of_gone.exists());
    }

    #[test]
    fn a_folder_that_others_can_read_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let folder = MemoryFolder::make(home.path(), home.path()).unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder, permissions).unwrap();
        let error = MemoryFolder::make(home.path(), home.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
