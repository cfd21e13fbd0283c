//! The error slice of a job that went on although its function erred on some segments (path of a job; Sector/Sphere
//! paper, 3.5.2). It is a file of JSON lines beside the parts of the output, with one line for each missing segment. It
//! appears in the same step as the output, or not at all. It never holds more of the input than the first bytes of the
//! record that failed.

use std::io::Cursor;

use protocol::{JobId, RecordFraming, SectorPath};
use serde::{Deserialize, Serialize};
use sphere::{ErrorGroups, OutputFolder, SkippedSegment};

use super::context::Context;
use crate::{Client, ClientError, PutOptions};

/// One segment that was left out: a line of the error slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorLine {
    /// The stage, from 0.
    pub stage: u32,
    /// The function's name.
    pub function: String,
    /// The file, or the bucket of the stage before.
    pub slice: String,
    /// The segment's number in the stage's input, from 0.
    pub segment: u64,
    /// Where in the slice the segment begins, in bytes.
    pub from: u64,
    /// The first byte no longer part of it.
    pub until: u64,
    /// The number of its first record in the slice, if known without counting records.
    pub first_record: Option<u64>,
    /// The record that failed, counted from the segment's first; `None` if the function did not say.
    pub record: Option<u64>,
    /// The beginning of that record, with unprintable bytes escaped as in Rust and C (`\t`, `\xff`, `\\`).
    pub record_start: String,
    /// The message of the function, its traceback, or how it ended.
    pub message: String,
}

impl From<&SkippedSegment> for ErrorLine {
    fn from(left_out: &SkippedSegment) -> Self {
        let error = &left_out.error;
        Self {
            stage: left_out.stage,
            function: error.function.clone(),
            slice: error.path.to_string(),
            segment: error.segment,
            from: left_out.from,
            until: left_out.until,
            first_record: left_out.first_record,
            record: error.record,
            record_start: error.record_start.escape_ascii().to_string(),
            message: error.message.clone(),
        }
    }
}

/// The first of those errors that are alike, each with what precedes it for people: how many there are, and where.
pub fn alike(lines: &[ErrorLine]) -> Vec<(String, &ErrorLine)> {
    let mut groups = ErrorGroups::default();
    lines.iter().for_each(|line| groups.add(line.stage, &line.function, &line.message, line.segment));
    groups.groups().iter().filter_map(|group| Some((group.preface(), lines.get(group.first)?))).collect()
}

/// Writes the error slice of `run` beside its gathered parts; if these have moved on meanwhile, nowhere.
pub(super) async fn write(
    context: &Context,
    folder: &OutputFolder,
    run: u32,
    left_out: &[SkippedSegment],
) -> Result<(), ClientError> {
    let path = folder.gathered(context.job, run)?.join(ERROR_SLICE)?;
    let options = PutOptions {
        copies: context.copies,
        sync_copies: context.sync_copies,
        records: RecordFraming::Lines,
        ..PutOptions::default()
    };
    context.client.put(Cursor::new(text(left_out)?), &path, &options, &|_| ()).await?;
    Ok(())
}

/// All lines of the error slice.
fn text(left_out: &[SkippedSegment]) -> Result<String, ClientError> {
    let mut text = String::new();
    for left_out in left_out {
        let line = serde_json::to_string(&ErrorLine::from(left_out));
        // Numbers and texts can always be written as JSON.
        text += &line.map_err(|error| ClientError::Usage(format!("an error report cannot be written: {error}")))?;
        text.push('\n');
    }
    Ok(text)
}

impl Client {
    /// The content of a job's error slice, if the job went on without some segments; otherwise nothing.
    ///
    /// # Errors
    /// `NotFound` if the slice was removed or renamed since; `Usage` if another file is in its place.
    pub async fn job_errors(&self, job: JobId) -> Result<Vec<ErrorLine>, ClientError> {
        let Some(path) = self.job(job).await?.error_slice else { return Ok(vec![]) };
        let (_, bytes) = self.read(&path, None, Vec::new(), &|_| ()).await?;
        parse(&path, &bytes)
    }
}

fn parse(path: &SectorPath, bytes: &[u8]) -> Result<Vec<ErrorLine>, ClientError> {
    let strange = |error| ClientError::Usage(format!("`{path}` is no error slice of a job any more: {error}"));
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(strange)).collect()
}

/// The name of the error slice; the parts of an output are called `part-…`.
pub(super) const ERROR_SLICE: &str = "errors.jsonl";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::message::spe::FunctionFailure;

    use super::*;

    #[test]
    fn an_error_slice_says_again_what_was_written_whatever_bytes_were_in_it() {
        let error = |segment, record_start: &[u8]| FunctionFailure {
            function: "parse".into(),
            path: "/in/a".parse().unwrap(),
            segment,
            record: Some(3),
            message: "line 1\nline 2 \"quoted\"".into(),
            record_start: record_start.to_vec(),
        };
        let left_out = |segment, start: &[u8]| SkippedSegment {
            stage: 1,
            from: 100,
            until: 200,
            first_record: Some(10),
            error: error(segment, start),
        };
        let all = [left_out(7, b"\xff\n\\"), left_out(9, b"")];
        let text = text(&all).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        let lines = parse(&"/out/errors.jsonl".parse().unwrap(), text.as_bytes()).unwrap();
        assert_eq!(lines, all.each_ref().map(ErrorLine::from));
        assert_eq!((lines[0].segment, lines[0].record_start.as_str()), (7, r"\xff\n\\"));
    }

    #[test]
    fn a_file_that_is_no_error_slice_is_named() {
        let error = parse(&"/out/errors.jsonl".parse().unwrap(), b"{}\n").unwrap_err();
        assert!(error.to_string().contains("`/out/errors.jsonl` is no error slice"), "{error}");
    }
}
