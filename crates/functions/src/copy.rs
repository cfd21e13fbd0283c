//! `copy`: the identity. Serves the path *job*: it turns a set of files into one output. It never changes a byte, but
//! it ends a last line that has no end.

use udf::{FunctionError, Input, Output, RecordFormat};

use crate::batch::BATCH_BYTES;

/// Emits the segment unchanged to bucket 0. A last line without its end gets one: records of different files follow
/// each other in a bucket and must not run together.
pub(crate) fn copy(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let bytes = input.bytes();
    let mut done = 0;
    match input.format() {
        RecordFormat::File => {
            for part in bytes.chunks(BATCH_BYTES) {
                // The file is one record: it is counted with its first part.
                output.emit_records(0, part, u64::from(done == 0))?;
                done += part.len() as u64;
                output.progress(done);
            }
        }
        RecordFormat::Fixed(record_bytes) => {
            let record_bytes = (record_bytes as usize).max(1);
            let part_bytes = (BATCH_BYTES / record_bytes).max(1) * record_bytes;
            for part in bytes.chunks(part_bytes) {
                output.emit_records(0, part, (part.len() / record_bytes) as u64)?;
                done += part.len() as u64;
                output.progress(done);
            }
        }
        RecordFormat::Index => {
            for record in input.records() {
                output.emit(0, record)?;
                done += record.len() as u64;
                output.progress(done);
            }
        }
        RecordFormat::Lines => {
            for line in input.whole_records() {
                output.emit(0, line)?;
                done += line.len() as u64;
                output.progress(done);
            }
            if bytes.last().is_some_and(|byte| *byte != b'\n') {
                output.emit_records(0, b"\n", 0)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{random_bytes, run};

    #[test]
    fn bytes_pass_unchanged_and_records_are_counted() {
        let bytes = random_bytes(1, 3_000_000);
        let copied = run("copy", &bytes, RecordFormat::File, 3, &[]).unwrap();
        assert_eq!((copied.bucket(0), copied.records), (&bytes[..], 1));
        let copied = run("copy", &bytes, RecordFormat::Fixed(100), 3, &[]).unwrap();
        assert_eq!((copied.bucket(0), copied.records, copied.bytes_done), (&bytes[..], 30_000, 3_000_000));
        let copied = run("copy", b"a\n\nb", RecordFormat::Lines, 3, &[]).unwrap();
        assert_eq!((copied.bucket(0), copied.records), (&b"a\n\nb\n"[..], 3));
    }
}
