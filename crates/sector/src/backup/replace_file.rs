//! Putting single files into a role's folder. What is there is never written over: it stays, or is put aside under a
//! name of its own.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use protocol::Reason;
use terminal::failure::Failure;

use super::file_copy;

/// Puts a new file in the place of another, which gets the name `NAME.aside-N`, in one step: at no time is there none.
pub(super) fn replace(new: &Path, file: &Path) -> Result<Option<PathBuf>, Failure> {
    let failed = |error: io::Error| file_copy::unwritten(file, &error);
    if !fs::exists(file).map_err(failed)? {
        // A second name, and not a new one: it fails where there is a file by now.
        fs::hard_link(new, file).map_err(failed)?;
        fs::remove_file(new).map_err(failed)?;
        return Ok(None);
    }
    let aside = free_name(file)?;
    fs::hard_link(file, &aside).map_err(failed)?;
    fs::rename(new, file).map_err(failed)?;
    Ok(Some(aside))
}

/// The first of `NAME.aside-1`, `NAME.aside-2` and so on that is free.
fn free_name(file: &Path) -> Result<PathBuf, Failure> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = (1..ASIDES_MAX).map(|number| file.with_file_name(format!("{name}.aside-{number}")));
    let is_free = |aside: &PathBuf| fs::symlink_metadata(aside).is_err();
    names.into_iter().find(is_free).ok_or_else(|| {
        let message = format!("too much was put aside of `{}`; move some of it away", file.display());
        Failure::new(Reason::Exists, message)
    })
}

/// Most that is put aside of one file.
const ASIDES_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Promise 64.
    #[test]
    fn what_was_there_is_put_aside_and_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let (new, file) = (folder.path().join("new"), folder.path().join("journal.redb"));
        let mut asides = Vec::new();
        for text in ["one", "two", "three"] {
            fs::write(&new, text).unwrap();
            asides.push(replace(&new, &file).unwrap());
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert!(!new.exists());
        }
        let texts: Vec<_> = asides.into_iter().flatten().map(|aside| fs::read_to_string(aside).unwrap()).collect();
        assert_eq!(texts, ["one", "two"]);
    }
}
