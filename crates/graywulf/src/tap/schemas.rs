//! What a service says of its tables: those that the caller may ask, and `TAP_SCHEMA`, which says the same in tables (TAP
//! 1.1, 4). It never says of a table what its description does not.

use std::{collections::BTreeMap, sync::Arc};

use datafusion::{
    arrow::{
        array::{ArrayRef, Int32Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema},
    },
    catalog::TableProvider,
    datasource::MemTable,
    error::Result,
};
use vo::{
    vosi::{ForeignKey, SchemaDescription, TableColumn, TableDescription},
    votable::{Column, ColumnKind},
};

use super::catalogue::{Catalogue, CatalogueTable, NO_SCHEMA, column_identifier};
use crate::{engine::GivenTables, output::column_of};

/// All schemas: those of tables by their names, and `TAP_SCHEMA` at the end.
pub(super) fn schemas(catalogue: &Catalogue) -> Vec<SchemaDescription> {
    let mut schemas: BTreeMap<String, Vec<TableDescription>> = BTreeMap::new();
    for table in &catalogue.tables {
        schemas.entry(table.schema()).or_default().push(described(table));
    }
    let described = |(name, tables): (String, Vec<TableDescription>)| {
        let description = if name == NO_SCHEMA { "Tables in no folder" } else { "" };
        SchemaDescription { name, description: description.into(), tables }
    };
    let mut all: Vec<_> = schemas.into_iter().map(described).collect();
    all.push(own_schema());
    all
}

fn described(table: &CatalogueTable) -> TableDescription {
    let description = &table.description;
    let layout = description.layout.columns();
    let column = |column: &crate::tables::ColumnDescription| TableColumn {
        column: Column { name: column_identifier(&column.name), ..column_of(&column.field()) },
        // What slices and row groups are left out by.
        is_indexed: layout.contains(&column.name.as_str()),
        is_primary: false,
        is_standard: false,
    };
    TableDescription {
        name: table.name(),
        description: description.description.clone(),
        rows: Some(description.rows()),
        foreign_keys: Vec::new(),
        columns: description.columns.iter().map(column).collect(),
    }
}

/// `TAP_SCHEMA` as it describes itself.
fn own_schema() -> SchemaDescription {
    let column = |(name, kind, description): &(&str, ColumnKind, &str)| TableColumn {
        column: Column { description: (*description).into(), ..Column::new(column_identifier(name), *kind) },
        is_standard: true,
        ..TableColumn::default()
    };
    let table = |(name, description, columns): &OwnTable| TableDescription {
        name: format!("TAP_SCHEMA.{name}"),
        description: (*description).into(),
        rows: None,
        columns: columns.iter().map(column).collect(),
        foreign_keys: OWN_KEYS.iter().filter(|key| key.0 == *name).map(foreign_key).collect(),
    };
    SchemaDescription {
        name: "TAP_SCHEMA".into(),
        description: "What tables there are".into(),
        tables: OWN_TABLES.iter().map(table).collect(),
    }
}

fn foreign_key((_, column, target, target_column): &OwnKey) -> ForeignKey {
    let columns = vec![((*column).to_owned(), (*target_column).to_owned())];
    ForeignKey { target_table: format!("TAP_SCHEMA.{target}"), columns }
}

/// The tables of `TAP_SCHEMA`, by the parts of their names.
///
/// # Errors
/// None that is known: its columns are as long as each other.
pub(super) fn own_tables(schemas: &[SchemaDescription]) -> Result<GivenTables> {
    let mut rows: BTreeMap<&str, Vec<Vec<Cell>>> = BTreeMap::new();
    let mut keys = 0;
    let mut add = |table, row| rows.entry(table).or_default().push(row);
    for (number, schema) in schemas.iter().enumerate() {
        add("schemas", vec![text(&schema.name), Cell::Null, text(&schema.description), Cell::Number(number)]);
        for (number, table) in schema.tables.iter().enumerate() {
            add(
                "tables",
                vec![
                    text(&schema.name),
                    text(&table.name),
                    text("table"),
                    Cell::Null,
                    text(&table.description),
                    Cell::Number(number),
                ],
            );
            for key in &table.foreign_keys {
                let id = text(&format!("key{keys}"));
                keys += 1;
                let name = text(&table.name);
                add("keys", vec![id.clone(), name, text(&key.target_table), Cell::Null, Cell::Null]);
                for (from, to) in &key.columns {
                    add("key_columns", vec![id.clone(), text(from), text(to)]);
                }
            }
            for (number, TableColumn { column, is_indexed, is_standard, .. }) in table.columns.iter().enumerate() {
                let arraysize = column.kind.arraysize().map_or(Cell::Null, text);
                add(
                    "columns",
                    vec![
                        text(&table.name),
                        text(&column.name),
                        text(column.kind.datatype()),
                        arraysize,
                        text(&column.xtype),
                        Cell::Null,
                        text(&column.description),
                        text(&column.utype),
                        text(&column.unit),
                        text(&column.ucd),
                        Cell::Number(usize::from(*is_indexed)),
                        Cell::Number(usize::from(!column.ucd.is_empty())),
                        Cell::Number(usize::from(*is_standard)),
                        Cell::Number(number),
                    ],
                );
            }
        }
    }
    let mut tables = GivenTables::new();
    for (name, _, columns) in &OWN_TABLES {
        let rows = rows.remove(name).unwrap_or_default();
        let parts = vec!["tap_schema".to_owned(), (*name).to_owned()];
        tables.insert(parts, table_of(columns, &rows)?);
    }
    Ok(tables)
}

fn table_of(columns: &[(&str, ColumnKind, &str)], rows: &[Vec<Cell>]) -> Result<Arc<dyn TableProvider>> {
    let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (at, (name, kind, description)) in columns.iter().enumerate() {
        let values = rows.iter().map(|row| row.get(at));
        let (data_type, array): (_, ArrayRef) = match kind {
            ColumnKind::Int => {
                let number = |cell: Option<&Cell>| match cell {
                    Some(Cell::Number(number)) => i32::try_from(*number).ok(),
                    _ => None,
                };
                (DataType::Int32, Arc::new(values.map(number).collect::<Int32Array>()))
            }
            _ => {
                let text = |cell: Option<&Cell>| match cell {
                    Some(Cell::Text(text)) => Some(text.clone()),
                    _ => None,
                };
                (DataType::Utf8, Arc::new(values.map(text).collect::<StringArray>()))
            }
        };
        let said = [("description".to_owned(), (*description).to_owned())];
        fields.push(Field::new(*name, data_type, true).with_metadata(said.into()));
        arrays.push(array);
    }
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
    Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
}

/// A value of `TAP_SCHEMA`.
#[derive(Clone, Debug)]
enum Cell {
    Null,
    Text(String),
    Number(usize),
}

/// A text; an empty one is none.
fn text(text: &str) -> Cell {
    if text.is_empty() { Cell::Null } else { Cell::Text(text.to_owned()) }
}

/// Name, description and columns.
type OwnTable = (&'static str, &'static str, &'static [(&'static str, ColumnKind, &'static str)]);

/// Table and column that refer, table and column that they refer to.
type OwnKey = (&'static str, &'static str, &'static str, &'static str);

/// How the tables of `TAP_SCHEMA` are linked (TAP 1.1, 4).
const OWN_KEYS: [OwnKey; 5] = [
    ("tables", "schema_name", "schemas", "schema_name"),
    ("columns", "table_name", "tables", "table_name"),
    ("keys", "from_table", "tables", "table_name"),
    ("keys", "target_table", "tables", "table_name"),
    ("key_columns", "key_id", "keys", "key_id"),
];
const TEXT: ColumnKind = ColumnKind::Text;
const INT: ColumnKind = ColumnKind::Int;
/// TAP 1.1, 4.
const OWN_TABLES: [OwnTable; 5] = [
    (
        "schemas",
        "The schemas",
        &[
            ("schema_name", TEXT, "Its name, as a statement writes it"),
            ("utype", TEXT, "Which data model it is of"),
            ("description", TEXT, "What its tables have in common"),
            ("schema_index", INT, "Where it stands among the schemas"),
        ],
    ),
    (
        "tables",
        "The tables",
        &[
            ("schema_name", TEXT, "The schema it belongs to"),
            ("table_name", TEXT, "Its name, as a statement writes it"),
            ("table_type", TEXT, "table or view"),
            ("utype", TEXT, "Which part of a data model it is"),
            ("description", TEXT, "What it holds"),
            ("table_index", INT, "Where it stands in its schema"),
        ],
    ),
    (
        "columns",
        "The columns of all tables",
        &[
            ("table_name", TEXT, "The table it belongs to"),
            ("column_name", TEXT, "Its name, as a statement writes it"),
            ("datatype", TEXT, "What it holds, in the words of VOTable"),
            ("arraysize", TEXT, "How many make up a value"),
            ("xtype", TEXT, "The type beyond the datatype"),
            ("size", INT, "The same as arraysize, where it is a number"),
            ("description", TEXT, "What it is"),
            ("utype", TEXT, "Which attribute of a data model it is"),
            ("unit", TEXT, "The unit of its values"),
            ("ucd", TEXT, "What it means, in the words of UCD"),
            ("indexed", INT, "1: a search by it reads little"),
            ("principal", INT, "1: it says more than others"),
            ("std", INT, "1: a standard defines it"),
            ("column_index", INT, "Where it stands in its table"),
        ],
    ),
    (
        "keys",
        "Which tables are linked",
        &[
            ("key_id", TEXT, "The name of the link"),
            ("from_table", TEXT, "The table that refers"),
            ("target_table", TEXT, "The table that it refers to"),
            ("description", TEXT, "What it means"),
            ("utype", TEXT, "Which link of a data model it is"),
        ],
    ),
    (
        "key_columns",
        "By which columns tables are linked",
        &[
            ("key_id", TEXT, "The name of the link"),
            ("from_column", TEXT, "The column that refers"),
            ("target_column", TEXT, "The column that it refers to"),
        ],
    ),
];
