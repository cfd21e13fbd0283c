//! Columns and rows of the engine as a VOTable has them (VOTable 1.4): types, units, and values. What VOTable has no type
//! for is a text. It never writes XML itself.

use std::{
    io::{self, Write},
    sync::Arc,
};

use datafusion::arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, Int64Builder, ListArray, ListBuilder,
        RecordBatch, StringArray,
    },
    compute::cast,
    datatypes::{DataType, Field, Float64Type, Int64Type, Schema},
    error::ArrowError,
};
use vo::votable::{Column, ColumnKind, Ending, RowsWriter, Serialisation, Value};

/// A column as VOTable says it.
pub(crate) fn column_of(field: &Field) -> Column {
    let said = |key: &str| field.metadata().get(key).cloned().unwrap_or_default();
    let xtype = match field.data_type() {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => "timestamp".to_owned(),
        _ => said("xtype"),
    };
    let kind = match kind_of(field.data_type()) {
        // As the standard wants times, and as what was sent had it.
        ColumnKind::Text if xtype == "timestamp" || said("datatype") == "char" => ColumnKind::AsciiText,
        kind => kind,
    };
    Column {
        name: field.name().clone(),
        kind,
        unit: said("unit"),
        ucd: said("ucd"),
        utype: said("utype"),
        xtype,
        description: said("description"),
    }
}

fn kind_of(data_type: &DataType) -> ColumnKind {
    match data_type {
        DataType::Boolean => ColumnKind::Boolean,
        DataType::UInt8 => ColumnKind::UnsignedByte,
        DataType::Int8 | DataType::Int16 => ColumnKind::Short,
        DataType::UInt16 | DataType::Int32 => ColumnKind::Int,
        DataType::UInt32 | DataType::Int64 => ColumnKind::Long,
        DataType::Float16 | DataType::Float32 => ColumnKind::Float,
        DataType::Float64 | DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
            ColumnKind::Double
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            ColumnKind::UnsignedBytes
        }
        DataType::Dictionary(_, values) => kind_of(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            match kind_of(item.data_type()) {
                ColumnKind::UnsignedByte => ColumnKind::UnsignedBytes,
                ColumnKind::Short => ColumnKind::Shorts,
                ColumnKind::Int => ColumnKind::Ints,
                ColumnKind::Long => ColumnKind::Longs,
                ColumnKind::Float => ColumnKind::Floats,
                ColumnKind::Double => ColumnKind::Doubles,
                _ => ColumnKind::Text,
            }
        }
        // Numbers of 64 bits without a sign, too: `long` would not hold all.
        _ => ColumnKind::Text,
    }
}

/// Writes a VOTable while rows come.
pub(super) struct VotableWriter<W> {
    rows: RowsWriter,
    kinds: Vec<ColumnKind>,
    to: W,
}

impl<W: Write> VotableWriter<W> {
    /// Begins a table with these columns.
    pub(super) fn new(schema: &Schema, serialisation: Serialisation, to: W) -> Self {
        let columns: Vec<_> = schema.fields().iter().map(|field| column_of(field)).collect();
        let kinds = columns.iter().map(|column| column.kind).collect();
        Self { rows: RowsWriter::new(columns, serialisation, &[]), kinds, to }
    }

    /// Writes rows.
    pub(super) fn write(&mut self, rows: &RecordBatch) -> Result<(), ArrowError> {
        let kinds = self.kinds.iter().zip(rows.columns());
        let values: Vec<_> = kinds.map(|(kind, values)| Values::of(*kind, values)).collect::<Result<_, _>>()?;
        for row in 0..rows.num_rows() {
            self.rows.row(values.iter().map(|values| values.at(row)));
            if self.rows.buffered() >= PIECE_BYTES {
                self.to.write_all(&self.rows.take()).map_err(written)?;
            }
        }
        self.to.write_all(&self.rows.take()).map_err(written)
    }

    /// Ends the table.
    pub(super) fn finish(self, ending: Ending<'_>) -> Result<W, ArrowError> {
        let Self { rows, mut to, .. } = self;
        to.write_all(&rows.finish(ending)).map_err(written)?;
        Ok(to)
    }
}

fn written(error: io::Error) -> ArrowError {
    ArrowError::IoError(error.to_string(), error)
}

/// A column's values, of few types.
enum Values {
    Booleans(BooleanArray),
    Integers(Int64Array),
    Reals(Float64Array),
    Texts(StringArray),
    IntegerLists(ListArray),
    RealLists(ListArray),
}

impl Values {
    fn of(kind: ColumnKind, values: &ArrayRef) -> Result<Self, ArrowError> {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        Ok(match kind {
            ColumnKind::Boolean => Self::Booleans(cast(values, &DataType::Boolean)?.as_boolean().clone()),
            ColumnKind::UnsignedByte | ColumnKind::Short | ColumnKind::Int | ColumnKind::Long => {
                Self::Integers(cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            ColumnKind::Float | ColumnKind::Double => {
                Self::Reals(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            ColumnKind::Floats | ColumnKind::Doubles => {
                Self::RealLists(cast(values, &list(DataType::Float64))?.as_list().clone())
            }
            ColumnKind::UnsignedBytes if !matches!(values.data_type(), DataType::List(_)) => {
                Self::IntegerLists(bytes(values)?)
            }
            ColumnKind::UnsignedBytes | ColumnKind::Shorts | ColumnKind::Ints | ColumnKind::Longs => {
                Self::IntegerLists(cast(values, &list(DataType::Int64))?.as_list().clone())
            }
            ColumnKind::Text | ColumnKind::AsciiText => Self::Texts(cast(values, &DataType::Utf8)?.as_string().clone()),
        })
    }

    fn at(&self, row: usize) -> Value<'_> {
        match self {
            Self::Booleans(values) if values.is_valid(row) => Value::Boolean(values.value(row)),
            Self::Integers(values) if values.is_valid(row) => Value::Integer(values.value(row)),
            Self::Reals(values) if values.is_valid(row) => Value::Real(values.value(row)),
            Self::Texts(values) if values.is_valid(row) => Value::Text(values.value(row)),
            Self::IntegerLists(lists) => {
                items(lists, row, |items| Value::Integers(items.as_primitive::<Int64Type>().values()))
            }
            Self::RealLists(lists) => {
                items(lists, row, |items| Value::Reals(items.as_primitive::<Float64Type>().values()))
            }
            _ => Value::Null,
        }
    }
}

/// The numbers of a list, without one if one of them is missing: an array of VOTable has no gaps.
fn items<'a>(lists: &'a ListArray, row: usize, all: impl Fn(&'a ArrayRef) -> Value<'a>) -> Value<'a> {
    let items = lists.values();
    let (from, to) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
    if lists.is_null(row) || (items.null_count() > 0 && (from..to).any(|at| items.is_null(at))) {
        return Value::Null;
    }
    match all(items) {
        Value::Integers(numbers) => Value::Integers(&numbers[from..to]),
        Value::Reals(numbers) => Value::Reals(&numbers[from..to]),
        other => other,
    }
}

/// Bytes as lists of numbers.
fn bytes(values: &ArrayRef) -> Result<ListArray, ArrowError> {
    let values = cast(values, &DataType::Binary)?;
    let mut lists = ListBuilder::new(Int64Builder::new());
    for bytes in values.as_binary::<i32>() {
        bytes.unwrap_or_default().iter().for_each(|byte| lists.values().append_value(i64::from(*byte)));
        lists.append(bytes.is_some());
    }
    Ok(lists.finish())
}

/// Bytes that are sent together.
const PIECE_BYTES: usize = 256 << 10;
