//! Which changes of small rows the journal has behind it: those that were counted under its own id, and those of the
//! journals that it was put together from. A node's copy says up to which change of which journal it goes; where that is
//! none of these, the node knows something that this journal does not (`docs/paths/rebuild.md`).
//!
//! A number alone would not tell: a journal that was put back from a backup counts on from where the backup ends, and
//! would meet the numbers that it gave away before. So each start that changes anything jumps ahead by lot, and the
//! ranges that were really counted are written down, and kept by the nodes.

use std::collections::BTreeMap;

use protocol::{JournalId, message::rebuild::KeptMark};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    MasterError,
    actions::{LINEAGE_TABLE, StoredRow},
    namespace::{damaged, decode_row, encode_row},
};

/// The changes that are known, by journal.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    journals: BTreeMap<JournalId, Ranges>,
    /// The first change of this master's life, once there was one.
    begun: Option<u64>,
}

/// The first and the last change of each life of a journal, in order. Of the present journal's last life the last change
/// is the one that was counted last, whatever is written here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ranges(Vec<(u64, u64)>);

impl Lineage {
    /// What the rows say. `id` is the journal, and `last` the last change that it counted.
    pub(crate) fn load(id: JournalId, last: u64, rows: &[StoredRow]) -> Result<Self, MasterError> {
        let mut lineage = Self::default();
        for row in rows.iter().filter(|row| row.table == LINEAGE_TABLE) {
            let (journal, ranges) = parse(row).ok_or_else(|| damaged(row))?;
            lineage.journals.insert(journal, ranges);
        }
        let own = lineage.journals.entry(id).or_default();
        match own.0.last_mut() {
            Some(range) => range.1 = last.max(range.0),
            // Written by a build that kept no ranges, or nothing was counted yet.
            None => own.0.push((0, last)),
        }
        Ok(lineage)
    }

    /// The first change of this master's life, where there was one.
    pub(crate) fn begun(&self) -> Option<u64> {
        self.begun
    }

    /// Begins this life's range `jump` behind the change that was `last`; gives its number and the row that says so.
    pub(crate) fn begin(&mut self, id: JournalId, last: u64, jump: u64) -> (u64, RowChange) {
        let first = last.saturating_add(jump);
        self.begun = Some(first);
        let own = self.journals.entry(id).or_default();
        own.end_at(last);
        own.0.push((first, first));
        own.shorten();
        (first, self.row(id))
    }

    /// The journal goes on under another id: what it counted so far, up to `last`, is an ancestor's. Gives its row.
    pub(crate) fn end(&mut self, id: JournalId, last: u64) -> RowChange {
        self.journals.entry(id).or_default().end_at(last);
        self.begun = None;
        self.row(id)
    }

    /// Whether a journal's change is behind this one; `last` is what the present journal, `id`, counted last.
    pub(crate) fn knows(&self, id: JournalId, last: u64, journal: JournalId, sequence: u64) -> bool {
        let Some(ranges) = self.journals.get(&journal) else { return false };
        let open = ranges.0.len().saturating_sub(1);
        let end = |at: usize, end: u64| if journal == id && at == open { last.max(end) } else { end };
        ranges.0.iter().enumerate().any(|(at, (from, to))| (*from..=end(at, *to)).contains(&sequence))
    }

    /// A copy was taken that goes up to this change of a journal; `stored` are its rows. Gives the rows that changed.
    pub(crate) fn take(&mut self, journal: JournalId, sequence: u64, stored: &[StoredRow]) -> Vec<RowChange> {
        let mut taken: BTreeMap<_, _> =
            stored.iter().filter(|row| row.table == LINEAGE_TABLE).filter_map(parse).collect();
        let of_copy = taken.entry(journal).or_insert_with(|| Ranges(vec![(0, sequence)]));
        of_copy.end_at(sequence);
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
    fn end_at(&mut self, last: u64) {
        if let Some(range) = self.0.last_mut() {
            range.1 = last.max(range.0);
        }
    }

    /// Adds what another line of the same journal counted.
    fn add(&mut self, other: Self) {
        self.0.extend(other.0);
        self.0.sort_unstable();
        self.0.dedup();
        self.shorten();
    }

    /// The oldest ranges become one: what lies between them was in nobody's copy for long.
    fn shorten(&mut self) {
        while self.0.len() > RANGES_MAX {
            let (from, _) = self.0.remove(0);
            self.0[0].0 = from;
        }
    }
}

/// Whether a copy with this mark and these rows goes back to a change of a journal; to any change of it for `None`.
pub(crate) fn copy_knows(mark: &KeptMark, stored: &[StoredRow], journal: JournalId, sequence: Option<u64>) -> bool {
    let mut of_copy = Lineage::default();
    of_copy.take(mark.journal, mark.sequence, stored);
    let ranges = of_copy.journals.get(&journal);
    ranges.is_some_and(|ranges| sequence.is_none_or(|at| ranges.0.iter().any(|(from, to)| (*from..=*to).contains(&at))))
}

/// Whether a row can be read.
pub(crate) fn check_row(row: &StoredRow) -> Result<(), MasterError> {
    parse(row).map(drop).ok_or_else(|| damaged(row))
}

fn parse(row: &StoredRow) -> Option<(JournalId, Ranges)> {
    let id = u64::from_be_bytes(row.key.as_slice().try_into().ok()?);
    Some((JournalId(id), decode_row(&row.value)?))
}

fn key(id: JournalId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

/// How far a life's first change lies behind the last one before, at most: sixteen million lives, and no two that begin
/// at the same number.
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
        let known = |lineage: &Lineage, last, sequence| lineage.knows(ONE, last, ONE, sequence);
        assert!(known(&lineage, 130, 0) && known(&lineage, 130, 100) && known(&lineage, 130, 130));
        assert!(!known(&lineage, 130, 99) && !known(&lineage, 130, 131));
        // Started again, and nothing was changed yet; then something is.
        let mut again = Lineage::load(ONE, 130, &rows(&lineage, &[ONE])).unwrap_or_default();
        assert!(known(&again, 130, 130) && !known(&again, 130, 131));
        again.begin(ONE, 130, 1_000);
        assert!(known(&again, 1_140, 130) && known(&again, 1_140, 1_140) && !known(&again, 1_140, 131));
        // The first one, put back and gone on with: what the second counted is none of its own.
        let mut other = Lineage::load(ONE, 120, &rows(&lineage, &[ONE])).unwrap_or_default();
        other.begin(ONE, 120, 5_000);
        assert!(!known(&other, 6_000, 121) && !known(&other, 6_000, 130) && !known(&other, 6_000, 1_140));
        assert!(!other.knows(ONE, 6_000, TWO, 1));
    }

    #[test]
    fn a_copy_that_was_taken_is_known_with_all_that_it_goes_back_to() {
        let mut old = Lineage::load(ONE, 10, &[]).unwrap_or_default();
        old.begin(ONE, 10, 100);
        let mut new = Lineage::load(TWO, 0, &[]).unwrap_or_default();
        assert!(!new.knows(TWO, 0, ONE, 5));
        new.take(ONE, 150, &rows(&old, &[ONE]));
        assert!(new.knows(TWO, 0, ONE, 5) && new.knows(TWO, 0, ONE, 150));
        assert!(!new.knows(TWO, 0, ONE, 50) && !new.knows(TWO, 0, ONE, 151));
        // And a third journal that is put together from the second.
        let mut third = Lineage::load(JournalId(3), 0, &[]).unwrap_or_default();
        third.take(TWO, 0, &rows(&new, &[ONE, TWO]));
        assert!(third.knows(JournalId(3), 0, ONE, 150) && !third.knows(JournalId(3), 0, ONE, 151));
    }

    #[test]
    fn many_lives_take_bounded_room() {
        let mut lineage = Lineage::default();
        let mut last = 0;
        for _ in 0..3_000 {
            last = lineage.begin(ONE, last, 10).0;
        }
        assert!(lineage.journals[&ONE].0.len() <= RANGES_MAX);
        assert!(lineage.knows(ONE, last, ONE, last) && !lineage.knows(ONE, last, ONE, last - 5));
    }
}
