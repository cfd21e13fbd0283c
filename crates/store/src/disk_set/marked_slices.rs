//! The mark on each disk, in the file `seen`: which master was told everything that lies there. It is the position of
//! the small rows which that master gave afterwards. By it a node knows a disk that came from elsewhere, was away, or
//! is new, and a disk keeps it wherever it goes (`docs/paths/rebuild.md`). It never says what a master concludes from
//! it.

use std::path::Path;

use protocol::{
    JournalId,
    message::{node_master::HeldSlice, rebuild::MirrorPosition},
};

use crate::{Disk, DiskSet, SliceStore, StoreError, disk::read_whole, error::WhileDoing, locking::lock};

/// Slices of disks that were all reported to one master, or to none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedSlices {
    /// The position that this master gave.
    pub mark: Option<MirrorPosition>,
    /// The slices, by id.
    pub slices: Vec<HeldSlice>,
}

impl DiskSet {
    /// As [`held`](Self::held), grouped by the marks of the disks on which they lie.
    pub fn held_by_mark(&self) -> Vec<MarkedSlices> {
        let mut all: Vec<MarkedSlices> = Vec::new();
        for (disk, store) in self.usable() {
            let (seen, slices) = (store.disk_mark(), self.held_on(disk, store));
            match all.iter_mut().find(|other| other.mark == seen) {
                Some(other) => other.slices.extend(slices),
                None => all.push(MarkedSlices { mark: seen, slices }),
            }
        }
        all.iter_mut().for_each(|of| of.slices.sort_by_key(|held| held.metadata.header.slice));
        all
    }

    /// Whether a master with this journal was told of all disks that work. A disk in memory does not count: it begins
    /// empty.
    pub fn is_all_marked(&self, journal: JournalId) -> bool {
        self.persistent().all(|(_, store)| store.disk_mark().is_some_and(|mark| mark.journal == journal))
    }

    /// Records that a master was told everything here, and gave this position. With `anew` every disk is marked,
    /// otherwise only those without a mark of this journal.
    pub fn mark_disks(&self, mark: MirrorPosition, anew: bool) {
        for (_, store) in self.usable() {
            let before = store.disk_mark();
            let is_known = before.is_some_and(|before| before.journal == mark.journal);
            if before == Some(mark) || (is_known && !anew) {
                continue;
            }
            if let Err(error) = store.write_mark(mark) {
                // The disk then counts as new at the next start, which does no harm.
                tracing::warn!(folder = %store.folder().display(), %error, "a disk cannot be marked as known");
            }
        }
    }
}

impl SliceStore {
    /// The position given by the master that was told everything here.
    pub(crate) fn disk_mark(&self) -> Option<MirrorPosition> {
        *lock(&self.disk_mark)
    }

    fn write_mark(&self, mark: MirrorPosition) -> Result<(), StoreError> {
        let file = self.layout.folder.join(DISK_MARK_FILE);
        let written = self.unfinished_named(DISK_MARK_FILE);
        let content = self.disk.create(written.path()).while_doing("create", written.path())?;
        content.write_all_at(encode(&mark).as_bytes(), 0).while_doing("write", written.path())?;
        content.sync_data().while_doing("sync", written.path())?;
        written.rename(&file).while_doing("rename", &file)?;
        self.disk.sync_folder(&self.layout.folder).while_doing("sync", &self.layout.folder)?;
        *lock(&self.disk_mark) = Some(mark);
        Ok(())
    }
}

/// The mark in a data folder. An unreadable mark counts as none, which does no harm.
pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Option<MirrorPosition> {
    let bytes = read_whole(disk, &folder.join(DISK_MARK_FILE), SEEN_BYTES_MAX).ok()?;
    decode(std::str::from_utf8(&bytes).ok()?)
}

fn encode(mark: &MirrorPosition) -> String {
    format!("{} {} {}\n", mark.journal.0, mark.generation, mark.sequence)
}

/// An earlier build wrote only the journal: then the time is unknown, and the mark counts as from the beginning.
fn decode(text: &str) -> Option<MirrorPosition> {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let journal = JournalId(numbers.next()??);
    let (generation, sequence) = match (numbers.next(), numbers.next(), numbers.next()) {
        (None, ..) => (0, 0),
        (Some(generation), Some(sequence), None) => (generation?, sequence?),
        _ => return None,
    };
    Some(MirrorPosition { journal, generation, sequence })
}

/// The file in each data folder that says under which journal a master was told what lies there.
pub const DISK_MARK_FILE: &str = "seen";
/// Three numbers and their separators.
const SEEN_BYTES_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{path::PathBuf, sync::Arc};

    use super::*;
    use crate::{DataFolder, MemoryDisk};

    fn mark(journal: u64, sequence: u64) -> MirrorPosition {
        MirrorPosition { journal: JournalId(journal), generation: 1, sequence }
    }

    fn open(disks: &[&MemoryDisk]) -> Arc<DiskSet> {
        let folder = |(number, disk): (usize, &&MemoryDisk)| DataFolder {
            disk: Arc::new((*disk).clone()),
            folder: PathBuf::from(format!("/disk{number}")),
            known: false,
            memory_bytes: None,
        };
        DiskSet::open(disks.iter().enumerate().map(folder).collect(), 0).unwrap().0
    }

    #[test]
    fn a_disk_says_itself_for_which_journal_it_is_known_whatever_its_neighbours_say() {
        let (one, two) = (MemoryDisk::new(1), MemoryDisk::new(2));
        let set = open(&[&one, &two]);
        assert!(!set.is_all_marked(JournalId(1)), "nobody was told yet");
        set.mark_disks(mark(1, 7), true);
        assert!(set.is_all_marked(JournalId(1)) && !set.is_all_marked(JournalId(2)));
        drop(set);
        let (one, new) = (one.crash(), MemoryDisk::new(3));
        let set = open(&[&one, &new]);
        assert!(!set.is_all_marked(JournalId(1)));
        assert_eq!(set.held_by_mark().iter().map(|of| of.mark).collect::<Vec<_>>(), [Some(mark(1, 7)), None]);
        // Changes of the mirrored rows need no new mark, but a whole copy renews it.
        set.mark_disks(mark(1, 9), false);
        assert_eq!(
            set.held_by_mark().iter().map(|of| of.mark).collect::<Vec<_>>(),
            [Some(mark(1, 7)), Some(mark(1, 9))]
        );
        set.mark_disks(mark(1, 12), true);
        assert_eq!(set.held_by_mark().len(), 1);
        set.mark_disks(mark(2, 1), false);
        assert!(set.is_all_marked(JournalId(2)));
    }

    #[test]
    fn a_mark_that_is_torn_or_cut_off_by_a_power_cut_says_nothing_wrong() {
        for cut in 0..20 {
            let disk = MemoryDisk::new(cut);
            let set = open(&[&disk]);
            set.mark_disks(mark(1, 7), true);
            disk.power_off_after(cut);
            set.mark_disks(mark(2, 3), true);
            drop(set);
            let seen = open(&[&disk.crash()]).held_by_mark()[0].mark;
            assert!(seen == Some(mark(1, 7)) || seen == Some(mark(2, 3)), "{cut}: {seen:?}");
        }
        assert_eq!(decode("5\n"), Some(MirrorPosition { journal: JournalId(5), generation: 0, sequence: 0 }));
        for text in ["", "x", "5 1", "5 1 x", "5 1 2 3", "-1"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
