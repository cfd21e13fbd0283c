//! The list of Sphere jobs, running and ended, with its rows. Serves `run`, `jobs`, `job`. It never schedules anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{
    Counters, JobId, Now, Reason, Refusal, SectorPath, UserName, limits,
    message::{
        client_master::{JobRecord, JobState, StageRecord},
        master_security::UserRights,
        work::WorkFault,
    },
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    access::per_user::PerUser,
    actions::{JOBS_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    error::MasterError,
    jobs::drivers::DetachedJob,
};

/// The jobs, running and ended.
#[derive(Debug, Default)]
pub(crate) struct JobTable {
    pub(crate) by_id: BTreeMap<JobId, Job>,
    /// Oldest first.
    by_start: BTreeSet<(u64, JobId)>,
    running: BTreeSet<JobId>,
}

/// A job's row.
#[derive(Serialize, Deserialize)]
struct JobRow {
    job: JobId,
    user: UserName,
    title: String,
    state: JobState,
    started_unix_millis: u64,
    stages: Vec<StageRecord>,
    errors: Vec<String>,
    error_slice: Option<SectorPath>,
    detached: Option<DetachedJob>,
    counters: Vec<Counters>,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) record: JobRecord,
    pub(crate) last_report: Duration,
    /// Its drivers, if a node drives it instead of the client that had it admitted.
    pub(crate) detached: Option<DetachedJob>,
    /// Why it last got another driver, in this life of the master.
    pub(crate) driver_fault: Option<WorkFault>,
}

impl JobTable {
    /// Takes a job from its row. One that was running may still be: its driver has time to report.
    pub(crate) fn load(&mut self, now: Now, row: &StoredRow) -> Result<(), MasterError> {
        let (record, detached) = parse_job_row(&row.value).ok_or_else(|| damaged_row(row))?;
        self.insert(now, record, detached);
        Ok(())
    }

    pub(crate) fn insert(&mut self, now: Now, record: JobRecord, detached: Option<DetachedJob>) {
        self.by_start.insert((record.started_unix_millis, record.job));
        if record.state == JobState::Running {
            self.running.insert(record.job);
        }
        self.by_id.insert(record.job, Job { record, last_report: now.monotonic, detached, driver_fault: None });
    }

    /// Makes room for one more by forgetting an ended job: the oldest of the user with the most ended jobs. `None` if
    /// all are running.
    pub(crate) fn make_room(&mut self) -> Option<Vec<RowChange>> {
        let mut changes = Vec::new();
        while self.by_id.len() >= JOBS_MAX as usize {
            let ended = self.per_user(|job| job.record.state != JobState::Running);
            let greediest = ended.greediest()?;
            let is_theirs = |id: &JobId| self.by_id.get(id).is_some_and(|job| job.record.user == *greediest);
            let oldest = *self.by_start.iter().find(|(_, job)| !self.running.contains(job) && is_theirs(job))?;
            self.by_start.remove(&oldest);
            self.by_id.remove(&oldest.1);
            changes.push(RowChange::Remove { table: JOBS_TABLE, key: key(oldest.1) });
        }
        Some(changes)
    }

    /// How many such jobs each user has. There are few enough to count them each time.
    pub(crate) fn per_user(&self, is_such: impl Fn(&Job) -> bool) -> PerUser {
        let mut counted = PerUser::default();
        for job in self.by_id.values().filter(|job| is_such(job)) {
            counted.add(&job.record.user, 1);
        }
        counted
    }

    pub(crate) fn get(&self, id: JobId) -> Result<&Job, Refusal> {
        self.by_id
            .get(&id)
            .ok_or_else(|| Refusal::new(Reason::NotFound, format!("there is no job {id}; `sector jobs` shows them")))
    }

    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.by_id.get_mut(&id)
    }

    /// The owner of a job.
    pub(crate) fn owner(&self, id: JobId) -> Result<&UserName, Refusal> {
        Ok(&self.get(id)?.record.user)
    }

    /// Records of such jobs, newest first, as many as a message holds.
    pub(crate) fn newest(&self, is_such: impl Fn(&JobRecord) -> bool) -> Vec<JobRecord> {
        let mut bytes = 0;
        let records = self.by_start.iter().rev().filter_map(|(_, id)| self.by_id.get(id)).map(|job| &job.record);
        let records = records.filter(|record| is_such(record));
        let fits = |record: &&JobRecord| {
            bytes += record_bytes(record);
            bytes <= LIST_BYTES_MAX
        };
        records.take_while(fits).cloned().collect()
    }

    /// JobTable whose drivers have not reported for too long.
    pub(crate) fn silent(&self, now: Now) -> Vec<JobId> {
        let is_silent = |id: &&JobId| {
            let silence_max = |job: &Job| job.detached.as_ref().map_or(DRIVER_SILENCE_MAX, DetachedJob::silence_max);
            let is_silent = |job: &Job| now.monotonic.saturating_sub(job.last_report) > silence_max(job);
            self.by_id.get(id).is_some_and(is_silent)
        };
        self.running.iter().filter(is_silent).copied().collect()
    }

    /// Excludes the last `span` from the silence of drivers.
    pub(crate) fn discount_pause(&mut self, now: Now, span: Duration) {
        for id in &self.running {
            if let Some(job) = self.by_id.get_mut(id) {
                job.last_report = now.monotonic.min(job.last_report + span);
            }
        }
    }

    /// Ends a job and returns its row.
    pub(crate) fn end(&mut self, id: JobId, state: JobState) -> Vec<RowChange> {
        self.running.remove(&id);
        let Some(job) = self.by_id.get_mut(&id) else { return Vec::new() };
        job.record.state = state;
        // Nobody drives it any more.
        job.detached = None;
        job.record.driver = None;
        vec![job_row(job)]
    }
}

pub(crate) fn not_owner_refusal(by: &UserRights, record: &JobRecord) -> Refusal {
    let message = format!("the job {} belongs to {}: {} may not change it", record.job, record.user, by.user);
    Refusal::new(Reason::NoRight, message)
}

/// As many counters as a job may have: its driver is the user's own program.
pub(crate) fn few(mut counters: Vec<Counters>) -> Vec<Counters> {
    counters.truncate(limits::STAGES_MAX);
    let mut names = 0;
    let mut fits = |counters: &Counters| {
        names += counters.len();
        names <= limits::JOB_COUNTERS_MAX
    };
    let many = counters.iter().take_while(|counters| fits(counters)).count();
    counters.truncate(many);
    counters
}

pub(crate) fn job_row(of: &Job) -> RowChange {
    let JobRecord { job, user, title, state, started_unix_millis, stages, errors, error_slice, counters, driver: _ } =
        of.record.clone();
    let detached = of.detached.clone();
    let row = JobRow { job, user, title, state, started_unix_millis, stages, errors, error_slice, detached, counters };
    RowChange::Set { table: JOBS_TABLE, key: key(job), value: encode_row(&row) }
}

/// Reads a row of today or of a former master.
pub(crate) fn parse_job_row(value: &[u8]) -> Option<(JobRecord, Option<DetachedJob>)> {
    // Former rows end before the last fields: the error slice, the drivers, the counters. Each is a zero if there is
    // none.
    let row: JobRow = (0..=3).find_map(|missing| decode_row(&[value, &[0; 3][..missing]].concat()))?;
    let JobRow { job, user, title, state, started_unix_millis, stages, errors, error_slice, detached, counters } = row;
    let driver = detached.as_ref().and_then(DetachedJob::node).cloned();
    let record =
        JobRecord { job, user, title, state, started_unix_millis, stages, errors, error_slice, counters, driver };
    Some((record, detached))
}

pub(crate) fn key(id: JobId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

fn record_bytes(record: &JobRecord) -> usize {
    let errors: usize = record.errors.iter().map(String::len).sum();
    let slice = record.error_slice.as_ref().map_or(0, |path| path.as_str().len());
    let counters = record.counters.iter().flat_map(Counters::iter);
    let counters: usize = counters.map(|(name, _)| name.len() + COUNTER_BYTES).sum();
    RECORD_FIXED_BYTES + record.title.len() + errors + slice + counters + record.stages.len() * STAGE_BYTES
}

/// Most jobs remembered. Of the ended ones, the oldest of the user with the most goes first. Half of them may be
/// running jobs of one user.
pub(crate) const JOBS_MAX: u64 = 1_000;
/// A driver reports every few seconds; after this long without a report its job is given up.
const DRIVER_SILENCE_MAX: Duration = Duration::from_secs(60);
/// An upper bound of a record's length in a message without its texts and stages, in bytes.
const RECORD_FIXED_BYTES: usize = 256;
/// An upper bound of a stage's length in a message, in bytes.
const STAGE_BYTES: usize = 96;
/// An upper bound of a counter's length in a message without its name, in bytes.
const COUNTER_BYTES: usize = 16;
/// Where a list of jobs ends, in bytes: well within one message.
const LIST_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
