//! A slice of the index as a file of Parquet: one row group, plain pages without compression, which every reader of
//! Parquet knows. It never holds half of a row.

use std::sync::Arc;

use parquet::{
    basic::{ConvertedType, Repetition, Type as PhysicalType},
    column::reader::get_typed_column_reader,
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        reader::{FileReader, SerializedFileReader},
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::Type,
};
use thiserror::Error;

use super::ImageRow;

/// A slice of the index cannot be written or read.
#[derive(Debug, Error)]
pub enum SliceError {
    /// The library says why.
    #[error("a slice of the index is no Parquet file: {0}")]
    Parquet(#[from] ParquetError),
    /// It is one, but not of an index.
    #[error("a slice of the index has no column `{0}` of the type that it should have")]
    Column(&'static str),
}

/// Writes rows as a Parquet file.
///
/// # Errors
/// As the library says.
pub fn write_parquet(rows: &[ImageRow]) -> Result<Vec<u8>, SliceError> {
    let fields = COLUMNS.iter().map(|column| column.schema().map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("obscore").with_fields(fields).build()?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    let mut group = writer.next_row_group()?;
    for column in COLUMNS {
        column.write(rows, &mut group)?;
    }
    group.close()?;
    Ok(writer.into_inner()?)
}

/// A slice of the index.
pub struct IndexSlice {
    reader: SerializedFileReader<bytes::Bytes>,
}

impl IndexSlice {
    /// Opens a slice.
    ///
    /// # Errors
    /// If the bytes are none.
    pub fn open(bytes: Vec<u8>) -> Result<Self, SliceError> {
        let slice = Self { reader: SerializedFileReader::new(bytes::Bytes::from(bytes))? };
        let schema = slice.reader.metadata().file_metadata().schema_descr();
        for (number, column) in COLUMNS.iter().enumerate() {
            let is_ours = number < schema.num_columns()
                && schema.column(number).name() == column.name
                && schema.column(number).physical_type() == column.cells.physical_type();
            if !is_ours {
                return Err(SliceError::Column(column.name));
            }
        }
        Ok(slice)
    }

    /// Its rows, in their order.
    ///
    /// # Errors
    /// If a page is damaged.
    pub fn rows(&self) -> Result<Vec<ImageRow>, SliceError> {
        let mut rows = Vec::new();
        for number in 0..self.reader.num_row_groups() {
            let group = self.reader.get_row_group(number)?;
            let from = rows.len();
            let count = usize::try_from(group.metadata().num_rows()).map_err(|_| SliceError::Column("path"))?;
            // A row has a path, so a claim of more rows than bytes is none.
            if count > usize::try_from(group.metadata().total_byte_size()).unwrap_or_default() {
                return Err(SliceError::Column("path"));
            }
            rows.resize(from + count, ImageRow::default());
            for (number, column) in COLUMNS.iter().enumerate() {
                let pages = group.get_column_page_reader(number)?;
                let descriptor = group.metadata().column(number).column_descr_ptr();
                let reader = parquet::column::reader::get_column_reader(descriptor, pages);
                let rows = &mut rows[from..];
                match column.cells {
                    Cells::Text(of) => {
                        let texts = read(get_typed_column_reader::<ByteArrayType>(reader), count)?;
                        for (row, text) in rows.iter_mut().zip(texts) {
                            *of(row) = text.and_then(|text| text.as_utf8().ok().map(str::to_owned));
                        }
                    }
                    Cells::Name(of) => {
                        let texts = read(get_typed_column_reader::<ByteArrayType>(reader), count)?;
                        for (row, text) in rows.iter_mut().zip(texts) {
                            *of(row) = text.and_then(|text| text.as_utf8().ok().map(str::to_owned)).unwrap_or_default();
                        }
                    }
                    Cells::Real(of) => {
                        let numbers = read(get_typed_column_reader::<DoubleType>(reader), count)?;
                        rows.iter_mut().zip(numbers).for_each(|(row, number)| *of(row) = number);
                    }
                    Cells::Long(of) => {
                        let numbers = read(get_typed_column_reader::<Int64Type>(reader), count)?;
                        rows.iter_mut().zip(numbers).for_each(|(row, number)| *of(row) = number);
                    }
                    Cells::Size(of) => {
                        let numbers = read(get_typed_column_reader::<Int64Type>(reader), count)?;
                        rows.iter_mut().zip(numbers).for_each(|(row, number)| *of(row) = number.unwrap_or_default());
                    }
                    Cells::Short(of) => {
                        let numbers = read(get_typed_column_reader::<Int32Type>(reader), count)?;
                        rows.iter_mut().zip(numbers).for_each(|(row, number)| *of(row) = number);
                    }
                    Cells::Number(of) => {
                        let numbers = read(get_typed_column_reader::<Int32Type>(reader), count)?;
                        rows.iter_mut().zip(numbers).for_each(|(row, number)| *of(row) = number.unwrap_or_default());
                    }
                }
            }
        }
        Ok(rows)
    }
}

impl std::fmt::Debug for IndexSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexSlice").field("row_groups", &self.reader.num_row_groups()).finish()
    }
}

/// A column: its name, and the field of a row that it holds.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    cells: Cells,
}

/// The field of a row, by its type. `Text`, `Real`, `Long` and `Short` may be empty; the others never are.
#[derive(Clone, Copy)]
enum Cells {
    Text(fn(&mut ImageRow) -> &mut Option<String>),
    Name(fn(&mut ImageRow) -> &mut String),
    Real(fn(&mut ImageRow) -> &mut Option<f64>),
    Long(fn(&mut ImageRow) -> &mut Option<i64>),
    Size(fn(&mut ImageRow) -> &mut i64),
    Short(fn(&mut ImageRow) -> &mut Option<i32>),
    Number(fn(&mut ImageRow) -> &mut i32),
}

impl Cells {
    fn physical_type(self) -> PhysicalType {
        match self {
            Self::Text(_) | Self::Name(_) => PhysicalType::BYTE_ARRAY,
            Self::Real(_) => PhysicalType::DOUBLE,
            Self::Long(_) | Self::Size(_) => PhysicalType::INT64,
            Self::Short(_) | Self::Number(_) => PhysicalType::INT32,
        }
    }

    fn may_be_empty(self) -> bool {
        matches!(self, Self::Text(_) | Self::Real(_) | Self::Long(_) | Self::Short(_))
    }
}

impl Column {
    fn schema(self) -> Result<Type, ParquetError> {
        let repetition = if self.cells.may_be_empty() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let column = Type::primitive_type_builder(self.name, self.cells.physical_type()).with_repetition(repetition);
        let is_text = self.cells.physical_type() == PhysicalType::BYTE_ARRAY;
        if is_text { column.with_converted_type(ConvertedType::UTF8).build() } else { column.build() }
    }

    fn write(self, rows: &[ImageRow], group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<(), ParquetError> {
        // The accessors give places to write to; a copy is written to nobody's harm.
        let cells = rows.to_vec();
        let is_optional = self.cells.may_be_empty();
        match self.cells {
            Cells::Text(of) => {
                let texts = cells.into_iter().map(|mut row| of(&mut row).take().map(|text| text.as_str().into()));
                write::<ByteArrayType>(texts, is_optional, group)
            }
            Cells::Name(of) => {
                let texts = cells.into_iter().map(|mut row| Some(ByteArray::from(of(&mut row).as_str())));
                write::<ByteArrayType>(texts, is_optional, group)
            }
            Cells::Real(of) => write::<DoubleType>(cells.into_iter().map(|mut row| *of(&mut row)), is_optional, group),
            Cells::Long(of) => write::<Int64Type>(cells.into_iter().map(|mut row| *of(&mut row)), is_optional, group),
            Cells::Size(of) => {
                write::<Int64Type>(cells.into_iter().map(|mut row| Some(*of(&mut row))), is_optional, group)
            }
            Cells::Short(of) => write::<Int32Type>(cells.into_iter().map(|mut row| *of(&mut row)), is_optional, group),
            Cells::Number(of) => {
                write::<Int32Type>(cells.into_iter().map(|mut row| Some(*of(&mut row))), is_optional, group)
            }
        }
    }
}

fn write<T: DataType>(
    cells: impl Iterator<Item = Option<T::T>>,
    is_optional: bool,
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
) -> Result<(), ParquetError> {
    let cells: Vec<_> = cells.collect();
    let levels: Option<Vec<i16>> = is_optional.then(|| cells.iter().map(|cell| i16::from(cell.is_some())).collect());
    let values: Vec<_> = cells.into_iter().flatten().collect();
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema has fewer columns than a row".into()));
    };
    column.typed::<T>().write_batch(&values, levels.as_deref(), None)?;
    column.close()
}

/// The cells of a column of so many rows.
fn read<T: DataType>(
    mut reader: parquet::column::reader::ColumnReaderImpl<T>,
    count: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let mut rows = 0;
    while rows < count {
        let (read, _, _) = reader.read_records(count - rows, Some(&mut levels), None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::EOF("a column ends before its rows".into()));
        }
        rows += read;
    }
    if levels.is_empty() {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
}

const fn column(name: &'static str, cells: Cells) -> Column {
    Column { name, cells }
}

/// All columns, in the order of the file.
const COLUMNS: &[Column] = &[
    column("dataproduct_type", Cells::Text(|row| &mut row.dataproduct_type)),
    column("calib_level", Cells::Number(|row| &mut row.calib_level)),
    column("obs_collection", Cells::Name(|row| &mut row.obs_collection)),
    column("obs_id", Cells::Name(|row| &mut row.obs_id)),
    column("obs_publisher_did", Cells::Name(|row| &mut row.obs_publisher_did)),
    column("access_url", Cells::Name(|row| &mut row.access_url)),
    column("access_format", Cells::Name(|row| &mut row.access_format)),
    column("access_estsize", Cells::Size(|row| &mut row.access_estsize)),
    column("target_name", Cells::Text(|row| &mut row.target_name)),
    column("s_ra", Cells::Real(|row| &mut row.s_ra)),
    column("s_dec", Cells::Real(|row| &mut row.s_dec)),
    column("s_fov", Cells::Real(|row| &mut row.s_fov)),
    column("s_region", Cells::Text(|row| &mut row.s_region)),
    column("s_pixel_scale", Cells::Real(|row| &mut row.s_pixel_scale)),
    column("s_xel1", Cells::Long(|row| &mut row.s_xel1)),
    column("s_xel2", Cells::Long(|row| &mut row.s_xel2)),
    column("t_min", Cells::Real(|row| &mut row.t_min)),
    column("t_max", Cells::Real(|row| &mut row.t_max)),
    column("t_exptime", Cells::Real(|row| &mut row.t_exptime)),
    column("em_min", Cells::Real(|row| &mut row.em_min)),
    column("em_max", Cells::Real(|row| &mut row.em_max)),
    column("facility_name", Cells::Text(|row| &mut row.facility_name)),
    column("instrument_name", Cells::Text(|row| &mut row.instrument_name)),
    column("filter", Cells::Text(|row| &mut row.filter)),
    column("path", Cells::Name(|row| &mut row.path)),
    column("content", Cells::Name(|row| &mut row.content)),
    column("hdu", Cells::Number(|row| &mut row.hdu)),
    column("extname", Cells::Text(|row| &mut row.extname)),
    column("bitpix", Cells::Short(|row| &mut row.bitpix)),
    column("compression", Cells::Text(|row| &mut row.compression)),
    column("problem", Cells::Text(|row| &mut row.problem)),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_written() {
        let rows: Vec<_> = (0..1_000)
            .map(|number| ImageRow {
                dataproduct_type: (number % 3 > 0).then(|| "image".into()),
                s_ra: (number % 7 > 0).then_some(f64::from(number) / 3.0),
                s_xel1: Some(i64::from(number)),
                hdu: number,
                path: format!("/sky/{number}.fits"),
                access_estsize: 1 << 40,
                bitpix: (number % 2 > 0).then_some(-32),
                problem: (number == 5).then(|| "damaged: the header: ä".into()),
                ..ImageRow::default()
            })
            .collect();
        let slice = IndexSlice::open(write_parquet(&rows).unwrap()).unwrap();
        assert_eq!(slice.rows().unwrap(), rows);
        assert!(IndexSlice::open(write_parquet(&[]).unwrap()).unwrap().rows().unwrap().is_empty());
    }

    #[test]
    fn what_is_no_index_is_refused() {
        assert!(IndexSlice::open(b"PAR1 and no more".to_vec()).is_err());
        let schema = Type::group_type_builder("other").build().unwrap();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default()).unwrap();
        assert!(matches!(IndexSlice::open(writer.into_inner().unwrap()), Err(SliceError::Column("dataproduct_type"))));
    }

    #[test]
    fn a_column_is_a_field_of_that_name() {
        let json = serde_json::to_value(ImageRow::default()).unwrap();
        let mut fields: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        fields.sort_unstable();
        names.sort_unstable();
        assert_eq!(names, fields);
    }
}
