//! Requests about Sphere jobs: admitted, reported, cancelled, detached. (Paper, 3.3; the driver is the client.) Serves
//! `run`, `jobs`, `job`. It never schedules: it issues tickets for SPEs and keeps the list.

use std::collections::BTreeSet;

use protocol::{
    JobId, Now, Reason, Refusal, limits,
    message::{
        client_master::{Admitted, ClientReply, ClientRequest, JobRecord, JobState, SiteLink, SpeNode},
        cluster::Membership,
        master_security::UserRights,
        request::{FindJobsRequest, RemoveRequest},
    },
    path::JOB_NAME_PREFIX,
};
use store::RowChange;

use crate::{
    Master,
    access::{sessions::ClientSession, tickets::Bearer},
    actions::SessionCaller,
    catalog::rights::acts_for,
    fleet::nodes::Node,
    jobs::{
        job_histories,
        job_table::{JOBS_MAX, few, job_row, not_owner_refusal},
    },
    log::journal_writes::Effect,
    replicas::orders::QueuedWork,
};

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
        let nodes_up = self.fleet.nodes.up_count();
        if nodes_up == 0 {
            let message = "no node is up to run the job; `sector nodes` shows them";
            return Err(Refusal::new(Reason::Unavailable, message));
        }
        let running = self.jobs.table.per_user(|job| job.record.state == JobState::Running);
        if !running.may_add(&by.user, 1, JOBS_MAX) {
            let message = format!("{} has {} jobs running already", by.user, running.has(&by.user));
            return Err(Refusal::throttled(message, JOB_RETRY_SECONDS));
        }
        let mut changes = self.jobs.table.make_room().ok_or_else(|| {
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
        tracing::debug!(job = %id, "a job is admitted");
        self.note_job(now, by.user.as_str(), "begin job", id.to_string(), record.title.clone());
        let links = self.links_of_jobs();
        let reply = ClientReply::Admitted(Admitted { links, ..self.admitted(now, client, &record) });
        self.jobs.table.insert(now, record, None);
        self.note_job_state(now, id, JobState::Running, None);
        changes.push(job_row(self.jobs.table.get(id)?));
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
        let record = &self.jobs.table.get(id)?.record;
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
        let Some(job) = self.jobs.table.by_id.get_mut(&id) else { return Ok(None) };
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
        tracing::debug!(job = %id, state = ?report.state, "a job has ended");
        let changes = self.jobs.table.end(id, report.state);
        self.note_job_state(now, id, report.state, None);
        self.note_job(now, by.user.as_str(), "end job", id.to_string(), format!("{:?}", report.state).to_lowercase());
        self.save(now, changes, vec![Effect::Reply(caller, ended), Effect::ForgetJob(id)]);
        Ok(None)
    }

    /// Refuses a request unless the job is the user's own and running.
    pub(crate) fn check_running(&self, by: &UserRights, id: JobId) -> Result<(), Refusal> {
        let record = &self.jobs.table.get(id)?.record;
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
        let record = &self.jobs.table.get(id)?.record;
        if !acts_for(by, &record.user) {
            return Err(not_owner_refusal(by, record));
        }
        if record.state != JobState::Running {
            return Err(Refusal::new(Reason::JobEnded, format!("the job {id} has ended already")));
        }
        let (mut changes, mut effects) = self.remove_undriven_journal(now, by, id);
        changes.extend(self.jobs.table.end(id, JobState::Cancelled));
        self.note_job_state(now, id, JobState::Cancelled, Some(&by.user));
        effects.extend([Effect::Reply(caller, ClientReply::Done), Effect::ForgetJob(id)]);
        self.save(now, changes, effects);
        Ok(None)
    }

    /// Removes the journal of a detached job that nobody drives now: its driver would have removed it. Best effort.
    fn remove_undriven_journal(&mut self, now: Now, by: &UserRights, id: JobId) -> (Vec<RowChange>, Vec<Effect>) {
        let job = self.jobs.table.get(id).ok();
        let Some(journal) = job.and_then(|job| job.detached.as_ref()).map(|detached| detached.journal.clone()) else {
            return Default::default();
        };
        // Its path is what a client said: nothing else is removed by it, and nothing that this user may not remove.
        let is_journal = journal.name().is_some_and(|name| name == format!("{JOB_NAME_PREFIX}{id}-journal"));
        let remove = ClientRequest::Remove(RemoveRequest { path: journal.clone(), recursive: true, now: true });
        let is_driven = !self.access.sessions.driving(id).is_empty();
        if !is_journal || is_driven || self.catalog.check_rights(by, &remove.properties()).is_err() {
            return Default::default();
        }
        let Some(entry) = self.catalog.names().find(&journal) else { return Default::default() };
        let Ok(mut change) = self.catalog.discard(now, entry, &journal, true, true) else { return Default::default() };
        self.note_missed_change(&mut change.rows, entry);
        (change.rows, change.freed.into_iter().map(Effect::Reconcile).collect())
    }

    /// All jobs, or those of a user or in a state, newest first.
    pub(crate) fn job_list(&self, by: &UserRights, wanted: &FindJobsRequest) -> ClientReply {
        let FindJobsRequest { user, state } = wanted;
        let is_wanted = |record: &JobRecord| {
            user.as_ref().is_none_or(|user| record.user == *user) && state.is_none_or(|state| record.state == state)
        };
        let found = self.jobs.table.newest(is_wanted);
        ClientReply::Jobs(found.into_iter().map(|record| redacted_for(by, record)).collect())
    }

    /// One job.
    pub(crate) fn job(&self, by: &UserRights, id: JobId) -> Result<ClientReply, Refusal> {
        Ok(ClientReply::Jobs(vec![redacted_for(by, self.jobs.table.get(id)?.record.clone())]))
    }

    /// Replaces silent drivers, and gives up the jobs for which that is not possible.
    pub(crate) fn watch_jobs(&mut self, now: Now) {
        for id in self.jobs.table.silent(now) {
            if self.replace_driver(now, id) {
                continue;
            }
            let changes = self.jobs.table.end(id, JobState::Lost);
            self.note_job_state(now, id, JobState::Lost, None);
            let why = "its driver was not heard of".to_owned();
            self.note_job(now, "master", "give up job", id.to_string(), why);
            self.save(now, changes, vec![Effect::ForgetJob(id)]);
        }
    }

    /// Has all nodes remove the leftovers of a job. Lost nodes remove them when they start again.
    pub(crate) fn forget_job(&mut self, id: JobId) {
        let up: Vec<_> = self.fleet.nodes.iter().filter(|(_, node)| node.is_up()).map(|(key, _)| key).collect();
        for key in up {
            self.replicas.orders.push(key, QueuedWork::Forget(id));
        }
    }

    /// The nodes that run SPEs.
    fn nodes_for_jobs(&self) -> impl Iterator<Item = &Node> {
        let nodes = self.fleet.nodes.by_name().map(|(_, node)| node);
        nodes.filter(|node| node.is_up() && node.membership != Membership::Drained)
    }

    /// The known links between the sites of these nodes: their limits in the topology. Where there is none it is what they
    /// were seen to carry when they were full.
    fn links_of_jobs(&self) -> Vec<SiteLink> {
        let sites: BTreeSet<&str> = self.nodes_for_jobs().map(|node| &node.place.site[..]).collect();
        if sites.len() > LINKED_SITES_MAX {
            return Vec::new();
        }
        let pairs = sites.iter().flat_map(|a| sites.range(*a..).skip(1).map(move |b| (*a, *b)));
        let limit = |a, b| self.fleet.nodes.topology().limit_bytes_per_second(a, b);
        let known =
            pairs.filter_map(|(a, b)| Some((a, b, limit(a, b).or_else(|| self.fleet.judgement.capacity(a, b))?)));
        known.map(|(a, b, bytes_per_second)| SiteLink { a: a.into(), b: b.into(), bytes_per_second }).collect()
    }

    fn admitted(&self, now: Now, client: &ClientSession, record: &JobRecord) -> Admitted {
        // Output of a job on a node that is about to go would only have to be moved.
        let at = self.client_at(client);
        let up: Vec<_> = self.nodes_for_jobs().collect();
        let weights: Vec<_> = up.iter().map(|node| node.marks.weight(now, &record.user)).collect();
        let nodes = up.into_iter().zip(job_histories::avoided(&weights)).map(|(node, is_avoided)| SpeNode {
            // A job's messages and pieces are always encrypted: the sender of a piece may be at another site than the
            // driver.
            source: self.access.tickets.compute(
                now,
                node,
                Bearer { user: record.user.clone(), plain_within: None, ..self.client_bearer(&at, node) },
                record.job,
            ),
            slots: node.spe_slots,
            is_marked: is_avoided || node.is_mostly_slow(),
        });
        Admitted { job: record.job, nodes: nodes.collect(), links: Vec::new() }
    }
}

/// The part of a job that a user sees. Of another user's job it leaves out title, errors and counters, which name files
/// and may quote their content.
fn redacted_for(by: &UserRights, record: JobRecord) -> JobRecord {
    if acts_for(by, &record.user) {
        return record;
    }
    JobRecord { title: String::new(), errors: Vec::new(), error_slice: None, counters: Vec::new(), ..record }
}

/// The text up to `bytes_max` bytes, cut between characters.
fn clipped(text: &str, bytes_max: usize) -> String {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Some of a user's hundreds of jobs end within this time, in seconds.
const JOB_RETRY_SECONDS: u32 = 30;

/// Sites over which a job's buckets are placed by links: with more of them, finding places would take the driver too
/// long.
const LINKED_SITES_MAX: usize = 16;

/// Longest title in bytes: one line.
const TITLE_BYTES_MAX: usize = 1_024;

/// Most errors kept of one job: the first few show what is wrong.
const ERRORS_MAX: usize = 32;
