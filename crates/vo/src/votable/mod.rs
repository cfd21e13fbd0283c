//! Tables as the Virtual Observatory exchanges them (VOTable 1.4), with descriptors of services that take their rows
//! (DataLink 1.1, 4). It never follows a link in one.

mod binary_rows;
mod column;
mod document;
mod reader;
mod rows_writer;
mod service_descriptor;

pub use column::{Column, ColumnKind, Value};
pub use document::{Cell, Datatype, Field, QueryStatus, Table};
pub use reader::{TextField, TextTable};
pub use rows_writer::{Ending, RowsWriter, Serialisation};
pub use service_descriptor::{InputParameter, ServiceDescriptor};
