//! `reduce`: one result for all records with equal keys. Serves the path *job* as the second stage of a MapReduce
//! (Sector/Sphere paper, 3.6). Where results can be reduced again, it also serves as a first stage that leaves less
//! to send. It never keeps more than one state per key.

use std::{
    collections::{HashMap, hash_map::Entry},
    str::FromStr,
};

use udf::{FunctionError, Input, Output, RecordFormat};

use crate::{
    fields::{
        field::{Field, Record, records},
        number::{Number, Sum, TooLarge, Value},
    },
    writer::Writer,
};

/// Emits one record for each key of the segment, in the order of the keys, to the bucket of its key's
/// [hash](udf::key_hash). Parameter `reduction`: `count`, `sum`, `min`, `max` or `first`; parameters `key`, `value`,
/// `separator`.
///
/// For lines, the result is a line of key and number. For fixed records, it is the key and then 8 bytes,
/// little-endian: a signed integer, or a real if `value` is one. `first` emits the first record itself.
pub(crate) fn reduce(input: &Input<'_>, output: &mut Output<'_>) -> Result<(), FunctionError> {
    let reduction: Reduction = input.required_parameter("reduction").and_then(|text| {
        text.parse()
            .map_err(|error| FunctionError::new(format!("the parameter `reduction` cannot be `{text}`: {error}")))
    })?;
    let key = Field::key("reduce", input)?;
    if input.format() == RecordFormat::Index && !matches!(reduction, Reduction::First) {
        return Err(FunctionError::new(
            "of indexed records `reduce` gives the `first` alone: their results have no index",
        ));
    }
    let value = if reduction.has_value() { Some(Value::of("reduce", input)?) } else { None };
    let states = states(input, reduction, key, value.as_ref(), output)?;
    let mut keys: Vec<_> = states.into_iter().collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    let is_real = value.is_some_and(|value| value.is_real());
    let mut writer = Writer::new(input, output);
    let mut record = Vec::new();
    for (key_bytes, state) in keys {
        record.clear();
        match state.result().map_err(|TooLarge| too_large(key_bytes))? {
            Outcome::Record(first) => record.extend_from_slice(first),
            Outcome::Number(number) => {
                record.extend_from_slice(key_bytes);
                if input.format() == RecordFormat::Lines {
                    record.push(key.separator());
                    record.extend(number.to_string().bytes());
                } else {
                    record.extend(eight_bytes(number, is_real).ok_or_else(|| too_large(key_bytes))?);
                }
            }
        }
        writer.emit(key_bytes, &record)?;
    }
    writer.finish()
}

/// The final state of each key.
fn states<'a>(
    input: &Input<'a>,
    reduction: Reduction,
    key: Field,
    value: Option<&Value>,
    output: &mut Output<'_>,
) -> Result<HashMap<&'a [u8], State<'a>>, FunctionError> {
    let mut states = HashMap::new();
    let (mut done, mut told) = (0, 0);
    for record in records(input) {
        let number = match value {
            Some(value) => value.read(record)?,
            None => Number::Integer(1),
        };
        let state = match states.entry(key.find(record)?) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(State::new(reduction, record, number)),
        };
        state.add(number).map_err(|TooLarge| record.error("the sum up to here is too large for a number"))?;
        done += record.content.len();
        if done - told > PROGRESS_BYTES {
            told = done;
            output.progress(done as u64);
        }
    }
    Ok(states)
}

fn too_large(key: &[u8]) -> FunctionError {
    let shown = String::from_utf8_lossy(&key[..key.len().min(KEY_SHOWN_BYTES)]).escape_debug().to_string();
    FunctionError::new(format!("the result of the key `{shown}` is too large for a number"))
}

/// A number as it stands in a fixed record.
fn eight_bytes(number: Number, is_real: bool) -> Option<[u8; 8]> {
    match number {
        Number::Real(real) => Some(real.to_le_bytes()),
        Number::Integer(integer) if is_real => Some((integer as f64).to_le_bytes()),
        Number::Integer(integer) => Some(i64::try_from(integer).ok()?.to_le_bytes()),
    }
}

/// How the records of a key are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    Count,
    Sum,
    Min,
    Max,
    First,
}

impl Reduction {
    fn has_value(self) -> bool {
        matches!(self, Self::Sum | Self::Min | Self::Max)
    }
}

impl FromStr for Reduction {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "count" => Ok(Self::Count),
            "sum" => Ok(Self::Sum),
            "min" => Ok(Self::Min),
            "max" => Ok(Self::Max),
            "first" => Ok(Self::First),
            _ => Err("it must be count, sum, min, max or first"),
        }
    }
}

/// The state of a key so far.
enum State<'a> {
    Sum(Sum),
    Min(Number),
    Max(Number),
    First(&'a [u8]),
}

/// What is emitted for a key.
enum Outcome<'a> {
    Record(&'a [u8]),
    Number(Number),
}

impl<'a> State<'a> {
    /// The initial state; the caller adds the first record next.
    fn new(reduction: Reduction, record: Record<'a>, number: Number) -> Self {
        match reduction {
            // A count is the sum of a 1 for each record.
            Reduction::Count | Reduction::Sum => Self::Sum(Sum::default()),
            Reduction::Min => Self::Min(number),
            Reduction::Max => Self::Max(number),
            Reduction::First => Self::First(record.content),
        }
    }

    fn add(&mut self, number: Number) -> Result<(), TooLarge> {
        match self {
            Self::Sum(sum) => sum.add(number)?,
            Self::Min(least) if number.compare(least).is_lt() => *least = number,
            Self::Max(greatest) if number.compare(greatest).is_gt() => *greatest = number,
            Self::Min(_) | Self::Max(_) | Self::First(_) => {}
        }
        Ok(())
    }

    fn result(self) -> Result<Outcome<'a>, TooLarge> {
        match self {
            Self::Sum(sum) => sum.total().map(Outcome::Number),
            Self::Min(number) | Self::Max(number) => Ok(Outcome::Number(number)),
            Self::First(record) => Ok(Outcome::Record(record)),
        }
    }
}

/// Progress is told about every so many bytes.
const PROGRESS_BYTES: usize = 1024 * 1024;
/// Bytes of a key that an error shows.
const KEY_SHOWN_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::{run, run_on_lines};

    fn lines(text: &str, parameters: &[(&str, &str)]) -> String {
        run_on_lines("reduce", text, parameters)
    }

    #[test]
    fn each_reduction_gives_a_line_a_key() {
        let text = "cow\t2\nbee\t1.5\ncow\t-4\nbee\t7";
        let by = |reduction: &str| lines(text, &[("reduction", reduction)]);
        assert_eq!(by("count"), "bee\t2\ncow\t2\n");
        assert_eq!(by("sum"), "bee\t8.5\ncow\t-2\n");
        assert_eq!(by("min"), "bee\t1.5\ncow\t-4\n");
        assert_eq!(by("max"), "bee\t7\ncow\t2\n");
        assert_eq!(by("first"), "bee\t1.5\ncow\t2\n");
        let blanks = [("reduction", "sum"), ("separator", "blanks"), ("key", "column:2"), ("value", "column:1")];
        assert_eq!(lines(" 1 x\n2  x\n", &blanks), "x 3\n");
        assert_eq!(lines("a b\na b\n", &[("reduction", "count")]), "a b\t2\n");
        assert_eq!(lines("", &[("reduction", "count")]), "");
    }

    #[test]
    fn many_lines_are_reduced_as_a_slow_program_does_also_in_two_stages() {
        let mut random = fastrand::Rng::with_seed(21);
        let lines: Vec<(u16, i64)> = (0..30_000).map(|_| (random.u16(..900), random.i64(-50..50))).collect();
        let text: String = lines.iter().map(|(key, number)| format!("{key}\t{number}\n")).collect();
        let mut slow: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for (key, number) in &lines {
            slow.entry(key.to_string()).or_default().push(*number);
        }
        type Plain = fn(&[i64]) -> i64;
        let plain: [(&str, Plain); 3] = [
            ("sum", |numbers| numbers.iter().sum()),
            ("min", |numbers| *numbers.iter().min().unwrap()),
            ("max", |numbers| *numbers.iter().max().unwrap()),
        ];
        for (reduction, plain) in plain {
            let parameters = [("reduction", reduction)];
            let expected: String = slow.iter().map(|(key, numbers)| format!("{key}\t{}\n", plain(numbers))).collect();
            // Reduced in each of three segments, sent by key to four buckets, and reduced again there.
            let mut buckets = vec![Vec::new(); 4];
            for some in text.as_bytes().split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>().chunks(10_000) {
                let reduced = run("reduce", &some.concat(), RecordFormat::Lines, 4, &parameters).unwrap();
                (0..4).for_each(|bucket| buckets[bucket as usize].extend_from_slice(reduced.bucket(bucket)));
            }
            let mut found: Vec<Vec<u8>> = Vec::new();
            for bucket in buckets {
                let reduced = run("reduce", &bucket, RecordFormat::Lines, 1, &parameters).unwrap();
                found.extend(reduced.bucket(0).split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            }
            let by_key = |line: &Vec<u8>| line.split(|byte| *byte == b'\t').next().map(<[u8]>::to_vec);
            found.sort_by_key(by_key);
            assert_eq!(String::from_utf8(found.concat()).unwrap(), expected, "{reduction}");
        }
    }

    #[test]
    fn fixed_records_give_their_key_and_eight_bytes() {
        let records = [(b'a', 2.5f32), (b'b', 1.0), (b'a', -1.0)];
        let bytes: Vec<u8> =
            records.iter().flat_map(|(key, number)| [&[*key][..], &number.to_le_bytes()].concat()).collect();
        let reduced = |reduction: &str| {
            let parameters = [("reduction", reduction), ("key", "0:1"), ("value", "1:f32")];
            run("reduce", &bytes, RecordFormat::Fixed(5), 1, &parameters).unwrap().bucket(0).to_vec()
        };
        assert_eq!(reduced("sum"), [b"a", &1.5f64.to_le_bytes()[..], b"b", &1f64.to_le_bytes()[..]].concat());
        assert_eq!(reduced("count"), [b"a", &2i64.to_le_bytes()[..], b"b", &1i64.to_le_bytes()[..]].concat());
        assert_eq!(reduced("first"), bytes[..10]);
    }

    #[test]
    fn what_cannot_be_reduced_is_named_with_its_record() {
        let error = |bytes: &[u8], format, parameters: &[(&str, &str)]| {
            let error = run("reduce", bytes, format, 1, parameters).unwrap_err();
            (error.record(), error.message().to_owned())
        };
        let sum = ("reduction", "sum");
        let lines = RecordFormat::Lines;
        assert_eq!(error(b"a\t1\na\tx y\n", lines, &[sum]), (Some(1), "`x y` is not a number".into()));
        assert_eq!(error(b"a\n", lines, &[sum]), (Some(0), "the line has no column 2: its columns are 1".into()));
        assert!(error(b"", lines, &[("reduction", "mean")]).1.contains("count, sum, min, max or first"));
        assert!(error(b"", lines, &[]).1.contains("--param reduction"));
        assert!(error(b"", RecordFormat::Index, &[sum]).1.contains("`first` alone"));
        assert!(error(b"", RecordFormat::File, &[sum]).1.contains("--result-records"));
        let large = [b"a".as_slice(), &u64::MAX.to_le_bytes()].concat();
        let fixed = [sum, ("key", "0:1"), ("value", "1:u64")];
        assert_eq!(
            error(&large, RecordFormat::Fixed(9), &fixed),
            (None, "the result of the key `a` is too large for a number".into())
        );
        let not = [b"ab".as_slice(), &f64::NAN.to_le_bytes()].concat();
        let fixed = [sum, ("key", "0:1"), ("value", "2:f64")];
        assert_eq!(error(&not, RecordFormat::Fixed(10), &fixed), (Some(0), "the value is not a finite number".into()));
        assert!(
            error(b"ab", RecordFormat::Fixed(2), &[sum, ("key", "0:1"), ("value", "1:u32")]).1.contains("does not fit")
        );
    }
}
