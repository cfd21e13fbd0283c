//! What the service can do, for clients that ask before they do (TAPRegExt 1.0), and queries to begin with (DALI 1.1, 2.3).
//! It never says what it has not.

use vo::vosi::{
    FEATURES_GEOMETRY_ID, LanguageFeatures, OUTPUT_BINARY2_ID, OUTPUT_TABLEDATA_ID, OutputFormat, TapCapabilities,
    TapLimit, UPLOAD_HTTP_ID, UPLOAD_INLINE_ID, tap_capabilities,
};

use super::{
    limits::{LIMITS, UPLOAD_BYTES_MAX},
    query::{FORMATS, ROWS_DEFAULT, ROWS_MAX},
};
use crate::output::ResultFormat;

/// The document of `capabilities`.
pub(super) fn document(url: &str) -> Vec<u8> {
    let features = |type_id: &str, names: &[&str]| LanguageFeatures {
        type_id: type_id.into(),
        features: names.iter().map(|name| ((*name).to_owned(), String::new())).collect(),
    };
    let format = |format: &super::query::TapFormat| OutputFormat {
        media_type: format.media_type.into(),
        aliases: format.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        ivo_id: match format.format {
            ResultFormat::Votable => Some(OUTPUT_BINARY2_ID.into()),
            ResultFormat::VotableTd => Some(OUTPUT_TABLEDATA_ID.into()),
            _ => None,
        },
    };
    let limit = |default: u64, hard: u64| TapLimit { default: Some(default), hard: Some(hard) };
    tap_capabilities(&TapCapabilities {
        base_url: url.into(),
        language_description: "ADQL 2.1; positions are ICRS, in degrees".into(),
        features: vec![
            features(FEATURES_GEOMETRY_ID, &GEOMETRY),
            features(&feature("string"), &["LOWER", "UPPER", "ILIKE"]),
            features(&feature("sets"), &["UNION", "EXCEPT", "INTERSECT"]),
            features(&feature("common-table"), &["WITH"]),
            features(&feature("type"), &["CAST"]),
            features(&feature("offset"), &["OFFSET"]),
        ],
        output_formats: FORMATS.iter().map(format).collect(),
        upload_methods: vec![UPLOAD_INLINE_ID.into(), UPLOAD_HTTP_ID.into()],
        retention_seconds: limit(LIMITS.life.0.as_secs(), LIMITS.life.1.as_secs()),
        execution_seconds: limit(LIMITS.execution.0.as_secs(), LIMITS.execution.1.as_secs()),
        output_rows: limit(ROWS_DEFAULT as u64, ROWS_MAX as u64),
        upload_bytes: limit(UPLOAD_BYTES_MAX as u64, UPLOAD_BYTES_MAX as u64),
    })
}

fn feature(name: &str) -> String {
    format!("ivo://ivoa.net/std/TAPRegExt#features-adql-{name}")
}

/// The document of `examples`: a page that programs read, too.
pub(super) fn examples() -> Vec<u8> {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n\
         <head><meta charset=\"utf-8\"/><title>Queries to begin with</title></head>\n\
         <body vocab=\"http://www.ivoa.net/rdf/examples#\">\n<h1>Queries to begin with</h1>\n",
    );
    for (id, name, query) in EXAMPLES {
        let query = query.replace('&', "&amp;").replace('<', "&lt;");
        page.push_str(&format!(
            "<div id=\"{id}\" resource=\"#{id}\" typeof=\"example\">\n<h2 property=\"name\">{name}</h2>\n\
             <pre property=\"query\">{query}</pre>\n</div>\n"
        ));
    }
    page.push_str("</body>\n</html>\n");
    page.into_bytes()
}

const GEOMETRY: [&str; 12] = [
    "POINT",
    "CIRCLE",
    "BOX",
    "POLYGON",
    "CONTAINS",
    "INTERSECTS",
    "DISTANCE",
    "AREA",
    "CENTROID",
    "COORD1",
    "COORD2",
    "COORDSYS",
];
/// The type of the page of examples.
pub(super) const EXAMPLES_TYPE: &str = "application/xhtml+xml";
const EXAMPLES: [(&str, &str, &str); 3] = [
    ("tables", "Which tables there are", "SELECT table_name, description FROM TAP_SCHEMA.tables"),
    (
        "columns",
        "Which columns are positions",
        "SELECT table_name, column_name, unit FROM TAP_SCHEMA.columns WHERE ucd LIKE 'pos.eq%'",
    ),
    (
        "count",
        "How many columns each table has",
        "SELECT table_name, COUNT(*) AS columns FROM TAP_SCHEMA.columns GROUP BY table_name ORDER BY columns DESC",
    ),
];
