//! Which orders wait for a node and which are being carried out. Serves publishing, renaming, removal, replication,
//! jobs. The queue holds slices that may need attention, not orders. The order itself is decided when there is room to
//! send it (`node_orders`). So each slice is queued once at most, repeating an order does no harm, and a queued order
//! is never out of date.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use protocol::{JobId, SliceId};

use crate::{
    actions::{OrderId, SessionCaller},
    fleet::nodes::NodeKey,
    replicas::replica_table::{HeaderFingerprint, PathFingerprint},
};

/// The orders of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    last: OrderId,
    queues: BTreeMap<NodeKey, Queue>,
    in_flight: BTreeMap<OrderId, (NodeKey, OrderKind)>,
    /// Work retried later because the node did not answer or refused.
    delayed: BTreeSet<(Duration, NodeKey, QueuedWork)>,
}

/// The subject of an order that is being carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OrderKind {
    Place {
        slice: SliceId,
        /// The header its sidecar will have.
        mark: HeaderFingerprint,
        /// The path it will have.
        at: PathFingerprint,
    },
    Remove(SliceId),
    Replicate(SliceId),
    Forget(JobId),
    Drive(JobId),
    UpdateMirror,
    ReadMirror,
    /// By its number.
    Revoke(u64),
    TicketKeys,
    LinkShares,
    SlowDisks,
    StruckOff,
    /// For this caller.
    ReadMetrics(SessionCaller),
}

/// Work that waits for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueuedWork {
    /// A job's scratch files have to be removed.
    Forget(JobId),
    /// The node has to drive a detached job.
    Drive(JobId),
    /// A copy has to be fetched.
    Copy(SliceId),
    /// A slice's replica may have to be placed or removed.
    Reconcile(SliceId),
    /// The node needs the keys that sign tickets, now and next.
    TicketKeys,
    /// The node needs its shares of the limits between sites.
    LinkShares,
    /// The node needs to know which of its disks are slow.
    SlowDisks,
    /// The node needs the list of machines that were struck off.
    StruckOff,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<QueuedWork>,
    members: BTreeSet<QueuedWork>,
    in_flight: usize,
    /// Slices with an order outstanding: a second one could overtake it.
    busy: BTreeSet<SliceId>,
    /// Paths at which a slice is being placed, with the work that waits for that. Of two slices ordered to one path,
    /// the one carried out last stays there, and that must be the one ordered last.
    busy_paths: BTreeMap<PathFingerprint, Vec<QueuedWork>>,
    /// Outstanding updates, each of which is complete and replaces the one before.
    updates: BTreeMap<QueuedWork, InFlightUpdates>,
}

/// Updates of one kind on their way to a node. Messages may overtake each other.
#[derive(Debug, Default)]
struct InFlightUpdates {
    in_flight: u32,
    /// Whether there were ever two at once: then nobody knows which of them reached the node last.
    were_several: bool,
}

impl Orders {
    /// Appends work to a node's queue, unless it waits there already.
    pub(crate) fn push(&mut self, node: NodeKey, work: QueuedWork) {
        let queue = self.queues.entry(node).or_default();
        if queue.members.insert(work) {
            queue.waiting.push_back(work);
        }
    }

    /// Puts work back into a node's queue at a later time.
    pub(crate) fn delay(&mut self, until: Duration, node: NodeKey, work: QueuedWork) {
        self.delayed.insert((until, node, work));
    }

    /// Queues the delayed work that is due now.
    pub(crate) fn requeue_due(&mut self, now: Duration) {
        while let Some(&(until, node, work)) = self.delayed.first() {
            if until > now {
                break;
            }
            self.delayed.pop_first();
            self.push(node, work);
        }
    }

    /// The nodes with work that could be sent now.
    pub(crate) fn sendable(&self) -> Vec<NodeKey> {
        let ready = |queue: &Queue| !queue.waiting.is_empty() && queue.in_flight < IN_FLIGHT_MAX;
        self.queues.iter().filter(|(_, queue)| ready(queue)).map(|(node, _)| *node).collect()
    }

    /// The next piece of work for a node that can be sent now. Work on a slice with an outstanding order is skipped; it
    /// comes back when that order ends.
    pub(crate) fn pop(&mut self, node: NodeKey) -> Option<QueuedWork> {
        let queue = self.queues.get_mut(&node)?;
        if queue.in_flight >= IN_FLIGHT_MAX {
            return None;
        }
        for _ in 0..queue.waiting.len() {
            let work = queue.waiting.pop_front()?;
            let is_busy = work.slice().is_some_and(|slice| queue.busy.contains(&slice));
            if !is_busy {
                queue.members.remove(&work);
                return Some(work);
            }
            queue.waiting.push_back(work);
        }
        None
    }

    /// Whether an order must wait for another one at the same path. Its work is then kept, and comes back when the
    /// other order ends.
    pub(crate) fn must_wait(&mut self, node: NodeKey, ordered: OrderKind, work: QueuedWork) -> bool {
        let OrderKind::Place { at, .. } = ordered else { return false };
        let waiting = self.queues.get_mut(&node).and_then(|queue| queue.busy_paths.get_mut(&at));
        waiting.map(|waiting| waiting.push(work)).is_some()
    }

    /// Notes that an order is sent.
    pub(crate) fn send(&mut self, node: NodeKey, ordered: OrderKind) -> OrderId {
        self.last.0 += 1;
        let queue = self.queues.entry(node).or_default();
        queue.in_flight += 1;
        queue.busy.extend(ordered.slice());
        if let OrderKind::Place { at, .. } = ordered {
            queue.busy_paths.entry(at).or_default();
        }
        if let Some(word) = ordered.superseding_update() {
            let told = queue.updates.entry(word).or_default();
            told.in_flight += 1;
            told.were_several |= told.in_flight > 1;
        }
        self.in_flight.insert(self.last, (node, ordered));
        self.last
    }

    /// Notes that an order ended; `None` if it was forgotten with its session.
    pub(crate) fn finish(&mut self, order: OrderId) -> Option<(NodeKey, OrderKind)> {
        let (node, ordered) = self.in_flight.remove(&order)?;
        if let Some(queue) = self.queues.get_mut(&node) {
            queue.in_flight -= 1;
            if let Some(slice) = ordered.slice() {
                queue.busy.remove(&slice);
            }
            if let OrderKind::Place { at, .. } = ordered {
                for work in queue.busy_paths.remove(&at).unwrap_or_default() {
                    self.push(node, work);
                }
            }
        }
        if let Some(word) = ordered.superseding_update() {
            self.note_update_done(node, word);
        }
        Some((node, ordered))
    }

    /// A superseding update was answered, or given up. If others were sent at the same time, the node is told once
    /// more.
    fn note_update_done(&mut self, node: NodeKey, word: QueuedWork) {
        let Some(queue) = self.queues.get_mut(&node) else { return };
        let Some(told) = queue.updates.get_mut(&word) else { return };
        told.in_flight -= 1;
        if told.in_flight == 0 && queue.updates.remove(&word).is_some_and(|told| told.were_several) {
            self.push(node, word);
        }
    }

    /// How many pieces of work wait or are under way, at all nodes.
    pub(crate) fn open_count(&self) -> usize {
        let waiting: usize = self.queues.values().map(|queue| queue.waiting.len()).sum();
        waiting + self.in_flight.len() + self.delayed.len()
    }

    /// How many orders are under way.
    pub(crate) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// When the first delayed work comes back, on the monotonic clock.
    pub(crate) fn next_delayed(&self) -> Option<Duration> {
        self.delayed.first().map(|(until, ..)| *until)
    }

    /// The slices to be placed or removed at a node, waiting or in progress.
    pub(crate) fn reconciling(&self, node: NodeKey) -> BTreeSet<SliceId> {
        let queue = self.queues.get(&node);
        let members = queue.into_iter().flat_map(|queue| &queue.members);
        let paths = queue.into_iter().flat_map(|queue| queue.busy_paths.values().flatten());
        let delayed = self.delayed.iter().filter(|(_, of, _)| *of == node).map(|(_, _, work)| work);
        let waiting = members.chain(paths).chain(delayed).filter_map(|work| work.slice());
        waiting.chain(queue.into_iter().flat_map(|queue| queue.busy.iter().copied())).collect()
    }

    /// Forgets everything waiting or outstanding for a node whose session ended. The inventory with which it comes back
    /// shows again what has to be done.
    pub(crate) fn forget(&mut self, node: NodeKey) {
        self.queues.remove(&node);
        self.in_flight.retain(|_, (of, _)| *of != node);
        self.delayed.retain(|(_, of, _)| *of != node);
    }
}

impl QueuedWork {
    fn slice(self) -> Option<SliceId> {
        match self {
            Self::Copy(slice) | Self::Reconcile(slice) => Some(slice),
            Self::Forget(_)
            | Self::Drive(_)
            | Self::TicketKeys
            | Self::LinkShares
            | Self::StruckOff
            | Self::SlowDisks => None,
        }
    }
}

impl OrderKind {
    fn slice(self) -> Option<SliceId> {
        match self {
            Self::Place { slice, .. } | Self::Remove(slice) | Self::Replicate(slice) => Some(slice),
            Self::Forget(_)
            | Self::Drive(_)
            | Self::UpdateMirror
            | Self::ReadMirror
            | Self::Revoke(_)
            | Self::TicketKeys
            | Self::LinkShares
            | Self::SlowDisks
            | Self::StruckOff
            | Self::ReadMetrics(_) => None,
        }
    }

    /// The work of sending this again, if it is an update that replaces the one before.
    fn superseding_update(self) -> Option<QueuedWork> {
        match self {
            Self::TicketKeys => Some(QueuedWork::TicketKeys),
            Self::LinkShares => Some(QueuedWork::LinkShares),
            Self::SlowDisks => Some(QueuedWork::SlowDisks),
            Self::StruckOff => Some(QueuedWork::StruckOff),
            _ => None,
        }
    }
}

/// Most outstanding orders for one node. It keeps a disk busy that syncs each of them. Yet it does not bury a node when
/// a folder of a million files is removed.
const IN_FLIGHT_MAX: usize = 64;
/// How long an order that a node refused or did not answer is held back.
pub(crate) const ORDER_RETRY_AFTER: Duration = Duration::from_secs(2);
