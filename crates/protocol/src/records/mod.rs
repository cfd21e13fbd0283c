//! Where the records of a file begin, as indexes and Parquet footers say it. It never reads a file.

pub mod parquet_footer;
pub mod record_index;
