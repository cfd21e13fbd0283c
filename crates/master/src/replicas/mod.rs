//! Copies of slices: where they are, how many there should be, and the orders that make and remove them. This folder
//! never changes a name.

pub(crate) mod desired_replication;
pub(crate) mod order_group;
pub(crate) mod orders;
pub(crate) mod replica_table;
pub(crate) mod replication_queue;
pub(crate) mod sweeps;

use std::collections::VecDeque;

use orders::Orders;
use replica_table::ReplicaTable;
use replication_queue::ReplicationQueue;
use sweeps::{Superseded, Sweep};

/// The copies of all slices, and what is to be done about them.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    pub(crate) table: ReplicaTable,
    pub(crate) orders: Orders,
    pub(crate) queue: ReplicationQueue,
    pub(crate) superseded: Superseded,
    pub(crate) sweeps: VecDeque<Sweep>,
}
