//! What the master does about jobs: requests, drivers and histories. It never runs a part of one.

pub(crate) mod driver_watch;
pub(crate) mod history_requests;
pub(crate) mod job_requests;
