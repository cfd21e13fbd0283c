//! Which files have too few copies, which copies are being made, and which could not be made (paper, 2.2: "the master
//! checks the number of copies of each file ... if the number is below a threshold, the master chooses a slave to make a
//! new copy"). Here it is not a periodic check: a slice is looked at when something about it changed, so that the work
//! grows with what happens and not with what is stored. Never chooses nodes and never sends: see `copying`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::SliceId;

use crate::nodes::NodeKey;

/// The slices that need copies, and the copies on their way.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    /// Fewest good copies first.
    queue: BTreeSet<(usize, SliceId)>,
    /// Slices for which no node has room; looked at again when that may have changed.
    parked: BTreeSet<SliceId>,
    waiting: BTreeSet<(Duration, SliceId)>,
    standing: BTreeMap<SliceId, Standing>,
    failures: BTreeMap<SliceId, Failure>,
    copying: BTreeMap<(SliceId, NodeKey), Copying>,
    under: BTreeSet<SliceId>,
    lost: BTreeSet<SliceId>,
    /// Whether something changed since the queue was last worked on.
    stirred: bool,
}

/// Where a slice that needs copies stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Queued(usize),
    Parked,
    Waiting(Duration),
}

/// A copy on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copying {
    pub(crate) source: NodeKey,
    pub(crate) bytes: u64,
    /// When it is given up.
    pub(crate) until: Duration,
}

/// What went wrong with a slice's last copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    attempts: u32,
    /// The nodes of the last attempt, source and target: others are tried before them.
    pub(crate) shunned: Vec<NodeKey>,
}

impl Replication {
    /// Puts a slice with `good` copies in the queue, unless it waits for a later time.
    pub(crate) fn queue(&mut self, slice: SliceId, good: usize) {
        match self.standing.get(&slice) {
            Some(Standing::Waiting(_)) => return,
            Some(Standing::Queued(at)) if *at == good => return,
            _ => self.take_out(slice),
        }
        self.queue.insert((good, slice));
        self.standing.insert(slice, Standing::Queued(good));
        self.stirred = true;
    }

    /// Takes a slice out of the queue: it needs no copy, or is none of ours any more.
    pub(crate) fn take_out(&mut self, slice: SliceId) {
        match self.standing.remove(&slice) {
            Some(Standing::Queued(good)) => drop(self.queue.remove(&(good, slice))),
            Some(Standing::Parked) => drop(self.parked.remove(&slice)),
            Some(Standing::Waiting(until)) => drop(self.waiting.remove(&(until, slice))),
            None => {}
        }
    }

    /// Puts a slice aside until there is a node for it.
    pub(crate) fn park(&mut self, slice: SliceId) {
        self.take_out(slice);
        self.parked.insert(slice);
        self.standing.insert(slice, Standing::Parked);
    }

    /// All that was put aside: a node came, or space may have become free.
    pub(crate) fn unpark(&mut self) -> Vec<SliceId> {
        let parked: Vec<_> = std::mem::take(&mut self.parked).into_iter().collect();
        for slice in &parked {
            self.standing.remove(slice);
        }
        parked
    }

    /// The neediest slices, if anything changed since they were last asked for.
    pub(crate) fn candidates(&mut self) -> Vec<SliceId> {
        if !std::mem::take(&mut self.stirred) {
            return Vec::new();
        }
        self.queue.iter().take(CANDIDATES_MAX).map(|(_, slice)| *slice).collect()
    }

    /// Makes the queue be worked on again: a node has become idle, or came back.
    pub(crate) fn stir(&mut self) {
        self.stirred = true;
    }

    /// Notes a failed copy; the slice is tried again after a while that grows.
    pub(crate) fn fail(&mut self, now: Duration, slice: SliceId, shunned: Vec<NodeKey>) {
        let failure = self.failures.entry(slice).or_default();
        failure.shunned = shunned;
        let wait = RETRY_AFTER_MIN.saturating_mul(1 << failure.attempts.min(16)).min(RETRY_AFTER_MAX);
        failure.attempts += 1;
        self.take_out(slice);
        self.waiting.insert((now + wait, slice));
        self.standing.insert(slice, Standing::Waiting(now + wait));
    }

    /// Forgets what went wrong with a slice.
    pub(crate) fn clear_failure(&mut self, slice: SliceId) {
        self.failures.remove(&slice);
        if let Some(Standing::Waiting(_)) = self.standing.get(&slice) {
            self.take_out(slice);
        }
    }

    /// The nodes that the next attempt should avoid.
    pub(crate) fn shunned(&self, slice: SliceId) -> Vec<NodeKey> {
        self.failures.get(&slice).map(|failure| failure.shunned.clone()).unwrap_or_default()
    }

    /// A slice that has waited long enough after a failure.
    pub(crate) fn wake(&mut self, now: Duration) -> Option<SliceId> {
        let (until, slice) = *self.waiting.first()?;
        if until > now {
            return None;
        }
        self.take_out(slice);
        Some(slice)
    }

    pub(crate) fn begin_copy(&mut self, slice: SliceId, target: NodeKey, copying: Copying) {
        self.copying.insert((slice, target), copying);
    }

    pub(crate) fn end_copy(&mut self, slice: SliceId, target: NodeKey) -> Option<Copying> {
        let copying = self.copying.remove(&(slice, target));
        self.stirred |= copying.is_some();
        copying
    }

    pub(crate) fn copy(&self, slice: SliceId, target: NodeKey) -> Option<Copying> {
        self.copying.get(&(slice, target)).copied()
    }

    /// The nodes that fetch a copy of a slice now.
    pub(crate) fn targets(&self, slice: SliceId) -> Vec<NodeKey> {
        let of_slice = self.copying.range((slice, NodeKey::FIRST)..);
        of_slice.take_while(|((of, _), _)| *of == slice).map(|((_, target), _)| *target).collect()
    }

    /// Copies that match: slice, target, copy.
    pub(crate) fn copies_where(&self, matches: impl Fn(NodeKey, &Copying) -> bool) -> Vec<(SliceId, NodeKey)> {
        self.copying.iter().filter(|((_, target), copy)| matches(*target, copy)).map(|(key, _)| *key).collect()
    }

    /// Notes for the health report how many copies a current slice has that can be reached, and how many it should.
    pub(crate) fn note_health(&mut self, slice: SliceId, good: usize, wanted: usize) {
        let keep = |set: &mut BTreeSet<SliceId>, is_member| {
            if is_member {
                set.insert(slice)
            } else {
                set.remove(&slice)
            };
        };
        keep(&mut self.under, good < wanted);
        keep(&mut self.lost, good == 0);
    }

    /// Forgets a slice that is no file's content any more.
    pub(crate) fn forget(&mut self, slice: SliceId) {
        self.take_out(slice);
        self.failures.remove(&slice);
        self.under.remove(&slice);
        self.lost.remove(&slice);
    }

    /// Files with fewer copies than wanted, and files with none that can be reached.
    pub(crate) fn health(&self) -> (u64, u64) {
        (self.under.len() as u64, self.lost.len() as u64)
    }
}

/// Slices looked at in one go: more than can be begun at once, since each node takes few.
const CANDIDATES_MAX: usize = 64;
/// How long after a first failure a copy is tried again; doubles with each.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(500);
/// Longest time between two tries.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
