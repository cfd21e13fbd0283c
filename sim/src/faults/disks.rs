//! What goes wrong with disks: full for long, destroyed, rotting. What a power cut and a failing call do, the disk in
//! memory does itself.

use std::{path::PathBuf, time::Duration};

use protocol::{SliceId, message::node_master::HeldState};

use crate::{
    cloud::Cloud,
    queue::{Event, Who},
    role::DATA_FOLDER,
};

impl Cloud {
    /// Leaves a disk nearly no room, for a while.
    pub(super) fn fill_disk(&mut self, node: usize) {
        let bytes = if self.env.rng.bool() { 0 } else { self.env.rng.u64(..200_000) };
        self.env.note(format_args!("the disk of n{node} has room for {bytes} bytes more"));
        self.nodes[node].disk.set_free_bytes(bytes);
        self.faults.fired.full_disks += 1;
        let span = self.env.span(3_000, 40_000);
        self.env.after(span, Event::DiskHasRoom(node));
    }

    /// Replaces a node's disk by an empty one, if others have good copies of all that lies on it. The node dies of it.
    pub(super) fn destroy_disk(&mut self, node: usize) {
        let now = self.env.now.monotonic;
        let is_soon = self.faults.destroyed_at.is_some_and(|at| now.saturating_sub(at) < BETWEEN_DESTROYED_MIN);
        if is_soon || !self.is_dispensable(node) {
            return;
        }
        self.env.note(format_args!("the disk of n{node} is destroyed"));
        self.faults.destroyed_at = Some(now);
        self.faults.fired.destroyed_disks += 1;
        self.crash(Who::Node(node));
        self.nodes[node].disk = store::MemoryDisk::new(self.env.rng.u64(..));
    }

    /// Whether every slice at a node lies, good, at another one too.
    fn is_dispensable(&self, node: usize) -> bool {
        let Some(process) = &self.nodes[node].process else { return false };
        process.store.held().iter().all(|held| {
            let slice = held.metadata.header.slice;
            !self.faults.flipped.contains(&slice) && self.is_elsewhere(node, slice)
        })
    }

    fn is_elsewhere(&self, node: usize, slice: SliceId) -> bool {
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != node);
        let mut processes = others.filter_map(|(_, role)| role.process.as_ref());
        processes.any(|process| process.store.contains(slice))
    }

    /// Turns over a bit of a copy of which there is another, good one.
    pub(super) fn flip(&mut self, node: usize) {
        let held = match &self.nodes[node].process {
            Some(process) => process.store.held(),
            None => return,
        };
        let candidates: Vec<_> = held
            .into_iter()
            .filter(|held| held.metadata.bytes > 0 && held.state != HeldState::Retired)
            .filter(|held| !self.faults.flipped.contains(&held.metadata.header.slice))
            .filter(|held| self.is_elsewhere(node, held.metadata.header.slice))
            .collect();
        if candidates.is_empty() {
            return;
        }
        let held = &candidates[self.env.rng.usize(..candidates.len())];
        let header = &held.metadata.header;
        let file = match held.state {
            HeldState::Placed => PathBuf::from(format!("{DATA_FOLDER}/slices{}", header.path)),
            _ => PathBuf::from(format!("{DATA_FOLDER}/staging/{}", header.slice)),
        };
        let offset = self.env.rng.u64(..held.metadata.bytes);
        if self.nodes[node].disk.flip_bit(&file, offset).is_ok() {
            self.env.note(format_args!("a bit of {} on n{node} turns over", header.slice));
            self.faults.flipped.insert(header.slice);
            self.faults.fired.flips += 1;
        }
    }
}

/// What a disk has room for when nothing is wrong, in bytes.
pub(crate) const PLENTY_BYTES: u64 = 1 << 50;
/// Between two destroyed disks: copies that were found superfluous while the first disk lived have been removed by then
/// (an order lives for 20 s), and so cannot be what the second one relies on.
const BETWEEN_DESTROYED_MIN: Duration = Duration::from_secs(40);
