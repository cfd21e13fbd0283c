//! The ranges of a bucket's file: which piece each holds, and which pieces count. Pure rules (Sector/Sphere paper,
//! 3.5.2: "each bucket handler also records the status of incoming results from each data segment"). A piece
//! **reserves** a range behind all others, is written there, and then **commits**. So several pieces arrive at once,
//! and no slow sender delays another. A piece that breaks off leaves a dead range, which the seal drops with the losing
//! attempts; it is never in the bucket by halves.

use std::collections::BTreeMap;

use protocol::{Reason, limits, message::spe::Winner};

/// The pieces of one bucket.
#[derive(Debug, Default)]
pub struct Pieces {
    /// Where the next reservation begins.
    end: u64,
    /// Committed pieces by task and attempt.
    committed: BTreeMap<(u32, u32), PieceRange>,
    /// Number of reservations neither committed nor dropped, those of empty pieces among them.
    reserved: u32,
    sealed: Option<SealState>,
}

impl Pieces {
    /// Whether a piece of this task's attempt is here, whole.
    pub fn has(&self, task: u32, attempt: u32) -> bool {
        self.committed.contains_key(&(task, attempt))
    }

    /// Where a piece of `bytes` bytes may be written.
    pub fn reserve(&mut self, bytes: u64) -> Result<PieceRange, PieceRefused> {
        if self.sealed.is_some() {
            return Err(PieceRefused::Sealed);
        }
        if self.committed.len() + self.reserved as usize >= PIECES_MAX {
            return Err(PieceRefused::TooMany);
        }
        let until = self.end.checked_add(bytes).filter(|until| *until <= limits::SLICE_BYTES_MAX);
        let until = until.ok_or(PieceRefused::TooLong)?;
        let range = PieceRange { from: self.end, bytes };
        self.end = until;
        self.reserved += 1;
        Ok(range)
    }

    /// The reserved range now holds the whole piece. The first of two equal attempts stays; a piece that arrives after
    /// the seal is refused.
    pub fn commit(&mut self, task: u32, attempt: u32, range: PieceRange) -> Result<(), PieceRefused> {
        self.reserved = self.reserved.saturating_sub(1);
        if self.sealed.is_some() {
            return Err(PieceRefused::Sealed);
        }
        self.committed.entry((task, attempt)).or_insert(range);
        Ok(())
    }

    /// The reserved range will not be filled. When it is the last, the file may be cut to the returned length.
    pub fn abandon(&mut self, range: PieceRange) -> Option<u64> {
        self.reserved = self.reserved.saturating_sub(1);
        if self.sealed.is_none() && range.from + range.bytes == self.end {
            self.end = range.from;
            return Some(self.end);
        }
        None
    }

    /// Whether the bucket has no piece and expects none, so that a file may be taken as the first piece.
    pub fn is_untouched(&self) -> bool {
        self.end == 0 && self.reserved == 0 && self.committed.is_empty() && self.sealed.is_none()
    }

    /// Plans how to reduce the bucket to exactly the winners' pieces, each once. On request they are in the order of
    /// the list.
    pub fn plan_seal(&self, winners: &[Winner], in_order: bool) -> Result<SealPlan, SealRefused> {
        let mut ranges = Vec::with_capacity(winners.len());
        let mut wanted = BTreeMap::new();
        for winner in winners {
            if wanted.insert(winner.task, (winner.attempt, winner.bytes)).is_some() {
                return Err(SealRefused::TwoWinners { task: winner.task });
            }
            match self.committed.get(&(winner.task, winner.attempt)) {
                Some(range) if range.bytes == winner.bytes => ranges.push((*range, winner.task)),
                Some(range) => return Err(SealRefused::Length { winner: *winner, found: range.bytes }),
                None if winner.bytes == 0 => {}
                None => return Err(SealRefused::Missing(*winner)),
            }
        }
        let bytes = ranges.iter().map(|(range, _)| range.bytes).sum();
        if let Some(sealed) = &self.sealed {
            let done = || SealPlan::Done { bytes: sealed.bytes, order: sealed.order.clone() };
            return if sealed.winners == wanted { Ok(done()) } else { Err(SealRefused::Sealed) };
        }
        // A sender that is still writing has its range below `end` and is not among the winners, so the winners are
        // shorter.
        if bytes == self.end && (!in_order || ranges.is_sorted_by_key(|(range, _)| range.from)) {
            ranges.sort_by_key(|(range, _)| range.from);
            return Ok(SealPlan::Keep { bytes, order: ranges.into_iter().map(|(_, task)| task).collect() });
        }
        let order = ranges.iter().map(|(_, task)| *task).collect();
        Ok(SealPlan::Rewrite { ranges: ranges.into_iter().map(|(range, _)| range).collect(), bytes, order })
    }

    /// The plan has been carried out: no further piece is taken.
    pub fn seal(&mut self, winners: &[Winner], bytes: u64, order: &[u32]) {
        let winners = winners.iter().map(|winner| (winner.task, (winner.attempt, winner.bytes))).collect();
        self.sealed = Some(SealState { winners, bytes, order: order.to_vec() });
        self.end = bytes;
    }

    /// Length of the sealed bucket in bytes; `None` while it is open.
    pub fn sealed_bytes(&self) -> Option<u64> {
        self.sealed.as_ref().map(|sealed| sealed.bytes)
    }

    /// Whether the bucket is exactly the whole piece of one attempt, so that the sums of that piece are the bucket's.
    pub fn consists_of(&self, task: u32, attempt: u32) -> bool {
        let sealed_with = |sealed: &SealState| {
            sealed.winners.len() == 1 && sealed.winners.get(&task).is_some_and(|winner| winner.0 == attempt)
        };
        self.sealed.as_ref().is_some_and(sealed_with)
    }
}

/// A part of a bucket's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRange {
    /// First byte.
    pub from: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// What is to be done to a bucket's file before it is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealPlan {
    /// It was sealed with the same winners before.
    Done {
        /// Its length in bytes.
        bytes: u64,
        /// The tasks in the order of their pieces.
        order: Vec<u32>,
    },
    /// The file holds the winners and nothing else.
    Keep {
        /// Its length in bytes.
        bytes: u64,
        /// The tasks in the order of their pieces.
        order: Vec<u32>,
    },
    /// Only these ranges go into a new file, in this order.
    Rewrite {
        /// The winners' ranges.
        ranges: Vec<PieceRange>,
        /// Their bytes together.
        bytes: u64,
        /// The tasks in the order of their pieces.
        order: Vec<u32>,
    },
}

/// Why a piece is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceRefused {
    /// The bucket is final.
    Sealed,
    /// The bucket would be longer than a slice may be.
    TooLong,
    /// It has more pieces than are kept account of.
    TooMany,
}

impl PieceRefused {
    /// The reason that its sender gets.
    pub fn reason(self) -> Reason {
        match self {
            Self::Sealed => Reason::NotPermitted,
            Self::TooLong => Reason::Invalid,
            Self::TooMany => Reason::Busy,
        }
    }
}

/// Why a bucket cannot be sealed in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealRefused {
    /// A winner's piece is not here.
    Missing(Winner),
    /// A winner's piece has another length.
    Length {
        /// What was expected.
        winner: Winner,
        /// Bytes that are here.
        found: u64,
    },
    /// A task has two winners.
    TwoWinners {
        /// The task.
        task: u32,
    },
    /// It was sealed with other winners before.
    Sealed,
}

impl SealRefused {
    /// The reason that the driver gets.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Missing(_) | Self::Length { .. } => Reason::NotFound,
            Self::TwoWinners { .. } => Reason::Invalid,
            Self::Sealed => Reason::NotPermitted,
        }
    }
}

#[derive(Debug)]
struct SealState {
    /// Attempt and bytes of each task that has won.
    winners: BTreeMap<u32, (u32, u64)>,
    bytes: u64,
    /// The tasks in the order of their pieces.
    order: Vec<u32>,
}

/// Pieces a bucket keeps account of, at about 50 bytes each: far more tasks than a stage has.
const PIECES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn winner(task: u32, attempt: u32, bytes: u64) -> Winner {
        Winner { task, attempt, bytes }
    }

    fn with(pieces: &[(u32, u32, u64)]) -> Pieces {
        let mut made = Pieces::default();
        for (task, attempt, bytes) in pieces {
            let range = made.reserve(*bytes).unwrap();
            made.commit(*task, *attempt, range).unwrap();
        }
        made
    }

    #[test]
    fn a_bucket_of_winners_only_is_kept_as_it_is() {
        let pieces = with(&[(1, 0, 5), (0, 0, 3)]);
        let plan = pieces.plan_seal(&[winner(0, 0, 3), winner(1, 0, 5)], false).unwrap();
        assert_eq!(plan, SealPlan::Keep { bytes: 8, order: vec![1, 0] });
    }

    #[test]
    fn a_bucket_that_is_made_again_has_its_pieces_in_the_order_that_was_read_before() {
        let pieces = with(&[(1, 0, 5), (0, 0, 3)]);
        let wanted = [winner(0, 0, 3), winner(1, 0, 5)];
        let ranges = vec![PieceRange { from: 5, bytes: 3 }, PieceRange { from: 0, bytes: 5 }];
        let plan = pieces.plan_seal(&wanted, true);
        assert_eq!(plan, Ok(SealPlan::Rewrite { ranges, bytes: 8, order: vec![0, 1] }));
        let as_they_lie = [winner(1, 0, 5), winner(0, 0, 3)];
        assert_eq!(pieces.plan_seal(&as_they_lie, true), Ok(SealPlan::Keep { bytes: 8, order: vec![1, 0] }));
    }

    #[test]
    fn losing_attempts_are_cut_out() {
        let pieces = with(&[(0, 0, 3), (0, 1, 4), (1, 0, 5)]);
        let plan = pieces.plan_seal(&[winner(0, 1, 4), winner(1, 0, 5)], false).unwrap();
        let ranges = vec![PieceRange { from: 3, bytes: 4 }, PieceRange { from: 7, bytes: 5 }];
        assert_eq!(plan, SealPlan::Rewrite { ranges, bytes: 9, order: vec![0, 1] });
    }

    #[test]
    fn an_abandoned_last_piece_leaves_nothing_and_one_in_the_middle_a_dead_range() {
        let mut pieces = Pieces::default();
        let first = pieces.reserve(10).unwrap();
        let second = pieces.reserve(20).unwrap();
        assert_eq!(pieces.abandon(first), None);
        pieces.commit(1, 0, second).unwrap();
        let ranges = vec![PieceRange { from: 10, bytes: 20 }];
        assert_eq!(
            pieces.plan_seal(&[winner(1, 0, 20)], false),
            Ok(SealPlan::Rewrite { ranges, bytes: 20, order: vec![1] })
        );
        let third = pieces.reserve(5).unwrap();
        assert_eq!(pieces.abandon(third), Some(30));
    }

    #[test]
    fn a_piece_still_on_its_way_at_the_seal_is_not_in_the_bucket() {
        let mut pieces = with(&[(0, 0, 3)]);
        let late = pieces.reserve(4).unwrap();
        let plan = pieces.plan_seal(&[winner(0, 0, 3)], false).unwrap();
        assert!(matches!(plan, SealPlan::Rewrite { bytes: 3, .. }), "its sender writes into the old file: {plan:?}");
        pieces.seal(&[winner(0, 0, 3)], 3, &[0]);
        assert_eq!(pieces.commit(1, 0, late), Err(PieceRefused::Sealed));
        assert_eq!(pieces.sealed_bytes(), Some(3));
    }

    #[test]
    fn a_missing_a_shorter_and_a_doubled_winner_refuse_the_seal() {
        let pieces = with(&[(0, 0, 3)]);
        assert_eq!(pieces.plan_seal(&[winner(0, 1, 3)], false), Err(SealRefused::Missing(winner(0, 1, 3))));
        let shorter = SealRefused::Length { winner: winner(0, 0, 9), found: 3 };
        assert_eq!(pieces.plan_seal(&[winner(0, 0, 9)], false), Err(shorter));
        let twice = [winner(0, 0, 3), winner(0, 0, 3)];
        assert_eq!(pieces.plan_seal(&twice, false), Err(SealRefused::TwoWinners { task: 0 }));
    }

    #[test]
    fn the_same_seal_twice_is_one_seal_and_another_is_refused() {
        let mut pieces = with(&[(0, 0, 3), (0, 1, 3)]);
        pieces.seal(&[winner(0, 0, 3)], 3, &[0]);
        assert_eq!(pieces.plan_seal(&[winner(0, 0, 3)], false), Ok(SealPlan::Done { bytes: 3, order: vec![0] }));
        assert_eq!(pieces.plan_seal(&[winner(0, 1, 3)], false), Err(SealRefused::Sealed));
        assert_eq!(pieces.reserve(1), Err(PieceRefused::Sealed));
    }

    #[test]
    fn of_two_equal_attempts_the_first_stays() {
        let mut pieces = Pieces::default();
        let (first, second) = (pieces.reserve(3).unwrap(), pieces.reserve(3).unwrap());
        pieces.commit(0, 0, second).unwrap();
        pieces.commit(0, 0, first).unwrap();
        let ranges = vec![second];
        assert_eq!(
            pieces.plan_seal(&[winner(0, 0, 3)], false),
            Ok(SealPlan::Rewrite { ranges, bytes: 3, order: vec![0] })
        );
    }

    #[test]
    fn lengths_that_no_file_can_have_are_refused_without_an_overflow() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.reserve(u64::MAX), Err(PieceRefused::TooLong));
        pieces.reserve(limits::SLICE_BYTES_MAX).unwrap();
        assert_eq!(pieces.reserve(1), Err(PieceRefused::TooLong));
        assert_eq!(pieces.reserve(u64::MAX), Err(PieceRefused::TooLong));
    }
}
