//! Copies that the master ordered: a few at once, some waiting, each slice once.
//!
//! It never starts more than its bound, so that replication cannot take the disk and the network from users.

use std::collections::{BTreeMap, VecDeque};

use protocol::{Reason, Refusal, SliceId};

use super::CopyOrder;

/// The copies of a node, waiting and running.
#[derive(Debug)]
pub(super) struct CopyQueue {
    running_max: usize,
    waiting: VecDeque<CopyOrder>,
    /// Running copies; `true` when the slice is to be removed as soon as its copy ends.
    running: BTreeMap<SliceId, bool>,
}

impl CopyQueue {
    pub(super) fn new(running_max: usize) -> Self {
        Self { running_max: running_max.max(1), waiting: VecDeque::new(), running: BTreeMap::new() }
    }

    /// Takes an order; one for a slice that is already on its way changes nothing.
    pub(super) fn add(&mut self, copy: CopyOrder) -> Result<(), Refusal> {
        let slice = copy.header.slice;
        if let Some(unwanted) = self.running.get_mut(&slice) {
            *unwanted = false;
            return Ok(());
        }
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.header.slice == slice) {
            // The newer order has the fresher ticket.
            *waiting = copy;
            return Ok(());
        }
        if self.waiting.len() >= COPIES_WAITING_MAX {
            let message = format!("{COPIES_WAITING_MAX} copies wait at this node already; order another node");
            return Err(Refusal::new(Reason::Busy, message));
        }
        self.waiting.push_back(copy);
        Ok(())
    }

    /// The next copy to start, if one may.
    pub(super) fn start(&mut self) -> Option<CopyOrder> {
        if self.running.len() >= self.running_max {
            return None;
        }
        let copy = self.waiting.pop_front()?;
        self.running.insert(copy.header.slice, false);
        Some(copy)
    }

    /// A copy ended; whether its slice is unwanted by now.
    pub(super) fn finished(&mut self, slice: SliceId) -> bool {
        self.running.remove(&slice).unwrap_or(false)
    }

    /// The slice of a copy is to be removed.
    pub(super) fn cancel(&mut self, slice: SliceId) -> Cancelled {
        if let Some(unwanted) = self.running.get_mut(&slice) {
            *unwanted = true;
            return Cancelled::Running;
        }
        let before = self.waiting.len();
        self.waiting.retain(|copy| copy.header.slice != slice);
        if self.waiting.len() < before { Cancelled::Waiting } else { Cancelled::Unknown }
    }

    pub(super) fn drop_waiting(&mut self) {
        self.waiting.clear();
    }
}

/// What a cancelled copy had come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancelled {
    /// It will not be started.
    Waiting,
    /// It runs to its end; [`CopyQueue::finished`] then says that it is unwanted.
    Running,
    /// There is none.
    Unknown,
}

/// Copies that may wait: more would outlive their tickets (one minute) before they start.
const COPIES_WAITING_MAX: usize = 256;
