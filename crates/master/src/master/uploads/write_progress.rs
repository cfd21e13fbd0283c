//! Nodes' reports of open writes. Serves upload, and owns two rules. A lease that receives nothing ends although it is
//! renewed, and no lease receives more than its owner and its folders may keep. A write never counts as stalled while a
//! node itself is at work on it.

use protocol::{Now, Reason, Refusal, message::node_master::IncomingWrite};

use crate::{
    Master,
    catalog::quota_table::StorageUsage,
    fleet::nodes::NodeKey,
    writes::lease_table::{LEASE_STALL_MAX, Lease},
};

impl Master {
    /// Takes a node's progress report of its writes.
    pub(crate) fn note_write_progress(&mut self, now: Now, key: NodeKey, arriving: Vec<IncomingWrite>) {
        self.fleet.nodes.get_mut(key).is_reporting_writes = true;
        for IncomingWrite { slice, bytes, at_work } in arriving {
            let Some(id) = self.writes.leases.of_slice(slice) else { continue };
            let Some(lease) = self.writes.leases.get_mut(id) else { continue };
            let before = lease.received_bytes.insert(key, bytes).unwrap_or(0);
            if bytes != before || at_work {
                lease.last_progress = now.monotonic;
            }
            let Some(lease) = self.writes.leases.get(id) else { continue };
            let (path, owner) = (&lease.header.path, &lease.header.owner);
            // The size was unknown, or more comes than was announced.
            let all = lease.base_bytes.saturating_add(bytes).max(lease.bytes_promised);
            let beyond = self.catalog.growth_at(path, all).bytes.saturating_sub(lease.added_usage.bytes);
            if beyond == 0 {
                continue;
            }
            let more = StorageUsage { bytes: beyond, files: 0 };
            if let Some(why) = self.catalog.exceeded_with_promises(path, owner, more, &self.writes.leases) {
                let message = format!("{why}; remove something, or ask an administrator for a larger quota");
                self.abort_lease_with(now, id, Refusal::new(Reason::QuotaExceeded, message));
            } else {
                self.writes.leases.promise_more(id, beyond);
            }
        }
    }

    /// Why a lease is not renewed: it received nothing for long. If a node does not report progress, nobody knows.
    pub(crate) fn refuse_stalled(&self, now: Now, lease: &Lease) -> Option<Refusal> {
        let is_still = now.monotonic.saturating_sub(lease.last_progress) > LEASE_STALL_MAX;
        let is_known = || lease.awaited.iter().all(|key| self.fleet.nodes.get(*key).is_reporting_writes);
        if !is_still || lease.commit.is_some() || !is_known() {
            return None;
        }
        let (path, minutes) = (&lease.header.path, LEASE_STALL_MAX.as_secs() / 60);
        let message =
            format!("nothing of `{path}` came for {minutes} minutes, so the right to write it ended; write it again");
        Some(Refusal::new(Reason::Unavailable, message))
    }
}
