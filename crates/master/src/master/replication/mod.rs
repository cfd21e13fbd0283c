//! What the master does about copies: it compares what should be with what is, and gives orders. It never reads a byte
//! of a copy.

pub(crate) mod colocated_nodes;
pub(crate) mod constraints;
pub(crate) mod excess_replicas;
pub(crate) mod node_orders;
pub(crate) mod reconcile;
pub(crate) mod replication_monitor;
pub(crate) mod sweep_steps;
pub(crate) mod verify_copies;
