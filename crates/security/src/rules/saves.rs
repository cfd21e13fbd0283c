//! Answers that wait for the journal. An account is changed in memory at once, and every answer to a change of accounts
//! waits here. An answer is never sent before the rows of its change are durable.

use std::collections::VecDeque;

use protocol::message::master_security::SecurityReply;

use super::actions::{SecurityBatchId, SecurityCaller};

/// The batches on their way to the journal, with the answers that wait for them.
#[derive(Debug, Default)]
pub(crate) struct PendingSaves {
    last: SecurityBatchId,
    waiting: VecDeque<(SecurityBatchId, Vec<HeldAnswer>)>,
    /// Whether the disk had no room for the oldest batch. It is tried again until there is some.
    pub(crate) is_full: bool,
}

/// An answer that waits.
pub(crate) type HeldAnswer = (SecurityCaller, SecurityReply);

impl PendingSaves {
    /// Begins a batch.
    pub(crate) fn begin(&mut self) -> SecurityBatchId {
        self.last.0 += 1;
        self.waiting.push_back((self.last, Vec::new()));
        self.last
    }

    /// The disk is full: batches wait, and the answers that would wait with them are given back.
    pub(crate) fn note_full(&mut self) -> Vec<HeldAnswer> {
        self.is_full = true;
        self.waiting.iter_mut().flat_map(|(_, answers)| std::mem::take(answers)).collect()
    }

    /// Lets an answer follow the batches on their way now. Gives it back if there are none, or if they wait for room.
    pub(crate) fn after_waiting(&mut self, held: HeldAnswer) -> Option<HeldAnswer> {
        match self.waiting.back_mut().filter(|_| !self.is_full) {
            Some((_, answers)) => {
                answers.push(held);
                None
            }
            None => Some(held),
        }
    }

    /// The answers that waited for the batches up to `batch`, which are durable now.
    pub(crate) fn finish(&mut self, batch: SecurityBatchId) -> Vec<HeldAnswer> {
        self.is_full = false;
        let mut finished = Vec::new();
        while self.waiting.front().is_some_and(|(id, _)| *id <= batch) {
            finished.extend(self.waiting.pop_front().map(|(_, answers)| answers).unwrap_or_default());
        }
        finished
    }
}
