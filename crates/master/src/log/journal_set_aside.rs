//! Setting a journal aside, so that the next start puts the names together from the nodes (`sector master rebuild`).
//! Never deletes one, and never touches one that a master uses.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use store::{Journal, StoreError};

use crate::{MasterError, server::JOURNAL_FILE};

/// Gives the journal in a master's folder another name: `journal.redb.aside-1`, or the next free number. `None` where
/// there is no journal. Blocks.
///
/// # Errors
/// When a master runs on it, or the disk does not let it.
pub fn archive_journal(folder: &Path) -> Result<Option<PathBuf>, MasterError> {
    let file = folder.join(JOURNAL_FILE);
    if !file.exists() {
        return Ok(None);
    }
    match Journal::open(&file) {
        // A damaged one above all.
        Ok(_) | Err(StoreError::NotAJournal { .. }) => {}
        Err(source) => return Err(MasterError::Journal { operation: "set aside", source }),
    }
    let failed = |source| MasterError::Folder { operation: "set aside", path: file.display().to_string(), source };
    let aside = (1_u32..).map(|number| folder.join(format!("{JOURNAL_FILE}.aside-{number}")));
    let Some(aside) = aside.into_iter().find(|aside| !aside.exists()) else { return Ok(None) };
    fs::rename(&file, &aside).map_err(failed)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(Some(aside))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_journal_is_set_aside_under_a_free_name_and_not_while_it_is_used() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(archive_journal(folder.path()).unwrap(), None);
        let file = folder.path().join(JOURNAL_FILE);
        let used = Journal::open(&file).unwrap();
        let refusal = archive_journal(folder.path()).unwrap_err().refusal();
        assert!(refusal.message.contains("in use"), "{refusal}");
        assert!(file.exists());
        drop(used);
        let first = archive_journal(folder.path()).unwrap().unwrap();
        fs::write(&file, b"damaged").unwrap();
        let second = archive_journal(folder.path()).unwrap().unwrap();
        assert!(first != second && first.exists() && !file.exists());
        assert_eq!(fs::read(second).unwrap(), b"damaged");
    }
}
