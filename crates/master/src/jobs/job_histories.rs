//! Outcomes of the attempts of ended jobs, as reported by their drivers. Serves `job --segments`, the marks of `nodes`,
//! and the choice of nodes that later jobs should avoid. Drivers are users' programs, so a mark never keeps a node from
//! a job that has no other. One user's report alone never makes other users' jobs avoid a node.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use protocol::{
    JobId, Now, UserName,
    message::history::{JobHistory, NodeMarks},
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    access::per_user::PerUser,
    actions::{HISTORIES_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    error::MasterError,
    jobs::job_table::JobTable,
};

/// The histories of the newest jobs that have ended.
#[derive(Debug, Default)]
pub(crate) struct JobHistories {
    pub(crate) by_job: BTreeMap<JobId, HistoryRow>,
    /// Oldest first.
    by_time: BTreeSet<(u64, JobId)>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HistoryRow {
    /// When it was reported, in milliseconds since the Unix epoch.
    told_unix_millis: u64,
    pub(crate) history: JobHistory,
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

    /// Keeps a history. If there are too many, one is forgotten: that of a job that is no longer known. Else it is the
    /// oldest of the user who has most.
    pub(crate) fn keep(&mut self, now: Now, job: JobId, history: JobHistory, jobs: &JobTable) -> Vec<RowChange> {
        // Dated after the newest, whatever the clock does: a clock that went back must not make the newest the oldest.
        let told_unix_millis = self.by_time.last().map_or(0, |(at, _)| *at).max(now.unix_millis);
        let row = HistoryRow { told_unix_millis, history };
        let mut changes = vec![RowChange::Set { table: HISTORIES_TABLE, key: key(job), value: encode_row(&row) }];
        self.insert(job, row);
        while self.by_job.len() > HISTORIES_MAX
            && let Some(oldest) = superfluous(&self.by_time, jobs)
        {
            self.by_time.remove(&oldest);
            self.by_job.remove(&oldest.1);
            changes.push(RowChange::Remove { table: HISTORIES_TABLE, key: key(oldest.1) });
        }
        changes
    }
}

/// Which of these jobs, oldest first, is forgotten to make room: one that is no longer known. Else it is the oldest of
/// the user who has most.
pub(crate) fn superfluous(by_time: &BTreeSet<(u64, JobId)>, jobs: &JobTable) -> Option<(u64, JobId)> {
    let mut counted = PerUser::default();
    for of in by_time {
        match jobs.owner(of.1) {
            Ok(owner) => counted.add(owner, 1),
            Err(_) => return Some(*of),
        }
    }
    let greediest = counted.greediest()?;
    by_time.iter().find(|(_, job)| jobs.owner(*job).is_ok_and(|owner| owner == greediest)).copied()
}

/// What drivers recently reported of one node; forgotten when the master ends.
#[derive(Debug, Default)]
pub(crate) struct FailureMarks {
    /// Oldest first.
    reports: VecDeque<MarkReport>,
}

/// One report by one user's driver.
#[derive(Debug)]
struct MarkReport {
    when: Duration,
    by: UserName,
    marks: NodeMarks,
}

impl FailureMarks {
    pub(crate) fn note(&mut self, now: Now, by: UserName, marks: NodeMarks) {
        self.reports.push_back(MarkReport { when: now.monotonic, by, marks });
        if self.reports.len() > MARKS_MAX {
            // One user's many reports do not push out those of others.
            let mut counted = PerUser::default();
            self.reports.iter().for_each(|word| counted.add(&word.by, 1));
            let oldest = self.reports.iter().position(|word| Some(&word.by) == counted.greediest());
            oldest.and_then(|at| self.reports.remove(at));
        }
    }

    /// All marks of the last [`MARKS_LIFE`].
    pub(crate) fn recent(&self, now: Now) -> NodeMarks {
        self.young(now).fold(NodeMarks::default(), |sum, (_, word)| sum.plus(word.marks))
    }

    /// The weight of the marks for a job of `user`. Of each job's marks only a limited number counts, halved with every
    /// quarter of their life. Another user's marks stay below the threshold for avoidance, however many that user
    /// reports.
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

/// Which of the nodes with these weights to avoid: those with enough marks, and twice as many as the others on average.
/// A problem that occurs everywhere marks all alike, and a large cloud has a mark here and there.
pub(crate) fn avoided(weights: &[u32]) -> impl Iterator<Item = bool> {
    let all: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let others = weights.len().saturating_sub(1) as u64;
    weights.iter().map(move |weight| {
        let own = u64::from(*weight);
        *weight >= AVOIDED_MIN && others > 0 && own * others >= AVOIDED_TIMES * (all - own)
    })
}

pub(crate) fn key(job: JobId) -> Vec<u8> {
    job.0.to_be_bytes().to_vec()
}

/// Most histories kept, each of at most about [`HISTORY_BYTES_MAX`](protocol::limits::HISTORY_BYTES_MAX): 25 MB in memory.
pub(crate) const HISTORIES_MAX: usize = 200;
/// How long a mark counts against a node. A slow disk shows in job after job, and a repaired node is soon cleared.
const MARKS_LIFE: Duration = Duration::from_secs(3_600);
/// Most reports kept of one node, so that a driver that reports without end cannot fill the memory.
const MARKS_MAX: usize = 256;
/// Marks of one job that count: after three quarters of an hour they are no longer reason enough to avoid a node.
const MARKS_OF_A_JOB_MAX: u32 = 16;
/// Marks from which a node is avoided: a single killed SPE proves nothing.
const AVOIDED_MIN: u32 = 3;
/// How many times the average of the other nodes it must be.
const AVOIDED_TIMES: u64 = 2;
