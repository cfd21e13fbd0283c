//! Binary tables (FITS 4.0, 7.3): each column by its `TFORMn`. It never follows an array out of the file: the library
//! checks each against the heap.

use fits_well::{
    header::Header,
    io::SliceReader,
    table::{Column, ColumnData, ColumnReader, DescriptorWidth, ElementKind, Ragged, Storage},
};

use super::{
    FitsColumn, FitsTable, FitsTableError, FitsValues, lists,
    meaning::Meaning,
    memory::{ELEMENT_BYTES, LIST_BYTES, Memory, VALUE_BYTES, check_rows},
};
use crate::Keywords;

/// Reads the binary table with this number.
pub(super) fn read(reader: &mut SliceReader<'_>, hdu: usize, memory: &mut Memory) -> Result<FitsTable, FitsTableError> {
    let table = reader.read_table(hdu).map_err(FitsTableError::in_header)?;
    let schema = table.schema();
    let (rows, row_bytes) = (schema.row_count(), schema.row_len());
    check_rows(rows, row_bytes)?;
    let has_arrays = schema.columns.iter().any(|column| column.tform.descriptor_width().is_some());
    // The library gives no descriptors, and decodes whatever they add up to.
    let data = if has_arrays { reader.read_data_unit(hdu).map_err(FitsTableError::in_header)? } else { Vec::new() };
    let header = &reader.hdus()[hdu].header;
    let mut columns = Vec::with_capacity(schema.columns.len());
    for (index, of_schema) in schema.columns.iter().enumerate() {
        let mut column = FitsColumn::described(header, index + 1);
        let elements = elements_of_arrays(&data, rows, row_bytes, of_schema);
        take(memory, rows, elements, of_schema)?;
        let found = table.column(index).map_err(FitsTableError::in_header)?;
        let part_bytes = bytes_of_parts(header, index + 1, of_schema);
        column.values = values(&column.name, rows, &found, part_bytes)?;
        columns.push(column);
    }
    Ok(FitsTable { columns, rows })
}

fn values(
    name: &str,
    rows: usize,
    column: &ColumnReader<'_>,
    part_bytes: Option<usize>,
) -> Result<FitsValues, FitsTableError> {
    let in_column = |error| FitsTableError::in_column(name, error);
    let tform = column.descriptor().tform;
    let meaning = Meaning::of(column.descriptor()).map_err(in_column)?;
    let empty = ColumnData::U8(Vec::new());
    let stored = match tform.storage() {
        Storage::Array(_) => {
            let mut stored = Ragged::<ColumnData>::new(empty, Vec::new());
            column.vla_into(&mut stored).map_err(in_column)?;
            stored
        }
        Storage::Fixed => {
            let mut stored = empty;
            column.raw_into(&mut stored).map_err(in_column)?;
            let is_number = !matches!(stored, ColumnData::Character(_));
            if is_number && tform.repeat() == 1 && !is_list_at_once(tform.element()) {
                let unexpected = || FitsTableError::unsupported(name, "its values are no single numbers");
                return meaning.values(stored).ok_or_else(unexpected);
            }
            Ragged::<ColumnData>::new(stored, (1..=rows).map(|row| row * tform.repeat()).collect())
        }
    };
    if tform.element() == ElementKind::Character {
        return Ok(lists::texts(&stored, part_bytes));
    }
    lists::numbers(&stored, &meaning).map_err(|reason| FitsTableError::unsupported(name, reason))
}

/// How long each text of a field is, where a field has several. That is the first of `TDIMn` (FITS 4.0, 7.3.2), or the
/// `w` of a format `rAw`, an older convention.
fn bytes_of_parts(header: &Header, number: usize, column: &Column) -> Option<usize> {
    if column.tform.element() != ElementKind::Character || column.tform.storage() != Storage::Fixed {
        return None;
    }
    if let Ok(Some([bytes, _, ..])) = column.tdim() {
        return Some(*bytes);
    }
    let (_, bytes) = Keywords::new(header).text(&format!("TFORM{number}"))?.split_once('A')?;
    bytes.parse().ok().filter(|bytes| *bytes > 0)
}

/// Whether even one element is held as an array.
fn is_list_at_once(element: ElementKind) -> bool {
    matches!(element, ElementKind::Bit | ElementKind::ComplexF32 | ElementKind::ComplexF64)
}

/// Takes the memory of a column whose arrays of variable length have so many elements in all.
fn take(memory: &mut Memory, rows: usize, elements: u64, column: &Column) -> Result<(), FitsTableError> {
    let tform = column.tform;
    let element_bytes = match tform.element() {
        ElementKind::Character => 1,
        ElementKind::ComplexF32 | ElementKind::ComplexF64 => 2 * ELEMENT_BYTES,
        _ => ELEMENT_BYTES,
    };
    let is_single = tform.repeat() == 1 && tform.element() != ElementKind::Character;
    match tform.storage() {
        Storage::Array(_) => memory.take(rows, LIST_BYTES, elements.saturating_mul(element_bytes)),
        Storage::Fixed if is_single && !is_list_at_once(tform.element()) => memory.take(rows, VALUE_BYTES, 0),
        Storage::Fixed => {
            let row_bytes = (tform.repeat() as u64).saturating_mul(element_bytes).saturating_add(LIST_BYTES);
            memory.take(rows, row_bytes, 0)
        }
    }
}

/// How many elements the arrays of a column claim in all (FITS 4.0, 7.3.5): the first number of each descriptor.
fn elements_of_arrays(data: &[u8], rows: usize, row_bytes: usize, column: &Column) -> u64 {
    let Some(width) = column.tform.descriptor_width().filter(|_| column.tform.repeat() > 0) else { return 0 };
    let cells = data.chunks_exact(row_bytes.max(1)).take(rows).filter_map(|row| row.get(column.byte_offset()..));
    let counts = cells.map(|cell| match width {
        DescriptorWidth::P => cell.first_chunk().map_or(0, |count| i64::from(i32::from_be_bytes(*count))),
        DescriptorWidth::Q => cell.first_chunk().map_or(0, |count| i64::from_be_bytes(*count)),
    });
    // The library refuses a negative count.
    counts.fold(0, |sum, count| sum.saturating_add(u64::try_from(count).unwrap_or(0)))
}
