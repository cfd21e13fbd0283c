//! Sphere jobs from Python (path *job*): this process drives, as the command line does. `Stream.to(…)` builds on it.
//! The driver runs on the thread that waits for it, which between two checks for signals reports the progress to
//! Python. Ctrl-C, or an error of the progress callback, cancels the job and waits until it has cleaned up.
//! Scheduling is never decided here; the client library decides it.

use std::{
    future::Future,
    path::PathBuf,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use client::{
    Client, RecordFraming, SectorPath, Status,
    job::{
        FunctionCode, FunctionSpec, JobId, JobOutcome, JobOutput, JobProgress, JobSpec, PythonCode, PythonEnvironment,
        PythonFunction, SideFileName, SideFileSpec, StageSpec, give_modules, read_modules,
    },
};
use pyo3::{
    Bound, Py, PyAny, PyErr, PyResult, Python, exceptions::PyValueError, prelude::PyAnyMethods, pyclass, pymethods,
};

use crate::{
    failure::{Failure, JobError},
    job_status::JobStatus,
    runtime::{runtime, wait, wait_a_while},
    session::{Session, format_of, parse},
};

/// A stage in Python's terms: where its function comes from (`built-in`, `native` or `python`), its name, its bytes,
/// and what it needs. Then come its parameters, its buckets, how its results are split into records, its side files by
/// name, and the modules that go along.
pub(crate) type StageArguments = (
    String,
    String,
    Vec<u8>,
    Vec<(String, Option<String>)>,
    Vec<(String, String)>,
    Option<u32>,
    String,
    Vec<(String, String)>,
    Vec<PathBuf>,
);

/// What is to be run.
#[derive(Clone)]
pub(crate) struct JobRequest {
    pub(crate) title: String,
    /// For each input stream, its paths, folders and globs.
    pub(crate) streams: Vec<Vec<String>>,
    pub(crate) stages: Vec<StageSpec>,
    pub(crate) output: SectorPath,
    pub(crate) records: Option<RecordFraming>,
    pub(crate) segment_bytes: Option<(u64, u64)>,
    pub(crate) errors_max: u32,
    pub(crate) copies: Option<u8>,
    /// The Python packages that go along.
    pub(crate) environment: Option<PythonEnvironment>,
}

/// A job, from before it begins to after its end.
#[pyclass(frozen, module = "sector._native")]
pub(crate) struct Job {
    session: Py<Session>,
    plan: JobRequest,
    progress: Arc<Mutex<Option<JobProgress>>>,
    /// A node drives it.
    detached: OnceLock<JobId>,
    /// It was asked to stop from here.
    is_cancelled: AtomicBool,
}

#[pymethods]
impl Job {
    /// Its id; nothing before the master has admitted it.
    #[getter]
    fn id(&self) -> Option<String> {
        self.admitted().map(|job| job.to_string())
    }

    /// How far it is, as far as is known here; of a detached one, as the master knows.
    #[getter]
    fn status(&self, py: Python<'_>) -> PyResult<Option<JobStatus>> {
        let Some(job) = self.detached.get().copied() else {
            return Ok(lock(&self.progress).as_ref().map(|progress| progress.record.clone().into()));
        };
        let client = self.session.get().client(py);
        let record = wait(py, async move { client.await?.job(job).await.map_err(Failure::from) })??;
        Ok(Some(record.into()))
    }

    /// Leaves it to a node, and gives its id.
    fn detach(&self, py: Python<'_>) -> PyResult<String> {
        let (client, plan) = (self.session.get().client(py), self.plan.clone());
        let detaching = async move {
            let cloud = client.await?;
            let spec = spec(&cloud, plan).await?;
            cloud.detach_job(spec).await.map_err(Failure::from)
        };
        let job = wait(py, Box::pin(detaching))??;
        // A second detach fails, since the output of the first is in its way.
        let _ = self.detached.set(job);
        Ok(job.to_string())
    }

    /// Runs it to its end and gives the paths of its output, in the order of buckets. `told` is called now and then
    /// with the number of the stage, from 0, and its bytes done and in all.
    fn run(&self, py: Python<'_>, told: Option<Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
        let (client, plan, progress) = (self.session.get().client(py), self.plan.clone(), Arc::clone(&self.progress));
        let driving = async move {
            let cloud = client.await?;
            let spec = spec(&cloud, plan).await?;
            let note = |now: &JobProgress| *lock(&progress) = Some(now.clone());
            cloud.run_job(spec, note).await.map_err(Failure::from)
        };
        let outcome = self.drive(py, pin!(driving), told)?.map_err(|failure| self.error(py, failure))?;
        Ok(outcome.outputs.iter().map(|entry| entry.path.to_string()).collect())
    }

    /// Asks it to stop; whoever runs it is told by an error.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let Some(job) = self.admitted() else {
            return Err(PyValueError::new_err("the job has not begun; there is nothing to cancel"));
        };
        let client = self.session.get().client(py);
        wait(py, async move { client.await?.cancel_job(job).await.map_err(Failure::from) })??;
        self.is_cancelled.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Job {
    pub(crate) fn new(session: Py<Session>, plan: JobRequest) -> Self {
        let is_cancelled = AtomicBool::new(false);
        Self { session, plan, progress: Arc::default(), detached: OnceLock::new(), is_cancelled }
    }

    /// Waits for the end of the job.
    fn drive(
        &self,
        py: Python<'_>,
        mut driving: Pin<&mut (impl Future<Output = Result<JobOutcome, Failure>> + Send)>,
        told: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Result<JobOutcome, Failure>> {
        let _entered = runtime()?.enter();
        loop {
            if let Some(ended) = wait_a_while(py, driving.as_mut())? {
                // The end is progress too.
                self.tell(told.as_ref())?;
                return Ok(ended);
            }
            if let Err(error) = py.check_signals().and_then(|()| self.tell(told.as_ref())) {
                if self.admitted().is_some() && self.cancel(py).is_ok() {
                    // The job ends with an error of its own, after it has cleaned up. A second Ctrl-C does not wait
                    // for that.
                    wait(py, driving).map(drop)?;
                }
                return Err(error);
            }
        }
    }

    fn tell(&self, told: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let now = lock(&self.progress).as_ref().map(|now| (now.stage, now.bytes_done, now.bytes_total));
        match (told, now) {
            (Some(told), Some(now)) => told.call1(now).map(drop),
            _ => Ok(()),
        }
    }

    fn admitted(&self) -> Option<JobId> {
        self.detached.get().copied().or_else(|| lock(&self.progress).as_ref().map(|progress| progress.job))
    }

    /// The error of a failed job. An error that kept the job from running at all is converted as elsewhere.
    fn error(&self, py: Python<'_>, failure: Failure) -> PyErr {
        let is_cancelled = self.is_cancelled.load(Ordering::Relaxed);
        let status = lock(&self.progress).as_ref().map(|progress| progress.record.clone());
        match (failure, status) {
            (Failure::Client(error), Some(record)) if is_cancelled || error.status() == Status::Failed => {
                // After a cancellation, the driver may only have heard that the master no longer knows the job.
                let failed = match is_cancelled {
                    true => JobError::new_err(format!("the job {} was cancelled", record.job)),
                    false => JobError::new_err(error.to_string()),
                };
                let value = failed.value(py);
                // Fails only for an exception without a `__dict__`; this one has it.
                let noted = value.setattr("job_id", record.job.to_string());
                let _ = noted.and_then(|()| value.setattr("errors", record.errors));
                failed
            }
            (failure, _) => failure.into(),
        }
    }
}

/// A plan in the client's terms, with its inputs found.
async fn spec(cloud: &Client, plan: JobRequest) -> Result<JobSpec, Failure> {
    let mut streams = Vec::new();
    for patterns in &plan.streams {
        let mut entries = Vec::new();
        for pattern in patterns {
            entries.extend(cloud.expand(pattern).await?);
        }
        streams.push(entries);
    }
    let mut streams = streams.into_iter();
    let inputs = streams.next().unwrap_or_default();
    let mut spec = JobSpec {
        zipped_inputs: streams.collect(),
        records: plan.records,
        segment_bytes: plan.segment_bytes,
        errors_max: plan.errors_max,
        copies: plan.copies,
        ..JobSpec::new(plan.title, inputs, plan.stages, JobOutput::Folder(plan.output))
    };
    if let Some(environment) = plan.environment {
        environment.give_to(cloud, &mut spec).await?;
    }
    Ok(spec)
}

/// A stage in the client's terms.
pub(crate) fn stage(py: Python<'_>, words: StageArguments) -> PyResult<StageSpec> {
    let (kind, name, code, requires, parameters, buckets, records, side, modules) = words;
    let code = match &*kind {
        "built-in" => FunctionCode::BuiltIn(name),
        "native" => FunctionCode::Native { library: code, symbol: name },
        "python" => {
            let version = py.version_info();
            let code = PythonCode::Pickle { bytes: code, python: (version.major, version.minor) };
            FunctionCode::Python(PythonFunction { name, code, requires })
        }
        _ => return Err(PyValueError::new_err(format!("there is no kind of function `{kind}`"))),
    };
    let side = side.into_iter().map(|(name, path)| {
        let name = SideFileName::new(name).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(SideFileSpec { name, path: parse(&path)? })
    });
    let side = side.collect::<PyResult<_>>()?;
    let mut functions = [FunctionSpec { code, parameters }];
    let modules = read_modules(&modules).and_then(|modules| give_modules(&mut functions, &modules));
    modules.map_err(Failure::from)?;
    let [function] = functions;
    Ok(StageSpec { function, buckets, records: format_of(&records)?, side_files: side })
}

fn lock<T>(slot: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}
