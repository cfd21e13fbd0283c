//! Faults of disks: full for long, destroyed, rotting. The disk in memory itself simulates power cuts and failing
//! calls. A disk is never lost while it has the only good copy of a slice.

use std::{path::PathBuf, time::Duration};

use protocol::{SliceId, message::node_master::HeldState};
use store::DiskFault;

use crate::{
    cloud::Cloud,
    environment::queue::{Event, Participant},
    role::NodeRole,
};

impl Cloud {
    /// Leaves a disk nearly no room, for a while.
    pub(super) fn fill_disk(&mut self, node: usize) {
        let bytes = if self.env.rng.bool() { 0 } else { self.env.rng.u64(..200_000) };
        self.env.note(format_args!("the disk of n{node} has room for {bytes} bytes more"));
        let disk = self.env.rng.usize(..self.nodes[node].disks.count());
        self.nodes[node].disks.disk(disk).set_free_bytes(bytes);
        self.faults.fired.full_disks += 1;
        self.env.model.attributes.trash.set_scarce(true);
        let span = self.env.span(3_000, 40_000);
        self.env.after(span, Event::DiskHasRoom(node));
    }

    /// Replaces a node's disk by an empty one, if others have good copies of all its slices. This kills the node.
    pub(super) fn destroy_disk(&mut self, node: usize) {
        if !self.may_lose_disk(node) {
            return;
        }
        let disk = self.env.rng.usize(..self.nodes[node].disks.count());
        self.env.note(format_args!("disk {disk} of n{node} is destroyed"));
        self.faults.fired.destroyed_disks += 1;
        self.crash(Participant::Node(node));
        self.replace_disk(node, disk);
    }

    /// Puts an empty disk in the place of one. The first disk also has the master's small rows. These are lost only if
    /// a master without a journal does not rely on them.
    fn replace_disk(&mut self, node: usize, disk: usize) {
        self.nodes[node].disks.replace(disk, self.env.rng.u64(..));
        if disk == 0 && self.env.model.recovered.is_none() {
            self.nodes[node].lose_kept_rows(self.env.rng.u64(..));
        }
    }

    /// Breaks a node's disk, if others have good copies of all its slices. From now on every call, or every change,
    /// fails. The node continues without it, or cannot start, until it is repaired.
    pub(super) fn break_disk(&mut self, node: usize) {
        if self.nodes[node].disks.is_any_broken() || !self.may_lose_disk(node) {
            return;
        }
        let disk = self.env.rng.usize(..self.nodes[node].disks.count());
        let fault = if self.env.rng.bool() { DiskFault::Everything(EIO) } else { DiskFault::Changes(EROFS) };
        self.env.note(format_args!("disk {disk} of n{node} breaks: {fault:?}"));
        self.faults.fired.broken_disks += 1;
        self.nodes[node].disks.break_one(disk, fault);
        let span = self.env.span(2_000, 30_000);
        self.env.after(span, Event::DiskSeenTo { node, disk });
    }

    /// Repairs a broken disk, or replaces it by an empty one, and starts the node again.
    pub(crate) fn repair_disk(&mut self, node: usize, disk: usize) {
        if !self.nodes[node].disks.is_broken(disk) {
            return;
        }
        self.crash(Participant::Node(node));
        // Once a journal was lost, a disk with an older mark makes the master believe the node's slices again. Slices
        // the node had removed, which a crash may undo, then come back (`docs/paths/rebuild.md`).
        if !self.env.model.has_lost_journal() && self.env.rng.bool() {
            self.env.note(format_args!("disk {disk} of n{node} is repaired"));
            self.nodes[node].disks.repair(disk);
            self.nodes[node].may_bring_back();
        } else {
            self.env.note(format_args!("disk {disk} of n{node} is replaced"));
            self.replace_disk(node, disk);
        }
    }

    /// Repairs all broken disks of a node.
    pub(crate) fn repair_disks(&mut self, node: usize) {
        (0..self.nodes[node].disks.count()).for_each(|disk| self.repair_disk(node, disk));
    }

    /// Whether a disk of this node may be lost now.
    fn may_lose_disk(&mut self, node: usize) -> bool {
        let may = !self.has_lost_disk_lately() && self.is_dispensable(node);
        if may {
            self.faults.destroyed_at = Some(self.env.now.monotonic);
            self.doubt(node, |_| true);
        }
        may
    }

    fn has_lost_disk_lately(&self) -> bool {
        let now = self.env.now.monotonic;
        self.faults.destroyed_at.is_some_and(|at| now.saturating_sub(at) < BETWEEN_DESTROYED_MIN)
    }

    /// Facts that only copies of this node made certain are no longer certain.
    fn doubt(&mut self, node: usize, which: impl Fn(SliceId) -> bool) {
        let (Some(process), Some(recovered)) = (&self.nodes[node].process, &mut self.env.model.recovered) else {
            return;
        };
        let held = process.store.held();
        let held = held.iter().filter(|held| which(held.metadata.header.slice));
        let contents = held.filter_map(|held| self.env.model.contents.find(held.metadata.digest)).collect();
        recovered.doubt(&contents);
        for actor in &mut self.actors {
            actor.inputs_in_doubt(&mut self.env);
        }
    }

    /// Whether every slice at a node has a good copy at another one too.
    fn is_dispensable(&self, node: usize) -> bool {
        let Some(process) = &self.nodes[node].process else { return false };
        process.store.held().iter().all(|held| {
            let slice = held.metadata.header.slice;
            !self.faults.flipped.contains(&slice) && self.is_elsewhere(node, slice)
        })
    }

    fn is_elsewhere(&self, node: usize, slice: SliceId) -> bool {
        // Slices on a broken disk may be gone with it.
        let relied_on = |(other, role): &(usize, &NodeRole)| *other != node && !role.disks.is_any_broken();
        let others = self.nodes.iter().enumerate().filter(relied_on);
        let mut processes = others.filter_map(|(_, role)| role.process.as_ref());
        processes.any(|process| process.store.contains(slice))
    }

    /// Flips a bit of a copy that is not the only good one.
    pub(super) fn flip(&mut self, node: usize) {
        let Some((slice, file, bytes)) = self.draw_copy(node) else { return };
        let offset = self.env.rng.u64(..bytes);
        if self.nodes[node].disks.flip_bit(&file, offset).is_ok() {
            self.env.note(format_args!("a bit of {slice} on n{node} turns over"));
            self.faults.fired.flips += 1;
            self.spoil(node, slice);
        }
    }

    /// Makes a sector of a copy unreadable, if there is another, good one. It costs this copy and not the disk.
    pub(super) fn spoil_sector(&mut self, node: usize) {
        let Some((slice, file, bytes)) = self.draw_copy(node) else { return };
        let offset = self.env.rng.u64(..bytes);
        if let Ok(disk) = self.nodes[node].disks.set_bad_sector(&file, offset) {
            self.env.note(format_args!("a sector of {slice} on disk {disk} of n{node} cannot be read"));
            self.faults.fired.bad_sectors += 1;
            self.spoil(node, slice);
        }
    }

    fn spoil(&mut self, node: usize, slice: SliceId) {
        self.faults.flipped.insert(slice);
        self.doubt(node, |other| other == slice);
    }

    /// A copy at a node that is not the only good one: its file below the data folder, and its length.
    fn draw_copy(&mut self, node: usize) -> Option<(SliceId, PathBuf, u64)> {
        if self.has_lost_disk_lately() {
            return None;
        }
        let held = self.nodes[node].process.as_ref()?.store.held();
        let candidates: Vec<_> = held
            .into_iter()
            .filter(|held| held.metadata.bytes > 0 && held.state != HeldState::Retired)
            .filter(|held| !self.faults.flipped.contains(&held.metadata.header.slice))
            .filter(|held| self.is_elsewhere(node, held.metadata.header.slice))
            .collect();
        if candidates.is_empty() {
            return None;
        }
        let held = &candidates[self.env.rng.usize(..candidates.len())];
        let header = &held.metadata.header;
        let file = match held.state {
            HeldState::Placed => PathBuf::from(format!("slices{}", header.path)),
            _ => PathBuf::from(format!("staging/{}", header.slice)),
        };
        Some((header.slice, file, held.metadata.bytes))
    }
}

/// The error of a broken disk, and of one that can only be read (Linux).
const EIO: i32 = 5;
const EROFS: i32 = 30;
/// Minimum time between two lost disks, and before a copy is spoiled. Copies that were found superfluous while the
/// first disk lived have been removed by then (an order lives for 20 s). So the second loss cannot rely on them.
const BETWEEN_DESTROYED_MIN: Duration = Duration::from_secs(40);
