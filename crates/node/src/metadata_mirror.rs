//! A node's copy of the master's small rows (folders, policies, missed changes), for a master that loses its journal
//! (`docs/paths/rebuild.md`). The copy is always one that the master once had. Changes arrive whole and in order, with
//! their position in one transaction. A new full copy is gathered beside the old one and replaces it with its last
//! page. Rows are opaque and never judged here; an unreadable copy is archived and never keeps a node from starting.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use protocol::{
    Reason, limits,
    message::{
        node_master::Report,
        rebuild::{MirrorBase, MirrorKey, MirrorPosition, MirrorRow, MirrorUpdate},
    },
    wire::codec,
};
use serde::{Deserialize, Serialize};
use store::{DiskSet, Journal, RowChange, StoreError};

use crate::{NodeError, rules::NodeCompletion};

/// The mirrored rows of one node. All calls block on the disk.
pub struct MetadataMirror {
    journal: Journal,
    state: Mutex<MirrorState>,
}

/// Which rows are the copy, and which belong to a copy that is still arriving.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct MirrorState {
    whole: Option<MirrorCopy>,
    pending: Option<PendingCopy>,
}

/// A whole copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MirrorCopy {
    mark: MirrorPosition,
    slot: MirrorSlot,
}

/// A copy with pages still to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PendingCopy {
    mark: MirrorPosition,
    next_page: u32,
}

/// One of the two places for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum MirrorSlot {
    A,
    B,
}

impl MetadataMirror {
    /// Opens the copy in a data folder, or begins an empty one. A damaged copy is archived under another name.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn open(folder: &Path) -> Result<Self, NodeError> {
        let file = folder.join(MIRROR_FILE);
        match Journal::open(&file).map_err(NodeError::from).and_then(Self::from_journal) {
            Err(NodeError::Store(StoreError::NotAJournal { why, .. })) => {
                let aside = quarantine_file(&file).map_err(NodeError::io("set aside", &file))?;
                tracing::error!(aside = %aside.display(), why, "the kept rows were damaged; the master gives them anew");
                Self::from_journal(Journal::open(&file)?)
            }
            opened => opened,
        }
    }

    /// The copy in this journal.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn from_journal(journal: Journal) -> Result<Self, NodeError> {
        let mut heads = MirrorState::default();
        // A head of another build counts as none: the master gives all rows again.
        journal.load(HEADS_TABLE, &mut |_, value| heads = codec::decode(value).unwrap_or_default())?;
        Ok(Self { journal, state: Mutex::new(heads) })
    }

    /// The position of the copy: which journal, and how much of it.
    pub fn mark(&self) -> Option<MirrorPosition> {
        self.state().whole.as_ref().map(|head| head.mark)
    }

    /// What is reported after joining: which copy is here, and what lies on which disks.
    pub fn join_completions(&self, disks: &DiskSet) -> [NodeCompletion; 2] {
        let mark = self.mark();
        let all_seen = mark.is_some_and(|mark| disks.is_all_marked(mark.journal));
        [NodeCompletion::MirrorMark { mark, is_all_marked: all_seen }, NodeCompletion::Inventory(disks.held_by_mark())]
    }

    /// Stores rows, and marks the disks. A master gives rows only once it was told what lies on the disks. So the
    /// mark of a disk shows later that it was away while the names were rebuilt, although its node took part.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn apply_and_mark(&self, keep: &MirrorUpdate, disks: &DiskSet) -> Result<(), NodeError> {
        self.apply(keep)?;
        if let Some(mark) = self.mark().filter(|mark| *mark == keep.position) {
            disks.mark_disks(mark, matches!(keep.base, MirrorBase::Page { .. }));
        }
        Ok(())
    }

    /// Stores rows; they are on the disk when it returns. Repeating it does no harm.
    ///
    /// # Errors
    /// [`Reason::NotPermitted`] if they do not continue what is stored; else the disk's error.
    pub fn apply(&self, keep: &MirrorUpdate) -> Result<(), NodeError> {
        let mut heads = self.state();
        if heads.whole.as_ref().is_some_and(|whole| whole.mark == keep.position) {
            // The earlier answer was lost, or a disk is new.
            return Ok(());
        }
        let (next, side, mut changes) = match keep.base {
            MirrorBase::Change(sequence) => {
                let whole = heads.whole.clone();
                let whole = whole.filter(|whole| whole.mark == MirrorPosition { sequence, ..keep.position });
                let Some(whole) = whole else { return Err(does_not_fit(keep)) };
                let next = MirrorState {
                    whole: Some(MirrorCopy { mark: keep.position, ..whole }),
                    pending: heads.pending.clone(),
                };
                (next, whole.slot, Vec::new())
            }
            MirrorBase::Page { page, last } => {
                let side = heads.whole.as_ref().map_or(MirrorSlot::A, |whole| whole.slot.other());
                let changes = if page == 0 { self.emptied(side)? } else { Vec::new() };
                let expected = PendingCopy { mark: keep.position, next_page: page };
                if page > 0 && heads.pending.as_ref() != Some(&expected) {
                    return Err(does_not_fit(keep));
                }
                let next = match last {
                    true => MirrorState { whole: Some(MirrorCopy { mark: keep.position, slot: side }), pending: None },
                    false => MirrorState {
                        pending: Some(PendingCopy { next_page: page + 1, ..expected }),
                        whole: heads.whole.clone(),
                    },
                };
                (next, side, changes)
            }
        };
        changes.extend(keep.rows.iter().map(|row| row_change(side, row)));
        changes.push(RowChange::Set { table: HEADS_TABLE, key: Vec::new(), value: codec::encode(&next) });
        self.journal.commit(&changes)?;
        *heads = next;
        Ok(())
    }

    /// The page of the copy that follows a row; `None` if there is no complete copy.
    ///
    /// # Errors
    /// The disk's error.
    pub fn page(&self, after: Option<MirrorKey>) -> Result<Option<Report>, NodeError> {
        let heads = self.state();
        let Some(MirrorCopy { mark, slot: side }) = heads.whole.clone() else { return Ok(None) };
        let from = after.as_ref().map(|key| joined(&key.table, &key.key));
        let (mut rows, mut bytes, mut last) = (Vec::new(), 0, true);
        self.journal.load_after(side.table(), from.as_deref(), &mut |key, value| {
            let row = split(key).map(|(table, key)| MirrorRow { table, key, value: Some(value.to_vec()) });
            bytes += key.len() + value.len() + ROW_HEAD_BYTES;
            last = bytes <= PAGE_BYTES_MAX || rows.is_empty();
            if last {
                rows.extend(row);
            }
            last
        })?;
        Ok(Some(Report::MirrorPage { position: mark, after, rows, last }))
    }

    fn state(&self) -> MutexGuard<'_, MirrorState> {
        // Changed in one step, after the disk was written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The changes that remove all rows of a side.
    fn emptied(&self, side: MirrorSlot) -> Result<Vec<RowChange>, NodeError> {
        let mut changes = Vec::new();
        let table = side.table();
        self.journal.load(table, &mut |key, _| changes.push(RowChange::Remove { table, key: key.to_vec() }))?;
        Ok(changes)
    }
}

impl MirrorSlot {
    fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    fn table(self) -> &'static str {
        match self {
            Self::A => "rows-left",
            Self::B => "rows-right",
        }
    }
}

fn row_change(side: MirrorSlot, row: &MirrorRow) -> RowChange {
    let (table, key) = (side.table(), joined(&row.table, &row.key));
    match &row.value {
        Some(value) => RowChange::Set { table, key, value: value.clone() },
        None => RowChange::Remove { table, key },
    }
}

/// A table's name and a key as one key, sorted by both: no name contains a zero byte.
fn joined(table: &str, key: &[u8]) -> Vec<u8> {
    [table.as_bytes(), &[0], key].concat()
}

fn split(joined: &[u8]) -> Option<(String, Vec<u8>)> {
    let zero = joined.iter().position(|byte| *byte == 0)?;
    let table = std::str::from_utf8(&joined[..zero]).ok()?;
    Some((table.to_owned(), joined[zero + 1..].to_vec()))
}

fn does_not_fit(keep: &MirrorUpdate) -> NodeError {
    let message = format!("these rows do not fit onto what is kept ({:?}); give all of them", keep.base);
    NodeError::refused(Reason::NotPermitted, message)
}

/// Renames a file to a name that no file has.
fn quarantine_file(file: &Path) -> io::Result<PathBuf> {
    let aside = (1..).map(|number| file.with_extension(format!("redb.aside-{number}"))).find(|aside| !aside.exists());
    let aside = aside.unwrap_or_else(|| file.with_extension("redb.aside"));
    fs::rename(file, &aside)?;
    Ok(aside)
}

/// The file in a node's data folder.
pub const MIRROR_FILE: &str = "kept.redb";
/// The table with the one row that describes the copy.
const HEADS_TABLE: &str = "heads";
/// Bytes of rows in a page: half a GMP message.
const PAGE_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
/// Bytes of a row besides its key and value, at most.
const ROW_HEAD_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use protocol::JournalId;
    use store::{DataFolder, MemoryDisk, OsDisk};

    use super::*;

    fn mark(sequence: u64) -> MirrorPosition {
        MirrorPosition { journal: JournalId(7), generation: 1, sequence }
    }

    fn row(key: u8, value: Option<usize>) -> MirrorRow {
        MirrorRow { table: "names".into(), key: vec![key], value: value.map(|bytes| vec![key; bytes]) }
    }

    fn page(sequence: u64, page: u32, last: bool, rows: Vec<MirrorRow>) -> MirrorUpdate {
        MirrorUpdate { position: mark(sequence), base: MirrorBase::Page { page, last }, rows }
    }

    fn change(from: u64, to: u64, rows: Vec<MirrorRow>) -> MirrorUpdate {
        MirrorUpdate { position: mark(to), base: MirrorBase::Change(from), rows }
    }

    fn on(disk: &MemoryDisk) -> MetadataMirror {
        MetadataMirror::from_journal(Journal::open_on(Arc::new(disk.clone()), Path::new("/kept.redb")).unwrap())
            .unwrap()
    }

    /// The whole copy, page by page, as a master reads it.
    fn all(kept: &MetadataMirror) -> Vec<MirrorRow> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let Some(Report::MirrorPage { rows, last, .. }) = kept.page(after).unwrap() else { return all };
            after = rows.last().map(|row| MirrorKey { table: row.table.clone(), key: row.key.clone() });
            all.extend(rows);
            if last {
                return all;
            }
        }
    }

    #[test]
    fn an_old_copy_stays_until_the_last_page_of_the_new_one_is_there() {
        let kept = on(&MemoryDisk::new(1));
        assert_eq!((kept.mark(), kept.page(None).unwrap()), (None, None));
        kept.apply(&page(1, 0, true, vec![row(1, Some(1)), row(2, Some(1))])).unwrap();
        kept.apply(&page(5, 0, false, vec![row(3, Some(1))])).unwrap();
        assert_eq!((kept.mark(), all(&kept).len()), (Some(mark(1)), 2));
        assert!(kept.apply(&page(5, 2, true, vec![])).is_err(), "a page is missing");
        assert!(kept.apply(&page(6, 1, true, vec![])).is_err(), "a page of another copy");
        kept.apply(&page(5, 1, true, vec![row(4, Some(1))])).unwrap();
        assert_eq!((kept.mark(), all(&kept)), (Some(mark(5)), vec![row(3, Some(1)), row(4, Some(1))]));
        // And once more, onto a slot that was used before.
        kept.apply(&page(9, 0, true, vec![row(5, Some(1))])).unwrap();
        assert_eq!(all(&kept), [row(5, Some(1))]);
    }

    #[test]
    fn changes_fit_only_onto_the_one_before_and_may_come_twice() {
        let kept = on(&MemoryDisk::new(1));
        assert!(kept.apply(&change(0, 1, vec![])).is_err(), "there is nothing yet");
        kept.apply(&page(1, 0, true, vec![row(1, Some(1))])).unwrap();
        for _ in 0..2 {
            kept.apply(&change(1, 3, vec![row(2, Some(1)), row(1, None)])).unwrap();
        }
        assert_eq!(all(&kept), [row(2, Some(1))]);
        assert!(kept.apply(&change(4, 5, vec![])).is_err());
        let other =
            MirrorUpdate { position: MirrorPosition { journal: JournalId(8), ..mark(4) }, ..change(3, 4, vec![]) };
        assert!(kept.apply(&other).is_err(), "another journal's");
        assert_eq!(kept.mark(), Some(mark(3)));
    }

    #[test]
    fn a_large_copy_is_told_in_pages_that_fit_a_message() {
        let kept = on(&MemoryDisk::new(1));
        let rows: Vec<_> = (0..40).map(|key| row(key, Some(60_000))).collect();
        kept.apply(&page(1, 0, true, rows.clone())).unwrap();
        let Some(report @ Report::MirrorPage { .. }) = kept.page(None).unwrap() else { panic!("a page") };
        assert!(codec::encode(&report).len() < limits::MESSAGE_BYTES_MAX);
        assert!(matches!(report, Report::MirrorPage { last: false, .. }));
        assert_eq!(all(&kept), rows);
        // A row larger than a page is a page.
        kept.apply(&change(1, 2, vec![row(50, Some(PAGE_BYTES_MAX + 1))])).unwrap();
        assert_eq!(all(&kept).len(), 41);
    }

    // Promise 17.
    #[test]
    fn after_a_power_cut_the_copy_is_one_that_was_kept_whole() {
        for cut in 0..40 {
            let disk = MemoryDisk::new(cut);
            let kept = on(&disk);
            kept.apply(&page(1, 0, true, vec![row(1, Some(1))])).unwrap();
            disk.power_off_after(cut);
            let second = kept.apply(&change(1, 2, vec![row(2, Some(1))])).is_ok();
            let third = second && kept.apply(&page(3, 0, true, vec![row(3, Some(1))])).is_ok();
            drop(kept);
            let kept = on(&disk.crash());
            let has = (kept.mark().unwrap().sequence, all(&kept));
            let whole =
                [(1, vec![row(1, Some(1))]), (2, vec![row(1, Some(1)), row(2, Some(1))]), (3, vec![row(3, Some(1))])];
            assert!(whole.contains(&has), "{cut}: {has:?}");
            assert!(has.0 >= 1 + u64::from(second) + u64::from(third), "{cut}: what was acknowledged is there");
        }
    }

    #[test]
    fn a_damaged_copy_is_set_aside_and_the_node_starts() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MIRROR_FILE), vec![7; 10_000]).unwrap();
        let kept = MetadataMirror::open(folder.path()).unwrap();
        assert_eq!(kept.mark(), None);
        assert!(folder.path().join("kept.redb.aside-1").exists());
    }

    #[test]
    fn a_disk_that_was_away_when_a_copy_came_is_known_to_have_been() {
        let folder = tempfile::tempdir().unwrap();
        let disks = ["a", "b"].map(|name| DataFolder {
            disk: Arc::new(OsDisk),
            folder: folder.path().join(name),
            known: false,
            memory_bytes: None,
        });
        let open = |disks: &[DataFolder]| {
            (MetadataMirror::open(folder.path()).unwrap(), DiskSet::open(disks.to_vec(), 0).unwrap().0)
        };
        let all = |journal| MirrorUpdate {
            position: MirrorPosition { journal: JournalId(journal), generation: journal, sequence: 1 },
            base: MirrorBase::Page { page: 0, last: true },
            rows: Vec::new(),
        };
        let is_all_seen = |kept: &MetadataMirror, disks: &DiskSet| {
            let [told, _] = kept.join_completions(disks);
            let NodeCompletion::MirrorMark { is_all_marked: all_seen, .. } = told else { panic!("{told:?}") };
            all_seen
        };
        let (kept, set) = open(&disks);
        assert!(!is_all_seen(&kept, &set), "nobody has asked yet");
        kept.apply_and_mark(&all(1), &set).unwrap();
        assert!(is_all_seen(&kept, &set));
        drop((kept, set));
        // A copy of another journal arrives while one disk is not mounted.
        let (kept, set) = open(&disks[..1]);
        assert!(is_all_seen(&kept, &set));
        kept.apply_and_mark(&all(2), &set).unwrap();
        assert!(is_all_seen(&kept, &set));
        drop((kept, set));
        let (kept, set) = open(&disks);
        assert!(!is_all_seen(&kept, &set));
        // The same again, because that disk is not marked.
        kept.apply_and_mark(&all(2), &set).unwrap();
        assert!(is_all_seen(&kept, &set));
        drop((kept, set));
        let (kept, set) = open(&disks);
        assert!(is_all_seen(&kept, &set));
    }
}
