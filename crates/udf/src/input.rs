//! What a function sees: one segment. Serves the path *job*; it never copies the segment's bytes, which lie in the
//! page cache of the node that holds the slice.

use std::{fmt, str::FromStr};

use crate::{FunctionError, Records};

/// One segment: whole records of one file, with the parameters of the job.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    bytes: &'a [u8],
    format: RecordFormat,
    path: &'a str,
    segment: u64,
    from: u64,
    buckets: u32,
    parameters: &'a dyn Parameters,
    starts: &'a [u64],
    beside: &'a [Beside<'a>],
    side: &'a dyn SideFiles,
}

impl<'a> Input<'a> {
    /// A segment of these bytes, at the path `/`, with one bucket and no parameters: for hosts and for tests.
    pub fn new(bytes: &'a [u8], format: RecordFormat) -> Self {
        Self {
            bytes,
            format,
            path: "/",
            segment: 0,
            from: 0,
            buckets: 1,
            parameters: &NoParameters,
            starts: &[],
            beside: &[],
            side: &NoSideFiles,
        }
    }

    /// The same segment at a place. The arguments are the file's path, the segment's number in the stage's input, and
    /// the offset of its first byte in the file.
    #[must_use]
    pub fn at(self, path: &'a str, segment: u64, from: u64) -> Self {
        Self { path, segment, from, ..self }
    }

    /// The same segment with another number of buckets (at least 1).
    #[must_use]
    pub fn with_buckets(self, buckets: u32) -> Self {
        Self { buckets: buckets.max(1), ..self }
    }

    /// The same segment with parameters.
    #[must_use]
    pub fn with_parameters(self, parameters: &'a dyn Parameters) -> Self {
        Self { parameters, ..self }
    }

    /// The same segment with the starts of its records, for [`RecordFormat::Index`]: as in an index, little-endian.
    #[must_use]
    pub fn with_starts(self, starts: &'a [u64]) -> Self {
        Self { starts, ..self }
    }

    /// The same segment with its parts of further input streams.
    #[must_use]
    pub fn with_beside(self, beside: &'a [Beside<'a>]) -> Self {
        Self { beside, ..self }
    }

    /// The same segment with side files.
    #[must_use]
    pub fn with_side_files(self, side: &'a dyn SideFiles) -> Self {
        Self { side, ..self }
    }

    /// The parts of the job's further input streams that belong to the segment, in the order of the streams. Where
    /// streams are aligned by record, a part has as many records as the segment. Where they are aligned by file, it
    /// is a whole file.
    pub fn beside(&self) -> &'a [Beside<'a>] {
        self.beside
    }

    /// For [`RecordFormat::Index`], the offset in the file at which each record begins, followed by where the last
    /// one ends. The numbers are little-endian, as in the index ([`u64::from_le`]). Empty for other formats.
    pub fn starts(&self) -> &'a [u64] {
        self.starts
    }

    /// All bytes of the segment.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The records of the segment; lines come without their `\n`. For fixed records, bytes at the end that do not
    /// fill a record are left out; the host never gives such a segment.
    pub fn records(&self) -> Records<'a> {
        Records::new(self.bytes, self.format, self.starts, false)
    }

    /// The records of the segment as stored: lines with their `\n`, which the last line of a file may lack.
    pub fn whole_records(&self) -> Records<'a> {
        Records::new(self.bytes, self.format, self.starts, true)
    }

    /// How the bytes fall into records.
    pub fn format(&self) -> RecordFormat {
        self.format
    }

    /// The path of the file in Sector.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// The segment's number in the stage's input, from 0.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// Where in the file the segment begins, in bytes.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// Number of buckets of the output, at least 1.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The value of a parameter (`--param NAME=VALUE`), if it was given.
    pub fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.find(name)
    }

    /// The value of a parameter that must be given.
    pub fn required_parameter(&self, name: &str) -> Result<&'a str, FunctionError> {
        self.parameter(name).ok_or_else(|| {
            FunctionError::new(format!("the parameter `{name}` is missing: give it with `--param {name}=…`"))
        })
    }

    /// The bytes of a side file (`--side NAME=PATH`), if it was given. They are the same in every call; the node
    /// caches them.
    pub fn side_file(&self, name: &str) -> Option<&'a [u8]> {
        self.side.find(name)
    }

    /// The bytes of a side file that must be given.
    pub fn required_side_file(&self, name: &str) -> Result<&'a [u8], FunctionError> {
        self.side_file(name).ok_or_else(|| {
            FunctionError::new(format!("the side file `{name}` is missing: give it with `--side {name}=PATH`"))
        })
    }

    /// The value of a parameter as another type, or `otherwise` if it was not given.
    pub fn parsed_parameter<T>(&self, name: &str, otherwise: T) -> Result<T, FunctionError>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        let Some(text) = self.parameter(name) else { return Ok(otherwise) };
        text.parse().map_err(|error| FunctionError::new(format!("the parameter `{name}` cannot be `{text}`: {error}")))
    }
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("path", &self.path)
            .field("segment", &self.segment)
            .field("from", &self.from)
            .field("bytes", &self.bytes.len())
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// How the bytes of a segment fall into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// The whole file is one record, and one segment.
    File,
    /// Records of the same length, in bytes.
    Fixed(u32),
    /// Lines that end with `\n`; the last of a file may lack it.
    Lines,
    /// Records of any length, whose bounds are in an index.
    Index,
}

/// The part of a further input stream that belongs to a segment: whole records of one file.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// How they fall into records.
    pub format: RecordFormat,
    /// The path of the file in Sector.
    pub path: &'a str,
    /// Where in the file they begin, in bytes.
    pub from: u64,
    /// As [`Input::starts`].
    pub starts: &'a [u64],
}

impl<'a> Beside<'a> {
    /// Its records; lines come without their `\n`.
    pub fn records(&self) -> Records<'a> {
        Records::new(self.bytes, self.format, self.starts, false)
    }
}

/// The parameters of a job, by name.
pub trait Parameters {
    /// The value of `name`, if it was given.
    fn find(&self, name: &str) -> Option<&str>;
}

impl Parameters for Vec<(String, String)> {
    /// The last one wins, as on a command line.
    fn find(&self, name: &str) -> Option<&str> {
        self.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The side files of a stage, by name.
pub trait SideFiles {
    /// The bytes of the file `name`, if it was given.
    fn find(&self, name: &str) -> Option<&[u8]>;
}

impl SideFiles for Vec<(String, Vec<u8>)> {
    fn find(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(key, _)| key == name).map(|(_, bytes)| bytes.as_slice())
    }
}

/// No side files at all.
struct NoSideFiles;

impl SideFiles for NoSideFiles {
    fn find(&self, _: &str) -> Option<&[u8]> {
        None
    }
}

/// No parameters at all.
struct NoParameters;

impl Parameters for NoParameters {
    fn find(&self, _: &str) -> Option<&str> {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_parameter_is_found_parsed_or_named_in_the_error() {
        let parameters: Vec<(String, String)> = vec![("every".into(), "x".into()), ("every".into(), "10".into())];
        let input = Input::new(b"", RecordFormat::File).with_parameters(&parameters);
        assert_eq!(input.parsed_parameter("every", 1u32).unwrap(), 10);
        assert_eq!(input.parsed_parameter("other", 1u32).unwrap(), 1);
        assert!(input.required_parameter("cuts").unwrap_err().message().contains("--param cuts"));
        let error = input.parsed_parameter::<bool>("every", true).unwrap_err();
        assert!(error.message().starts_with("the parameter `every` cannot be `10`"), "{error}");
    }

    #[test]
    fn a_side_file_is_found_or_named_in_the_error() {
        let side: Vec<(String, Vec<u8>)> = vec![("words".into(), b"a b".to_vec()), ("none".into(), vec![])];
        let input = Input::new(b"", RecordFormat::File).with_side_files(&side);
        assert_eq!((input.side_file("words"), input.side_file("none")), (Some(&b"a b"[..]), Some(&b""[..])));
        assert_eq!(input.required_side_file("words").unwrap(), b"a b");
        let error = input.required_side_file("centres").unwrap_err();
        assert!(error.message().contains("--side centres="), "{error}");
        assert_eq!(Input::new(b"", RecordFormat::File).side_file("words"), None);
    }
}
