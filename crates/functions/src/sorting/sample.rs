//! `sample`: keys from which the cuts of a distributed sort are chosen. Serves terasort. It never emits more of a
//! record than its key.

use udf::{FunctionError, Input, Output};

use crate::{batch::Batch, sorting::key::KeyRange};

/// Emits to bucket 0 the key of the segment's first record and of every n-th record after it, without separators.
/// Parameter `every` (default 1000), parameter `key`.
pub(crate) fn sample(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let (key, record_bytes) = KeyRange::of_fixed("sample", input)?;
    let every: usize = input.parsed_parameter("every", EVERY_DEFAULT)?;
    if every == 0 {
        return Err(FunctionError::new("the parameter `every` must be at least 1"));
    }
    let mut batch = Batch::new(0);
    for record in input.bytes().chunks_exact(record_bytes).step_by(every) {
        batch.push(&record[key.offset..key.offset + key.length], output)?;
    }
    output.progress(input.bytes().len() as u64);
    Ok(batch.finish(output)?)
}

/// One key in a thousand: ten million records give 100 kB, and buckets differ by a few per cent.
const EVERY_DEFAULT: usize = 1000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::RecordFormat;

    use crate::testing::{random_bytes, run};

    #[test]
    fn every_nth_key_is_given() {
        let bytes = random_bytes(3, 20 * 1_001);
        let result = run("sample", &bytes, RecordFormat::Fixed(20), 1, &[("every", "100"), ("key", "5:4")]).unwrap();
        let slow: Vec<u8> = (0..=1_000).step_by(100).flat_map(|at| bytes[at * 20 + 5..at * 20 + 9].to_vec()).collect();
        assert_eq!((result.bucket(0), result.records), (&slow[..], 11));
        assert!(run("sample", b"", RecordFormat::Fixed(20), 1, &[("every", "0")]).is_err());
    }
}
