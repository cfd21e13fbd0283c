//! `teravalidate`: whether records are sorted, and a sum over them that a sort must not change. Serves
//! `sector oct terasort validate`. Segments are checked where they lie, and their reports are combined here. It never
//! sorts or repairs anything.

use std::{fmt, str::FromStr};

use udf::{FunctionError, Input, Output};

use crate::{
    checksum::record_hash,
    escape::{push_escaped, unescape},
    sorting::{
        cuts::{from_hex, to_hex},
        key::KeyRange,
    },
};

/// The report of `teravalidate` on one segment: a line of fields separated by tabs. The fields are path, first byte,
/// records, checksum, first key, last key (`-` for both where there is no record) and `yes` or `no`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCheck {
    /// Path of the file.
    pub path: String,
    /// Where in the file the segment begins, in bytes.
    pub from: u64,
    /// Number of records.
    pub records: u64,
    /// Sum of the records' 64-bit hashes, modulo 2⁶⁴.
    pub checksum: u64,
    /// First and last key; `None` without a record.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether no key is below the one before it.
    pub sorted: bool,
}

/// The combined result of all segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TotalCheck {
    /// Number of records.
    pub records: u64,
    /// Sum of the records' 64-bit hashes, modulo 2⁶⁴.
    pub checksum: u64,
    /// Whether each segment is sorted and none begins below the end of the one before it.
    pub sorted: bool,
    /// Where the order is first broken.
    pub unsorted_at: Option<String>,
}

impl TotalCheck {
    /// Combines segments, in the order of their paths and of their offsets in the files.
    pub fn of(mut segments: Vec<SegmentCheck>) -> Self {
        segments.sort_by(|a, b| (&a.path, a.from).cmp(&(&b.path, b.from)));
        let mut total = Self { records: 0, checksum: 0, sorted: true, unsorted_at: None };
        let mut end: Option<&[u8]> = None;
        for segment in &segments {
            total.records += segment.records;
            total.checksum = total.checksum.wrapping_add(segment.checksum);
            let mut problem = (!segment.sorted).then_some("within");
            if let Some((first, last)) = &segment.keys {
                if end.is_some_and(|end| first.as_slice() < end) {
                    problem = Some("at the beginning of");
                }
                end = Some(last);
            }
            if let (true, Some(place)) = (total.sorted, problem) {
                total.sorted = false;
                total.unsorted_at = Some(format!("{place} the segment of {} from byte {}", segment.path, segment.from));
            }
        }
        total
    }
}

/// Emits the [`SegmentCheck`] of the segment to bucket 0. Parameter `key`.
pub(crate) fn teravalidate(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let (key, record_bytes) = KeyRange::of_fixed("teravalidate", input)?;
    let mut check = SegmentCheck {
        path: input.path().to_owned(),
        from: input.from(),
        records: 0,
        checksum: 0,
        keys: None,
        sorted: true,
    };
    let mut keys: Option<(&[u8], &[u8])> = None;
    let mut done = 0;
    for record in input.bytes().chunks_exact(record_bytes) {
        let this = &record[key.offset..key.offset + key.length];
        let (first, last) = keys.unwrap_or((this, this));
        check.sorted &= last <= this;
        keys = Some((first, this));
        check.checksum = check.checksum.wrapping_add(record_hash(record));
        check.records += 1;
        done += record_bytes as u64;
        if done % PROGRESS_BYTES < record_bytes as u64 {
            output.progress(done);
        }
    }
    check.keys = keys.map(|(first, last)| (first.to_vec(), last.to_vec()));
    output.emit(0, format!("{check}\n").as_bytes())?;
    Ok(())
}

impl fmt::Display for SegmentCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = Vec::new();
        push_escaped(&self.path, &mut path);
        let (first, last) = match &self.keys {
            Some((first, last)) => (to_hex(first), to_hex(last)),
            None => ("-".into(), "-".into()),
        };
        let Self { from, records, checksum, .. } = self;
        let sorted = if self.sorted { "yes" } else { "no" };
        // Escaping only adds ASCII to what was UTF-8.
        let path = String::from_utf8_lossy(&path);
        write!(f, "{path}\t{from}\t{records}\t{checksum:016x}\t{first}\t{last}\t{sorted}")
    }
}

impl FromStr for SegmentCheck {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let error = || format!("`{}` is not a line of teravalidate", line.chars().take(120).collect::<String>());
        let fields: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
        let [path, from, records, checksum, first, last, sorted] = fields[..] else { return Err(error()) };
        let key = |text: &str| from_hex(text).map_err(|_| error());
        Ok(Self {
            path: unescape(path.as_bytes()).and_then(|path| String::from_utf8(path).ok()).ok_or_else(error)?,
            from: from.parse().map_err(|_| error())?,
            records: records.parse().map_err(|_| error())?,
            checksum: u64::from_str_radix(checksum, 16).map_err(|_| error())?,
            keys: if (first, last) == ("-", "-") { None } else { Some((key(first)?, key(last)?)) },
            sorted: match sorted {
                "yes" => true,
                "no" => false,
                _ => return Err(error()),
            },
        })
    }
}

/// Progress is told about every so many bytes.
const PROGRESS_BYTES: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::RecordFormat;

    use super::*;
    use crate::testing::{run, run_on};

    fn checked(bytes: &[u8], path: &str, from: u64) -> SegmentCheck {
        let input = Input::new(bytes, RecordFormat::Fixed(100)).at(path, 0, from);
        let result = run_on("teravalidate", input, &[]).unwrap();
        std::str::from_utf8(result.bucket(0)).unwrap().parse().unwrap()
    }

    fn records(numbers: &str) -> Vec<u8> {
        run("teragen", numbers.as_bytes(), RecordFormat::Lines, 1, &[]).unwrap().bucket(0).to_vec()
    }

    #[test]
    fn a_sort_keeps_the_checksum_and_makes_the_order() {
        let bytes = records("0 2000 5");
        let before = checked(&bytes, "/a b", 300);
        assert!(!before.sorted && before.records == 2_000 && before.path == "/a b" && before.from == 300);
        let sorted = run("sort", &bytes, RecordFormat::Fixed(100), 1, &[]).unwrap();
        let after = checked(sorted.bucket(0), "/a b", 300);
        assert_eq!((after.sorted, after.checksum, after.records), (true, before.checksum, 2_000));
        let mut broken = sorted.bucket(0).to_vec();
        broken[150_050] ^= 1;
        assert_ne!(checked(&broken, "/a b", 300).checksum, before.checksum);
        broken.copy_within(0..100, 100);
        assert_ne!(checked(&broken, "/a b", 300).checksum, before.checksum);
    }

    #[test]
    fn segments_are_put_together_in_the_order_of_their_files() {
        let bytes = records("0 3000 6");
        let sorted = run("sort", &bytes, RecordFormat::Fixed(100), 1, &[]).unwrap().bucket(0).to_vec();
        let (a, rest) = sorted.split_at(100_000);
        let (b, c) = rest.split_at(70_000);
        let whole = checked(&sorted, "/x", 0);
        let right = vec![
            checked(c, "/part-1", 0),
            checked(b, "/part-0", 100_000),
            checked(a, "/part-0", 0),
            checked(b"", "/part-2", 0),
        ];
        let total = TotalCheck::of(right);
        let expected = TotalCheck { records: 3_000, checksum: whole.checksum, sorted: true, unsorted_at: None };
        assert_eq!(total, expected);
        let wrong = TotalCheck::of(vec![checked(b, "/0", 0), checked(b"", "/1", 0), checked(a, "/2", 0)]);
        assert_eq!(wrong.unsorted_at.as_deref(), Some("at the beginning of the segment of /2 from byte 0"));
        let wrong = TotalCheck::of(vec![checked(&bytes, "/0", 7)]);
        assert_eq!(wrong.unsorted_at.as_deref(), Some("within the segment of /0 from byte 7"));
    }

    #[test]
    fn lines_print_and_parse_and_others_are_refused() {
        let empty = checked(b"", "/with\ttab", 0);
        assert_eq!((empty.records, &empty.keys, empty.sorted), (0, &None, true));
        assert_eq!(empty.to_string().parse(), Ok(empty));
        let line = "/a\t0\t1\t00000000000000ff\t0a\t0b\tyes";
        assert_eq!(line.parse::<SegmentCheck>().unwrap().to_string(), line);
        for (from, to) in [("yes", "maybe"), ("0a", "zz"), ("ff", "fg"), ("\t1\t", "\tone\t"), ("\t", " ")] {
            assert!(line.replacen(from, to, 1).parse::<SegmentCheck>().is_err(), "{from} → {to}");
        }
    }
}
