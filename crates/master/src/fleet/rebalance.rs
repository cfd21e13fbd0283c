//! A rebalance under way: its moves, how full a node is for its size, and what was seen last. Serves `sector
//! rebalance`. It never begins a move itself.

use std::collections::{BTreeMap, BTreeSet};

use protocol::SliceId;

use crate::{catalog::compact_storage::Slot, fleet::nodes::NodeKey};

/// Its progress.
#[derive(Debug, Default)]
pub(crate) struct Rebalance {
    pub(crate) running: bool,
    pub(crate) moves: BTreeMap<SliceId, Move>,
    /// How far a node's slices were examined.
    pub(crate) cursors: BTreeMap<NodeKey, Slot>,
    /// Nodes whose slices have all been examined, once per request.
    pub(crate) exhausted: BTreeSet<NodeKey>,
    pub(crate) moved_files: u64,
    pub(crate) moved_bytes: u64,
    /// Whether something changed since the last search for a slice.
    pub(crate) is_woken: bool,
}

/// A slice that is being moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) from: NodeKey,
    pub(crate) to: NodeKey,
    pub(crate) bytes: u64,
}

/// A participating node, and how full it will be after all running moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeFill {
    pub(crate) key: NodeKey,
    pub(crate) filled_bytes: u64,
    pub(crate) capacity_bytes: u64,
}

impl Rebalance {
    /// The node that a slice will leave, if it is being moved.
    pub(crate) fn source_node(&self, slice: SliceId) -> Option<NodeKey> {
        self.moves.get(&slice).map(|moving| moving.from)
    }

    /// Restarts the search for slices.
    pub(crate) fn wake(&mut self) {
        self.is_woken = true;
    }
}

impl NodeFill {
    pub(crate) fn fill(&self) -> f64 {
        self.filled_bytes as f64 / self.capacity_bytes.max(1) as f64
    }

    pub(crate) fn fill_with(&self, bytes: i128) -> f64 {
        (i128::from(self.filled_bytes) + bytes) as f64 / self.capacity_bytes.max(1) as f64
    }
}
