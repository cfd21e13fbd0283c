//! Numbers in records: integers, which are added and compared exactly, and reals. Serves `reduce` and `filter`. It
//! never accepts a real that is not finite.

use std::{cmp::Ordering, fmt, str::FromStr};

use udf::{FunctionError, Input, RecordFormat};

use crate::fields::field::{Field, Record};

/// A number of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// An integer.
    Integer(i128),
    /// A real, which is finite.
    Real(f64),
}

/// Where in a record its number lies: the parameter `value`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// A decimal number in a column or at a place of a line.
    Text(Field),
    /// A binary one at a place of a fixed record.
    Binary(Binary),
}

/// A little-endian number at a byte of a record: `OFFSET:TYPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binary {
    offset: usize,
    kind: Kind,
}

/// A sum of numbers. It is exact for integers. For reals, it collects the rounding error of each step and adds it
/// back at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    integers: i128,
    reals: f64,
    lost: f64,
    has_reals: bool,
}

/// The sum is too large for any number type here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned(usize),
    Signed(usize),
    F32,
    F64,
}

impl Value {
    /// The parameter `value` of a function; for lines, the default is the second column.
    pub(crate) fn of(function: &str, input: &Input<'_>) -> Result<Self, FunctionError> {
        match input.format() {
            RecordFormat::Fixed(record_bytes) => {
                let text = input.required_parameter("value")?;
                let value: Binary = text.parse().map_err(|error| {
                    FunctionError::new(format!("the parameter `value` cannot be `{text}`: {error}"))
                })?;
                if value.offset.saturating_add(value.kind.bytes()) > record_bytes as usize {
                    let error = format!("the value {text} does not fit a record of {record_bytes} bytes");
                    return Err(FunctionError::new(error));
                }
                Ok(Self::Binary(value))
            }
            RecordFormat::Lines => Ok(Self::Text(Field::value(function, input)?)),
            RecordFormat::Index | RecordFormat::File => {
                Err(FunctionError::new(format!("`{function}` finds numbers in lines and in fixed records alone")))
            }
        }
    }

    /// The number of a record. The error names the record.
    pub(crate) fn read(&self, record: Record<'_>) -> Result<Number, FunctionError> {
        match self {
            Self::Text(field) => {
                let text = field.find(record)?;
                let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                number.ok_or_else(|| {
                    let shown: String = String::from_utf8_lossy(text).chars().take(SHOWN_CHARS).collect();
                    record.error(format!("`{}` is not a number", shown.escape_debug()))
                })
            }
            Self::Binary(binary) => {
                binary.read(record.content).ok_or_else(|| record.error("the value is not a finite number"))
            }
        }
    }

    /// Whether it may be a real.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self, Self::Binary(Binary { kind: Kind::F32 | Kind::F64, .. }))
    }
}

impl Binary {
    fn read(&self, record: &[u8]) -> Option<Number> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.kind.bytes())?)?;
        // The bytes fill the upper end, so that the number's sign bit is that of the whole. A shift to the right
        // brings the number down.
        let mut wide = [0; 16];
        wide[16 - bytes.len()..].copy_from_slice(bytes);
        let shift = 128 - 8 * bytes.len() as u32;
        let real = match self.kind {
            Kind::Unsigned(_) => return Some(Number::Integer((u128::from_le_bytes(wide) >> shift) as i128)),
            Kind::Signed(_) => return Some(Number::Integer(i128::from_le_bytes(wide) >> shift)),
            Kind::F32 => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
            Kind::F64 => f64::from_le_bytes(bytes.try_into().ok()?),
        };
        real.is_finite().then_some(Number::Real(real))
    }
}

impl FromStr for Binary {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = "it must be OFFSET:TYPE, such as 8:u32; the types are u8 to u64, i8 to i64, f32 and f64";
        let (offset, kind) = text.split_once(':').ok_or(error)?;
        let (_, kind) = KINDS.iter().find(|(name, _)| *name == kind).ok_or(error)?;
        Ok(Self { offset: offset.parse().map_err(|_| error)?, kind: *kind })
    }
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) => bytes,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

impl Number {
    /// The order of numbers. It is exact, even between an integer and a real that no integer is near.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(&b),
            (Self::Real(a), Self::Real(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Self::Integer(a), Self::Real(b)) => compare_mixed(a, b),
            (Self::Real(a), Self::Integer(b)) => compare_mixed(b, a).reverse(),
        }
    }
}

/// Compares an integer with a finite real: first with the real's whole part, then by its fraction.
fn compare_mixed(integer: i128, real: f64) -> Ordering {
    if real.abs() >= INTEGERS_END {
        return 0.0.partial_cmp(&real).unwrap_or(Ordering::Equal);
    }
    let whole = real.trunc();
    integer.cmp(&(whole as i128)).then(whole.partial_cmp(&real).unwrap_or(Ordering::Equal))
}

impl FromStr for Number {
    type Err = &'static str;

    /// Reads a decimal number, with blanks around it or not.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim_ascii();
        if let Ok(integer) = text.parse() {
            return Ok(Self::Integer(integer));
        }
        match text.parse::<f64>() {
            Ok(real) if real.is_finite() => Ok(Self::Real(real)),
            _ => Err("it must be a number"),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => write!(f, "{integer}"),
            // The shortest form that reads back as the same number and can be recognised as a real.
            Self::Real(real) => write!(f, "{real:?}"),
        }
    }
}

impl Sum {
    /// Adds a number.
    pub(crate) fn add(&mut self, number: Number) -> Result<(), TooLarge> {
        match number {
            Number::Integer(integer) => self.integers = self.integers.checked_add(integer).ok_or(TooLarge)?,
            Number::Real(real) => {
                self.has_reals = true;
                self.add_real(real);
            }
        }
        Ok(())
    }

    /// The sum; it is an integer if all numbers were integers.
    pub(crate) fn total(mut self) -> Result<Number, TooLarge> {
        if !self.has_reals {
            return Ok(Number::Integer(self.integers));
        }
        self.add_real(self.integers as f64);
        let total = self.reals + self.lost;
        if total.is_finite() { Ok(Number::Real(total)) } else { Err(TooLarge) }
    }

    /// Neumaier's summation: the part that a step rounds away is kept separately.
    fn add_real(&mut self, real: f64) {
        let sum = self.reals + real;
        let (large, small) = if self.reals.abs() >= real.abs() { (self.reals, real) } else { (real, self.reals) };
        self.lost += (large - sum) + small;
        self.reals = sum;
    }
}

/// The types of binary numbers.
const KINDS: [(&str, Kind); 10] = [
    ("u8", Kind::Unsigned(1)),
    ("u16", Kind::Unsigned(2)),
    ("u32", Kind::Unsigned(4)),
    ("u64", Kind::Unsigned(8)),
    ("i8", Kind::Signed(1)),
    ("i16", Kind::Signed(2)),
    ("i32", Kind::Signed(4)),
    ("i64", Kind::Signed(8)),
    ("f32", Kind::F32),
    ("f64", Kind::F64),
];
/// 2 to the power of 127: reals from here on are beyond all integers of 128 bits.
const INTEGERS_END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
/// How many characters of a malformed number an error shows.
const SHOWN_CHARS: usize = 40;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_are_integers_reals_or_no_numbers() {
        let read = |text: &str| text.parse::<Number>().map(|number| number.to_string());
        for (text, shown) in [
            ("7", "7"),
            (" -7 ", "-7"),
            ("+7", "7"),
            ("1.50", "1.5"),
            ("2.0", "2.0"),
            ("1e3", "1000.0"),
            ("1e300", "1e300"),
            ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
        ] {
            assert_eq!(read(text).unwrap(), shown, "{text}");
        }
        for text in ["", "x", "nan", "inf", "1e999", "0x10", "1_000", "1 2", "--1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn integers_and_reals_have_one_order() {
        let ordered = [
            Number::Real(-1e300),
            Number::Integer(i128::MIN),
            Number::Integer(-2),
            Number::Real(-1.5),
            Number::Integer(-1),
            Number::Real(-0.5),
            Number::Integer(0),
            Number::Real(0.25),
            // No real is between these two: rounded to reals, they would be equal.
            Number::Integer(9_007_199_254_740_992),
            Number::Integer(9_007_199_254_740_993),
            Number::Real(9_007_199_254_740_994.0),
            Number::Integer(i128::MAX),
            Number::Real(INTEGERS_END),
        ];
        for (at, a) in ordered.iter().enumerate() {
            for (beside, b) in ordered.iter().enumerate() {
                assert_eq!(a.compare(b), at.cmp(&beside), "{a} {b}");
            }
        }
        assert_eq!(Number::Integer(2).compare(&Number::Real(2.0)), Ordering::Equal);
    }

    #[test]
    fn sums_of_integers_are_exact_and_those_of_reals_lose_nothing_small() {
        let sum = |numbers: &[Number]| {
            let mut sum = Sum::default();
            numbers.iter().try_for_each(|number| sum.add(*number))?;
            sum.total().map(|total| total.to_string())
        };
        assert_eq!(sum(&[Number::Integer(i128::from(i64::MAX)); 2]).unwrap(), "18446744073709551614");
        assert_eq!(sum(&[Number::Integer(i128::MAX), Number::Integer(1)]), Err(TooLarge));
        assert_eq!(sum(&[Number::Real(1e16), Number::Real(1.0), Number::Real(-1e16)]).unwrap(), "1.0");
        assert_eq!(sum(&[Number::Integer(1), Number::Real(0.5)]).unwrap(), "1.5");
        assert_eq!(sum(&[Number::Real(f64::MAX), Number::Real(f64::MAX)]), Err(TooLarge));
        assert_eq!(sum(&[]).unwrap(), "0");
    }

    #[test]
    fn binary_numbers_are_little_endian_with_their_sign() {
        let read = |text: &str| {
            let mut record = vec![0xaa; 3];
            record.extend([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
            text.parse::<Binary>().unwrap().read(&record).map(|number| number.to_string())
        };
        assert_eq!(read("3:u8").unwrap(), "254");
        assert_eq!(read("3:i8").unwrap(), "-2");
        assert_eq!(read("3:u16").unwrap(), "65534");
        assert_eq!(read("3:i32").unwrap(), "-2");
        assert_eq!(read("3:u64").unwrap(), "18446744073709551614");
        assert_eq!(read("3:f64"), None, "not a number");
        assert_eq!(read("4:u64"), None, "beyond the record");
        assert_eq!("0:f32".parse::<Binary>().unwrap().read(&1.5f32.to_le_bytes()).unwrap().to_string(), "1.5");
        for text in ["", "3", "3:u7", "x:u8", "3:"] {
            assert!(text.parse::<Binary>().is_err(), "{text}");
        }
    }
}
