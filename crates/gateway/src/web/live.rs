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

/// `GET /live`.
pub(crate) async fn live(State(web): State<Web>, caller: Caller) -> Answer {
    let events = stream::unfold((web, caller.client, false), |(web, client, has_begun)| async move {
        if has_begun {
            sleep(PERIOD).await;
        }
        let Overview { event, text, .. } = web.overviews().fresh(&client).await;
        Some((Ok::<_, Infallible>(Event::default().event(event).data(&*text)), (web, client, true)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

/// Between two events.
const PERIOD: Duration = Duration::from_secs(1);
