//! `index`: the second stage of the inverted index. Serves the path *job*. Sector/Sphere paper, 3.6: "each bucket is
//! processed independently by the slave node, which generates a portion of the inverted index". It never looks at any
//! other bucket.

use udf::{FunctionError, Input, Output, RecordFormat, key_hash};

use crate::{
    batch::Batch,
    escape::push_escaped,
    inverted_index::{
        blocks::Block,
        word_set::{TooManyWords, WordSet},
    },
};

/// Reads the [blocks](super::blocks) of a whole bucket and emits to bucket 0 one line for each word, in the order of
/// the words. A line is the word, a tab, and the paths of the files that contain it, in order and separated by
/// blanks. In a path, a blank is `\s`, a tab `\t` and a backslash `\\`.
pub(crate) fn index(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    if input.format() != RecordFormat::File {
        return Err(FunctionError::new("`index` reads whole buckets that `words` wrote: use it after `words`"));
    }
    let blocks = read_blocks(input.bytes())?;
    let postings = Postings::collect(&blocks, output, input.bytes().len() as u64)?;
    postings.emit(&escaped_paths(&blocks), output)
}

/// The blocks of a bucket in the order of their paths.
fn read_blocks(mut bytes: &[u8]) -> Result<Vec<Block<'_>>, FunctionError> {
    let mut blocks = Vec::new();
    while let Some(block) = Block::take(&mut bytes).map_err(FunctionError::new)? {
        blocks.push(block);
    }
    blocks.sort_by_key(|block| block.path);
    Ok(blocks)
}

/// The distinct paths of sorted blocks, escaped as they appear in a line.
fn escaped_paths(blocks: &[Block<'_>]) -> Vec<Vec<u8>> {
    blocks
        .chunk_by(|a, b| a.path == b.path)
        .filter_map(|same| same.first())
        .map(|block| {
            let mut path = Vec::new();
            push_escaped(block.path, &mut path);
            path
        })
        .collect()
}

/// For each word, the paths that contain it.
struct Postings {
    words: WordSet,
    /// Where each word's paths begin in `paths`; the last entry is where the last word's paths end.
    starts: Vec<usize>,
    /// Numbers of paths, word by word, in order. A number repeats where a file was read in several segments.
    paths: Vec<u32>,
}

impl Postings {
    fn collect(blocks: &[Block<'_>], output: &mut Output<'_>, bytes: u64) -> Result<Self, FunctionError> {
        let mut words = WordSet::new();
        // The numbers of all words of all blocks, and where each path's words end among them.
        let mut numbers = Vec::new();
        let mut path_ends = Vec::new();
        for same in blocks.chunk_by(|a, b| a.path == b.path) {
            for word in same.iter().flat_map(Block::words) {
                let word = word.map_err(FunctionError::new)?;
                let number = words.insert(key_hash(word), word).map_err(|TooManyWords| {
                    FunctionError::new("the bucket has more than 4294967294 different words")
                })?;
                numbers.push(number);
            }
            path_ends.push(numbers.len());
            output.progress(bytes / 2);
        }
        let mut starts = vec![0usize; words.len() + 1];
        for number in &numbers {
            starts[*number as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        // Paths are taken in their order, so each word's are in order too.
        let mut next = starts.clone();
        let mut paths = vec![0; numbers.len()];
        let mut from = 0;
        for (path, end) in (0..).zip(path_ends) {
            for number in &numbers[from..end] {
                let place = &mut next[*number as usize];
                paths[*place] = path;
                *place += 1;
            }
            from = end;
        }
        Ok(Self { words, starts, paths })
    }

    fn emit(&self, paths: &[Vec<u8>], output: &mut Output<'_>) -> Result<(), FunctionError> {
        let mut order: Vec<u32> = (0..).take(self.words.len()).collect();
        order.sort_unstable_by_key(|number| self.words.word(*number));
        let mut batch = Batch::new(0);
        for number in order {
            let line = batch.begin(0, output)?;
            line.extend_from_slice(self.words.word(number));
            let range = self.starts[number as usize]..self.starts[number as usize + 1];
            let mut before = None;
            for path in &self.paths[range] {
                if before == Some(*path) {
                    continue;
                }
                line.push(if before.is_none() { b'\t' } else { b' ' });
                line.extend_from_slice(&paths[*path as usize]);
                before = Some(*path);
            }
            line.push(b'\n');
        }
        Ok(batch.finish(output)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::testing::{run, run_on};

    /// Both stages over some texts, as lines of all buckets together.
    fn inverted(texts: &[(&str, &str)], buckets: u32) -> Vec<String> {
        let mut shuffled = vec![Vec::new(); buckets as usize];
        for (path, text) in texts {
            let input = Input::new(text.as_bytes(), RecordFormat::File).at(path, 0, 0).with_buckets(buckets);
            for (bucket, bytes) in run_on("words", input, &[]).unwrap().buckets {
                shuffled[bucket as usize].extend(bytes);
            }
        }
        let mut lines = Vec::new();
        for bucket in shuffled {
            let result = run("index", &bucket, RecordFormat::File, 1, &[]).unwrap();
            let text = String::from_utf8(result.bucket(0).to_vec()).unwrap();
            assert!(text.lines().is_sorted());
            assert_eq!(text.lines().count() as u64, result.records);
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.sort();
        lines
    }

    #[test]
    fn the_papers_example() {
        let texts = [("/w2.html", "bee camel"), ("/w1.html", "<bee> Cow bee")];
        for buckets in [1, 2, 3] {
            assert_eq!(inverted(&texts, buckets), ["bee\t/w1.html /w2.html", "camel\t/w2.html", "cow\t/w1.html"]);
        }
    }

    #[test]
    fn a_file_read_in_parts_counts_once_and_paths_are_escaped() {
        let texts = [("/a b", "x y"), ("/a", "y"), ("/a b", "y z"), ("/a\\", "z")];
        assert_eq!(inverted(&texts, 1), ["x\t/a\\sb", "y\t/a /a\\sb", "z\t/a\\sb /a\\\\"]);
    }

    #[test]
    fn many_files_are_inverted_as_a_slow_program_does() {
        let mut random = fastrand::Rng::with_seed(2);
        let texts: Vec<(String, String)> = (0..60)
            .map(|file| {
                let words: Vec<String> = (0..random.usize(..300)).map(|_| random.u16(..2_000).to_string()).collect();
                (format!("/f{file}"), words.join(" "))
            })
            .collect();
        let mut slow: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (path, text) in &texts {
            text.split(' ').filter(|word| !word.is_empty()).for_each(|word| {
                slow.entry(word).or_default().insert(path);
            });
        }
        let mut expected: Vec<String> = slow
            .into_iter()
            .map(|(word, paths)| format!("{word}\t{}", paths.into_iter().collect::<Vec<_>>().join(" ")))
            .collect();
        expected.sort();
        let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert!(inverted(&texts, 4) == expected);
    }

    #[test]
    fn what_words_did_not_write_is_refused() {
        let error = run("index", b"plain text", RecordFormat::File, 1, &[]).unwrap_err();
        assert!(error.message().contains("blocks that `words` wrote"), "{error}");
        assert!(run("index", b"", RecordFormat::Lines, 1, &[]).is_err());
        assert_eq!(run("index", b"", RecordFormat::File, 1, &[]).unwrap().bucket(0), b"");
    }
}
