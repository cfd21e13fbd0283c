//! Jobs as the master sees them: admission, reports, drivers and histories. The master never runs a part of one.

pub(crate) mod drivers;
pub(crate) mod job_histories;
pub(crate) mod job_table;

use job_histories::JobHistories;
use job_table::JobTable;

/// Jobs, and how their attempts ended.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) table: JobTable,
    pub(crate) histories: JobHistories,
}
