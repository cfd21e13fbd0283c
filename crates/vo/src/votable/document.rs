//! A document with one table of results, as DALI wants it (1.1, 4.4), whose columns are known when it is built. It never
//! orders or counts rows.

use super::{
    ServiceDescriptor,
    column::{Column, ColumnKind, Value},
    rows_writer::{self, Ending, RowsWriter, Serialisation},
};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datatype {
    /// Text of any length.
    Text,
    /// A real number.
    Double,
    /// A whole number of 64 bits.
    Long,
    /// A whole number of 32 bits.
    Int,
}

impl Datatype {
    pub(super) const fn kind(self) -> ColumnKind {
        match self {
            Self::Text => ColumnKind::Text,
            Self::Double => ColumnKind::Double,
            Self::Long => ColumnKind::Long,
            Self::Int => ColumnKind::Int,
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub datatype: Datatype,
    /// What it means, in the words of UCD; empty for none.
    pub ucd: &'static str,
    /// Which attribute of a data model it is; empty for none.
    pub utype: &'static str,
    /// The unit; empty for none.
    pub unit: &'static str,
    /// The type beyond the datatype; empty for none.
    pub xtype: &'static str,
}

impl Field {
    /// A column without unit or further type.
    pub const fn new(name: &'static str, datatype: Datatype, ucd: &'static str) -> Self {
        Self { name, datatype, ucd, utype: "", unit: "", xtype: "" }
    }

    fn column(&self) -> Column {
        Column {
            unit: self.unit.to_owned(),
            ucd: self.ucd.to_owned(),
            utype: self.utype.to_owned(),
            xtype: self.xtype.to_owned(),
            ..Column::new(self.name, self.datatype.kind())
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// None.
    Null,
    /// Text.
    Text(String),
    /// A number.
    Real(f64),
    /// A whole number.
    Integer(i64),
}

impl Cell {
    fn value(&self, datatype: Datatype) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) => Value::Text(text),
            Self::Real(number) => Value::Real(*number),
            // A whole number is a real one, too.
            Self::Integer(number) if datatype == Datatype::Double => Value::Real(*number as f64),
            Self::Integer(number) => Value::Integer(*number),
        }
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<i32> for Cell {
    fn from(number: i32) -> Self {
        Self::Integer(number.into())
    }
}

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryStatus {
    /// With all rows.
    Complete,
    /// With as many rows as were wanted, and there are more.
    Overflow,
}

/// A table of results.
#[derive(Clone, Debug)]
pub struct Table {
    /// The columns.
    pub fields: &'static [Field],
    /// A value for each column.
    pub rows: Vec<Vec<Cell>>,
    /// How the query ended.
    pub outcome: QueryStatus,
    /// The standard of the service, such as `ivo://ivoa.net/std/SIA#query-2.0`; empty for none.
    pub standard_id: &'static str,
    /// Services that take rows of it.
    pub services: Vec<ServiceDescriptor>,
}

impl Table {
    /// The document.
    pub fn document(&self) -> Vec<u8> {
        let columns: Vec<_> = self.fields.iter().map(Field::column).collect();
        let standard = [("standardID", self.standard_id)];
        let infos = if self.standard_id.is_empty() { &[] } else { &standard[..] };
        // Descriptors of services refer to columns by ID.
        let mut writer = RowsWriter::begin(&columns, Serialisation::TableData, infos, true);
        for row in &self.rows {
            let cell = |at, datatype| row.get(at).map_or(Value::Null, |cell: &Cell| cell.value(datatype));
            writer.row(self.fields.iter().enumerate().map(|(at, field)| cell(at, field.datatype)));
        }
        let ending = match self.outcome {
            QueryStatus::Complete => Ending::Complete,
            QueryStatus::Overflow => Ending::Overflow,
        };
        writer.close(ending, |xml| self.services.iter().for_each(|service| service.write(xml)))
    }

    /// The document that says why there is no table.
    pub fn error_document(message: &str) -> Vec<u8> {
        let mut xml = rows_writer::document();
        xml.open("RESOURCE", &[("type", "results")]);
        rows_writer::write_error(&mut xml, message);
        xml.close("RESOURCE");
        xml.close("VOTABLE");
        xml.finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::votable::{InputParameter, TextTable};

    #[test]
    fn a_table_has_ids_its_ending_and_its_services() {
        const FIELDS: &[Field] = &[
            Field::new("id", Datatype::Text, "meta.id"),
            Field { unit: "m", ..Field::new("x", Datatype::Double, "") },
        ];
        let parameter = InputParameter { of_column: "id", ..InputParameter::new("ID", Datatype::Text, "meta.id") };
        let service = ServiceDescriptor {
            id: "cut",
            standard_id: "ivo://a",
            access_url: "https://a/".into(),
            parameters: vec![parameter],
        };
        let table = Table {
            fields: FIELDS,
            // A whole number in a column of real ones, and a row that ends early.
            rows: vec![vec!["a".into(), 7.into()], vec!["b".into()]],
            outcome: QueryStatus::Overflow,
            standard_id: "ivo://b",
            services: vec![service],
        };
        let document = table.document();
        assert_eq!(TextTable::read(&document).unwrap().rows, [["a", "7.0"], ["b", ""]]);
        let text = String::from_utf8(document).unwrap();
        let mut rest = text.as_str();
        for part in [
            "<INFO name=\"QUERY_STATUS\" value=\"OK\"/>",
            "<INFO name=\"standardID\" value=\"ivo://b\"/>",
            "<FIELD name=\"id\" ID=\"id\" datatype=\"unicodeChar\" arraysize=\"*\" ucd=\"meta.id\"/>",
            "<FIELD name=\"x\" ID=\"x\" datatype=\"double\" unit=\"m\"/>",
            "<INFO name=\"QUERY_STATUS\" value=\"OVERFLOW\"/>",
            "</RESOURCE>",
            "<RESOURCE type=\"meta\" utype=\"adhoc:service\" ID=\"cut\" name=\"cut\">",
            "<PARAM name=\"ID\" datatype=\"unicodeChar\" arraysize=\"*\" ucd=\"meta.id\" ref=\"id\" value=\"\"/>",
            "</VOTABLE>",
        ] {
            rest = rest.split_once(part).unwrap_or_else(|| panic!("{part} is not in {rest}")).1;
        }
        assert_eq!(rest, "");
    }
}
