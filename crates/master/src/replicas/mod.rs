//! Copies of slices: where they are, how many there should be, and the orders that make and remove them. This folder
//! never changes a name.

pub(crate) mod desired_replication;
pub(crate) mod order_group;
pub(crate) mod orders;
pub(crate) mod replica_table;
pub(crate) mod replication_queue;
pub(crate) mod sweeps;
