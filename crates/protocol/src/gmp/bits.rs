//! A sliding bitmap, used for every datagram. It marks which of the next sequence numbers have come (acknowledgement),
//! and which of the last packet numbers have (replay filter). It never allocates.

/// `64 * WORDS` bits; bit 0 is the window's lower end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits<const WORDS: usize> {
    words: [u64; WORDS],
}

impl<const WORDS: usize> Bits<WORDS> {
    pub(super) const WIDTH: u64 = 64 * WORDS as u64;

    pub(super) const fn new() -> Self {
        Self { words: [0; WORDS] }
    }

    /// Whether bit `at` is set; what lies beyond the window is not.
    pub(super) fn get(&self, at: u64) -> bool {
        at < Self::WIDTH && self.words[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    /// Sets bit `at`, which must lie within the window.
    pub(super) fn set(&mut self, at: u64) {
        debug_assert!(at < Self::WIDTH, "the caller checked the window");
        if at < Self::WIDTH {
            self.words[(at / 64) as usize] |= 1 << (at % 64);
        }
    }

    /// Moves the window up by `by`: the lowest bits fall out.
    pub(super) fn advance(&mut self, by: u64) {
        if by >= Self::WIDTH {
            self.words = [0; WORDS];
            return;
        }
        let (words, bits) = ((by / 64) as usize, by % 64);
        for at in 0..WORDS {
            let low = self.words.get(at + words).copied().unwrap_or(0);
            let high = self.words.get(at + words + 1).copied().unwrap_or(0);
            self.words[at] = if bits == 0 { low } else { low >> bits | high << (64 - bits) };
        }
    }

    /// How many of the lowest bits are set without a gap.
    pub(super) fn run(&self) -> u64 {
        let full = self.words.iter().take_while(|word| **word == u64::MAX).count();
        64 * full as u64 + self.words.get(full).map_or(0, |word| u64::from(word.trailing_ones()))
    }

    /// Whether any bit is set.
    pub(super) fn any(&self) -> bool {
        self.words.iter().any(|word| *word != 0)
    }

    /// The map as bytes, bit `k` at byte `k / 8`, lowest bit first, without trailing zero bytes.
    pub(super) fn bytes(&self) -> impl ExactSizeIterator<Item = u8> {
        let words = self.words;
        let length = words
            .iter()
            .rposition(|word| *word != 0)
            .map_or(0, |at| 8 * at + (64 - words[at].leading_zeros() as usize).div_ceil(8));
        (0..length).map(move |at| words[at / 8].to_le_bytes()[at % 8])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_map_moves_like_a_set_of_numbers() {
        let mut rng = fastrand::Rng::with_seed(7);
        let (mut bits, mut set, mut base) = (Bits::<4>::new(), BTreeSet::new(), 0);
        for _ in 0..2_000 {
            let at = rng.u64(0..256);
            bits.set(at);
            set.insert(base + at);
            let by = if rng.u8(..) < 200 { rng.u64(0..9) } else { rng.u64(0..300) };
            bits.advance(by);
            base += by;
            set.retain(|number| *number >= base);
            assert!((0..300).all(|at| bits.get(at) == (at < 256 && set.contains(&(base + at)))));
            assert_eq!(bits.run(), (0..256).take_while(|at| set.contains(&(base + at))).count() as u64);
            assert_eq!(bits.any(), !set.is_empty());
        }
    }

    #[test]
    fn bytes_end_with_the_last_set_bit() {
        let mut bits = Bits::<4>::new();
        assert_eq!(bits.bytes().len(), 0);
        bits.set(1);
        bits.set(10);
        assert_eq!(bits.bytes().collect::<Vec<_>>(), [2, 4]);
        bits.set(255);
        let bytes: Vec<_> = bits.bytes().collect();
        assert_eq!((bytes.len(), bytes[31]), (32, 0x80));
    }
}
