//! Where records begin, in the formats that say it themselves: an index beside a file, the footer of a Parquet file.
//! Drivers cut streams by them (path *job*, row 3; `docs/records.md`). Both parse bytes that any user may have
//! written. They never read a file, and never the bytes of a record.

pub mod parquet_footer;
pub mod record_index;
