//! A job as it is kept. It never runs.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Fault, Timestamp};

/// Where a job is in its life (UWS 1.1, 2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Phase {
    /// It waits to be started.
    Pending,
    /// It waits for its turn.
    Queued,
    /// It runs.
    Executing,
    /// It is done.
    Completed,
    /// It failed.
    Error,
    /// Its owner ended it.
    Aborted,
}

impl Phase {
    /// Whether it may still change by itself.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Pending | Self::Queued | Self::Executing)
    }

    /// Whether it waits or runs.
    pub fn is_started(self) -> bool {
        matches!(self, Self::Queued | Self::Executing)
    }

    const ALL: [(Self, &'static str); 6] = [
        (Self::Pending, "PENDING"),
        (Self::Queued, "QUEUED"),
        (Self::Executing, "EXECUTING"),
        (Self::Completed, "COMPLETED"),
        (Self::Error, "ERROR"),
        (Self::Aborted, "ABORTED"),
    ];
    /// Phases that the standard has and our jobs are never in.
    const NEVER: [&'static str; 4] = ["HELD", "SUSPENDED", "UNKNOWN", "ARCHIVED"];

    /// A phase by its name; `None` for one in which no job of ours is ever.
    pub(super) fn named(text: &str) -> Result<Option<Self>, Fault> {
        match text.parse() {
            Ok(phase) => Ok(Some(phase)),
            Err(_) if Self::NEVER.contains(&text) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = Self::ALL.into_iter().find(|(phase, _)| phase == self).unwrap_or(Self::ALL[0]);
        f.write_str(name)
    }
}

impl FromStr for Phase {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let known = Self::ALL.into_iter().find(|(_, name)| *name == text).map(|(phase, _)| phase);
        known.ok_or_else(|| Fault::Usage(format!("`{text}` is no phase")))
    }
}

/// A result of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// Its name within the job.
    pub id: String,
    /// Its media type.
    pub media_type: String,
    /// Its length.
    pub bytes: u64,
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFault {
    /// The sentence.
    pub message: String,
    /// Whether the same job may succeed later.
    pub is_transient: bool,
}

/// A job as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UwsJob {
    /// Its name, which nobody can guess.
    pub id: String,
    /// Whose it is; `None` for a visitor's, which belongs to whoever knows its name.
    pub owner: Option<String>,
    /// Where it is in its life.
    pub phase: Phase,
    /// What its owner calls it.
    pub run_id: Option<String>,
    /// What it was asked.
    pub parameters: Vec<(String, String)>,
    /// When it was made.
    pub created: Timestamp,
    /// When it began to run.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// When it is removed with its results.
    pub destruction: Timestamp,
    /// How long it may run, in seconds; 0 without limit.
    pub execution_seconds: u64,
    /// What it has made so far.
    pub results: Vec<JobResult>,
    /// Why it failed.
    pub fault: Option<JobFault>,
}
