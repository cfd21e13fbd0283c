//! Brings the slices on the nodes into agreement with the names. Serves publishing, renaming, removal, and the return
//! of a node. For one replica there is at most one thing to do, and it follows from the present state
//! ([`Master::due`]). So asking once for every replica is enough, and the order of earlier events never matters.

use protocol::{
    FileId, Now, Priority, SliceHeader, SliceId, Status, TransferQos,
    message::node_master::{Ack, Order},
};

use crate::{
    Master,
    access::tickets,
    actions::{MasterAction, OrderId, OrderOutcome},
    catalog::compact_storage::Slot,
    fleet::nodes::NodeKey,
    log::journal_writes::Effect,
    replicas::{
        orders::{ORDER_RETRY_AFTER, OrderKind, QueuedWork},
        replica_table::{HeaderFingerprint, PathFingerprint, Replica, ReplicaState},
        sweeps::Sweep,
    },
};

/// The work due for a replica.
enum Due {
    Place(SliceHeader),
    Remove,
}

impl Master {
    /// Handles a change of a slice: its replicas are placed or removed, and its copies counted.
    pub(crate) fn reconcile_slice(&mut self, now: Now, slice: SliceId) {
        if self.is_placed_or_gone(slice) {
            self.release_superseded(now, slice);
        }
        let due: Vec<_> = self.replicas.table.of(slice).iter().map(|replica| replica.node).collect();
        for node in due {
            if self.fleet.nodes.get(node).is_up() && self.due(slice, node).is_some() {
                self.replicas.orders.push(node, QueuedWork::Reconcile(slice));
            }
        }
        self.check_replication(now, slice);
    }

    /// Sends orders for which there is room.
    pub(crate) fn send_orders(&mut self, now: Now) {
        for key in self.replicas.orders.sendable() {
            let node = self.fleet.nodes.get(key);
            let (true, Some(session)) = (node.is_up(), node.session) else { continue };
            while let Some(work) = self.replicas.orders.pop(key) {
                let Some((ordered, body)) = self.order_for(now, key, work) else { continue };
                if self.replicas.orders.must_wait(key, ordered, work) {
                    continue;
                }
                let order = self.replicas.orders.send(key, ordered);
                self.actions.push_back(MasterAction::Order { session, order, body });
            }
        }
    }

    /// Takes the answer to an order.
    pub(crate) fn note_order_finished(&mut self, now: Now, order: OrderId, outcome: OrderOutcome) {
        let Some((node, ordered)) = self.replicas.orders.finish(order) else { return };
        let retry_at = now.monotonic + ORDER_RETRY_AFTER;
        if let OrderKind::ReadMetrics(to) = ordered {
            return self.note_node_metrics(to, outcome);
        }
        let status = match outcome {
            OrderOutcome::Answered(Ack::Done | Ack::Metrics(_)) => None,
            OrderOutcome::Answered(Ack::Refused(refusal)) => Some(refusal.status()),
            OrderOutcome::Unanswered => Some(Status::Unavailable),
        };
        match (ordered, status) {
            (OrderKind::Place { slice, mark, .. }, None) => self.note_placed(now, slice, node, mark),
            (OrderKind::Remove(slice), None | Some(Status::NotFound)) => self.note_removed(now, slice, node),
            (OrderKind::Place { slice, .. }, Some(Status::NotFound)) => {
                self.forget_replica(slice, node);
                self.reconcile_slice(now, slice);
            }
            (OrderKind::Place { slice, .. } | OrderKind::Remove(slice), Some(_)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::Reconcile(slice));
            }
            // Success only means begun: the result is reported later.
            (OrderKind::Replicate(_), None) => {}
            (OrderKind::Replicate(slice), Some(_)) => {
                self.fail_copy(now, slice, node, 0, "the node did not take the order");
            }
            (OrderKind::Forget(job), Some(Status::Unavailable)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::Forget(job));
            }
            (OrderKind::Forget(_), _) => {}
            // Whether the node drives the job shows in the driver's reports.
            (OrderKind::Drive(_), _) => {}
            (OrderKind::UpdateMirror, status) => self.note_mirror_ack(now, node, status.is_none()),
            (OrderKind::Revoke(number), Some(Status::Unavailable)) => {
                self.retry_revocation_later(retry_at, node, number)
            }
            (OrderKind::Revoke(_), _) => {}
            (OrderKind::TicketKeys, Some(Status::Unavailable | Status::Failed)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::TicketKeys);
            }
            (OrderKind::TicketKeys, _) => {}
            (OrderKind::LinkShares, Some(Status::Unavailable | Status::Failed)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::LinkShares);
            }
            (OrderKind::LinkShares, _) => {}
            (OrderKind::StruckOff, Some(Status::Unavailable | Status::Failed)) => {
                self.replicas.orders.delay(retry_at, node, QueuedWork::StruckOff);
            }
            (OrderKind::StruckOff | OrderKind::ReadMetrics(_), _) => {}
            (OrderKind::ReadMirror, status) => self.note_mirror_read_ack(node, status.is_none()),
        }
    }

    /// Notes that a slice is no longer at a node.
    pub(crate) fn note_removed(&mut self, now: Now, slice: SliceId, node: NodeKey) {
        let confirmed = self.clear_tombstone(slice, node);
        self.save(now, confirmed, Vec::new());
        match self.replicas.table.at(slice, node) {
            Some(replica @ Replica { state: ReplicaState::Corrupt { .. }, .. }) => {
                let state = ReplicaState::Corrupt { is_quarantined: true };
                self.replicas.table.set(slice, Replica { state, ..replica });
                if self.catalog.names().file_of_slice(slice).is_none() {
                    self.forget_replica(slice, node);
                }
            }
            Some(_) => {
                let bytes = self.catalog.names().content_of_slice(slice).map_or(0, |content| content.bytes);
                self.fleet.nodes.get_mut(node).note_removed(bytes);
                self.forget_replica(slice, node);
            }
            None => {}
        }
        self.check_replication(now, slice);
    }

    /// Notes the present state of a slice at a node.
    pub(crate) fn set_replica(&mut self, slice: SliceId, key: NodeKey, state: ReplicaState) {
        let epoch = self.fleet.nodes.get(key).epoch;
        if self.replicas.table.set(slice, Replica { node: key, state, epoch }) {
            self.fleet.nodes.get_mut(key).slice_count += 1;
        }
    }

    /// Forgets that a slice is at a node.
    pub(crate) fn forget_replica(&mut self, slice: SliceId, key: NodeKey) {
        if self.replicas.table.remove(slice, key) {
            self.fleet.nodes.get_mut(key).slice_count -= 1;
        }
    }

    /// Whether [`sweep`](Self::sweep) has anything to do.
    pub(crate) fn has_sweeps(&self) -> bool {
        !self.replicas.sweeps.is_empty() || self.may_purge_removals()
    }

    /// Does one step of the oldest sweep.
    pub(crate) fn sweep(&mut self, now: Now) {
        if self.may_purge_removals() {
            let change = self.catalog.purge_pending_removals(SWEEP_STEP);
            self.save(now, change.rows, change.freed.into_iter().map(Effect::Reconcile).collect());
        }
        let Some(sweep) = self.replicas.sweeps.pop_front() else { return };
        let rest = match sweep {
            Sweep::Moved(entries) => self.sweep_moved(now, entries),
            Sweep::Node(node, from) => self.sweep_node(now, node, from),
            Sweep::All(from) => {
                let (slices, next) = self.catalog.names().slices_from(from, SWEEP_STEP);
                for slice in slices {
                    self.reconcile_slice(now, slice);
                    if let Some(file) = self.catalog.names().file_of_slice(slice) {
                        self.catalog.note_lifetime(file);
                    }
                }
                next.map(Sweep::All)
            }
            Sweep::Blocked { after, all } => {
                let slices = self.replicas.queue.blocked_after(after, all, SWEEP_STEP);
                for slice in &slices {
                    self.check_replication(now, *slice);
                }
                slices.last().map(|last| Sweep::Blocked { after: Some(*last), all })
            }
            Sweep::Expire(left) => self.sweep_expired(now, left),
        };
        if let Some(rest) = rest {
            self.replicas.sweeps.push_front(rest);
        }
    }

    /// Rows of cut-off entries go only as fast as the journal takes them: otherwise they would pile up.
    fn may_purge_removals(&self) -> bool {
        self.catalog.names().has_pending_removals() && self.log.journal_writes.has_room()
    }

    fn sweep_moved(&mut self, now: Now, mut entries: Vec<(FileId, Option<Box<str>>)>) -> Option<Sweep> {
        let mut steps = SWEEP_STEP;
        while steps > 0 {
            let (entry, after) = entries.pop()?;
            if let Some(slice) = self.catalog.names().slice_of(entry) {
                self.note_decided(slice);
                self.reconcile_slice(now, slice);
                self.catalog.note_lifetime(entry);
                steps -= 1;
                continue;
            }
            let children = self.catalog.names().children_after(entry, after.as_deref(), steps);
            steps = steps.saturating_sub(1);
            if let Some(last) = children.last() {
                entries.push((entry, Some(self.catalog.names().name(*last).into())));
            }
            entries.extend(children.into_iter().map(|child| (child, None)));
        }
        Some(Sweep::Moved(entries))
    }

    fn sweep_node(&mut self, now: Now, key: NodeKey, from: Slot) -> Option<Sweep> {
        let node = self.fleet.nodes.get(key);
        let (epoch, is_up, is_removed) = (node.epoch, node.is_up(), node.is_removed());
        let (slices, next) = self.replicas.table.held_by(key, from, SWEEP_STEP);
        for slice in slices {
            // A replica not named in a complete inventory does not exist.
            let is_stale = self.replicas.table.at(slice, key).is_some_and(|replica| replica.epoch != epoch);
            if (is_up && is_stale) || is_removed {
                self.forget_replica(slice, key);
            }
            self.reconcile_slice(now, slice);
        }
        next.map(|next| Sweep::Node(key, next))
    }

    /// The work due for a slice at a node, if any.
    fn due(&self, slice: SliceId, node: NodeKey) -> Option<Due> {
        let replica = self.replicas.table.at(slice, node)?;
        let is_unsettled =
            self.log.journal_writes.has_unsaved_change(slice) || self.catalog.names().is_pending_removal(slice);
        // During a rebuild nobody knows yet what belongs where.
        if is_unsettled || self.log.rebuild.is_running() {
            return None;
        }
        match (replica.state, self.catalog.names().header_of_slice(slice, self.log.rebuild.id)) {
            (ReplicaState::Corrupt { is_quarantined: true }, _) => None,
            (ReplicaState::Corrupt { is_quarantined: false }, _) => Some(Due::Remove),
            // A copy made while a node is missing: an unplaced copy has no better knowledge.
            (ReplicaState::Staged, Some(header)) if !self.has_unmerged_mirror(node) => Some(Due::Place(header)),
            (ReplicaState::Excess, Some(header)) if !self.has_unmerged_mirror(node) => {
                // The other copies may have been lost since this one was found to be superfluous.
                let is_superfluous = self.certain_holders(slice).len() >= self.copies_to_keep(slice);
                Some(if is_superfluous { Due::Remove } else { Due::Place(header) })
            }
            // Nodes that have not reported may know more of it than the journal: its sidecar is not changed.
            _ if self.is_held_back(slice, node) => None,
            (ReplicaState::Placed(mark), Some(header)) if mark == HeaderFingerprint::of(&header) => None,
            (_, Some(header)) => Some(Due::Place(header)),
            (_, None) => {
                let is_needed = self.writes.leases.of_slice(slice).is_some()
                    || self.replicas.superseded.waits(slice)
                    || self.log.rebuild.is_archived(slice);
                (!is_needed).then_some(Due::Remove)
            }
        }
    }

    /// Whether a slice has to be removed at a node.
    pub(crate) fn is_to_be_removed(&self, slice: SliceId, node: NodeKey) -> bool {
        matches!(self.due(slice, node), Some(Due::Remove))
    }

    fn order_for(&mut self, now: Now, key: NodeKey, work: QueuedWork) -> Option<(OrderKind, Order)> {
        match work {
            QueuedWork::Forget(job) => Some((OrderKind::Forget(job), Order::ForgetJob(job))),
            QueuedWork::Drive(job) => {
                self.drive_order(key, job).map(|order| (OrderKind::Drive(job), Order::Drive(order)))
            }
            QueuedWork::TicketKeys => Some((OrderKind::TicketKeys, Order::TicketKeys(self.ticket_keys()))),
            QueuedWork::StruckOff => self.struck_off_order().map(|order| (OrderKind::StruckOff, order)),
            QueuedWork::LinkShares => {
                Some((OrderKind::LinkShares, Order::LinkShares(self.fleet.nodes.get(key).link_shares.clone())))
            }
            QueuedWork::Copy(slice) => {
                let order = self.replicate_order(now, key, slice);
                if order.is_none() {
                    self.end_copy(slice, key);
                    self.check_replication(now, slice);
                }
                order
            }
            QueuedWork::Reconcile(slice) => match self.due(slice, key)? {
                Due::Place(header) => {
                    let (mark, at) = (HeaderFingerprint::of(&header), PathFingerprint::of(&header.path));
                    Some((OrderKind::Place { slice, mark, at }, Order::Place { header }))
                }
                Due::Remove => Some((OrderKind::Remove(slice), Order::Remove(slice))),
            },
        }
    }

    fn replicate_order(&self, now: Now, target: NodeKey, slice: SliceId) -> Option<(OrderKind, Order)> {
        let copying = self.replicas.queue.copy(slice, target)?;
        let header = match self.writes.leases.of_slice(slice).and_then(|lease| self.writes.leases.get(lease)) {
            Some(lease) => lease.header.clone(),
            None => self.catalog.names().header_of_slice(slice, self.log.rebuild.id)?,
        };
        let source = self.fleet.nodes.get(copying.source);
        let of = self.node_bearer(&header.owner, self.fleet.nodes.get(target), source);
        let from = self.access.tickets.read(
            now,
            source,
            of,
            tickets::ticket_file(&header.path, header.version),
            slice,
            copying.bytes,
        );
        let pace = TransferQos {
            rate_bytes_per_second: copying.share.map(|share| share.rate_bytes_per_second),
            priority: self.priority_of_copy(slice),
        };
        let bytes = copying.bytes;
        Some((OrderKind::Replicate(slice), Order::Replicate { header, bytes, from, qos: pace }))
    }

    /// A copy that a client waits for, or that will be a file's second, has the priority of client work; others wait.
    fn priority_of_copy(&self, slice: SliceId) -> Priority {
        let good = self.replicas.table.of(slice).iter().filter(|replica| replica.is_good()).count();
        if good <= 1 || self.writes.leases.of_slice(slice).is_some() { Priority::Normal } else { Priority::Low }
    }

    fn note_placed(&mut self, now: Now, slice: SliceId, node: NodeKey, mark: HeaderFingerprint) {
        // If it was found bad or gone meanwhile, that counts.
        if let Some(replica) = self.replicas.table.at(slice, node)
            && !matches!(replica.state, ReplicaState::Corrupt { .. })
        {
            self.replicas.table.set(slice, Replica { state: ReplicaState::Placed(mark), ..replica });
        }
        self.reconcile_slice(now, slice);
    }

    /// Whether nothing has to wait for this slice any longer: it stands at its path, or is no longer any file's
    /// content.
    fn is_placed_or_gone(&self, slice: SliceId) -> bool {
        match self.catalog.names().header_of_slice(slice, self.log.rebuild.id) {
            Some(header) => {
                let placed = ReplicaState::Placed(HeaderFingerprint::of(&header));
                self.replicas.table.of(slice).iter().any(|replica| replica.state == placed)
            }
            None => self.writes.leases.of_slice(slice).is_none(),
        }
    }

    fn release_superseded(&mut self, now: Now, slice: SliceId) {
        let released = self.replicas.superseded.release(slice);
        if !released.is_empty() {
            // Also if a node with it was lost meanwhile.
            self.save(now, Vec::new(), released.into_iter().map(Effect::Reconcile).collect());
        }
    }
}

/// Entries or replicas processed in one step of a sweep: about a millisecond, so that no client waits for a sweep.
const SWEEP_STEP: usize = 512;
