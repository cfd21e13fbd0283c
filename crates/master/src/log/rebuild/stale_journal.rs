//! Where two lines of one journal forked, and whose slices this life has decided. Serves the rebuild of the names from
//! a journal that is older than the nodes. It never touches a slice.

use std::collections::HashSet;

use protocol::{JournalId, SliceId, message::rebuild::MirrorPosition};
use serde::{Deserialize, Serialize};

/// Decisions of this master's life while some nodes have not reported.
#[derive(Debug, Default)]
pub(crate) struct DecidedSlices {
    pub(crate) slices: HashSet<SliceId>,
    /// Whether there were too many to remember: then a missing entry proves nothing.
    pub(crate) is_full: bool,
}

/// The journal that this one was until nodes showed that it was stale. Field order is the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fork {
    /// Its id.
    pub(crate) journal: JournalId,
    /// Its last change before this master's life.
    pub(crate) base: u64,
    /// The first and the last change of this master's life.
    pub(crate) incarnation: Option<(u64, u64)>,
    /// Whether nobody can say which side is newer: then the nodes' rows are added, and replace nothing.
    pub(crate) merges: bool,
}

/// Whether no master can have given out this mark.
pub(crate) fn is_implausible(mark: &MirrorPosition) -> bool {
    mark.generation > GENERATION_MAX || mark.sequence > SEQUENCE_MAX
}

/// Journals that one cloud can have had. A larger number is an error or a lie, and would leave no number for the next.
pub(crate) const GENERATION_MAX: u64 = 1 << 40;
/// Changes that can have been counted.
const SEQUENCE_MAX: u64 = 1 << 62;
