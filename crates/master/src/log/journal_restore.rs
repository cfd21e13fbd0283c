//! What a backup records of a journal, and how a journal restored from one becomes an old one: it gets a new id. So all
//! slices that nodes hold count as written under another journal, and names are rebuilt from both
//! (`docs/paths/backup.md`). What is newer at the nodes stays. A slice is never removed just because an old journal
//! does not know it.

use std::path::Path;

use protocol::JournalId;
use store::Journal;

use crate::{
    MasterError,
    actions::{CONFLICTS_TABLE, JOURNAL_TABLE, LINEAGE_TABLE, NAMES_TABLE, StoredRow},
    log::rebuild,
};

/// Facts about a journal, gathered from its rows one by one.
#[derive(Clone, Debug, Default)]
pub struct JournalFacts {
    /// Its id, and its number in the life of the cloud.
    pub id: Option<(JournalId, u64)>,
    /// The number of the last change of a small row.
    pub sequence: u64,
    /// Files and folders that it names.
    pub names: u64,
}

impl JournalFacts {
    /// Takes a row. A row with which a master cannot start is refused.
    ///
    /// # Errors
    /// When a row that describes the journal itself cannot be read.
    pub fn add_row(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), MasterError> {
        match table {
            NAMES_TABLE => self.names += 1,
            JOURNAL_TABLE => {
                let row = StoredRow { table: JOURNAL_TABLE, key: key.into(), value: value.into() };
                let sequence = rebuild::sequence(&row)?;
                self.sequence = self.sequence.max(sequence);
                self.id = rebuild::identity(&[row]).or(self.id);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The tables that mark a journal as restored.
pub(crate) const RESTORED_TABLES: [&str; 3] = [JOURNAL_TABLE, LINEAGE_TABLE, CONFLICTS_TABLE];

/// Gives a restored journal the id `number`, which is drawn at random. So the next master that starts on it asks the
/// nodes for newer data. Blocks.
///
/// # Errors
/// When a master runs on it, or when the disk fails.
pub fn mark_restored(file: &Path, number: u64) -> Result<(), MasterError> {
    let failed = |operation| move |source| MasterError::Journal { operation, source };
    let journal = Journal::open(file).map_err(failed("open"))?;
    let mut rows = Vec::new();
    for table in RESTORED_TABLES {
        let mut take = |key: &[u8], value: &[u8]| {
            rows.push(StoredRow { table, key: key.into(), value: value.into() });
        };
        journal.load(table, &mut take).map_err(failed("read"))?;
    }
    journal.commit(&rebuild::restored_identity(&rows, JournalId(number.max(1)))?).map_err(failed("write"))
}
