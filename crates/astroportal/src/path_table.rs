//! A text for each of many paths. One path is found without reading the rest: each node of a job maps the same file. It
//! never trusts an offset in the file.

use thiserror::Error;

/// The bytes cannot be a table, or are damaged.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the table of paths is damaged")]
pub struct TableError;

/// A text for each of many paths.
///
/// All numbers are little-endian. First come the magic and the number of paths (u32). Then each path has an entry, sorted
/// by path: where it begins (u64), its length (u32), where its text begins (u64), its length (u32). The texts follow.
#[derive(Clone, Copy, Debug)]
pub struct PathTable<'a> {
    bytes: &'a [u8],
    paths: usize,
}

impl<'a> PathTable<'a> {
    /// Opens a table.
    ///
    /// # Errors
    /// If the bytes are none.
    pub fn open(bytes: &'a [u8]) -> Result<Self, TableError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(TableError)?;
        let paths = u32_at(rest, 0).ok_or(TableError)? as usize;
        let head = paths.checked_mul(ENTRY_BYTES).ok_or(TableError)?;
        if rest.len() < 4 || rest.len() - 4 < head {
            return Err(TableError);
        }
        Ok(Self { bytes, paths })
    }

    /// The text of a path; `None` if it is not in the table.
    ///
    /// # Errors
    /// If the table is damaged there.
    pub fn find(&self, path: &str) -> Result<Option<&'a str>, TableError> {
        let (mut low, mut high) = (0, self.paths);
        while low < high {
            let middle = usize::midpoint(low, high);
            let (found, text) = self.entry(middle)?;
            match found.cmp(path) {
                std::cmp::Ordering::Equal => return Ok(Some(text)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// Writes a table.
    pub fn write(mut entries: Vec<(&str, String)>) -> Vec<u8> {
        entries.sort();
        let mut table = MAGIC.to_vec();
        table.extend((entries.len() as u32).to_le_bytes());
        let mut at = table.len() + entries.len() * ENTRY_BYTES;
        for (path, text) in &entries {
            for part in [path.len(), text.len()] {
                table.extend((at as u64).to_le_bytes());
                table.extend((part as u32).to_le_bytes());
                at += part;
            }
        }
        for (path, text) in entries {
            table.extend_from_slice(path.as_bytes());
            table.extend(text.into_bytes());
        }
        table
    }

    fn entry(&self, number: usize) -> Result<(&'a str, &'a str), TableError> {
        let at = MAGIC.len() + 4 + number * ENTRY_BYTES;
        let part = |from: usize| {
            let start = usize::try_from(u64_at(self.bytes, from)?).ok()?;
            let length = u32_at(self.bytes, from + 8)? as usize;
            str::from_utf8(self.bytes.get(start..start.checked_add(length)?)?).ok()
        };
        part(at).zip(part(at + ENTRY_BYTES / 2)).ok_or(TableError)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

const MAGIC: &[u8] = b"sector paths 1\n";
/// Two offsets and two lengths.
const ENTRY_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_path_finds_its_text() {
        let table = PathTable::write(vec![("/b", "two".into()), ("/a", String::new()), ("/ä", "three".into())]);
        let table = PathTable::open(&table).unwrap();
        let found = ["/a", "/b", "/ä", "/", "/c"].map(|path| table.find(path).unwrap());
        assert_eq!(found, [Some(""), Some("two"), Some("three"), None, None]);
        let none = PathTable::write(Vec::new());
        assert_eq!(PathTable::open(&none).unwrap().find("/a").unwrap(), None);
    }

    #[test]
    fn a_damaged_table_is_refused_or_gives_what_is_in_it() {
        let table = PathTable::write(vec![("/a", "one".into()), ("/b", "two".into())]);
        for length in 0..table.len() {
            let found = PathTable::open(&table[..length]).and_then(|table| table.find("/b"));
            assert!(found != Ok(Some("two")), "{length} bytes cannot have all of it");
        }
        for at in 0..table.len() {
            let mut bent = table.clone();
            bent[at] ^= 0xff;
            if let Ok(Some(text)) = PathTable::open(&bent).and_then(|table| table.find("/b")) {
                assert!(text.len() <= table.len());
            }
        }
    }
}
