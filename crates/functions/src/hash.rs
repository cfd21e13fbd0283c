//! `hash`: equal keys to the same bucket (Sector/Sphere paper, 3.6: "the first stage hashes (key, value) pairs to
//! buckets"). Serves the path *job*.

use udf::{FunctionError, Input, Output, RecordFormat, key_hash};

use crate::key::KeyRange;

/// Emits each record to the bucket of its key's [hash](key_hash). Parameter `key`: for fixed records by default
/// terasort's, for lines and indexed records all of it. A last line without its end gets one.
pub(crate) fn hash(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    match input.format() {
        RecordFormat::Fixed(_) => hash_fixed(input, output),
        RecordFormat::Lines | RecordFormat::Index => hash_lines(input, output),
        RecordFormat::File => Err(FunctionError::new(
            "`hash` needs records: store its input with `--records fixed:BYTES` or `--records lines`",
        )),
    }
}

fn hash_fixed(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let (key, record_bytes) = KeyRange::of_fixed("hash", input)?;
    let mut done = 0;
    for record in input.bytes().chunks_exact(record_bytes) {
        output.emit_key(&record[key.offset..key.offset + key.length], record)?;
        done += record_bytes as u64;
        if done % PROGRESS_BYTES < record_bytes as u64 {
            output.progress(done);
        }
    }
    Ok(())
}

fn hash_lines(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let key = match input.parameter("key") {
        Some(_) => Some(input.parsed_parameter("key", KeyRange::TERASORT)?),
        None => None,
    };
    let has_ends = input.format() == RecordFormat::Lines;
    let mut ended = Vec::new();
    let mut done = 0;
    for (number, line) in (0..).zip(input.whole_records()) {
        let content = if has_ends { line.strip_suffix(b"\n").unwrap_or(line) } else { line };
        let key = match key {
            None => content,
            Some(key) => key.of(content).ok_or_else(|| {
                let bytes = content.len();
                FunctionError::new(format!(
                    "the line has {bytes} bytes, too few for the key {}:{}",
                    key.offset, key.length
                ))
                .at_record(number)
            })?,
        };
        if has_ends && content.len() == line.len() {
            ended.extend_from_slice(content);
            ended.push(b'\n');
            output.emit(key_hash(key), &ended)?;
        } else {
            output.emit(key_hash(key), line)?;
        }
        done += line.len() as u64;
        if done % PROGRESS_BYTES < line.len() as u64 {
            output.progress(done);
        }
    }
    Ok(())
}

/// Progress is told about every so many bytes.
const PROGRESS_BYTES: u64 = 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{random_bytes, run};

    #[test]
    fn records_with_equal_keys_meet_and_none_is_lost() {
        let bytes = random_bytes(9, 12 * 5_000);
        let result = run("hash", &bytes, RecordFormat::Fixed(12), 7, &[("key", "4:1")]).unwrap();
        for bucket in 0..7 {
            let slow: Vec<u8> =
                bytes.chunks(12).filter(|record| key_hash(&record[4..5]) % 7 == bucket).flatten().copied().collect();
            assert_eq!(result.bucket(bucket), slow);
        }
        assert_eq!(result.records, 5_000);
    }

    #[test]
    fn lines_are_hashed_whole_or_by_their_key_and_always_end() {
        let result = run("hash", b"bee 1\ncow 2\nbee 3", RecordFormat::Lines, 1 << 20, &[("key", "0:3")]).unwrap();
        assert_eq!(result.bucket(key_hash(b"bee") % (1 << 20)), b"bee 1\nbee 3\n");
        assert_eq!(result.bucket(key_hash(b"cow") % (1 << 20)), b"cow 2\n");
        let result = run("hash", b"x\n\n", RecordFormat::Lines, 1 << 20, &[]).unwrap();
        assert_eq!(result.bucket(key_hash(b"") % (1 << 20)), b"\n");
        let error = run("hash", b"long enough\nno\n", RecordFormat::Lines, 2, &[("key", "0:3")]).unwrap_err();
        assert_eq!((error.record(), error.message()), (Some(1), "the line has 2 bytes, too few for the key 0:3"));
        assert!(run("hash", b"x", RecordFormat::File, 2, &[]).is_err());
    }
}
