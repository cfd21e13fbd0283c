//! The nodes that co-located folders were found to be on. Serves the target of a write, further copies, and repair.
//! They are not in the journal, and are found again after a restart. It never moves anything.

use std::collections::BTreeMap;

use protocol::FileId;

use crate::fleet::nodes::NodeKey;

/// The nodes of each co-located folder that was asked about. The first ones are for files with few copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Colocation {
    pub(crate) folders: BTreeMap<FileId, Vec<NodeKey>>,
}
