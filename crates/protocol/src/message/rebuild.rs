//! The means to survive the loss of the master's disk. Nodes keep copies of the master's small rows (door 4), and the
//! names are rebuilt from them and the slices (door 2). It serves the path `docs/paths/rebuild.md`. Rows are opaque
//! here: only the master ever reads them, and a node never does.

use serde::{Deserialize, Serialize};

pub use super::request::RebuildRequest;
use crate::{JournalId, NodeId, SliceId, SliceMetadata};

/// Which journal a node's copy of the small rows belongs to, and how far it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorPosition {
    /// The journal.
    pub journal: JournalId,
    /// The number of the journal in the life of the cloud: one that was rebuilt from others has a larger number.
    pub generation: u64,
    /// All changes up to this one are in the copy.
    pub sequence: u64,
}

/// A small row of the master's journal, as a node keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorRow {
    /// The table.
    pub table: String,
    /// The key.
    pub key: Vec<u8>,
    /// The value; `None` where the row was removed.
    pub value: Option<Vec<u8>>,
}

/// Rows to keep; see [`Order::Mirror`](super::node_master::Order::Mirror).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorUpdate {
    /// The position of the copy once this is done.
    pub position: MirrorPosition,
    /// The state that the copy must have before.
    pub base: MirrorBase,
    /// The rows, in order.
    pub rows: Vec<MirrorRow>,
}

/// What the rows are added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MirrorBase {
    /// The copy as it is after this change of the same journal.
    Change(u64),
    /// Nothing: these are the first rows of a whole copy, or further ones of it. The previous copy is replaced only
    /// when the last page is there.
    Page {
        /// Counts pages from 0.
        page: u32,
        /// Whether this is the last one.
        last: bool,
    },
}

/// Where a page of kept rows ended: the table and the key of its last row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MirrorKey {
    /// The table.
    pub table: String,
    /// The key.
    pub key: Vec<u8>,
}

/// The state of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildStatus {
    /// The progress.
    pub state: RebuildState,
    /// The present journal.
    pub journal: JournalId,
    /// Its number in the life of the cloud.
    pub generation: u64,
    /// Nodes that have reported all that they hold.
    pub reported: Vec<NodeId>,
    /// Known nodes that have not.
    pub missing: Vec<NodeId>,
    /// The copy of small rows that was taken, and the node that had it.
    pub copy: Option<(NodeId, MirrorPosition)>,
    /// Files that were given their names back.
    pub files: u64,
    /// Folders that were restored from the copy.
    pub folders: u64,
    /// Conflicts in all.
    pub conflicts_total: u64,
    /// One page of them, by slice.
    pub conflicts: Vec<Conflict>,
    /// Whether more follow.
    pub more: bool,
}

/// The progress of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebuildState {
    /// The journal is new, and nothing of an older one has been seen.
    New,
    /// Names are being rebuilt; they can be read but not changed.
    Running,
    /// There is nothing to wait for.
    Settled,
}

/// A conflict that was decided by a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The slice in doubt, with the path at which it was found.
    pub metadata: SliceMetadata,
    /// The node that reported it first.
    pub node: NodeId,
    /// What was in doubt.
    pub kind: ConflictKind,
    /// The slice that won, where there were two.
    pub other: Option<SliceId>,
    /// Whether the slice is archived without a name.
    pub is_archived: bool,
}

/// Why a slice was in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConflictKind {
    /// Another slice has a newer version at its path, and it is unknown whether that one replaced it.
    OlderVersion,
    /// It was written completely and never placed: perhaps it was never published. It has its name.
    NeverPlaced,
    /// A folder stands at its path, or a file where its folder should be.
    PathTaken,
    /// Nodes have it at different paths; it has the name from the node with the newer knowledge.
    TwoPaths,
    /// Nodes disagree on its owner; it belongs to the owner that was reported first.
    TwoOwners,
    /// Something was written at its path after the journal was lost.
    WrittenSince,
    /// Nodes disagree on its access list, and nobody knows which is right; only rights that all of them grant hold.
    TwoAcls,
    /// A restored journal names it, and no node has its bytes; dismissing it removes the name. The node is `none`.
    NoBytes,
}
