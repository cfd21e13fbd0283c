//! How the simulation names its nodes and their sites, and what it knows a state of the small rows by. Both roles use
//! it; it never holds a state.

use protocol::{NodeId, message::rebuild::MirrorPosition};

/// The name of a node.
pub(crate) fn node_id(node: usize) -> NodeId {
    // A letter and a number are a name.
    #[allow(clippy::expect_used)]
    NodeId::new(format!("n{node}")).expect("a valid name")
}

/// The site of a node, by its number.
pub(crate) fn site_of(node: usize) -> usize {
    node % 2
}

/// The number of a node.
pub(crate) fn node_number(id: &NodeId) -> usize {
    id.as_str()[1..].parse().unwrap_or(usize::MAX)
}

/// Identifies a state of the small rows.
pub(crate) fn mark_key(mark: &MirrorPosition) -> (u64, u64, u64) {
    (mark.journal.0, mark.generation, mark.sequence)
}
