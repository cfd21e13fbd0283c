//! The folder in memory (tmpfs) where a node keeps the files below `/memory` (path of a job, "Results in memory"). Its
//! random name is stored in the data folder, so a node that was killed finds it again; an orderly stop removes it. Each
//! folder names its data folder, and any node that starts removes those whose data folder is gone. It never touches a
//! folder that another user made or a process holds.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use store::{Disk, OsDisk, write_file_atomically};

/// Creates the folder of the node with this data folder, below `below`; earlier content is still there. Another process
/// of the same node may have it: only the process that holds the data folder may use it, or [remove](remove_folder) it.
pub(crate) fn make_folder(below: &Path, data_folder: &Path) -> io::Result<PathBuf> {
    let data_folder = fs::canonicalize(data_folder)?;
    let name = match remembered(&data_folder) {
        Some(name) => name,
        None => {
            let random: [u8; 8] = net::identity::random();
            let name = format!("{NAME_PREFIX}{:016x}", u64::from_be_bytes(random));
            write_file_atomically(&data_folder.join(NAME_FILE), name.as_bytes(), 0o600)?;
            name
        }
    };
    let path = below.join(name);
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_own(&path)?,
        made => made?,
    }
    // Written whole or not at all: other nodes that start now read it.
    write_file_atomically(&path.join(OWNER_FILE), data_folder.as_os_str().as_encoded_bytes(), 0o600)?;
    remove_orphans(below);
    Ok(path)
}

/// Removes the folder with all its content, because its node was stopped.
pub(crate) fn remove_folder(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(folder = %path.display(), %error, "what was kept in memory could not be removed");
    }
}

/// The name of a data folder's folder in memory, if it has one.
fn remembered(data_folder: &Path) -> Option<String> {
    let name = fs::read_to_string(data_folder.join(NAME_FILE)).ok()?;
    let is_name = |rest: &str| rest.len() == 16 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.strip_prefix(NAME_PREFIX).is_some_and(is_name).then_some(name)
}

/// Everyone may write where such folders lie, so one that another user made is refused.
fn check_own(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("`{}` belongs to someone else", path.display())))
}

/// Best effort: what cannot be removed goes when the machine stops.
fn remove_orphans(below: &Path) {
    for item in fs::read_dir(below).into_iter().flatten().flatten() {
        let (path, name) = (item.path(), item.file_name());
        let Some(name) = name.to_str().filter(|name| name.starts_with(NAME_PREFIX)) else { continue };
        // Checked before anything in the folder is opened: opening could be made to block for ever.
        if check_own(&path).is_err() {
            continue;
        }
        let Ok(owner) = fs::read_to_string(path.join(OWNER_FILE)) else { continue };
        // Only if it is surely gone: a disk that cannot be read now may be back in a moment.
        let is_gone = match fs::symlink_metadata(Path::new(&owner).join(NAME_FILE)) {
            Ok(_) => remembered(Path::new(&owner)).is_some_and(|other| other != name),
            Err(error) => error.kind() == io::ErrorKind::NotFound && !owner.is_empty(),
        };
        // A process that holds it may have had its data folder removed under it.
        if is_gone && OsDisk.lock_folder(&path).is_ok() && fs::remove_dir_all(&path).is_ok() {
            tracing::info!(folder = %path.display(), owner, "removed what a node that is gone had kept in memory");
        }
    }
}

/// The prefix of these folders' names.
const NAME_PREFIX: &str = "sector-";
/// The file in a data folder with the name of its folder in memory.
const NAME_FILE: &str = "memory";
/// The file in such a folder with the path of its data folder.
const OWNER_FILE: &str = "data-folder";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn folders<const N: usize>(home: &tempfile::TempDir, names: [&str; N]) -> [PathBuf; N] {
        names.map(|name| {
            let folder = home.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        })
    }

    #[test]
    fn a_folder_is_found_again_after_a_crash_and_a_rename_and_gone_after_a_stop() {
        let home = tempfile::tempdir().unwrap();
        let [memory, data] = folders(&home, ["memory", "data"]);
        let folder = make_folder(&memory, &data).unwrap();
        fs::write(folder.join("file"), "x").unwrap();
        assert_eq!(make_folder(&memory, &data).unwrap(), folder);
        let renamed = home.path().join("renamed");
        fs::rename(&data, &renamed).unwrap();
        assert_eq!(make_folder(&memory, &renamed).unwrap(), folder);
        assert_eq!(fs::read(folder.join("file")).unwrap(), b"x");
        // Another folder stands in place of the old one.
        fs::create_dir(&data).unwrap();
        assert_ne!(make_folder(&memory, &data).unwrap(), folder);
        assert!(folder.exists());
        remove_folder(&folder);
        assert_eq!(fs::read_dir(&memory).unwrap().count(), 1);
    }

    #[test]
    fn the_folder_of_a_node_without_data_is_removed_at_the_next_start_and_no_other() {
        let home = tempfile::tempdir().unwrap();
        let [memory, gone, there, held, next] = folders(&home, ["memory", "gone", "there", "held", "next"]);
        for name in ["sector-of-someone", "others", "sector-unsaid"] {
            fs::DirBuilder::new().mode(0o700).create(memory.join(name)).unwrap();
        }
        fs::write(memory.join("others").join(OWNER_FILE), "/none").unwrap();
        fs::write(memory.join("sector-unsaid").join(OWNER_FILE), "").unwrap();
        let of = [&gone, &there, &held].map(|data| make_folder(&memory, data).unwrap());
        let _lock = OsDisk.lock_folder(&of[2]).unwrap();
        [&gone, &held].iter().for_each(|data| fs::remove_dir_all(data).unwrap());
        make_folder(&memory, &next).unwrap();
        assert_eq!(of.each_ref().map(|folder| folder.exists()), [false, true, true]);
        assert_eq!(fs::read_dir(&memory).unwrap().count(), 6, "three of others, there, held, next");
    }

    #[test]
    fn a_folder_that_others_can_read_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let folder = make_folder(home.path(), home.path()).unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder, permissions).unwrap();
        let error = make_folder(home.path(), home.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
