//! `teragen`: records of terasort. Each is computed from its number and a seed alone, so that any node can make any
//! part. Serves `sector oct terasort gen`. It never draws on any other source of randomness.

use std::{fmt, str::FromStr};

use udf::{FunctionError, Input, Output};

use crate::{batch::BATCH_BYTES, checksum::mix};

/// Length of a record in bytes.
pub const RECORD_BYTES: usize = 100;

/// Some records to make: a line `first count seed` of `teragen`'s input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Number of the first record.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// The seed of the whole data set.
    pub seed: u64,
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.first, self.count, self.seed)
    }
}

impl FromStr for Rows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("`{}` is not `first count seed`", text.chars().take(80).collect::<String>());
        let numbers: Vec<u64> =
            text.split_ascii_whitespace().map(|word| word.parse().map_err(|_| error())).collect::<Result<_, _>>()?;
        let [first, count, seed] = numbers[..] else { return Err(error()) };
        if first.checked_add(count).is_none() {
            return Err(format!("record numbers end at {}", u64::MAX));
        }
        Ok(Self { first, count, seed })
    }
}

/// Emits to bucket 0 the records that the lines of the segment ask for.
pub(crate) fn teragen(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let mut batch = Vec::with_capacity(BATCH_BYTES);
    let mut done = 0;
    for (number, line) in (0..).zip(input.bytes().split_inclusive(|byte| *byte == b'\n')) {
        done += line.len() as u64;
        let text = String::from_utf8_lossy(line);
        if text.trim().is_empty() {
            continue;
        }
        let rows: Rows = text.trim().parse().map_err(|error: String| FunctionError::new(error).at_record(number))?;
        let mut at = rows.first;
        let end = rows.first + rows.count;
        while at < end {
            let some = (end - at).min((BATCH_BYTES / RECORD_BYTES) as u64);
            batch.clear();
            for record in at..at + some {
                push_record(record, rows.seed, &mut batch);
            }
            output.emit_records(0, &batch, some)?;
            at += some;
        }
        output.progress(done);
    }
    Ok(())
}

/// Adds a record: 10 random bytes of key, 16 hexadecimal digits of its number, six letters 12 times each, CR LF.
fn push_record(number: u64, seed: u64, batch: &mut Vec<u8>) {
    let random = mix(mix(number ^ mix(seed)).wrapping_add(seed));
    let more = mix(random ^ number.rotate_left(17));
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&random.to_be_bytes());
    record[8..10].copy_from_slice(&more.to_be_bytes()[..2]);
    for (at, digit) in record[10..26].iter_mut().enumerate() {
        *digit = HEX[(number >> (60 - 4 * at)) as usize & 15];
    }
    for (at, letters) in record[26..98].chunks_exact_mut(12).enumerate() {
        letters.fill(b'A' + ((more >> (8 * at)) as u8) % 26);
    }
    record[98..].copy_from_slice(b"\r\n");
    batch.extend_from_slice(&record);
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use udf::RecordFormat;

    use super::*;
    use crate::testing::run;

    #[test]
    fn any_part_can_be_made_alone_and_another_seed_makes_other_records() {
        let make = |lines: &str| run("teragen", lines.as_bytes(), RecordFormat::Lines, 1, &[]).unwrap();
        let whole = make("0 30000 42\n");
        assert_eq!((whole.bucket(0).len(), whole.records), (3_000_000, 30_000));
        let parts = make("0 10007 42\n\n10007 19993 42");
        assert!(parts.bucket(0) == whole.bucket(0));
        let other = make("0 30000 43");
        let same_keys =
            whole.bucket(0).chunks(100).zip(other.bucket(0).chunks(100)).filter(|(a, b)| a[..10] == b[..10]);
        assert_eq!(same_keys.count(), 0);
    }

    #[test]
    fn keys_are_spread_evenly_and_records_tell_their_number() {
        let made = run("teragen", b"5 16384 1", RecordFormat::File, 1, &[]).unwrap();
        let mut counts = [0u32; 256];
        let mut keys = BTreeSet::new();
        for (number, record) in (5u64..).zip(made.bucket(0).chunks(100)) {
            counts[usize::from(record[0])] += 1;
            keys.insert(&record[..10]);
            assert_eq!(&record[10..26], format!("{number:016X}").as_bytes());
            assert!(record[26..98].iter().all(u8::is_ascii_uppercase) && record.ends_with(b"\r\n"));
        }
        assert_eq!(keys.len(), 16_384);
        assert!(counts.iter().all(|count| (25..110).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        for bad in ["x", "1 2", "1 2 3 4", "-1 2 3", "18446744073709551615 1 0"] {
            let lines = format!("0 1 1\n{bad}\n");
            let error = run("teragen", lines.as_bytes(), RecordFormat::Lines, 1, &[]).unwrap_err();
            assert_eq!(error.record(), Some(1), "{bad}");
        }
        let rows = Rows { first: 1, count: 2, seed: 3 };
        assert_eq!(rows.to_string().parse(), Ok(rows));
    }
}
