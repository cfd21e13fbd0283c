//! Jobs as the master sees them: admission, reports, drivers and histories. The master never runs a part of one.

pub(crate) mod drivers;
pub(crate) mod job_histories;
pub(crate) mod job_logs;
pub(crate) mod job_table;

use job_histories::JobHistories;
use job_logs::KeptLogs;
use job_table::JobTable;

/// Jobs, how their attempts ended, and what their functions printed.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) table: JobTable,
    pub(crate) histories: JobHistories,
    pub(crate) logs: KeptLogs,
}
