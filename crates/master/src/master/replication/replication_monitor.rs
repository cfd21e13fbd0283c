//! Copies: how many a file has, and where the next comes from and goes to. Serves replication and the synced copies of
//! an upload. A misplaced file is moved by the same two steps as any other. A copy is made where it should be; then one
//! is [superfluous](super::excess_replicas), and the worst placed goes. So a move never leaves fewer copies than
//! wanted. This file never moves bytes: nodes fetch from each other on order.

use std::time::Duration;

use protocol::{Now, SliceId, limits, message::work::WorkFault};

use crate::{
    Master,
    fleet::{
        nodes::NodeKey,
        placement::{CopySource, PlacementChoice, PlacementRequest, choose_copy_source, choose_node},
        placement_constraints::PlacementConstraints,
    },
    replicas::{
        orders::QueuedWork,
        replica_table::{Replica, ReplicaState},
        replication_queue::{PendingCopy, ReplicationHealth, ReplicationNeed},
        sweeps::Sweep,
    },
};

/// How a copy was begun, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyStart {
    Started,
    /// The nodes that could do it are busy.
    Busy,
    /// The link for it is full.
    LinkFull,
    /// No node to copy to, or none to copy from.
    NoNode,
}

impl Master {
    /// Handles a change of a slice: counts its copies, and queues it for another one or has a superfluous one removed.
    pub(crate) fn check_replication(&mut self, now: Now, slice: SliceId) {
        if self.writes.leases.of_slice(slice).is_some() {
            return;
        }
        let Some((file, version)) = self
            .catalog
            .names()
            .file_of_slice(slice)
            .and_then(|file| Some((file, self.catalog.names().content(file)?.version)))
        else {
            self.forget_quarantined(slice);
            self.note_not_missing(now, slice);
            self.events.short_of_copies.remove(&slice);
            return self.replicas.queue.forget(slice);
        };
        let terms = self.constraints(now, file);
        let possible = terms.copies_possible(&self.fleet.nodes);
        let good =
            self.holders_where(slice, |master, replica| master.fleet.nodes.get(replica.node).is_reachable()).len();
        let kept = self.holders_where(slice, |master, replica| !master.fleet.nodes.get(replica.node).is_dead);
        let targets = self.replicas.queue.targets(slice).len();
        let is_missing = kept.len() + targets < possible;
        let defect = if is_missing { None } else { terms.violation(&self.fleet.nodes, &kept) };
        let is_short_of_nodes = terms.is_short_of_nodes(&self.fleet.nodes);
        let (is_misplaced, is_in_memory) = (defect.is_some(), terms.is_in_memory);
        if good > 0 {
            self.note_not_missing(now, slice);
        }
        let is_listed = self.is_listed_missing(slice);
        let wellness = ReplicationHealth {
            good,
            possible,
            // Nobody should add nodes for what was thrown away.
            is_short_of_nodes: is_short_of_nodes && !self.catalog.is_trash(file),
            is_misplaced,
            is_in_memory,
            is_listed,
        };
        self.replicas.queue.note_health(slice, wellness);
        if self.log.journal_writes.has_unsaved_change(slice) {
            return;
        }
        // A master that has just started does not know yet what the nodes hold.
        let too_early = version <= self.version_at_start && now.monotonic < self.replication_begins;
        // Nothing is moved while the holders are uncertain, nor while there is a superfluous copy.
        let is_sure = kept.len() == self.certain_holders(slice).len() && kept.len() <= terms.copies && targets == 0;
        let need = match defect {
            _ if good == 0 || too_early => None,
            None if is_missing => Some(ReplicationNeed::Copies(good)),
            defect => defect.filter(|_| is_sure).map(ReplicationNeed::Placement),
        };
        match need {
            Some(need) => self.replicas.queue.enqueue(slice, need),
            None if is_short_of_nodes && good > 0 => self.replicas.queue.block_for_nodes(slice),
            None => self.replicas.queue.dequeue(slice),
        }
        if good >= possible {
            if need.is_none() {
                self.replicas.queue.clear_failure(slice);
            }
            self.forget_quarantined(slice);
            self.note_copies_complete(now, slice, good);
        }
        self.remove_excess_replicas(slice, &terms);
    }

    /// Begins the copies that are needed most, while nodes have free copy slots.
    pub(crate) fn begin_copies(&mut self, now: Now) {
        for slice in self.replicas.queue.candidates() {
            let Some(bytes) = self.catalog.names().content_of_slice(slice).map(|content| content.bytes) else {
                self.replicas.queue.forget(slice);
                continue;
            };
            match self.begin_copy(now, slice, bytes, false) {
                CopyStart::Started => {
                    // It may need another one; if so, it is queued again, after those that have fewer.
                    self.replicas.queue.dequeue(slice);
                    self.check_replication(now, slice);
                }
                CopyStart::Busy => {}
                CopyStart::LinkFull => self.replicas.queue.defer(now.monotonic, slice),
                CopyStart::NoNode => self.replicas.queue.block_for_space(slice),
            }
        }
    }

    /// Begins one copy of a slice: from the nearest good replica to the best place. `urgent` copies, for which a client
    /// waits, are begun however busy the nodes and links are.
    pub(crate) fn begin_copy(&mut self, now: Now, slice: SliceId, bytes: u64, urgent: bool) -> CopyStart {
        let Some(terms) = self.constraints_of_slice(now, slice) else { return CopyStart::NoNode };
        let (mut holders, mut closed) = self.replica_holders(slice);
        let mut shunned = self.replicas.queue.avoided(slice);
        if let Some(lease) = self.writes.leases.of_slice(slice).and_then(|id| self.writes.leases.get(id)) {
            // They will have it soon, or have just failed to take it.
            holders.extend(&lease.awaited);
            shunned.extend(&lease.failed);
        }
        // Copies that will go do not count for the spread: the new one is meant to stay.
        let (staying, leaving): (Vec<_>, Vec<_>) =
            holders.iter().partition(|key| terms.is_fit(&self.fleet.nodes, **key));
        closed.extend(leaving);
        let wanted = PlacementRequest {
            bytes,
            user: None,
            reserve_bytes: self.config.reserve_bytes,
            constraints: &terms,
            holders: &staying,
            ineligible: &closed,
            avoided: &shunned,
            incoming_max: if urgent { u32::MAX } else { NODE_COPIES_MAX },
            preferred: self.replicas.queue.partial_node(slice),
            // A file with one copy left takes any second one now rather than a good one later.
            may_wait: holders.len() > 1,
        };
        let mut choice = choose_node(&self.fleet.nodes, &wanted, &mut self.rng);
        if urgent && choice == PlacementChoice::NoNode {
            // A client waits: if its folder's nodes have no room, the copy is made elsewhere and moved later.
            let terms = PlacementConstraints { allowed_nodes: None, ..terms.clone() };
            choice = choose_node(&self.fleet.nodes, &PlacementRequest { constraints: &terms, ..wanted }, &mut self.rng);
        }
        let is_move = !urgent && holders.len() >= terms.copies_possible(&self.fleet.nodes);
        if is_move && !self.is_better(&terms, &holders, choice) {
            // The only better place may be the node where the last try failed.
            choice = choose_node(&self.fleet.nodes, &PlacementRequest { avoided: &[], ..wanted }, &mut self.rng);
        }
        let target = match choice {
            PlacementChoice::Node(target) => target,
            PlacementChoice::Busy => return CopyStart::Busy,
            PlacementChoice::NoNode => return CopyStart::NoNode,
        };
        if is_move && !self.is_better(&terms, &holders, choice) {
            return CopyStart::NoNode;
        }
        self.begin_copy_to(now, slice, bytes, target, &shunned, if urgent { None } else { Some(NODE_COPIES_MAX) })
    }

    /// Begins a copy of a slice to a node, from the nearest holder that serves fewer than `outgoing_max` copies, if
    /// there is such a limit.
    pub(crate) fn begin_copy_to(
        &mut self,
        now: Now,
        slice: SliceId,
        bytes: u64,
        target: NodeKey,
        shunned: &[NodeKey],
        outgoing_max: Option<u32>,
    ) -> CopyStart {
        let replicas = self.replicas.table.of(slice);
        let origin = choose_copy_source(
            &self.fleet.nodes,
            &self.fleet.copy_bandwidth,
            &replicas,
            target,
            shunned,
            outgoing_max,
            &mut self.rng,
        );
        let source = match origin {
            CopySource::Node(source) => source,
            CopySource::Busy => return CopyStart::Busy,
            CopySource::LinkFull => return CopyStart::LinkFull,
            CopySource::NoNode => return CopyStart::NoNode,
        };
        let (from, to) = (self.fleet.nodes.get(source).site, self.fleet.nodes.get(target).site);
        let share =
            if outgoing_max.is_some() { self.fleet.copy_bandwidth.reserve(&self.fleet.nodes, from, to) } else { None };
        self.fleet.nodes.get_mut(target).begin_incoming(bytes);
        self.fleet.nodes.get_mut(source).outgoing += 1;
        let rate = share.map_or(COPY_BYTES_PER_SECOND_MIN, |share| share.rate_bytes_per_second / 2);
        let until =
            now.monotonic + COPY_PATIENCE + Duration::from_secs(bytes / rate.clamp(1, COPY_BYTES_PER_SECOND_MIN));
        let copying = PendingCopy { source, bytes, started_at: now.monotonic, deadline: until, share };
        self.replicas.queue.begin_copy(slice, target, copying);
        self.replicas.orders.push(target, QueuedWork::Copy(slice));
        CopyStart::Started
    }

    /// Notes that a copy is no longer running, whatever its result.
    pub(crate) fn end_copy(&mut self, slice: SliceId, target: NodeKey) -> Option<PendingCopy> {
        let copying = self.replicas.queue.end_copy(slice, target)?;
        self.fleet.nodes.get_mut(target).end_incoming(copying.bytes);
        let source = self.fleet.nodes.get_mut(copying.source);
        source.outgoing = source.outgoing.saturating_sub(1);
        if let Some(share) = copying.share {
            self.fleet.copy_bandwidth.release(share);
        }
        Some(copying)
    }

    /// Notes that a slice was stored at a node; the measured rate is remembered.
    pub(crate) fn finish_copy(&mut self, now: Now, slice: SliceId, target: NodeKey) {
        self.fleet.rebalance.wake();
        let Some(copying) = self.end_copy(slice, target) else { return };
        self.replicas.queue.copies_made += 1;
        if copying.share.is_none() {
            let took = now.monotonic.saturating_sub(copying.started_at);
            self.fleet.nodes.get_mut(target).note_rate(copying.bytes, took);
        }
    }

    /// Notes that a copy could not be made; it is tried again a little later, elsewhere if possible. If the target has
    /// kept a part of it, it is tried there, from another node.
    pub(crate) fn fail_copy(&mut self, now: Now, slice: SliceId, target: NodeKey, kept_bytes: u64, why: &str) {
        let Some(copying) = self.end_copy(slice, target) else { return };
        let fault = format!("slice {slice} was not copied to node {}: {why}", self.fleet.nodes.get(target).id);
        self.replicas.queue.last_fault = Some(WorkFault::new(now.unix_millis, &fault));
        let (shunned, part) = match kept_bytes {
            0 => (vec![copying.source, target], None),
            _ => (vec![copying.source], Some(target)),
        };
        self.replicas.queue.retry_later(now.monotonic, slice, shunned, part);
    }

    /// Retries copies put off after a failure, and gives up copies that were not heard of.
    pub(crate) fn retry_failed_copies(&mut self, now: Now) {
        for (slice, target) in self.replicas.queue.copies_where(|_, copying| copying.deadline <= now.monotonic) {
            self.fail_copy(now, slice, target, 0, "nothing was heard of it for too long");
        }
        while let Some(slice) = self.replicas.queue.pop_retry(now.monotonic) {
            match self.writes.leases.of_slice(slice) {
                Some(lease) => self.advance_lease(now, lease),
                None => self.check_replication(now, slice),
            }
        }
    }

    /// Retries the slices for which there was no room; those for which there was no node only if `nodes_came`.
    pub(crate) fn retry_blocked_copies(&mut self, nodes_came: bool) {
        let is_same = |sweep: &Sweep| matches!(sweep, Sweep::Blocked { all, .. } if *all >= nodes_came);
        if !self.replicas.sweeps.iter().any(is_same) {
            self.replicas.sweeps.push_back(Sweep::Blocked { after: None, all: nodes_came });
        }
        self.replicas.queue.wake_queue();
    }

    /// Whether a move is worth its bytes: the copies are better placed after it.
    fn is_better(&self, terms: &PlacementConstraints, holders: &[NodeKey], choice: PlacementChoice) -> bool {
        let PlacementChoice::Node(target) = choice else { return false };
        let mut after = holders.to_vec();
        after.push(target);
        terms.best_without_one(&self.fleet.nodes, &after) < terms.cost(&self.fleet.nodes, holders)
    }

    /// The nodes that have, or are getting, a good copy; and further ones that something of the slice blocks.
    pub(crate) fn replica_holders(&self, slice: SliceId) -> (Vec<NodeKey>, Vec<NodeKey>) {
        let mut holders = self.replicas.queue.targets(slice);
        let mut closed = Vec::new();
        for replica in self.replicas.table.of(slice).iter() {
            if replica.is_good() && !self.fleet.nodes.get(replica.node).is_dead {
                holders.push(replica.node);
            } else if replica.state != (ReplicaState::Corrupt { is_quarantined: true }) {
                closed.push(replica.node);
            }
        }
        (holders, closed)
    }

    /// Nodes with a good copy that `counts`.
    pub(super) fn holders_where(&self, slice: SliceId, counts: impl Fn(&Self, &Replica) -> bool) -> Vec<NodeKey> {
        let replicas = self.replicas.table.of(slice);
        let counted = replicas.iter().filter(|replica| replica.is_good() && counts(self, replica));
        counted.map(|replica| replica.node).collect()
    }

    /// Forgets bad replicas that their nodes have quarantined: the file has all its copies again, or is gone.
    fn forget_quarantined(&mut self, slice: SliceId) {
        let is_replaced = |replica: &Replica| replica.state == ReplicaState::Corrupt { is_quarantined: true };
        let replaced: Vec<_> = self
            .replicas
            .table
            .of(slice)
            .iter()
            .filter(|replica| is_replaced(replica))
            .map(|replica| replica.node)
            .collect();
        for node in replaced {
            self.forget_replica(slice, node);
        }
    }
}

/// Most background copies that one node fetches, or serves, at once: one fills a disk or a link, the others hide its
/// pauses.
pub(crate) const NODE_COPIES_MAX: u32 = 4;
/// How long a copy may take before it is given up: time for the queue at the node and the connection ...
const COPY_PATIENCE: Duration = limits::LEASE_LIFE;
/// ... and for the bytes, at the rate below which a link counts as broken, in bytes per second.
const COPY_BYTES_PER_SECOND_MIN: u64 = 1 << 20;
