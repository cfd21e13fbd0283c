//! What waits for the journal. A change of names is made in memory at once, but nobody is told of it, and no node acts
//! on it, before its row is durable: those consequences wait here as [`Effect`]s. Serves every path that changes names.

use std::collections::{BTreeMap, VecDeque};

use protocol::{FileId, JobId, SliceId, message::client_master::ClientReply};

use crate::{
    actions::{BatchId, Caller},
    nodes::NodeKey,
};

/// What happens once a batch is durable.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one for each change that waits: a box would be an allocation for nothing
pub(crate) enum Effect {
    /// A client is answered.
    Reply(Caller, ClientReply),
    /// A slice became or ceased to be some file's content: its replicas are seen to.
    Settle(SliceId),
    /// The first slice may be removed once the second stands at its path somewhere.
    Supersede(SliceId, SliceId),
    /// What lies at and below an entry has another path, or another policy: its replicas are seen to.
    Moved(FileId),
    /// A job has ended: nodes forget it.
    Forget(JobId),
    /// A job has another driver: its node is told.
    Drive(JobId),
    /// The changes of small rows up to this one are durable: nodes may keep them.
    Kept(u64),
    /// A node's inventory is decided upon: it is given the rows that it shall keep.
    Told(NodeKey),
}

/// The batches on their way to the journal.
#[derive(Debug, Default)]
pub(crate) struct Saves {
    last: BatchId,
    waiting: VecDeque<(BatchId, Vec<Effect>)>,
    /// Slices whose fate is in a waiting batch, with the number of such batches. No order about them may be given: the
    /// memory says what to do, but a crash now would bring back what the journal says.
    unsettled: BTreeMap<SliceId, u32>,
}

impl Saves {
    /// Begins a batch with what shall follow it.
    pub(crate) fn begin(&mut self, effects: Vec<Effect>) -> BatchId {
        self.last.0 += 1;
        self.note(&effects);
        self.waiting.push_back((self.last, effects));
        self.last
    }

    /// Lets `effect` follow whatever is on its way now; gives it back when nothing is.
    pub(crate) fn after_waiting(&mut self, effect: Effect) -> Option<Effect> {
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

    /// The effects of all batches up to `batch`, which are durable now.
    pub(crate) fn finish(&mut self, batch: BatchId) -> Vec<Effect> {
        let mut finished = Vec::new();
        while self.waiting.front().is_some_and(|(id, _)| *id <= batch) {
            finished.extend(self.waiting.pop_front().map(|(_, effects)| effects).unwrap_or_default());
        }
        for effect in &finished {
            self.unnote(effect);
        }
        finished
    }

    /// Whether work that nobody waits for may add a batch.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < BACKGROUND_BATCHES_MAX
    }

    /// Whether a slice's fate is not durable yet.
    pub(crate) fn is_unsettled(&self, slice: SliceId) -> bool {
        self.unsettled.contains_key(&slice)
    }

    fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Settle(slice) = effect {
                *self.unsettled.entry(*slice).or_default() += 1;
            }
        }
    }

    fn unnote(&mut self, effect: &Effect) {
        if let Effect::Settle(slice) = effect
            && let Some(count) = self.unsettled.get_mut(slice)
        {
            *count -= 1;
            if *count == 0 {
                self.unsettled.remove(slice);
            }
        }
    }
}

/// Batches on their way beyond which none is added that nobody waits for.
const BACKGROUND_BATCHES_MAX: usize = 4;
