//! A node's copy of the small rows while it is read, page by page. Serves the rebuild of the names. It never decides
//! which copy is read.

use protocol::message::rebuild::{MirrorKey, MirrorPosition, MirrorRow};

use crate::fleet::nodes::NodeKey;

/// A copy that is being read.
#[derive(Debug)]
pub(crate) struct MirrorRead {
    pub(crate) node: NodeKey,
    pub(crate) mark: MirrorPosition,
    pub(crate) after: Option<MirrorKey>,
    pub(crate) rows: Vec<MirrorRow>,
}

/// Of two copies, the one that knows more has the larger value.
pub(crate) fn mark_order(mark: &MirrorPosition) -> (u64, u64) {
    (mark.generation, mark.sequence)
}
