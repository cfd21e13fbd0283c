//! What all tasks of a job share, and what they report to its driver. It never decides anything.

use protocol::{
    JobId, NodeId,
    message::{
        client_master::{Entry, JobRecord, JobState, StageRecord},
        spe::{AttemptId, BucketId, FunctionSpec, PrintedOutput},
    },
};
use sphere::{Event, OutputFolder};

use super::{JobSpec, node_connections::NodeConnections, printed_logs::PrintedBefore, side_files::PinnedFile};
use crate::Client;

/// What all tasks of a job share.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) job: JobId,
    pub(super) connections: NodeConnections,
    /// Each stage's function, with the files that it reads beside its segments.
    pub(super) functions: Vec<(FunctionSpec, Vec<PinnedFile>)>,
    pub(super) folder: Option<OutputFolder>,
    pub(super) copies: Option<u8>,
    pub(super) sync_copies: Option<u8>,
}

/// What the tasks report to the driver.
pub(super) enum DriverEvent {
    /// For the rules.
    Event(Event),
    /// A bucket has become a file.
    Published(BucketId, Box<Entry>),
    /// A bucket's bytes.
    Fetched(BucketId, Vec<u8>),
    /// What an attempt printed at a node.
    Printed(AttemptId, NodeId, PrintedBefore, PrintedOutput),
}

/// The record of a job of this client of which nothing is known yet.
pub(super) fn blank_record(client: &Client, job: JobId, spec: &JobSpec, state: JobState) -> JobRecord {
    JobRecord {
        job,
        user: client.user().clone(),
        title: spec.title.clone(),
        state,
        // The master knows when it admitted the job.
        started_unix_millis: 0,
        stages: vec![StageRecord::default(); spec.stages.len()],
        errors: Vec::new(),
        error_slice: None,
        counters: Vec::new(),
        driver: None,
    }
}
