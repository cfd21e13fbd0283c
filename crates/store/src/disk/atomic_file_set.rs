//! Replaces small files that only make sense together, such as a certificate and its key. Serves the renewal of
//! certificates. The new files are written beside the old ones. Once the last of them is there, all are, and the next
//! start moves them into place ([`finish_file_replacement`]); until then the old ones count. After a crash that step
//! never leaves an old file beside a new one.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::write_file_atomically;

/// Replaces all of these files, given with their bytes and permissions. After an error, or a crash,
/// [`finish_file_replacement`] with the same paths in the same order yields either all the old or all the new files.
///
/// # Errors
/// The operating system's error.
pub fn replace_files_atomically(files: &[(&Path, &[u8], u32)]) -> io::Result<()> {
    let paths: Vec<_> = files.iter().map(|(path, ..)| *path).collect();
    // An earlier replacement may be unfinished: its last file would make these look complete after the first of them.
    finish_file_replacement(&paths)?;
    lay_beside(files)?;
    finish_file_replacement(&paths)
}

fn lay_beside(files: &[(&Path, &[u8], u32)]) -> io::Result<()> {
    files.iter().try_for_each(|(path, bytes, mode)| write_file_atomically(&beside(path), bytes, *mode))
}

/// Finishes a replacement that a crash interrupted. Does nothing if there was none, or if it had hardly begun.
///
/// # Errors
/// The operating system's error.
pub fn finish_file_replacement(paths: &[&Path]) -> io::Result<()> {
    let Some(last) = paths.last() else { return Ok(()) };
    if !beside(last).try_exists()? {
        return Ok(());
    }
    for path in paths {
        match fs::rename(beside(path), path) {
            // Moved already, before the crash.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
        // Synced before the next one moves: the last file shows that there is something to finish.
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
    }
    Ok(())
}

/// The place of the new file until it moves.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".next");
    name.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Promise 27.
    #[test]
    fn wherever_a_crash_comes_all_files_are_old_or_all_are_new() {
        // What is on the disk after each step of a replacement of `key` and `certificate`.
        let steps: [(&[(&str, &str)], &str); 6] = [
            (&[("key", "old"), ("certificate", "old")], "old"),
            (&[("key", "old"), ("certificate", "old"), ("key.next", "new")], "old"),
            (&[("key", "old"), ("certificate", "old"), ("key.next", "new"), ("certificate.next", "new")], "new"),
            (&[("key", "new"), ("certificate", "old"), ("certificate.next", "new")], "new"),
            (&[("key", "new"), ("certificate", "new")], "new"),
            (&[("key.next", "new"), ("certificate.next", "new")], "new"),
        ];
        for (files, expected) in steps {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            let (key, certificate) = (folder.path().join("key"), folder.path().join("certificate"));
            for _ in 0..2 {
                finish_file_replacement(&[&key, &certificate]).unwrap();
                for file in [&key, &certificate] {
                    assert_eq!(fs::read_to_string(file).unwrap(), expected, "{files:?}");
                }
            }
        }
    }

    // Promise 27.
    #[test]
    fn a_replacement_that_broke_off_is_finished_before_the_next_begins() {
        let folder = tempfile::tempdir().unwrap();
        let (key, certificate) = (folder.path().join("key"), folder.path().join("certificate"));
        let all = |text: &'static str| [(&*key, text.as_bytes(), 0o600), (&*certificate, text.as_bytes(), 0o644)];
        let both = || [&key, &certificate].map(|file| fs::read_to_string(file).unwrap());
        replace_files_atomically(&all("one")).unwrap();
        // The second one stops after its first rename; to replace a folder by a file is refused.
        fs::remove_file(&certificate).unwrap();
        fs::create_dir(&certificate).unwrap();
        assert!(replace_files_atomically(&all("two")).is_err());
        // As does the third, which leaves the second as it is.
        assert!(replace_files_atomically(&all("three")).is_err());
        fs::remove_dir(&certificate).unwrap();
        finish_file_replacement(&[&key, &certificate]).unwrap();
        assert_eq!(both(), ["two", "two"]);
        replace_files_atomically(&all("three")).unwrap();
        assert_eq!(both(), ["three", "three"]);
    }

    #[test]
    fn files_are_replaced_with_their_permissions_whatever_an_earlier_attempt_left() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (key, certificate) = (folder.path().join("key"), folder.path().join("certificate"));
        fs::write(beside(&key), "left over").unwrap();
        for text in ["one", "two"] {
            replace_files_atomically(&[(&key, text.as_bytes(), 0o600), (&certificate, text.as_bytes(), 0o644)])
                .unwrap();
            assert_eq!(fs::read_to_string(&key).unwrap(), text);
            assert_eq!(fs::read_to_string(&certificate).unwrap(), text);
        }
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
