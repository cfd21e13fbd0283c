//! Tables as the Virtual Observatory exchanges them (VOTable 1.4), with descriptors of services that take their rows
//! (DataLink 1.1, 4). It never reads one.

mod document;
mod service_descriptor;

pub use document::{Cell, Datatype, Field, QueryStatus, Table};
pub use service_descriptor::{InputParameter, ServiceDescriptor};
