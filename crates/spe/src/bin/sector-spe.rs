//! A bare SPE process for the tests of this crate, with a few built-in functions of its own. A test program has threads
//! before its first line runs, but an SPE must be confined before it has any. It is never installed: users get `sector
//! spe`.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use udf::{Function, FunctionError, Input, Output, RecordFormat};

fn main() -> ExitCode {
    spe::child::run(find)
}

fn find(name: &str) -> Option<Function> {
    let function: Function = match name {
        "copy" => copy,
        "count" => count,
        "spread" => spread,
        "words" => words,
        "index" => index,
        _ => return None,
    };
    Some(function)
}

/// The records as they are, each line with its end.
fn copy(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    for record in input.whole_records() {
        output.emit(0, record)?;
    }
    if input.format() == RecordFormat::Lines && input.bytes().last().is_some_and(|byte| *byte != b'\n') {
        output.emit_records(0, b"\n", 0)?;
    }
    Ok(())
}

/// One line on the segment.
fn count(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let (path, from, records, bytes) = (input.path(), input.from(), input.records().count(), input.bytes().len());
    Ok(output.emit(0, format!("{path}\t{from}\t{records}\t{bytes}\n").as_bytes())?)
}

/// Each record to the bucket that its first byte chooses: as many bytes to each as the parameter `each` says.
fn spread(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let each: u64 = input.parsed_parameter("each", 1)?;
    for record in input.records() {
        let first = record.first().copied().unwrap_or_default();
        output.emit(u64::from(first) / each.max(1), record)?;
    }
    Ok(())
}

/// A line `word`, tab, path for each distinct word, by the word's hash.
fn words(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let words: BTreeSet<_> = input.bytes().split(|byte| *byte == b' ').collect();
    for word in words {
        output.emit_key(word, &[word, b"\t", input.path().as_bytes(), b"\n"].concat())?;
    }
    Ok(())
}

/// What [`words`] made, with the lines of a word joined: `word`, tab, its paths with a blank between them.
fn index(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let mut paths: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for line in input.bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(|| FunctionError::new("a line has no tab"))?;
        paths.entry(&line[..tab]).or_default().push(&line[tab + 1..]);
    }
    for (word, paths) in paths {
        output.emit(0, &[word, b"\t", &paths.join(&b' '), b"\n"].concat())?;
    }
    Ok(())
}
