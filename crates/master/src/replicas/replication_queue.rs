//! Which files have too few or misplaced copies, which copies are running, and which failed. (Paper, 2.2: "the master
//! checks the number of copies of each file ... if the number is below a threshold, the master chooses a slave to make
//! a new copy".) It is no periodic check: a slice is examined when something about it changed, so the work grows with
//! events and not with stored data. It never chooses nodes and never sends: see `replication_monitor`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{SliceId, message::work::WorkFault};

use crate::{
    fleet::copy_bandwidth::BandwidthShare, fleet::nodes::NodeKey, fleet::placement_constraints::PlacementViolation,
};

/// The slices that need copies, and the running copies.
#[derive(Debug, Default)]
pub(crate) struct ReplicationQueue {
    /// The most urgent first.
    queue: BTreeSet<(ReplicationNeed, SliceId)>,
    /// Slices for which no node has room; examined again from time to time.
    blocked_for_space: BTreeSet<SliceId>,
    /// Slices for which there is no node at all; examined again when one comes.
    blocked_for_nodes: BTreeSet<SliceId>,
    waiting: BTreeSet<(Duration, SliceId)>,
    states: BTreeMap<SliceId, QueueState>,
    failures: BTreeMap<SliceId, CopyFailure>,
    pending_copies: BTreeMap<(SliceId, NodeKey), PendingCopy>,
    under: BTreeSet<SliceId>,
    lost: BTreeSet<SliceId>,
    lost_in_memory: BTreeSet<SliceId>,
    misplaced: BTreeSet<SliceId>,
    short_of_nodes: BTreeSet<SliceId>,
    /// Whether something changed since the queue was last worked on.
    is_woken: bool,
    /// Copies made in this life of the master.
    pub(crate) copies_made: u64,
    /// Why a copy last failed.
    pub(crate) last_fault: Option<WorkFault>,
}

/// Why a slice needs a copy; the smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReplicationNeed {
    /// It has only this many.
    Copies(usize),
    /// It has enough, but one is misplaced.
    Placement(PlacementViolation),
}

/// The state of a current slice, for the health report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicationHealth {
    /// Reachable copies.
    pub(crate) good: usize,
    /// Copies that are possible.
    pub(crate) possible: usize,
    /// Whether more are wanted than there are nodes for.
    pub(crate) is_short_of_nodes: bool,
    /// Whether a copy is misplaced.
    pub(crate) is_misplaced: bool,
    /// Whether its copies are in memory only.
    pub(crate) is_in_memory: bool,
    /// Whether it is listed as a name without bytes.
    pub(crate) is_listed: bool,
}

/// The queue state of a slice that needs copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    Queued(ReplicationNeed),
    BlockedForSpace,
    BlockedForNodes,
    Waiting(Duration),
}

/// A running copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingCopy {
    pub(crate) source: NodeKey,
    pub(crate) bytes: u64,
    pub(crate) started_at: Duration,
    /// When it is given up.
    pub(crate) deadline: Duration,
    /// Its share of a limited link.
    pub(crate) share: Option<BandwidthShare>,
}

/// What went wrong with a slice's last copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyFailure {
    attempts: u32,
    /// The nodes of the last attempt, source and target: others are tried before them.
    pub(crate) avoided: Vec<NodeKey>,
    /// The target of the last attempt, if it has kept the received part.
    partial_node: Option<NodeKey>,
}

impl ReplicationQueue {
    /// Puts a slice in the queue, unless it waits for a later time.
    pub(crate) fn enqueue(&mut self, slice: SliceId, need: ReplicationNeed) {
        match self.states.get(&slice) {
            Some(QueueState::Waiting(_)) => return,
            Some(QueueState::Queued(at)) if *at == need => return,
            _ => self.dequeue(slice),
        }
        self.queue.insert((need, slice));
        self.states.insert(slice, QueueState::Queued(need));
        self.is_woken = true;
    }

    /// Takes a slice out of the queue: it needs no copy, or is no longer current.
    pub(crate) fn dequeue(&mut self, slice: SliceId) {
        match self.states.remove(&slice) {
            Some(QueueState::Queued(need)) => drop(self.queue.remove(&(need, slice))),
            Some(QueueState::BlockedForSpace) => drop(self.blocked_for_space.remove(&slice)),
            Some(QueueState::BlockedForNodes) => drop(self.blocked_for_nodes.remove(&slice)),
            Some(QueueState::Waiting(until)) => drop(self.waiting.remove(&(until, slice))),
            None => {}
        }
    }

    /// Blocks a slice until there is room for it.
    pub(crate) fn block_for_space(&mut self, slice: SliceId) {
        self.dequeue(slice);
        self.blocked_for_space.insert(slice);
        self.states.insert(slice, QueueState::BlockedForSpace);
    }

    /// Blocks a slice until there is another node.
    pub(crate) fn block_for_nodes(&mut self, slice: SliceId) {
        self.dequeue(slice);
        self.blocked_for_nodes.insert(slice);
        self.states.insert(slice, QueueState::BlockedForNodes);
    }

    /// Defers a slice for a moment: the link for its copy is full.
    pub(crate) fn defer(&mut self, now: Duration, slice: SliceId) {
        self.wait_until(now + DEFER_FOR, slice);
    }

    /// Blocked slices after this one: for walks in steps. Those short of nodes only if `all`.
    pub(crate) fn blocked_after(&self, after: Option<SliceId>, all: bool, count: usize) -> Vec<SliceId> {
        let from = (after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded), std::ops::Bound::Unbounded);
        let short = self.blocked_for_nodes.range(from).take(if all { count } else { 0 });
        let mut slices: Vec<_> = self.blocked_for_space.range(from).take(count).chain(short).copied().collect();
        slices.sort_unstable();
        slices.truncate(count);
        slices
    }

    /// The neediest slices, if anything changed since they were last asked for.
    pub(crate) fn candidates(&mut self) -> Vec<SliceId> {
        if !std::mem::take(&mut self.is_woken) {
            return Vec::new();
        }
        self.queue.iter().take(CANDIDATES_MAX).map(|(_, slice)| *slice).collect()
    }

    /// Whether nothing waits in the queue.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Restarts work on the queue: a node has become idle, or came back.
    pub(crate) fn wake_queue(&mut self) {
        self.is_woken = true;
    }

    /// Notes a failed copy; the slice is tried again after a growing delay.
    pub(crate) fn retry_later(&mut self, now: Duration, slice: SliceId, shunned: Vec<NodeKey>, part: Option<NodeKey>) {
        let failure = self.failures.entry(slice).or_default();
        failure.avoided = shunned;
        failure.partial_node = part;
        let wait = RETRY_AFTER_MIN.saturating_mul(1 << failure.attempts.min(16)).min(RETRY_AFTER_MAX);
        failure.attempts += 1;
        self.wait_until(now + wait, slice);
    }

    /// Forgets what went wrong with a slice.
    pub(crate) fn clear_failure(&mut self, slice: SliceId) {
        self.failures.remove(&slice);
        if let Some(QueueState::Waiting(_)) = self.states.get(&slice) {
            self.dequeue(slice);
        }
    }

    /// The nodes that the next attempt should avoid.
    pub(crate) fn avoided(&self, slice: SliceId) -> Vec<NodeKey> {
        self.failures.get(&slice).map(|failure| failure.avoided.clone()).unwrap_or_default()
    }

    /// The node that has kept a part of the slice from the last attempt.
    pub(crate) fn partial_node(&self, slice: SliceId) -> Option<NodeKey> {
        self.failures.get(&slice)?.partial_node
    }

    /// A slice that has waited long enough after a failure.
    pub(crate) fn pop_retry(&mut self, now: Duration) -> Option<SliceId> {
        let (until, slice) = *self.waiting.first()?;
        if until > now {
            return None;
        }
        self.dequeue(slice);
        Some(slice)
    }

    pub(crate) fn begin_copy(&mut self, slice: SliceId, target: NodeKey, copying: PendingCopy) {
        self.pending_copies.insert((slice, target), copying);
    }

    pub(crate) fn end_copy(&mut self, slice: SliceId, target: NodeKey) -> Option<PendingCopy> {
        let copying = self.pending_copies.remove(&(slice, target));
        self.is_woken |= copying.is_some();
        copying
    }

    pub(crate) fn copy(&self, slice: SliceId, target: NodeKey) -> Option<PendingCopy> {
        self.pending_copies.get(&(slice, target)).copied()
    }

    /// The nodes that fetch a copy of a slice now.
    pub(crate) fn targets(&self, slice: SliceId) -> Vec<NodeKey> {
        let of_slice = self.pending_copies.range((slice, NodeKey::FIRST)..);
        of_slice.take_while(|((of, _), _)| *of == slice).map(|((_, target), _)| *target).collect()
    }

    /// Copies that match: slice, target, copy.
    pub(crate) fn copies_where(&self, matches: impl Fn(NodeKey, &PendingCopy) -> bool) -> Vec<(SliceId, NodeKey)> {
        self.pending_copies.iter().filter(|((_, target), copy)| matches(*target, copy)).map(|(key, _)| *key).collect()
    }

    /// Notes the state of a current slice.
    pub(crate) fn note_health(&mut self, slice: SliceId, wellness: ReplicationHealth) {
        let keep = |set: &mut BTreeSet<SliceId>, is_member| {
            if is_member {
                set.insert(slice)
            } else {
                set.remove(&slice)
            };
        };
        let ReplicationHealth { good, possible, is_short_of_nodes, is_misplaced, is_in_memory, is_listed } = wellness;
        let is_lost_in_memory = is_in_memory && good == 0;
        keep(&mut self.lost_in_memory, is_lost_in_memory);
        let is_told_elsewhere = is_lost_in_memory || is_listed;
        keep(&mut self.under, good < possible && !is_told_elsewhere);
        keep(&mut self.lost, good == 0 && !is_told_elsewhere);
        keep(&mut self.misplaced, is_misplaced);
        keep(&mut self.short_of_nodes, is_short_of_nodes);
    }

    /// Forgets a slice that is no longer any file's content.
    pub(crate) fn forget(&mut self, slice: SliceId) {
        self.dequeue(slice);
        self.failures.remove(&slice);
        let Self { under, lost, lost_in_memory, misplaced, short_of_nodes, .. } = self;
        for set in [under, lost, lost_in_memory, misplaced, short_of_nodes] {
            set.remove(&slice);
        }
    }

    /// The first files that want more copies than there are nodes for.
    pub(crate) fn short_of_nodes(&self) -> impl Iterator<Item = SliceId> + '_ {
        self.short_of_nodes.iter().copied()
    }

    /// How many files are unhealthy, by kind.
    pub(crate) fn health(&self) -> UnhealthyCounts {
        UnhealthyCounts {
            under_replicated: self.under.len() as u64,
            lost: self.lost.len() as u64,
            lost_in_memory: self.lost_in_memory.len() as u64,
            misplaced: self.misplaced.len() as u64,
            short_of_nodes: self.short_of_nodes.len() as u64,
        }
    }

    /// What there is to do.
    pub(crate) fn backlog(&self) -> ReplicationBacklog {
        ReplicationBacklog {
            running: self.pending_copies.len() as u64,
            queued: self.queue.len() as u64,
            blocked: (self.blocked_for_space.len() + self.blocked_for_nodes.len()) as u64,
            waiting: self.waiting.len() as u64,
            next_retry: self.waiting.first().map(|(until, _)| *until),
        }
    }

    fn wait_until(&mut self, until: Duration, slice: SliceId) {
        self.dequeue(slice);
        self.waiting.insert((until, slice));
        self.states.insert(slice, QueueState::Waiting(until));
    }
}

/// How many slices wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicationBacklog {
    /// Copies being made.
    pub(crate) running: u64,
    /// Slices that get a copy as soon as a node is free for it.
    pub(crate) queued: u64,
    /// Slices for which there is no room, or no node.
    pub(crate) blocked: u64,
    /// Slices that are tried again later.
    pub(crate) waiting: u64,
    /// When the first of these is tried, on the monotonic clock.
    pub(crate) next_retry: Option<Duration>,
}

/// Counts of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnhealthyCounts {
    /// Files with fewer copies than wanted, though there are nodes for more.
    pub(crate) under_replicated: u64,
    /// Files without any reachable copy.
    pub(crate) lost: u64,
    /// The same for files kept in memory.
    pub(crate) lost_in_memory: u64,
    /// Files with a misplaced copy.
    pub(crate) misplaced: u64,
    /// Files for which there are too few nodes.
    pub(crate) short_of_nodes: u64,
}

/// Slices examined at once: more than can be begun at once, since each node takes few.
const CANDIDATES_MAX: usize = 64;
/// Delay before a copy is tried again after a first failure; doubles with each.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(500);
/// Longest time between two tries.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// How long a slice is left aside if its copy needs a full link, so that others, for other links, come first.
const DEFER_FOR: Duration = Duration::from_secs(1);
