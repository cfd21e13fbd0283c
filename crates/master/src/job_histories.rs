//! What became of the attempts of jobs that have ended, as their drivers told it. Serves `job --segments`, the marks of
//! `nodes`, and which nodes later jobs are to avoid. Drivers are users' programs: what they say of a node keeps it from
//! no job that has no other, and no user's word alone counts for the jobs of others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use protocol::{
    JobId, Now, Refusal, Status, UserName, limits,
    message::{
        client_master::ClientReply,
        history::{HistoryRequest, JobHistory, NodeMarks},
        master_security::UserRights,
    },
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    Master,
    actions::{HISTORIES_TABLE, SessionCaller, StoredRow},
    error::MasterError,
    jobs::Jobs,
    journal_writes::Effect,
    namespace::{damaged_row, decode_row, encode_row},
    per_user::PerUser,
    rights::acts_for,
};

/// The histories of the newest jobs that have ended.
#[derive(Debug, Default)]
pub(crate) struct JobHistories {
    by_job: BTreeMap<JobId, HistoryRow>,
    /// Oldest first.
    by_time: BTreeSet<(u64, JobId)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HistoryRow {
    /// When it was told, in milliseconds since the Unix epoch.
    told_unix_millis: u64,
    history: JobHistory,
}

impl JobHistories {
    /// Takes a history from its row.
    pub(crate) fn load(&mut self, row: &StoredRow) -> Result<(), MasterError> {
        let job = row.key[..].try_into().map(|key| JobId(u64::from_be_bytes(key))).map_err(|_| damaged_row(row))?;
        self.insert(job, decode_row(&row.value).ok_or_else(|| damaged_row(row))?);
        Ok(())
    }

    fn insert(&mut self, job: JobId, row: HistoryRow) {
        self.by_time.insert((row.told_unix_millis, job));
        self.by_job.insert(job, row);
    }

    /// Keeps a history. Where there are too many, one is forgotten: of a job that is not known any more, else the
    /// oldest of the user who has most.
    fn keep(&mut self, now: Now, job: JobId, history: JobHistory, jobs: &Jobs) -> Vec<RowChange> {
        // After the newest, whatever the clock does: one that went back must not make the newest the oldest.
        let told_unix_millis = self.by_time.last().map_or(0, |(at, _)| *at).max(now.unix_millis);
        let row = HistoryRow { told_unix_millis, history };
        let mut changes = vec![RowChange::Set { table: HISTORIES_TABLE, key: key(job), value: encode_row(&row) }];
        self.insert(job, row);
        while self.by_job.len() > HISTORIES_MAX
            && let Some(oldest) = self.superfluous(jobs)
        {
            self.by_time.remove(&oldest);
            self.by_job.remove(&oldest.1);
            changes.push(RowChange::Remove { table: HISTORIES_TABLE, key: key(oldest.1) });
        }
        changes
    }

    fn superfluous(&self, jobs: &Jobs) -> Option<(u64, JobId)> {
        let mut counted = PerUser::default();
        for job in self.by_job.keys() {
            match jobs.owner(*job) {
                Ok(owner) => counted.add(owner, 1),
                Err(_) => return self.by_time.iter().find(|(_, of)| of == job).copied(),
            }
        }
        let greediest = counted.greediest()?;
        self.by_time.iter().find(|(_, job)| jobs.owner(*job).is_ok_and(|owner| owner == greediest)).copied()
    }
}

impl Master {
    /// Takes the history of a job, or gives it.
    pub(crate) fn handle_history(
        &mut self,
        now: Now,
        caller: SessionCaller,
        by: &UserRights,
        request: HistoryRequest,
    ) -> Result<Option<ClientReply>, Refusal> {
        let (HistoryRequest::Get(job) | HistoryRequest::Submit { job, .. }) = request;
        let owner = self.jobs.owner(job)?;
        if !acts_for(by, owner) {
            let message =
                format!("the job {job} belongs to {owner}: what became of its segments is not for {}", by.user);
            return Err(Refusal::new(Status::Refused, message));
        }
        let HistoryRequest::Submit { history, .. } = request else { return self.history(job).map(Some) };
        // The first word stands: it may have been sent twice, and marks are not to count twice.
        if self.job_histories.by_job.contains_key(&job) {
            return Ok(Some(ClientReply::Done));
        }
        let bytes: usize = history.attempts.iter().map(|attempt| attempt.slice.as_str().len()).sum();
        let most = limits::HISTORY_ATTEMPTS_MAX;
        if history.attempts.len() > most || history.marks.len() > most || bytes > limits::HISTORY_BYTES_MAX {
            let message = format!("the history of the job {job} is longer than {most} attempts");
            return Err(Refusal::new(Status::Usage, message));
        }
        for (node, marks) in &history.marks {
            if let Some(key) = self.nodes.of_id(node) {
                self.nodes.get_mut(key).marks.note(now, by.user.clone(), *marks);
            }
        }
        let changes = self.job_histories.keep(now, job, history, &self.jobs);
        self.save(now, changes, vec![Effect::Reply(caller, ClientReply::Done)]);
        Ok(None)
    }

    fn history(&self, job: JobId) -> Result<ClientReply, Refusal> {
        let row = self.job_histories.by_job.get(&job).ok_or_else(|| {
            let message = format!(
                "nothing is known of the segments of job {job}: it has not ended, or its driver was lost, or it is \
                 not one of the last {HISTORIES_MAX}"
            );
            Refusal::new(Status::NotFound, message)
        })?;
        Ok(ClientReply::History(row.history.clone()))
    }
}

/// What drivers said lately of one node; forgotten when the master ends.
#[derive(Debug, Default)]
pub(crate) struct FailureMarks {
    /// Oldest first.
    reports: VecDeque<MarkReport>,
}

/// What one user's driver said.
#[derive(Debug)]
struct MarkReport {
    when: Duration,
    by: UserName,
    marks: NodeMarks,
}

impl FailureMarks {
    fn note(&mut self, now: Now, by: UserName, marks: NodeMarks) {
        self.reports.push_back(MarkReport { when: now.monotonic, by, marks });
        if self.reports.len() > MARKS_MAX {
            // No user's many words push out those of others.
            let mut counted = PerUser::default();
            self.reports.iter().for_each(|word| counted.add(&word.by, 1));
            let oldest = self.reports.iter().position(|word| Some(&word.by) == counted.greediest());
            oldest.and_then(|at| self.reports.remove(at));
        }
    }

    /// All of the last [`MARKS_LIFE`].
    pub(crate) fn recent(&self, now: Now) -> NodeMarks {
        self.young(now).fold(NodeMarks::default(), |sum, (_, word)| sum.plus(word.marks))
    }

    /// How heavy they are for a job of `user`: each job's marks, of which so many count at most, are halved with every
    /// quarter of their life; another user's count for less than it takes to be avoided, however many he tells of.
    pub(crate) fn weight(&self, now: Now, user: &UserName) -> u32 {
        let mut by_user: BTreeMap<&UserName, u32> = BTreeMap::new();
        for (age, word) in self.young(now) {
            let marks = word.marks.failed.saturating_add(word.marks.overtaken).min(MARKS_OF_A_JOB_MAX);
            let quarters = (age.as_secs() * 4 / MARKS_LIFE.as_secs()) as u32;
            *by_user.entry(&word.by).or_default() += marks >> quarters.min(31);
        }
        by_user.into_iter().map(|(by, weight)| if by == user { weight } else { weight.min(AVOIDED_MIN - 1) }).sum()
    }

    fn young(&self, now: Now) -> impl Iterator<Item = (Duration, &MarkReport)> {
        let aged = self.reports.iter().map(move |word| (now.monotonic.saturating_sub(word.when), word));
        aged.filter(|(age, _)| *age <= MARKS_LIFE)
    }
}

/// Which of nodes whose marks are so heavy are to be avoided: those with some, and twice as many as the others have on
/// average. What fails everywhere marks all alike, and a large cloud has a mark here and there.
pub(crate) fn avoided(weights: &[u32]) -> impl Iterator<Item = bool> {
    let all: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let others = weights.len().saturating_sub(1) as u64;
    weights.iter().map(move |weight| {
        let own = u64::from(*weight);
        *weight >= AVOIDED_MIN && others > 0 && own * others >= AVOIDED_TIMES * (all - own)
    })
}

fn key(job: JobId) -> Vec<u8> {
    job.0.to_be_bytes().to_vec()
}

/// Most histories kept, each of at most about [`HISTORY_BYTES_MAX`](limits::HISTORY_BYTES_MAX): 25 MB in memory.
const HISTORIES_MAX: usize = 200;
/// How long a node bears a mark: a slow disk shows in job after job, and what was repaired is not held against it for
/// long.
const MARKS_LIFE: Duration = Duration::from_secs(3_600);
/// Most words of drivers kept of one node, so that none who reports without end fills the memory.
const MARKS_MAX: usize = 256;
/// Marks of one job that count: after three quarters of an hour it is no longer reason enough to avoid a node.
const MARKS_OF_A_JOB_MAX: u32 = 16;
/// Marks that make a node one to be avoided: a single SPE that was killed says nothing.
const AVOIDED_MIN: u32 = 3;
/// How many times as many it must be as at the others on average.
const AVOIDED_TIMES: u64 = 2;
