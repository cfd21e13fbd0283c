//! Writes a table as a binary one (FITS 4.0, 7.3), behind a primary header without data. It never writes a character that
//! FITS does not allow: such a one becomes `?`.

use fits_well::{
    FitsError, FitsWriter,
    header::Header,
    table::{Builder, ColumnData, DescriptorWidth, Ragged, WriteColumn},
};

use super::{
    FitsColumn, FitsTable, FitsTableError, FitsValues,
    null::{Tried, free},
};

/// A FITS file with a table and nothing else. It has `CHECKSUM` and `DATASUM` (FITS 4.0, 4.4.2.7).
///
/// Undefined integers are a `TNULLn` that the column does not have, undefined reals are not a number. Texts have the width
/// of the longest one. Lists are arrays of variable length (7.3.5), of 32 bits where integers fit, else of 64.
///
/// # Errors
/// `Usage` in each of these cases:
/// - A column has another number of rows than the table.
/// - There are more than 999 columns.
/// - A column has undefined integers and all that its type has.
pub fn write(table: &FitsTable) -> Result<Vec<u8>, FitsTableError> {
    let width = width_of_descriptors(&table.columns);
    let mut columns = Vec::with_capacity(table.columns.len());
    let mut further = Header::new();
    for (column, number) in table.columns.iter().zip(1..) {
        if column.values.rows() != table.rows {
            let rows = column.values.rows();
            let message = format!("the column `{}` has {rows} rows, and the table {}", column.name, table.rows);
            return Err(FitsTableError::Usage(message));
        }
        columns.push(written(column, width)?);
        for (keyword, text) in [("TUCD", &column.ucd), ("TCOMM", &column.description)] {
            if !text.is_empty() {
                further.set(format!("{keyword}{number}").as_str(), ascii(text)).map_err(in_output)?;
            }
        }
    }
    let builder = Builder::with_columns(table.rows, columns).map_err(in_output)?;
    let mut writer = FitsWriter::new(Vec::new()).with_checksums();
    writer.write_table(&builder, Some(&further)).map_err(in_output)?;
    Ok(writer.into_inner())
}

fn written(column: &FitsColumn, width: DescriptorWidth) -> Result<WriteColumn, FitsTableError> {
    let name = ascii(&column.name);
    let scalar = |data| WriteColumn::scalar(name.as_str(), data);
    let integers = |(data, null): (ColumnData, Option<i64>)| {
        let written = WriteColumn::scalar(name.as_str(), data);
        null.map_or(written.clone(), |null| written.with_null(null))
    };
    let full =
        || FitsTableError::Usage(format!("the column `{}` has every integer of its type, and nulls", column.name));
    let written = match &column.values {
        FitsValues::Booleans(values) => scalar(ColumnData::Logical(values.clone())),
        FitsValues::Bytes(values) => {
            let (first, last) = (Tried::Downwards(u8::MAX.into()), u8::MIN.into());
            integers(stored(values, first, last, ColumnData::U8).ok_or_else(full)?)
        }
        FitsValues::Shorts(values) => {
            let (first, last) = (Tried::Upwards(i16::MIN.into()), i16::MAX.into());
            integers(stored(values, first, last, ColumnData::I16).ok_or_else(full)?)
        }
        FitsValues::Ints(values) => {
            let (first, last) = (Tried::Upwards(i32::MIN.into()), i32::MAX.into());
            integers(stored(values, first, last, ColumnData::I32).ok_or_else(full)?)
        }
        FitsValues::Longs(values) => {
            integers(stored(values, Tried::Upwards(i64::MIN), i64::MAX, ColumnData::I64).ok_or_else(full)?)
        }
        FitsValues::Floats(values) => {
            scalar(ColumnData::F32(values.iter().map(|value| value.unwrap_or(f32::NAN)).collect()))
        }
        FitsValues::Doubles(values) => {
            scalar(ColumnData::F64(values.iter().map(|value| value.unwrap_or(f64::NAN)).collect()))
        }
        FitsValues::Texts(values) => texts(&name, values, width)?,
        FitsValues::IntegerLists(lists) => {
            let all = lists.iter().flatten().flatten();
            let narrow: Result<Vec<i32>, _> = all.clone().map(|value| i32::try_from(*value)).collect();
            let elements = narrow.map_or_else(|_| ColumnData::I64(all.copied().collect()), ColumnData::I32);
            WriteColumn::vla(name.as_str(), Ragged::<ColumnData>::new(elements, ends(lists)), width)
        }
        FitsValues::RealLists(lists) => {
            let elements = ColumnData::F64(lists.iter().flatten().flatten().copied().collect());
            WriteColumn::vla(name.as_str(), Ragged::<ColumnData>::new(elements, ends(lists)), width)
        }
    };
    Ok(if column.unit.is_empty() { written } else { written.with_unit(ascii(&column.unit)) })
}

/// The integers as they are stored, and the one that is undefined, if one is needed. `None` if none is free.
fn stored<T: Copy + Default + Into<i64> + TryFrom<i64>>(
    values: &[Option<T>],
    first: Tried,
    last: i64,
    wrap: fn(Vec<T>) -> ColumnData,
) -> Option<(ColumnData, Option<i64>)> {
    let is_full = values.iter().all(Option::is_some);
    let null =
        if is_full { None } else { Some(free(values.iter().flatten().map(|value| (*value).into()), first, last)?) };
    let undefined = null.and_then(|null| T::try_from(null).ok()).unwrap_or_default();
    Some((wrap(values.iter().map(|value| value.unwrap_or(undefined)).collect()), null))
}

/// Texts of one width, or of variable length if one is so much longer than most that the blanks would be all of the file.
fn texts(name: &str, values: &[Option<String>], width: DescriptorWidth) -> Result<WriteColumn, FitsTableError> {
    let texts: Vec<_> = values.iter().map(|text| text.as_deref().map(ascii).unwrap_or_default()).collect();
    let longest = texts.iter().map(String::len).max().unwrap_or(0).max(1);
    let (padded, bytes) = (longest.saturating_mul(texts.len()), texts.iter().map(String::len).sum::<usize>());
    if padded > PADDED_BYTES_MAX && padded / PADDED_TIMES_MAX > bytes {
        let ends = texts.iter().scan(0, |end, text| {
            *end += text.len();
            Some(*end)
        });
        let ends = ends.collect();
        let characters = ColumnData::Character(texts.concat().into_bytes());
        return Ok(WriteColumn::vla(name, Ragged::<ColumnData>::new(characters, ends), width));
    }
    WriteColumn::characters(name, texts, longest).map_err(in_output)
}

/// Where each list ends among the elements of all.
fn ends<T>(lists: &[Option<Vec<T>>]) -> Vec<usize> {
    let lengths = lists.iter().map(|list| list.as_ref().map_or(0, Vec::len));
    lengths
        .scan(0, |end, length| {
            *end += length;
            Some(*end)
        })
        .collect()
}

/// Descriptors of 32 bits, unless the arrays of all columns together are longer than such a one can say (FITS 4.0, 7.3.5).
fn width_of_descriptors(columns: &[FitsColumn]) -> DescriptorWidth {
    let elements = |values: &FitsValues| match values {
        FitsValues::IntegerLists(lists) => lists.iter().flatten().map(Vec::len).sum::<usize>(),
        FitsValues::RealLists(lists) => lists.iter().flatten().map(Vec::len).sum::<usize>(),
        FitsValues::Texts(texts) => texts.iter().flatten().map(String::len).sum::<usize>(),
        _ => 0,
    };
    let bytes = columns.iter().map(|column| elements(&column.values)).sum::<usize>().saturating_mul(size_of::<i64>());
    if i32::try_from(bytes).is_ok() { DescriptorWidth::P } else { DescriptorWidth::Q }
}

/// Printable ASCII alone, which is all that texts and headers may have (FITS 4.0, 4.2.1 and 7.3.3.1).
fn ascii(text: &str) -> String {
    text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' }).collect()
}

fn in_output(error: FitsError) -> FitsTableError {
    FitsTableError::Usage(format!("the table cannot be written: {error}"))
}

/// Texts that take less than this are padded, however long the longest is.
const PADDED_BYTES_MAX: usize = 64 << 20;
/// How many times as long as its texts a padded column may be.
const PADDED_TIMES_MAX: usize = 16;
