//! The cloud as the engine's object store: it reads, and nothing else. Every byte comes through `client`, which has
//! verified it. It never writes, and never knows what a table is.

mod cloud_store;
mod location;
mod read_counts;

pub(crate) use cloud_store::{CloudStore, store_url};
pub(crate) use location::{file_at, location_of, path_of};
pub(crate) use read_counts::{ReadCounts, SliceReads, level_words};
