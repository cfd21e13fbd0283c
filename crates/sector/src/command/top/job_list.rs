//! The jobs in the order in which they are shown: running ones first, or by what a person chose. It never draws them.

use std::cmp::Reverse;

use client::{JobId, JobRecord, JobState};

use super::{cursor::Cursor, job_rates::JobRates, snapshot::Snapshot};

/// The rows of the pane of jobs, and which one is chosen.
#[derive(Default)]
pub(super) struct JobList {
    pub(super) cursor: Cursor,
    /// Where each job is in the snapshot.
    rows: Vec<usize>,
    /// The job of the chosen row.
    chosen: Option<JobId>,
    /// Where in [`JobOrder::ALL`].
    order: usize,
    is_reversed: bool,
}

/// By what jobs are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobOrder {
    /// Running ones first, and the newest of them.
    State,
    User,
    /// The least done first.
    Progress,
    /// The fastest first.
    Rate,
    /// The least local first.
    Local,
    /// The newest first.
    Started,
}

impl JobList {
    /// Where each job is in the snapshot.
    pub(super) fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The order, and whether it is from the other end.
    pub(super) fn order(&self) -> (JobOrder, bool) {
        (JobOrder::ALL[self.order], self.is_reversed)
    }

    /// Takes the order so many further on.
    pub(super) fn turn_order(&mut self, by: isize) {
        let orders = JobOrder::ALL.len().cast_signed();
        self.order = (self.order.cast_signed() + by).rem_euclid(orders).cast_unsigned();
        self.is_reversed = false;
    }

    /// Takes the same order from the other end.
    pub(super) fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
    }

    /// Remembers which job was chosen, before anything changes.
    pub(super) fn keep_choice(&mut self, snapshot: &Snapshot) {
        self.chosen = self.rows.get(self.cursor.at()).map(|at| snapshot.jobs[*at].job);
    }

    /// Takes in a snapshot. The chosen row stays that of the same job.
    pub(super) fn update(&mut self, snapshot: &Snapshot, rates: &JobRates) {
        let jobs = &snapshot.jobs;
        let mut rows: Vec<_> = (0..jobs.len()).collect();
        // Jobs come newest first, and a sort keeps that among equals.
        let (order, is_reversed) = self.order();
        match order {
            JobOrder::State => rows.sort_by_key(|at| jobs[*at].state != JobState::Running),
            JobOrder::User => rows.sort_by_key(|at| jobs[*at].user.as_str()),
            JobOrder::Progress => rows.sort_by_key(|at| progress(&jobs[*at])),
            JobOrder::Rate => rows.sort_by_key(|at| Reverse(rates.of(jobs[*at].job))),
            JobOrder::Local => rows.sort_by_key(|at| local(&jobs[*at]).unwrap_or(u64::MAX)),
            JobOrder::Started => {}
        }
        if is_reversed {
            rows.reverse();
        }
        self.rows = rows;
        let again = self.chosen.and_then(|chosen| self.rows.iter().position(|at| jobs[*at].job == chosen));
        self.cursor.choose(again.unwrap_or(self.cursor.at()), self.rows.len());
    }
}

impl JobOrder {
    /// In the order of the columns.
    pub(super) const ALL: [Self; 6] = [Self::State, Self::User, Self::Progress, Self::Rate, Self::Local, Self::Started];
}

/// Segments of a job in all its stages: done, and known so far.
pub(super) fn segments(job: &JobRecord) -> (u64, u64) {
    (job.stages.iter().map(|stage| stage.done).sum(), job.stages.iter().map(|stage| stage.segments).sum())
}

/// The share of its segments that a job has done, in thousandths.
pub(super) fn progress(job: &JobRecord) -> u64 {
    let (done, all) = segments(job);
    done.saturating_mul(1_000).checked_div(all).unwrap_or(0)
}

/// The share of the done segments that were processed where their bytes lie, in thousandths; `None` if none is done.
pub(super) fn local(job: &JobRecord) -> Option<u64> {
    let local: u64 = job.stages.iter().map(|stage| stage.local).sum();
    local.saturating_mul(1_000).checked_div(segments(job).0)
}
