//! What is going on, as server-sent events: once a second the state of the cloud, as the page shows it. A master that is
//! away is said, and asked again. It never ends by itself.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use tokio::time::sleep;

use super::{Web, answer::Answer, caller::Caller, overviews::Overview};
use crate::counts::Lasting;

/// `GET /live`.
pub(crate) async fn live(State(web): State<Web>, caller: Caller) -> Answer {
    let held = web.counts().hold(Lasting::LiveStream);
    let events = stream::unfold((web, caller.client, None, held), |(web, client, before, held)| async move {
        if before.as_ref().is_some_and(Overview::is_last) {
            return None;
        }
        if before.is_some() {
            sleep(PERIOD).await;
        }
        let now = web.overviews().fresh(&client).await;
        let event = Event::default().event(now.event()).data(now.since(before.as_ref()));
        Some((Ok::<_, Infallible>(event), (web, client, Some(now), held)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

/// Between two events.
const PERIOD: Duration = Duration::from_secs(1);
