//! A user function in Rust: word count, the smallest job with a shuffle. It serves as the example of the guide and is
//! compiled and run by the tests. A function never opens a file or a socket: its segment comes as bytes and its
//! results leave through `output`.

use std::collections::BTreeMap;

use udf::{FunctionError, Input, Output};

/// First stage: counts the words of a segment. It sends each word's line `word count` to the bucket of the word, so
/// that all counts of a word meet. Parameter `shortest`: least length of a word in characters (default 1).
///
/// ```text
/// cargo build --release -p udf-example-rust
/// sector run --udf target/release/libudf_example_rust.so:word_count --input /texts --output /counts --buckets 4 \
///     --then target/release/libudf_example_rust.so:add_counts
/// ```
fn word_count(input: &Input, output: &mut Output) -> Result<(), FunctionError> {
    let shortest: usize = input.parsed_parameter("shortest", 1)?;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut done = 0;
    for (number, record) in (0..).zip(input.records()) {
        let text = std::str::from_utf8(record).map_err(|error| FunctionError::from(error).at_record(number))?;
        for word in text.split_whitespace().filter(|word| word.chars().count() >= shortest) {
            *counts.entry(word).or_default() += 1;
        }
        done += record.len() as u64;
        output.progress(done);
    }
    for (word, count) in counts {
        output.emit_key(word.as_bytes(), format!("{word} {count}\n").as_bytes())?;
    }
    Ok(())
}

/// Second stage: adds up the counts of each word of a whole bucket.
fn add_counts(input: &Input, output: &mut Output) -> Result<(), FunctionError> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for line in std::str::from_utf8(input.bytes())?.lines() {
        let (word, count) =
            line.split_once(' ').ok_or_else(|| FunctionError::new(format!("`{line}` is not `word count`")))?;
        *sums.entry(word).or_default() += count.parse::<u64>()?;
    }
    for (word, sum) in sums {
        output.emit(0, format!("{word} {sum}\n").as_bytes())?;
    }
    Ok(())
}

/// Panics when it meets the word of its parameter `word`, to show what a panic does.
fn panic_at(input: &Input, _: &mut Output) -> Result<(), FunctionError> {
    let word = input.required_parameter("word")?;
    for record in input.records() {
        assert!(!String::from_utf8_lossy(record).contains(word), "found {word} in {}", input.path());
    }
    Ok(())
}

udf::export!(word_count(shortest) => word_count, add_counts() => add_counts, panic_at(word) => panic_at);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::{Collected, RecordFormat};

    use super::*;

    #[test]
    fn counts_of_both_stages_agree_with_the_text() {
        let mut counted = Collected::with_buckets(1);
        word_count(&Input::new(b"bee cow\nbee", RecordFormat::Lines), &mut Output::new(&mut counted)).unwrap();
        assert_eq!(counted.bucket(0), b"bee 2\ncow 1\n");
        let twice = [counted.bucket(0), counted.bucket(0)].concat();
        let mut added = Collected::with_buckets(1);
        add_counts(&Input::new(&twice, RecordFormat::File), &mut Output::new(&mut added)).unwrap();
        assert_eq!(added.bucket(0), b"bee 4\ncow 2\n");
    }
}
