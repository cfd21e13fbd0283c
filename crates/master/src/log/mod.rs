//! The journal and what follows from it: saving, loading, backups, the mirror at the nodes, and the rebuild after a
//! loss. It never answers a request before the journal has what the answer says.

pub(crate) mod events;
pub(crate) mod journal_inspect;
pub(crate) mod journal_lineage;
pub(crate) mod journal_loader;
pub(crate) mod journal_restore;
pub(crate) mod journal_set_aside;
pub(crate) mod journal_writes;
pub(crate) mod metadata_mirror;
pub(crate) mod rebuild;

use journal_lineage::Lineage;
use journal_writes::JournalWrites;
use metadata_mirror::MetadataMirror;
use rebuild::Rebuild;

/// What makes changes durable, and what is known of the journal itself.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) journal_writes: JournalWrites,
    pub(crate) mirror: MetadataMirror,
    pub(crate) lineage: Lineage,
    pub(crate) rebuild: Rebuild,
}
