//! The parts of a segment, one for each input stream of the job, as functions of any kind get them. Serves the path
//! *job*, door 7; in the SPE process alone. It never decides what a function may see: only what was passed along exists
//! here.

use std::fs::File;

use protocol::{RecordFraming, limits};
use udf::{Beside, Input};

use super::mapped_part::{MapError, MappedPart};
use crate::messages::{GuideSpec, PartSpec, SegmentSpec};

/// A part of a segment: mapped, and as it was received.
pub(super) struct SegmentPart<'a> {
    pub(super) spec: &'a PartSpec,
    /// Its file.
    pub(super) file: &'a File,
    /// The file of its index, where it has one.
    pub(super) index: Option<&'a File>,
    pub(super) map: MappedPart,
}

/// Maps the parts of a segment, whose files are in `files` as the [message](SegmentSpec) says.
pub(super) fn map_parts<'a>(word: &'a SegmentSpec, files: &'a [File]) -> Result<Vec<SegmentPart<'a>>, MapError> {
    let mut files = files.iter();
    let missing =
        |word: &PartSpec| MapError::Unreadable { path: word.path.clone(), why: "its file did not come".into() };
    let mut parts = Vec::with_capacity(word.parts.len());
    for word in &word.parts {
        let file = files.next().ok_or_else(|| missing(word))?;
        let index = match word.guide {
            Some(GuideSpec::Offsets { .. }) => Some(files.next().ok_or_else(|| missing(word))?),
            Some(GuideSpec::Footer { .. }) | None => None,
        };
        parts.push(SegmentPart { spec: word, file, index, map: MappedPart::new(word, file, index)? });
    }
    Ok(parts)
}

impl<'a> SegmentPart<'a> {
    /// Its bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.map.bytes().len() as u64
    }

    /// How many records it has.
    pub(super) fn records(&self) -> u64 {
        match (self.spec.records, self.spec.guide) {
            (RecordFraming::Lines, _) => count_lines(self.map.bytes()),
            (RecordFraming::Fixed(record_bytes), _) => self.bytes().checked_div(u64::from(record_bytes)).unwrap_or(0),
            (RecordFraming::Index, _) => self.map.starts().len().saturating_sub(1) as u64,
            (RecordFraming::Parquet, Some(GuideSpec::Footer { rows, .. })) => rows,
            (RecordFraming::File | RecordFraming::Parquet, _) => 1,
        }
    }

    /// This part as the segment that a function sees first.
    pub(super) fn input(&'a self, segment: u64) -> Input<'a> {
        let input = Input::new(self.map.bytes(), self.format()).at(&self.spec.path, segment, self.map.from());
        input.with_starts(self.map.starts())
    }

    /// This part as an addition to a segment.
    pub(super) fn beside(&self) -> Beside<'_> {
        let (bytes, from, starts) = (self.map.bytes(), self.map.from(), self.map.starts());
        Beside { bytes, format: self.format(), path: &self.spec.path, from, starts }
    }

    /// The beginning of the record with this number; empty if there is none, or its place is unknown.
    pub(super) fn record_start(&self, record: u64) -> &[u8] {
        let found = record_of(self.map.bytes(), self.spec.records, self.map.starts(), self.map.from(), record);
        let found = found.unwrap_or_default();
        &found[..found.len().min(limits::FUNCTION_RECORD_BYTES_MAX)]
    }

    fn format(&self) -> udf::RecordFormat {
        match self.spec.records {
            // No library handles rows: only code that reads the file itself is given such a part.
            RecordFraming::File | RecordFraming::Parquet => udf::RecordFormat::File,
            RecordFraming::Lines => udf::RecordFormat::Lines,
            RecordFraming::Fixed(record_bytes) => udf::RecordFormat::Fixed(record_bytes),
            RecordFraming::Index => udf::RecordFormat::Index,
        }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    // Summed in blocks of bytes, so that the compiler can use vector instructions.
    let ends: u64 = bytes
        .chunks(usize::from(u8::MAX))
        .map(|block| u64::from(block.iter().fold(0u8, |count, byte| count + u8::from(*byte == b'\n'))))
        .sum();
    ends + u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'))
}

/// A record of a segment whose first byte is byte `from` of its file.
fn record_of<'a>(
    segment: &'a [u8],
    records: RecordFraming,
    starts: &[u64],
    from: u64,
    record: u64,
) -> Option<&'a [u8]> {
    let at = usize::try_from(record).ok()?;
    match records {
        RecordFraming::File => (at == 0).then_some(segment),
        RecordFraming::Lines => segment.split(|byte| *byte == b'\n').nth(at),
        RecordFraming::Fixed(bytes) => segment.chunks(bytes.max(1) as usize).nth(at),
        RecordFraming::Index => {
            let edge = |at: usize| usize::try_from(u64::from_le(*starts.get(at)?).checked_sub(from)?).ok();
            segment.get(edge(at)?..edge(at + 1)?)
        }
        // Rows are stored in columns: no byte range of the file is one.
        RecordFraming::Parquet => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_by_its_number() {
        let of = |segment, records, record| record_of(segment, records, &[], 0, record);
        assert_eq!(of(b"one\ntwo\nthree", RecordFraming::Lines, 1), Some(&b"two"[..]));
        assert_eq!(of(b"one\ntwo\nthree", RecordFraming::Lines, 3), None);
        assert_eq!(of(b"aabbcc", RecordFraming::Fixed(2), 2), Some(&b"cc"[..]));
        assert_eq!(of(b"aabbcc", RecordFraming::Fixed(2), u64::MAX), None);
        assert_eq!(of(b"all", RecordFraming::File, 0), Some(&b"all"[..]));
        assert_eq!(of(b"all", RecordFraming::File, 1), None);
        let starts = [100_u64, 101, 103, 106].map(u64::to_le);
        let indexed = |record| record_of(b"abbccc", RecordFraming::Index, &starts, 100, record);
        assert_eq!((indexed(0), indexed(2), indexed(3)), (Some(&b"a"[..]), Some(&b"ccc"[..]), None));
        assert_eq!(of(b"PAR1", RecordFraming::Parquet, 0), None);
    }

    #[test]
    fn lines_are_counted_with_and_without_a_last_end() {
        assert_eq!(count_lines(b""), 0);
        assert_eq!(count_lines(b"a"), 1);
        assert_eq!(count_lines(b"a\n\nb\n"), 3);
        assert_eq!(count_lines(&[b'\n'; 1000]), 1000);
        assert_eq!(count_lines(&[&[b'\n'; 255][..], b"x"].concat()), 256);
    }
}
