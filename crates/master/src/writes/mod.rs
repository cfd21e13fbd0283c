//! Files that are being written: leases, targets, progress and the end of each write. A write is never visible before
//! its lease is completed.

pub(crate) mod lease_table;
pub(crate) mod partial_uploads;

use lease_table::Leases;
use partial_uploads::PartialUploads;

/// Files that are being written.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    pub(crate) leases: Leases,
    pub(crate) partial_uploads: PartialUploads,
}
