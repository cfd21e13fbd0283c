//! Which tables a service has (VOSI 1.1, table metadata), in the elements of VODataService 1.2. It never reads a row.

use super::namespaces::{VODATASERVICE, XSI};
use crate::{votable::Column, xml::Xml};

/// Tables that belong together (VODataService 1.2, `vs:TableSchema`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaDescription {
    /// Its name.
    pub name: String,
    /// What its tables have in common; may be empty.
    pub description: String,
    /// The tables.
    pub tables: Vec<TableDescription>,
}

/// A table (VODataService 1.2, `vs:Table`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableDescription {
    /// Its name as a query writes it, with that of its schema.
    pub name: String,
    /// What it holds; may be empty.
    pub description: String,
    /// About how many rows it has.
    pub rows: Option<u64>,
    /// Which other tables its rows refer to.
    pub foreign_keys: Vec<ForeignKey>,
    /// The columns. Without any it is the description of VOSI's `detail=min`.
    pub columns: Vec<TableColumn>,
}

/// A link of rows to those of another table (VODataService 1.2, 3.4.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKey {
    /// The other table.
    pub target_table: String,
    /// The column here, and its like there.
    pub columns: Vec<(String, String)>,
}

/// A column of a table (VODataService 1.2, `vs:TableParam`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableColumn {
    /// What it is in a table of results, too.
    pub column: Column,
    /// Whether a search by it is fast.
    pub is_indexed: bool,
    /// Whether its values say which row it is.
    pub is_primary: bool,
    /// Whether a standard defines it.
    pub is_standard: bool,
}

/// A column without index of which no standard knows.
impl From<Column> for TableColumn {
    fn from(column: Column) -> Self {
        Self { column, ..Self::default() }
    }
}

/// The document of `tables` (VOSI 1.1, table metadata).
pub fn tableset(schemas: &[SchemaDescription]) -> Vec<u8> {
    let mut xml = Xml::new();
    xml.open("vosi:tableset", &ROOT_ATTRIBUTES);
    for schema in schemas {
        xml.open("schema", &[]);
        xml.text("name", &[], &schema.name);
        xml.optional("description", &schema.description);
        for table in &schema.tables {
            xml.open("table", &[]);
            write_table(&mut xml, table);
            xml.close("table");
        }
        xml.close("schema");
    }
    xml.close("vosi:tableset");
    xml.finish()
}

/// The document of `tables/NAME` (VOSI 1.1, table metadata).
pub fn table_document(table: &TableDescription) -> Vec<u8> {
    let mut xml = Xml::new();
    xml.open("vosi:table", &ROOT_ATTRIBUTES);
    write_table(&mut xml, table);
    xml.close("vosi:table");
    xml.finish()
}

/// What is within a table. Its schema demands this order.
fn write_table(xml: &mut Xml, table: &TableDescription) {
    xml.text("name", &[], &table.name);
    xml.optional("description", &table.description);
    if let Some(rows) = table.rows {
        xml.text("nrows", &[], &rows.to_string());
    }
    table.columns.iter().for_each(|column| write_column(xml, column));
    for key in &table.foreign_keys {
        xml.open("foreignKey", &[]);
        xml.text("targetTable", &[], &key.target_table);
        for (from, to) in &key.columns {
            xml.open("fkColumn", &[]);
            xml.text("fromColumn", &[], from);
            xml.text("targetColumn", &[], to);
            xml.close("fkColumn");
        }
        xml.close("foreignKey");
    }
}

fn write_column(xml: &mut Xml, described: &TableColumn) {
    let TableColumn { column, is_indexed, is_primary, is_standard } = described;
    xml.open("column", &[("std", if *is_standard { "true" } else { "false" })]);
    xml.text("name", &[], &column.name);
    xml.optional("description", &column.description);
    xml.optional("unit", &column.unit);
    xml.optional("ucd", &column.ucd);
    xml.optional("utype", &column.utype);
    let mut attributes = vec![("xsi:type", "vs:VOTableType")];
    let further = [("arraysize", column.kind.arraysize().unwrap_or_default()), ("extendedType", &column.xtype)];
    attributes.extend(further.into_iter().filter(|(_, value)| !value.is_empty()));
    xml.text("dataType", &attributes, column.kind.datatype());
    for (flag, is_set) in [("indexed", is_indexed), ("primary", is_primary)] {
        if *is_set {
            xml.text("flag", &[], flag);
        }
    }
    xml.close("column");
}

/// Of both roots. The schema of the standard has no version here.
const ROOT_ATTRIBUTES: [(&str, &str); 3] =
    [("xmlns:vosi", "http://www.ivoa.net/xml/VOSITables/v1.0"), ("xmlns:vs", VODATASERVICE), ("xmlns:xsi", XSI)];
