//! Sets of bytes, and the plan of a fetch from several sources (path *download*): who reads which bytes next. Each
//! reader takes another range when it is done, so a faster one takes more. When none is left, the rest of a slow
//! source's range is read from another too, and the first to arrive counts. A far source has several readers, to hide
//! its round trips. Pure: it never reads anything itself.

use std::{collections::BTreeMap, ops::Range};

/// A set of byte ranges, none touching another, that knows how many bytes it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: rangemap::RangeSet<u64>,
    bytes: u64,
}

impl RangeSet {
    /// The bytes of one range.
    pub(crate) fn of(range: Range<u64>) -> Self {
        let mut set = Self::default();
        set.insert(range);
        set
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first unbroken range.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.ranges.first().cloned()
    }

    /// All ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().cloned()
    }

    /// Whether any byte of `range` is in the set.
    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        !range.is_empty() && self.ranges.overlaps(range)
    }

    /// Adds bytes; some may be there already.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        // The library takes no empty range.
        if range.is_empty() {
            return;
        }
        self.bytes += range.end - range.start - self.count(&range);
        self.ranges.insert(range);
    }

    /// Removes bytes; gives how many were there.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let removed = self.count(&range);
        self.bytes -= removed;
        self.ranges.remove(range);
        removed
    }

    /// How many bytes of `range` are in the set.
    fn count(&self, range: &Range<u64>) -> u64 {
        self.ranges.overlapping(range).map(|held| held.end.min(range.end) - held.start.max(range.start)).sum()
    }
}

/// What is still to be fetched, and who reads it.
#[derive(Debug)]
pub(crate) struct FetchPlan {
    /// Bytes that have not arrived.
    missing: RangeSet,
    /// Of these, the bytes that no reader has claimed.
    free: RangeSet,
    claims: BTreeMap<ClaimId, Claim>,
    next_claim: ClaimId,
    range_policy: RangePolicy,
}

/// How a plan cuts ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangePolicy {
    /// Longest range in bytes that is read at once; a whole number of frames. Towards the end they become shorter ...
    pub(crate) piece_bytes: u64,
    /// ... down to this.
    pub(crate) piece_bytes_min: u64,
    /// Readers at once; a single one reads everything missing in one go.
    pub(crate) readers: u64,
    /// If the bytes must be written in order: how far, in bytes, reading may be ahead of writing.
    pub(crate) window_bytes: Option<u64>,
}

/// Identifies a claim for as long as the plan lives.
pub(crate) type ClaimId = u64;

/// Distinguishes the sources of one plan.
pub(crate) type SourceNumber = usize;

#[derive(Clone, Debug)]
struct Claim {
    /// The next byte that its reader will bring.
    at: u64,
    until: u64,
    /// The source it reads from.
    source: SourceNumber,
    /// Another claim that reads the same.
    duplicate: Option<ClaimId>,
}

/// What a reader does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextRead {
    /// Read these bytes.
    Read(ClaimId, Range<u64>),
    /// It has nothing to do now.
    Wait,
    /// Everything has arrived.
    Finished,
}

impl FetchPlan {
    /// Fetches `missing`.
    pub(crate) fn new(missing: RangeSet, shape: RangePolicy) -> Self {
        Self { free: missing.clone(), missing, claims: BTreeMap::new(), next_claim: 0, range_policy: shape }
    }

    /// Whether everything has arrived.
    pub(crate) fn is_finished(&self) -> bool {
        self.missing.is_empty()
    }

    /// How many bytes have not arrived.
    pub(crate) fn missing_bytes(&self) -> u64 {
        self.missing.bytes()
    }

    /// The first byte that has not arrived.
    fn first_missing(&self) -> Option<u64> {
        self.missing.first().map(|range| range.start)
    }

    /// What an idle reader of `source` reads next. `written` is how far the bytes are written, if that must be in
    /// order.
    pub(crate) fn claim(&mut self, source: SourceNumber, written: u64) -> NextRead {
        let Some(first_missing) = self.first_missing() else { return NextRead::Finished };
        let horizon = self.range_policy.window_bytes.map_or(u64::MAX, |window| written.saturating_add(window));
        if let Some(free) = self.free.first().filter(|free| free.start < horizon) {
            let until = self.piece_end(free.start).min(free.end);
            self.free.remove(free.start..until);
            return self.add_claim(free.start..until, source, None);
        }
        // In order, and the writer still has something to write: the writer is the slow part, not a reader.
        if self.range_policy.window_bytes.is_some() && written < first_missing {
            return NextRead::Wait;
        }
        // The same source would not bring the same bytes sooner, and would bring its current ones later.
        let is_slow = |claim: &Claim| claim.duplicate.is_none() && claim.source != source && claim.at < claim.until;
        let alone = self.claims.iter_mut().filter(|(_, claim)| is_slow(claim));
        match alone.max_by_key(|(_, claim)| claim.until - claim.at) {
            Some((id, claim)) => {
                claim.duplicate = Some(self.next_claim + 1);
                let (id, range) = (*id, claim.at..claim.until);
                self.add_claim(range, source, Some(id))
            }
            None => NextRead::Wait,
        }
    }

    /// Notes bytes that a reader brought at its current position. Gives how many of them had not arrived before, and
    /// whether further bytes of the reader are still useful.
    pub(crate) fn arrived(&mut self, id: ClaimId, bytes: u64) -> (u64, bool) {
        let Some(claim) = self.claims.get_mut(&id) else { return (0, false) };
        let range = claim.at..claim.at.saturating_add(bytes).min(claim.until);
        claim.at = range.end;
        let rest = claim.at..claim.until;
        let fresh = self.missing.remove(range);
        (fresh, rest.is_empty() || self.missing.touches(&rest))
    }

    /// The reader is done with its range or has given it up; the bytes it did not bring are free again.
    pub(crate) fn release(&mut self, id: ClaimId) {
        self.claims.remove(&id);
        self.free = self.missing.clone();
        for claim in self.claims.values_mut() {
            self.free.remove(claim.at..claim.until);
            claim.duplicate = claim.duplicate.filter(|twin| *twin != id);
        }
    }

    fn add_claim(&mut self, range: Range<u64>, source: SourceNumber, twin: Option<ClaimId>) -> NextRead {
        self.next_claim += 1;
        self.claims.insert(self.next_claim, Claim { at: range.start, until: range.end, source, duplicate: twin });
        NextRead::Read(self.next_claim, range)
    }

    /// Where a range from `from` ends. Pieces become shorter towards the end, so that all sources end at about the same
    /// time. They end where frames end, so that no block is read twice.
    fn piece_end(&self, from: u64) -> u64 {
        if self.range_policy.readers <= 1 {
            return u64::MAX;
        }
        let fair = self.free.bytes() / (2 * self.range_policy.readers);
        let bytes = fair
            .clamp(self.range_policy.piece_bytes_min.min(self.range_policy.piece_bytes), self.range_policy.piece_bytes);
        let frame = protocol::limits::FRAME_BYTES_MAX as u64;
        (from / frame).saturating_add(bytes.div_ceil(frame)).saturating_mul(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn a_set_of_ranges_agrees_with_a_set_of_bytes() {
        use std::collections::BTreeSet;
        // A small generator, with the same steps in every run.
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
        for step in 0..5_000 {
            let from = next(40);
            let range = from..from + next(12);
            if next(2) == 0 {
                model.extend(range.clone());
                set.insert(range.clone());
            } else {
                let there = range.clone().filter(|byte| model.remove(byte)).count();
                assert_eq!(set.remove(range.clone()), there as u64, "step {step}: {range:?}");
            }
            assert_eq!(set.iter().flatten().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>(), "{step}");
            assert_eq!(set.bytes(), model.len() as u64);
            let probe = next(45)..next(45) + 3;
            assert_eq!(set.touches(&probe), probe.clone().any(|byte| model.contains(&byte)), "{set:?} {probe:?}");
        }
    }

    fn plan(bytes: u64, window_bytes: Option<u64>) -> FetchPlan {
        let shape = RangePolicy { piece_bytes: 8 * MIB, piece_bytes_min: 2 * MIB, readers: 2, window_bytes };
        FetchPlan::new(RangeSet::of(0..bytes), shape)
    }

    fn read(next: NextRead) -> (ClaimId, Range<u64>) {
        match next {
            NextRead::Read(id, range) => (id, range),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pieces_become_shorter_and_a_slow_reader_ends_up_with_less() {
        let mut plan = plan(100 * MIB, None);
        let (slow, first) = read(plan.claim(0, 0));
        assert_eq!(first, 0..8 * MIB);
        let (mut fast_bytes, mut lengths) = (0, Vec::new());
        while plan.free.bytes() > 0 {
            let (id, range) = read(plan.claim(1, 0));
            lengths.push(range.end - range.start);
            fast_bytes += plan.arrived(id, range.end - range.start).0;
            plan.release(id);
        }
        assert_eq!(fast_bytes, 92 * MIB);
        assert!(lengths.is_sorted_by(|a, b| a >= b) && *lengths.last().unwrap_or(&0) <= 2 * MIB, "{lengths:?}");
        // The slow one has brought a little; the rest of its range is read twice, and it learns that it is too late.
        assert_eq!(plan.arrived(slow, MIB), (MIB, true));
        let (double, rest) = read(plan.claim(1, 0));
        assert_eq!(rest, MIB..8 * MIB);
        assert_eq!(plan.claim(1, 0), NextRead::Wait, "twice is enough");
        assert_eq!(plan.arrived(double, 7 * MIB), (7 * MIB, true));
        assert_eq!(plan.arrived(slow, MIB), (0, false));
        assert_eq!(plan.claim(1, 0), NextRead::Finished);
    }

    #[test]
    fn what_a_failed_reader_did_not_bring_is_read_by_the_next() {
        let mut plan = plan(3 * MIB, None);
        let (first, range) = read(plan.claim(0, 0));
        assert_eq!(range, 0..2 * MIB);
        plan.arrived(first, MIB);
        plan.release(first);
        assert_eq!(read(plan.claim(1, 0)).1, MIB..3 * MIB);
    }

    #[test]
    fn when_one_of_two_that_read_the_same_fails_nothing_is_forgotten_or_doubled() {
        let mut plan = plan(2 * MIB, None);
        let (slow, _) = read(plan.claim(0, 0));
        let (double, _) = read(plan.claim(1, 0));
        plan.arrived(slow, MIB);
        plan.release(slow);
        assert_eq!(plan.claim(2, 0), NextRead::Read(3, 0..2 * MIB), "the other one may be slow too");
        plan.release(double);
        plan.release(3);
        assert_eq!(read(plan.claim(1, 0)).1, MIB..2 * MIB);
    }

    #[test]
    fn in_order_nobody_reads_beyond_the_window_and_a_slow_writer_makes_no_double_work() {
        let mut plan = plan(100 * MIB, Some(10 * MIB));
        let (first, _) = read(plan.claim(0, 0));
        let (second, range) = read(plan.claim(1, 0));
        assert_eq!(range.start, 8 * MIB);
        plan.arrived(second, 8 * MIB);
        plan.release(second);
        let (double, range) = read(plan.claim(1, 0));
        assert_eq!(range, 0..8 * MIB, "the writer waits for the first range: another reads it too");
        plan.arrived(first, 8 * MIB);
        plan.release(first);
        plan.release(double);
        assert_eq!(plan.claim(1, 0), NextRead::Wait, "all that the window allows is there, and not yet written");
        assert_eq!(read(plan.claim(1, 16 * MIB)).1, 16 * MIB..24 * MIB);
    }

    #[test]
    fn what_a_source_is_at_is_read_a_second_time_from_another_source_only() {
        let mut plan = plan(12 * MIB, None);
        let (first, _) = read(plan.claim(0, 0));
        while plan.free.bytes() > 0 {
            read(plan.claim(0, 0));
        }
        assert_eq!(plan.claim(0, 0), NextRead::Wait, "it is at all of it already");
        let (_, again) = read(plan.claim(1, 0));
        assert_eq!(again.end - again.start, 3 * MIB, "the longest");
        plan.release(first);
        assert_ne!(plan.claim(1, 0), NextRead::Wait);
    }
}
