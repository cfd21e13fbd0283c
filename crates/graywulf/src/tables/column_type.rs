//! The types of columns by names that people know from SQL, and by the engine's own where SQL has none. It never
//! converts a value.

use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// The type that a name means: a word of SQL, or a type as Arrow writes it, such as `List(Float64)`.
pub(crate) fn parse_type(name: &str) -> Option<DataType> {
    let lower = name.trim().to_ascii_lowercase();
    let known = NAMES.iter().find(|(known, _)| *known == lower).map(|(_, data_type)| data_type.clone());
    let other = SYNONYMS.iter().find(|(synonym, _)| *synonym == lower).and_then(|(_, name)| parse_type(name));
    known.or(other).or_else(|| name.parse().ok().filter(is_kept))
}

/// The name of a type. `None` for one that no table keeps.
pub(crate) fn type_name(data_type: &DataType) -> Option<String> {
    let stored = match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => &DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => &DataType::Binary,
        DataType::Dictionary(_, values) => return type_name(values),
        other => other,
    };
    if let Some((name, _)) = NAMES.iter().find(|(_, known)| known == stored) {
        return Some((*name).to_owned());
    }
    // Only what reads back is a name.
    let name = stored.to_string();
    (name.parse::<DataType>().ok().as_ref() == Some(stored) && is_kept(stored)).then_some(name)
}

/// Whether Parquet has a place for values of it.
fn is_kept(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..))
}

const NAMES: [(&str, DataType); 17] = [
    ("boolean", DataType::Boolean),
    ("tinyint", DataType::Int8),
    ("smallint", DataType::Int16),
    ("int", DataType::Int32),
    ("bigint", DataType::Int64),
    ("utinyint", DataType::UInt8),
    ("usmallint", DataType::UInt16),
    ("uint", DataType::UInt32),
    ("ubigint", DataType::UInt64),
    ("real", DataType::Float32),
    ("double", DataType::Float64),
    ("text", DataType::Utf8),
    ("binary", DataType::Binary),
    ("date", DataType::Date32),
    ("timestamp", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ("timestamp_ns", DataType::Timestamp(TimeUnit::Nanosecond, None)),
    ("time", DataType::Time64(TimeUnit::Microsecond)),
];

const SYNONYMS: [(&str, &str); 9] = [
    ("bool", "boolean"),
    ("integer", "int"),
    ("long", "bigint"),
    ("float", "real"),
    ("string", "text"),
    ("varchar", "text"),
    ("char", "text"),
    ("blob", "binary"),
    ("datetime", "timestamp"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use datafusion::arrow::datatypes::Field;

    use super::*;

    #[test]
    fn every_name_is_read_as_its_type() {
        for (name, data_type) in &NAMES {
            assert_eq!(parse_type(name).as_ref(), Some(data_type));
            assert_eq!(type_name(data_type).as_deref(), Some(*name));
        }
        for (synonym, name) in SYNONYMS {
            assert_eq!(parse_type(synonym), parse_type(name), "{synonym}");
        }
        assert_eq!(parse_type("DOUBLE"), Some(DataType::Float64));
    }

    #[test]
    fn types_without_a_word_in_sql_keep_their_own_name() {
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
        for data_type in [DataType::Decimal128(12, 2), list] {
            let name = type_name(&data_type).unwrap();
            assert_eq!(parse_type(&name), Some(data_type), "{name}");
        }
        assert_eq!(type_name(&DataType::Utf8View).as_deref(), Some("text"));
        assert_eq!(type_name(&DataType::Null), None);
        for name in ["", "decimal", "List(", "Null", "vector"] {
            assert_eq!(parse_type(name), None, "{name}");
        }
    }
}
