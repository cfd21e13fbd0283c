//! Runs of bytes at equal distances, as rows of a part of an image are in its file. One request reads all of them, and only
//! they cross the network (AstroPortal report, 1: crops are a small part of an image). It never reads a byte itself.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::limits::{BLOCK_BYTES, FRAME_BYTES_MAX};

/// Runs of bytes. All are as long, and each begins as far after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRuns {
    /// The first byte of the first run.
    pub from: u64,
    /// Length of a run in bytes, at least 1.
    pub run_bytes: u64,
    /// From the beginning of a run to that of the next, in bytes; at least the length of a run.
    pub stride_bytes: u64,
    /// How many runs, at least 1.
    pub runs: u64,
}

impl ByteRuns {
    /// From the first byte of the first run to behind the last one's last.
    ///
    /// # Errors
    /// Why these runs make no sense, or are more than one request may ask for.
    pub fn range(&self) -> Result<Range<u64>, &'static str> {
        let Self { from, run_bytes, stride_bytes, runs } = *self;
        if run_bytes == 0 || runs == 0 || stride_bytes < run_bytes {
            return Err("runs have bytes, and do not overlap");
        }
        let is_small = run_bytes.checked_mul(runs).is_some_and(|bytes| bytes <= RUNS_BYTES_MAX);
        let span = stride_bytes.checked_mul(runs - 1).and_then(|bytes| bytes.checked_add(run_bytes));
        let until = span.filter(|bytes| *bytes <= RUNS_SPAN_BYTES_MAX).and_then(|bytes| from.checked_add(bytes));
        match until {
            Some(until) if is_small && run_bytes <= FRAME_BYTES_MAX as u64 => Ok(from..until),
            _ => Err("runs are 4 MiB at most, within 64 MiB"),
        }
    }

    /// Bytes of all runs that pass [`range`](Self::range).
    pub fn bytes(&self) -> u64 {
        self.run_bytes * self.runs
    }

    /// The first of these runs that are best read at once, with what is between them, and the others. What passes
    /// [`range`](Self::range) passes it in parts, too.
    pub fn split_first(self) -> (Self, Option<Self>) {
        let gap_bytes = self.stride_bytes - self.run_bytes;
        let in_frame = (FRAME_BYTES_MAX as u64 - self.run_bytes) / self.stride_bytes + 1;
        let taken = if gap_bytes > GAP_BYTES_MAX { 1 } else { in_frame.min(self.runs) };
        let first = Self { runs: taken, ..self };
        let left = self.runs - taken;
        let rest = (left > 0).then(|| Self { from: self.from + taken * self.stride_bytes, runs: left, ..self });
        (first, rest)
    }

    /// Adds the runs to `into`, of the bytes from the first run on.
    pub fn pick(&self, span: &[u8], into: &mut Vec<u8>) {
        for run in span.chunks(self.stride_bytes as usize).take(self.runs as usize) {
            into.extend_from_slice(&run[..run.len().min(self.run_bytes as usize)]);
        }
    }
}

/// Most bytes of the runs of one request.
pub const RUNS_BYTES_MAX: u64 = 4 << 20;
/// Most bytes from the first run's beginning to the last one's end: what a node reads for one request.
pub const RUNS_SPAN_BYTES_MAX: u64 = 64 << 20;
/// Runs that are farther apart are read alone: a read verifies whole blocks.
const GAP_BYTES_MAX: u64 = 2 * BLOCK_BYTES;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn all(runs: ByteRuns, file: &[u8]) -> (Vec<u8>, usize) {
        let (mut picked, mut reads, mut rest) = (Vec::new(), 0, Some(runs));
        while let Some(left) = rest {
            let (first, others) = left.split_first();
            let range = first.range().unwrap();
            assert!(range.end - range.start <= FRAME_BYTES_MAX as u64);
            first.pick(&file[range.start as usize..range.end as usize], &mut picked);
            (reads, rest) = (reads + 1, others);
        }
        (picked, reads)
    }

    #[test]
    fn runs_are_picked_whole_and_in_order_however_they_are_split() {
        let file: Vec<u8> = (0..6_000_000_u32).map(|at| (at / 7) as u8).collect();
        for (from, run_bytes, stride_bytes, runs, reads) in
            [(5, 1, 1, 1, 1), (17, 200, 4_096, 300, 2), (0, 10, 1_000_000, 6, 6), (3, 1 << 20, 1 << 20, 4, 4)]
        {
            let runs = ByteRuns { from, run_bytes, stride_bytes, runs };
            let expected = (0..runs.runs).flat_map(|run| {
                let at = (from + run * stride_bytes) as usize;
                file[at..at + run_bytes as usize].iter().copied()
            });
            assert_eq!(all(runs, &file), (expected.collect(), reads), "{runs:?}");
        }
    }

    #[test]
    fn runs_without_sense_or_without_end_are_refused() {
        let good = ByteRuns { from: 0, run_bytes: 4, stride_bytes: 8, runs: 3 };
        assert_eq!((good.range(), good.bytes()), (Ok(0..20), 12));
        for bad in [
            ByteRuns { run_bytes: 0, ..good },
            ByteRuns { runs: 0, ..good },
            ByteRuns { stride_bytes: 3, ..good },
            ByteRuns { from: u64::MAX, ..good },
            ByteRuns { runs: u64::MAX, ..good },
            ByteRuns { stride_bytes: u64::MAX, ..good },
            ByteRuns { run_bytes: RUNS_BYTES_MAX, stride_bytes: RUNS_BYTES_MAX, runs: 1, ..good },
            ByteRuns { stride_bytes: RUNS_SPAN_BYTES_MAX / 2, ..good },
        ] {
            assert!(bad.range().is_err(), "{bad:?}");
        }
    }
}
