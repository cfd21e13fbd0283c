//! Rows become slices of a table, and slices are compared with what the table says of them. It never answers a query.

mod check;
mod fits_rows;
mod load;
mod slice_writer;
mod source;

pub(crate) use check::check;
pub(crate) use fits_rows::{fits_of_rows, rows_of_fits};
pub(crate) use load::{LoadSettings, load};
pub(crate) use slice_writer::Uncommitted;
pub(crate) use source::{SourceFile, votable_rows};
