//! Requests about jobs: admission, reports, drivers and histories. Each is one paragraph: what it is, its reply, its
//! properties. This file never handles one.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by, request_family};
use crate::{
    JobId, SectorPath, UserName,
    message::{
        audit::AuditKind,
        client_reply::{Admitted, ClientReply, DriverKey, JobRecord, JobState},
        history::{JobHistory, JobLogs},
    },
};

request_family! {
    /// A client's report or question about the attempts of a job.
    HistoryRequest {
        Submit(SubmitHistoryRequest),
        Get(GetHistoryRequest),
        AddLogs(AddLogsRequest),
        GetLogs(GetLogsRequest),
    }
}

/// Admit a job; its SPEs may then be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmitJobRequest {
    /// One line for people: functions and input.
    pub title: String,
    /// Where its output will be. Refused where the user may not write there.
    pub output: Option<SectorPath>,
}

impl TypedRequest for AdmitJobRequest {
    answered_by!(Admitted, ClientReply::Admitted(admitted) => admitted);

    fn properties(&self) -> Properties<'_> {
        Properties::new("admit job", Need::Login)
            .and_needs(self.output.as_ref().map(Need::Make))
            .refused_as("admit job", &self.title)
    }
}

/// Report a job's progress to the master, which keeps it admitted: fresh tickets. Refused once it was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportJobRequest(pub JobRecord);

impl TypedRequest for ReportJobRequest {
    answered_by!(Admitted, ClientReply::Admitted(admitted) => admitted);

    fn properties(&self) -> Properties<'_> {
        Properties::new("report job", Need::Holder)
            .urgent()
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("report job", self.0.job)
    }
}

/// All jobs known, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobsRequest;

impl TypedRequest for JobsRequest {
    answered_by!(Vec<JobRecord>, ClientReply::Jobs(jobs) => jobs);

    fn properties(&self) -> Properties<'_> {
        Properties::new("jobs", Need::Login).repeatable().during_rebuild().refused_as("look at jobs", "")
    }
}

/// The jobs of a user, or those in a state, or both; newest first, as many as a message holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindJobsRequest {
    /// Whose; of all users if `None`.
    pub user: Option<UserName>,
    /// In which state; in any if `None`.
    pub state: Option<JobState>,
}

impl TypedRequest for FindJobsRequest {
    answered_by!(Vec<JobRecord>, ClientReply::Jobs(jobs) => jobs);

    fn properties(&self) -> Properties<'_> {
        Properties::new("find jobs", Need::Login).repeatable().during_rebuild().refused_as("look at jobs", "")
    }
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRequest(pub JobId);

impl TypedRequest for JobRequest {
    type Reply = JobRecord;

    fn reply(answer: ClientReply) -> Option<JobRecord> {
        match answer {
            ClientReply::Jobs(mut jobs) if jobs.len() == 1 => jobs.pop(),
            _ => None,
        }
    }

    fn properties(&self) -> Properties<'_> {
        Properties::new("job", Need::Login).repeatable().during_rebuild().refused_as("look at jobs", "")
    }
}

/// Ask a job's driver to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelJobRequest(pub JobId);

impl TypedRequest for CancelJobRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("cancel job", Need::Holder).once().during_rebuild().noted(AuditKind::Job, "cancel job", self.0)
    }
}

/// Let a node drive an admitted job, and another node where that one is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachJobRequest {
    /// The job.
    pub job: JobId,
    /// The folder of its journal, with which every driver begins.
    pub journal: SectorPath,
    /// The proofs of its possible drivers, in order; random, [`DRIVERS_MAX`](crate::limits::DRIVERS_MAX) at most.
    /// Each is used once, so that the previous driver can no longer report anything.
    pub keys: Vec<DriverKey>,
}

impl TypedRequest for DetachJobRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("detach job", Need::Holder).refused_as("detach job", self.job)
    }
}

/// The outcome of a job's attempts, reported once, when the job ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitHistoryRequest {
    /// The job, which must be the reporter's own.
    pub job: JobId,
    /// Its history.
    pub history: JobHistory,
}

impl TypedRequest for SubmitHistoryRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("submit history", Need::Holder)
            .repeatable()
            .during_rebuild()
            .refused_as("tell of a job's segments, or look at them", "")
    }
}

/// The history of a job of one's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHistoryRequest(pub JobId);

impl TypedRequest for GetHistoryRequest {
    answered_by!(JobHistory, ClientReply::History(history) => history);

    fn properties(&self) -> Properties<'_> {
        Properties::new("history", Need::Holder)
            .repeatable()
            .during_rebuild()
            .refused_as("tell of a job's segments, or look at them", "")
    }
}

/// More of what the functions of a running job printed. What is known of the same attempts already is not added again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddLogsRequest {
    /// The job, which must be the reporter's own.
    pub job: JobId,
    /// What is new. `left_out` counts from the beginning of its driver.
    pub logs: JobLogs,
}

impl TypedRequest for AddLogsRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("add logs", Need::Holder)
            .repeatable()
            .during_rebuild()
            .refused_as("tell what a job's functions printed, or look at it", "")
    }
}

/// What the functions of a job of one's own have printed, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetLogsRequest(pub JobId);

impl TypedRequest for GetLogsRequest {
    answered_by!(JobLogs, ClientReply::Logs(logs) => logs);

    fn properties(&self) -> Properties<'_> {
        Properties::new("logs", Need::Holder)
            .repeatable()
            .during_rebuild()
            .refused_as("tell what a job's functions printed, or look at it", "")
    }
}
