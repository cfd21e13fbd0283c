//! Slices grouped by the marks of their disks, so that a master can be told what another master never heard of
//! (`docs/paths/rebuild.md`). It never says what a master concludes from a mark.

use protocol::{
    JournalId,
    message::{node_master::HeldSlice, rebuild::MirrorPosition},
};

use crate::{
    DISK_MARK_FILE, DiskSet, SliceStore, StoreError, error::WhileDoing, locking::lock, slice_store::disk_mark,
};

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
        content.write_all_at(disk_mark::encode(&mark).as_bytes(), 0).while_doing("write", written.path())?;
        content.sync_data().while_doing("sync", written.path())?;
        written.rename(&file).while_doing("rename", &file)?;
        self.disk.sync_folder(&self.layout.folder).while_doing("sync", &self.layout.folder)?;
        *lock(&self.disk_mark) = Some(mark);
        Ok(())
    }
}

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
    }
}
