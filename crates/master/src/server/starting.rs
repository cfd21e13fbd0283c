//! What a master needs at its start: its port, its journal, the rows in it, and the socket for backups. It never serves
//! a request.

use std::{io, path::PathBuf, sync::Arc};

use net::backup_socket::BackupSocket;
use store::Journal;

use super::JOURNAL_FILE;
use crate::{JournalLoader, MasterError, actions::TABLES};

/// Gives the rows of one moment to a process that takes a backup, beside the server loop, which goes on meanwhile.
pub(super) async fn serve_backups(folder: PathBuf, journal: Arc<Journal>) {
    match BackupSocket::open(&folder) {
        Ok(door) => {
            door.serve(Arc::new(move |out| journal.export(out).map(drop).map_err(io::Error::other))).await;
        }
        Err(error) => tracing::warn!(%error, "backups can be taken only while this master is stopped"),
    }
}

/// Opens the journal in the master's folder, which is created if missing. Blocks.
pub(super) fn open_journal(folder: &std::path::Path) -> Result<Journal, MasterError> {
    let unmade = |source| MasterError::Folder { operation: "make", path: folder.display().to_string(), source };
    std::fs::create_dir_all(folder).map_err(unmade)?;
    let unopened = |source| MasterError::Journal { operation: "open", source };
    Journal::open(&folder.join(JOURNAL_FILE)).map_err(unopened)
}

/// All rows of the journal. Blocks.
pub(super) fn load_rows(journal: &Journal) -> Result<JournalLoader, MasterError> {
    let mut loading = JournalLoader::new();
    read_rows(journal, |table, key, value| loading.add_row(table, key, value))?;
    Ok(loading)
}

/// Passes all rows of the journal to `take`, table by table. Blocks.
pub(crate) fn read_rows(
    journal: &Journal,
    mut take_row: impl FnMut(&'static str, &[u8], &[u8]) -> Result<(), MasterError>,
) -> Result<(), MasterError> {
    for table in TABLES {
        let mut taken = Ok(());
        let mut take = |key: &[u8], value: &[u8]| {
            if taken.is_ok() {
                taken = take_row(table, key, value);
            }
        };
        journal.load(table, &mut take).map_err(|source| MasterError::Journal { operation: "read", source })?;
        taken?;
    }
    Ok(())
}
