//! Effects that wait for the journal. A change of names is made in memory at once. But nobody is told of it, and no
//! node acts on it, before its row is durable; until then these [`Effect`]s wait here. Serves every path that changes
//! names. It never writes to a disk.

use std::collections::{BTreeMap, VecDeque};

use protocol::{FileId, JobId, SliceId, message::client_master::ClientReply};

use crate::{
    actions::{BatchId, SessionCaller},
    fleet::nodes::NodeKey,
};

/// An effect of a durable batch.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one for each change that waits: a box would be an allocation for nothing
pub(crate) enum Effect {
    /// A client is answered.
    Reply(SessionCaller, ClientReply),
    /// A slice became or ceased to be some file's content: its replicas are reconciled.
    Reconcile(SliceId),
    /// The first slice may be removed once the second stands at its path somewhere.
    Supersede(SliceId, SliceId),
    /// Everything at and below an entry has another path, or another policy: its replicas are reconciled.
    Moved(FileId),
    /// A job has ended: nodes forget it.
    ForgetJob(JobId),
    /// A job has another driver: its node is told.
    StartDriver(JobId),
    /// The changes of small rows up to this one are durable: nodes may keep them.
    ChangesDurable(u64),
    /// The events before this number are durable: they may be told.
    EventsDurable(u64),
    /// A node's inventory has been processed: it is given the rows that it should keep.
    InventoryTaken(NodeKey),
}

/// The batches that are being written.
#[derive(Debug, Default)]
pub(crate) struct JournalWrites {
    last: BatchId,
    waiting: VecDeque<(BatchId, Vec<Effect>)>,
    /// Slices whose fate is in a waiting batch, with the number of such batches. No order about them may be given. The
    /// memory knows the new state, but a crash now would restore the journal's.
    unsaved: BTreeMap<SliceId, u32>,
    /// Whether the disk had no room for the oldest batch. It is tried again until there is some.
    is_full: bool,
}

impl JournalWrites {
    /// Begins a batch; `effects` follow it.
    pub(crate) fn begin(&mut self, effects: Vec<Effect>) -> BatchId {
        self.last.0 += 1;
        self.note(&effects);
        self.waiting.push_back((self.last, effects));
        self.last
    }

    /// Lets `effect` follow the batches that are being written now; gives it back if there are none.
    pub(crate) fn after_pending(&mut self, effect: Effect) -> Option<Effect> {
        self.note(std::slice::from_ref(&effect));
        match self.waiting.back_mut() {
            Some((_, effects)) => {
                effects.push(effect);
                None
            }
            None => {
                self.unnote(&effect);
                Some(effect)
            }
        }
    }

    /// Whether the disk is full, so that nothing may be changed.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The disk is full: batches wait, and the answers that would wait with them are given back.
    pub(crate) fn note_full(&mut self) -> Vec<(SessionCaller, ClientReply)> {
        self.is_full = true;
        let mut replies = Vec::new();
        for (_, effects) in &mut self.waiting {
            for effect in effects.extract_if(.., |effect| matches!(effect, Effect::Reply(..))) {
                if let Effect::Reply(to, reply) = effect {
                    replies.push((to, reply));
                }
            }
        }
        replies
    }

    /// The effects of all batches up to `batch`, which are durable now.
    pub(crate) fn finish(&mut self, batch: BatchId) -> Vec<Effect> {
        self.is_full = false;
        let mut finished = Vec::new();
        while self.waiting.front().is_some_and(|(id, _)| *id <= batch) {
            finished.extend(self.waiting.pop_front().map(|(_, effects)| effects).unwrap_or_default());
        }
        for effect in &finished {
            self.unnote(effect);
        }
        finished
    }

    /// Whether background work may add a batch.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < BACKGROUND_BATCHES_MAX
    }

    /// Whether a slice's fate is not durable yet.
    pub(crate) fn has_unsaved_change(&self, slice: SliceId) -> bool {
        self.unsaved.contains_key(&slice)
    }

    fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Reconcile(slice) = effect {
                *self.unsaved.entry(*slice).or_default() += 1;
            }
        }
    }

    fn unnote(&mut self, effect: &Effect) {
        if let Effect::Reconcile(slice) = effect
            && let Some(count) = self.unsaved.get_mut(slice)
        {
            *count -= 1;
            if *count == 0 {
                self.unsaved.remove(slice);
            }
        }
    }
}

/// What is said while the journal cannot be written.
pub(crate) const MASTER_DISK_FULL: &str =
    "the disk of the master is full, and nothing can be changed; make room there (it then goes on by itself)";
/// Batches being written beyond which background work adds none.
const BACKGROUND_BATCHES_MAX: usize = 4;
