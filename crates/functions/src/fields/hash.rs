//! `hash`: sends equal keys to the same bucket (Sector/Sphere paper, 3.6: "the first stage hashes (key, value) pairs
//! to buckets"). Serves the path *job*. It never drops a record.

use udf::{FunctionError, Input, Output};

use crate::{
    fields::field::{Field, records},
    writer::Writer,
};

/// Emits each record to the bucket of its key's [hash](udf::key_hash). Parameters `key`, `separator`. A last line
/// without its end gets one.
pub(crate) fn hash(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let key = Field::key("hash", input)?;
    let mut writer = Writer::new(input, output);
    for record in records(input) {
        writer.emit(key.find(record)?, record.content)?;
        writer.progress(record.content.len());
    }
    writer.finish()
}
#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::{RecordFormat, key_hash};

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
        assert_eq!((error.record(), error.message()), (Some(1), "the record has 2 bytes, too few for the key 0:3"));
        assert!(run("hash", b"x", RecordFormat::File, 2, &[]).is_err());
        let result = run("hash", b"bee\t1\nbee\t3\nbee\n", RecordFormat::Lines, 1 << 20, &[]).unwrap();
        assert_eq!(
            result.bucket(key_hash(b"bee") % (1 << 20)),
            b"bee\t1\nbee\t3\nbee\n",
            "the first column is the key"
        );
    }
}
