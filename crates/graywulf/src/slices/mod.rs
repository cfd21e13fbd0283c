//! Rows become slices of a table, and slices are compared with what the table says of them. It never answers a query.

mod check;
mod load;
mod slice_writer;
mod source;

pub(crate) use check::check;
pub(crate) use load::{LoadSettings, load};
pub(crate) use slice_writer::Uncommitted;
pub(crate) use source::SourceFile;
