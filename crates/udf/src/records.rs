//! The records of a segment, one after the other. Serves the path *job*; it never looks beyond the segment: the host
//! has cut it at whole records.

use crate::RecordFormat;

/// The records of a segment. See [`Input::records`](crate::Input::records).
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    format: RecordFormat,
    with_line_ends: bool,
    /// Where in the file records begin and the last one ends, for [`RecordFormat::Index`]: those of the rest.
    starts: &'a [u64],
    /// A file is one record also when it is empty, so an empty rest alone does not say that it was given.
    file_given: bool,
}

impl<'a> Records<'a> {
    pub(crate) fn new(bytes: &'a [u8], format: RecordFormat, starts: &'a [u64], with_line_ends: bool) -> Self {
        Self { rest: bytes, format, with_line_ends, starts, file_given: false }
    }

    fn next_indexed(&mut self) -> Option<&'a [u8]> {
        let [start, end, ..] = self.starts else { return None };
        let length = usize::try_from(u64::from_le(*end).checked_sub(u64::from_le(*start))?).ok()?;
        let (record, rest) = self.rest.split_at_checked(length)?;
        (self.rest, self.starts) = (rest, &self.starts[1..]);
        Some(record)
    }

    fn next_fixed(&mut self, record_bytes: usize) -> Option<&'a [u8]> {
        if record_bytes == 0 || self.rest.len() < record_bytes {
            return None;
        }
        let (record, rest) = self.rest.split_at(record_bytes);
        self.rest = rest;
        Some(record)
    }

    fn next_line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let (line, rest) = self.rest.split_at(end.map_or(self.rest.len(), |end| end + 1));
        self.rest = rest;
        Some(if self.with_line_ends { line } else { line.strip_suffix(b"\n").unwrap_or(line) })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self.format {
            RecordFormat::File if self.file_given => None,
            RecordFormat::File => {
                self.file_given = true;
                Some(std::mem::take(&mut self.rest))
            }
            RecordFormat::Fixed(record_bytes) => self.next_fixed(record_bytes as usize),
            RecordFormat::Lines => self.next_line(),
            RecordFormat::Index => self.next_indexed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Input, RecordFormat};

    fn texts(bytes: &[u8], format: RecordFormat) -> (Vec<String>, Vec<String>) {
        let input = Input::new(bytes, format);
        let text = |record: &[u8]| String::from_utf8_lossy(record).into_owned();
        (input.records().map(text).collect(), input.whole_records().map(text).collect())
    }

    #[test]
    fn lines_lose_their_end_only_where_asked_and_the_last_may_lack_it() {
        let (without, with) = texts(b"a\n\nbc", RecordFormat::Lines);
        assert_eq!(without, ["a", "", "bc"]);
        assert_eq!(with, ["a\n", "\n", "bc"]);
        assert!(texts(b"", RecordFormat::Lines).0.is_empty());
    }

    #[test]
    fn a_file_is_one_record_even_when_it_is_empty() {
        assert_eq!(texts(b"a\nb", RecordFormat::File).0, ["a\nb"]);
        assert_eq!(texts(b"", RecordFormat::File).0, [""]);
    }

    #[test]
    fn indexed_records_lie_where_their_starts_say_and_none_is_made_up() {
        let starts = [100_u64, 103, 103, 104, 110].map(u64::to_le);
        let records = |bytes: &'static [u8]| {
            let input = Input::new(bytes, RecordFormat::Index).with_starts(&starts);
            input.records().map(|record| String::from_utf8_lossy(record).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(records(b"abcdefghij"), ["abc", "", "d", "efghij"]);
        assert_eq!(records(b"abcd"), ["abc", "", "d"], "what is not there is no record");
        assert!(Input::new(b"abc", RecordFormat::Index).records().next().is_none());
    }

    #[test]
    fn fixed_records_are_whole() {
        assert_eq!(texts(b"aabbc", RecordFormat::Fixed(2)).0, ["aa", "bb"]);
        assert!(texts(b"aabbc", RecordFormat::Fixed(0)).0.is_empty());
    }
}
