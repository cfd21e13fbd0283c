//! Columns that are known at run time, and the values that they hold (VOTable 1.4, 2 and 4.1). It never writes one.

use std::ops::RangeInclusive;

/// A column, as FIELD says it (VOTable 1.4, 4.1). An empty text says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
    /// The unit of its values (VOUnits).
    pub unit: String,
    /// What it means, in the words of UCD.
    pub ucd: String,
    /// Which attribute of a data model it is.
    pub utype: String,
    /// The type beyond the datatype (DALI 1.1, 3.3).
    pub xtype: String,
    /// What it is, in plain words.
    pub description: String,
}

impl Column {
    /// A column of which nothing further is said.
    pub fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        Self { name: name.into(), kind, ..Self::default() }
    }
}

/// What a column holds (VOTable 1.4, 2.1). A plural is an array of any length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// True or false.
    Boolean,
    /// A whole number of 8 bits without sign.
    UnsignedByte,
    /// A whole number of 16 bits.
    Short,
    /// A whole number of 32 bits.
    Int,
    /// A whole number of 64 bits.
    Long,
    /// A real number of 32 bits.
    Float,
    /// A real number of 64 bits.
    Double,
    /// Text of any length.
    #[default]
    Text,
    /// Text of any length whose letters are ASCII; others become `?`.
    AsciiText,
    /// Whole numbers of 8 bits without sign.
    UnsignedBytes,
    /// Whole numbers of 16 bits.
    Shorts,
    /// Whole numbers of 32 bits.
    Ints,
    /// Whole numbers of 64 bits.
    Longs,
    /// Real numbers of 32 bits.
    Floats,
    /// Real numbers of 64 bits.
    Doubles,
}

impl ColumnKind {
    /// The name of the datatype (VOTable 1.4, 2.1; column `datatype` of `TAP_SCHEMA.columns` in TAP 1.1, 4.3).
    pub const fn datatype(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::UnsignedByte | Self::UnsignedBytes => "unsignedByte",
            Self::Short | Self::Shorts => "short",
            Self::Int | Self::Ints => "int",
            Self::Long | Self::Longs => "long",
            Self::Float | Self::Floats => "float",
            Self::Double | Self::Doubles => "double",
            Self::Text => "unicodeChar",
            Self::AsciiText => "char",
        }
    }

    /// How many make up a value (VOTable 1.4, 2.2); `None` for a single one.
    pub const fn arraysize(self) -> Option<&'static str> {
        match self {
            Self::Text
            | Self::AsciiText
            | Self::UnsignedBytes
            | Self::Shorts
            | Self::Ints
            | Self::Longs
            | Self::Floats
            | Self::Doubles => Some("*"),
            _ => None,
        }
    }

    /// Bytes of one number, letter or boolean (VOTable 1.4, 2.1).
    pub(super) const fn width(self) -> usize {
        match self {
            Self::Boolean | Self::UnsignedByte | Self::UnsignedBytes | Self::AsciiText => 1,
            Self::Short | Self::Shorts | Self::Text => 2,
            Self::Int | Self::Ints | Self::Float | Self::Floats => 4,
            Self::Long | Self::Longs | Self::Double | Self::Doubles => 8,
        }
    }

    /// Whether its reals have 32 bits.
    pub(super) const fn is_single(self) -> bool {
        matches!(self, Self::Float | Self::Floats)
    }

    /// Whether a value is of this kind. A null is of each.
    pub(super) const fn is_kind_of(self, value: &Value<'_>) -> bool {
        matches!(
            (self, value),
            (_, Value::Null)
                | (Self::Boolean, Value::Boolean(_))
                | (Self::UnsignedByte | Self::Short | Self::Int | Self::Long, Value::Integer(_))
                | (Self::Float | Self::Double, Value::Real(_))
                | (Self::Text | Self::AsciiText, Value::Text(_))
                | (Self::UnsignedBytes | Self::Shorts | Self::Ints | Self::Longs, Value::Integers(_))
                | (Self::Floats | Self::Doubles, Value::Reals(_))
        )
    }

    /// Whether it has bits enough for a value of its kind. Lengths are counted in 32 bits.
    pub(super) fn has_room_for(self, value: &Value<'_>) -> bool {
        let is_countable = |count: usize| u32::try_from(count).is_ok();
        match value {
            Value::Integer(number) => self.range().contains(number),
            Value::Integers(numbers) => {
                let range = self.range();
                is_countable(numbers.len()) && numbers.iter().all(|number| range.contains(number))
            }
            Value::Reals(numbers) => is_countable(numbers.len()),
            Value::Text(text) => is_countable(text.len()),
            Value::Null | Value::Boolean(_) | Value::Real(_) => true,
        }
    }

    /// The whole numbers that it can hold.
    fn range(self) -> RangeInclusive<i64> {
        match self {
            Self::UnsignedByte | Self::UnsignedBytes => 0..=u8::MAX.into(),
            Self::Short | Self::Shorts => i16::MIN.into()..=i16::MAX.into(),
            Self::Int | Self::Ints => i32::MIN.into()..=i32::MAX.into(),
            _ => i64::MIN..=i64::MAX,
        }
    }
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A real number.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// Whole numbers.
    Integers(&'a [i64]),
    /// Real numbers.
    Reals(&'a [f64]),
}
