//! The entries of one folder in the order of their names: slots in chunks of at most [`CHUNK_SLOTS`]. Adding to a
//! folder of a million entries moves a few hundred numbers, not a million. Finding the place after a name takes some
//! twenty comparisons. It never holds a name: each call is told how to find names in the items.

use crate::catalog::compact_storage::Slot;

/// See the module. No chunk is empty.
#[derive(Debug, Default)]
pub(super) struct Children {
    chunks: Vec<Vec<Slot>>,
}

/// A place between two entries: chunk, and place in it. Valid until the folder changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    chunk: usize,
    at: usize,
}

impl Children {
    /// Entries that are sorted already, as they are when a journal is loaded.
    pub(super) fn from_sorted(slots: &[Slot]) -> Self {
        Self { chunks: slots.chunks(CHUNK_SLOTS).map(<[Slot]>::to_vec).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The entry of this name.
    pub(super) fn find<'a>(&self, name: &[u8], name_of: impl Fn(Slot) -> &'a [u8]) -> Option<Slot> {
        let (cursor, is_there) = self.search(name, name_of);
        if is_there { self.at(cursor) } else { None }
    }

    /// Adds an entry; one of the same name must not be there.
    pub(super) fn insert<'a>(&mut self, slot: Slot, name: &[u8], name_of: impl Fn(Slot) -> &'a [u8]) {
        let (Cursor { mut chunk, mut at }, _) = self.search(name, name_of);
        // After the last of all: names often come in order, and then chunks stay full.
        if chunk == self.chunks.len() {
            match self.chunks.last_mut().filter(|last| last.len() < CHUNK_SLOTS) {
                Some(last) => last.push(slot),
                None => self.chunks.push(vec![slot]),
            }
            return;
        }
        if self.chunks[chunk].len() == CHUNK_SLOTS {
            let upper = self.chunks[chunk].split_off(CHUNK_SLOTS / 2);
            self.chunks.insert(chunk + 1, upper);
            if at > CHUNK_SLOTS / 2 {
                (chunk, at) = (chunk + 1, at - CHUNK_SLOTS / 2);
            }
        }
        self.chunks[chunk].insert(at, slot);
    }

    /// Takes an entry out.
    pub(super) fn remove<'a>(&mut self, name: &[u8], name_of: impl Fn(Slot) -> &'a [u8]) -> Option<Slot> {
        let (Cursor { chunk, at }, is_there) = self.search(name, name_of);
        if !is_there {
            return None;
        }
        let slot = self.chunks[chunk].remove(at);
        if self.chunks[chunk].is_empty() {
            self.chunks.remove(chunk);
        } else if self.chunks[chunk].len() < CHUNK_SLOTS / 8 {
            self.join_with_next(chunk);
        }
        Some(slot)
    }

    /// Where a walk continues after this name, whether or not it exists; without a name, at the first.
    pub(super) fn after<'a>(&self, name: Option<&[u8]>, name_of: impl Fn(Slot) -> &'a [u8]) -> Cursor {
        let Some(name) = name else { return Cursor::default() };
        let (cursor, is_there) = self.search(name, name_of);
        if is_there { self.next(cursor) } else { cursor }
    }

    /// The entry at a place.
    pub(super) fn at(&self, cursor: Cursor) -> Option<Slot> {
        self.chunks.get(cursor.chunk)?.get(cursor.at).copied()
    }

    /// The place after the next entry.
    pub(super) fn next(&self, cursor: Cursor) -> Cursor {
        match self.chunks.get(cursor.chunk) {
            Some(chunk) if cursor.at + 1 < chunk.len() => Cursor { at: cursor.at + 1, ..cursor },
            _ => Cursor { chunk: cursor.chunk + 1, at: 0 },
        }
    }

    /// All entries by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.chunks.iter().flatten().copied()
    }

    /// The last entry.
    pub(super) fn last(&self) -> Option<Slot> {
        self.chunks.last().and_then(|chunk| chunk.last()).copied()
    }

    /// Memory taken, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Slot>()).sum();
        chunks + self.chunks.capacity() * size_of::<Vec<Slot>>()
    }

    /// The place of a name, and whether it is there.
    fn search<'a>(&self, name: &[u8], name_of: impl Fn(Slot) -> &'a [u8]) -> (Cursor, bool) {
        let ends_before = |chunk: &Vec<Slot>| chunk.last().is_none_or(|last| name_of(*last) < name);
        let chunk = self.chunks.partition_point(ends_before);
        let Some(slots) = self.chunks.get(chunk) else { return (Cursor { chunk, at: 0 }, false) };
        match slots.binary_search_by(|slot| name_of(*slot).cmp(name)) {
            Ok(at) => (Cursor { chunk, at }, true),
            Err(at) => (Cursor { chunk, at }, false),
        }
    }

    /// Merges shrunken chunks, so that they do not take more memory than their entries.
    fn join_with_next(&mut self, chunk: usize) {
        let fits = self.chunks.get(chunk + 1).is_some_and(|next| next.len() < CHUNK_SLOTS / 2);
        if fits {
            let next = self.chunks.remove(chunk + 1);
            self.chunks[chunk].extend(next);
        }
        self.chunks[chunk].shrink_to(CHUNK_SLOTS / 4);
    }
}

/// Entries of a chunk: 2 KB, so that adding one moves 1 KB on average and a split happens every 256th time.
const CHUNK_SLOTS: usize = 512;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{:x}", number * 7_919 % 100_003)).collect()
    }

    #[test]
    fn a_folder_agrees_with_a_sorted_map_through_growing_and_shrinking() {
        let (all, mut rng) = (names(20_000), fastrand::Rng::with_seed(5));
        let name_of = |slot: Slot| all[slot as usize].as_bytes();
        let (mut children, mut map) = (Children::default(), BTreeMap::new());
        for round in 0..60_000 {
            let slot = rng.usize(..all.len()) as Slot;
            let grows = if round < 30_000 { 200 } else { 40 };
            if rng.u8(..) < grows {
                if map.insert(all[slot as usize].clone(), slot).is_none() {
                    children.insert(slot, name_of(slot), name_of);
                }
            } else {
                assert_eq!(children.remove(name_of(slot), name_of), map.remove(&all[slot as usize]));
            }
            if round % 5_000 == 0 {
                assert_eq!(children.iter().collect::<Vec<_>>(), map.values().copied().collect::<Vec<_>>());
            }
        }
        for (name, slot) in &map {
            assert_eq!(children.find(name.as_bytes(), name_of), Some(*slot));
        }
        for name in all.iter().step_by(100) {
            let rest = children.after(Some(name.as_bytes()), name_of);
            let expected = map.range::<String, _>((std::ops::Bound::Excluded(name), std::ops::Bound::Unbounded));
            assert_eq!(children.at(rest), expected.map(|(_, slot)| *slot).next());
        }
        for slot in map.values() {
            assert_eq!(children.remove(name_of(*slot), name_of), Some(*slot));
        }
        assert!(children.is_empty() && children.last().is_none());
    }

    #[test]
    fn a_folder_takes_few_bytes_an_entry_however_it_was_filled() {
        let all: Vec<_> = (0..50_000).map(|number| format!("{number:08}")).collect();
        let name_of = |slot: Slot| all[slot as usize].as_bytes();
        let mut order: Vec<Slot> = (0..all.len() as Slot).collect();
        let mut in_order = Children::default();
        order.iter().for_each(|slot| in_order.insert(*slot, name_of(*slot), name_of));
        assert!(in_order.bytes() < 45 * all.len() / 10, "{}", in_order.bytes());
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        let mut at_random = Children::default();
        order.iter().for_each(|slot| at_random.insert(*slot, name_of(*slot), name_of));
        assert!(at_random.bytes() < 7 * all.len(), "{}", at_random.bytes());
        // Most are removed; the few that stay do not hold the memory of the rest.
        for slot in order.iter().filter(|slot| *slot % 50 != 0) {
            at_random.remove(name_of(*slot), name_of).unwrap();
        }
        assert!(at_random.bytes() < 60 * all.len() / 50, "{}", at_random.bytes());
    }
}
