//! Tables as the Virtual Observatory exchanges them (VOTable 1.4), with descriptors of services that take their rows
//! (DataLink 1.1, 4). It never follows a link in one.

mod binary_rows;
mod document;
mod reader;
mod service_descriptor;

pub use document::{Cell, Datatype, Field, QueryStatus, Table};
pub use reader::{TextField, TextTable};
pub use service_descriptor::{InputParameter, ServiceDescriptor};
