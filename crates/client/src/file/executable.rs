//! The executable bit of a file (paths: upload, download). In the cloud it is a key of the file's user metadata, so it
//! goes wherever these go: into copies, the trash and a rebuild. It never carries another bit of a mode, since rights in
//! the cloud are lists.

use std::{
    collections::BTreeMap,
    fs::{File, Metadata, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use protocol::message::client_master::FileContent;

/// Whether a file in the cloud may be run as a program where it comes to a disk.
pub(crate) fn is_executable(content: &FileContent) -> bool {
    content.user.contains_key(KEY)
}

/// Whether a local file may be run by its owner.
pub(crate) fn is_executable_here(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & OWNER_RUNS != 0
}

/// The change of user metadata that gives a file the bit, or takes it.
pub(crate) fn change(is_executable: bool) -> BTreeMap<String, Option<String>> {
    [(KEY.to_owned(), is_executable.then(|| VALUE.to_owned()))].into()
}

/// Notes it in the user metadata that go with the file.
pub(crate) fn note(user: &mut BTreeMap<String, String>, is_executable: bool) {
    match is_executable {
        true => user.insert(KEY.to_owned(), VALUE.to_owned()),
        false => user.remove(KEY),
    };
}

/// Lets everyone who may read an open file run it.
pub(crate) fn make_executable(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    file.set_permissions(Permissions::from_mode(executable_mode(mode)))
}

/// Gives a local file the bit that the one in the cloud has, and says whether it had another. With `may_clear`, a file
/// that may not be run in the cloud may not be run here either. A file system without modes keeps its own.
pub(crate) fn adopt(file: &Path, is_executable: bool, may_clear: bool) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let mode = metadata.permissions().mode();
    let wanted = match (is_executable, is_executable_here(&metadata)) {
        (true, false) => executable_mode(mode),
        (false, true) if may_clear => mode & !ALL_RUN,
        _ => return false,
    };
    match std::fs::set_permissions(file, Permissions::from_mode(wanted)) {
        Ok(()) => true,
        Err(error) => {
            tracing::info!(file = %file.display(), %error, "the executable bit of a local file is not set");
            false
        }
    }
}

/// As `chmod +x` and the umask make it: whoever may read it may run it.
fn executable_mode(mode: u32) -> u32 {
    mode | (mode & ALL_READ) >> 2 | OWNER_RUNS
}

/// What it is there, where a file has the bit.
const VALUE: &str = "yes";
/// The key in the user metadata.
const KEY: &str = "sector.executable";
const OWNER_RUNS: u32 = 0o100;
const ALL_READ: u32 = 0o444;
const ALL_RUN: u32 = 0o111;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    #[test]
    fn whoever_may_read_a_program_may_run_it_and_nothing_else_of_its_mode_changes() {
        for (mode, expected) in [(0o644, 0o755), (0o600, 0o700), (0o640, 0o750), (0o200, 0o300), (0o755, 0o755)] {
            assert_eq!(executable_mode(mode), expected, "{mode:o}");
        }
    }

    #[test]
    fn a_file_gets_the_bit_and_loses_it_only_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert!(!adopt(&file, false, true) && mode() == 0o640);
        assert!(adopt(&file, true, false) && mode() == 0o750);
        assert!(!adopt(&file, true, true) && !adopt(&file, false, false) && mode() == 0o750);
        assert!(adopt(&file, false, true) && mode() == 0o640);
        assert!(!adopt(&folder.path().join("none"), true, true));
        let mut user = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        note(&mut user, true);
        assert_eq!(user.len(), 2);
        note(&mut user, false);
        assert_eq!(user.len(), 1, "what users keep there stays");
    }
}
