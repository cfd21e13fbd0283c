//! The yardstick of terasort: a tuned sort of one local file by two threads. It maps the file, scatters key prefixes by
//! their first eleven bits, sorts each part in cache, and gathers the records into place. No checksums, no network, no
//! sync: what the machine can do, not what a storage system must.

#![allow(unsafe_code)]

use std::{fs::File, os::unix::fs::FileExt, path::Path, thread};

use memmap2::Mmap;

/// Sorts `input` (100-byte records, 10-byte keys) into `output`.
pub(crate) fn sort_file(input: &Path, output: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("reference sort of {}: {error}", input.display());
    let file = File::open(input).map_err(failed)?;
    // SAFETY: the file belongs to this measurement; nobody truncates it while it is mapped.
    let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
    let bytes: &[u8] = &map;
    let records = bytes.len() / RECORD_BYTES;
    let middle = records / 2;
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| scatter(bytes, 0..middle));
        let second = scatter(bytes, middle..records);
        (first.join().unwrap_or_default(), second)
    });
    let mut offset = 0;
    let mut parts = Vec::with_capacity(PARTS);
    for (first, second) in first.into_iter().zip(second) {
        let length = (first.len() + second.len()) * RECORD_BYTES;
        parts.push((offset, first, second));
        offset += length as u64;
    }
    let out = File::create(output).map_err(failed)?;
    let half = parts.len() / 2;
    let upper = parts.split_off(half);
    thread::scope(|scope| {
        let lower = scope.spawn(|| gather(bytes, parts, &out));
        let upper = gather(bytes, upper, &out);
        lower.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread ended early"))).and(upper)
    })
    .map_err(failed)
}

/// The first eight bytes of a key, and which record it is of.
#[derive(Clone, Copy)]
struct Key {
    prefix: u64,
    record: u32,
}

/// Part number, first and second thread's keys.
type Part = (u64, Vec<Key>, Vec<Key>);

fn scatter(bytes: &[u8], records: std::ops::Range<usize>) -> Vec<Vec<Key>> {
    let expected = records.len() / PARTS + records.len() / PARTS / 8 + 16;
    let mut parts: Vec<Vec<Key>> = (0..PARTS).map(|_| Vec::with_capacity(expected)).collect();
    for record in records {
        let at = record * RECORD_BYTES;
        let prefix = bytes[at..at + 8].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        parts[(prefix >> (64 - PART_BITS)) as usize].push(Key { prefix, record: record as u32 });
    }
    parts
}

fn gather(bytes: &[u8], parts: Vec<Part>, out: &File) -> std::io::Result<()> {
    let tail = |key: &Key| {
        let at = key.record as usize * RECORD_BYTES;
        [bytes[at + 8], bytes[at + 9]]
    };
    let mut buffer = Vec::new();
    for (offset, mut keys, more) in parts {
        keys.extend(more);
        keys.sort_unstable_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| tail(a).cmp(&tail(b))));
        buffer.clear();
        for key in &keys {
            let at = key.record as usize * RECORD_BYTES;
            buffer.extend_from_slice(&bytes[at..at + RECORD_BYTES]);
        }
        out.write_all_at(&buffer, offset)?;
    }
    Ok(())
}

const RECORD_BYTES: usize = 100;
/// Eleven bits: two thousand parts of half a megabyte for a gigabyte, each sorted within the cache.
const PART_BITS: u32 = 11;
const PARTS: usize = 1 << PART_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yardstick_sorts() {
        let folder = std::env::temp_dir().join(format!("bench-sort-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut random = fastrand::Rng::with_seed(7);
        let mut records: Vec<Vec<u8>> = (0..10_000)
            .map(|_| (0..RECORD_BYTES).map(|at| if at < 8 { random.u8(0..3) } else { random.u8(..) }).collect())
            .collect();
        std::fs::write(folder.join("input"), records.concat()).expect("written");
        sort_file(&folder.join("input"), &folder.join("sorted")).expect("sorted");
        let sorted = std::fs::read(folder.join("sorted")).expect("read");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(sorted.chunks(RECORD_BYTES).map(|record| &record[..10]).is_sorted());
        let mut found: Vec<_> = sorted.chunks(RECORD_BYTES).map(<[u8]>::to_vec).collect();
        records.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, records);
    }
}
