//! How much the service takes and gives. It never counts what there is.

use std::time::Duration;

use vo::uws::JobsLimits;

/// Where the service is.
pub(super) const BASE: &str = "/tap";
pub(super) const LIMITS: JobsLimits = JobsLimits {
    running: 2,
    kept: 100_000,
    parameter_bytes: 256 << 20,
    active_of_owner: 100,
    life: (Duration::from_secs(7 * 86_400), Duration::from_secs(30 * 86_400)),
    execution: (Duration::from_secs(3_600), Duration::from_secs(86_400)),
};
/// Tables that come with a request have at most so many bytes.
pub(super) const UPLOAD_BYTES_MAX: usize = 64 << 20;
/// How long a query at once may run: whoever wants more sends a job (GrayWulf, CasJobs).
pub(super) const SYNC_LIMIT: Duration = Duration::from_secs(60);
