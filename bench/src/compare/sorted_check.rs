//! Whether a sorted output is right, as `valsort` tells. It looks at count, order over the borders of files too, and a sum
//! over the records that a sort must not change. It trusts no system's own check, ours included.

use std::{
    fs::{self, File},
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

/// What is known of some records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) records: u64,
    /// Sum of the records' hashes, modulo 2⁶⁴.
    pub(crate) sum: u64,
    /// Whether no key is below the one before it.
    pub(crate) is_sorted: bool,
}

impl Contents {
    /// Reads a file, or all files of a folder in the order of their names.
    pub(crate) fn of(path: &Path) -> Result<Self, String> {
        let mut found = Self { records: 0, sum: 0, is_sorted: true };
        let mut last = [0; KEY_BYTES];
        for file in parts(path)? {
            let failed = |error: std::io::Error| format!("{}: {error}", file.display());
            let opened = File::open(&file).map_err(failed)?;
            if opened.metadata().map_err(failed)?.len() % RECORD_BYTES as u64 != 0 {
                return Err(format!("{} ends within a record", file.display()));
            }
            let mut from = BufReader::with_capacity(1 << 20, opened);
            let mut record = [0; RECORD_BYTES];
            while from.read_exact(&mut record).is_ok() {
                found.add(&record, &mut last);
            }
        }
        Ok(found)
    }

    fn add(&mut self, record: &[u8; RECORD_BYTES], last: &mut [u8; KEY_BYTES]) {
        let key = &record[..KEY_BYTES];
        self.is_sorted &= *last.as_slice() <= *key;
        last.copy_from_slice(key);
        self.records += 1;
        self.sum = self.sum.wrapping_add(hash(record));
    }

    /// Fails unless these are the same records, in order.
    pub(crate) fn check_sorted(&self, output: &Path) -> Result<(), String> {
        let found = Self::of(output)?;
        if !found.is_sorted {
            return Err("the output is not sorted".into());
        }
        if (found.records, found.sum) != (self.records, self.sum) {
            return Err(format!("the output has other records: {} instead of {}", found.records, self.records));
        }
        Ok(())
    }
}

/// The file itself, or the files of a folder by name. Files that begin with `_` or `.` are marks of peers.
pub(crate) fn parts(path: &Path) -> Result<Vec<PathBuf>, String> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let listed = fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let is_mark = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['_', '.']));
    let mut parts: Vec<_> = listed.flatten().map(|item| item.path()).filter(|path| !is_mark(path)).collect();
    parts.sort();
    Ok(parts)
}

fn hash(record: &[u8; RECORD_BYTES]) -> u64 {
    let (words, rest) = record.as_chunks::<8>();
    let mut hash = rest.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    hash
}

const RECORD_BYTES: usize = 100;
const KEY_BYTES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_lost_doubled_changed_or_misplaced_a_record_is_refused() {
        let folder = std::env::temp_dir().join(format!("bench-check-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut random = fastrand::Rng::with_seed(3);
        let mut records: Vec<Vec<u8>> = (0..500).map(|_| (0..RECORD_BYTES).map(|_| random.u8(..)).collect()).collect();
        fs::write(folder.join("input"), records.concat()).expect("written");
        let input = Contents::of(&folder.join("input")).expect("read");
        assert!(input.records == 500 && !input.is_sorted);
        records.sort();
        let output = folder.join("output");
        let check = |parts: &[&[Vec<u8>]]| {
            fs::create_dir_all(&output).expect("a folder");
            fs::write(output.join("_SUCCESS"), "").expect("written");
            for (number, part) in parts.iter().enumerate() {
                fs::write(output.join(format!("part-{number}")), part.concat()).expect("written");
            }
            let checked = input.check_sorted(&output);
            fs::remove_dir_all(&output).expect("removed");
            checked.map_err(|why| why.contains("not sorted"))
        };
        assert_eq!(check(&[&records[..200], &records[200..]]), Ok(()));
        assert_eq!(check(&[&records[200..], &records[..200]]), Err(true));
        assert_eq!(check(&[&records[1..]]), Err(false));
        assert_eq!(check(&[&records[..499], &records[498..499]]), Err(false));
        let mut changed = records.clone();
        changed[7][99] ^= 1;
        assert_eq!(check(&[&changed]), Err(false));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
