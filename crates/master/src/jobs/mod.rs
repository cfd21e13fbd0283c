//! Jobs as the master sees them: admission, reports, drivers and histories. The master never runs a part of one.

pub(crate) mod drivers;
pub(crate) mod job_histories;
pub(crate) mod job_table;
