//! From a key to the slot that has it. The key itself is only in the slot: an entry is the slot's number and a byte of
//! the hash. Cut into many tables, each of which grows by itself, so that no one waits while millions of entries move.
//! Serves lookups by file id and by slice. Cannot be walked: the order of a table must never decide anything.

use hashbrown::{HashTable, hash_table::Entry};

use super::slab::Slot;

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    tables: Vec<HashTable<Slot>>,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { tables: (0..TABLES).map(|_| HashTable::new()).collect() }
    }

    /// The slot with this hash that `is_it`.
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let mut is_it = is_it;
        self.tables[table_of(hash)].find(hash, |slot| is_it(*slot)).copied()
    }

    /// Adds a slot; `false` if one that `is_it` was there, which then stays. `hash_of` gives the hash of a slot that
    /// was added before, for when the table grows.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        slot: Slot,
        is_it: impl FnMut(Slot) -> bool,
        hash_of: impl Fn(Slot) -> u64,
    ) -> bool {
        let mut is_it = is_it;
        match self.tables[table_of(hash)].entry(hash, |slot| is_it(*slot), |slot| hash_of(*slot)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(slot);
                true
            }
        }
    }

    /// Takes a slot out; whether it was there.
    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) -> bool {
        match self.tables[table_of(hash)].find_entry(hash, |found| *found == slot) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let own = self.tables.len() * size_of::<HashTable<Slot>>();
        self.tables.iter().map(HashTable::allocation_size).sum::<usize>() + own
    }
}

/// A hash of a number, the same in every run (the end of SplitMix64). Keys are the master's own, not a user's choice.
pub(crate) fn hash_of(key: u64) -> u64 {
    let mut hash = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// The table's number is cut from the middle: the lowest and the highest bits are the table's own.
fn table_of(hash: u64) -> usize {
    (hash >> 40) as usize % TABLES
}

/// Tables of an index. With ten million entries one that grows moves 150,000, which takes some 10 ms.
const TABLES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_finds_its_slot_until_it_is_taken_out() {
        let keys: Vec<u64> = (0..50_000).map(|number| number * 7_919).collect();
        let mut index = Index::new();
        let hash = |slot: Slot| hash_of(keys[slot as usize]);
        for slot in 0..keys.len() as Slot {
            let is_it = |other: Slot| keys[other as usize] == keys[slot as usize];
            assert!(index.insert(hash(slot), slot, is_it, hash));
            assert!(!index.insert(hash(slot), slot, is_it, hash), "it is there already");
        }
        for slot in (0..keys.len() as Slot).step_by(3) {
            assert!(index.remove(hash(slot), slot) && !index.remove(hash(slot), slot));
        }
        for slot in 0..keys.len() as Slot {
            let found = index.find(hash(slot), |other| keys[other as usize] == keys[slot as usize]);
            assert_eq!(found, (slot % 3 != 0).then_some(slot));
        }
    }
}
