//! A cloud as Python holds it: a session with its master, and the calls about names and whole files (paths *upload*,
//! *download*). `sector.Cloud` and `sector.aio.Cloud` build on it. A session is valid in the process that
//! logged in. In a child made by `fork`, the next call logs in anew with the same profile. A child never uses what
//! its parent opened.

use std::{
    future::Future,
    path::PathBuf,
    process,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use client::{
    Client, Condition, GetOptions, LeaseWait, Profile, PutOptions, RecordFraming, SectorPath,
    job::{IndexedRecords, PythonEnvironment},
    tree::{
        self, DownloadPlan, ExistingFiles, FailedFile, LocalLinks, PathFilter, SyncAction, SyncFolder, SyncOptions,
        SyncPlan, TransferredFile, TreeObserver, TreeOutcome, UploadPlan,
    },
};
use pyo3::{Bound, PyAny, PyResult, Python, exceptions::PyValueError, pyclass, pyfunction, pymethods};
use tokio::{sync::OnceCell, task::spawn_blocking};

use crate::{
    entry::Entry,
    failure::Failure,
    job::{self, Job, JobRequest},
    job_status::JobStatus,
    reader::Reader,
    runtime::{CallResult, carry_out},
    writer::Writer,
};

/// A cloud that one is logged in to.
#[pyclass(frozen, module = "sector._native")]
pub(crate) struct Session {
    profile: Profile,
    login: Mutex<Login>,
    is_closed: AtomicBool,
}

/// The client of one process.
struct Login {
    process: u32,
    client: Arc<OnceCell<Client>>,
}

/// Logs in to the cloud of a profile, which is given by its name or its file; else to that in use.
#[pyfunction]
pub(crate) fn connect(py: Python<'_>, profile: Option<PathBuf>, awaited: bool) -> PyResult<Bound<'_, PyAny>> {
    let connecting = async move {
        let file = match profile {
            Some(chosen) => Profile::chosen_file(&chosen)?,
            None => Profile::default_file()?,
        };
        let profile = Profile::load(&file)?;
        let client = Client::connect(&profile).await?;
        let login = Login { process: process::id(), client: Arc::new(OnceCell::new_with(Some(client))) };
        Ok(Session { profile, login: Mutex::new(login), is_closed: AtomicBool::new(false) })
    };
    carry_out(py, awaited, connecting)
}

#[pymethods]
impl Session {
    /// Who is logged in, and where.
    #[getter]
    fn user(&self) -> String {
        self.profile.user.to_string()
    }

    #[getter]
    fn address(&self) -> String {
        self.profile.address.to_string()
    }

    fn entries<'py>(&self, py: Python<'py>, path: &str, recursive: bool, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        self.call(py, awaited, async move |cloud| {
            let entries = match recursive {
                true => cloud.list_recursive(&path).await?,
                false => cloud.list(&path).await?,
            };
            Ok(entries.into_iter().map(Entry::from).collect::<Vec<_>>())
        })
    }

    fn stat<'py>(&self, py: Python<'py>, path: &str, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        self.call(py, awaited, async move |cloud| Ok(Entry::from(cloud.stat(&path).await?)))
    }

    /// What is there, or `None`.
    fn find<'py>(&self, py: Python<'py>, path: &str, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        self.call(py, awaited, async move |cloud| Ok(cloud.find(&path).await?.map(Entry::from)))
    }

    /// Paths that a glob names; none where nothing matches.
    fn glob<'py>(&self, py: Python<'py>, pattern: String, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, awaited, async move |cloud| match cloud.matching(&pattern).await {
            Ok(paths) => Ok(paths.iter().map(ToString::to_string).collect::<Vec<_>>()),
            Err(error) if error.status() == client::Status::NotFound => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        })
    }

    fn make_folder<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        parents: bool,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        self.call(py, awaited, async move |cloud| Ok(cloud.make_folder(&path, parents).await?))
    }

    fn remove<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        recursive: bool,
        now: bool,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        self.call(py, awaited, async move |cloud| match now {
            true => Ok(cloud.remove_now(&path, recursive).await?),
            false => Ok(cloud.remove(&path, recursive).await?),
        })
    }

    fn rename<'py>(&self, py: Python<'py>, from: &str, to: &str, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let (from, to) = (parse(from)?, parse(to)?);
        self.call(py, awaited, async move |cloud| Ok(cloud.rename(&from, &to).await?))
    }

    /// From node to node; missing folders are made.
    fn copy<'py>(
        &self,
        py: Python<'py>,
        from: &str,
        to: &str,
        wait: Option<f64>,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (from, to) = (parse(from)?, parse(to)?);
        let options = PutOptions { parents: true, ..PutOptions::default() };
        self.call_waiting(py, awaited, wait, async move |cloud| {
            Ok(Entry::from(cloud.copy(&from, &to, &options, &|_| ()).await?))
        })
    }

    /// Uploads a local file or, with `recursive`, what a folder holds. Gives the files in the cloud, and the local paths
    /// that were left out because they are no ordinary files.
    #[pyo3(signature = (local, path, *, recursive, follow, records, copies, wait, awaited))]
    #[allow(clippy::too_many_arguments, reason = "each is one of Python's keyword arguments")]
    fn upload<'py>(
        &self,
        py: Python<'py>,
        local: PathBuf,
        path: &str,
        recursive: bool,
        follow: bool,
        records: Option<&str>,
        copies: Option<u8>,
        wait: Option<f64>,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        let options = put_options(records, copies, false)?;
        let links = if follow { LocalLinks::Follow } else { LocalLinks::LeaveOut };
        self.call_waiting(py, awaited, wait, async move |cloud| {
            // The folders are read by a thread that may wait for the disk.
            let planning = spawn_blocking(move || UploadPlan::exactly(&local, &path, recursive, links)).await;
            let plan = planning.map_err(|_| Failure::Closed("the process is ending".into()))??;
            let left_out = plan.left_out().to_vec();
            let outcome = tree::upload(&cloud, plan, &options, &unobserved()).await;
            let entries = files_of(outcome)?.into_iter().map(|file| Entry::from(file.entry));
            Ok((entries.collect::<Vec<_>>(), left_out))
        })
    }

    /// Downloads a file or, with `recursive`, the files of a folder: the local files.
    fn download<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        local: PathBuf,
        recursive: bool,
        overwrite: bool,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        let existing = if overwrite { ExistingFiles::Replace } else { ExistingFiles::Keep };
        self.call(py, awaited, async move |cloud| {
            let plan = DownloadPlan::exactly(&cloud, &path, &local, recursive).await?;
            let outcome = tree::download(&cloud, plan, existing, &unobserved()).await;
            Ok(files_of(outcome)?.into_iter().map(|file| file.to).collect::<Vec<_>>())
        })
    }

    /// Makes a folder equal to another, or with `dry_run` only compares them. Gives each action with its path and bytes,
    /// and the local paths that were left out because they are no ordinary files. `other` is the cloud of the target, where
    /// that is not this one.
    #[pyo3(signature = (from_, to, *, other, delete, dry_run, include, exclude, checksum, force, awaited))]
    #[allow(clippy::too_many_arguments, reason = "each is one of Python's keyword arguments")]
    fn sync<'py>(
        &self,
        py: Python<'py>,
        from_: &str,
        to: &str,
        other: Option<Bound<'py, Session>>,
        delete: bool,
        dry_run: bool,
        include: Vec<String>,
        exclude: Vec<String>,
        checksum: bool,
        force: bool,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wrong = |error: client::ClientError| PyValueError::new_err(error.to_string());
        let filter = PathFilter::new(&include, &exclude).map_err(wrong)?;
        let options = SyncOptions { filter, delete, checksum, force };
        let (from, to) = sync_folders(from_, to, other.is_some())?;
        let other = other.map(|other| other.get().open_client(py)).transpose()?;
        self.call(py, awaited, async move |cloud| {
            let here = match other {
                Some(other) => other.await?,
                None => cloud.clone(),
            };
            let plan = SyncPlan::new((&cloud, &here), &from, &to, &options).await?;
            let left_out = [plan.left_out(), plan.kept()].concat();
            let actions = if dry_run {
                all_well(plan.refused())?;
                plan.compared_actions().await
            } else {
                let outcome = tree::sync((&cloud, &here), plan, &unobserved()).await?;
                files_of(outcome.transfers)?;
                outcome.actions
            };
            let row = |action: SyncAction| (action.kind.as_str(), action.path, action.bytes);
            Ok((actions.into_iter().map(row).collect::<Vec<_>>(), left_out))
        })
    }

    /// Uploads a local file, whatever is there.
    #[pyo3(signature = (local, path, *, records, copies, only_new, wait, awaited))]
    #[allow(clippy::too_many_arguments, reason = "each is one of Python's keyword arguments")]
    fn put<'py>(
        &self,
        py: Python<'py>,
        local: PathBuf,
        path: &str,
        records: Option<&str>,
        copies: Option<u8>,
        only_new: bool,
        wait: Option<f64>,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        let options = put_options(records, copies, only_new)?;
        self.call_waiting(py, awaited, wait, async move |cloud| {
            Ok(Entry::from(cloud.put_file(&local, &path, &options, &|_| ()).await?))
        })
    }

    /// Downloads to a local file, which appears whole.
    fn get<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        local: PathBuf,
        overwrite: bool,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        let options = GetOptions { overwrite, ..GetOptions::default() };
        self.call(py, awaited, async move |cloud| {
            Ok(Entry::from(cloud.get_file(&path, &local, options, &|_| ()).await?))
        })
    }

    /// Opens a file for reading: the version that is there now.
    fn open_reader<'py>(&self, py: Python<'py>, path: &str, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        self.call(py, awaited, async move |cloud| Ok(Reader::new(cloud.open(&path).await?)))
    }

    /// Begins a file, whose bytes are published by `finish`. What is in the way already is said now.
    #[pyo3(signature = (path, *, records, copies, only_new, append, wait, awaited))]
    #[allow(clippy::too_many_arguments, reason = "each is one of Python's keyword arguments")]
    fn open_writer<'py>(
        &self,
        py: Python<'py>,
        path: &str,
        records: Option<&str>,
        copies: Option<u8>,
        only_new: bool,
        append: bool,
        wait: Option<f64>,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let path = parse(path)?;
        let options = put_options(records, copies, only_new)?;
        self.call_waiting(py, awaited, wait, async move |cloud| {
            Ok(Writer::new(cloud.open_writer(&path, options, append).await?))
        })
    }

    /// The state of every node: id, site, rack, state, bytes used and free.
    fn nodes<'py>(&self, py: Python<'py>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, awaited, async move |cloud| {
            let row = |node: client::NodeStatus| {
                let state = format!("{:?}", node.state).to_lowercase();
                (node.node.to_string(), node.place.site, node.place.rack, state, node.used_bytes, node.free_bytes)
            };
            Ok(cloud.nodes().await?.into_iter().map(row).collect::<Vec<_>>())
        })
    }

    /// A job of these stages over what the patterns of each stream name, which writes to the folder `output`.
    #[pyo3(signature = (title, streams, stages, output, *, records, segment_bytes, max_errors, copies, environment))]
    #[allow(clippy::too_many_arguments, reason = "each is one of Python's keyword arguments")]
    fn job(
        slf: Bound<'_, Self>,
        title: String,
        streams: Vec<Vec<String>>,
        stages: Vec<job::StageArguments>,
        output: &str,
        records: Option<&str>,
        segment_bytes: Option<(u64, u64)>,
        max_errors: u32,
        copies: Option<u8>,
        environment: Option<(String, PathBuf)>,
    ) -> PyResult<Job> {
        let environment = environment.map(|(requirements, wheels)| PythonEnvironment::read(requirements, &wheels));
        let stages = stages.into_iter().map(|words| job::stage(slf.py(), words)).collect::<PyResult<_>>()?;
        let plan = JobRequest {
            title,
            streams,
            stages,
            output: parse(output)?,
            records: records.map(format_of).transpose()?,
            segment_bytes,
            errors_max: max_errors,
            copies,
            environment: environment.transpose().map_err(Failure::from)?,
        };
        Ok(Job::new(slf.unbind(), plan))
    }

    /// Makes the index of each file that the patterns name; the indexes' paths.
    fn index<'py>(
        &self,
        py: Python<'py>,
        patterns: Vec<String>,
        records: &str,
        begins: Option<String>,
        awaited: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let records = match (begins, format_of(records)?) {
            (Some(text), _) => IndexedRecords::Begins(text),
            (None, RecordFraming::Fixed(bytes)) => IndexedRecords::Fixed(bytes),
            (None, RecordFraming::Lines) => IndexedRecords::Lines,
            (None, other) => {
                let why = format!("`{other}` records need no index: give `lines`, `fixed:N`, or how a record `begins`");
                return Err(PyValueError::new_err(why));
            }
        };
        self.call(py, awaited, async move |cloud| {
            let mut files = Vec::new();
            for pattern in &patterns {
                files.extend(cloud.expand(pattern).await?);
            }
            let made = Box::pin(cloud.index(&files, &records, |_| ())).await?;
            Ok(made.iter().map(ToString::to_string).collect::<Vec<_>>())
        })
    }

    /// All jobs that the master knows of, newest first.
    fn jobs<'py>(&self, py: Python<'py>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, awaited, async move |cloud| {
            Ok(cloud.jobs().await?.into_iter().map(JobStatus::from).collect::<Vec<_>>())
        })
    }

    /// Ends the session. What is still open cannot be used any more.
    fn close<'py>(&self, py: Python<'py>, awaited: bool) -> PyResult<Bound<'py, PyAny>> {
        let login = self.login(py);
        let was_closed = self.is_closed.swap(true, Ordering::Relaxed);
        carry_out(py, awaited, async move {
            // A parent's session is not ended, and without a login there is nothing to end.
            if let (false, Some(client)) = (was_closed, login.get()) {
                client.logout().await;
            }
            Ok(())
        })
    }

    fn __repr__(&self) -> String {
        format!("Session({} at {})", self.profile.user, self.profile.address)
    }
}

impl Session {
    /// A call to the client, logged in.
    pub(crate) fn call<'py, T: CallResult, F>(
        &self,
        py: Python<'py>,
        awaited: bool,
        ask: impl FnOnce(Client) -> F + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let client = self.open_client(py)?;
        carry_out(py, awaited, async move { ask(client.await?).await })
    }

    /// A call that waits so many seconds at most where someone else writes a file; `None`: not at all.
    fn call_waiting<'py, T: CallResult, F>(
        &self,
        py: Python<'py>,
        awaited: bool,
        wait: Option<f64>,
        ask: impl FnOnce(Client) -> F + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let Some(seconds) = wait else { return self.call(py, awaited, ask) };
        // What no duration can hold is without end.
        let longest = Duration::try_from_secs_f64(seconds).ok();
        // A program that waits asked for it, and need not be told.
        let wait = LeaseWait { longest, told: Arc::new(|_| ()) };
        self.call(py, awaited, move |cloud| ask(cloud.waiting(wait)))
    }

    /// This process's client, unless the cloud was closed.
    fn open_client(
        &self,
        py: Python<'_>,
    ) -> PyResult<impl Future<Output = Result<Client, Failure>> + Send + 'static + use<>> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(PyValueError::new_err("this cloud was closed; connect to it again with `sector.connect()`"));
        }
        Ok(self.client(py))
    }

    /// This process's client, logged in.
    pub(crate) fn client(
        &self,
        py: Python<'_>,
    ) -> impl Future<Output = Result<Client, Failure>> + Send + 'static + use<> {
        let (login, profile) = (self.login(py), self.profile.clone());
        async move { Ok(login.get_or_try_init(|| Client::connect(&profile)).await?.clone()) }
    }

    /// This process's login. The lock is held for a moment only, and while the caller holds the interpreter: see
    /// `runtime.rs`.
    fn login(&self, _: Python<'_>) -> Arc<OnceCell<Client>> {
        let mut login = self.login.lock().unwrap_or_else(PoisonError::into_inner);
        if login.process != process::id() {
            let parents = std::mem::replace(&mut login.client, Arc::new(OnceCell::new()));
            // Its tasks and sockets are the parent's: nothing of it is ended here.
            std::mem::forget(parents);
            login.process = process::id();
        }
        Arc::clone(&login.client)
    }
}

/// Source and target of `Cloud.sync`; between two clouds, both are folders of a cloud.
fn sync_folders(from: &str, to: &str, is_between_two: bool) -> PyResult<(SyncFolder, SyncFolder)> {
    let parse = |text: &str| match SyncFolder::parse(text) {
        Ok((None, SyncFolder::Local(_))) if is_between_two => {
            Err(format!("`{text}` lies in no cloud: with `to`, source and target are written `sector://PATH`"))
        }
        Ok((None, folder)) => Ok(folder),
        Ok((Some(name), _)) => Err(format!(
            "`{text}` names the cloud `{name}`: write `sector://PATH`, and give the cloud of the target as `to`"
        )),
        Err(error) => Err(error.to_string()),
    };
    Ok((parse(from).map_err(PyValueError::new_err)?, parse(to).map_err(PyValueError::new_err)?))
}

/// The files of a transfer, or all that failed.
fn files_of(outcome: TreeOutcome) -> Result<Vec<TransferredFile>, Failure> {
    all_well(outcome.failures)?;
    Ok(outcome.files)
}

/// Fails with all that failed, if something did.
fn all_well(failures: Vec<FailedFile>) -> Result<(), Failure> {
    let mut failures = failures.into_iter();
    match failures.next() {
        None => Ok(()),
        Some(first) => {
            let others = failures.map(|failed| format!("`{}`: {}", failed.from.display(), failed.error)).collect();
            Err(Failure::Several { first: first.error, others })
        }
    }
}

/// Python asks for no progress of files.
fn unobserved() -> TreeObserver {
    Arc::new(|_| ())
}

/// Parses a path given by Python.
pub(crate) fn parse(path: &str) -> PyResult<SectorPath> {
    SectorPath::parse(path).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Parses a record format given by Python.
pub(crate) fn format_of(text: &str) -> PyResult<RecordFraming> {
    text.parse::<RecordFraming>().map_err(|error| PyValueError::new_err(error.to_string()))
}

/// How a file is to be written. Missing folders are created, as everywhere in a cloud where a folder is only a name.
fn put_options(records: Option<&str>, copies: Option<u8>, only_new: bool) -> PyResult<PutOptions> {
    let records = match records {
        Some(text) => format_of(text)?,
        None => RecordFraming::default(),
    };
    let condition = if only_new { Condition::Absent } else { Condition::Any };
    Ok(PutOptions { copies, records, condition, parents: true, ..PutOptions::default() })
}
