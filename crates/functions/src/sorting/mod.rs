//! Functions over fixed records by the bytes of a key: sampling, cuts, partition, sort. They never interpret a key.

pub mod cuts;
pub mod key;
pub(crate) mod partition;
pub(crate) mod sample;
pub(crate) mod sort;
