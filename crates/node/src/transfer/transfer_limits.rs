//! How many transfers run here at once, by kind. Each kind has slots of its own where a common limit would make two nodes
//! wait for each other. It never queues a transfer itself.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::node_context::gauge::Gauge;

/// The slots of transfers, and how many are in use.
pub(crate) struct TransferLimits {
    /// Transfers at once (`transfers_max` of the settings).
    pub(crate) transfer_slots: Arc<Semaphore>,
    /// Slices that other nodes forward here at once. They have slots of their own: otherwise two nodes whose slots are
    /// all taken by uploads would wait for each other.
    pub(crate) forward_slots: Arc<Semaphore>,
    /// Copies that clients have ordered here at once, also apart from the others: each waits for a slot at another
    /// node.
    pub(crate) pull_slots: Arc<Semaphore>,
    pub(crate) transfers_running: Gauge,
}

impl TransferLimits {
    /// As many slots of each kind.
    pub(crate) fn new(transfers_max: usize) -> Self {
        let slots = || Arc::new(Semaphore::new(transfers_max));
        Self {
            transfer_slots: slots(),
            forward_slots: slots(),
            pull_slots: slots(),
            transfers_running: Gauge::default(),
        }
    }
}
