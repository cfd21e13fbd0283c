//! Rows as people and programs want them: a table to look at, CSV, JSON, Parquet, Arrow. All but the first are written
//! while rows come. It never holds a whole result.

mod result_format;
mod result_writer;
mod text_table;

pub(crate) use result_format::ResultFormat;
pub(crate) use result_writer::{OutputFile, ResultWriter};
pub(crate) use text_table::TextRows;
