//! What a column's stored numbers mean: `TNULLn`, `TSCALn` and `TZEROn` (FITS 4.0, 7.3.2). It never rounds an integer
//! that a file means to be one.

use fits_well::{
    FitsError,
    table::{Column, ColumnData, ElementKind},
};

use super::FitsValues;

/// What the stored numbers mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    /// The stored integer that is no value.
    pub(super) null: Option<i64>,
    pub(super) scaling: Scaling,
}

/// How a value follows from a stored number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scaling {
    /// It is the number.
    None,
    /// The other signedness (FITS 4.0, table 19): `TZEROn` is half of what the type's bits hold.
    OtherSign,
    /// `TZEROn` + `TSCALn` x number.
    Linear { scale: f64, zero: f64 },
}

impl Meaning {
    pub(super) fn of(column: &Column) -> Result<Self, FitsError> {
        let other_sign = match column.tform.element() {
            // Neither keyword has a meaning for these.
            ElementKind::Logical | ElementKind::Bit | ElementKind::Character => {
                return Ok(Self { null: None, scaling: Scaling::None });
            }
            ElementKind::F32 | ElementKind::F64 | ElementKind::ComplexF32 | ElementKind::ComplexF64 => None,
            ElementKind::U8 => Some(-128.0),
            ElementKind::I16 => Some(32_768.0),
            ElementKind::I32 => Some(2_147_483_648.0),
            ElementKind::I64 => Some(9_223_372_036_854_775_808.0),
        };
        let (scale, zero) = (column.tscale()?, column.tzero()?);
        let scaling = match (scale, zero) {
            (1.0, 0.0) => Scaling::None,
            (1.0, zero) if other_sign == Some(zero) => Scaling::OtherSign,
            (scale, zero) => Scaling::Linear { scale, zero },
        };
        let null = if other_sign.is_some() { column.tnull()? } else { None };
        Ok(Self { null, scaling })
    }

    /// A real.
    pub(super) fn real(&self, stored: f64) -> f64 {
        match self.scaling {
            Scaling::Linear { scale, zero } => zero + scale * stored,
            Scaling::None | Scaling::OtherSign => stored,
        }
    }

    /// The values of a column of single numbers; `None` for what are none.
    pub(super) fn values(&self, stored: ColumnData) -> Option<FitsValues> {
        let null = self.null;
        Some(match (stored, self.scaling) {
            (ColumnData::Logical(stored), _) => FitsValues::Booleans(stored),
            (ColumnData::U8(stored), Scaling::None) => FitsValues::Bytes(integers(&stored, null, |value| value)),
            (ColumnData::U8(stored), Scaling::OtherSign) => {
                FitsValues::Shorts(integers(&stored, null, |value| i16::from(value) - 128))
            }
            (ColumnData::I16(stored), Scaling::None) => FitsValues::Shorts(integers(&stored, null, |value| value)),
            (ColumnData::I16(stored), Scaling::OtherSign) => {
                FitsValues::Ints(integers(&stored, null, |value| i32::from(value) + (1 << 15)))
            }
            (ColumnData::I32(stored), Scaling::None) => FitsValues::Ints(integers(&stored, null, |value| value)),
            (ColumnData::I32(stored), Scaling::OtherSign) => {
                FitsValues::Longs(integers(&stored, null, |value| i64::from(value) + (1 << 31)))
            }
            (ColumnData::I64(stored), Scaling::None) => FitsValues::Longs(integers(&stored, null, |value| value)),
            (ColumnData::I64(stored), Scaling::OtherSign) => large(&integers(&stored, null, without_sign)),
            (ColumnData::F32(stored), Scaling::None) => FitsValues::Floats(
                stored.into_iter().map(|value| Some(value).filter(|value| !value.is_nan())).collect(),
            ),
            (ColumnData::F64(stored), _) => self.doubles(stored.into_iter().map(Some)),
            (ColumnData::U8(stored), Scaling::Linear { .. }) => self.doubles(integers(&stored, null, f64::from)),
            (ColumnData::I16(stored), Scaling::Linear { .. }) => self.doubles(integers(&stored, null, f64::from)),
            (ColumnData::I32(stored), Scaling::Linear { .. }) => self.doubles(integers(&stored, null, f64::from)),
            (ColumnData::I64(stored), Scaling::Linear { .. }) => {
                self.doubles(integers(&stored, null, |value| value as f64))
            }
            (ColumnData::F32(stored), _) => self.doubles(stored.into_iter().map(|value| Some(f64::from(value)))),
            _ => return None,
        })
    }

    /// Stored reals as values.
    pub(super) fn doubles(&self, stored: impl IntoIterator<Item = Option<f64>>) -> FitsValues {
        let values = stored.into_iter().map(|stored| stored.map(|stored| self.real(stored)));
        FitsValues::Doubles(values.map(|value| value.filter(|value| !value.is_nan())).collect())
    }
}

/// An integer of 64 bits with the sign that it does not mean.
pub(super) fn without_sign(stored: i64) -> u64 {
    stored.cast_unsigned() ^ (1 << 63)
}

fn integers<T: Copy + Into<i64>, U>(stored: &[T], null: Option<i64>, mean: impl Fn(T) -> U) -> Vec<Option<U>> {
    stored.iter().map(|stored| (null != Some((*stored).into())).then(|| mean(*stored))).collect()
}

/// Integers of 64 bits without sign: digits if one is too large for a signed one.
fn large(values: &[Option<u64>]) -> FitsValues {
    let fit: Result<Vec<_>, _> = values.iter().map(|value| value.map(i64::try_from).transpose()).collect();
    fit.map_or_else(
        |_| FitsValues::Texts(values.iter().map(|value| value.map(|value| value.to_string())).collect()),
        FitsValues::Longs,
    )
}
