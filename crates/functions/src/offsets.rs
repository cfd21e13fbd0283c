//! `offsets`: builds the offset file (index) of a file whose records have any length (Sector/Sphere paper, 3.1).
//! Serves the path *job* and the command `sector index`. The command supplies the head of each index, since it alone
//! knows the file's version and digest; this function never makes up a head.

use udf::{FunctionError, Input, Output, RecordFormat};

/// Emits to bucket 0 the head of an index, where each record of the file begins, and where the file ends. Parameters:
///
/// - `records` is `lines`, `fixed:BYTES`, or `begins:TEXT`. With `begins:TEXT`, each line that begins with the text
///   begins a record, which extends to the next such line.
/// - `head:N` is the head of the index of segment N, in hex.
pub(crate) fn offsets(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    if input.format() != RecordFormat::File {
        return Err(FunctionError::new(
            "`offsets` reads whole files: run it by `sector index`, or with `--records file`",
        ));
    }
    let head = unhex(input.required_parameter(&format!("head:{}", input.segment()))?)?;
    let mut offsets = Offsets { batch: head, records: 0, output };
    let bytes = input.bytes();
    match input.required_parameter("records")? {
        "lines" => line_starts(bytes, &mut |at| offsets.push(at))?,
        records => {
            if let Some(text) = records.strip_prefix("begins:").filter(|text| !text.is_empty()) {
                if !bytes.is_empty() && !bytes.starts_with(text.as_bytes()) {
                    // The bytes before the first such line are a record too: every byte belongs to a record.
                    offsets.push(0)?;
                }
                line_starts(bytes, &mut |at| {
                    if bytes[at..].starts_with(text.as_bytes()) { offsets.push(at) } else { Ok(()) }
                })?;
            } else if let Some(Ok(length)) = records.strip_prefix("fixed:").map(str::parse::<usize>)
                && length > 0
            {
                if !bytes.len().is_multiple_of(length) {
                    let error = format!("the file has {} bytes, which is no multiple of {length}", bytes.len());
                    return Err(FunctionError::new(error));
                }
                (0..bytes.len()).step_by(length).try_for_each(|at| offsets.push(at))?;
            } else {
                let error = format!("records are `lines`, `fixed:BYTES` or `begins:TEXT`, not `{records}`");
                return Err(FunctionError::new(error));
            }
        }
    }
    offsets.push(bytes.len())?;
    offsets.flush()
}

/// Calls `each` with every byte at which a line starts.
fn line_starts(bytes: &[u8], each: &mut dyn FnMut(usize) -> Result<(), FunctionError>) -> Result<(), FunctionError> {
    let mut at = 0;
    while at < bytes.len() {
        each(at)?;
        at += bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len() - at, |end| end + 1);
    }
    Ok(())
}

fn unhex(text: &str) -> Result<Vec<u8>, FunctionError> {
    let digit = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<_>> = (0..text.len()).step_by(2).map(digit).collect();
    bytes.ok_or_else(|| FunctionError::new("the head of the index is no hex"))
}

/// Offsets waiting to be emitted.
struct Offsets<'o, 's> {
    batch: Vec<u8>,
    records: u64,
    output: &'o mut Output<'s>,
}

impl Offsets<'_, '_> {
    fn push(&mut self, at: usize) -> Result<(), FunctionError> {
        self.batch.extend((at as u64).to_le_bytes());
        self.records += 1;
        if self.batch.len() >= BATCH_BYTES {
            self.flush()?;
            self.output.progress(at as u64);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FunctionError> {
        self.output.emit_records(0, &self.batch, self.records)?;
        self.batch.clear();
        self.records = 0;
        Ok(())
    }
}

/// Bytes emitted at once.
const BATCH_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::run_on;

    fn index(bytes: &[u8], records: &str) -> Result<Vec<u64>, FunctionError> {
        let input = Input::new(bytes, RecordFormat::File).at("/a", 3, 0);
        let made = run_on("offsets", input, &[("head:3", "ff00"), ("records", records)])?;
        let (head, offsets) = made.bucket(0).split_at(2);
        assert_eq!(head, [0xff, 0]);
        Ok(offsets.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect())
    }

    #[test]
    fn each_record_has_its_start_and_the_last_its_end() {
        assert_eq!(index(b"ab\n\ncd", "lines").unwrap(), [0, 3, 4, 6]);
        assert_eq!(index(b"ab\n", "lines").unwrap(), [0, 3]);
        assert_eq!(index(b"", "lines").unwrap(), [0]);
        assert_eq!(index(b"aabbcc", "fixed:2").unwrap(), [0, 2, 4, 6]);
        assert_eq!(index(b">a\nx\n>b\n>", "begins:>").unwrap(), [0, 5, 8, 9]);
        assert_eq!(index(b"; note\n>a\nx>\n", "begins:>").unwrap(), [0, 7, 13]);
    }

    #[test]
    fn many_offsets_go_out_in_batches_and_none_is_lost() {
        let text = b"x\n".repeat(100_000);
        let found = index(&text, "lines").unwrap();
        assert!(found.iter().copied().eq((0..=100_000).map(|line| line * 2)));
    }

    #[test]
    fn what_are_no_records_is_said() {
        for (bytes, records) in [(&b"abc"[..], "fixed:2"), (b"abc", "fixed:0"), (b"abc", "words"), (b"abc", "begins:")]
        {
            assert!(index(bytes, records).is_err(), "{records}");
        }
    }
}
