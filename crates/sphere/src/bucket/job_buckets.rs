//! Which buckets of which jobs a node has (path of a job). Jobs begin new runs and end, and a late message of an older
//! run or an ended job must bring nothing back. Callers decide what a bucket is made of: it never looks into one.

use std::collections::{BTreeMap, VecDeque};

use protocol::{JobId, Reason, message::spe::BucketId};

/// See the module.
#[derive(Debug)]
pub struct JobBuckets<B> {
    jobs: BTreeMap<JobId, EpochBuckets<B>>,
    /// The last jobs forgotten, so that a late piece does not bring one back.
    forgotten: VecDeque<JobId>,
}

/// The buckets of a job's newest run.
#[derive(Debug)]
struct EpochBuckets<B> {
    epoch: u32,
    buckets: BTreeMap<BucketId, B>,
}

/// Why there is no such bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketAbsence {
    /// Its job has ended.
    Forgotten,
    /// Its job is in this later run by now.
    OlderEpoch(u32),
    /// The job already has as many buckets here as a node keeps.
    TooMany,
    /// No message has named it.
    NotHere,
}

impl BucketAbsence {
    /// The reason that the sender is given.
    pub fn reason(self) -> Reason {
        match self {
            Self::Forgotten | Self::OlderEpoch(_) => Reason::JobEnded,
            Self::TooMany => Reason::Busy,
            Self::NotHere => Reason::NotFound,
        }
    }
}

impl<B> Default for JobBuckets<B> {
    fn default() -> Self {
        Self { jobs: BTreeMap::new(), forgotten: VecDeque::new() }
    }
}

impl<B> JobBuckets<B> {
    /// A message names a bucket, which may begin it. The first message of a newer run ends the older one, whose
    /// contents are void: gives its buckets.
    ///
    /// # Errors
    /// Why the bucket may not begin.
    pub fn admit(&mut self, id: BucketId) -> Result<Vec<B>, BucketAbsence> {
        if self.is_forgotten(id.job) {
            return Err(BucketAbsence::Forgotten);
        }
        let empty = || EpochBuckets { epoch: id.epoch, buckets: BTreeMap::new() };
        let job = self.jobs.entry(id.job).or_insert_with(empty);
        if id.epoch < job.epoch {
            return Err(BucketAbsence::OlderEpoch(job.epoch));
        }
        let stale = if id.epoch > job.epoch { std::mem::take(&mut job.buckets) } else { BTreeMap::new() };
        job.epoch = id.epoch;
        if job.buckets.len() >= BUCKETS_PER_JOB_MAX && !job.buckets.contains_key(&id) {
            return Err(BucketAbsence::TooMany);
        }
        Ok(stale.into_values().collect())
    }

    /// Begins a bucket that was [admitted](Self::admit).
    pub fn insert(&mut self, id: BucketId, bucket: B) {
        if let Some(job) = self.jobs.get_mut(&id.job).filter(|job| job.epoch == id.epoch) {
            job.buckets.insert(id, bucket);
        }
    }

    /// The bucket, if it has begun.
    ///
    /// # Errors
    /// Why it is not here.
    pub fn find(&mut self, id: BucketId) -> Result<&mut B, BucketAbsence> {
        let job = self.jobs.get_mut(&id.job).ok_or(BucketAbsence::NotHere)?;
        if id.epoch < job.epoch {
            return Err(BucketAbsence::OlderEpoch(job.epoch));
        }
        job.buckets.get_mut(&id).ok_or(BucketAbsence::NotHere)
    }

    /// Whether the master has ordered the node to forget this job.
    pub fn is_forgotten(&self, job: JobId) -> bool {
        self.forgotten.contains(&job)
    }

    /// A job is over: gives all its buckets. Later messages about them are refused.
    pub fn forget(&mut self, job: JobId) -> Vec<B> {
        if !self.is_forgotten(job) {
            self.forgotten.push_back(job);
        }
        if self.forgotten.len() > FORGOTTEN_JOBS_MAX {
            self.forgotten.pop_front();
        }
        self.jobs.remove(&job).map_or_else(Vec::new, |job| job.buckets.into_values().collect())
    }
}

/// Buckets of one job on one node: at about 300 bytes each, some tens of megabytes. A stage with local output has one
/// for each task.
pub const BUCKETS_PER_JOB_MAX: usize = 1 << 17;
/// Jobs remembered as ended: late pieces come within seconds, and no cloud ends so many jobs in that time.
const FORGOTTEN_JOBS_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(run: u32, bucket: u32) -> BucketId {
        BucketId { job: JobId(1), stage: 0, epoch: run, bucket, generation: 0 }
    }

    fn begin(buckets: &mut JobBuckets<u32>, id: BucketId) -> Result<Vec<u32>, BucketAbsence> {
        let stale = buckets.admit(id)?;
        buckets.insert(id, id.bucket);
        Ok(stale)
    }

    #[test]
    fn a_newer_run_ends_the_older_one_whose_late_words_begin_nothing() {
        let mut buckets = JobBuckets::default();
        assert_eq!(buckets.find(id(0, 1)), Err(BucketAbsence::NotHere));
        assert_eq!(begin(&mut buckets, id(1, 1)), Ok(vec![]));
        assert_eq!(begin(&mut buckets, id(1, 2)), Ok(vec![]));
        assert_eq!(buckets.find(id(1, 2)), Ok(&mut 2));
        assert_eq!(buckets.admit(id(0, 1)), Err(BucketAbsence::OlderEpoch(1)));
        assert_eq!(begin(&mut buckets, id(2, 3)), Ok(vec![1, 2]));
        assert_eq!(buckets.find(id(1, 2)), Err(BucketAbsence::OlderEpoch(2)));
        assert_eq!(buckets.find(id(2, 2)), Err(BucketAbsence::NotHere));
    }

    #[test]
    fn a_job_that_was_forgotten_stays_so_although_others_end_after_it() {
        let mut buckets = JobBuckets::default();
        assert_eq!(begin(&mut buckets, id(0, 1)), Ok(vec![]));
        assert_eq!(buckets.forget(JobId(1)), vec![1]);
        for job in 2..FORGOTTEN_JOBS_MAX as u64 + 1 {
            assert_eq!(buckets.forget(JobId(job)), vec![]);
            buckets.forget(JobId(job));
        }
        assert_eq!(buckets.admit(id(7, 1)), Err(BucketAbsence::Forgotten));
        assert_eq!(buckets.find(id(0, 1)), Err(BucketAbsence::NotHere));
        buckets.forget(JobId(u64::MAX));
        assert!(!buckets.is_forgotten(JobId(1)), "not for ever");
    }

    #[test]
    fn a_job_has_no_more_buckets_here_than_are_kept_account_of() {
        let mut buckets = JobBuckets::default();
        for bucket in 0..BUCKETS_PER_JOB_MAX as u32 {
            assert_eq!(begin(&mut buckets, id(0, bucket)), Ok(vec![]));
        }
        assert_eq!(buckets.admit(id(0, BUCKETS_PER_JOB_MAX as u32)), Err(BucketAbsence::TooMany));
        assert_eq!(buckets.admit(id(0, 0)), Ok(vec![]), "it is here already");
    }
}
