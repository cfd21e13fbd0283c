//! What an administrator asks of the master about its nodes (door 2): drain, remove, rebalance, topology. A plan or a
//! dry run never moves anything: it says what would move.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Place, SectorPath, Topology};

/// Whether a node is a permanent member of the cloud, apart from whether it can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub enum Membership {
    /// It takes new slices as far as it has room.
    #[default]
    Active,
    /// It takes no new slices, and what it holds is moved elsewhere.
    Draining,
    /// It was drained and holds nothing that is needed.
    Drained,
}

/// Empty a node, so that it can be taken away: [`ClientReply::Plan`](super::client_master::ClientReply::Plan).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRequest {
    /// Which.
    pub node: NodeId,
    /// Only say what would move.
    pub dry_run: bool,
    /// Take it back into use instead.
    pub undo: bool,
}

/// Forget a node: [`ClientReply::Removal`](super::client_master::ClientReply::Removal).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveNodeRequest {
    /// Which.
    pub node: NodeId,
    /// Also where files would be lost with it, or where it is still in use.
    pub force: bool,
    /// Only say what would be lost.
    pub dry_run: bool,
    /// Let a removed node join again instead.
    pub undo: bool,
}

/// A request about unevenly filled nodes: [`ClientReply::Rebalance`](super::client_master::ClientReply::Rebalance).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebalanceVerb {
    /// Say what would move.
    Plan,
    /// Begin to move.
    Begin,
    /// Move nothing further.
    Stop,
    /// Report the progress.
    Status,
}

/// What moves, or would move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct MovePlan {
    /// Files in all.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// For how many files a place was sought. Where it is fewer than `files`, `moves` are a sample of that size.
    pub planned_files: u64,
    /// From where to where.
    pub moves: Vec<PlannedMove>,
    /// What prevents it, one sentence each.
    pub problems: Vec<String>,
}

/// What goes from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedMove {
    /// From where.
    pub from: NodeId,
    /// Where to.
    pub to: NodeId,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is lost with a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct NodeRemoval {
    /// Whether the node is gone now.
    pub removed: bool,
    /// Files of which no other good copy is known.
    pub lost: u64,
    /// Some of them.
    pub lost_paths: Vec<SectorPath>,
    /// Files that have fewer copies than wanted without it.
    pub fewer_copies: u64,
}

/// The progress of a rebalance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct RebalanceStatus {
    /// Whether it goes on.
    pub running: bool,
    /// Files moved since it began.
    pub moved_files: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// How full the emptiest node is, in thousandths.
    pub fill_least_permille: u32,
    /// How full the fullest node is, in thousandths.
    pub fill_most_permille: u32,
    /// What is still to move.
    pub plan: MovePlan,
}

/// The topology in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct TopologyStatus {
    /// The file it came from; `None` where nodes themselves say where they stand.
    pub file: Option<String>,
    /// Why the file in its present form is not in use, if so.
    pub fault: Option<String>,
    /// What the file said when it was last good.
    pub topology: Topology,
    /// Where each known node stands according to it.
    pub places: Vec<(NodeId, Place)>,
}
