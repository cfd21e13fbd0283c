//! The rows of a table as texts, whatever it is written as: CSV, VOTable (which TOPCAT and astropy write) or Parquet. It
//! never knows what a column means.

use bytes::Bytes;
use csv::{ReaderBuilder, StringRecord, Trim};
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, reader::RowIter},
};
use terminal::Failure;
use vo::votable::TextTable;

/// The rows in their order. The first one has the names of the columns, if the table has them; CSV may have none.
pub(crate) fn table_rows(bytes: &[u8]) -> Result<Box<dyn Iterator<Item = Result<StringRecord, String>> + '_>, Failure> {
    if bytes.starts_with(PARQUET) {
        return parquet_rows(bytes);
    }
    if TextTable::is_document(bytes) {
        let table = TextTable::read(bytes).map_err(|fault| Failure::usage(fault.to_string()))?;
        let rows = std::iter::once(table.fields.into_iter().map(|field| field.name).collect()).chain(table.rows);
        return Ok(Box::new(rows.map(|row| Ok(StringRecord::from(row)))));
    }
    let reader = ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(bytes);
    Ok(Box::new(reader.into_records().map(|record| record.map_err(|error| error.to_string()))))
}

fn parquet_rows(bytes: &[u8]) -> Result<Box<dyn Iterator<Item = Result<StringRecord, String>>>, Failure> {
    let wrong =
        |error: parquet::errors::ParquetError| Failure::usage(format!("the Parquet table cannot be read: {error}"));
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(bytes)).map_err(wrong)?;
    let columns = reader.metadata().file_metadata().schema().get_fields().iter().map(|field| field.name().to_owned());
    let columns = StringRecord::from_iter(columns);
    let rows = RowIter::from_file_into(Box::new(reader)).map(|row| {
        let row = row.map_err(|error| error.to_string())?;
        Ok(row.get_column_iter().map(|(_, value)| text(value)).collect())
    });
    Ok(Box::new(std::iter::once(Ok(columns)).chain(rows)))
}

fn text(value: &Field) -> String {
    match value {
        Field::Null => String::new(),
        Field::Str(text) => text.trim().to_owned(),
        Field::Double(number) if number.is_nan() => String::new(),
        Field::Float(number) if number.is_nan() => String::new(),
        Field::Double(number) => format!("{number:?}"),
        Field::Float(number) => format!("{number:?}"),
        // Whole numbers; what is neither makes no sense in any column, and says so there.
        other => other.to_string(),
    }
}

const PARQUET: &[u8] = b"PAR1";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use parquet::{
        data_type::{ByteArrayType, DoubleType},
        file::{properties::WriterProperties, writer::SerializedFileWriter},
        schema::parser::parse_message_type,
    };

    use super::*;

    fn rows(bytes: &[u8]) -> Vec<Vec<String>> {
        let rows = table_rows(bytes).unwrap().map(|row| row.unwrap().iter().map(str::to_owned).collect());
        rows.collect()
    }

    fn parquet() -> Vec<u8> {
        let schema = "message t { OPTIONAL BYTE_ARRAY name (UTF8); REQUIRED DOUBLE ra; REQUIRED DOUBLE dec; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut bytes = Vec::new();
        let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::default())).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&["M 51".into()], Some(&[1, 0]), None).unwrap();
        column.close().unwrap();
        for values in [[202.5, f64::NAN], [47.2, -1e-7]] {
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<DoubleType>().write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        file.close().unwrap();
        bytes
    }

    #[test]
    fn a_table_has_the_same_rows_in_each_format() {
        let csv = b"name, ra,dec\nM 51,202.5,47.2\n,,-1e-7\n";
        let votable = b"<VOTABLE><RESOURCE><TABLE><FIELD name='name' datatype='char' arraysize='*'/><FIELD name='ra' \
            datatype='double'/><FIELD name='dec' datatype='double'/><DATA><TABLEDATA><TR><TD>M 51</TD><TD>202.5</TD>\
            <TD>47.2</TD></TR><TR><TD/><TD>NaN</TD><TD>-1e-7</TD></TR></TABLEDATA></DATA></TABLE></RESOURCE></VOTABLE>";
        let expected = [["name", "ra", "dec"], ["M 51", "202.5", "47.2"], ["", "", "-1e-7"]];
        assert_eq!(rows(csv), expected);
        assert_eq!(rows(votable), expected);
        assert_eq!(rows(&parquet()), expected);
    }

    #[test]
    fn what_is_cut_off_is_said() {
        let whole = parquet();
        for cut in [5, whole.len() / 2, whole.len() - 1] {
            assert!(table_rows(&whole[..cut]).is_err(), "{cut}");
        }
        assert!(table_rows(b"<VOTABLE>").is_err());
    }
}
