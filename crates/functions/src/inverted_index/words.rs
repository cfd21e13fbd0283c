//! `words`: the first stage of the inverted index. Sector/Sphere paper, 3.6: "each web page is read, the terms are
//! extracted, and each term is hashed into a different bucket". It never emits a word twice for one segment.

use udf::{FunctionError, Input, Output, RecordFormat, key_hash};

use crate::{
    batch::BATCH_BYTES,
    inverted_index::{
        blocks::{BlockWriter, WORD_BYTES_MAX},
        word_set::{TooManyWords, WordSet},
    },
};

/// Emits for each bucket one [block](super::blocks) with the segment's distinct words. A word's bucket is its
/// [hash](udf::key_hash).
///
/// A word is a run of ASCII letters, digits, underscores and bytes from 0x80 on, so that text in UTF-8 stays whole.
/// It is 1 to 64 bytes long, and its ASCII letters are made lower case. A longer run is data and not a word.
pub(crate) fn words(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    if let RecordFormat::Fixed(_) = input.format() {
        return Err(FunctionError::new(
            "`words` reads text: store its input with `--records file` or `--records lines`",
        ));
    }
    let words = distinct_words(input.bytes(), output)?;
    let buckets = u64::from(input.buckets());
    let mut blocks: Vec<BlockWriter> = (0..buckets).map(|_| BlockWriter::new(input.path())).collect();
    for (hash, word) in words.iter() {
        blocks[(hash % buckets) as usize].push(word);
    }
    for (bucket, block) in (0..).zip(blocks) {
        if let Some((bytes, words)) = block.finish() {
            output.emit_records(bucket, &bytes, words)?;
        }
    }
    Ok(())
}

fn distinct_words(bytes: &[u8], output: &mut Output<'_>) -> Result<WordSet, FunctionError> {
    let mut words = WordSet::new();
    let empty = key_hash(b"");
    let mut folded = [0; WORD_BYTES_MAX];
    let mut at = 0;
    let mut told = 0;
    while at < bytes.len() {
        let mut hash = empty;
        let mut length = 0;
        // The hash is computed while the word is read, letter by letter, by the same steps as `key_hash`.
        while let Some(letter) = bytes.get(at).map(|byte| LETTERS[usize::from(*byte)]).filter(|letter| *letter != 0) {
            hash = (hash ^ u64::from(letter)).wrapping_mul(FNV_PRIME);
            if let Some(place) = folded.get_mut(length) {
                *place = letter;
            }
            length += 1;
            at += 1;
        }
        if (1..=WORD_BYTES_MAX).contains(&length) {
            words
                .insert(hash, &folded[..length])
                .map_err(|TooManyWords| FunctionError::new("the file has more than 4294967294 different words"))?;
        }
        // Skips the byte that ended the word; it belongs to none.
        at += 1;
        if at - told > BATCH_BYTES {
            told = at;
            output.progress(at as u64);
        }
    }
    Ok(words)
}

/// For each byte, the letter it is in a word, or 0.
const LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let letter = byte as u8;
        if letter.is_ascii_alphanumeric() || letter == b'_' || letter >= 0x80 {
            letters[byte] = letter.to_ascii_lowercase();
        }
        byte += 1;
    }
    letters
};
/// The prime of FNV-1a with 64 bits, as in [`key_hash`].
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;
    use crate::{inverted_index::blocks::Block, testing::run};

    fn found(text: &[u8], buckets: u32) -> Vec<BTreeSet<Vec<u8>>> {
        let result = run("words", text, RecordFormat::File, buckets, &[]).unwrap();
        (0..u64::from(buckets))
            .map(|bucket| {
                let mut rest = result.bucket(bucket);
                let Some(block) = Block::take(&mut rest).unwrap() else { return BTreeSet::new() };
                assert!(rest.is_empty() && block.path == "/in put");
                let words: Vec<Vec<u8>> = block.words().map(|word| word.unwrap().to_vec()).collect();
                let distinct: BTreeSet<Vec<u8>> = words.iter().cloned().collect();
                assert_eq!(distinct.len(), words.len(), "a word comes once");
                distinct
            })
            .collect()
    }

    #[test]
    fn words_are_lower_case_runs_of_letters_of_any_language() {
        let long = "x".repeat(64);
        let text = format!("Bee, COW; bee_2!\tÜber-große\0{long} {long}y end");
        let expected: BTreeSet<Vec<u8>> = ["bee", "cow", "bee_2", "Über", "große", &long, "end"]
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
        assert_eq!(found(text.as_bytes(), 1), [expected]);
        assert_eq!(found(b" \n", 1), [BTreeSet::new()]);
    }

    #[test]
    fn each_word_is_in_the_bucket_of_its_hash_as_a_slow_reader_finds_it() {
        let mut random = fastrand::Rng::with_seed(8);
        let text: Vec<u8> = (0..200_000).map(|_| b"abcDEF_09\xc3 .\n-"[random.usize(..14)]).collect();
        let mut slow = vec![BTreeSet::new(); 5];
        for run in text.split(|byte| b" .\n-".contains(byte)).filter(|run| (1..=64).contains(&run.len())) {
            let word = run.to_ascii_lowercase();
            slow[(key_hash(&word) % 5) as usize].insert(word);
        }
        assert_eq!(found(&text, 5), slow);
    }

    #[test]
    fn fixed_records_are_refused() {
        assert!(run("words", b"aa", RecordFormat::Fixed(2), 1, &[]).unwrap_err().message().contains("--records file"));
    }
}
