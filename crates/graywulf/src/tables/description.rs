//! The description of a table, `table.json`: columns with unit and UCD, layout, and the slices with what is known of
//! their values. It is small, and a person can read it. It never holds a row.

use std::{collections::BTreeMap, sync::Arc};

use datafusion::{
    arrow::datatypes::{Field, Schema, SchemaRef},
    common::{ColumnStatistics, ScalarValue, Statistics, stats::Precision},
};
use serde::{Deserialize, Serialize};

use super::{Layout, parse_type, type_name};

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableDescription {
    /// The format of this document.
    format: u32,
    /// What the table is, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
    /// The columns in their order.
    pub(crate) columns: Vec<ColumnDescription>,
    /// How rows are divided into slices, and sorted within each.
    pub(crate) layout: Layout,
    /// The slices.
    pub(crate) slices: Vec<SliceDescription>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ColumnDescription {
    /// Its name.
    pub(crate) name: String,
    /// Its type, by the names of [`parse_type`].
    #[serde(rename = "type")]
    pub(crate) column_type: String,
    /// Its unit as the Virtual Observatory writes it (VOUnits), such as `deg`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) unit: String,
    /// What it means: a unified content descriptor, such as `pos.eq.ra`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) ucd: String,
    /// What it is, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
}

/// A slice of a table: one Parquet file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SliceDescription {
    /// The name of its file below the table's folder.
    pub(crate) file: String,
    /// Rows.
    pub(crate) rows: u64,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// The smallest and the largest value of columns, as texts. A column that is missing here may have any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ranges: BTreeMap<String, (String, String)>,
}

/// Why a document is no description of a table.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum BadDescription {
    /// It is no JSON, or has other fields.
    #[error("it is no description of a table: {0}")]
    Document(String),
    /// A newer program wrote it.
    #[error("it has format {0}, and this program knows {FORMAT}: install a newer one")]
    Format(u32),
    /// Something in it contradicts the rest.
    #[error("{0}")]
    Content(String),
}

impl TableDescription {
    /// A table without rows.
    ///
    /// # Errors
    /// A name that occurs twice, an unknown type, or a layout by columns that there are not.
    pub(crate) fn new(columns: Vec<ColumnDescription>, layout: Layout) -> Result<Self, BadDescription> {
        let new = Self { format: FORMAT, description: String::new(), columns, layout, slices: Vec::new() };
        new.check()?;
        Ok(new)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// See [`BadDescription`].
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, BadDescription> {
        #[derive(Deserialize)]
        struct OnlyFormat {
            format: u32,
        }
        let wrong = |error: serde_json::Error| BadDescription::Document(error.to_string());
        let OnlyFormat { format } = serde_json::from_slice(bytes).map_err(wrong)?;
        if format != FORMAT {
            return Err(BadDescription::Format(format));
        }
        let read: Self = serde_json::from_slice(bytes).map_err(wrong)?;
        read.check()?;
        Ok(read)
    }

    /// The document.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Rows of all slices.
    pub(crate) fn rows(&self) -> u64 {
        self.slices.iter().map(|slice| slice.rows).sum()
    }

    /// Bytes of all slices.
    pub(crate) fn bytes(&self) -> u64 {
        self.slices.iter().map(|slice| slice.bytes).sum()
    }

    /// The columns as the engine knows them; unit and UCD are their metadata.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(ColumnDescription::field).collect::<Vec<_>>()))
    }

    fn check(&self) -> Result<(), BadDescription> {
        let content = |why: String| Err(BadDescription::Content(why));
        if self.columns.is_empty() {
            return content("a table needs a column".into());
        }
        for (at, ColumnDescription { name, column_type, .. }) in self.columns.iter().enumerate() {
            if name.is_empty() {
                return content(format!("column {} has no name", at + 1));
            }
            if self.columns[..at].iter().any(|before| before.name.eq_ignore_ascii_case(name)) {
                return content(format!("two columns are named `{name}`"));
            }
            if parse_type(column_type).is_none() {
                return content(format!("column `{name}` has the unknown type `{column_type}`"));
            }
        }
        for name in self.layout.columns() {
            let Some(column) = self.columns.iter().find(|column| column.name == name) else {
                return content(format!("the layout is by `{name}`, and there is no such column"));
            };
            let is_number = parse_type(&column.column_type).is_some_and(|data_type| data_type.is_floating());
            if matches!(self.layout, Layout::Zones { .. }) && !is_number {
                return content(format!("zones need degrees in `{name}`, which is {}", column.column_type));
            }
        }
        for slice in &self.slices {
            let is_within = !slice.file.split('/').any(|part| matches!(part, "" | "." | ".."));
            if !is_within {
                return content(format!("the slice `{}` is not below the table", slice.file));
            }
        }
        Ok(())
    }
}

impl ColumnDescription {
    /// The column as the engine knows it; what is said of it is its metadata.
    pub(crate) fn field(&self) -> Field {
        let Self { name, column_type, unit, ucd, description } = self;
        // `check` has parsed every type.
        let data_type = parse_type(column_type).unwrap_or(datafusion::arrow::datatypes::DataType::Null);
        let said = [("unit", unit), ("ucd", ucd), ("description", description)];
        let said = said.into_iter().filter(|(_, value)| !value.is_empty());
        let metadata = said.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        Field::new(name, data_type, true).with_metadata(metadata)
    }

    /// A column as the engine knows it.
    pub(crate) fn of(field: &Field) -> Result<Self, BadDescription> {
        let said = |key: &str| field.metadata().get(key).cloned().unwrap_or_default();
        let column_type = type_name(field.data_type()).ok_or_else(|| {
            BadDescription::Content(format!(
                "column `{}` has the type {}, which tables do not keep",
                field.name(),
                field.data_type()
            ))
        })?;
        Ok(Self {
            name: field.name().clone(),
            column_type,
            unit: said("unit"),
            ucd: said("ucd"),
            description: said("description"),
        })
    }
}

impl SliceDescription {
    /// Describes a slice by what its writer counted.
    pub(crate) fn new(file: String, bytes: u64, schema: &Schema, counted: &Statistics) -> Self {
        let rows = counted.num_rows.get_value().copied().unwrap_or_default() as u64;
        let mut ranges = BTreeMap::new();
        for (field, column) in schema.fields().iter().zip(&counted.column_statistics) {
            let (Precision::Exact(min), Precision::Exact(max)) = (&column.min_value, &column.max_value) else {
                continue;
            };
            if let (Some(min), Some(max)) = (text_of(min), text_of(max)) {
                ranges.insert(field.name().clone(), (min, max));
            }
        }
        Self { file, rows, bytes, ranges }
    }

    /// What the engine may take for certain of this slice, before it opens it.
    pub(crate) fn statistics(&self, schema: &Schema) -> Statistics {
        let column = |field: &Arc<Field>| {
            let value = |text: &str| ScalarValue::try_from_string(text.to_owned(), field.data_type());
            let range = self.ranges.get(field.name());
            match range.map(|(min, max)| (value(min), value(max))) {
                Some((Ok(min), Ok(max))) => ColumnStatistics {
                    min_value: Precision::Exact(min),
                    max_value: Precision::Exact(max),
                    ..ColumnStatistics::new_unknown()
                },
                _ => ColumnStatistics::new_unknown(),
            }
        };
        Statistics {
            num_rows: Precision::Exact(self.rows as usize),
            total_byte_size: Precision::Absent,
            column_statistics: schema.fields().iter().map(column).collect(),
        }
    }
}

/// A bound as text, if that says exactly the same and is short.
fn text_of(value: &ScalarValue) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let text = match value {
        // Their shortest text that reads back as the same number.
        ScalarValue::Float64(Some(number)) => format!("{number:?}"),
        ScalarValue::Float32(Some(number)) => format!("{number:?}"),
        other => other.to_string(),
    };
    let same = ScalarValue::try_from_string(text.clone(), &value.data_type()).ok()?;
    (same == *value && text.len() <= BOUND_BYTES_MAX).then_some(text)
}

/// The format of `table.json`.
const FORMAT: u32 = 1;
/// Longer bounds are not kept.
const BOUND_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::arrow::datatypes::DataType;

    use super::*;

    fn column(name: &str, column_type: &str) -> ColumnDescription {
        ColumnDescription {
            name: name.into(),
            column_type: column_type.into(),
            unit: String::new(),
            ucd: String::new(),
            description: String::new(),
        }
    }

    fn zones() -> Layout {
        Layout::Zones { ra: "ra".into(), dec: "dec".into(), height_arcsec: 30.0 }
    }

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let mut table = TableDescription::new(vec![column("ra", "double"), column("dec", "double")], zones()).unwrap();
        table.columns[0].unit = "deg".into();
        let ranges = BTreeMap::from([("dec".to_owned(), ("-1.5".to_owned(), "2.0".to_owned()))]);
        table.slices.push(SliceDescription { file: "slices/a.parquet".into(), rows: 2, bytes: 9, ranges });
        assert_eq!(TableDescription::parse(&table.to_bytes()).unwrap(), table);
        assert_eq!(table.schema().field(0).metadata()["unit"], "deg");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let refused = |columns: Vec<ColumnDescription>, layout| TableDescription::new(columns, layout).unwrap_err();
        assert_eq!(refused(vec![], Layout::Unordered).to_string(), "a table needs a column");
        let twice = refused(vec![column("a", "int"), column("A", "int")], Layout::Unordered);
        assert_eq!(twice.to_string(), "two columns are named `A`");
        let unknown = refused(vec![column("a", "blob9")], Layout::Unordered);
        assert_eq!(unknown.to_string(), "column `a` has the unknown type `blob9`");
        let missing = refused(vec![column("a", "int")], Layout::Key(vec!["b".into()]));
        assert_eq!(missing.to_string(), "the layout is by `b`, and there is no such column");
        let text = refused(vec![column("ra", "double"), column("dec", "text")], zones());
        assert_eq!(text.to_string(), "zones need degrees in `dec`, which is text");
    }

    #[test]
    fn a_slice_outside_the_table_is_refused() {
        let mut table = TableDescription::new(vec![column("a", "int")], Layout::Unordered).unwrap();
        for file in ["/secret", "../x", "a/../../b", "", "a//b"] {
            table.slices = vec![SliceDescription { file: file.into(), rows: 0, bytes: 0, ranges: BTreeMap::new() }];
            assert!(TableDescription::parse(&table.to_bytes()).is_err(), "{file}");
        }
    }

    #[test]
    fn another_format_is_said() {
        let found = TableDescription::parse(b"{\"format\": 2, \"what\": []}").unwrap_err();
        assert_eq!(found, BadDescription::Format(2));
        assert!(matches!(TableDescription::parse(b"[]"), Err(BadDescription::Document(_))));
    }

    #[test]
    fn bounds_come_back_as_the_same_values() {
        let values = [
            ScalarValue::Float64(Some(0.1 + 0.2)),
            ScalarValue::Float64(Some(-1e-300)),
            ScalarValue::Float64(Some(360.0)),
            ScalarValue::Float32(Some(0.1)),
            ScalarValue::Int64(Some(i64::MIN)),
            ScalarValue::UInt8(Some(255)),
            ScalarValue::Utf8(Some("M 51".into())),
            ScalarValue::Date32(Some(20_000)),
            ScalarValue::Boolean(Some(true)),
        ];
        for value in values {
            let field = Field::new("x", value.data_type(), true);
            let schema = Schema::new(vec![field]);
            let counted = Statistics {
                num_rows: Precision::Exact(7),
                total_byte_size: Precision::Absent,
                column_statistics: vec![ColumnStatistics {
                    min_value: Precision::Exact(value.clone()),
                    max_value: Precision::Exact(value.clone()),
                    ..ColumnStatistics::new_unknown()
                }],
            };
            let slice = SliceDescription::new("a".into(), 1, &schema, &counted);
            let read = slice.statistics(&schema);
            assert_eq!(read.column_statistics[0].min_value, Precision::Exact(value.clone()), "{value:?}");
            assert_eq!(read.num_rows, Precision::Exact(7));
        }
        assert_eq!(text_of(&ScalarValue::Utf8(Some("x".repeat(65)))), None);
        assert_eq!(text_of(&ScalarValue::try_from(&DataType::Int32).unwrap()), None);
    }
}
