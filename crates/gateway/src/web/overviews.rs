//! The state of the cloud as the first page shows it. Browsers of one user share the questions to the master. It never
//! gives one user what was answered to another.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use client::{
    Client, JobState, UserName,
    views::{HealthView, JobView, NodeView, WorkView, load_page},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::answer::ApiError;

/// The last overview of each user who looks.
#[derive(Default)]
pub(crate) struct Overviews {
    by_user: Mutex<HashMap<UserName, Arc<tokio::sync::Mutex<Option<Overview>>>>>,
}

/// One of them.
#[derive(Clone)]
pub(super) struct Overview {
    made: Instant,
    /// The name of its event.
    pub(super) event: &'static str,
    /// As JSON text.
    pub(super) text: Arc<str>,
}

impl Overviews {
    /// One that is fresh, made by whoever asks first.
    pub(super) async fn fresh(&self, client: &Client) -> Overview {
        let place = {
            let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
            // Of users at whom nobody looks any more, nothing stays.
            by_user.retain(|user, place| user == client.user() || Arc::strong_count(place) > 1);
            Arc::clone(by_user.entry(client.user().clone()).or_default())
        };
        let mut place = place.lock().await;
        if let Some(known) = place.as_ref().filter(|known| known.made.elapsed() < FRESH) {
            return known.clone();
        }
        let (event, value) = match timeout(ANSWER_MAX, overview(client)).await {
            Ok(Ok(value)) => ("overview", value),
            Ok(Err(error)) => ("unreachable", error.view()),
            Err(_) => ("unreachable", json!({"message": "the master does not answer"})),
        };
        let new = Overview { made: Instant::now(), event, text: value.to_string().into() };
        *place = Some(new.clone());
        new
    }
}

/// Everything that the first page shows.
async fn overview(client: &Client) -> Result<Value, ApiError> {
    let (health, nodes, load, jobs, work) =
        tokio::try_join!(client.health_report(), client.nodes(), client.load(0), client.jobs(), client.work(),)?;
    let recent = |(at, job): (usize, client::JobRecord)| {
        (at < JOBS_SHOWN || job.state == JobState::Running).then(|| JobView::from(&job))
    };
    Ok(json!({
        "health": HealthView::from(health),
        "nodes": nodes.into_iter().map(NodeView::from).collect::<Vec<_>>(),
        "time": client::views::rfc3339(load.unix_millis),
        "load": load_page(&load),
        "links": [],
        "jobs": jobs.into_iter().enumerate().filter_map(recent).collect::<Vec<_>>(),
        "work": work.iter().map(WorkView::from).collect::<Vec<_>>(),
    }))
}

/// How old an overview may be; less than the period, so that one browser alone sees each second.
const FRESH: Duration = Duration::from_millis(900);
/// How long the master may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Of the jobs that have ended.
const JOBS_SHOWN: usize = 20;
