//! Numbers from 0 for keys, in the order in which they come. There is a table for small keys, and a hash table for
//! others. It serves `malstone`, which looks keys up often. It never gives a key another number.

/// Keys and their numbers.
pub(crate) struct Ids {
    /// Keys with their numbers; [`FREE`] where there is none. Open addressing, at most half full.
    slots: Vec<(u64, u32)>,
    shift: u32,
    /// For small keys their number, or [`FREE`].
    small: Vec<u32>,
    keys: Vec<u64>,
}

impl Ids {
    /// No keys.
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![(0, FREE); 1 << FIRST_BITS],
            shift: u64::BITS - FIRST_BITS,
            small: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Forgets all keys, for others.
    pub(crate) fn clear(&mut self) {
        self.slots.fill((0, FREE));
        self.keys.clear();
    }

    /// The number of a key of which small ones are usual. It is not for keys that [`clear`](Self::clear) takes away.
    #[inline]
    pub(crate) fn number_of_small(&mut self, key: u64) -> u32 {
        match self.small.get(key as usize) {
            Some(number) if *number != FREE && key < SMALL_END => *number,
            _ => self.insert_small(key),
        }
    }

    #[cold]
    fn insert_small(&mut self, key: u64) -> u32 {
        if key >= SMALL_END {
            return self.number(key);
        }
        if key as usize >= self.small.len() {
            self.small.resize((key as usize + 1).next_power_of_two(), FREE);
        }
        let number = self.keys.len() as u32;
        self.keys.push(key);
        self.small[key as usize] = number;
        number
    }

    /// The number of a key, which may be new. There are fewer than 2³² keys, since a segment has fewer records.
    #[inline]
    pub(crate) fn number(&mut self, key: u64) -> u32 {
        let mut at = self.place(key);
        loop {
            let (found, number) = self.slots[at];
            if number == FREE {
                return self.insert(key, at);
            }
            if found == key {
                return number;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The keys, by number.
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The numbers in the order of their keys.
    pub(crate) fn sorted(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..self.keys.len() as u32).collect();
        numbers.sort_unstable_by_key(|number| self.keys[*number as usize]);
        numbers
    }

    fn place(&self, key: u64) -> usize {
        (key.wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    #[cold]
    fn insert(&mut self, key: u64, at: usize) -> u32 {
        let number = self.keys.len() as u32;
        self.keys.push(key);
        self.slots[at] = (key, number);
        if self.keys.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let length = self.slots.len() * 4;
        self.slots.clear();
        self.slots.resize(length, (0, FREE));
        self.shift -= 2;
        let in_table = |key: &u64| (*key as usize) < self.small.len() && *key < SMALL_END;
        for (number, key) in (0..).zip(&self.keys).filter(|(_, key)| !in_table(key)) {
            let mut at = (key.wrapping_mul(MULTIPLIER) >> self.shift) as usize;
            while self.slots[at].1 != FREE {
                at = (at + 1) & (length - 1);
            }
            self.slots[at] = (*key, number);
        }
    }
}

/// The number of a slot without a key.
const FREE: u32 = u32::MAX;
/// Keys below this are small: the table has at most 4 MiB.
const SMALL_END: u64 = 1 << 20;
/// Slots at first, as a power of two.
const FIRST_BITS: u32 = 12;
/// An odd number without pattern.
const MULTIPLIER: u64 = 0xd6e8_feb8_6659_fd93;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_keeps_its_number_however_many_there_are() {
        let (mut ids, mut mixed) = (Ids::new(), Ids::new());
        let keys: Vec<u64> = (0..50_000).map(|key: u64| key.wrapping_mul(key) << (key % 30)).collect();
        let numbers: Vec<u32> = keys.iter().map(|key| ids.number(*key)).collect();
        assert!(keys.iter().zip(&numbers).all(|(key, number)| ids.number(*key) == *number));
        assert!(keys.iter().zip(&numbers).all(|(key, number)| ids.keys()[*number as usize] == *key));
        let also: Vec<u32> = keys.iter().map(|key| mixed.number_of_small(*key)).collect();
        assert!(also == numbers && keys.iter().zip(&also).all(|(key, number)| mixed.number_of_small(*key) == *number));
        assert!(mixed.keys() == ids.keys());
        let sorted: Vec<u64> = ids.sorted().iter().map(|number| ids.keys()[*number as usize]).collect();
        let mut expected = keys.clone();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(sorted, expected);
        ids.clear();
        assert_eq!((ids.number(keys[9]), ids.number(3), ids.keys()), (0, 1, &[keys[9], 3][..]));
    }
}
