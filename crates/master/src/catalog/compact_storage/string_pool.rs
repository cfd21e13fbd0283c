//! Short texts without an allocation each. Texts of about the same length share pieces of memory, cut into places of
//! that length. A removed text's place is reused. Serves the names of files. It never compares texts or looks one up.

use super::slab::Slot;

/// All texts.
#[derive(Debug)]
pub(crate) struct StringPool {
    /// Places of 4, 8, 12, … bytes.
    classes: Vec<Class>,
}

/// Identifies a text; of no use except to the [`StringPool`] that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PooledString {
    pub(crate) place: Slot,
    pub(crate) bytes: u8,
}

#[derive(Debug)]
struct Class {
    pieces: Vec<Box<[u8]>>,
    place_bytes: usize,
    /// The first free place below `end`, or [`NONE`]; a free place holds the next one's number.
    vacant: Slot,
    end: Slot,
}

impl StringPool {
    pub(crate) fn new() -> Self {
        let class = |index| Class { pieces: Vec::new(), place_bytes: WORD_BYTES * (index + 1), vacant: NONE, end: 0 };
        Self { classes: (0..CLASSES).map(class).collect() }
    }

    /// Stores a text. A text longer than [`TEXT_BYTES_MAX`] is cut there, but every caller has ruled that out.
    pub(crate) fn insert(&mut self, text: &str) -> PooledString {
        debug_assert!(text.len() <= TEXT_BYTES_MAX, "the caller checked the length");
        let text = &text.as_bytes()[..text.len().min(TEXT_BYTES_MAX)];
        // At most TEXT_BYTES_MAX.
        let bytes = text.len() as u8;
        let place = match class_of(bytes) {
            Some(class) => self.classes[class].insert(text),
            None => NONE,
        };
        PooledString { place, bytes }
    }

    /// The text's bytes; their order is the order of the texts.
    pub(crate) fn bytes(&self, text: PooledString) -> &[u8] {
        match class_of(text.bytes) {
            Some(class) => &self.classes[class].place(text.place)[..usize::from(text.bytes)],
            None => &[],
        }
    }

    /// The text.
    pub(crate) fn get(&self, text: PooledString) -> &str {
        // It was a `str` when it was stored.
        std::str::from_utf8(self.bytes(text)).unwrap_or_default()
    }

    /// Forgets a text.
    pub(crate) fn remove(&mut self, text: PooledString) {
        if let Some(class) = class_of(text.bytes) {
            self.classes[class].remove(text.place);
        }
    }

    /// Memory taken, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_class = |class: &Class| {
            class.pieces.len() * class.place_bytes * PIECE_PLACES + class.pieces.capacity() * size_of::<Box<[u8]>>()
        };
        self.classes.iter().map(of_class).sum::<usize>() + CLASSES * size_of::<Class>()
    }
}

impl Class {
    fn insert(&mut self, text: &[u8]) -> Slot {
        let place = if self.vacant == NONE {
            let place = self.end;
            assert!(place < NONE, "4 billion texts");
            self.end += 1;
            if place as usize / PIECE_PLACES == self.pieces.len() {
                self.pieces.push(vec![0; self.place_bytes * PIECE_PLACES].into_boxed_slice());
            }
            place
        } else {
            let place = self.vacant;
            let next = self.place(place).first_chunk::<WORD_BYTES>().copied().unwrap_or([0xff; WORD_BYTES]);
            self.vacant = Slot::from_ne_bytes(next);
            place
        };
        self.place_mut(place)[..text.len()].copy_from_slice(text);
        place
    }

    fn remove(&mut self, place: Slot) {
        let next = self.vacant.to_ne_bytes();
        self.place_mut(place)[..WORD_BYTES].copy_from_slice(&next);
        self.vacant = place;
    }

    fn place(&self, place: Slot) -> &[u8] {
        let at = place as usize % PIECE_PLACES * self.place_bytes;
        &self.pieces[place as usize / PIECE_PLACES][at..at + self.place_bytes]
    }

    fn place_mut(&mut self, place: Slot) -> &mut [u8] {
        let at = place as usize % PIECE_PLACES * self.place_bytes;
        &mut self.pieces[place as usize / PIECE_PLACES][at..at + self.place_bytes]
    }
}

/// The class of a length; `None` for the empty text, which needs no place.
fn class_of(bytes: u8) -> Option<usize> {
    usize::from(bytes).checked_sub(1).map(|bytes| bytes / WORD_BYTES)
}

/// Longest text in bytes: a component of a path.
pub(crate) const TEXT_BYTES_MAX: usize = protocol::limits::COMPONENT_BYTES_MAX;
/// Lengths of places are multiples of this: the least that a free place needs to hold the number of the next.
const WORD_BYTES: usize = size_of::<Slot>();
const CLASSES: usize = TEXT_BYTES_MAX.div_ceil(WORD_BYTES);
/// Places in one piece of memory: 4 to 240 KB.
const PIECE_PLACES: usize = 1_024;
const NONE: Slot = Slot::MAX;
const _: () = assert!(TEXT_BYTES_MAX <= u8::MAX as usize, "a text's length is kept in a byte");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_stay_what_they_were_while_others_come_and_go() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut texts = StringPool::new();
        let mut kept: Vec<(PooledString, String)> = Vec::new();
        for round in 0..20_000 {
            if rng.u8(..) < 140 || kept.is_empty() {
                let text: String = (0..rng.usize(..=TEXT_BYTES_MAX)).map(|_| rng.alphanumeric()).collect();
                kept.push((texts.insert(&text), text));
            } else {
                let (text, _) = kept.swap_remove(rng.usize(..kept.len()));
                texts.remove(text);
            }
            if round % 1_000 == 0 {
                assert!(kept.iter().all(|(text, expected)| texts.get(*text) == expected));
            }
        }
        assert!(kept.iter().all(|(text, expected)| texts.get(*text) == expected));
    }

    #[test]
    fn what_went_makes_room_for_what_comes() {
        let mut texts = StringPool::new();
        let all: Vec<_> = (0..5_000).map(|number| texts.insert(&format!("name-{number:04}"))).collect();
        let before = texts.memory_bytes();
        all.into_iter().for_each(|text| texts.remove(text));
        for number in 0..5_000 {
            texts.insert(&format!("again{number:04}"));
        }
        assert_eq!(texts.memory_bytes(), before);
    }
}
