//! The SPEs of this node: the program they are, their sandbox, and how many there may be. Serves the path *job*. It never
//! starts one.

use std::sync::Arc;

use spe::{Sandbox, SpeProgram};
use tokio::sync::Semaphore;

use super::{driver_process::DriverProgram, environments::Environments, fair_scheduler::FairScheduler};
use crate::node_context::gauge::Gauge;

/// What tasks need to run functions.
pub(crate) struct Spes {
    pub(crate) program: SpeProgram,
    /// How drivers of detached jobs are started.
    pub(crate) drivers: DriverProgram,
    /// How SPEs are confined, and which layers are missing here.
    pub(crate) sandbox: Arc<Sandbox>,
    /// SPEs at work at once (`spe_slots` of the settings).
    pub(crate) slots: Arc<FairScheduler>,
    pub(crate) running: Gauge,
    /// The Python environments of jobs.
    pub(crate) environments: Arc<Environments>,
    /// SPE processes, at work or waiting for their driver.
    pub(crate) processes: Arc<Semaphore>,
}
