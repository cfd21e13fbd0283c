//! A document with one table of results, as DALI wants it (1.1, 4.4). It never orders or counts rows.

use super::ServiceDescriptor;
use crate::xml::Xml;

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
    pub(super) fn attributes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Text => &[("datatype", "unicodeChar"), ("arraysize", "*")],
            Self::Double => &[("datatype", "double")],
            Self::Long => &[("datatype", "long")],
            Self::Int => &[("datatype", "int")],
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
    fn text(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Text(text) => text.clone(),
            // Short for large and small ones, too.
            Self::Real(number) => format!("{number:?}"),
            Self::Integer(number) => number.to_string(),
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
        let mut xml = begin();
        xml.open("RESOURCE", &[("type", "results")]);
        xml.empty("INFO", &[("name", "QUERY_STATUS"), ("value", "OK")]);
        if !self.standard_id.is_empty() {
            xml.empty("INFO", &[("name", "standardID"), ("value", self.standard_id)]);
        }
        xml.open("TABLE", &[]);
        for field in self.fields {
            let id = field.name;
            let mut attributes = vec![("name", id), ("ID", id)];
            attributes.extend(field.datatype.attributes());
            let further = [("ucd", field.ucd), ("utype", field.utype), ("unit", field.unit), ("xtype", field.xtype)];
            attributes.extend(further.into_iter().filter(|(_, value)| !value.is_empty()));
            xml.empty("FIELD", &attributes);
        }
        xml.open("DATA", &[]);
        xml.open("TABLEDATA", &[]);
        for row in &self.rows {
            xml.open("TR", &[]);
            row.iter().for_each(|cell| xml.text("TD", &[], &cell.text()));
            xml.close("TR");
        }
        xml.close("TABLEDATA");
        xml.close("DATA");
        xml.close("TABLE");
        // What was left out is only known at the end.
        if self.outcome == QueryStatus::Overflow {
            xml.empty("INFO", &[("name", "QUERY_STATUS"), ("value", "OVERFLOW")]);
        }
        xml.close("RESOURCE");
        self.services.iter().for_each(|service| service.write(&mut xml));
        xml.close("VOTABLE");
        xml.finish()
    }

    /// The document that says why there is no table.
    pub fn error_document(message: &str) -> Vec<u8> {
        let mut xml = begin();
        xml.open("RESOURCE", &[("type", "results")]);
        xml.text("INFO", &[("name", "QUERY_STATUS"), ("value", "ERROR")], message);
        xml.close("RESOURCE");
        xml.close("VOTABLE");
        xml.finish()
    }
}

fn begin() -> Xml {
    let mut xml = Xml::new();
    xml.open("VOTABLE", &[("version", "1.4"), ("xmlns", "http://www.ivoa.net/xml/VOTable/v1.3")]);
    xml
}
