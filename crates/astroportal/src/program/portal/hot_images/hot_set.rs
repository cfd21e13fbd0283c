//! Which images have a copy here for a while, and which one is brought next. An image is brought once as much of it was
//! moved as it has. As long as there is room, that never moves more than twice of what the best choice would. What goes is
//! what brings least for its room (GreedyDual-Size; Cao and Irani 1997). It knows no file and no network. What is kept and
//! what is coming never take more than its room.

use std::collections::HashMap;

/// What identifies the content of an image.
pub(super) type Digest = String;

/// The images that are kept, and the demand for others.
#[derive(Debug)]
pub(super) struct HotSet {
    room_bytes: u64,
    kept_bytes: u64,
    kept: HashMap<Digest, Kept>,
    /// Bytes that were moved of images that are not kept.
    moved: HashMap<Digest, u64>,
    /// Images that are brought, and their bytes: their room is taken already.
    coming: HashMap<Digest, u64>,
    /// The value of what went last: whoever comes or is used counts from there, so what is unused grows old.
    floor: f64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    bytes: u64,
    value: f64,
}

impl HotSet {
    /// Nothing is kept, in so much room.
    pub(super) fn new(room_bytes: u64) -> Self {
        Self {
            room_bytes,
            kept_bytes: 0,
            kept: HashMap::new(),
            moved: HashMap::new(),
            coming: HashMap::new(),
            floor: 0.0,
        }
    }

    /// Images that are kept, and their bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        (self.kept.len(), self.kept_bytes)
    }

    /// Bytes that all images may take.
    pub(super) fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// Whether the image is kept. It has been used, then.
    pub(super) fn is_used_here(&mut self, digest: &str) -> bool {
        let floor = self.floor;
        let Some(kept) = self.kept.get_mut(digest) else { return false };
        kept.value = floor + worth(kept.bytes);
        true
    }

    /// So many bytes of an image were moved here. If it is to be brought as a whole now, room is taken for it, and the
    /// images are returned that go for it. It is coming, then, until [`keep`](Self::keep) or [`give_up`](Self::give_up).
    pub(super) fn want(&mut self, digest: &str, image_bytes: u64, moved_bytes: u64) -> Option<Vec<Digest>> {
        let is_known = self.kept.contains_key(digest) || self.coming.contains_key(digest);
        if is_known || image_bytes > self.room_bytes / SHARE_MAX {
            return None;
        }
        let moved = self.moved.entry(digest.to_owned()).or_default();
        *moved = moved.saturating_add(moved_bytes).saturating_add(ROUND_TRIP_BYTES);
        let is_due = *moved >= image_bytes;
        if !is_due || self.coming.len() >= COMING_MAX {
            self.forget_some();
            return None;
        }
        let gone = self.make_room(image_bytes)?;
        self.moved.remove(digest);
        self.coming.insert(digest.to_owned(), image_bytes);
        Some(gone)
    }

    /// An image has come, or lies here from before. Returns those that go for it; `None` if it finds no room beside what
    /// is coming.
    pub(super) fn keep(&mut self, digest: &str, bytes: u64) -> Option<Vec<Digest>> {
        self.give_up(digest);
        self.forget(digest);
        let gone = self.make_room(bytes)?;
        self.kept.insert(digest.to_owned(), Kept { bytes, value: self.floor + worth(bytes) });
        self.kept_bytes += bytes;
        Some(gone)
    }

    /// Lets images go until there is room for so many bytes.
    fn make_room(&mut self, bytes: u64) -> Option<Vec<Digest>> {
        let room = self.room_bytes.checked_sub(self.coming.values().sum())?.checked_sub(bytes)?;
        let mut gone = Vec::new();
        while self.kept_bytes > room {
            let least = self.kept.iter().min_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
            let Some((least, Kept { value, .. })) = least.map(|(digest, kept)| (digest.clone(), *kept)) else { break };
            self.floor = value;
            self.forget(&least);
            gone.push(least);
        }
        Some(gone)
    }

    /// An image did not come.
    pub(super) fn give_up(&mut self, digest: &str) {
        self.coming.remove(digest);
    }

    /// An image is not kept any more.
    pub(super) fn forget(&mut self, digest: &str) {
        if let Some(gone) = self.kept.remove(digest) {
            self.kept_bytes -= gone.bytes;
        }
    }

    /// Demand grows old by halves, and where there is hardly any it is forgotten.
    fn forget_some(&mut self) {
        if self.moved.len() > DEMANDS_MAX {
            self.moved.values_mut().for_each(|moved| *moved /= 2);
            let mut left: Vec<u64> = self.moved.values().copied().collect();
            let (_, median, _) = left.select_nth_unstable(DEMANDS_MAX / 2);
            let median = *median;
            self.moved.retain(|_, moved| *moved > median);
        }
    }
}

/// What an image spares for each byte of its room: the bytes, and the round trip to another site.
fn worth(bytes: u64) -> f64 {
    (bytes as f64 + ROUND_TRIP_BYTES as f64) / bytes.max(1) as f64
}

/// What a link could have moved in the time in which a request waits for its answer.
const ROUND_TRIP_BYTES: u64 = 256 << 10;
/// No image takes more than this part of the room.
const SHARE_MAX: u64 = 2;
/// Images that are brought at once: requests have the link too.
const COMING_MAX: usize = 2;
/// Images whose demand is known.
const DEMANDS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn gone(digests: &[&str]) -> Option<Vec<Digest>> {
        Some(digests.iter().map(|digest| (*digest).to_owned()).collect())
    }

    #[test]
    fn an_image_is_brought_once_as_much_was_moved_as_it_has() {
        let mut set = HotSet::new(100 * MIB);
        let asked = |set: &mut HotSet, moved| (1..100).find(|_| set.want("a", 10 * MIB, moved).is_some()).unwrap_or(0);
        // A megabyte each time, and a quarter of one for the round trip.
        assert_eq!(asked(&mut set, MIB), 8);
        // It is coming: nobody else brings it.
        assert_eq!(set.want("a", 10 * MIB, 10 * MIB), None);
        set.give_up("a");
        assert_eq!(asked(&mut set, 0), 40);
        assert_eq!(set.keep("a", 10 * MIB), gone(&[]));
        assert!(set.want("a", 10 * MIB, 10 * MIB).is_none() && set.is_used_here("a") && !set.is_used_here("b"));
        // Half of the room is the most that one image takes.
        assert!(set.want("large", 50 * MIB + 1, u64::MAX).is_none() && set.want("half", 50 * MIB, u64::MAX).is_some());
    }

    #[test]
    fn the_room_is_never_exceeded_and_the_least_used_go_first() {
        let mut set = HotSet::new(30 * MIB);
        for digest in ["a", "b", "c"] {
            assert_eq!(set.keep(digest, 10 * MIB), gone(&[]));
        }
        assert_eq!(set.size(), (3, 30 * MIB));
        // One goes, and what is used from now on counts from its value.
        let first = set.keep("d", 10 * MIB).unwrap_or_default();
        assert_eq!(first.len(), 1);
        let left: Vec<_> = ["a", "b", "c"].into_iter().filter(|digest| **digest != first[0]).collect();
        assert!(set.is_used_here(left[0]));
        assert_eq!(set.keep("e", 10 * MIB), gone(&[left[1]]));
        assert_eq!(set.size(), (3, 30 * MIB));
        // Of a large and a small one of the same age, the large one goes.
        let mut set = HotSet::new(30 * MIB);
        set.keep("small", MIB);
        set.keep("large", 20 * MIB);
        assert_eq!(set.keep("more", 15 * MIB), gone(&["large"]));
        // The same one again takes no further room.
        set.keep("more", 15 * MIB);
        assert_eq!(set.size(), (2, 16 * MIB));
        set.forget("more");
        set.forget("more");
        assert_eq!(set.size(), (1, MIB));
    }

    #[test]
    fn what_is_coming_takes_room_and_few_come_at_once() {
        let mut set = HotSet::new(30 * MIB);
        set.keep("kept", 20 * MIB);
        // What goes for an image goes before it comes.
        assert_eq!(set.want("a", 15 * MIB, 15 * MIB), gone(&["kept"]));
        assert_eq!(set.want("b", 15 * MIB, 15 * MIB), gone(&[]));
        assert_eq!((set.want("c", MIB, MIB), set.keep("found", 1)), (None, None));
        set.give_up("a");
        // It was asked for enough already.
        assert_eq!(set.want("c", MIB, 0), gone(&[]));
        assert_eq!((set.keep("b", 15 * MIB), set.size()), (gone(&[]), (1, 15 * MIB)));
        assert_eq!((set.keep("found", 14 * MIB), set.size()), (gone(&[]), (2, 29 * MIB)));
    }

    #[test]
    fn demand_for_millions_of_images_is_bounded_and_the_asked_for_are_remembered() {
        let mut set = HotSet::new(100 * MIB);
        assert_eq!(set.want("often", 20 * MIB, 15 * MIB), None);
        for number in 0..2 * DEMANDS_MAX {
            assert_eq!(set.want(&number.to_string(), 20 * MIB, 1), None);
            assert!(set.moved.len() <= DEMANDS_MAX + 1);
        }
        assert!(set.want("often", 20 * MIB, 17 * MIB).is_some());
    }
}
