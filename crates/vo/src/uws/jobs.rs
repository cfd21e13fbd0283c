//! The jobs of a service: made, started in turns, ended, and removed when their time has come. Each change is kept by the
//! service before anybody sees it. It never has more jobs than its limits say.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
};

use super::{JobFault, JobResult, Phase, UwsJob};
use crate::{DaliParameters, Fault, Timestamp};

/// What runs jobs and keeps them.
pub trait Service: Send + Sync + 'static {
    /// In whose name a job runs.
    type Caller: Clone + Send + Sync + 'static;

    /// Refuses what makes no sense before it becomes a job.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, parameters: &DaliParameters) -> Result<(), Fault>;

    /// Does a job. What an earlier life of it has made already is in the record's results, and is not made again.
    fn run(
        &self,
        caller: Self::Caller,
        job: UwsJob,
        results: ResultSink<Self>,
    ) -> impl Future<Output = Result<(), Fault>> + Send
    where
        Self: Sized;

    /// Keeps a job as it is now.
    fn save(&self, job: &UwsJob) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Removes a job and its results for good.
    fn remove(&self, id: &str) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub struct JobsLimits {
    /// Jobs that run at once.
    pub running: usize,
    /// Jobs that are kept.
    pub kept: usize,
    /// Bytes of what all of them were asked.
    pub parameter_bytes: usize,
    /// Jobs of one owner that wait or run; visitors count as one.
    pub active_of_owner: usize,
    /// How long a job is kept, at first and at most.
    pub life: (Duration, Duration),
    /// How long a job may run, at first and at most.
    pub execution: (Duration, Duration),
}

fn parameter_bytes(job: &UwsJob) -> usize {
    job.parameters.iter().map(|(name, value)| name.len() + value.len()).sum()
}

/// Whether an owner may ask so many bytes more: of the room for all, nobody has more than a part.
fn has_room(jobs: &BTreeMap<String, Arc<Kept>>, limits: &JobsLimits, owner: Option<&str>, bytes: usize) -> bool {
    let (mut all, mut theirs) = (bytes, bytes);
    for job in jobs.values() {
        let record = job.record.borrow();
        let bytes = parameter_bytes(&record);
        all += bytes;
        if record.owner.as_deref() == owner {
            theirs += bytes;
        }
    }
    all <= limits.parameter_bytes && theirs <= limits.parameter_bytes / SHARE_OF_OWNER
}

/// The jobs of a service. Clones are the same.
pub struct Jobs<S: Service> {
    inner: Arc<Inner<S>>,
}

impl<S: Service> Clone for Jobs<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<S> {
    service: S,
    limits: JobsLimits,
    turns: Arc<Semaphore>,
    jobs: Mutex<BTreeMap<String, Arc<Kept>>>,
}

/// A job of this process.
struct Kept {
    record: watch::Sender<UwsJob>,
    /// One change at a time, and in this order on disk.
    changing: tokio::sync::Mutex<()>,
    running: Mutex<Option<AbortHandle>>,
}

impl Kept {
    fn new(record: UwsJob) -> Arc<Self> {
        Arc::new(Self { record: watch::Sender::new(record), changing: Default::default(), running: Default::default() })
    }

    fn running(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a running job puts what it has made.
pub struct ResultSink<S: Service> {
    jobs: Jobs<S>,
    job: Arc<Kept>,
}

impl<S: Service> ResultSink<S> {
    /// Adds a result, which the service keeps already.
    ///
    /// # Errors
    /// If the job cannot be saved.
    pub async fn add(&self, result: JobResult) -> Result<(), Fault> {
        self.jobs.change(&self.job, |record| record.results.push(result)).await
    }
}

impl<S: Service> Jobs<S> {
    /// With the jobs that earlier processes kept.
    pub fn new(service: S, limits: JobsLimits, kept: Vec<UwsJob>) -> Self {
        let jobs = kept.into_iter().map(|record| (record.id.clone(), Kept::new(record))).collect();
        let turns = Arc::new(Semaphore::new(limits.running));
        Self { inner: Arc::new(Inner { service, limits, turns, jobs: Mutex::new(jobs) }) }
    }

    /// What runs them.
    pub fn service(&self) -> &S {
        &self.inner.service
    }

    /// A job that its owner may see.
    ///
    /// # Errors
    /// `NotFound`, or `NotAuthorized` if it is another user's.
    pub fn get(&self, id: &str, owner: Option<&str>) -> Result<UwsJob, Fault> {
        Ok(self.find(id, owner)?.record.borrow().clone())
    }

    /// The jobs of an owner, the newest first. A visitor's are shown to nobody who does not know their names.
    pub fn of_owner(&self, owner: Option<&str>) -> Vec<UwsJob> {
        let jobs = self.lock();
        let owned = jobs.values().map(|job| job.record.borrow().clone());
        let mut owned: Vec<_> = owned.filter(|job| owner.is_some() && job.owner.as_deref() == owner).collect();
        owned.sort_by(|one, other| other.created.cmp(&one.created).then_with(|| one.id.cmp(&other.id)));
        owned
    }

    /// Makes a job that waits to be started.
    ///
    /// # Errors
    /// What the service refuses; `Unavailable` if there are too many.
    pub async fn create(&self, id: String, owner: Option<String>, parameters: DaliParameters) -> Result<UwsJob, Fault> {
        self.inner.service.check(&parameters)?;
        let run_id = parameters.one("RUNID")?.map(str::to_owned);
        let control = ["PHASE", "RUNID"];
        let is_control = |name: &str| control.iter().any(|known| known.eq_ignore_ascii_case(name));
        let pairs = parameters.pairs().iter().filter(|(name, _)| !is_control(name)).cloned();
        let (now, limits) = (Timestamp::now(), &self.inner.limits);
        let record = UwsJob {
            id: id.clone(),
            owner,
            phase: Phase::Pending,
            run_id,
            parameters: pairs.collect(),
            created: now,
            started: None,
            ended: None,
            destruction: now.after(limits.life.0),
            execution_seconds: limits.execution.0.as_secs(),
            results: Vec::new(),
            fault: None,
        };
        let job = Kept::new(record.clone());
        {
            let mut jobs = self.lock();
            if jobs.len() >= limits.kept || !has_room(&jobs, limits, record.owner.as_deref(), parameter_bytes(&record))
            {
                return Err(Fault::Unavailable("there are too many jobs: remove some, or try later".into()));
            }
            jobs.insert(id.clone(), job);
        }
        if let Err(fault) = self.inner.service.save(&record).await {
            self.lock().remove(&id);
            return Err(fault);
        }
        Ok(record)
    }

    /// Starts a job that waits for it, or goes on with one that another process began.
    ///
    /// # Errors
    /// `NotAuthorized` if it is another user's or has ended.
    pub async fn start(&self, id: &str, owner: Option<&str>, caller: S::Caller) -> Result<(), Fault> {
        let job = self.find(id, owner)?;
        let _changing = job.changing.lock().await;
        if job.record.borrow().owner.as_deref() != owner {
            // It would run with the rights of a user, and who knows its name would read what came of it.
            return Err(Fault::NotAuthorized("the job is a visitor's: start it without a login".into()));
        }
        let phase = job.record.borrow().phase;
        if !phase.is_active() {
            return Err(Fault::NotAuthorized(format!("the job is {phase}, and is not started again")));
        }
        if phase == Phase::Pending {
            let started = |job: &Arc<Kept>| {
                let known = job.record.borrow();
                known.owner.as_deref() == owner && known.phase.is_started()
            };
            if self.lock().values().filter(|job| started(job)).count() >= self.inner.limits.active_of_owner {
                return Err(Fault::Unavailable("too many of your jobs wait or run: try later".into()));
            }
            self.save_changed(&job, |record| record.phase = Phase::Queued).await?;
        }
        self.spawn(&job, caller);
        Ok(())
    }

    /// Goes on with a job that a process before this one had begun. Its owner asks for it, so it is known in whose name.
    pub fn resume(&self, id: &str, owner: Option<&str>, caller: S::Caller) {
        if let Ok(job) = self.find(id, owner)
            && job.record.borrow().phase.is_started()
            && job.record.borrow().owner.as_deref() == owner
        {
            self.spawn(&job, caller);
        }
    }

    /// Ends a job.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if it cannot be saved.
    pub async fn abort(&self, id: &str, owner: Option<&str>) -> Result<(), Fault> {
        let job = self.find(id, owner)?;
        self.end(&job, Phase::Aborted, None).await
    }

    /// Removes a job and its results.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if it cannot be removed.
    pub async fn remove(&self, id: &str, owner: Option<&str>) -> Result<(), Fault> {
        let job = self.find(id, owner)?;
        self.remove_known(id, &job).await
    }

    /// Sets when a job is removed, within the limits.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if it cannot be saved.
    pub async fn set_destruction(&self, id: &str, owner: Option<&str>, at: Timestamp) -> Result<(), Fault> {
        let job = self.find(id, owner)?;
        let latest = Timestamp::now().after(self.inner.limits.life.1);
        self.change(&job, |record| record.destruction = at.min(latest)).await
    }

    /// Sets how long a job may run, within the limits.
    ///
    /// # Errors
    /// As [`get`](Self::get), `NotAuthorized` once it was started, and if it cannot be saved.
    pub async fn set_execution(&self, id: &str, owner: Option<&str>, seconds: u64) -> Result<(), Fault> {
        let most = self.inner.limits.execution.1.as_secs();
        let seconds = if seconds == 0 { most } else { seconds.min(most) };
        self.change_pending(id, owner, |record| record.execution_seconds = seconds).await
    }

    /// Adds to what a job is asked.
    ///
    /// # Errors
    /// What the service refuses, and as [`set_execution`](Self::set_execution).
    pub async fn add_parameters(&self, id: &str, owner: Option<&str>, further: DaliParameters) -> Result<(), Fault> {
        let all: DaliParameters = self.get(id, owner)?.parameters.into_iter().collect();
        self.inner.service.check(&all.and(further.clone()))?;
        let bytes = further.pairs().iter().map(|(name, value)| name.len() + value.len()).sum();
        if !has_room(&self.lock(), &self.inner.limits, owner, bytes) {
            return Err(Fault::Unavailable("jobs have been asked too much: remove some, or try later".into()));
        }
        self.change_pending(id, owner, |record| record.parameters.extend(further.pairs().to_vec())).await
    }

    /// Waits until a job is in another phase than this one, for so long.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn wait(
        &self,
        id: &str,
        owner: Option<&str>,
        while_in: Phase,
        at_most: Duration,
    ) -> Result<UwsJob, Fault> {
        let mut record = self.find(id, owner)?.record.subscribe();
        if while_in.is_active() {
            let changed = record.wait_for(|record| record.phase != while_in);
            // If the time is over, it is said as it is.
            let _ = tokio::time::timeout(at_most, changed).await;
        }
        let now = record.borrow().clone();
        Ok(now)
    }

    /// Removes the jobs whose time has come. To be called now and then.
    pub async fn sweep(&self, now: Timestamp) {
        let is_over = |job: &Arc<Kept>| job.record.borrow().destruction <= now;
        let over: Vec<_> =
            self.lock().iter().filter(|(_, job)| is_over(job)).map(|(id, job)| (id.clone(), Arc::clone(job))).collect();
        for (id, job) in over {
            if let Err(error) = self.remove_known(&id, &job).await {
                tracing::warn!(%id, %error, "a job whose time has come cannot be removed");
            }
        }
    }

    fn find(&self, id: &str, owner: Option<&str>) -> Result<Arc<Kept>, Fault> {
        let job = self.lock().get(id).cloned();
        let job = job.ok_or_else(|| Fault::NotFound("there is no such job (any more)".into()))?;
        let is_theirs = job.record.borrow().owner.as_deref().is_none_or(|of| Some(of) == owner);
        if is_theirs { Ok(job) } else { Err(Fault::NotAuthorized("the job is another user's".into())) }
    }

    fn spawn(&self, job: &Arc<Kept>, caller: S::Caller) {
        let mut running = job.running();
        if running.is_some() {
            return;
        }
        let (jobs, job) = (self.clone(), Arc::clone(job));
        *running = Some(tokio::spawn(async move { jobs.drive(job, caller).await }).abort_handle());
    }

    async fn drive(self, job: Arc<Kept>, caller: S::Caller) {
        // The semaphore is never closed.
        let Ok(_turn) = Arc::clone(&self.inner.turns).acquire_owned().await else { return };
        let begins = |record: &mut UwsJob| {
            record.phase = Phase::Executing;
            record.started.get_or_insert_with(Timestamp::now);
        };
        let done = match self.change(&job, begins).await {
            Ok(()) => {
                let record = job.record.borrow().clone();
                let limit = Duration::from_secs(record.execution_seconds);
                let sink = ResultSink { jobs: self.clone(), job: Arc::clone(&job) };
                match tokio::time::timeout(limit, self.inner.service.run(caller, record, sink)).await {
                    Ok(done) => done,
                    Err(_) => Err(Fault::Failed(format!("the job ran for its {} s", limit.as_secs()))),
                }
            }
            Err(fault) => Err(fault),
        };
        let (phase, fault) = match done {
            Ok(()) => (Phase::Completed, None),
            Err(fault) => (Phase::Error, Some(fault)),
        };
        if let Err(error) = self.end(&job, phase, fault).await {
            tracing::warn!(%error, "a job's end is not saved");
        }
    }

    /// Ends a job that has not ended.
    async fn end(&self, job: &Arc<Kept>, phase: Phase, fault: Option<Fault>) -> Result<(), Fault> {
        let _changing = job.changing.lock().await;
        if !job.record.borrow().phase.is_active() {
            return Ok(());
        }
        let running = job.running().take();
        let saved = self.save_changed(job, |record| {
            record.phase = phase;
            record.ended = Some(Timestamp::now());
            record.fault =
                fault.map(|fault| JobFault { message: fault.to_string(), is_transient: fault.is_transient() });
        });
        let saved = saved.await;
        // Last, since a job that ends itself is the task.
        if let Some(running) = running.filter(|_| phase == Phase::Aborted) {
            running.abort();
        }
        saved
    }

    async fn remove_known(&self, id: &str, job: &Arc<Kept>) -> Result<(), Fault> {
        self.end(job, Phase::Aborted, None).await?;
        self.inner.service.remove(id).await?;
        self.lock().remove(id);
        Ok(())
    }

    async fn change_pending(
        &self,
        id: &str,
        owner: Option<&str>,
        change: impl FnOnce(&mut UwsJob),
    ) -> Result<(), Fault> {
        let job = self.find(id, owner)?;
        let _changing = job.changing.lock().await;
        let phase = job.record.borrow().phase;
        if phase != Phase::Pending {
            return Err(Fault::NotAuthorized(format!("the job is {phase}, and is not changed any more")));
        }
        self.save_changed(&job, change).await
    }

    async fn change(&self, job: &Arc<Kept>, change: impl FnOnce(&mut UwsJob)) -> Result<(), Fault> {
        let _changing = job.changing.lock().await;
        self.save_changed(job, change).await
    }

    /// Saved first and shown after; `changing` is held.
    async fn save_changed(&self, job: &Arc<Kept>, change: impl FnOnce(&mut UwsJob)) -> Result<(), Fault> {
        let mut record = job.record.borrow().clone();
        change(&mut record);
        self.inner.service.save(&record).await?;
        job.record.send_replace(record);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Kept>>> {
        self.inner.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which part of the room for what jobs were asked one owner may take.
const SHARE_OF_OWNER: usize = 4;
