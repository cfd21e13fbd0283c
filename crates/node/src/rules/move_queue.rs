//! Slices to be placed and removed. Several moves run at once, since each waits for the disk's sync, but moves of the
//! same slice or path stay in order. A later order never overtakes an earlier one of the same slice or path, because
//! the last order must win.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protocol::{Reason, Refusal, SectorPath, SliceHeader, SliceId};

use super::ReplyTo;

/// A change of where a slice is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Put it at its header's path (see [`Order::Place`](protocol::message::node_master::Order::Place)).
    Place {
        /// What the slice is now.
        header: SliceHeader,
    },
    /// Remove it.
    Remove(SliceId),
}

impl Move {
    fn is_removal(&self) -> bool {
        matches!(self, Self::Remove(_))
    }
}

/// Names a [`Move`] until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MoveId(pub u64);

/// A move and the recipient of its answer.
#[derive(Debug)]
pub(super) struct QueuedMove {
    pub(super) work: Move,
    pub(super) reply_to: Option<ReplyTo>,
}

/// The moves of a node, waiting and running.
#[derive(Debug, Default)]
pub(super) struct MoveQueue {
    next: u64,
    waiting: VecDeque<QueuedMove>,
    running: BTreeMap<MoveId, QueuedMove>,
}

impl MoveQueue {
    pub(super) fn add(&mut self, waiting: QueuedMove) -> Result<(), Refusal> {
        if self.waiting.len() >= MOVES_WAITING_MAX {
            let message =
                format!("{MOVES_WAITING_MAX} orders wait at this node already; order it again a little later");
            return Err(Refusal::new(Reason::Busy, message));
        }
        self.waiting.push_back(waiting);
        Ok(())
    }

    /// The next move to start, if one may.
    pub(super) fn start(&mut self) -> Option<(MoveId, Move)> {
        let removals = self.running.values().filter(|running| running.work.is_removal()).count();
        let places = self.running.len() - removals;
        let mut busy = MoveConflicts::default();
        self.running.values().for_each(|running| busy.add(&running.work));
        let free = self.waiting.iter().take(LOOK_AHEAD_MOVES).position(|waiting| {
            let has_hands = match waiting.work {
                Move::Place { .. } => places < MOVES_RUNNING_MAX,
                Move::Remove(_) => removals < REMOVALS_RUNNING_MAX,
            };
            let free = has_hands && !busy.touches(&waiting.work);
            // A move that must wait holds back later ones of the same slice or path.
            busy.add(&waiting.work);
            free
        })?;
        let waiting = self.waiting.remove(free)?;
        let id = MoveId(self.next);
        self.next += 1;
        let work = waiting.work.clone();
        self.running.insert(id, waiting);
        Some((id, work))
    }

    /// A move ended; `None` for one that is not known.
    pub(super) fn finished(&mut self, id: MoveId) -> Option<QueuedMove> {
        self.running.remove(&id)
    }

    /// Forgets what has not begun: a master that ordered it over an earlier session may want something else by now.
    pub(super) fn drop_waiting(&mut self) {
        self.waiting.clear();
    }

    /// The places that are being changed now.
    pub(super) fn running_places(&self) -> BTreeSet<MoveId> {
        self.running.iter().filter(|(_, running)| !running.work.is_removal()).map(|(id, _)| *id).collect()
    }

    /// Whether this slice is about to be removed.
    pub(super) fn is_removing(&self, slice: SliceId) -> bool {
        let remove = Move::Remove(slice);
        self.running.values().chain(&self.waiting).any(|waiting| waiting.work == remove)
    }
}

/// Slices and paths that earlier moves touch.
#[derive(Default)]
struct MoveConflicts {
    slices: BTreeSet<SliceId>,
    paths: BTreeSet<SectorPath>,
}

impl MoveConflicts {
    fn add(&mut self, work: &Move) {
        match work {
            Move::Place { header } => {
                self.slices.insert(header.slice);
                self.paths.insert(header.path.clone());
            }
            Move::Remove(slice) => {
                self.slices.insert(*slice);
            }
        }
    }

    fn touches(&self, work: &Move) -> bool {
        match work {
            Move::Place { header } => self.slices.contains(&header.slice) || self.paths.contains(&header.path),
            Move::Remove(slice) => self.slices.contains(slice),
        }
    }
}

/// Slices placed at once: enough that the file system commits several in one journal transaction.
const MOVES_RUNNING_MAX: usize = 8;
/// Slices removed at once: all of them wait for one sync, so 100,000 files need only some thousands of syncs.
const REMOVALS_RUNNING_MAX: usize = 32;
/// Moves that may wait: the rename of a folder with more files than this is ordered in parts.
const MOVES_WAITING_MAX: usize = 16_384;
/// How far behind the first waiting move the search goes; this bounds the work per call.
const LOOK_AHEAD_MOVES: usize = 64;
