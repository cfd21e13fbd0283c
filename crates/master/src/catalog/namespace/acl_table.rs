//! The lists of rights that entries have of their own. Few have one, and most of those the same one. So each list is kept
//! once, and an entry without one costs nothing. It never decides who may do what.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use protocol::Acl;

use crate::catalog::compact_storage::Slot;

/// The lists of those entries that have one.
#[derive(Debug, Default)]
pub(super) struct Acls {
    own: BTreeMap<Slot, Arc<Acl>>,
    known: BTreeSet<Arc<Acl>>,
}

impl Acls {
    pub(super) fn get(&self, slot: Slot) -> Option<&Acl> {
        self.own.get(&slot).map(|acl| &**acl)
    }

    pub(super) fn set(&mut self, slot: Slot, acl: Acl) {
        self.remove(slot);
        let shared = self.known.get(&acl).cloned().unwrap_or_else(|| Arc::new(acl));
        self.known.insert(Arc::clone(&shared));
        self.own.insert(slot, shared);
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(acl) = self.own.remove(&slot) else { return };
        // One reference is this one and one is in `known`: no other entry has this list.
        if Arc::strong_count(&acl) == 2 {
            self.known.remove(&acl);
        }
    }

    /// Whether no entry has a list.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.own.keys().copied()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lists: usize = self.known.iter().map(|acl| 32 + acl.entries().len() * ENTRY_BYTES).sum();
        lists + self.own.len() * size_of::<(Slot, Arc<Acl>)>()
    }
}

/// About the size of an entry of a list, in bytes, with its name.
const ENTRY_BYTES: usize = 64;
