//! Reports of nodes, and nodes that come and go. Serves joining, upload, replication, and the recovery of names after
//! the master lost its journal. It never believes a node about names that the journal has: there the node is told.

use protocol::{
    Now, SessionId, SliceId, SliceMetadata, limits,
    message::{
        client_master::NodeState,
        events::{EventFields, EventKind},
        node_master::{Ack, HeldPartial, HeldSlice, HeldState, Report},
        work::WORK_ITEMS_MAX,
    },
    names::{EVENT_DISK_FAILED, EVENT_NODE_JOINED, EVENT_NODE_LOST, EVENT_SLICE_CORRUPT},
};

use crate::{
    Master,
    actions::{MasterAction, SessionCaller},
    fleet::nodes::NodeKey,
    replicas::{
        replica_table::{HeaderFingerprint, ReplicaState},
        sweeps::Sweep,
    },
};

impl Master {
    /// Takes a report; every report is answered.
    pub(crate) fn handle_report(&mut self, now: Now, from: SessionCaller, key: NodeKey, report: Report) {
        self.fleet.nodes.get_mut(key).last_heartbeat = now.monotonic;
        match report {
            Report::Inventory { slices, last } => self.note_inventory(now, key, slices, last),
            Report::Stored(metadata) => self.note_stored(now, key, &metadata),
            Report::ReplicateFailed { slice, refusal, kept_bytes } => {
                tracing::warn!(%slice, node = %self.fleet.nodes.get(key).id, %refusal, "a copy could not be made");
                self.fail_copy(now, slice, key, kept_bytes, &refusal.to_string());
            }
            Report::Corrupt(slice) => self.note_corrupt(now, key, slice),
            Report::Removed(slice) => {
                // This includes a copy that a lease counted: its disk may have failed before the commit.
                if let Some(lease) = self.writes.leases.of_slice(slice) {
                    self.note_lease_corrupt(now, key, lease);
                }
                self.note_copy_gone(now, slice, key);
                self.note_removed(now, slice, key);
            }
            Report::Status {
                used_bytes,
                free_bytes,
                transfers,
                disks,
                sandbox_missing,
                refused_tickets,
                links,
                memory_free_bytes,
                ..
            } => {
                let node = self.fleet.nodes.get_mut(key);
                node.sandbox_missing = sandbox_missing;
                node.note_status(used_bytes, free_bytes, transfers);
                node.memory_free_bytes = Some(memory_free_bytes);
                node.refused_tickets = refused_tickets;
                node.links = links;
                let failed_disks = node.note_disks(disks);
                for failed in failed_disks {
                    let (folder, why) = (failed.folder, failed.why);
                    tracing::error!(event = EVENT_DISK_FAILED, node = %self.fleet.nodes.get(key).id, folder, why, "a disk failed");
                    let cause = Some(format!("the disk `{folder}`: {why}"));
                    self.note_node(now, EventKind::DiskFailed, key, EventFields { cause, ..EventFields::default() });
                    self.events.owes_all_restored = true;
                }
            }
            Report::ForwardFailed { slice, node } => self.note_forward_failed(now, slice, &node),
            Report::Partials(partials) => {
                for HeldPartial { user, key: upload, .. } in partials.iter().take(limits::PARTIALS_MAX) {
                    self.writes.partial_uploads.learn(now.monotonic, user, *upload, key);
                }
            }
            Report::IncomingWrite(arriving) => self.note_write_progress(now, key, arriving),
            Report::TicketsRefused { refusals, left_out } => self.note_refused_tickets(now, key, refusals, left_out),
            Report::Clock { unix_millis, machine } => {
                let node = self.fleet.nodes.get(key).id.clone();
                self.note_node_clock(now, node, unix_millis, machine);
            }
            Report::MirrorPosition { position: mark, all_seen } => self.note_mirror_mark(now, key, mark, all_seen),
            Report::Work(mut rows) => {
                rows.truncate(WORK_ITEMS_MAX);
                self.fleet.nodes.get_mut(key).work = (now.unix_millis, rows);
            }
            Report::Load(report) => self.note_load(now, key, report),
            Report::Evidence(report) => self.note_evidence(now, key, report),
            Report::Links(report) => self.note_links(now, key, report),
            Report::DisksSeen(seen) => self.note_disks_seen(now, key, seen),
            Report::MirrorPage { position: mark, after, rows, last } => {
                self.note_mirror_page(now, key, mark, after, rows, last)
            }
        }
        self.actions.push_back(MasterAction::Ack { to: from, ack: Ack::Done });
    }

    /// Ends the session of a node: nothing more can be ordered there until it comes back.
    pub(crate) fn mark_node_lost(&mut self, now: Now, key: NodeKey) {
        let session = self.fleet.nodes.mark_lost(now, key);
        tracing::warn!(event = EVENT_NODE_LOST, node = %self.fleet.nodes.get(key).id, "a node is lost");
        let count = self.fleet.nodes.get(key).slice_count;
        self.events.owes_all_restored |= count > 0;
        self.note_node(now, EventKind::NodeLost, key, EventFields { count: Some(count), ..EventFields::default() });
        self.note_missed_orders(now, key);
        self.replicas.orders.forget(key);
        self.note_node_absent(key);
        for (slice, target) in self.replicas.queue.copies_where(|target, _| target == key) {
            self.end_copy(slice, target);
            // Nothing else checks the slice again: the sweep covers only slices that the node held.
            self.check_replication(now, slice);
        }
        self.replicas.sweeps.push_back(Sweep::Node(key, 0));
        self.actions.extend(session.map(MasterAction::CloseSession));
        self.stop_awaiting_node(key);
        self.advance_leases(now);
    }

    /// Declares silent nodes lost, and nodes that have been lost for long dead.
    pub(crate) fn check_heartbeats(&mut self, now: Now) {
        if self.fleet.nodes.take_racks_changed() {
            self.replicas.sweeps.push_back(Sweep::All(0));
        }
        let (mut silent, mut lost, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (key, node) in self.fleet.nodes.iter() {
            let silence = now.monotonic.saturating_sub(node.last_heartbeat);
            if node.is_reachable() && silence > self.config.node_lost_after {
                lost.push(key);
            } else if node.is_reachable() && silence > self.config.node_lost_after / SILENT_SHARE {
                silent.push(key);
            }
            let absent = node.lost_at.map(|at| now.monotonic.saturating_sub(at));
            if !node.is_dead && absent.is_some_and(|absent| absent >= self.config.replicate_after) {
                gone.push(key);
            }
        }
        for key in silent {
            // Should the journal be lost before the node is, nobody else would know of them.
            self.note_missed_orders(now, key);
        }
        for key in lost {
            self.mark_node_lost(now, key);
        }
        for key in gone {
            self.fleet.nodes.mark_dead(key);
            self.replicas.sweeps.push_back(Sweep::Node(key, 0));
        }
    }

    /// Forgets the unfinished work of a node's earlier session.
    pub(crate) fn note_rejoined(&mut self, now: Now, key: NodeKey, old: Option<SessionId>) {
        tracing::info!(event = EVENT_NODE_JOINED, node = %self.fleet.nodes.get(key).id, "a node joined");
        self.note_node(now, EventKind::NodeJoined, key, EventFields::default());
        self.note_missed_orders(now, key);
        self.replicas.orders.forget(key);
        self.note_node_absent(key);
        self.writes.leases.forget_node(key);
        for (slice, target) in self.replicas.queue.copies_where(|target, _| target == key) {
            self.end_copy(slice, target);
            self.check_replication(now, slice);
        }
        self.actions.extend(old.map(MasterAction::CloseSession));
        self.resend_revocations(key);
    }

    fn note_inventory(&mut self, now: Now, key: NodeKey, slices: Vec<HeldSlice>, last: bool) {
        let node = self.fleet.nodes.get_mut(key);
        if !node.inventory_open {
            node.inventory_open = true;
            node.begin_epoch();
        }
        for held in slices {
            self.note_inventory_slice(now, key, held);
            // It showed that the journal is stale: the node joins again, and reports everything again.
            if self.fleet.nodes.get(key).session.is_none() {
                return;
            }
        }
        if !last {
            return;
        }
        let node = self.fleet.nodes.get_mut(key);
        node.inventory_open = false;
        node.state = NodeState::Up;
        self.note_inventory_complete(now, key);
        // Walks over its slices: removes those without a file, places those at other paths, counts all copies.
        self.replicas.sweeps.push_back(Sweep::Node(key, 0));
        self.advance_leases(now);
        self.retry_blocked_copies(true);
    }

    fn note_inventory_slice(&mut self, now: Now, key: NodeKey, held: HeldSlice) {
        let HeldSlice { metadata, state } = held;
        let slice = metadata.header.slice;
        if self.writes.leases.of_slice(slice).is_some() {
            return self.note_lease_stored(now, key, &metadata);
        }
        if metadata.header.journal == self.log.rebuild.id {
            // An earlier life gave it, and the journal may have lost that: it must not be given to another write.
            self.catalog.raise_version(metadata.header.version);
        }
        let held_state = state;
        if self.proves_lost_commit(key, &metadata, state) {
            return self.mark_journal_stale(now, key, 0, false);
        }
        let state = match state {
            HeldState::Staged => ReplicaState::Staged,
            HeldState::Placed => ReplicaState::Placed(HeaderFingerprint::of(&metadata.header)),
            HeldState::Retired => ReplicaState::Retired,
        };
        self.set_replica(slice, key, self.checked_state(&metadata, state));
        self.adopt_foreign_slice(now, key, &metadata, held_state);
        self.note_outdated_path(now, key, &metadata);
        // The copies are counted now, so that files can be read while a long inventory goes on.
        self.check_replication(now, slice);
    }

    fn note_stored(&mut self, now: Now, key: NodeKey, metadata: &SliceMetadata) {
        let slice = metadata.header.slice;
        self.finish_copy(now, slice, key);
        self.replicas.queue.clear_failure(slice);
        self.fleet.nodes.get_mut(key).note_stored(metadata.bytes);
        if self.writes.leases.of_slice(slice).is_some() {
            return self.note_lease_stored(now, key, metadata);
        }
        let state = self.checked_state(metadata, ReplicaState::Staged);
        self.set_replica(slice, key, state);
        self.reconcile_slice(now, slice);
    }

    fn note_corrupt(&mut self, now: Now, key: NodeKey, slice: SliceId) {
        tracing::error!(event = EVENT_SLICE_CORRUPT, %slice, node = %self.fleet.nodes.get(key).id, "a copy is corrupt");
        if let Some(known) = self.replicas.table.at(slice, key) {
            if known.is_good() {
                self.note_copy_lost(now, slice, key, "corrupt");
            }
            self.set_replica(slice, key, ReplicaState::Corrupt { is_quarantined: true });
        }
        if let Some(lease) = self.writes.leases.of_slice(slice) {
            self.note_lease_corrupt(now, key, lease);
        }
        self.reconcile_slice(now, slice);
    }

    /// `state`, unless the node's bytes are not those that were published under this slice.
    fn checked_state(&self, metadata: &SliceMetadata, state: ReplicaState) -> ReplicaState {
        match self.catalog.names().content_of_slice(metadata.header.slice) {
            Some(content) if (content.bytes, content.digest) != (metadata.bytes, metadata.digest) => {
                ReplicaState::Corrupt { is_quarantined: false }
            }
            _ => state,
        }
    }
}

/// A node counts as silent after this part of the time after which it is lost: some of its reports are missing then.
const SILENT_SHARE: u32 = 4;
