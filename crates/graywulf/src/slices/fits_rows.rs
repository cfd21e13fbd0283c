//! Tables of FITS as rows of the engine, and back. Each type of FITS is one of the engine's; small integers with a sign and
//! large ones without have none there. It never reads a file.

use std::sync::Arc;

use datafusion::arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Float64Builder, Int16Array, Int32Array,
        Int64Array, Int64Builder, ListArray, ListBuilder, RecordBatch, RecordBatchOptions, StringArray, UInt8Array,
    },
    compute::{cast, concat},
    datatypes::{
        ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Schema,
        UInt8Type,
    },
    error::ArrowError,
};
use fits::table::{FitsColumn, FitsTable, FitsValues};

/// The rows of a table of FITS.
///
/// # Errors
/// Two columns of one name.
pub(crate) fn rows_of_fits(table: FitsTable) -> Result<RecordBatch, String> {
    let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for FitsColumn { name, unit, ucd, description, values } in table.columns {
        if fields.iter().any(|known| known.name().eq_ignore_ascii_case(&name)) {
            return Err(format!("two columns are named `{name}`"));
        }
        let said = [("unit", unit), ("ucd", ucd), ("description", description)];
        let said = said.into_iter().filter(|(_, value)| !value.is_empty());
        let metadata = said.map(|(key, value)| (key.to_owned(), value)).collect();
        let array: ArrayRef = match values {
            FitsValues::Booleans(values) => Arc::new(BooleanArray::from(values)),
            FitsValues::Bytes(values) => Arc::new(UInt8Array::from(values)),
            FitsValues::Shorts(values) => Arc::new(Int16Array::from(values)),
            FitsValues::Ints(values) => Arc::new(Int32Array::from(values)),
            FitsValues::Longs(values) => Arc::new(Int64Array::from(values)),
            FitsValues::Floats(values) => Arc::new(Float32Array::from(values)),
            FitsValues::Doubles(values) => Arc::new(Float64Array::from(values)),
            FitsValues::Texts(values) => Arc::new(StringArray::from(values)),
            FitsValues::IntegerLists(lists) => {
                let mut builder = ListBuilder::new(Int64Builder::new());
                for list in &lists {
                    list.iter().flatten().for_each(|number| builder.values().append_value(*number));
                    builder.append(list.is_some());
                }
                Arc::new(builder.finish())
            }
            FitsValues::RealLists(lists) => {
                let mut builder = ListBuilder::new(Float64Builder::new());
                for list in &lists {
                    list.iter().flatten().for_each(|number| builder.values().append_value(*number));
                    builder.append(list.is_some());
                }
                Arc::new(builder.finish())
            }
        };
        fields.push(Field::new(name, array.data_type().clone(), true).with_metadata(metadata));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(table.rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| error.to_string())
}

/// Rows as a table of FITS. What it has no type for is a text.
///
/// # Errors
/// None that is known.
pub(crate) fn fits_of_rows(schema: &Schema, batches: &[RecordBatch]) -> Result<FitsTable, ArrowError> {
    let mut columns = Vec::with_capacity(schema.fields().len());
    for (at, field) in schema.fields().iter().enumerate() {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        let values = match &parts[..] {
            [] => datafusion::arrow::array::new_empty_array(field.data_type()),
            parts => concat(parts)?,
        };
        let said = |key: &str| field.metadata().get(key).cloned().unwrap_or_default();
        columns.push(FitsColumn {
            name: field.name().clone(),
            unit: said("unit"),
            ucd: said("ucd"),
            description: said("description"),
            values: values_of(&values)?,
        });
    }
    Ok(FitsTable { columns, rows: batches.iter().map(RecordBatch::num_rows).sum() })
}

fn values_of(values: &ArrayRef) -> Result<FitsValues, ArrowError> {
    let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
    Ok(match values.data_type() {
        DataType::Boolean => FitsValues::Booleans(values.as_boolean().iter().collect()),
        DataType::UInt8 => FitsValues::Bytes(numbers::<UInt8Type>(values)?),
        DataType::Int8 | DataType::Int16 => FitsValues::Shorts(numbers::<Int16Type>(values)?),
        DataType::UInt16 | DataType::Int32 => FitsValues::Ints(numbers::<Int32Type>(values)?),
        DataType::UInt32 | DataType::Int64 => FitsValues::Longs(numbers::<Int64Type>(values)?),
        DataType::Float16 | DataType::Float32 => FitsValues::Floats(numbers::<Float32Type>(values)?),
        DataType::Float64 | DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
            FitsValues::Doubles(numbers::<Float64Type>(values)?)
        }
        DataType::Dictionary(_, item) => values_of(&cast(values, item)?)?,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
            if item.data_type().is_integer() =>
        {
            FitsValues::IntegerLists(lists::<Int64Type>(cast(values, &list(DataType::Int64))?.as_list()))
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
            if item.data_type().is_numeric() =>
        {
            FitsValues::RealLists(lists::<Float64Type>(cast(values, &list(DataType::Float64))?.as_list()))
        }
        _ => {
            let texts = cast(values, &DataType::Utf8)?;
            FitsValues::Texts(texts.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect())
        }
    })
}

fn numbers<Number: ArrowPrimitiveType>(values: &ArrayRef) -> Result<Vec<Option<Number::Native>>, ArrowError> {
    Ok(cast(values, &Number::DATA_TYPE)?.as_primitive::<Number>().iter().collect())
}

/// Lists of numbers; one with a gap is none, since an array of FITS has no gaps.
fn lists<Number: ArrowPrimitiveType>(lists: &ListArray) -> Vec<Option<Vec<Number::Native>>> {
    let numbers = |list: Option<ArrayRef>| {
        let list = list?;
        let numbers = list.as_primitive::<Number>();
        (numbers.null_count() == 0).then(|| numbers.values().to_vec())
    };
    lists.iter().map(numbers).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rows_come_back_from_fits_as_they_were() {
        let mut places = ListBuilder::new(Float64Builder::new());
        places.values().append_slice(&[10.5, -3.25]);
        places.append(true);
        places.append(false);
        let ra = Field::new("ra", DataType::Float64, true).with_metadata(
            [("unit", "deg"), ("ucd", "pos.eq.ra")].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        );
        let columns: Vec<(Field, ArrayRef)> = vec![
            (ra, Arc::new(Float64Array::from(vec![Some(1.5), None]))),
            (Field::new("n", DataType::Int64, true), Arc::new(Int64Array::from(vec![None, Some(i64::MAX)]))),
            (Field::new("b", DataType::Boolean, true), Arc::new(BooleanArray::from(vec![Some(true), Some(false)]))),
            (Field::new("t", DataType::Utf8, true), Arc::new(StringArray::from(vec![Some("M 51"), None]))),
            (Field::new("p", DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true))), true), {
                Arc::new(places.finish())
            }),
        ];
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let parts = [rows.slice(0, 1), rows.slice(1, 1)];
        let bytes = fits::table::write(&fits_of_rows(&rows.schema(), &parts).unwrap()).unwrap();
        let read = rows_of_fits(fits::table::read(&bytes).unwrap()).unwrap();
        assert_eq!(read, rows);
    }

    #[test]
    fn no_rows_and_two_columns_of_a_name() {
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, true)]);
        let none = fits_of_rows(&schema, &[]).unwrap();
        assert_eq!((none.rows, none.columns.len()), (0, 1));
        let twice = ["a", "A"].map(|name| FitsColumn::new(name, FitsValues::Ints(vec![Some(1)])));
        assert!(rows_of_fits(FitsTable { columns: twice.into(), rows: 1 }).unwrap_err().contains("`A`"));
    }
}
