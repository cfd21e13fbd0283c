//! Jobs that nodes drive (path of a job, "The driver that survives"): detaching one, and driving a detached one. The
//! driver is the same as that of a job whose user waits for it. It begins as if it took over from a driver that did
//! nothing. It never decides what a job does next: the rules do.

use net::identity::random;
use protocol::{
    JobId, Now, Refusal, SectorPath, limits,
    message::{
        client_master::{Admitted, DriverKey, JobRecord, JobState},
        request::{AdmitJobRequest, DetachJobRequest, ReportJobRequest},
    },
};
use sphere::{Job, PageWrite};
use tracing::Instrument;

use super::{
    JobOutput, JobSpec,
    context::blank_record,
    driver::{Driver, REPORT_PERIOD, node_plan},
    journal::{Journal, JournalHead, ReadJournal},
    layout, output,
    refusals::refusal,
    side_files, whole_keys,
};
use crate::{Client, ClientError};

impl Client {
    /// Begins a job that a node drives, in the name of this client's user. It goes on when this client is gone, and at
    /// another node when its node is gone. [`job`](Self::job) reports its progress. It ends, without output, when the
    /// login or token that began it ends.
    ///
    /// # Errors
    /// As [`run_job`](Self::run_job), for errors that can be known before any work is done. `Usage` for a job whose
    /// results go to its driver.
    pub async fn detach_job(&self, spec: JobSpec) -> Result<JobId, ClientError> {
        let JobOutput::Folder(target) = &spec.output else {
            return Err(ClientError::Usage(
                "a detached job needs an output folder: nobody waits for its results".into(),
            ));
        };
        spec.check_functions()?;
        spec.check_errors()?;
        let inputs = layout::read(self, &spec).await?;
        spec.check_rows(&inputs)?;
        let spec = whole_keys::spread(self, spec.clone(), &inputs).await?;
        let side = side_files::pin_side_files(self, &spec).await?;
        let folder = output::claim(self, target).await?;
        let request = AdmitJobRequest { title: spec.title.clone(), output: Some(target.clone()) };
        let Admitted { job, nodes, links } = self.ask(request).await?;
        let (plan, nodes) = (spec.plan(job, links), nodes.iter().map(node_plan).collect::<Vec<_>>());
        let journal = folder.journal(job)?;
        let begun = async {
            // A plan that cannot work is refused now, and not later by a driver that reports to nobody.
            Job::new(Now::default(), plan.clone(), inputs.clone(), &nodes).map_err(|error| error.refusal())?;
            let spec = JobSpec { inputs: Vec::new(), zipped_inputs: Vec::new(), ..spec.clone() };
            Journal::create(self, &journal, &JournalHead { spec, plan, inputs, nodes, folder, side_files: side })
                .await?;
            let keys = (0..limits::DRIVERS_MAX).map(|_| DriverKey(random())).collect();
            self.ask(DetachJobRequest { job, journal: journal.clone(), keys }).await
        };
        match begun.await {
            Ok(()) => Ok(job),
            Err(error) => {
                self.give_up(job, &spec, &error).await;
                // Best effort, like the report.
                let _ = self.remove_now(&journal, true).await;
                Err(error)
            }
        }
    }

    /// Drives a detached job, from the state in its journal to its end, as the node does that the master has chosen.
    ///
    /// # Errors
    /// Why the job has no output; its record says it too. If another driver has taken over: `Refused` or `Exists`, and
    /// nothing was changed.
    pub async fn drive_job(&self, job: JobId, journal: &SectorPath) -> Result<(), ClientError> {
        // Unchanged: what the driver before has reported is not withdrawn.
        let record = self.job(job).await?;
        let report = || self.ask(ReportJobRequest(record.clone()));
        let alive = async {
            loop {
                report().await?;
                tokio::time::sleep(REPORT_PERIOD).await;
            }
        };
        let read = tokio::select! {
            read = Journal::read(self, journal) => match read {
                Ok(read) => read,
                Err(error) => return Err(self.give_up_unread(&record, error).await),
            },
            // A long journal takes a while; without reports the master would believe this driver gone.
            error = alive => return error,
        };
        let admitted = report().await?;
        let ReadJournal { journal, spec, side_files: side, folder, replay, pages } = read;
        let span = tracing::info_span!("job", job = %admitted.job);
        let driver = Driver::new(self.clone(), spec, side, Some(folder), admitted, |_| ());
        // A driver's future is large; it is not moved around.
        Box::pin(driver.take_over(journal, replay, pages)).instrument(span).await
    }

    /// The journal of a job cannot be read. The first driver reports that, and the next one tries it elsewhere. If that
    /// finds the same, the job has failed. Nothing is removed, since its output may be in its place.
    async fn give_up_unread(&self, record: &JobRecord, error: ClientError) -> ClientError {
        let refusal = refusal(error);
        if PageWrite::is_out_of_reach(&refusal) {
            // If the report does not arrive, the next driver finds the same.
            let _ = self.ask(ReportJobRequest(unread(record, &refusal))).await;
        }
        refusal.into()
    }

    /// Tells the master that a job which was admitted will not begin.
    async fn give_up(&self, job: JobId, spec: &JobSpec, error: &ClientError) {
        let record = JobRecord { errors: vec![error.to_string()], ..blank_record(self, job, spec, JobState::Failed) };
        // If the report does not arrive, the job ends by itself.
        let _ = self.ask(ReportJobRequest(record)).await;
    }
}

/// The report about a job whose journal a driver could not read: that it has failed, if one before reported the same.
fn unread(record: &JobRecord, refusal: &Refusal) -> JobRecord {
    let was_tried = record.errors.iter().any(|error| error.starts_with(UNREAD));
    let state = if was_tried { JobState::Failed } else { record.state };
    // It comes first, since only a few are kept.
    let errors = [format!("{UNREAD}: {refusal}")].into_iter().chain(record.errors.clone()).collect();
    JobRecord { state, errors, ..record.clone() }
}

/// The beginning of the message of a driver that could not read a job's journal.
const UNREAD: &str = "the journal of the job cannot be read";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{Reason, UserName};

    use super::*;

    #[test]
    fn a_job_has_failed_when_a_second_driver_cannot_read_its_journal() {
        let record = JobRecord {
            job: JobId(1),
            user: UserName::new("ann").unwrap(),
            title: String::new(),
            state: JobState::Running,
            started_unix_millis: 0,
            stages: Vec::new(),
            errors: vec!["bad pixel".into()],
            error_slice: None,
            counters: Vec::new(),
            driver: None,
        };
        let refusal = Refusal::new(Reason::Unavailable, "no copy can be read now".to_owned());
        let first = unread(&record, &refusal);
        assert_eq!((first.state, first.errors.len()), (JobState::Running, 2));
        assert_eq!(unread(&first, &refusal).state, JobState::Failed);
    }
}
