//! Rows as people and programs want them: a table to look at, CSV, JSON, Parquet, Arrow, VOTable. All but the first are written
//! while rows come. It never holds a whole result.

mod result_format;
mod result_writer;
mod text_table;
mod votable_rows;

pub(crate) use result_format::ResultFormat;
pub(crate) use result_writer::{OutputFile, ResultWriter, SharedBytes};
pub(crate) use text_table::TextRows;
pub(crate) use votable_rows::column_of;
