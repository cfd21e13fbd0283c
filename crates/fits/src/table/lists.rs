//! Arrays and texts of a column, of fixed and of variable length (FITS 4.0, 7.3.2, 7.3.3 and 7.3.5). It never drops an
//! undefined element of an array, which would move those behind it.

use fits_well::table::{CharacterField, ColumnData, ColumnView, Ragged};

use super::{
    FitsValues,
    meaning::{Meaning, Scaling, without_sign},
};

/// The stored elements of each row.
pub(super) type Rows = Ragged<ColumnData>;

/// Texts, one a row. An array of texts, each of `part_bytes`, is one text. What is behind the end of each becomes blanks,
/// as in a VOTable.
pub(super) fn texts(rows: &Rows, part_bytes: Option<usize>) -> FitsValues {
    let texts = rows.into_iter().map(|row| {
        let field = row.as_character()?;
        match part_bytes {
            None => text(CharacterField::new(field).members()),
            Some(bytes) => text(&field.chunks(bytes.max(1)).flat_map(padded).collect::<Vec<_>>()),
        }
    });
    FitsValues::Texts(texts.collect())
}

/// A text of an array, with blanks for what is behind its end.
fn padded(part: &[u8]) -> impl Iterator<Item = u8> {
    let members = CharacterField::new(part).members();
    members.iter().copied().chain(std::iter::repeat_n(b' ', part.len() - members.len()))
}

/// The text of a field: without the blanks behind it, which mean nothing (FITS 4.0, 7.3.3.1).
pub(super) fn text(field: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(field);
    let text = text.trim_end_matches(' ');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Arrays of numbers, one a row. The error says what cannot be held.
pub(super) fn numbers(rows: &Rows, meaning: &Meaning) -> Result<FitsValues, &'static str> {
    match rows.values() {
        ColumnData::F32(_) | ColumnData::F64(_) | ColumnData::ComplexF32(_) | ColumnData::ComplexF64(_) => {
            Ok(FitsValues::RealLists(rows.into_iter().map(|row| some(reals(row, meaning))).collect()))
        }
        _ => integers_or_reals(rows, meaning),
    }
}

fn integers_or_reals(rows: &Rows, meaning: &Meaning) -> Result<FitsValues, &'static str> {
    let as_reals = || FitsValues::RealLists(rows.into_iter().map(|row| some(scaled(row, meaning))).collect());
    if matches!(meaning.scaling, Scaling::Linear { .. }) {
        return Ok(as_reals());
    }
    let (mut has_undefined, mut largest, mut is_too_large) = (false, 0, false);
    each_integer(rows.values().view(), |stored| match meant(stored, meaning) {
        Integer::Undefined => has_undefined = true,
        Integer::Value(value) => largest = largest.max(value.unsigned_abs()),
        Integer::TooLarge => is_too_large = true,
    });
    if is_too_large {
        return Err("arrays of integers that need 64 bits without sign cannot be held");
    }
    if !has_undefined {
        return Ok(FitsValues::IntegerLists(rows.into_iter().map(|row| some(integers(row, meaning))).collect()));
    }
    if largest > EXACT_MAX {
        return Err("arrays with undefined elements and integers beyond 2^53 cannot be held");
    }
    Ok(as_reals())
}

/// An array of no elements is no value.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// What a stored integer means, before `TSCALn`.
enum Integer {
    Undefined,
    Value(i64),
    TooLarge,
}

fn meant(stored: Stored, meaning: &Meaning) -> Integer {
    let (Some(value), half) = stored else { return Integer::Undefined };
    if meaning.null == Some(value) {
        return Integer::Undefined;
    }
    match (meaning.scaling, half) {
        (Scaling::OtherSign, Some(half)) => Integer::Value(value + half),
        (Scaling::OtherSign, None) => i64::try_from(without_sign(value)).map_or(Integer::TooLarge, Integer::Value),
        (Scaling::None | Scaling::Linear { .. }, _) => Integer::Value(value),
    }
}

fn integers(row: ColumnView<'_>, meaning: &Meaning) -> Vec<i64> {
    let mut list = Vec::with_capacity(row.len());
    each_integer(row, |stored| {
        if let Integer::Value(value) = meant(stored, meaning) {
            list.push(value);
        }
    });
    list
}

fn scaled(row: ColumnView<'_>, meaning: &Meaning) -> Vec<f64> {
    let mut list = Vec::with_capacity(row.len());
    each_integer(row, |stored| {
        list.push(match meant(stored, meaning) {
            Integer::Value(value) => meaning.real(value as f64),
            Integer::Undefined | Integer::TooLarge => f64::NAN,
        });
    });
    list
}

/// The reals of a row. A complex value is scaled as a whole and moved along the real axis (FITS 4.0, 7.3.2, `TZEROn`).
fn reals(row: ColumnView<'_>, meaning: &Meaning) -> Vec<f64> {
    let imaginary = |stored: f64| match meaning.scaling {
        Scaling::Linear { scale, .. } => scale * stored,
        Scaling::None | Scaling::OtherSign => stored,
    };
    match row {
        ColumnView::F32(row) => row.iter().map(|value| meaning.real(f64::from(*value))).collect(),
        ColumnView::F64(row) => row.iter().map(|value| meaning.real(*value)).collect(),
        ColumnView::ComplexF32(row) => {
            row.iter().flat_map(|value| [meaning.real(f64::from(value.re)), imaginary(f64::from(value.im))]).collect()
        }
        ColumnView::ComplexF64(row) => {
            row.iter().flat_map(|value| [meaning.real(value.re), imaginary(value.im)]).collect()
        }
        _ => Vec::new(),
    }
}

/// A stored integer, unless it is undefined, and what the other signedness of its type adds if that fits.
type Stored = (Option<i64>, Option<i64>);

fn each_integer(view: ColumnView<'_>, mut visit: impl FnMut(Stored)) {
    match view {
        ColumnView::Logical(row) => row.iter().for_each(|value| visit((value.map(i64::from), Some(0)))),
        ColumnView::Bit(row) => row.iter().by_vals().for_each(|value| visit((Some(i64::from(value)), Some(0)))),
        ColumnView::U8(row) => row.iter().for_each(|value| visit((Some(i64::from(*value)), Some(-128)))),
        ColumnView::I16(row) => row.iter().for_each(|value| visit((Some(i64::from(*value)), Some(1 << 15)))),
        ColumnView::I32(row) => row.iter().for_each(|value| visit((Some(i64::from(*value)), Some(1 << 31)))),
        ColumnView::I64(row) => row.iter().for_each(|value| visit((Some(*value), None))),
        ColumnView::F32(_)
        | ColumnView::F64(_)
        | ColumnView::ComplexF32(_)
        | ColumnView::ComplexF64(_)
        | ColumnView::Character(_) => {}
    }
}

/// The largest integer below which a real holds all.
const EXACT_MAX: u64 = 1 << 53;
