//! Empties a folder in which users' functions have worked. They may leave anything there: names that are no text,
//! folders that nobody may enter, folders nested deeper than a path may be long. None of it may keep a node from
//! starting. This file never follows a link.

use std::{
    fs::{self, DirEntry, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Removes everything below `folder`, and keeps the folder. What belongs to another user and may not be removed stays,
/// with a line in the log: it takes room, and does no other harm.
///
/// # Errors
/// When the disk fails.
pub fn clear_scratch(folder: &Path) -> io::Result<()> {
    let mut lifted = 0;
    // Folders are lifted to the top instead of entered, so that no path ever gets long. Each pass removes what the
    // last one has lifted.
    loop {
        let (mut has_removed, mut left) = (false, None);
        for entry in read(folder)? {
            match remove(&entry, folder, &mut lifted) {
                Ok(()) => has_removed = true,
                Err(error) if is_refused(&error) => left = Some((entry.path(), error)),
                Err(error) => return Err(error),
            }
        }
        if has_removed {
            continue;
        }
        if let Some((path, error)) = left {
            tracing::warn!(path = %path.display(), %error, "what a function left cannot be removed, and takes room");
        }
        return Ok(());
    }
}

/// Removes a file or folder of `top`, after lifting the folders in it.
fn remove(entry: &DirEntry, top: &Path, lifted: &mut u64) -> io::Result<()> {
    let path = entry.path();
    if !entry.file_type()?.is_dir() {
        return gone(fs::remove_file(&path));
    }
    for inside in read(&path)? {
        if inside.file_type()?.is_dir() {
            lift(&inside.path(), top, lifted)?;
        } else {
            gone(fs::remove_file(inside.path()))?;
        }
    }
    gone(fs::remove_dir(&path))
}

/// Moves a folder to a free name in `top`.
fn lift(path: &Path, top: &Path, lifted: &mut u64) -> io::Result<()> {
    loop {
        *lifted += 1;
        let target: PathBuf = top.join(format!("removed-{lifted}"));
        if fs::symlink_metadata(&target).is_ok() {
            continue;
        }
        return match fs::rename(path, &target) {
            Err(error) if is_refused(&error) => {
                open_up(path)?;
                gone(fs::rename(path, &target))
            }
            moved => gone(moved),
        };
    }
}

/// The content of a folder, which its owner may have locked.
fn read(folder: &Path) -> io::Result<Vec<DirEntry>> {
    let mode = fs::symlink_metadata(folder)?.permissions().mode();
    if mode & ALL_OF_OWNER != ALL_OF_OWNER {
        open_up(folder)?;
    }
    fs::read_dir(folder)?.collect()
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(ALL_OF_OWNER))
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ResourceBusy)
}

/// Read, write and enter.
const ALL_OF_OWNER: u32 = 0o700;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        ffi::OsStr,
        os::unix::{
            ffi::OsStrExt,
            fs::{chown, symlink},
        },
        thread,
    };

    use rustix::{
        process::{Uid, getuid},
        thread::set_thread_uid,
    };
    use tempfile::TempDir;

    use super::*;

    /// Runs as a user who is not root, to whom the folder belongs.
    fn as_ordinary_user(folder: &Path, work: impl FnOnce() + Send) {
        thread::scope(|scope| {
            let running = scope.spawn(|| {
                if getuid().is_root() {
                    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
                    set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
                }
                work();
            });
            running.join().unwrap();
        });
    }

    fn is_empty(folder: &Path) -> bool {
        fs::read_dir(folder).unwrap().next().is_none()
    }

    #[test]
    fn names_that_are_no_text_and_folders_that_nobody_may_enter_go() {
        let folder = TempDir::new().unwrap();
        as_ordinary_user(folder.path(), || {
            let scratch = folder.path().join("job/spe-1");
            let locked = scratch.join("locked/inside");
            fs::create_dir_all(&locked).unwrap();
            fs::write(scratch.join(OsStr::from_bytes(b"\xff")), b"x").unwrap();
            fs::write(locked.join("file"), b"x").unwrap();
            fs::create_dir(folder.path().join("removed-1")).unwrap();
            fs::write(folder.path().join("removed-1/file"), b"x").unwrap();
            for closed in [&locked, &scratch.join("locked"), &scratch] {
                fs::set_permissions(closed, Permissions::from_mode(0o0)).unwrap();
            }
            clear_scratch(folder.path()).unwrap();
        });
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn folders_nested_deeper_than_a_path_may_be_long_go() {
        let folder = TempDir::new().unwrap();
        let name = "n".repeat(250);
        // From the inside out, since no path reaches the innermost one.
        let (nested, next) = (folder.path().join(&name), folder.path().join("next"));
        fs::create_dir(&nested).unwrap();
        for _ in 0..40 {
            fs::create_dir(&next).unwrap();
            fs::rename(&nested, next.join(&name)).unwrap();
            fs::rename(&next, &nested).unwrap();
        }
        assert!(!is_empty(folder.path()));
        clear_scratch(folder.path()).unwrap();
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn a_link_goes_and_what_it_points_to_stays() {
        let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::write(other.path().join("kept"), b"x").unwrap();
        symlink(other.path(), folder.path().join("link")).unwrap();
        fs::create_dir(folder.path().join("inside")).unwrap();
        symlink(other.path(), folder.path().join("inside/link")).unwrap();
        clear_scratch(folder.path()).unwrap();
        assert!(is_empty(folder.path()) && other.path().join("kept").exists());
    }

    #[test]
    fn what_belongs_to_another_user_stays_and_is_no_failure() {
        if !getuid().is_root() {
            return;
        }
        let folder = TempDir::new().unwrap();
        let foreign = folder.path().join("spe-1");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("file"), b"x").unwrap();
        fs::set_permissions(&foreign, Permissions::from_mode(0o700)).unwrap();
        fs::write(folder.path().join("own"), b"x").unwrap();
        as_ordinary_user(folder.path(), || clear_scratch(folder.path()).unwrap());
        assert!(foreign.join("file").exists() && !folder.path().join("own").exists());
    }

    const NOBODY: u32 = 65534;
}
