//! Files that are being written: leases, targets, progress and the end of each write. A write is never visible before
//! its lease is completed.

pub(crate) mod lease_table;
pub(crate) mod partial_uploads;
