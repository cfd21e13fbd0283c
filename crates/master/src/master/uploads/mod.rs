//! What the master does about files that are being written, from the request to the publication. It never sends a byte.

pub(crate) mod lease_completion;
pub(crate) mod upload_targets;
pub(crate) mod write_progress;
pub(crate) mod write_requests;
