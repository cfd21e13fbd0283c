//! What the functions of jobs printed, as their drivers tell while they run. Serves `job --logs`. A driver is a user's
//! program: so each job's log is bounded here too, and one user's logs never push out another user's.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    JobId, Now,
    message::history::{JobLogs, SegmentLog},
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use crate::{
    actions::{LOGS_TABLE, StoredRow},
    catalog::namespace::{damaged_row, decode_row, encode_row},
    error::MasterError,
    jobs::{job_histories::superfluous, job_table::JobTable},
};

/// The logs of the newest jobs whose functions printed anything.
#[derive(Debug, Default)]
pub(crate) struct KeptLogs {
    by_job: BTreeMap<JobId, KeptLog>,
    /// By the time when something was first printed; oldest first.
    by_time: BTreeSet<(u64, JobId)>,
}

/// The log of one job.
#[derive(Debug, Default)]
struct KeptLog {
    segments: BTreeMap<(u32, Option<u64>), SegmentLog>,
    left_out: u64,
    /// What was ever added, also what later attempts replaced: so its rows are bounded too.
    taken_bytes: usize,
    /// The rows that have segments. The count of what is left out has one more.
    rows: u32,
}

/// What was added at one time.
#[derive(Debug, Serialize, Deserialize)]
struct LogRow {
    told_unix_millis: u64,
    segments: Vec<SegmentLog>,
    left_out: u64,
}

impl KeptLogs {
    /// Takes a part of a log from its row; the parts of a job come in their order.
    pub(crate) fn load(&mut self, row: &StoredRow) -> Result<(), MasterError> {
        let (job, number) = parse_key(&row.key).ok_or_else(|| damaged_row(row))?;
        let part: LogRow = decode_row(&row.value).ok_or_else(|| damaged_row(row))?;
        let log = self.log_of(job, part.told_unix_millis);
        if number != NO_SEGMENTS {
            log.rows = log.rows.max(number + 1);
        }
        log.left_out = log.left_out.max(part.left_out);
        part.segments.into_iter().for_each(|segment| log.insert(segment));
        Ok(())
    }

    /// Adds to a job's log what fits and is not there yet. If there are too many logs, one is forgotten: that of a job
    /// that is no longer known. Else it is the oldest of the user who has most.
    pub(crate) fn add(&mut self, now: Now, job: JobId, told: JobLogs, jobs: &JobTable) -> Vec<RowChange> {
        // Dated after the newest, as histories are: a clock that went back must not make the newest the oldest.
        let told_unix_millis = self.by_time.last().map_or(0, |(at, _)| *at).max(now.unix_millis);
        let log = self.log_of(job, told_unix_millis);
        let (mut segments, mut left_out) = (Vec::new(), told.left_out.max(log.left_out));
        for segment in told.segments {
            if log.has(&segment) {
                continue;
            }
            if segment.fits(log.taken_bytes) {
                log.insert(segment.clone());
                segments.push(segment);
            } else {
                // The count is the driver's own word, which may be anything.
                left_out = left_out.saturating_add(1);
            }
        }
        if segments.is_empty() && left_out == log.left_out {
            return Vec::new();
        }
        log.left_out = left_out;
        // A driver that says again and again that more is left out rewrites one row.
        let number = if segments.is_empty() { NO_SEGMENTS } else { log.rows };
        log.rows += u32::from(!segments.is_empty());
        let row = LogRow { told_unix_millis, segments, left_out };
        let mut changes = vec![RowChange::Set { table: LOGS_TABLE, key: key(job, number), value: encode_row(&row) }];
        while self.by_job.len() > LOGS_MAX
            && let Some(oldest) = superfluous(&self.by_time, jobs)
        {
            changes.extend(self.forget(oldest));
        }
        changes
    }

    /// The log of a job; an empty one if nothing is known.
    pub(crate) fn of(&self, job: JobId) -> JobLogs {
        let Some(log) = self.by_job.get(&job) else { return JobLogs::default() };
        JobLogs { segments: log.segments.values().cloned().collect(), left_out: log.left_out }
    }

    fn log_of(&mut self, job: JobId, told_unix_millis: u64) -> &mut KeptLog {
        self.by_job.entry(job).or_insert_with(|| {
            self.by_time.insert((told_unix_millis, job));
            KeptLog::default()
        })
    }

    fn forget(&mut self, oldest: (u64, JobId)) -> Vec<RowChange> {
        self.by_time.remove(&oldest);
        let rows = self.by_job.remove(&oldest.1).map_or(0, |log| log.rows);
        let numbers = (0..rows).chain([NO_SEGMENTS]);
        numbers.map(|number| RowChange::Remove { table: LOGS_TABLE, key: key(oldest.1, number) }).collect()
    }
}

impl KeptLog {
    /// Whether it has this log of the segment, or that of a later attempt. Of loads, the one that failed is kept: other
    /// nodes may have loaded the function well.
    fn has(&self, log: &SegmentLog) -> bool {
        let attempt = |log: &SegmentLog| (log.failed && log.output.segment.is_none(), log.epoch, log.attempt);
        self.segments.get(&log.key()).is_some_and(|known| attempt(known) >= attempt(log))
    }

    fn insert(&mut self, log: SegmentLog) {
        self.taken_bytes += log.bytes();
        self.segments.insert(log.key(), log);
    }
}

fn key(job: JobId, number: u32) -> Vec<u8> {
    [&job.0.to_be_bytes()[..], &number.to_be_bytes()[..]].concat()
}

fn parse_key(key: &[u8]) -> Option<(JobId, u32)> {
    let (job, number) = key.split_first_chunk::<8>()?;
    let number = u32::from_be_bytes(number.try_into().ok()?);
    Some((JobId(u64::from_be_bytes(*job)), number))
}

/// The number of the row that says only how much is left out; it comes last.
const NO_SEGMENTS: u32 = u32::MAX;
/// Most logs kept, each of at most [`JOB_LOG_BYTES_MAX`](protocol::limits::JOB_LOG_BYTES_MAX): 25 MB in memory.
pub(crate) const LOGS_MAX: usize = 100;
