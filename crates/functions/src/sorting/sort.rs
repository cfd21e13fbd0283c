//! `sort`: the second stage of a distributed sort (Sector/Sphere paper, 3.2: "the SPE sorts the *whole* data
//! segment"). Serves terasort, and is meant to run near the speed of memory. It never moves a record before emitting
//! it, and never reorders records with equal keys.

use udf::{FunctionError, Input, Output};

use crate::{batch::BATCH_BYTES, sorting::key::KeyRange};

/// Emits the segment's records in the order of their keys to bucket 0. Parameter `key`. Equal keys keep their order.
///
/// The sort works on one entry per record: the first eight bytes of its key as a number, and its index. One pass
/// spreads the entries over ranges that fit the cache. A comparison sort finishes each range. Longer keys are
/// compared further only where their first eight bytes are equal.
pub(crate) fn sort(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let (key, record_bytes) = KeyRange::of_fixed("sort", input)?;
    let bytes = input.bytes();
    if u32::try_from(bytes.len() / record_bytes).is_err() {
        return Err(FunctionError::new("the segment has more than 4294967295 records: sort into more buckets"));
    }
    let mut entries = spread(read_entries(bytes, record_bytes, key));
    // Half the work is done once the keys are read and spread.
    output.progress(bytes.len() as u64 / 2);
    finish_equal_prefixes(&mut entries, bytes, record_bytes, key);
    emit_in_order(&entries, bytes, record_bytes, output)
}

/// The first bytes of a key in the upper 64 bits, the index of the record in the lower. One comparison of two numbers
/// orders both, without a branch.
type Entry = u128;

fn entry(prefix: u64, index: usize) -> Entry {
    (u128::from(prefix) << 64) | index as u128
}

fn prefix(entry: Entry) -> u64 {
    (entry >> 64) as u64
}

fn index(entry: Entry) -> usize {
    // Only the lower half is the index; the cast drops the rest.
    entry as u64 as usize
}

fn read_entries(bytes: &[u8], record_bytes: usize, key: KeyRange) -> Vec<Entry> {
    let records = bytes.chunks_exact(record_bytes).map(|record| &record[key.offset..key.offset + key.length]);
    let first_bytes = |key: &[u8]| match key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(first)
        }
    };
    records.enumerate().map(|(index, key)| entry(first_bytes(key), index)).collect()
}

/// Sorts entries: spreads them over ranges of equal width between the least and the greatest, then sorts each range.
fn spread(entries: Vec<Entry>) -> Vec<Entry> {
    let (Some(least), Some(greatest)) = (entries.iter().min().copied(), entries.iter().max().copied()) else {
        return entries;
    };
    let (least, greatest) = (prefix(least), prefix(greatest));
    let shift = (u64::BITS - (greatest - least).leading_zeros()).saturating_sub(SPREAD_BITS);
    let range = |entry: Entry| ((prefix(entry) - least) >> shift) as usize;
    let mut ends = vec![0usize; 1 << SPREAD_BITS];
    for entry in &entries {
        ends[range(*entry)] += 1;
    }
    let mut start = 0;
    for end in &mut ends {
        start += std::mem::replace(end, start);
    }
    // `ends` holds where each range begins, and grows to where it ends.
    let mut spread = vec![0; entries.len()];
    for entry in entries {
        let end = &mut ends[range(entry)];
        spread[*end] = entry;
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        spread[start..end].sort_unstable();
        start = end;
    }
    spread
}

/// Orders entries whose first eight bytes are equal by the rest of their keys, then by index.
fn finish_equal_prefixes(entries: &mut [Entry], bytes: &[u8], record_bytes: usize, key: KeyRange) {
    if key.length <= size_of::<u64>() {
        return;
    }
    let rest = |entry: Entry| {
        let record = index(entry) * record_bytes;
        &bytes[record + key.offset + size_of::<u64>()..record + key.offset + key.length]
    };
    for equal in entries.chunk_by_mut(|a, b| prefix(*a) == prefix(*b)) {
        if equal.len() > 1 {
            equal.sort_unstable_by(|a, b| rest(*a).cmp(rest(*b)).then(a.cmp(b)));
        }
    }
}

/// Copies the records together in batches and emits these.
fn emit_in_order(
    entries: &[Entry],
    bytes: &[u8],
    record_bytes: usize,
    output: &mut Output<'_>,
) -> Result<(), FunctionError> {
    let batch_records = (BATCH_BYTES / record_bytes).max(1);
    let mut batch = Vec::with_capacity(batch_records * record_bytes);
    let mut done = bytes.len() as u64 / 2;
    for (number, some) in entries.chunks(batch_records).enumerate() {
        batch.clear();
        let next = entries.get((number + 1) * batch_records..).unwrap_or_default();
        for (at, group) in some.chunks(GROUP_RECORDS).enumerate() {
            let ahead = some.get((at + 1) * GROUP_RECORDS..).unwrap_or(next);
            touch(&ahead[..ahead.len().min(GROUP_RECORDS)], bytes, record_bytes);
            for entry in group {
                let from = index(*entry) * record_bytes;
                batch.extend_from_slice(&bytes[from..from + record_bytes]);
            }
        }
        output.emit_records(0, &batch, some.len() as u64)?;
        done += batch.len() as u64 / 2;
        output.progress(done);
    }
    Ok(())
}

/// Reads a byte of each record of a group. The reads do not depend on each other, so the processor has all of them in
/// flight at once. Copying record after record, it would wait for memory each time.
fn touch(group: &[Entry], bytes: &[u8], record_bytes: usize) {
    let sum = group.iter().fold(0u8, |sum, entry| sum ^ bytes[index(*entry) * record_bytes]);
    std::hint::black_box(sum);
}

/// Bits by which entries are spread in one pass, into 8,192 ranges. With some million records, each range fits the
/// first-level cache, and the pass itself stays within the reach of the translation cache.
const SPREAD_BITS: u32 = 13;
/// Records whose reads are in flight together: more than a core can have in flight brings nothing.
const GROUP_RECORDS: usize = 32;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::RecordFormat;

    use crate::testing::{random_bytes, run};

    /// Sorts and compares with the standard library's stable sort.
    fn check(bytes: &[u8], record_bytes: usize, key: (usize, usize)) {
        let parameter = format!("{}:{}", key.0, key.1);
        let result = run("sort", bytes, RecordFormat::Fixed(record_bytes as u32), 1, &[("key", &parameter)]).unwrap();
        let mut slow: Vec<&[u8]> = bytes.chunks(record_bytes).collect();
        slow.sort_by_key(|record| &record[key.0..key.0 + key.1]);
        assert_eq!(result.bucket(0), slow.concat());
        assert_eq!(result.records, slow.len() as u64);
    }

    #[test]
    fn random_records_are_sorted_as_by_the_standard_library() {
        check(&random_bytes(1, 100 * 25_000), 100, (0, 10));
        check(&random_bytes(2, 13 * 5_000), 13, (5, 8));
        check(&random_bytes(3, 13 * 5_000), 13, (5, 3));
        check(&random_bytes(4, 4_000), 1, (0, 1));
    }

    #[test]
    fn few_different_keys_keep_the_order_of_equal_ones() {
        let few: Vec<u8> = random_bytes(5, 20 * 9_000)
            .iter()
            .enumerate()
            .map(|(at, byte)| if at % 20 < 12 { byte & 1 } else { *byte })
            .collect();
        check(&few, 20, (0, 12));
        check(&few, 20, (0, 2));
        let late: Vec<u8> = random_bytes(6, 20 * 3_000)
            .iter()
            .enumerate()
            .map(|(at, byte)| if at % 20 < 9 { b'k' } else { *byte })
            .collect();
        check(&late, 20, (0, 11));
        check(&[7; 20 * 100], 20, (0, 20));
    }

    #[test]
    fn edges_of_the_key_space_and_of_the_segment() {
        check(b"", 10, (0, 10));
        check(&[3; 10], 10, (0, 10));
        let edges = [[0xff; 8], [0; 8], [0xff; 8], [0x7f; 8], [0; 8]].concat();
        check(&edges, 8, (0, 8));
        let sorted: Vec<u8> = (0..50_000u32).flat_map(u32::to_be_bytes).collect();
        check(&sorted, 4, (0, 4));
        let reversed: Vec<u8> = (0..50_000u32).rev().flat_map(u32::to_be_bytes).collect();
        check(&reversed, 4, (0, 4));
    }
}
