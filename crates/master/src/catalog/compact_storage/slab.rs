//! Values of one size, each at a fixed slot. Memory comes in pieces of [`PIECE_SLOTS`], and a freed slot is reused.
//! Serves the records of names and replicas. Growing never moves a value.

/// Where a value is.
pub(crate) type Slot = u32;

/// A value that can also mark its slot as free, so that the list of free slots needs no memory of its own.
pub(crate) trait SlotValue: Copy {
    /// The value of a free slot, which stores `next`.
    fn vacant(next: Slot) -> Self;
    /// For a free slot: the argument given to [`vacant`](Self::vacant).
    fn next_vacant(&self) -> Option<Slot>;
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    pieces: Vec<Box<[T]>>,
    /// The first free slot below `end`, or [`NONE`].
    vacant: Slot,
    /// No slot from here on was ever used.
    end: Slot,
    count: usize,
}

impl<T: SlotValue> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { pieces: Vec::new(), vacant: NONE, end: 0, count: 0 }
    }

    /// Puts a value into a free slot.
    ///
    /// # Panics
    /// Beyond 4 billion values, which no memory holds.
    pub(crate) fn insert(&mut self, value: T) -> Slot {
        self.count += 1;
        if self.vacant != NONE {
            let slot = self.vacant;
            let next = std::mem::replace(self.place(slot), value).next_vacant();
            self.vacant = next.unwrap_or(NONE);
            return slot;
        }
        let slot = self.end;
        assert!(slot < NONE, "4 billion slots");
        self.end += 1;
        if slot as usize / PIECE_SLOTS == self.pieces.len() {
            self.pieces.push(vec![T::vacant(NONE); PIECE_SLOTS].into_boxed_slice());
        }
        *self.place(slot) = value;
        slot
    }

    /// Frees a slot and returns its value.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let value = *self.get(slot)?;
        *self.place(slot) = T::vacant(self.vacant);
        self.vacant = slot;
        self.count -= 1;
        Some(value)
    }

    /// The value at a slot; `None` for a free one.
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let value = self.pieces.get(slot as usize / PIECE_SLOTS)?.get(slot as usize % PIECE_SLOTS)?;
        value.next_vacant().is_none().then_some(value)
    }

    /// As [`get`](Self::get), to change it.
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let value = self.pieces.get_mut(slot as usize / PIECE_SLOTS)?.get_mut(slot as usize % PIECE_SLOTS)?;
        value.next_vacant().is_none().then_some(value)
    }

    /// Values kept.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The slot after the last that was ever used: the end of a walk over all slots.
    pub(crate) fn end(&self) -> Slot {
        self.end
    }

    /// The slots in use from `from` on.
    #[cfg(test)]
    pub(crate) fn slots(&self, from: Slot) -> impl Iterator<Item = Slot> + '_ {
        (from..self.end).filter(|slot| self.get(*slot).is_some())
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.len() * PIECE_SLOTS * size_of::<T>() + self.pieces.capacity() * size_of::<Box<[T]>>()
    }

    fn place(&mut self, slot: Slot) -> &mut T {
        &mut self.pieces[slot as usize / PIECE_SLOTS][slot as usize % PIECE_SLOTS]
    }
}

/// Slots in one piece of memory: about 90 KB of names, so that an empty cloud is small too.
const PIECE_SLOTS: usize = 1_024;
/// No slot.
const NONE: Slot = Slot::MAX;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Value {
        Number(u64),
        Vacant(Slot),
    }

    impl SlotValue for Value {
        fn vacant(next: Slot) -> Self {
            Self::Vacant(next)
        }

        fn next_vacant(&self) -> Option<Slot> {
            match self {
                Self::Number(_) => None,
                Self::Vacant(next) => Some(*next),
            }
        }
    }

    #[test]
    fn a_slab_agrees_with_a_map_and_gives_free_slots_again() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut slab, mut map) = (Slab::new(), BTreeMap::new());
        for number in 0..20_000u64 {
            if rng.u8(..) < 140 || map.is_empty() {
                let slot = slab.insert(Value::Number(number));
                assert_eq!(map.insert(slot, number), None, "a slot in use was given");
            } else {
                let slot = *map.keys().nth(rng.usize(..map.len())).unwrap();
                assert_eq!(slab.remove(slot).map(|_| ()), map.remove(&slot).map(|_| ()));
                assert_eq!(slab.get(slot), None);
            }
        }
        assert_eq!(slab.slots(0).collect::<Vec<_>>(), map.keys().copied().collect::<Vec<_>>());
        assert!(map.iter().all(|(slot, number)| slab.get(*slot) == Some(&Value::Number(*number))));
        assert_eq!(slab.len(), map.len());
        assert!(slab.end() as usize <= map.len() + 4_000, "free slots were not given again");
        assert_eq!(slab.get(slab.end()), None);
    }
}
