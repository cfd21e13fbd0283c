//! ASCII tables (FITS 4.0, 7.2): each column by its `TBCOLn` and `TFORMn`. It never takes a blank field for an undefined
//! one, unless `TNULLn` is blank: the standard says that it is zero.

use fits_well::{
    FitsError,
    io::SliceReader,
    table::{AsciiColumn, AsciiColumnData, AsciiColumnReader, AsciiTform},
};

use super::{
    FitsColumn, FitsTable, FitsTableError, FitsValues, lists,
    meaning::{Meaning, Scaling},
    memory::{LIST_BYTES, Memory, VALUE_BYTES, check_rows},
};

/// Reads the ASCII table with this number.
pub(super) fn read(reader: &mut SliceReader<'_>, hdu: usize, memory: &mut Memory) -> Result<FitsTable, FitsTableError> {
    let table = reader.read_ascii_table(hdu).map_err(FitsTableError::in_header)?;
    let schema = table.schema();
    let (rows, row_bytes) = (schema.row_count(), schema.row_len());
    check_rows(rows, row_bytes)?;
    let mut columns = Vec::with_capacity(schema.columns.len());
    for (index, of_schema) in schema.columns.iter().enumerate() {
        let mut column = FitsColumn::described(&reader.hdus()[hdu].header, index + 1);
        // Columns may overlap, so their widths together may be more than a row.
        let value_bytes = match of_schema.tform {
            AsciiTform::Text { width } => LIST_BYTES.saturating_add(width as u64),
            AsciiTform::Integer { .. } | AsciiTform::Float(_) => VALUE_BYTES,
        };
        memory.take(rows, value_bytes, 0)?;
        let found = table.column(index).map_err(FitsTableError::in_header)?;
        column.values = match values(&found) {
            Err(FitsError::InvalidAsciiField { column: at, row, field }) => {
                // The library takes finite numbers alone, as the standard does; others write all that they have.
                let data = reader.read_data_unit(hdu).map_err(FitsTableError::in_header)?;
                let error = FitsError::InvalidAsciiField { column: at, row, field };
                let found = with_non_finite(data.chunks_exact(row_bytes).take(rows), of_schema);
                found.ok_or_else(|| FitsTableError::in_column(&column.name, error))?
            }
            found => found.map_err(|error| FitsTableError::in_column(&column.name, error))?,
        };
        columns.push(column);
    }
    Ok(FitsTable { columns, rows })
}

fn values(column: &AsciiColumnReader<'_>) -> Result<FitsValues, FitsError> {
    let mut stored = AsciiColumnData::Integer(Vec::new());
    column.raw_into(&mut stored)?;
    Ok(match stored {
        AsciiColumnData::Text(texts) => {
            FitsValues::Texts(texts.iter().map(|text| text.and_then(|text| lists::text(text.as_bytes()))).collect())
        }
        AsciiColumnData::Integer(values) => match scaling(column.descriptor())? {
            Scaling::None | Scaling::OtherSign => FitsValues::Longs(values),
            scaling => {
                let reals = values.into_iter().map(|value| value.map(|value| value as f64));
                Meaning { null: None, scaling }.doubles(reals)
            }
        },
        AsciiColumnData::Float(values) => {
            Meaning { null: None, scaling: scaling(column.descriptor())? }.doubles(values)
        }
    })
}

fn scaling(column: &AsciiColumn) -> Result<Scaling, FitsError> {
    Ok(match (column.tscale()?, column.tzero()?) {
        (1.0, 0.0) => Scaling::None,
        (scale, zero) => Scaling::Linear { scale, zero },
    })
}

/// The reals of a column of which some are not finite. `None` if it has other fields that are no numbers, or one without
/// a point: what that means depends on `TFORMn` (FITS 4.0, 7.2.5).
fn with_non_finite<'a>(rows: impl Iterator<Item = &'a [u8]>, column: &AsciiColumn) -> Option<FitsValues> {
    let AsciiTform::Float(format) = column.tform else { return None };
    let (from, null) = (column.byte_offset(), column.tnull().ok()?);
    let reals = rows.map(|row| {
        let field = str::from_utf8(row.get(from..from + format.width())?).ok()?.trim();
        if null == Some(field) {
            return Some(None);
        }
        if field.is_empty() {
            return Some(Some(0.0));
        }
        let real = field.replace(['D', 'd'], "E").parse::<f64>().ok()?;
        (field.contains('.') || !real.is_finite()).then_some(Some(real))
    });
    let reals: Vec<_> = reals.collect::<Option<_>>()?;
    Some(Meaning { null: None, scaling: scaling(column).ok()? }.doubles(reals))
}
