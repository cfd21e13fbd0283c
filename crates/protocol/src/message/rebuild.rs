//! What lets a cloud lose its master's disk: the copies of the master's small rows that nodes keep (door 4), and how
//! the names are put together again (door 2). Serves the path `docs/paths/rebuild.md`. Rows are opaque here: only the
//! master reads them.

use serde::{Deserialize, Serialize};

use crate::{JournalId, NodeId, SectorPath, SliceId, SliceMetadata};

/// How much of which journal a node's copy of the small rows has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorPosition {
    /// The journal.
    pub journal: JournalId,
    /// Which journal it is in the life of the cloud: one that was put together from others has a larger number.
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
    /// The value; `None` where the row is no more.
    pub value: Option<Vec<u8>>,
}

/// Rows to keep; see [`Order::Mirror`](super::node_master::Order::Mirror).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorUpdate {
    /// What the copy has once this is done.
    pub position: MirrorPosition,
    /// What it must have before.
    pub base: MirrorBase,
    /// The rows, in order.
    pub rows: Vec<MirrorRow>,
}

/// What rows are to be added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MirrorBase {
    /// The copy as it is after this change of the same journal.
    Change(u64),
    /// Nothing: these are the first rows of a whole copy, or further ones of it. What was kept before is replaced when
    /// the last page is there, and not before.
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

/// What a person may want of a rebuild.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebuildRequest {
    /// How far it is, and the conflicts after this slice.
    Status {
        /// The last of the page before.
        after: Option<SliceId>,
    },
    /// Wait for no further node. Administrators only.
    Finish,
    /// Give a slice that was set aside a name. Administrators only.
    Recover {
        /// The slice.
        slice: SliceId,
        /// A free path.
        path: SectorPath,
    },
    /// Take a conflict off the list, all of them where `None`; slices that were set aside are removed. Administrators
    /// only.
    Dismiss(Option<SliceId>),
    /// A node will never come back: nothing waits for it any longer. Administrators only.
    Forget(NodeId),
}

/// How a rebuild is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildStatus {
    /// How far.
    pub state: RebuildState,
    /// The present journal.
    pub journal: JournalId,
    /// Its number in the life of the cloud.
    pub generation: u64,
    /// Nodes that have told all that they hold.
    pub reported: Vec<NodeId>,
    /// Nodes that are known and have not.
    pub missing: Vec<NodeId>,
    /// The copy of small rows that was taken, and whose it was.
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

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebuildState {
    /// The journal is new, and nothing of an older one has been seen.
    New,
    /// Names are being put together; they can be read and not be changed.
    Running,
    /// There is nothing to wait for.
    Settled,
}

/// Something that was decided by rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The slice in doubt, with the path at which it was found.
    pub metadata: SliceMetadata,
    /// The node that told of it first.
    pub node: NodeId,
    /// What was in doubt.
    pub kind: ConflictKind,
    /// The slice that won, where there were two.
    pub other: Option<SliceId>,
    /// Whether the slice lies aside, without a name.
    pub is_archived: bool,
}

/// Why a slice was in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConflictKind {
    /// Another slice has a newer version at its path, and nobody knows that this one was replaced by it.
    OlderVersion,
    /// It was written whole and never placed: perhaps it was never published. It has its name.
    NeverPlaced,
    /// A folder stands at its path, or a file where its folder should be.
    PathTaken,
    /// Nodes have it at different paths; it has the name that the node with the newer knowledge said.
    TwoPaths,
    /// Nodes disagree on its owner; it belongs to whom was told first.
    TwoOwners,
    /// Something was written at its path after the journal was lost.
    WrittenSince,
    /// Nodes disagree on who may do what with it, and nobody knows who is right; what all of them grant holds.
    TwoAcls,
    /// A journal that was put back names it, and no node has its bytes; dismissing it removes the name. The node is
    /// `none`.
    NoBytes,
}
