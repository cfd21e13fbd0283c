//! The inverted index as a plain single-threaded program makes it, and a summary to compare it with what the job
//! made. Serves the demo's verification. It never shares code with `words` and `index`; only the definition of a word
//! is the same.

use std::collections::BTreeMap;

use crate::{
    checksum::{mix, record_hash},
    escape::unescape,
};

/// Words and the files that contain them.
#[derive(Clone, Debug, Default)]
pub struct ReferenceIndex {
    paths: Vec<String>,
    /// For each word, indexes into `paths`. Each occurs once, since a file is added whole.
    words: BTreeMap<Vec<u8>, Vec<u32>>,
}

/// A summary that is the same for equal indexes, whatever the order of their lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSummary {
    /// Number of words.
    pub words: u64,
    /// Number of pairs of a word and a file.
    pub postings: u64,
    /// Sum of a hash of each pair, modulo 2⁶⁴.
    pub checksum: u64,
}

impl ReferenceIndex {
    /// An index of no files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file, whole. A word is a run of ASCII letters, digits, underscores and bytes from 0x80 on. It is 1 to
    /// 64 bytes long, and its ASCII letters are made lower case.
    pub fn add(&mut self, path: &str, bytes: &[u8]) {
        // Four billion paths of a few bytes do not fit the memory of one machine.
        let number = self.paths.len() as u32;
        self.paths.push(path.to_owned());
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let lower = bytes.to_ascii_lowercase();
        let mut words: Vec<&[u8]> =
            lower.split(|byte| !is_letter(byte)).filter(|run| (1..=64).contains(&run.len())).collect();
        words.sort_unstable();
        words.dedup();
        for word in words {
            match self.words.get_mut(word) {
                Some(files) => files.push(number),
                None => drop(self.words.insert(word.to_vec(), vec![number])),
            }
        }
    }

    /// The words in order, each with its paths in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Vec<&str>)> {
        self.words.iter().map(|(word, files)| {
            let mut paths: Vec<&str> = files.iter().map(|number| self.paths[*number as usize].as_str()).collect();
            paths.sort_unstable();
            (word.as_slice(), paths)
        })
    }

    /// The summary of this index; an equal index has the same.
    pub fn summary(&self) -> IndexSummary {
        let path_hashes: Vec<u64> = self.paths.iter().map(|path| record_hash(path.as_bytes())).collect();
        let mut summary = IndexSummary::default();
        for (word, files) in &self.words {
            summary.words += 1;
            let word_hash = record_hash(word);
            files.iter().for_each(|number| summary.add_posting(word_hash, path_hashes[*number as usize]));
        }
        summary
    }
}

impl IndexSummary {
    /// Adds a line of `index`'s output, with or without its end.
    pub fn add_line(&mut self, line: &[u8]) -> Result<(), String> {
        let error = || {
            let shown: String = String::from_utf8_lossy(line).chars().take(80).collect();
            format!("`{shown}` is not a line of an inverted index")
        };
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let tab = line.iter().position(|byte| *byte == b'\t').filter(|tab| *tab > 0).ok_or_else(error)?;
        let word_hash = record_hash(&line[..tab]);
        for path in line[tab + 1..].split(|byte| *byte == b' ') {
            let path_hash =
                if path.contains(&b'\\') { record_hash(&unescape(path).ok_or_else(error)?) } else { record_hash(path) };
            self.add_posting(word_hash, path_hash);
        }
        self.words += 1;
        Ok(())
    }

    /// Adds the summary of another part of the same index; no word may be in both.
    pub fn add(&mut self, other: Self) {
        self.words += other.words;
        self.postings += other.postings;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }

    fn add_posting(&mut self, word_hash: u64, path_hash: u64) {
        self.postings += 1;
        // Not symmetric: swapping a word and a path gives another hash.
        self.checksum = self.checksum.wrapping_add(mix(mix(word_hash) ^ path_hash));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lines(index: &ReferenceIndex) -> Vec<String> {
        index
            .iter()
            .map(|(word, paths)| {
                let paths: Vec<String> =
                    paths.iter().map(|path| path.replace('\\', "\\\\").replace(' ', "\\s")).collect();
                format!("{}\t{}\n", String::from_utf8_lossy(word), paths.join(" "))
            })
            .collect()
    }

    fn example() -> ReferenceIndex {
        let mut index = ReferenceIndex::new();
        index.add("/w2 x.html", b"bee Camel");
        index.add("/w1.html", b"Bee-cow bee \xc3\xbc");
        index
    }

    #[test]
    fn words_are_found_with_their_files_in_order() {
        let expected = ["bee\t/w1.html /w2\\sx.html\n", "camel\t/w2\\sx.html\n", "cow\t/w1.html\n", "ü\t/w1.html\n"];
        assert_eq!(lines(&example()), expected);
    }

    #[test]
    fn the_summary_of_the_lines_is_that_of_the_index_in_any_order() {
        let index = example();
        let summary = index.summary();
        assert_eq!((summary.words, summary.postings), (4, 5));
        let mut lines = lines(&index);
        lines.reverse();
        let (mut a, mut b) = (IndexSummary::default(), IndexSummary::default());
        lines[..2].iter().for_each(|line| a.add_line(line.as_bytes()).unwrap());
        lines[2..].iter().for_each(|line| b.add_line(line.trim_end().as_bytes()).unwrap());
        a.add(b);
        assert_eq!(a, summary);
    }

    #[test]
    fn a_wrong_posting_a_missing_one_and_a_broken_line_are_found() {
        let summary = example().summary();
        let read = |from: &str, to: &str| {
            let mut summary = IndexSummary::default();
            lines(&example())
                .concat()
                .replacen(from, to, 1)
                .lines()
                .try_for_each(|line| summary.add_line(line.as_bytes()))?;
            Ok::<_, String>(summary)
        };
        assert_eq!(read("", "").unwrap(), summary);
        assert_ne!(read("cow\t/w1.html", "cow\t/w2.html").unwrap().checksum, summary.checksum);
        assert_ne!(read("bee\t/w1.html ", "bee\t").unwrap().postings, summary.postings);
        assert_ne!(read("cow", "cows").unwrap().checksum, summary.checksum);
        assert!(read("cow\t", "cow").is_err());
        assert!(read("\\s", "\\q").is_err());
    }
}
