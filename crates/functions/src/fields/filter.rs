//! `filter`: keeps the records that fulfil all conditions. Serves the path *job*. It never changes a record.

use std::cmp::Ordering;

use udf::{FunctionError, Input, Output};

use crate::{
    fields::{
        field::{Field, Record, records},
        number::{Number, Value},
    },
    sorting::cuts::from_hex,
    writer::Writer,
};

/// Emits each record that fulfils all conditions, unchanged and in its order, to the bucket of its key's
/// [hash](udf::key_hash).
///
/// The parameters `contains`, `lacks`, `begins`, `equals`, `from` and `below` apply to the bytes of `key`. Without
/// `key`, they apply to the whole record. `at_least` and `at_most` apply to the number in `value`.
pub(crate) fn filter(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let key = Field::key_or_all("filter", input)?;
    let conditions = Conditions::of(input)?;
    let mut writer = Writer::new(input, output);
    for record in records(input) {
        let found = key.find(record)?;
        if conditions.hold(found, record)? {
            writer.emit(found, record.content)?;
        }
        writer.progress(record.content.len());
    }
    writer.finish()
}

/// What a record must fulfil.
struct Conditions {
    texts: Vec<(Condition, Vec<u8>)>,
    numbers: Vec<(Ordering, Number)>,
    value: Option<Value>,
}

/// How the bytes of a key must relate to a text.
#[derive(Clone, Copy)]
enum Condition {
    Contain,
    Lack,
    Begin,
    Equal,
    ReachFrom,
    StayBelow,
}

impl Conditions {
    fn of(input: &Input<'_>) -> Result<Self, FunctionError> {
        let mut texts = Vec::new();
        for (name, condition) in TEXT_CONDITIONS {
            if let Some(text) = input.parameter(name) {
                texts.push((condition, bytes_of(name, text)?));
            }
        }
        let mut numbers = Vec::new();
        for (name, beyond) in [("at_least", Ordering::Less), ("at_most", Ordering::Greater)] {
            if input.parameter(name).is_some() {
                numbers.push((beyond, input.parsed_parameter(name, Number::Integer(0))?));
            }
        }
        if texts.is_empty() && numbers.is_empty() {
            return Err(FunctionError::new(
                "`filter` has no condition: give `contains`, `lacks`, `begins`, `equals`, `from`, `below`, `at_least` or \
                 `at_most` with `--param NAME=VALUE`",
            ));
        }
        let value = if numbers.is_empty() { None } else { Some(Value::of("filter", input)?) };
        Ok(Self { texts, numbers, value })
    }

    fn hold(&self, key: &[u8], record: Record<'_>) -> Result<bool, FunctionError> {
        if !self.texts.iter().all(|(condition, text)| condition.holds(key, text)) {
            return Ok(false);
        }
        let Some(value) = &self.value else { return Ok(true) };
        let number = value.read(record)?;
        Ok(self.numbers.iter().all(|(beyond, bound)| number.compare(bound) != *beyond))
    }
}

impl Condition {
    fn holds(self, key: &[u8], text: &[u8]) -> bool {
        match self {
            Self::Contain => contains(key, text),
            Self::Lack => !contains(key, text),
            Self::Begin => key.starts_with(text),
            Self::Equal => key == text,
            Self::ReachFrom => key >= text,
            Self::StayBelow => key < text,
        }
    }
}

/// Whether `bytes` contains `text`. It first looks for the first byte of `text`, which most places do not have.
fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let Some((first, _)) = text.split_first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(text) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// The bytes that a parameter means: its own, or those given by the digits after `hex:`.
fn bytes_of(name: &str, text: &str) -> Result<Vec<u8>, FunctionError> {
    match text.strip_prefix("hex:") {
        Some(digits) => from_hex(digits)
            .map_err(|error| FunctionError::new(format!("the parameter `{name}` cannot be `{text}`: {error}"))),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Conditions by the names of their parameters.
const TEXT_CONDITIONS: [(&str, Condition); 6] = [
    ("contains", Condition::Contain),
    ("lacks", Condition::Lack),
    ("begins", Condition::Begin),
    ("equals", Condition::Equal),
    ("from", Condition::ReachFrom),
    ("below", Condition::StayBelow),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use udf::{RecordFormat, key_hash};

    use super::*;
    use crate::testing::{random_bytes, run, run_on, run_on_lines};

    fn lines(text: &str, parameters: &[(&str, &str)]) -> String {
        run_on_lines("filter", text, parameters)
    }

    #[test]
    fn lines_are_kept_by_what_they_contain_lack_begin_with_and_are() {
        let text = "a bee\nno\n\nbeetle";
        assert_eq!(lines(text, &[("contains", "bee")]), "a bee\nbeetle\n");
        assert_eq!(lines(text, &[("lacks", "bee")]), "no\n\n");
        assert_eq!(lines(text, &[("begins", "bee")]), "beetle\n");
        assert_eq!(lines(text, &[("equals", "no")]), "no\n");
        assert_eq!(lines(text, &[("equals", "")]), "\n");
        assert_eq!(lines(text, &[("contains", "bee"), ("lacks", "a ")]), "beetle\n");
        assert_eq!(lines("aab\nab\n", &[("contains", "hex:6161")]), "aab\n");
    }

    #[test]
    fn columns_have_ranges_of_texts_and_of_numbers() {
        let text = "bee 5\ncow 10\nasp -1.5\n";
        let blanks = ("separator", "blanks");
        assert_eq!(lines(text, &[blanks, ("key", "column:1"), ("from", "bee"), ("below", "cow")]), "bee 5\n");
        assert_eq!(lines(text, &[blanks, ("at_least", "5")]), "bee 5\ncow 10\n");
        assert_eq!(lines(text, &[blanks, ("at_least", "-1.5"), ("at_most", "5.0")]), "bee 5\nasp -1.5\n");
        let error = run("filter", b"a\t1\nb\tx\n", RecordFormat::Lines, 1, &[("at_most", "3")]).unwrap_err();
        assert_eq!((error.record(), error.message()), (Some(1), "`x` is not a number"));
    }

    #[test]
    fn random_records_are_kept_as_a_slow_reader_keeps_them_each_in_its_keys_bucket() {
        let bytes: Vec<u8> = random_bytes(3, 12 * 20_000).iter().map(|byte| byte % 5).collect();
        let parameters = [("key", "2:6"), ("contains", "hex:0101"), ("lacks", "hex:02"), ("below", "hex:0300")];
        let kept = run("filter", &bytes, RecordFormat::Fixed(12), 4, &parameters).unwrap();
        let has = |key: &[u8], text: &[u8]| key.windows(text.len()).any(|some| some == text);
        for bucket in 0..4 {
            let slow: Vec<u8> = bytes
                .chunks(12)
                .filter(|record| {
                    let key = &record[2..8];
                    has(key, &[1, 1]) && !has(key, &[2]) && key < &[3, 0] && key_hash(key) % 4 == bucket
                })
                .flatten()
                .copied()
                .collect();
            assert!(!slow.is_empty() && kept.bucket(bucket) == slow, "bucket {bucket}");
        }
    }

    #[test]
    fn indexed_records_are_kept_whole_and_numbers_may_be_binary() {
        let starts = [0_u64, 6, 12].map(u64::to_le);
        let input = Input::new(b">a\nxx\n>b\nyy\n", RecordFormat::Index).with_starts(&starts);
        assert_eq!(run_on("filter", input, &[("contains", "y")]).unwrap().bucket(0), b">b\nyy\n");
        let parameters = [("key", "0:1"), ("value", "1:i8"), ("at_least", "0")];
        let kept = run("filter", b"a\x05b\xffc\x00", RecordFormat::Fixed(2), 1, &parameters).unwrap();
        assert_eq!((kept.bucket(0), kept.records), (&b"a\x05c\x00"[..], 2));
    }

    #[test]
    fn what_is_no_condition_is_said() {
        let message = |format, parameters: &[(&str, &str)]| {
            run("filter", b"a", format, 1, parameters).unwrap_err().message().to_owned()
        };
        assert!(message(RecordFormat::Lines, &[]).contains("no condition"));
        assert!(message(RecordFormat::Lines, &[("equals", "hex:0")]).contains("`equals` cannot be `hex:0`"));
        assert!(message(RecordFormat::Lines, &[("at_most", "x")]).contains("`at_most` cannot be `x`"));
        assert!(message(RecordFormat::File, &[("equals", "a")]).contains("--records"));
        assert!(message(RecordFormat::Fixed(1), &[("at_most", "1")]).contains("`value` is missing"));
    }
}
