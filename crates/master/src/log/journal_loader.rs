//! Loads the journal's rows into a master, one at a time. Serves the start. Ten million rows are never in memory at
//! once: only the names that they hold are.

use crate::{
    actions::{EVENTS_TABLE, StoredRow},
    catalog::namespace,
    error::MasterError,
    log::events::event_loader::EventLoader,
};

/// Takes rows; [`Master::load`](crate::Master::load) makes a master of them.
pub struct JournalLoader {
    pub(crate) names: namespace::NamespaceLoader,
    /// Rows of the other tables, which are few.
    pub(crate) others: Vec<StoredRow>,
    /// What happened, as far as it is kept.
    pub(crate) events: EventLoader,
}

impl JournalLoader {
    /// No rows yet.
    pub fn new() -> Self {
        Self { names: namespace::NamespaceLoader::new(), others: Vec::new(), events: EventLoader::default() }
    }

    /// Whether there was no row at all: the journal is just born.
    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.names.is_empty()
    }

    /// Takes a row of any table; rows may come in any order.
    ///
    /// # Errors
    /// When it cannot be read, or contradicts a row before.
    pub fn add_row(&mut self, table: &'static str, key: &[u8], value: &[u8]) -> Result<(), MasterError> {
        if namespace::NamespaceLoader::is_own_table(table) {
            return self.names.add_row(table, key, value);
        }
        if table == EVENTS_TABLE {
            self.events.add_row(key, value);
            return Ok(());
        }
        self.others.push(StoredRow { table, key: key.into(), value: value.into() });
        Ok(())
    }
}

impl Default for JournalLoader {
    fn default() -> Self {
        Self::new()
    }
}
