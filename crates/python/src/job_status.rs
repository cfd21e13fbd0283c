//! A job as Python sees it from outside: what the master knows. Its fields are those of `sector job --json`. A status
//! never changes after it was made.

use std::collections::BTreeMap;

use client::{JobRecord, JobState, StageRecord};
use pyo3::{
    Bound, PyResult, Python,
    exceptions::PyValueError,
    pyclass, pymethods,
    types::{PyDateTime, PyTzInfo},
};

/// How far a job is, or how it ended.
#[pyclass(frozen, get_all, module = "sector")]
#[derive(Clone, Debug)]
pub(crate) struct JobStatus {
    id: String,
    state: &'static str,
    user: String,
    title: String,
    started_unix_millis: u64,
    stages: Vec<StageStatus>,
    errors: Vec<String>,
    error_slice: Option<String>,
    /// The node that drives it, where it was detached and runs.
    driver: Option<String>,
}

/// One stage of a job, in segments and bytes.
#[pyclass(frozen, get_all, eq, module = "sector")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StageStatus {
    segments: u64,
    done: u64,
    failed: u64,
    retried: u64,
    speculative: u64,
    local: u64,
    bytes_in: u64,
    bytes_out: u64,
    counters: BTreeMap<String, u64>,
}

#[pymethods]
impl JobStatus {
    /// When it was admitted, in UTC.
    #[getter]
    fn started<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDateTime>> {
        let utc = PyTzInfo::utc(py)?;
        PyDateTime::from_timestamp(py, self.started_unix_millis as f64 / 1000.0, Some(&utc))
    }

    fn __repr__(&self) -> String {
        format!("JobStatus({}, {}, {:?})", self.id, self.state, self.title)
    }
}

#[pymethods]
impl StageStatus {
    fn __repr__(&self) -> String {
        format!("StageStatus({} of {} segments)", self.done, self.segments)
    }
}

/// The state of this name.
pub(crate) fn parse_state(text: &str) -> PyResult<JobState> {
    text.parse().map_err(|why| PyValueError::new_err(format!("`{text}` is no state of a job: {why}")))
}

impl From<JobRecord> for JobStatus {
    fn from(record: JobRecord) -> Self {
        let state = record.state.as_str();
        // Stages that have not begun have none.
        let counters = record.counters.into_iter().map(BTreeMap::from).chain(std::iter::repeat(BTreeMap::new()));
        Self {
            id: record.job.to_string(),
            state,
            user: record.user.to_string(),
            title: record.title,
            started_unix_millis: record.started_unix_millis,
            stages: record.stages.into_iter().zip(counters).map(StageStatus::from).collect(),
            errors: record.errors,
            error_slice: record.error_slice.map(|path| path.to_string()),
            driver: record.driver.map(|node| node.to_string()),
        }
    }
}

impl From<(StageRecord, BTreeMap<String, u64>)> for StageStatus {
    fn from((stage, counters): (StageRecord, BTreeMap<String, u64>)) -> Self {
        Self {
            segments: stage.segments,
            done: stage.done,
            failed: stage.failed,
            retried: stage.retried,
            speculative: stage.speculative,
            local: stage.local,
            bytes_in: stage.bytes_in,
            bytes_out: stage.bytes_out,
            counters,
        }
    }
}
