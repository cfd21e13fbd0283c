//! The content of a data folder, in memory: complete, synced slices, by id and (the placed ones) by path. The disk is
//! the truth: the inventory is rebuilt from it at every start, and is never stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use protocol::{
    SectorPath, SliceId, SliceMetadata,
    message::node_master::{HeldSlice, HeldState},
};

/// The slices of one data folder.
#[derive(Default)]
pub(crate) struct Inventory {
    slices: BTreeMap<SliceId, Held>,
    placed: BTreeMap<SectorPath, SliceId>,
    used_bytes: u64,
    /// Slices whose files are in `staging/` and not yet synced there: not held, and nobody else may finish them.
    staging: BTreeSet<SliceId>,
    /// Slices whose move to `staging/` could not be synced: the disk failed, and the sync must still be done.
    unsynced: BTreeSet<SliceId>,
}

/// One slice that is held.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) metadata: Arc<SliceMetadata>,
    pub(crate) state: HeldState,
}

impl Inventory {
    pub(crate) fn get(&self, slice: SliceId) -> Option<Held> {
        self.slices.get(&slice).cloned()
    }

    pub(crate) fn contains(&self, slice: SliceId) -> bool {
        self.slices.contains_key(&slice)
    }

    /// The slice that is placed at a path.
    pub(crate) fn placed_at(&self, path: &SectorPath) -> Option<Held> {
        self.get(*self.placed.get(path)?)
    }

    /// Whether any slice is placed below a path.
    pub(crate) fn any_placed_below(&self, path: &SectorPath) -> bool {
        // Paths that sort between the two (`/a-b` is between `/a` and `/a/b`) begin with the path too.
        let from = self.placed.range(path..).take_while(|(placed, _)| placed.as_str().starts_with(path.as_str()));
        from.into_iter().any(|(placed, _)| placed != path && placed.is_within(path))
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(crate) fn len(&self) -> u64 {
        self.slices.len() as u64
    }

    /// Removes and returns all slices.
    pub(crate) fn take_all(&mut self) -> Vec<SliceId> {
        self.placed.clear();
        self.unsynced.clear();
        self.used_bytes = 0;
        std::mem::take(&mut self.slices).into_keys().collect()
    }

    /// The first slice after `after`, by id.
    pub(crate) fn next_after(&self, after: Option<SliceId>) -> Option<SliceId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.slices.range((from, Bound::Unbounded)).next().map(|(slice, _)| *slice)
    }

    pub(crate) fn list(&self) -> Vec<HeldSlice> {
        let held = |held: &Held| HeldSlice { metadata: SliceMetadata::clone(&held.metadata), state: held.state };
        self.slices.values().map(held).collect()
    }

    /// Adds a slice, or changes its state.
    pub(crate) fn set(&mut self, metadata: Arc<SliceMetadata>, state: HeldState) {
        let slice = metadata.header.slice;
        self.remove(slice);
        self.used_bytes += metadata.bytes;
        if state == HeldState::Placed {
            self.placed.insert(metadata.header.path.clone(), slice);
        }
        self.slices.insert(slice, Held { metadata, state });
    }

    pub(crate) fn remove(&mut self, slice: SliceId) -> Option<Held> {
        let held = self.slices.remove(&slice)?;
        self.unsynced.remove(&slice);
        self.used_bytes -= held.metadata.bytes;
        if held.state == HeldState::Placed {
            self.placed.remove(&held.metadata.header.path);
        }
        Some(held)
    }

    /// Whether the slice's files are safe where they are.
    pub(crate) fn is_synced(&self, slice: SliceId) -> bool {
        !self.unsynced.contains(&slice)
    }

    pub(crate) fn set_synced(&mut self, slice: SliceId, synced: bool) {
        if synced {
            self.unsynced.remove(&slice)
        } else {
            self.unsynced.insert(slice)
        };
    }

    /// Claims a slice for a caller that is about to finish it; `false` if another one has it.
    pub(crate) fn begin_staging(&mut self, slice: SliceId) -> bool {
        self.staging.insert(slice)
    }

    pub(crate) fn end_staging(&mut self, slice: SliceId) {
        self.staging.remove(&slice);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use protocol::{Digest, RecordFraming, SliceHeader, UserName, Version};

    use super::*;

    fn metadata(slice: u128, path: &str, bytes: u64) -> Arc<SliceMetadata> {
        let header = SliceHeader {
            slice: SliceId(slice),
            path: SectorPath::parse(path).unwrap(),
            version: Version(1),
            owner: UserName::new("alice").unwrap(),
            modified_unix_millis: 0,
            copies: 1,
            records: RecordFraming::File,
            user: BTreeMap::new(),
            journal: protocol::JournalId(1),
            acl: None,
        };
        Arc::new(SliceMetadata { header, bytes, digest: Digest([0; 32]) })
    }

    #[test]
    fn a_slice_that_moves_is_counted_once_and_found_only_where_it_is() {
        let mut inventory = Inventory::default();
        let placed_at = |inventory: &Inventory, path: &str| {
            inventory.placed_at(&SectorPath::parse(path).unwrap()).map(|held| held.metadata.header.slice)
        };
        inventory.set(metadata(1, "/a", 10), HeldState::Staged);
        assert_eq!(placed_at(&inventory, "/a"), None, "staged for a path is not at it");
        inventory.set(metadata(1, "/a", 10), HeldState::Placed);
        inventory.set(metadata(2, "/b", 5), HeldState::Placed);
        inventory.set(metadata(1, "/b", 10), HeldState::Staged);
        assert_eq!((placed_at(&inventory, "/a"), placed_at(&inventory, "/b")), (None, Some(SliceId(2))));
        inventory.set(metadata(2, "/b", 5), HeldState::Retired);
        inventory.set(metadata(1, "/b", 10), HeldState::Placed);
        // The retired slice no longer has the path, so its removal leaves the other one there.
        inventory.remove(SliceId(2));
        assert_eq!(placed_at(&inventory, "/b"), Some(SliceId(1)));
        assert_eq!((inventory.used_bytes(), inventory.len()), (10, 1));
    }

    #[test]
    fn one_arrival_of_a_slice_at_a_time() {
        let mut inventory = Inventory::default();
        assert!(inventory.begin_staging(SliceId(1)));
        assert!(!inventory.begin_staging(SliceId(1)));
        assert!(!inventory.contains(SliceId(1)), "arriving is not held");
        inventory.end_staging(SliceId(1));
        assert!(inventory.begin_staging(SliceId(1)));
    }

    #[test]
    fn a_sync_that_is_owed_is_forgotten_with_its_slice() {
        let mut inventory = Inventory::default();
        inventory.set(metadata(1, "/a", 1), HeldState::Staged);
        inventory.set_synced(SliceId(1), false);
        assert!(!inventory.is_synced(SliceId(1)));
        inventory.remove(SliceId(1));
        assert!(inventory.is_synced(SliceId(1)));
    }
}
