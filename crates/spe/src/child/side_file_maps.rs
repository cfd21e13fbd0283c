//! The side files of a function. A function in this process gets them mapped; a program, which finds a file only by
//! name, gets copies in the scratch folder. Serves the path *job*, door 7; in the SPE process alone. It never writes to
//! the received file, because the node's other SPEs read the same one.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use memmap2::Mmap;
use protocol::{Reason, Refusal};
use udf::SideFiles;

use super::mapped_part;

/// A side file as received: the function's name for it, and the file.
pub(super) type NamedFile = (String, File);

/// Mapped side files, by name; `None` for one without bytes.
#[derive(Debug, Default)]
pub(super) struct MappedSideFiles(Vec<(String, Option<Mmap>)>);

impl MappedSideFiles {
    /// Maps all of them.
    pub(super) fn of(files: &[NamedFile]) -> Result<Self, Refusal> {
        let mapped = files.iter().map(|(name, file)| match mapped_part::map_file(file) {
            Ok(map) => Ok((name.clone(), map)),
            Err(why) => Err(Refusal::new(Reason::Unavailable, format!("the side file `{name}` cannot be read: {why}"))),
        });
        mapped.collect::<Result<_, _>>().map(Self)
    }
}

impl SideFiles for MappedSideFiles {
    fn find(&self, name: &str) -> Option<&[u8]> {
        let (_, map) = self.0.iter().find(|(known, _)| known == name)?;
        Some(map.as_deref().unwrap_or_default())
    }
}

/// Writes copies into the folder `side` of `folder`, replacing those of an earlier function, and returns each name with
/// its file's. There is no `/proc` in here to give an open file a name. And each program can read a copy from its
/// beginning.
pub(super) fn write_copies(files: &[NamedFile], folder: &Path) -> Result<Vec<(String, String)>, Refusal> {
    let place = folder.join(FOLDER);
    let cleared = match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ if files.is_empty() => Ok(()),
        _ => fs::create_dir(&place),
    };
    cleared.map_err(|error| refused("the folder for side files", &error))?;
    let maps = MappedSideFiles::of(files)?;
    let mut laid = Vec::with_capacity(files.len());
    for (name, map) in maps.0 {
        let bytes = map.as_deref().unwrap_or_default();
        let file = File::options().write(true).create_new(true).mode(READ_ONLY).open(place.join(&name));
        let written = file.and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| refused(&format!("the side file `{name}`"), &error))?;
        let path = format!("{FOLDER}/{name}");
        laid.push((name, path));
    }
    Ok(laid)
}

fn refused(what: &str, error: &io::Error) -> Refusal {
    let message = format!(
        "{what} cannot be laid where a program finds it: {error}. All of a stage's must fit the scratch folder of an SPE \
         (`spe_scratch_bytes` of the node)"
    );
    Refusal::new(Reason::Unavailable, message)
}

/// Where programs find side files, below their start folder.
const FOLDER: &str = "side";
/// A program that changed its copy would read something else in the next segment.
const READ_ONLY: u32 = 0o400;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn came(name: &str, bytes: &[u8]) -> NamedFile {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        (name.into(), file)
    }

    #[test]
    fn a_mapped_side_file_is_found_by_its_name_and_an_empty_one_too() {
        let maps = MappedSideFiles::of(&[came("words", b"a b"), came("empty", b"")]).unwrap();
        assert_eq!((maps.find("words"), maps.find("empty")), (Some(&b"a b"[..]), Some(&b""[..])));
        assert_eq!(maps.find("other"), None);
    }

    #[test]
    fn laid_files_are_those_of_the_last_function_alone() {
        let folder = tempfile::tempdir().unwrap();
        let names = write_copies(&[came("words", b"a b"), came("old", b"x")], folder.path()).unwrap();
        assert_eq!(names[0], ("words".into(), "side/words".into()));
        assert_eq!(fs::read(folder.path().join("side/words")).unwrap(), b"a b");
        write_copies(&[came("words", b"c")], folder.path()).unwrap();
        assert_eq!(fs::read(folder.path().join("side/words")).unwrap(), b"c");
        assert!(!folder.path().join("side/old").exists());
        assert_eq!(write_copies(&[], folder.path()).unwrap(), []);
        assert!(!folder.path().join("side").exists());
    }
}
