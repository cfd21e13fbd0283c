//! Where a record's key lies. Serves `partition`, `sort`, `sample`, `teravalidate` and fields of records. It never
//! copies a key.

use std::str::FromStr;

use udf::{FunctionError, Input, RecordFormat};

/// The bytes of a record that are its key: `offset:length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First byte of the key within the record.
    pub offset: usize,
    /// Length of the key in bytes, at least 1.
    pub length: usize,
}

impl KeyRange {
    /// Terasort's key: the first ten bytes.
    pub const TERASORT: Self = Self { offset: 0, length: 10 };

    /// The parameter `key` of a function over fixed records, and the length of these records.
    pub(crate) fn of_fixed(function: &str, input: &Input<'_>) -> Result<(Self, usize), FunctionError> {
        let RecordFormat::Fixed(record_bytes) = input.format() else {
            return Err(FunctionError::new(format!(
                "`{function}` needs records of a fixed length: store its input with `--records fixed:BYTES`"
            )));
        };
        let record_bytes = record_bytes as usize;
        let key = input.parsed_parameter("key", Self::TERASORT)?;
        if key.offset.saturating_add(key.length) > record_bytes {
            let KeyRange { offset, length } = key;
            return Err(FunctionError::new(format!(
                "the key {offset}:{length} does not fit a record of {record_bytes} bytes: give `key=OFFSET:LENGTH`"
            )));
        }
        Ok((key, record_bytes))
    }

    /// The key of a record; `None` if the record is too short.
    pub fn of<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset..self.offset.checked_add(self.length)?)
    }
}

impl FromStr for KeyRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = "it must be OFFSET:LENGTH in bytes, such as 0:10";
        let (offset, length) = text.split_once(':').ok_or(error)?;
        let (Ok(offset), Ok(length)) = (offset.parse(), length.parse()) else { return Err(error) };
        if length == 0 {
            return Err("a key has at least one byte");
        }
        Ok(Self { offset, length })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::run;

    #[test]
    fn a_key_is_read_and_must_fit_the_record() {
        assert_eq!("3:4".parse(), Ok(KeyRange { offset: 3, length: 4 }));
        assert_eq!(KeyRange { offset: 3, length: 4 }.of(b"abcdefgh"), Some(&b"defg"[..]));
        assert_eq!(KeyRange { offset: 3, length: 4 }.of(b"abcdef"), None);
        assert_eq!(KeyRange { offset: 1, length: usize::MAX }.of(b"abcdef"), None);
        for text in ["", "3", "3:", ":4", "a:b", "0:0", "-1:2"] {
            assert!(text.parse::<KeyRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn functions_over_fixed_records_refuse_other_formats_and_keys_beyond_the_record() {
        for name in ["partition", "sort", "sample", "teravalidate"] {
            let error = run(name, b"a\n", RecordFormat::Lines, 1, &[]).unwrap_err();
            assert!(error.message().contains("--records fixed"), "{name}: {error}");
            let error = run(name, b"", RecordFormat::Fixed(8), 1, &[]).unwrap_err();
            assert!(error.message().contains("does not fit a record of 8 bytes"), "{name}: {error}");
            let error = run(name, b"", RecordFormat::Fixed(8), 1, &[("key", "x")]).unwrap_err();
            assert!(error.message().contains("`key` cannot be `x`"), "{name}: {error}");
        }
    }
}
