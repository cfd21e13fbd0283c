//! Cuts a stream into segments (Sector/Sphere paper, 3.5.1). Each has about as many bytes as one SPE would get if all
//! got the same, within S_min and S_max. Segments have whole records, follow the order of the stream, and never span
//! files.

use protocol::RecordFraming;

use crate::{
    SphereError,
    stream::{InputFile, Stream},
};

/// A part of one member of a stream.
///
/// **Lines.** A file of lines is cut without being read, so a cut may fall into a line. One rule gives each line to
/// exactly one segment: *a segment `[from, until)` owns the lines that **start** in it*. A line starts at byte 0 and
/// after every `\n`. So the SPE looks for the first line start at or after `from`, for which it needs byte `from - 1`.
/// It reads on past `until` to the end of its last line. The SPE keeps this rule, in
/// `crates/spe/src/child/owned_lines.rs`.
///
/// **Marks.** Some files are cut only at their [marks](crate::stream::FileLayout::split_points), which the driver
/// knows. These are a file whose records are found by an index, a Parquet file, and files of several streams that are
/// read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number in the stream, from 0.
    pub number: u64,
    /// The file or bucket, by its place in the stream.
    pub member: usize,
    /// First byte.
    pub from: u64,
    /// First byte that is no longer part of it.
    pub until: u64,
    /// Its length in bytes, including what is read beside it; for lines, up to the nominal cuts.
    pub bytes: u64,
    /// The marks of the file between which it lies, if the file has any.
    pub split_points: Option<(u32, u32)>,
}

impl Segment {
    /// The bytes of `file`, a file of its member, that belong to it: from the first to behind the last.
    pub(crate) fn range_in(&self, file: &InputFile) -> (u64, u64) {
        let at = |mark: u32| file.layout.split_points[mark as usize].at;
        self.split_points.map_or((self.from, self.until), |(begin, end)| (at(begin), at(end)))
    }

    /// The number of its first record in its file or bucket, if known without reading what comes before.
    pub(crate) fn first_record(&self, stream: &Stream) -> Option<u64> {
        match (self.split_points, stream.records(self.member)) {
            (Some((begin, _)), _) => {
                stream.file(self.member).map(|file| file.layout.split_points[begin as usize].record)
            }
            (None, RecordFraming::Fixed(record_bytes)) => self.from.checked_div(u64::from(record_bytes)),
            (None, _) => (self.from == 0).then_some(0),
        }
    }
}

/// Cuts `stream` for `spes` SPEs into segments of `bounds.0` to `bounds.1` bytes. Each bucket is one segment.
///
/// An empty file of fixed records or lines has no segment. An empty file that is one record (`file`) has one empty
/// segment, because the function must be called once for each record.
///
/// # Errors
/// [`SphereError::PartialRecord`] if a file does not hold whole records, [`SphereError::TooManySegments`].
pub fn cut(stream: &Stream, spes: u32, bounds: (u64, u64)) -> Result<Vec<Segment>, SphereError> {
    let total_bytes: u64 = (0..stream.len()).fold(0, |sum, at| sum.saturating_add(stream.bytes(at)));
    let nominal_bytes = (total_bytes / u64::from(spes.max(1))).clamp(bounds.0, bounds.1);
    let mut segments = Vec::new();
    for member in 0..stream.len() {
        if let Some(file) = stream.file(member).filter(|file| !file.layout.split_points.is_empty()) {
            cut_at_split_points(file, member, nominal_bytes, bounds, &mut segments)?;
            continue;
        }
        let bytes = stream.bytes(member);
        // The unit that must not be split.
        let unit_bytes = match stream.records(member) {
            _ if stream.is_pinned() => bytes.max(1),
            RecordFraming::File => bytes.max(1),
            RecordFraming::Index | RecordFraming::Parquet => {
                return Err(SphereError::NoLayout { path: stream.path(member), records: stream.records(member) });
            }
            RecordFraming::Lines => 1,
            RecordFraming::Fixed(record_bytes) => {
                let unit_bytes = u64::from(record_bytes.max(1));
                if !bytes.is_multiple_of(unit_bytes) {
                    return Err(SphereError::PartialRecord { path: stream.path(member), bytes, record_bytes });
                }
                unit_bytes
            }
        };
        let units = bytes / unit_bytes;
        let parts = part_count(units, unit_bytes, nominal_bytes, bounds);
        let empty_record = bytes == 0 && !stream.is_pinned() && stream.records(member) == RecordFraming::File;
        for part in 0..if empty_record { 1 } else { parts } {
            // Parts differ by at most one unit. `units * part` is at most 2^44 * 2^44, so it is computed in 128 bits.
            let edge =
                |part: u64| (u128::from(units) * u128::from(part) / u128::from(parts.max(1))) as u64 * unit_bytes;
            let (from, until) = (edge(part), edge(part + 1));
            let number = segments.len() as u64;
            segments.push(Segment { number, member, from, until, bytes: until - from, split_points: None });
        }
        bounded(&segments)?;
    }
    Ok(segments)
}

/// Cuts a file at its marks. A file that is one record, and a Parquet file, is cut at each of them. Otherwise segments
/// come as near to the same size as marks allow. They are never larger than S_max unless the bytes between two marks
/// are.
fn cut_at_split_points(
    file: &InputFile,
    member: usize,
    nominal_bytes: u64,
    bounds: (u64, u64),
    segments: &mut Vec<Segment>,
) -> Result<(), SphereError> {
    let last = file.layout.split_points.len() - 1;
    let bytes = file.bytes_to_split_point(last);
    let step = bytes.div_ceil(part_count(bytes, 1, nominal_bytes, bounds).max(1));
    let each = matches!(file.records, RecordFraming::File | RecordFraming::Parquet);
    let mut begin = 0;
    while begin < last {
        let before = file.bytes_to_split_point(begin);
        let end = if each {
            begin + 1
        } else {
            let first_from =
                |goal: u64| begin + 1 + partition(begin + 1..=last, |mark| file.bytes_to_split_point(mark) < goal);
            let wished = first_from(before.saturating_add(step)).min(last);
            let most = first_from(before.saturating_add(bounds.1).saturating_add(1)) - 1;
            wished.min(most).max(begin + 1)
        };
        let (from, until) = (file.layout.split_points[begin].at, file.layout.split_points[end].at);
        let bytes = file.bytes_to_split_point(end) - before;
        let (number, marks) = (segments.len() as u64, Some((begin as u32, end as u32)));
        segments.push(Segment { number, member, from, until, bytes, split_points: marks });
        bounded(segments)?;
        begin = end;
    }
    Ok(())
}

/// How many of `marks`, which are in order, come before the first for which `is_before` does not hold.
fn partition(marks: std::ops::RangeInclusive<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (first, mut low, mut high) = (*marks.start(), *marks.start(), *marks.end() + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low - first
}

fn bounded(segments: &[Segment]) -> Result<(), SphereError> {
    if segments.len() > SEGMENTS_MAX {
        return Err(SphereError::TooManySegments { most: SEGMENTS_MAX });
    }
    Ok(())
}

/// Into how many equal parts a file of `units` units is cut. None is larger than the nominal size if that leaves them
/// at least S_min. None is ever larger than S_max unless a single unit is.
fn part_count(units: u64, unit_bytes: u64, nominal_bytes: u64, bounds: (u64, u64)) -> u64 {
    let bytes = units * unit_bytes;
    let mut parts = bytes.div_ceil(nominal_bytes);
    if parts > 1 && bytes / parts < bounds.0 {
        parts = (bytes / bounds.0).max(1);
    }
    let units_max = (bounds.1 / unit_bytes).max(1);
    parts.max(units.div_ceil(units_max)).min(units)
}

/// Most segments of one stage: at about 270 bytes each they take the driver 1.1 GB; 4 million of 128 MB are 512 TB.
pub const SEGMENTS_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use protocol::SliceId;

    use super::*;
    use crate::stream::{FileLayout, SplitPoint};

    fn files(files: &[(u64, RecordFraming)]) -> Stream {
        let file = |(at, (bytes, records)): (usize, &(u64, RecordFraming))| InputFile {
            path: format!("/f{at}").parse().unwrap(),
            slice: SliceId(at as u128),
            bytes: *bytes,
            records: *records,
            nodes: vec![],
            layout: FileLayout::default(),
        };
        Stream::Files(Arc::new(files.iter().enumerate().map(file).collect()))
    }

    fn cuts(stream: &Stream, spes: u32, bounds: (u64, u64)) -> Vec<(usize, u64, u64)> {
        cut(stream, spes, bounds).unwrap().iter().map(|s| (s.member, s.from, s.until)).collect()
    }

    #[test]
    fn the_average_per_spe_decides_within_the_bounds() {
        let stream = files(&[(1000, RecordFraming::Fixed(10))]);
        assert_eq!(cuts(&stream, 4, (10, 1000)).len(), 4);
        assert_eq!(cuts(&stream, 4, (10, 100)).len(), 10);
        assert_eq!(cuts(&stream, 4, (500, 1000)).len(), 2);
        assert_eq!(cuts(&stream, 1, (10, 5000)), [(0, 0, 1000)]);
    }

    #[test]
    fn a_rest_below_the_smallest_segment_is_not_left_over() {
        let stream = files(&[(9, RecordFraming::Lines)]);
        assert_eq!(cuts(&stream, 9, (8, 128)), [(0, 0, 9)]);
        assert_eq!(cuts(&stream, 9, (4, 128)), [(0, 0, 4), (0, 4, 9)]);
    }

    #[test]
    fn a_record_larger_than_the_largest_segment_is_still_whole() {
        let stream = files(&[(300, RecordFraming::Fixed(100)), (50, RecordFraming::File)]);
        assert_eq!(cuts(&stream, 8, (1, 10)), [(0, 0, 100), (0, 100, 200), (0, 200, 300), (1, 0, 50)]);
    }

    #[test]
    fn a_file_with_half_a_record_is_refused_by_name() {
        let stream = files(&[(100, RecordFraming::Fixed(10)), (105, RecordFraming::Fixed(10))]);
        let error = cut(&stream, 1, (1, 1000)).unwrap_err();
        assert_eq!(error, SphereError::PartialRecord { path: "/f1".parse().unwrap(), bytes: 105, record_bytes: 10 });
    }

    #[test]
    fn an_empty_file_has_a_segment_only_where_it_is_a_record() {
        let stream = files(&[(0, RecordFraming::Fixed(10)), (0, RecordFraming::Lines), (0, RecordFraming::File)]);
        assert_eq!(cuts(&stream, 3, (1, 10)), [(2, 0, 0)]);
    }

    /// A file with records of these lengths, marked at each, and one beside it with records of other lengths.
    fn marked(records: RecordFraming, lengths: &[u64], beside: Option<&[u64]>) -> Stream {
        let file = |lengths: &[u64], beside: Vec<InputFile>| {
            let mut marks = vec![SplitPoint { record: 0, at: 0 }];
            for (record, length) in (1..).zip(lengths) {
                marks.push(SplitPoint { record, at: marks[marks.len() - 1].at + length });
            }
            InputFile {
                path: "/m".parse().unwrap(),
                slice: SliceId(0),
                bytes: lengths.iter().sum(),
                records,
                nodes: vec![],
                layout: FileLayout { split_points: marks, locator: None, zipped: beside },
            }
        };
        let beside = beside.map(|lengths| file(lengths, vec![])).into_iter().collect();
        Stream::Files(Arc::new(vec![file(lengths, beside)]))
    }

    #[test]
    fn a_file_with_marks_is_cut_at_them_alone() {
        let stream = marked(RecordFraming::Index, &[10, 10, 70, 10, 10, 10], None);
        assert_eq!(cuts(&stream, 3, (1, 1000)), [(0, 0, 90), (0, 90, 120)]);
        assert_eq!(cuts(&stream, 1, (1, 1000)), [(0, 0, 120)]);
        assert_eq!(cuts(&stream, 1, (1, 80)), [(0, 0, 20), (0, 20, 90), (0, 90, 120)], "S_max is kept");
        assert_eq!(
            cuts(&stream, 1, (1, 20)),
            [(0, 0, 20), (0, 20, 90), (0, 90, 110), (0, 110, 120)],
            "but for one record"
        );
    }

    #[test]
    fn each_row_group_is_a_segment_and_each_pair_of_files_too() {
        for records in [RecordFraming::Parquet, RecordFraming::File] {
            let stream = marked(records, &[500, 1, 30], Some(&[0, 0, 7]));
            let segments = cut(&stream, 1, (100, 100)).unwrap();
            let shape: Vec<_> = segments.iter().map(|s| (s.from, s.until, s.bytes, s.split_points)).collect();
            assert_eq!(shape, [(0, 500, 500, Some((0, 1))), (500, 501, 1, Some((1, 2))), (501, 531, 37, Some((2, 3)))]);
        }
    }

    #[test]
    fn a_format_that_needs_marks_is_refused_without_them() {
        let error = cut(&files(&[(7, RecordFraming::Index)]), 1, (1, 10)).unwrap_err();
        assert!(error.to_string().contains("/f0"), "{error}");
    }

    fn any_file() -> impl Strategy<Value = (u64, RecordFraming)> {
        prop_oneof![
            (0..5_000_u64).prop_map(|bytes| (bytes, RecordFraming::File)),
            (0..5_000_u64).prop_map(|bytes| (bytes, RecordFraming::Lines)),
            (1..300_u32, 0..200_u64).prop_map(|(r, n)| (u64::from(r) * n, RecordFraming::Fixed(r))),
        ]
    }

    proptest! {
        #[test]
        fn segments_cover_every_file_exactly_in_order_and_in_whole_records(
            list in prop::collection::vec(any_file(), 1..8), spes in 1..20_u32, min in 1..400_u64, more in 0..800_u64,
        ) {
            let stream = files(&list);
            let segments = cut(&stream, spes, (min, min + more)).unwrap();
            let mut next = vec![0_u64; list.len()];
            let mut last = 0;
            for (at, segment) in segments.iter().enumerate() {
                prop_assert_eq!(segment.number, at as u64);
                prop_assert!(segment.member >= last, "in stream order");
                last = segment.member;
                prop_assert_eq!(segment.from, next[last]);
                next[last] = segment.until;
                let (bytes, records) = list[last];
                prop_assert!(segment.bytes > 0 || (bytes == 0 && records == RecordFraming::File));
                if let RecordFraming::Fixed(record) = records {
                    prop_assert_eq!(segment.from % u64::from(record), 0);
                    prop_assert!(segment.bytes <= (min + more).max(u64::from(record)));
                }
                if records == RecordFraming::Lines {
                    prop_assert!(segment.bytes <= min + more);
                }
            }
            for (end, (bytes, _)) in next.iter().zip(&list) {
                prop_assert_eq!(end, bytes);
            }
        }

        // Promise 20.
        #[test]
        fn segments_cover_all_marks_in_order_whatever_is_beside(
            lengths in prop::collection::vec((0..60_u64, 0..60_u64), 1..80), spes in 1..9_u32, min in 1..100_u64, more in 0..200_u64,
        ) {
            let (first, second): (Vec<u64>, Vec<u64>) = lengths.iter().copied().unzip();
            let stream = marked(RecordFraming::Index, &first, Some(&second));
            let segments = cut(&stream, spes, (min, min + more)).unwrap();
            let mut next = 0;
            for segment in &segments {
                let (begin, end) = segment.split_points.unwrap();
                prop_assert_eq!(begin, next);
                prop_assert!(end > begin);
                next = end;
                let (begin, end) = (begin as usize, end as usize);
                let sum = |part: &[u64]| part[begin..end].iter().sum::<u64>();
                prop_assert_eq!((segment.until - segment.from, segment.bytes), (sum(&first), sum(&first) + sum(&second)));
                prop_assert!(end == begin + 1 || segment.bytes <= min + more);
            }
            prop_assert_eq!(next as usize, lengths.len());
        }

        #[test]
        fn no_segment_is_smaller_than_wished_when_the_bounds_leave_room(bytes in 1..100_000_u64, min in 1..500_u64) {
            let stream = files(&[(bytes, RecordFraming::Lines)]);
            for segment in cut(&stream, 64, (min, 2 * min)).unwrap() {
                prop_assert!(segment.bytes >= min.min(bytes), "{segment:?}");
            }
        }
    }
}
