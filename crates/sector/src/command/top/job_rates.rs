//! How fast jobs read: the difference between what the master knew then and knows now. It never asks it.

use std::collections::{HashMap, VecDeque};

use client::{JobId, JobRecord, JobState};

/// What running jobs had read at the last moments.
#[derive(Default)]
pub(super) struct JobRates {
    /// Times in milliseconds since the Unix epoch with bytes, oldest first.
    read: HashMap<JobId, VecDeque<(u64, u64)>>,
}

impl JobRates {
    /// Takes in what jobs had read at a time.
    pub(super) fn note(&mut self, unix_millis: u64, jobs: &[JobRecord]) {
        let running: HashMap<_, _> =
            jobs.iter().filter(|job| job.state == JobState::Running).map(|job| (job.job, bytes_read(job))).collect();
        self.read.retain(|job, _| running.contains_key(job));
        for (job, bytes) in running {
            let moments = self.read.entry(job).or_default();
            // A stage that began anew counts from nothing, and a clock that was set back gives no time.
            if moments.back().is_some_and(|(time, last)| bytes < *last || unix_millis < *time) {
                moments.clear();
            }
            moments.push_back((unix_millis, bytes));
            while moments.front().is_some_and(|(time, _)| unix_millis - time > WINDOW_MILLIS) {
                moments.pop_front();
            }
        }
    }

    /// How fast a running job reads, in bytes per second; `None` while that is not known.
    pub(super) fn of(&self, job: JobId) -> Option<u64> {
        let moments = self.read.get(&job)?;
        let ((began, before), (ended, now)) = (moments.front()?, moments.back()?);
        (now - before).saturating_mul(1_000).checked_div(ended - began)
    }
}

/// What a job has read, in all its stages.
pub(super) fn bytes_read(job: &JobRecord) -> u64 {
    job.stages.iter().map(|stage| stage.bytes_in).sum()
}

/// A mean over so long: drivers report their progress every few seconds.
const WINDOW_MILLIS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::top::tests::cloud::job;

    #[test]
    fn a_rate_is_the_mean_of_the_last_ten_seconds_of_a_running_job() {
        let mut rates = JobRates::default();
        let at = |bytes| [job(1, JobState::Running, bytes)];
        rates.note(1_000, &at(0));
        assert_eq!(rates.of(JobId(1)), None, "one moment has no rate");
        rates.note(3_000, &at(8_000));
        assert_eq!(rates.of(JobId(1)), Some(4_000));
        rates.note(13_000, &at(8_000));
        assert_eq!(rates.of(JobId(1)), Some(0), "what is older does not count");
        rates.note(14_000, &at(3_000));
        assert_eq!(rates.of(JobId(1)), None, "a stage began anew");
        rates.note(13_500, &at(4_000));
        assert_eq!(rates.of(JobId(1)), None, "the clock was set back");
        rates.note(15_000, &[job(1, JobState::Done, 9_000)]);
        assert!(rates.of(JobId(1)).is_none() && rates.read.is_empty());
    }
}
