//! Which changes of small rows the journal covers: those counted under its own id, and those of its ancestors. A node's
//! copy says up to which change of which journal it goes. If that is none of these, the node knows something that this
//! journal does not (`docs/paths/rebuild.md`). A journal restored from a backup would reuse numbers it gave away
//! before, so each life that makes a change first jumps ahead at random. A number outside the known ranges never counts
//! as covered.

use std::collections::BTreeMap;

use protocol::{JournalId, message::rebuild::MirrorPosition};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    MasterError,
    actions::{LINEAGE_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
};

/// The known changes, by journal. The ranges that were really counted are recorded in rows, which nodes keep too.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    journals: BTreeMap<JournalId, Ranges>,
    /// The first change of this master's life, once there was one.
    first_change: Option<u64>,
}

/// The first and the last change of each life of a journal, in order. The life that counted last ends at the last
/// counted change, whatever is recorded here. It is not the last in the list if a line that forked from this one is
/// known too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ranges(Vec<(u64, u64)>);

impl Lineage {
    /// Reads the rows. `id` is the journal, and `last` the last change that it counted.
    pub(crate) fn load(id: JournalId, last: u64, rows: &[StoredRow]) -> Result<Self, MasterError> {
        let mut lineage = Self::default();
        for row in rows.iter().filter(|row| row.table == LINEAGE_TABLE) {
            let (journal, ranges) = parse(row).ok_or_else(|| damaged_row(row))?;
            lineage.journals.insert(journal, ranges);
        }
        let own = lineage.journals.entry(id).or_default();
        own.end_at(last);
        if own.0.is_empty() {
            // Written by a build that kept no ranges, or nothing was counted yet.
            own.0.push((0, last));
        }
        Ok(lineage)
    }

    /// The first change of this master's life, where there was one.
    pub(crate) fn first_change(&self) -> Option<u64> {
        self.first_change
    }

    /// Begins this life's range `jump` after the change `last`. Returns its number and the row that records it.
    pub(crate) fn begin(&mut self, id: JournalId, last: u64, jump: u64) -> (u64, RowChange) {
        let first = last.saturating_add(jump);
        self.first_change = Some(first);
        let own = self.journals.entry(id).or_default();
        own.end_at(last);
        own.add(Ranges(vec![(first, first)]));
        (first, self.row(id))
    }

    /// The journal goes on under another id: its changes so far, up to `last`, become an ancestor's. Returns its row.
    pub(crate) fn end(&mut self, id: JournalId, last: u64) -> RowChange {
        self.journals.entry(id).or_default().end_at(last);
        self.first_change = None;
        self.row(id)
    }

    /// The journal goes on as `id` from the last counted change. Rows given to nodes before the next change carry that
    /// number.
    pub(crate) fn continue_as(&mut self, id: JournalId, last: u64) {
        self.journals.entry(id).or_default().add(Ranges(vec![(last, last)]));
    }

    /// Whether this is the journal, or one that it came from.
    pub(crate) fn knows(&self, journal: JournalId) -> bool {
        self.journals.contains_key(&journal)
    }

    /// Whether this journal covers a change of some journal; `last` is what the present journal, `id`, counted last.
    pub(crate) fn contains(&self, id: JournalId, last: u64, journal: JournalId, sequence: u64) -> bool {
        let Some(ranges) = self.journals.get(&journal) else { return false };
        let open = ranges.life_of(last).filter(|_| journal == id);
        let end = |at: usize, end: u64| if Some(at) == open { last.max(end) } else { end };
        ranges.0.iter().enumerate().any(|(at, (from, to))| (*from..=end(at, *to)).contains(&sequence))
    }

    /// A copy was taken that goes up to this change of a journal; `stored` are its rows. Returns the rows that changed.
    pub(crate) fn merge(&mut self, journal: JournalId, sequence: u64, stored: &[StoredRow]) -> Vec<RowChange> {
        let mut taken: BTreeMap<_, _> =
            stored.iter().filter(|row| row.table == LINEAGE_TABLE).filter_map(parse).collect();
        let of_copy = taken.entry(journal).or_insert_with(|| Ranges(vec![(0, sequence)]));
        of_copy.end_at(sequence);
        if !of_copy.has(sequence) {
            // The copy was given before its journal's life began to count, and rows of that life came before the rest.
            // Without this, it would count as new for ever and be taken again and again.
            of_copy.add(Ranges(vec![(sequence, sequence)]));
        }
        let mut changes = Vec::new();
        for (journal, ranges) in taken {
            self.journals.entry(journal).or_default().add(ranges);
            changes.push(self.row(journal));
        }
        changes
    }

    fn row(&self, id: JournalId) -> RowChange {
        let ranges = self.journals.get(&id).cloned().unwrap_or_default();
        RowChange::Set { table: LINEAGE_TABLE, key: key(id), value: encode_row(&ranges) }
    }
}

impl Ranges {
    /// The life that counted this change, and may still run: lives begin so far apart that none reaches the next.
    fn life_of(&self, change: u64) -> Option<usize> {
        self.0.partition_point(|(from, _)| *from <= change).checked_sub(1)
    }

    fn has(&self, change: u64) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&change))
    }

    /// The life that counted this change last went up to it.
    fn end_at(&mut self, last: u64) {
        if let Some(at) = self.life_of(last) {
            self.0[at].1 = last;
        }
    }

    /// Adds the changes that another line of the same journal counted.
    fn add(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort_unstable();
        self.0.dedup();
        self.shorten();
    }

    /// Merges the oldest ranges: the numbers between them have been in no node's copy for a long time.
    fn shorten(&mut self) {
        while self.0.len() > RANGES_MAX {
            let (from, _) = self.0.remove(0);
            self.0[0].0 = from;
        }
    }
}

/// Whether a copy with this mark and these rows covers a change of a journal; with `None`, any change of it.
pub(crate) fn mirror_contains(
    mark: &MirrorPosition,
    stored: &[StoredRow],
    journal: JournalId,
    sequence: Option<u64>,
) -> bool {
    let mut of_copy = Lineage::default();
    of_copy.merge(mark.journal, mark.sequence, stored);
    let ranges = of_copy.journals.get(&journal);
    ranges.is_some_and(|ranges| sequence.is_none_or(|at| ranges.has(at)))
}

/// Whether a row records the ranges of this journal itself, not of one that it came from.
pub(crate) fn is_row_of(row: &StoredRow, journal: JournalId) -> bool {
    row.table == LINEAGE_TABLE && row.key == key(journal)
}

/// Whether a row can be read.
pub(crate) fn check_row(row: &StoredRow) -> Result<(), MasterError> {
    parse(row).map(drop).ok_or_else(|| damaged_row(row))
}

fn parse(row: &StoredRow) -> Option<(JournalId, Ranges)> {
    let id = u64::from_be_bytes(row.key.as_slice().try_into().ok()?);
    Some((JournalId(id), decode_row(&row.value)?))
}

fn key(id: JournalId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

/// How far a life's first change lies after the last one before, at most. It is enough for sixteen million lives, and
/// no two of them begin at the same number.
pub(crate) const JUMP_MAX: u64 = 1 << 40;
/// Lives of a journal that are told apart, 16 KiB.
const RANGES_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: JournalId = JournalId(1);
    const TWO: JournalId = JournalId(2);

    fn rows(lineage: &Lineage, ids: &[JournalId]) -> Vec<StoredRow> {
        let stored = |id: &JournalId| match lineage.row(*id) {
            RowChange::Set { table, key, value } => StoredRow { table, key, value },
            RowChange::Remove { .. } => panic!("a row is set"),
        };
        ids.iter().map(stored).collect()
    }

    #[test]
    fn what_was_counted_is_known_and_what_lies_between_lives_is_not() {
        let mut lineage = Lineage::load(ONE, 0, &[]).unwrap_or_default();
        let (first, _) = lineage.begin(ONE, 0, 100);
        assert_eq!(first, 100);
        let known = |lineage: &Lineage, last, sequence| lineage.contains(ONE, last, ONE, sequence);
        assert!(known(&lineage, 130, 0) && known(&lineage, 130, 100) && known(&lineage, 130, 130));
        assert!(!known(&lineage, 130, 99) && !known(&lineage, 130, 131));
        // Started again, and nothing was changed yet; then something is changed.
        let mut again = Lineage::load(ONE, 130, &rows(&lineage, &[ONE])).unwrap_or_default();
        assert!(known(&again, 130, 130) && !known(&again, 130, 131));
        again.begin(ONE, 130, 1_000);
        assert!(known(&again, 1_140, 130) && known(&again, 1_140, 1_140) && !known(&again, 1_140, 131));
        // The first one, restored and continued: the changes that the second counted are not its own.
        let mut other = Lineage::load(ONE, 120, &rows(&lineage, &[ONE])).unwrap_or_default();
        other.begin(ONE, 120, 5_000);
        assert!(!known(&other, 6_000, 121) && !known(&other, 6_000, 130) && !known(&other, 6_000, 1_140));
        assert!(!other.contains(ONE, 6_000, TWO, 1));
    }

    #[test]
    fn a_copy_that_was_taken_is_known_with_all_that_it_goes_back_to() {
        let mut old = Lineage::load(ONE, 10, &[]).unwrap_or_default();
        old.begin(ONE, 10, 100);
        let mut new = Lineage::load(TWO, 0, &[]).unwrap_or_default();
        assert!(!new.contains(TWO, 0, ONE, 5));
        new.merge(ONE, 150, &rows(&old, &[ONE]));
        assert!(new.contains(TWO, 0, ONE, 5) && new.contains(TWO, 0, ONE, 150));
        assert!(!new.contains(TWO, 0, ONE, 50) && !new.contains(TWO, 0, ONE, 151));
        // And a third journal that is rebuilt from the second.
        let mut third = Lineage::load(JournalId(3), 0, &[]).unwrap_or_default();
        third.merge(TWO, 0, &rows(&new, &[ONE, TWO]));
        assert!(third.contains(JournalId(3), 0, ONE, 150) && !third.contains(JournalId(3), 0, ONE, 151));
    }

    #[test]
    fn a_line_that_parted_and_counted_further_does_not_hide_the_present_one() {
        // A backup of a journal was restored. What nodes know of it since the backup is a line of its own, with larger
        // numbers.
        let mut parted = Lineage::load(ONE, 10, &[]).unwrap_or_default();
        parted.begin(ONE, 10, 5_000);
        parted.end(ONE, 5_020);
        let mut present = Lineage::load(ONE, 10, &[]).unwrap_or_default();
        let (first, _) = present.begin(ONE, 10, 100);
        present.merge(ONE, 5_020, &rows(&parted, &[ONE]));
        let known = |lineage: &Lineage, last, sequence| lineage.contains(ONE, last, ONE, sequence);
        assert!(known(&present, 140, first) && known(&present, 140, 140) && known(&present, 140, 5_020));
        assert!(!known(&present, 140, 141) && !known(&present, 140, 5_021));
        // Started again, and another life begun: earlier changes are still known as they were.
        let mut again = Lineage::load(ONE, 140, &rows(&present, &[ONE])).unwrap_or_default();
        assert!(known(&again, 140, 140) && !known(&again, 140, 5_021));
        again.begin(ONE, 140, 50);
        assert!(known(&again, 200, 140) && known(&again, 200, 200) && !known(&again, 200, 5_021));
        // A copy with a mark of the present line no longer counts as new once the next journal has taken it.
        let mut next = Lineage::load(TWO, 0, &[]).unwrap_or_default();
        next.merge(ONE, 145, &rows(&present, &[ONE]));
        assert!(next.contains(TWO, 0, ONE, 145) && next.contains(TWO, 0, ONE, 5_020));
        assert!(!next.contains(TWO, 0, ONE, 146) && !next.contains(TWO, 0, ONE, 5_021));
    }

    /// Otherwise it would be requested, and taken, without end.
    #[test]
    fn whatever_a_copy_says_of_its_journals_it_is_known_once_it_was_taken() {
        let stored = |ranges: &[(u64, u64)]| {
            let value = encode_row(&Ranges(ranges.to_vec()));
            vec![StoredRow { table: LINEAGE_TABLE, key: key(ONE), value }]
        };
        let copies: [&[(u64, u64)]; 5] =
            [&[], &[(900, 900)], &[(0, 100), (900, 950)], &[(0, 0)], &[(499, 499), (600, 600)]];
        for of_copy in copies {
            for sequence in [0, 50, 100, 500, 900, 920, 1_000] {
                for before in copies {
                    let mut lineage = Lineage::load(TWO, 7, &[]).unwrap_or_default();
                    lineage.merge(ONE, 960, &stored(before));
                    lineage.merge(ONE, sequence, &stored(of_copy));
                    assert!(lineage.contains(TWO, 7, ONE, sequence), "{sequence} of {of_copy:?} beside {before:?}");
                }
            }
        }
    }

    #[test]
    fn a_journal_under_a_new_id_knows_what_it_gives_before_its_first_change() {
        let mut lineage = Lineage::load(ONE, 10, &[]).unwrap_or_default();
        lineage.end(ONE, 10);
        lineage.continue_as(TWO, 10);
        assert!(lineage.contains(TWO, 10, TWO, 10) && !lineage.contains(TWO, 10, TWO, 11));
        let (first, _) = lineage.begin(TWO, 10, 100);
        assert!(lineage.contains(TWO, 115, TWO, 10) && lineage.contains(TWO, 115, TWO, first + 5));
        assert!(!lineage.contains(TWO, 115, TWO, 11));
    }

    #[test]
    fn many_lives_take_bounded_room() {
        let mut lineage = Lineage::default();
        let mut last = 0;
        for _ in 0..3_000 {
            last = lineage.begin(ONE, last, 10).0;
        }
        assert!(lineage.journals[&ONE].0.len() <= RANGES_MAX);
        assert!(lineage.contains(ONE, last, ONE, last) && !lineage.contains(ONE, last, ONE, last - 5));
    }
}
