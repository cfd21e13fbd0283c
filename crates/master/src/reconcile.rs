//! Bringing what the nodes hold into agreement with the names. Serves publishing, renaming, removal, and the return of a
//! node. For one replica there is at most one thing to do, and it follows from what is true now ([`Master::due`]); so
//! whatever happened, in whatever order, asking once for every replica is enough.

use std::collections::BTreeMap;

use protocol::{
    FileId, Now, SectorPath, SliceId, Status,
    message::node_master::{Ack, Order},
};

use crate::{
    Master,
    actions::{Action, OrderId, OrderOutcome},
    nodes::NodeKey,
    orders::{ORDER_RETRY_AFTER, Ordered, Work},
    replicas::{PathMark, Replica, ReplicaState},
};

/// What is to be done about a replica.
enum Due {
    Place(SectorPath),
    Remove,
}

/// A walk over many entries or replicas, done in steps between other work.
#[derive(Debug)]
pub(crate) enum Sweep {
    /// What lies at and below these entries has another path.
    Moved(Vec<FileId>),
    /// Something changed for all replicas of a node; those up to this slice have been seen.
    Node(NodeKey, Option<SliceId>),
    /// Something changed for all files.
    All(Option<SliceId>),
}

/// Old contents that wait until their successor stands at its path at some node. Until then the old one is what a
/// master that lost everything would find there.
#[derive(Debug, Default)]
pub(crate) struct Superseded {
    by: BTreeMap<SliceId, SliceId>,
    waiting: BTreeMap<SliceId, Vec<SliceId>>,
}

impl Superseded {
    /// Lets `old`, and what waited for it, wait for `new`.
    pub(crate) fn add(&mut self, old: SliceId, new: SliceId) {
        let mut waiting = self.waiting.remove(&old).unwrap_or_default();
        waiting.push(old);
        for slice in &waiting {
            self.by.insert(*slice, new);
        }
        self.waiting.entry(new).or_default().extend(waiting);
    }

    fn waits(&self, old: SliceId) -> bool {
        self.by.contains_key(&old)
    }

    /// What need not wait for `new` any longer.
    fn release(&mut self, new: SliceId) -> Vec<SliceId> {
        let released = self.waiting.remove(&new).unwrap_or_default();
        for slice in &released {
            self.by.remove(slice);
        }
        released
    }
}

impl Master {
    /// Sees to a slice of which something changed: its replicas are placed or removed, and its copies counted.
    pub(crate) fn settle(&mut self, now: Now, slice: SliceId) {
        if self.is_placed_or_gone(slice) {
            self.release_superseded(now, slice);
        }
        let due: Vec<_> = self.replicas.of(slice).iter().map(|replica| replica.node).collect();
        for node in due {
            if self.nodes.get(node).is_up() && self.due(slice, node).is_some() {
                self.orders.push(node, Work::Settle(slice));
            }
        }
        self.assess(now, slice);
    }

    /// Sends orders for which there is room.
    pub(crate) fn send_orders(&mut self, now: Now) {
        for key in self.orders.sendable() {
            let node = self.nodes.get(key);
            let (true, Some(session)) = (node.is_up(), node.session) else { continue };
            while let Some(work) = self.orders.pop(key) {
                let Some((ordered, body)) = self.order_for(now, key, work) else { continue };
                if self.orders.must_wait(key, ordered, work) {
                    continue;
                }
                let order = self.orders.send(key, ordered);
                self.actions.push_back(Action::Order { session, order, body });
            }
        }
    }

    /// Takes the answer to an order.
    pub(crate) fn note_ordered(&mut self, now: Now, order: OrderId, outcome: OrderOutcome) {
        let Some((node, ordered)) = self.orders.finish(order) else { return };
        let retry_at = now.monotonic + ORDER_RETRY_AFTER;
        let status = match outcome {
            OrderOutcome::Answered(Ack::Done) => None,
            OrderOutcome::Answered(Ack::Refused(refusal)) => Some(refusal.status),
            OrderOutcome::Unanswered => Some(Status::Unavailable),
        };
        match (ordered, status) {
            (Ordered::Place { slice, mark }, None) => self.note_placed(now, slice, node, mark),
            (Ordered::Remove(slice), None | Some(Status::NotFound)) => self.note_removed(now, slice, node),
            (Ordered::Place { slice, .. }, Some(Status::NotFound)) => {
                self.forget_replica(slice, node);
                self.settle(now, slice);
            }
            (Ordered::Place { slice, .. } | Ordered::Remove(slice), Some(_)) => {
                self.orders.delay(retry_at, node, Work::Settle(slice));
            }
            // Done only means begun: what comes of it is reported.
            (Ordered::Replicate(_), None) => {}
            (Ordered::Replicate(slice), Some(_)) => self.fail_copy(now, slice, node),
            (Ordered::Forget(job), Some(Status::Unavailable)) => {
                self.orders.delay(retry_at, node, Work::Forget(job));
            }
            (Ordered::Forget(_), _) => {}
            (Ordered::Keep, status) => self.note_kept(now, node, status.is_none()),
            (Ordered::TellKept, status) => self.note_tell_kept(node, status.is_none()),
        }
    }

    /// Notes that a slice is not at a node any more.
    pub(crate) fn note_removed(&mut self, now: Now, slice: SliceId, node: NodeKey) {
        let confirmed = self.note_removal_confirmed(slice, node);
        self.save(now, confirmed, Vec::new());
        match self.replicas.at(slice, node) {
            Some(replica @ Replica { state: ReplicaState::Corrupt { .. }, .. }) => {
                let state = ReplicaState::Corrupt { put_aside: true };
                self.replicas.set(slice, Replica { state, ..replica });
                if self.names.file_of_slice(slice).is_none() {
                    self.forget_replica(slice, node);
                }
            }
            Some(_) => self.forget_replica(slice, node),
            None => {}
        }
        self.assess(now, slice);
    }

    /// Notes how a slice stands at a node, as of now.
    pub(crate) fn set_replica(&mut self, slice: SliceId, key: NodeKey, state: ReplicaState) {
        let node = self.nodes.get_mut(key);
        node.held.insert(slice);
        let epoch = node.epoch;
        self.replicas.set(slice, Replica { node: key, state, epoch });
    }

    /// Forgets that a slice is at a node.
    pub(crate) fn forget_replica(&mut self, slice: SliceId, key: NodeKey) {
        self.replicas.remove(slice, key);
        self.nodes.get_mut(key).held.remove(&slice);
    }

    /// Does one step of the oldest sweep.
    pub(crate) fn sweep(&mut self, now: Now) {
        let Some(sweep) = self.sweeps.pop_front() else { return };
        let rest = match sweep {
            Sweep::Moved(entries) => self.sweep_moved(now, entries),
            Sweep::Node(node, after) => self.sweep_node(now, node, after),
            Sweep::All(after) => {
                let slices = self.names.slices_after(after, SWEEP_STEP);
                for slice in &slices {
                    self.settle(now, *slice);
                }
                slices.last().map(|last| Sweep::All(Some(*last)))
            }
        };
        if let Some(rest) = rest {
            self.sweeps.push_front(rest);
        }
    }

    fn sweep_moved(&mut self, now: Now, mut entries: Vec<FileId>) -> Option<Sweep> {
        for _ in 0..SWEEP_STEP {
            let entry = entries.pop()?;
            match self.names.content(entry).map(|content| content.slice) {
                Some(slice) => self.settle(now, slice),
                None => entries.extend(self.names.children(entry)),
            }
        }
        Some(Sweep::Moved(entries))
    }

    fn sweep_node(&mut self, now: Now, key: NodeKey, after: Option<SliceId>) -> Option<Sweep> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let node = self.nodes.get(key);
        let (epoch, is_up) = (node.epoch, node.is_up());
        let slices: Vec<_> = node.held.range((from, std::ops::Bound::Unbounded)).take(SWEEP_STEP).copied().collect();
        for slice in &slices {
            // What a complete inventory did not name is not there.
            let is_stale = self.replicas.at(*slice, key).is_some_and(|replica| replica.epoch != epoch);
            if is_up && is_stale {
                self.forget_replica(*slice, key);
            }
            self.settle(now, *slice);
        }
        slices.last().map(|last| Sweep::Node(key, Some(*last)))
    }

    /// What is to be done about a slice at a node, if anything.
    fn due(&self, slice: SliceId, node: NodeKey) -> Option<Due> {
        let replica = self.replicas.at(slice, node)?;
        // While names are put together nobody knows yet what belongs where.
        if self.saves.is_unsettled(slice) || self.rebuild.is_running() {
            return None;
        }
        let path = self.names.file_of_slice(slice).and_then(|file| self.names.path(file));
        match (replica.state, path) {
            (ReplicaState::Corrupt { put_aside: true }, _) => None,
            (ReplicaState::Corrupt { put_aside: false }, _) => Some(Due::Remove),
            (ReplicaState::Placed(mark), Some(path)) if mark == PathMark::of(&path) => None,
            (ReplicaState::Leaving, Some(path)) => {
                // The others may have been lost since this one was found to be one too many.
                let wanted = self.names.content_of_slice(slice).map_or(0, |content| usize::from(content.copies));
                let is_superfluous = self.certain_holders(slice).len() >= wanted;
                Some(if is_superfluous { Due::Remove } else { Due::Place(path) })
            }
            (_, Some(path)) => Some(Due::Place(path)),
            (_, None) => {
                let is_needed =
                    self.leases.of_slice(slice).is_some() || self.superseded.waits(slice) || self.rebuild.keeps(slice);
                (!is_needed).then_some(Due::Remove)
            }
        }
    }

    fn order_for(&mut self, now: Now, key: NodeKey, work: Work) -> Option<(Ordered, Order)> {
        match work {
            Work::Forget(job) => Some((Ordered::Forget(job), Order::ForgetJob(job))),
            Work::Copy(slice) => {
                let order = self.replicate_order(now, key, slice);
                if order.is_none() {
                    self.end_copy(slice, key);
                    self.assess(now, slice);
                }
                order
            }
            Work::Settle(slice) => match self.due(slice, key)? {
                Due::Place(path) => {
                    let mark = PathMark::of(&path);
                    Some((Ordered::Place { slice, mark }, Order::Place { slice, path }))
                }
                Due::Remove => Some((Ordered::Remove(slice), Order::Remove(slice))),
            },
        }
    }

    fn replicate_order(&self, now: Now, target: NodeKey, slice: SliceId) -> Option<(Ordered, Order)> {
        let copying = self.replication.copy(slice, target)?;
        let header = match self.leases.of_slice(slice).and_then(|lease| self.leases.get(lease)) {
            Some(lease) => lease.header.clone(),
            None => self.names.header_of_slice(slice, self.rebuild.id)?,
        };
        let source = self.nodes.get(copying.source);
        let from = self.tickets.read(now, source, &header.owner, slice, copying.bytes);
        Some((Ordered::Replicate(slice), Order::Replicate { header, bytes: copying.bytes, from }))
    }

    fn note_placed(&mut self, now: Now, slice: SliceId, node: NodeKey, mark: PathMark) {
        // Found bad or gone while the order was on its way: that is what counts.
        if let Some(replica) = self.replicas.at(slice, node)
            && !matches!(replica.state, ReplicaState::Corrupt { .. })
        {
            self.replicas.set(slice, Replica { state: ReplicaState::Placed(mark), ..replica });
        }
        self.settle(now, slice);
    }

    /// Whether nothing need wait for this slice any longer: it stands at its path, or is no file's content any more.
    fn is_placed_or_gone(&self, slice: SliceId) -> bool {
        match self.names.file_of_slice(slice).and_then(|file| self.names.path(file)) {
            Some(path) => {
                let placed = ReplicaState::Placed(PathMark::of(&path));
                self.replicas.of(slice).iter().any(|replica| replica.state == placed)
            }
            None => self.leases.of_slice(slice).is_none(),
        }
    }

    fn release_superseded(&mut self, now: Now, slice: SliceId) {
        for old in self.superseded.release(slice) {
            self.settle(now, old);
        }
    }
}

/// Entries or replicas looked at in one step of a sweep: about a millisecond, so that no client waits for a sweep.
const SWEEP_STEP: usize = 512;
