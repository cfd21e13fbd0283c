//! What the master does about nodes: their reports and health, and what operators ask of them. It never names a file.

pub(crate) mod drain;
pub(crate) mod health;
pub(crate) mod heartbeats;
pub(crate) mod links;
pub(crate) mod load;
pub(crate) mod marks;
pub(crate) mod node_removal;
pub(crate) mod rebalance_moves;
pub(crate) mod site_bandwidth;
pub(crate) mod topology_requests;
