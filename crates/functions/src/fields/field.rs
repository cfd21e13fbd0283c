//! A field by which records are chosen, grouped or reduced: bytes at an offset, a column of a line, or the whole
//! record. Serves `hash`, `filter`, `group` and `reduce`; it never copies a record.

use std::str::FromStr;

use udf::{FunctionError, Input, RecordFormat};

use crate::sorting::key::KeyRange;

/// Where in each record of a segment a field lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    place: Place,
    separator: Separator,
}

/// One record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Its number in the segment, from 0.
    pub(crate) number: u64,
    /// Its bytes; a line without its end.
    pub(crate) content: &'a [u8],
}

/// What separates the columns of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// This byte: two in a row have an empty column between them.
    Byte(u8),
    /// Blanks and tabs, as many as there are; those before the first column do not count.
    Blanks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Whole,
    Range(KeyRange),
    /// A column, from 1.
    Column(usize),
}

impl Field {
    /// The parameter `key` of a function. Without it, the key of a fixed record is terasort's, of a line its first
    /// column, and of an indexed record all its bytes.
    pub(crate) fn key(function: &str, input: &Input<'_>) -> Result<Self, FunctionError> {
        Self::of(function, input, "key", Place::Column(1))
    }

    /// The parameter `key` of a function that looks at the whole record by default.
    pub(crate) fn key_or_all(function: &str, input: &Input<'_>) -> Result<Self, FunctionError> {
        match input.parameter("key") {
            Some(_) => Self::key(function, input),
            None => {
                records_wanted(function, input)?;
                Ok(Self { place: Place::Whole, separator: Separator::of(input)? })
            }
        }
    }

    /// The parameter `value` of a function over lines: the second column where it is not given.
    pub(crate) fn value(function: &str, input: &Input<'_>) -> Result<Self, FunctionError> {
        Self::of(function, input, "value", Place::Column(2))
    }

    fn of(function: &str, input: &Input<'_>, parameter: &str, of_lines: Place) -> Result<Self, FunctionError> {
        records_wanted(function, input)?;
        let separator = Separator::of(input)?;
        let place = match input.format() {
            RecordFormat::Fixed(_) => Place::Range(KeyRange::of_fixed(function, input)?.0),
            RecordFormat::Lines => input.parsed_parameter(parameter, of_lines)?,
            RecordFormat::Index | RecordFormat::File => input.parsed_parameter(parameter, Place::Whole)?,
        };
        if matches!(place, Place::Column(_)) && input.format() != RecordFormat::Lines {
            return Err(FunctionError::new(format!(
                "the parameter `{parameter}` names a column, which only lines have"
            )));
        }
        Ok(Self { place, separator })
    }

    /// The field of a record. The error names the record.
    pub(crate) fn find<'a>(&self, record: Record<'a>) -> Result<&'a [u8], FunctionError> {
        let content = record.content;
        match self.place {
            Place::Whole => Ok(content),
            Place::Range(range) => range.of(content).ok_or_else(|| {
                let (bytes, KeyRange { offset, length }) = (content.len(), range);
                record.error(format!("the record has {bytes} bytes, too few for the key {offset}:{length}"))
            }),
            Place::Column(column) => self.separator.column(content, column).ok_or_else(|| {
                let there = (1..column).take_while(|at| self.separator.column(content, *at).is_some()).count();
                record.error(format!("the line has no column {column}: its columns are {there}"))
            }),
        }
    }

    /// The separator between columns, for lines that are written.
    pub(crate) fn separator(&self) -> u8 {
        match self.separator {
            Separator::Byte(byte) => byte,
            Separator::Blanks => b' ',
        }
    }
}

impl Record<'_> {
    /// An error of this record.
    pub(crate) fn error(&self, message: impl Into<String>) -> FunctionError {
        FunctionError::new(message).at_record(self.number)
    }
}

/// The records of a segment, with their numbers.
pub(crate) fn records<'a>(input: &Input<'a>) -> impl Iterator<Item = Record<'a>> + use<'a> {
    (0..).zip(input.records()).map(|(number, content)| Record { number, content })
}

impl Separator {
    fn of(input: &Input<'_>) -> Result<Self, FunctionError> {
        input.parsed_parameter("separator", Self::Byte(b'\t'))
    }

    /// A column of a line, from 1; `None` where the line has fewer.
    fn column(self, line: &[u8], column: usize) -> Option<&[u8]> {
        match self {
            Self::Byte(byte) => line.split(|other| *other == byte).nth(column.checked_sub(1)?),
            Self::Blanks => {
                let columns = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|column| !column.is_empty());
                columns.into_iter().nth(column.checked_sub(1)?)
            }
        }
    }
}

impl FromStr for Separator {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.as_bytes()) {
            ("tab", _) => Ok(Self::Byte(b'\t')),
            ("blanks", _) => Ok(Self::Blanks),
            (_, [byte]) if *byte != b'\n' => Ok(Self::Byte(*byte)),
            _ => Err("it must be one character of ASCII, or `tab`, or `blanks`"),
        }
    }
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("column:").map(str::parse) {
            Some(Ok(column)) if column > 0 => Ok(Self::Column(column)),
            None => text.parse().map(Self::Range).map_err(|_| PLACES),
            Some(_) => Err(PLACES),
        }
    }
}

fn records_wanted(function: &str, input: &Input<'_>) -> Result<(), FunctionError> {
    match input.format() {
        RecordFormat::File => Err(FunctionError::new(format!(
            "`{function}` needs records: store its input with `--records fixed:BYTES` or `--records lines`; after another \
             stage, give `--result-records`"
        ))),
        RecordFormat::Fixed(_) | RecordFormat::Lines | RecordFormat::Index => Ok(()),
    }
}

/// How a field is written.
const PLACES: &str = "it must be column:N (from 1) or OFFSET:LENGTH in bytes, such as 0:10";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn key(line: &[u8], format: RecordFormat, parameters: &[(&str, &str)]) -> Result<Vec<u8>, String> {
        let parameters: Vec<(String, String)> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let input = Input::new(line, format).with_parameters(&parameters);
        let field = Field::key("f", &input).map_err(|error| error.to_string())?;
        field.find(records(&input).last().unwrap()).map(<[u8]>::to_vec).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_what_stands_between_separators() {
        let lines = |line: &str, parameters: &[(&str, &str)]| {
            key(line.as_bytes(), RecordFormat::Lines, parameters).map(|key| String::from_utf8(key).unwrap())
        };
        assert_eq!(lines("a b\tc\n", &[]).unwrap(), "a b");
        assert_eq!(lines("no tab\n", &[]).unwrap(), "no tab");
        assert_eq!(lines("a,,c", &[("separator", ","), ("key", "column:2")]).unwrap(), "");
        assert_eq!(lines("  a \t b ", &[("separator", "blanks"), ("key", "column:2")]).unwrap(), "b");
        assert_eq!(lines("abcdef", &[("key", "2:3")]).unwrap(), "cde");
        assert_eq!(
            lines("x\na\tb\n", &[("key", "column:4")]).unwrap_err(),
            "record 1: the line has no column 4: its columns are 2"
        );
        for text in ["column:0", "column:", "column:-1", "column", "0:0", ""] {
            assert!(lines("a", &[("key", text)]).unwrap_err().contains("column:N"), "{text}");
        }
        for text in ["", "ab", "\n", "ü"] {
            assert!(lines("a", &[("separator", text)]).unwrap_err().contains("one character"), "{text}");
        }
    }

    #[test]
    fn only_lines_have_columns_and_files_no_records() {
        assert_eq!(key(b"abcdef", RecordFormat::Fixed(3), &[("key", "1:2")]).unwrap(), b"ef");
        assert!(key(b"abcdef", RecordFormat::Fixed(3), &[("key", "column:1")]).is_err());
        let input = Input::new(b"", RecordFormat::File);
        assert!(Field::key_or_all("f", &input).unwrap_err().message().contains("--result-records"));
    }
}
