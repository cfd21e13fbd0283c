//! `group`: brings records with equal keys together. Serves the path *job*. Over a bucket, it prepares the input of a
//! user's own reduction (Sector/Sphere paper, 3.6: MapReduce as two stages). It never computes with the values.

use udf::{FunctionError, Input, Output, RecordFormat};

use crate::{
    fields::field::{Field, Record, records},
    sorting::sort,
    writer::Writer,
};

/// Emits the segment's records in the order of their keys; records with equal keys keep their order. Over lines with
/// the parameter `value`, it emits one line per key: the key, followed by the value of each of its records. It also
/// takes the parameters `key` and `separator`. A record goes to the bucket of its key's [hash](udf::key_hash).
pub(crate) fn group(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let key = Field::key("group", input)?;
    let is_joined = input.parameter("value").is_some();
    if is_joined && input.format() != RecordFormat::Lines {
        return Err(FunctionError::new("`group` gathers the values of lines alone: leave `value` out"));
    }
    if input.buckets() == 1 && matches!(input.format(), RecordFormat::Fixed(_)) {
        // The same result, near the speed of memory.
        return sort::sort(input, output);
    }
    let mut keyed = Vec::new();
    for record in records(input) {
        keyed.push((key.find(record)?, record));
    }
    // Half the work is done once the keys are read.
    output.progress(input.bytes().len() as u64 / 2);
    keyed.sort_by_key(|(key, _)| *key);
    let mut writer = Writer::new(input, output);
    if is_joined {
        emit_joined(&keyed, Field::value("group", input)?, &mut writer)?;
    } else {
        for (key, record) in &keyed {
            writer.emit(key, record.content)?;
            writer.progress(record.content.len());
        }
    }
    writer.finish()
}

fn emit_joined(keyed: &[(&[u8], Record<'_>)], value: Field, writer: &mut Writer<'_, '_>) -> Result<(), FunctionError> {
    let mut line = Vec::new();
    for equal in keyed.chunk_by(|a, b| a.0 == b.0) {
        let [(key, _), ..] = equal else { continue };
        line.clear();
        line.extend_from_slice(key);
        for (_, record) in equal {
            line.push(value.separator());
            line.extend_from_slice(value.find(*record)?);
            writer.progress(record.content.len());
        }
        writer.emit(key, &line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use udf::key_hash;

    use super::*;
    use crate::testing::{random_bytes, run, run_on_lines};

    fn lines(text: &str, parameters: &[(&str, &str)]) -> String {
        run_on_lines("group", text, parameters)
    }

    #[test]
    fn lines_with_equal_keys_lie_together_or_become_one_line() {
        let text = "cow\t2\nbee\t1\ncow\t1\nbee\t3";
        assert_eq!(lines(text, &[]), "bee\t1\nbee\t3\ncow\t2\ncow\t1\n");
        assert_eq!(lines(text, &[("value", "column:2")]), "bee\t1\t3\ncow\t2\t1\n");
        assert_eq!(lines("x,1,y\nx,2,z\n", &[("separator", ","), ("value", "column:3")]), "x,y,z\n");
        assert_eq!(lines("", &[]), "");
    }

    #[test]
    fn fixed_records_are_grouped_as_a_slow_program_does_in_one_bucket_and_in_several() {
        let bytes: Vec<u8> = random_bytes(6, 9 * 8_000).iter().map(|byte| byte % 16).collect();
        for buckets in [1, 5] {
            let grouped = run("group", &bytes, RecordFormat::Fixed(9), buckets, &[("key", "3:2")]).unwrap();
            let mut slow = vec![BTreeMap::<&[u8], Vec<u8>>::new(); buckets as usize];
            for record in bytes.chunks(9) {
                let key = &record[3..5];
                slow[(key_hash(key) % u64::from(buckets)) as usize].entry(key).or_default().extend(record);
            }
            for (bucket, slow) in (0..).zip(slow) {
                assert_eq!(grouped.bucket(bucket), slow.into_values().flatten().collect::<Vec<_>>());
            }
            assert_eq!(grouped.records, 8_000);
        }
    }

    #[test]
    fn a_line_without_its_value_and_fixed_values_are_refused() {
        let error = run("group", b"a\t1\nb\n", RecordFormat::Lines, 1, &[("value", "column:2")]).unwrap_err();
        assert_eq!((error.record(), error.message()), (Some(1), "the line has no column 2: its columns are 1"));
        let parameters = [("key", "0:1"), ("value", "1:1")];
        assert!(run("group", b"ab", RecordFormat::Fixed(2), 1, &parameters).is_err());
    }
}
