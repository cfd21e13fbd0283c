//! The state of the cloud as the first page shows it. Browsers of one user share the questions to the master. It never
//! gives one user what was answered to another.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use client::{
    Client, ClientError, JobState, Reason, UserName, WorkRow,
    views::{HealthView, JobView, MarkView, WorkView, links_page, load_page, marked_nodes},
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
    event: &'static str,
    /// Its parts as JSON text, by name.
    parts: Arc<BTreeMap<String, String>>,
    /// Whether the user must log in again before there is another one.
    is_last: bool,
}

impl Overview {
    /// The name of its event.
    pub(super) fn event(&self) -> &'static str {
        self.event
    }

    /// Whether no other follows.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Its JSON, without the parts that were the same before: of a thousand nodes most say nothing new.
    pub(super) fn since(&self, before: Option<&Self>) -> String {
        let before = before.filter(|before| before.event == self.event);
        let is_new =
            |name: &str, text: &str| before.is_none_or(|before| before.parts.get(name).is_none_or(|it| it != text));
        let parts = self.parts.iter().filter(|(name, text)| is_new(name, text));
        let fields = parts.map(|(name, text)| format!("\"{name}\":{text}")).collect::<Vec<_>>();
        format!("{{{}}}", fields.join(","))
    }

    fn new(event: &'static str, value: Value, is_last: bool) -> Self {
        let parts = match value {
            Value::Object(parts) => parts.into_iter().map(|(name, value)| (name, value.to_string())).collect(),
            _ => BTreeMap::new(),
        };
        Self { made: Instant::now(), event, parts: Arc::new(parts), is_last }
    }
}

impl Overviews {
    /// One that is fresh, made by whoever asks first.
    pub(super) async fn fresh(&self, client: &Client) -> Overview {
        let place = {
            let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
            // Of users at whom nobody looks any more, nothing stays. One whose answer is under way is looked at.
            let is_old = |place: &Overview| place.made.elapsed() >= KEPT;
            by_user.retain(|_, place| place.try_lock().map_or(true, |place| !place.as_ref().is_some_and(is_old)));
            Arc::clone(by_user.entry(client.user().clone()).or_default())
        };
        let mut place = place.lock().await;
        if let Some(known) = place.as_ref().filter(|known| known.made.elapsed() < FRESH) {
            return known.clone();
        }
        let new = match timeout(ANSWER_MAX, overview(client)).await {
            Ok(Ok(value)) => Overview::new("overview", value, false),
            Ok(Err(error)) => Overview::new("unreachable", error.view(), error.is_about_login()),
            Err(_) => Overview::new("unreachable", json!({"message": "the master does not answer"}), false),
        };
        *place = Some(new.clone());
        new
    }
}

/// Everything that the first page shows.
async fn overview(client: &Client) -> Result<Value, ApiError> {
    let (health, nodes, load, links, marks, jobs, work) = tokio::try_join!(
        client.health_report(),
        client.nodes(),
        client.load(0),
        client.links(0),
        client.marks(),
        client.jobs(),
        work_of(client)
    )?;
    let recent = |(at, job): (usize, client::JobRecord)| {
        (at < JOBS_SHOWN || job.state == JobState::Running).then(|| JobView::from(&job))
    };
    Ok(json!({
        "health": HealthView::from(health),
        "nodes": marked_nodes(nodes, &marks),
        "time": client::views::rfc3339(load.unix_millis),
        "load": load_page(&load),
        "links": links_page(&links),
        "marks": marks.iter().map(MarkView::from).collect::<Vec<_>>(),
        "jobs": jobs.into_iter().enumerate().filter_map(recent).collect::<Vec<_>>(),
        "work": work.iter().map(WorkView::from).collect::<Vec<_>>(),
    }))
}

/// Background work, of which only administrators hear.
async fn work_of(client: &Client) -> Result<Vec<WorkRow>, ClientError> {
    match client.work().await {
        Err(error) if error.reason() == Reason::NoRight => Ok(Vec::new()),
        work => work,
    }
}

/// How old an overview may be; less than the period, so that one browser alone sees each second.
const FRESH: Duration = Duration::from_millis(900);
/// How long one is kept after the last look.
const KEPT: Duration = Duration::from_secs(10);
/// How long the master may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Of the jobs that have ended.
const JOBS_SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_sent_again() {
        let first = Overview::new("overview", json!({"jobs": [], "time": "1"}), false);
        let second = Overview::new("overview", json!({"jobs": [], "time": "2"}), false);
        assert_eq!(first.since(None), r#"{"jobs":[],"time":"1"}"#);
        assert_eq!(second.since(Some(&first)), r#"{"time":"2"}"#);
        assert_eq!(second.since(Some(&second)), "{}");
        let away = Overview::new("unreachable", json!({"message": "x"}), false);
        assert_eq!(second.since(Some(&away)), r#"{"jobs":[],"time":"2"}"#, "all, after a pause");
    }
}
