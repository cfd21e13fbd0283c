//! What waits to be looked at: walks over many files, and old contents that stay until their successor is in place.
//! Serves publishing, renaming, and the return of a node. It never decides what is done at a step.

use std::collections::BTreeMap;

use protocol::{FileId, SliceId};

use crate::{catalog::compact_storage::Slot, fleet::nodes::NodeKey};

/// A walk over many entries or replicas, done in steps between other work.
#[derive(Debug)]
pub(crate) enum Sweep {
    /// Everything at and below these entries has another path, or another desired replication. If the last is a folder,
    /// its entries up to that name have been processed.
    Moved(Vec<(FileId, Option<Box<str>>)>),
    /// Something changed for all replicas of a node; those before this slot have been processed.
    Node(NodeKey, Slot),
    /// Something changed for all files; those before this slot have been processed.
    All(Slot),
    /// There may be room now for blocked copies.
    Blocked {
        /// Those up to this slice have been processed.
        after: Option<SliceId>,
        /// Also those for which there were too few nodes.
        all: bool,
    },
    /// Expired files, and entries that were in the trash for long enough, are removed; this many at most.
    Expire(usize),
}

/// Old contents that wait until their successor stands at its path at some node. Until then, a master that lost
/// everything would find the old one there.
#[derive(Debug, Default)]
pub(crate) struct Superseded {
    by: BTreeMap<SliceId, SliceId>,
    waiting: BTreeMap<SliceId, Vec<SliceId>>,
}

impl Superseded {
    /// Makes `old`, and everything that waited for it, wait for `new`.
    pub(crate) fn add(&mut self, old: SliceId, new: SliceId) {
        let mut waiting = self.waiting.remove(&old).unwrap_or_default();
        waiting.push(old);
        for slice in &waiting {
            self.by.insert(*slice, new);
        }
        self.waiting.entry(new).or_default().extend(waiting);
    }

    pub(crate) fn waits(&self, old: SliceId) -> bool {
        self.by.contains_key(&old)
    }

    /// Slices that need not wait for `new` any longer.
    pub(crate) fn release(&mut self, new: SliceId) -> Vec<SliceId> {
        let released = self.waiting.remove(&new).unwrap_or_default();
        for slice in &released {
            self.by.remove(slice);
        }
        released
    }
}
