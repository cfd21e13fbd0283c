//! A set of words, each numbered in the order of arrival. Serves `words` and `index`. A lookup is a probe of an open
//! table and one comparison; a word never has an allocation of its own.

/// Distinct words.
pub(crate) struct WordSet {
    /// A word's number + 1, or 0 for an empty slot. The length is a power of two, and at most half of the slots are
    /// in use.
    slots: Vec<u32>,
    words: Vec<Word>,
    letters: Vec<u8>,
}

/// A word's hash and where its letters are.
#[derive(Clone, Copy)]
struct Word {
    hash: u64,
    start: usize,
    length: usize,
}

/// There are more words than numbers for them.
#[derive(Debug)]
pub(crate) struct TooManyWords;

impl WordSet {
    /// An empty set.
    pub(crate) fn new() -> Self {
        Self { slots: vec![0; 1024], words: Vec::new(), letters: Vec::new() }
    }

    /// The number of a word, old or new. `hash` must be the same for the same word.
    pub(crate) fn insert(&mut self, hash: u64, word: &[u8]) -> Result<u32, TooManyWords> {
        let mask = self.slots.len() - 1;
        // FNV's upper bits are the better mixed ones.
        let mut slot = (hash ^ (hash >> 32)) as usize & mask;
        while let Some(number) = self.slots[slot].checked_sub(1) {
            let known = self.words[number as usize];
            if known.hash == hash && self.letters_of(known) == word {
                return Ok(number);
            }
            slot = (slot + 1) & mask;
        }
        let number = u32::try_from(self.words.len()).ok().filter(|number| *number < u32::MAX).ok_or(TooManyWords)?;
        self.slots[slot] = number + 1;
        self.words.push(Word { hash, start: self.letters.len(), length: word.len() });
        self.letters.extend_from_slice(word);
        if self.words.len() * 2 > self.slots.len() {
            self.grow();
        }
        Ok(number)
    }

    /// The words in the order of their numbers, with their hashes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.words.iter().map(|word| (word.hash, self.letters_of(*word)))
    }

    /// A word by its number, which must be one that was returned before.
    pub(crate) fn word(&self, number: u32) -> &[u8] {
        self.letters_of(self.words[number as usize])
    }

    /// How many words there are.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    fn letters_of(&self, word: Word) -> &[u8] {
        &self.letters[word.start..word.start + word.length]
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![0; mask + 1];
        for (number, word) in (1..).zip(&self.words) {
            let mut slot = (word.hash ^ (word.hash >> 32)) as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = number;
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_word_keeps_its_number_whatever_comes_after_it_and_whatever_its_hash() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut set = WordSet::new();
        let mut slow: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for _ in 0..6_000 {
            let word = random.u32(..1_500).to_string().into_bytes();
            // A poor hash, so that words collide in their slots and even in their hashes.
            let hash = u64::from(word[0]) << 33 | word.len() as u64;
            let next = slow.len() as u32;
            let expected = *slow.entry(word.clone()).or_insert(next);
            assert_eq!(set.insert(hash, &word).unwrap(), expected);
        }
        assert_eq!(set.len(), slow.len());
        assert!(slow.iter().all(|(word, number)| set.word(*number) == word.as_slice()));
    }

    #[test]
    fn words_come_back_in_the_order_of_their_coming_with_their_hashes() {
        let mut set = WordSet::new();
        for (hash, word) in [(5, &b"cow"[..]), (5, b"bee"), (5, b"cow")] {
            set.insert(hash, word).unwrap();
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [(5, &b"cow"[..]), (5, b"bee")]);
    }
}
