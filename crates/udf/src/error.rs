//! How a function reports that it cannot go on. Serves the path *job*. An error of a function is reported and not
//! retried (paper, 3.5.2); a closed output is the host's own affair. This file never decides whether a task is
//! retried.

use std::{error::Error, fmt};

/// Why a function could not process a segment: its own fault or its input's.
///
/// Any [`Error`] becomes one with `?`. That is possible because this type is not an `Error` itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionError {
    record: Option<u64>,
    message: String,
}

impl FunctionError {
    /// An error with its message: one sentence for the person who started the job.
    pub fn new(message: impl Into<String>) -> Self {
        Self { record: None, message: message.into() }
    }

    /// The same error, attributed to this record of the segment, from 0.
    #[must_use]
    pub fn at_record(self, record: u64) -> Self {
        Self { record: Some(record), ..self }
    }

    /// The record of the segment it belongs to, where known.
    pub fn record(&self) -> Option<u64> {
        self.record
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record {
            Some(record) => write!(f, "record {record}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl<E: Error> From<E> for FunctionError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// The output accepts no more: a full disk, or a job that was stopped. The function returns at once, with `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the output is closed")
    }
}

impl Error for Stopped {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_standard_library_becomes_a_function_error() {
        fn parse(text: &str) -> Result<u32, FunctionError> {
            Ok(text.parse()?)
        }
        assert_eq!(parse("7"), Ok(7));
        let error = parse("x").map_err(|error| error.at_record(3));
        assert_eq!(error.map_err(|error| error.to_string()), Err("record 3: invalid digit found in string".into()));
    }
}
