//! What a service says of itself (VOSI 1.1): what it can do, which tables it has, and whether it is there. It never
//! promises an answer.

mod availability;
mod capabilities;
mod namespaces;
mod tables;
mod tap;
#[cfg(test)]
mod tests;

pub use availability::availability;
pub use capabilities::{AVAILABILITY_ID, CAPABILITIES_ID, Capability, EXAMPLES_ID, TABLES_ID, capabilities};
pub use tables::{ForeignKey, SchemaDescription, TableColumn, TableDescription, table_document, tableset};
pub use tap::{
    FEATURES_GEOMETRY_ID, FEATURES_UDF_ID, LanguageFeatures, OUTPUT_BINARY2_ID, OUTPUT_TABLEDATA_ID, OutputFormat,
    TAP_ID, TapCapabilities, TapLimit, UPLOAD_HTTP_ID, UPLOAD_INLINE_ID, tap_capabilities,
};
