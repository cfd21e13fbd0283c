//! The nodes: who they are, how they are, where they stand, which are chosen, and which are emptied. This folder never
//! changes a name.

pub(crate) mod colocation;
pub(crate) mod copy_bandwidth;
pub(crate) mod excess_replica_choice;
pub(crate) mod history_rings;
pub(crate) mod judgement;
pub(crate) mod link_history;
pub(crate) mod load_history;
pub(crate) mod nodes;
pub(crate) mod placement;
pub(crate) mod placement_constraints;
pub(crate) mod rebalance;
pub(crate) mod topology;
pub(crate) mod topology_watch;

use colocation::Colocation;
use copy_bandwidth::CopyBandwidth;
use judgement::Judgement;
use link_history::LinkHistories;
use nodes::Nodes;
use rebalance::Rebalance;
use topology::TopologyOrigin;

/// The nodes and their places.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    pub(crate) nodes: Nodes,
    pub(crate) copy_bandwidth: CopyBandwidth,
    pub(crate) colocation: Colocation,
    pub(crate) rebalance: Rebalance,
    pub(crate) topology: TopologyOrigin,
    /// What went over the links between sites in the last day.
    pub(crate) links: LinkHistories,
    /// What is slow.
    pub(crate) judgement: Judgement,
}
