//! A job in the foreground: it is driven with a progress bar, and cancelled when its user interrupts it. The client
//! library is the driver; this file never schedules a task.

use std::sync::OnceLock;

use client::{
    Client,
    job::{JobOutcome, JobSpec},
};

use crate::{Failure, Global, interrupted, show::Meter};

/// Drives a job with a progress bar. An interruption cancels it and waits until it has cleaned up.
///
/// # Errors
/// When the job fails, or is interrupted.
pub async fn drive(cloud: &Client, spec: JobSpec, what: &str, global: &Global) -> Result<JobOutcome, Failure> {
    let meter = Meter::start(what, 0, global);
    let admitted = OnceLock::new();
    let driving = cloud.run_job(spec, |progress| {
        // The first progress report tells which job it is.
        let _ = admitted.set(progress.job);
        meter.set_waiting_for(progress.waits_for.as_ref().map(|what| format!("waiting: {what}")));
        meter.set(progress.bytes_done, progress.bytes_total);
    });
    tokio::pin!(driving);
    let ended = tokio::select! {
        ended = &mut driving => ended,
        signal = interrupted() => match admitted.get() {
            Some(job) => {
                cloud.cancel_job(*job).await?;
                // The job ends with an error, after it has cleaned up.
                let _ = driving.await;
                return Err(signal.failure(format!("interrupted; job {job} was cancelled")));
            }
            None => return Err(signal.failure("interrupted before the job had begun")),
        },
    };
    meter.finish();
    Ok(ended?)
}
