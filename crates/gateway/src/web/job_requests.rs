//! Requests about jobs: which there are, how far, what went wrong; and to cancel one. They never schedule a task.

use axum::extract::Path;
use client::{
    JobId, JobState, UserName,
    views::{AttemptView, JobView, LogsView},
};
use serde::Deserialize;

use super::{
    answer::{Answer, ApiError, document, done},
    ask::Asked,
    caller::Caller,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobsQuery {
    user: Option<UserName>,
    state: Option<String>,
    limit: Option<usize>,
}

pub(crate) async fn jobs(caller: Caller, Asked(query): Asked<JobsQuery>) -> Answer {
    let state = query.state.as_deref().map(|state| {
        JobState::ALL.into_iter().find(|known| known.as_str() == state).ok_or_else(|| {
            let names = JobState::ALL.map(JobState::as_str).join(", ");
            ApiError::invalid(format!("`{state}` is no state of a job; these are: {names}"))
        })
    });
    let state = state.transpose()?;
    let jobs = match (query.user, state) {
        (None, None) => caller.client.jobs().await?,
        (user, state) => caller.client.find_jobs(user, state).await?,
    };
    document(&jobs.iter().take(query.limit.unwrap_or(usize::MAX)).map(JobView::from).collect::<Vec<_>>())
}

pub(crate) async fn job(caller: Caller, Path(job): Path<String>) -> Answer {
    document(&JobView::from(&caller.client.job(id(&job)?).await?))
}

pub(crate) async fn segments(caller: Caller, Path(job): Path<String>) -> Answer {
    let history = caller.client.job_history(id(&job)?).await?;
    document(&history.attempts.into_iter().map(AttemptView::from).collect::<Vec<_>>())
}

pub(crate) async fn logs(caller: Caller, Path(job): Path<String>) -> Answer {
    document(&LogsView::from(&caller.client.job_logs(id(&job)?).await?))
}

/// The lines of the error slice, or the one error that ended the job.
pub(crate) async fn errors(caller: Caller, Path(job): Path<String>) -> Answer {
    let record = caller.client.job(id(&job)?).await?;
    match record.error_slice {
        Some(_) => document(&caller.client.job_errors(record.job).await?),
        None => document(&record.errors),
    }
}

pub(crate) async fn cancel(caller: Caller, Path(job): Path<String>) -> Answer {
    caller.session()?;
    caller.client.cancel_job(id(&job)?).await?;
    done()
}

fn id(text: &str) -> Result<JobId, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(format!("`{text}` is no job; jobs have 16 hexadecimal digits")))
}
