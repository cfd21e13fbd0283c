//! What all requests of the service share: where it is, and what runs queries. It never answers one.

use std::sync::Arc;

use dali::ServiceAddress;
use tokio::sync::Semaphore;
use vo::{Timestamp, uws::Jobs};

use super::{jobs::Querying, running::Queries};

/// What all requests share.
pub(super) struct TapService {
    pub(super) address: ServiceAddress,
    pub(super) started: Timestamp,
    pub(super) queries: Arc<Queries>,
    pub(super) jobs: Jobs<Querying>,
    /// Queries at once that run.
    pub(super) turns: Arc<Semaphore>,
}
