//! Sphere jobs as the master knows them: admitted, reported, ended (paper, 3.3; the driver is the client). Serves
//! `run`, `jobs`, `job`. It never schedules: it issues tickets for SPEs and keeps the list.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{
    Counters, JobId, Now, Reason, Refusal, SectorPath, UserName, limits,
    message::{
        client_master::{Admitted, ClientReply, JobRecord, JobState, SiteLink, SpeNode, StageRecord},
        cluster::Membership,
        master_security::UserRights,
    },
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    Master,
    access::per_user::PerUser,
    access::sessions::ClientSession,
    access::tickets::Bearer,
    actions::{JOBS_TABLE, SessionCaller, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    catalog::rights::acts_for,
    error::MasterError,
    fleet::nodes::Node,
    jobs::drivers::DetachedJob,
    jobs::job_histories,
    log::journal_writes::Effect,
    replicas::orders::QueuedWork,
};

/// The jobs, running and ended.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    by_id: BTreeMap<JobId, Job>,
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
}

impl Jobs {
    /// Takes a job from its row. One that was running may still be: its driver has time to report.
    pub(crate) fn load(&mut self, now: Now, row: &StoredRow) -> Result<(), MasterError> {
        let (record, detached) = parse_job_row(&row.value).ok_or_else(|| damaged_row(row))?;
        self.insert(now, record, detached);
        Ok(())
    }

    fn insert(&mut self, now: Now, record: JobRecord, detached: Option<DetachedJob>) {
        self.by_start.insert((record.started_unix_millis, record.job));
        if record.state == JobState::Running {
            self.running.insert(record.job);
        }
        self.by_id.insert(record.job, Job { record, last_report: now.monotonic, detached });
    }

    /// Makes room for one more by forgetting an ended job: the oldest of the user with the most ended jobs. `None` if
    /// all are running.
    fn make_room(&mut self) -> Option<Vec<RowChange>> {
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

    /// Records newest first, as many as a message holds.
    fn newest(&self) -> Vec<JobRecord> {
        let mut bytes = 0;
        let records = self.by_start.iter().rev().filter_map(|(_, id)| self.by_id.get(id)).map(|job| &job.record);
        let fits = |record: &&JobRecord| {
            bytes += record_bytes(record);
            bytes <= LIST_BYTES_MAX
        };
        records.take_while(fits).cloned().collect()
    }

    /// Jobs whose drivers have not reported for too long.
    fn silent(&self, now: Now) -> Vec<JobId> {
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
    fn end(&mut self, id: JobId, state: JobState) -> Vec<RowChange> {
        self.running.remove(&id);
        let Some(job) = self.by_id.get_mut(&id) else { return Vec::new() };
        job.record.state = state;
        // Nobody drives it any more.
        job.detached = None;
        job.record.driver = None;
        vec![job_row(job)]
    }
}

impl Master {
    /// Admits a job. The answer waits until its row is saved, so that scratch files always belong to a known job.
    pub(crate) fn admit_job(
        &mut self,
        now: Now,
        caller: SessionCaller,
        client: &ClientSession,
        title: &str,
    ) -> Result<Option<ClientReply>, Refusal> {
        let by = &client.rights;
        let nodes_up = self.nodes.up_count();
        if nodes_up == 0 {
            let message = "no node is up to run the job; `sector nodes` shows them";
            return Err(Refusal::new(Reason::Unavailable, message));
        }
        let running = self.jobs.per_user(|job| job.record.state == JobState::Running);
        if !running.may_add(&by.user, 1, JOBS_MAX) {
            let message = format!("{} has {} jobs running already", by.user, running.has(&by.user));
            return Err(Refusal::throttled(message, JOB_RETRY_SECONDS));
        }
        let mut changes = self.jobs.make_room().ok_or_else(|| {
            Refusal::new(Reason::Busy, format!("{JOBS_MAX} jobs are running already; wait or cancel one"))
        })?;
        let record = JobRecord {
            job: JobId(self.rng.u64(..)),
            user: by.user.clone(),
            title: clipped(title, TITLE_BYTES_MAX),
            state: JobState::Running,
            started_unix_millis: now.unix_millis,
            stages: Vec::new(),
            errors: Vec::new(),
            error_slice: None,
            counters: Vec::new(),
            driver: None,
        };
        let id = record.job;
        self.note_job(now, by.user.as_str(), "begin job", id.to_string(), record.title.clone());
        let links = self.links_of_jobs();
        let reply = ClientReply::Admitted(Admitted { links, ..self.admitted(now, client, &record) });
        self.jobs.insert(now, record, None);
        changes.push(job_row(self.jobs.get(id)?));
        self.save(now, changes, vec![Effect::Reply(caller, reply)]);
        Ok(None)
    }

    /// Takes a driver's report; answered with fresh tickets while the job runs.
    pub(crate) fn report_job(
        &mut self,
        now: Now,
        caller: SessionCaller,
        client: &ClientSession,
        report: JobRecord,
    ) -> Result<Option<ClientReply>, Refusal> {
        let by = &client.rights;
        let id = report.job;
        let record = &self.jobs.get(id)?.record;
        if !acts_for(by, &record.user) {
            return Err(not_owner_refusal(by, record));
        }
        if record.state != JobState::Running {
            let how = match record.state {
                JobState::Cancelled => "was cancelled",
                JobState::Lost => "was given up because its driver was not heard of",
                _ => "has ended",
            };
            // The status is not `Refused`: that is about rights, and would tell a driver that its user was shut out.
            let message = format!("the job {id} {how}; start it again if it is still wanted");
            return Err(Refusal::new(Reason::Failed, message));
        }
        let Some(job) = self.jobs.by_id.get_mut(&id) else { return Ok(None) };
        job.last_report = now.monotonic;
        if let Some(detached) = &mut job.detached {
            detached.note_heard();
        }
        job.record.stages = report.stages;
        job.record.stages.truncate(limits::STAGES_MAX);
        let errors = report.errors.iter().take(ERRORS_MAX);
        job.record.errors = errors.map(|text| clipped(text, limits::FUNCTION_MESSAGE_BYTES_MAX)).collect();
        job.record.error_slice = report.error_slice;
        job.record.counters = few(report.counters);
        if report.state == JobState::Running {
            let record = job.record.clone();
            return Ok(Some(ClientReply::Admitted(self.admitted(now, client, &record))));
        }
        let ended = ClientReply::Admitted(Admitted { job: id, nodes: Vec::new(), links: Vec::new() });
        let changes = self.jobs.end(id, report.state);
        self.note_job(now, by.user.as_str(), "end job", id.to_string(), format!("{:?}", report.state).to_lowercase());
        self.save(now, changes, vec![Effect::Reply(caller, ended), Effect::ForgetJob(id)]);
        Ok(None)
    }

    /// Refuses a request unless the job is the user's own and running.
    pub(crate) fn check_running(&self, by: &UserRights, id: JobId) -> Result<(), Refusal> {
        let record = &self.jobs.get(id)?.record;
        if !acts_for(by, &record.user) {
            return Err(not_owner_refusal(by, record));
        }
        if record.state != JobState::Running {
            return Err(Refusal::new(Reason::JobEnded, format!("the job {id} has ended; start it again")));
        }
        Ok(())
    }

    /// Stops a job: its driver learns of it at its next report, its nodes at once.
    pub(crate) fn cancel_job(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        id: JobId,
    ) -> Result<Option<ClientReply>, Refusal> {
        let record = &self.jobs.get(id)?.record;
        if !acts_for(by, &record.user) {
            return Err(not_owner_refusal(by, record));
        }
        if record.state != JobState::Running {
            return Err(Refusal::new(Reason::JobEnded, format!("the job {id} has ended already")));
        }
        let changes = self.jobs.end(id, JobState::Cancelled);
        self.save(now, changes, vec![Effect::Reply(caller, ClientReply::Done), Effect::ForgetJob(id)]);
        Ok(None)
    }

    /// All jobs, newest first.
    pub(crate) fn job_list(&self, by: &UserRights) -> ClientReply {
        ClientReply::Jobs(self.jobs.newest().into_iter().map(|record| redacted_for(by, record)).collect())
    }

    /// One job.
    pub(crate) fn job(&self, by: &UserRights, id: JobId) -> Result<ClientReply, Refusal> {
        Ok(ClientReply::Jobs(vec![redacted_for(by, self.jobs.get(id)?.record.clone())]))
    }

    /// Replaces silent drivers, and gives up the jobs for which that is not possible.
    pub(crate) fn watch_jobs(&mut self, now: Now) {
        for id in self.jobs.silent(now) {
            if self.replace_driver(now, id) {
                continue;
            }
            let changes = self.jobs.end(id, JobState::Lost);
            let why = "its driver was not heard of".to_owned();
            self.note_job(now, "master", "give up job", id.to_string(), why);
            self.save(now, changes, vec![Effect::ForgetJob(id)]);
        }
    }

    /// Has all nodes remove the leftovers of a job. Lost nodes remove them when they start again.
    pub(crate) fn forget_job(&mut self, id: JobId) {
        let up: Vec<_> = self.nodes.iter().filter(|(_, node)| node.is_up()).map(|(key, _)| key).collect();
        for key in up {
            self.orders.push(key, QueuedWork::Forget(id));
        }
    }

    /// The nodes that run SPEs.
    fn nodes_for_jobs(&self) -> impl Iterator<Item = &Node> {
        let nodes = self.nodes.by_name().map(|(_, node)| node);
        nodes.filter(|node| node.is_up() && node.membership != Membership::Drained)
    }

    /// The known links between the sites of these nodes: their limits in the topology.
    fn links_of_jobs(&self) -> Vec<SiteLink> {
        let sites: BTreeSet<&str> = self.nodes_for_jobs().map(|node| &node.place.site[..]).collect();
        if sites.len() > LINKED_SITES_MAX {
            return Vec::new();
        }
        let pairs = sites.iter().flat_map(|a| sites.range(*a..).skip(1).map(move |b| (*a, *b)));
        let known = pairs.filter_map(|(a, b)| Some((a, b, self.nodes.topology().limit_bytes_per_second(a, b)?)));
        known.map(|(a, b, bytes_per_second)| SiteLink { a: a.into(), b: b.into(), bytes_per_second }).collect()
    }

    fn admitted(&self, now: Now, client: &ClientSession, record: &JobRecord) -> Admitted {
        // Output of a job on a node that is about to go would only have to be moved.
        let at = self.client_at(client);
        let up: Vec<_> = self.nodes_for_jobs().collect();
        let weights: Vec<_> = up.iter().map(|node| node.marks.weight(now, &record.user)).collect();
        let nodes = up.into_iter().zip(job_histories::avoided(&weights)).map(|(node, is_marked)| SpeNode {
            // A job's messages and pieces are always encrypted: the sender of a piece may be at another site than the
            // driver.
            source: self.tickets.compute(
                now,
                node,
                Bearer { user: record.user.clone(), plain_within: None, ..self.client_bearer(&at, node) },
                record.job,
            ),
            slots: node.spe_slots,
            is_marked,
        });
        Admitted { job: record.job, nodes: nodes.collect(), links: Vec::new() }
    }
}

pub(crate) fn not_owner_refusal(by: &UserRights, record: &JobRecord) -> Refusal {
    let message = format!("the job {} belongs to {}: {} may not change it", record.job, record.user, by.user);
    Refusal::new(Reason::NoRight, message)
}

/// The part of a job that a user sees. Of another user's job it leaves out title, errors and counters, which name files
/// and may quote their content.
fn redacted_for(by: &UserRights, record: JobRecord) -> JobRecord {
    if acts_for(by, &record.user) {
        return record;
    }
    JobRecord { title: String::new(), errors: Vec::new(), error_slice: None, counters: Vec::new(), ..record }
}

/// As many counters as a job may have: its driver is the user's own program.
fn few(mut counters: Vec<Counters>) -> Vec<Counters> {
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

fn key(id: JobId) -> Vec<u8> {
    id.0.to_be_bytes().to_vec()
}

/// The text up to `bytes_max` bytes, cut between characters.
fn clipped(text: &str, bytes_max: usize) -> String {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
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
const JOBS_MAX: u64 = 1_000;
/// Some of a user's hundreds of jobs end within this time, in seconds.
const JOB_RETRY_SECONDS: u32 = 30;
/// Sites over which a job's buckets are placed by links: with more of them, finding places would take the driver too
/// long.
const LINKED_SITES_MAX: usize = 16;
/// A driver reports every few seconds; after this long without a report its job is given up.
const DRIVER_SILENCE_MAX: Duration = Duration::from_secs(60);
/// Longest title in bytes: one line.
const TITLE_BYTES_MAX: usize = 1_024;
/// Most errors kept of one job: the first few show what is wrong.
const ERRORS_MAX: usize = 32;
/// An upper bound of a record's length in a message without its texts and stages, in bytes.
const RECORD_FIXED_BYTES: usize = 256;
/// An upper bound of a stage's length in a message, in bytes.
const STAGE_BYTES: usize = 96;
/// An upper bound of a counter's length in a message without its name, in bytes.
const COUNTER_BYTES: usize = 16;
/// Where a list of jobs ends, in bytes: well within one message.
const LIST_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX / 2;
