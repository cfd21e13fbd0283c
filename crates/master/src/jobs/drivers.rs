//! A detached job and the node that drives it. Serves `run --detach` (path of a job, "The driver that survives"). Each
//! driver has a key of its own, made by the client of the user who detached the job. It never gives a key to two nodes.

use std::time::Duration;

use protocol::{
    NodeId, SectorPath,
    message::{client_master::DriverKey, master_security::HeldSession},
};
use serde::{Deserialize, Serialize};

/// What is known of a detached job's drivers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DetachedJob {
    pub(crate) journal: SectorPath,
    pub(crate) keys: Vec<DriverKey>,
    /// The session in which the user detached it. The proof of identity behind it must stay valid as long as the job
    /// runs.
    pub(crate) by: HeldSession,
    /// Drivers so far; the last one is at `node`, and has the key of this number.
    pub(crate) drivers: u32,
    pub(crate) node: Option<NodeId>,
    /// Whether the last one has reported.
    pub(crate) is_heard: bool,
    /// How many drivers in a row before it never reported.
    pub(crate) failed_starts: u32,
}

impl DetachedJob {
    /// Where its driver is.
    pub(crate) fn node(&self) -> Option<&NodeId> {
        self.node.as_ref()
    }

    /// How long its driver may be silent. A driver that never came may be kept out by a cause that also keeps out the
    /// next, such as a missing security server. So each waits twice as long as the one before, and keys are left when
    /// it is back.
    pub(crate) fn silence_max(&self) -> Duration {
        let doublings = if self.is_heard { 0 } else { self.failed_starts.min(BACKOFF_DOUBLINGS_MAX) };
        SILENCE_MAX * 2_u32.pow(doublings)
    }

    /// Its driver has reported.
    pub(crate) fn note_heard(&mut self) {
        (self.is_heard, self.failed_starts) = (true, 0);
    }

    pub(crate) fn key(&self) -> Option<DriverKey> {
        self.keys.get((self.drivers as usize).checked_sub(1)?).copied()
    }
}

/// A driver that does not report for this long is replaced; it reports every second. If it was only cut off from the
/// master, it can do no harm afterwards.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Up to 640 seconds for a driver that never came. With all keys, that takes some hours.
const BACKOFF_DOUBLINGS_MAX: u32 = 6;
