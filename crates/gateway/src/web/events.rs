//! What happened in the cloud: a page of events as JSON, or server-sent events that go on. A browser or program that comes
//! back names the last number it has seen, in `Last-Event-ID`. It never leaves out a gap.

use std::{
    collections::VecDeque,
    convert::Infallible,
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    extract::State,
    response::{
        IntoResponse,
        sse::{Event, KeepAlive, Sse},
    },
};
use client::{
    EventKind, EventsFrom,
    events::{EventItem, EventStream, EventsWanted},
    views::{EventView, parse_rfc3339},
};
use futures_util::stream;
use http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::json;

use super::{
    Web,
    answer::{Answer, ApiError, document},
    ask::Asked,
    caller::Caller,
};
use crate::counts::{Held, Lasting};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    since: Option<String>,
    kind: Option<String>,
    path: Option<String>,
}

/// `GET /events`.
pub(crate) async fn events(
    State(web): State<Web>,
    caller: Caller,
    Asked(query): Asked<EventsQuery>,
    headers: HeaderMap,
) -> Answer {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let follow = text(header::ACCEPT.as_str()).is_some_and(|accept| accept.contains("text/event-stream"));
    // What has been seen says more than the address with which it all began.
    let seen = text(LAST_EVENT_ID).filter(|_| follow).filter(|text| !text.is_empty());
    let from = match (seen, &query.since) {
        (Some(text), _) => {
            let number =
                text.parse().map_err(|_| ApiError::invalid(format!("`{LAST_EVENT_ID}: {text}` is no number")))?;
            EventsFrom::After(number)
        }
        (None, Some(text)) => since(text)?,
        (None, None) if follow => EventsFrom::Now,
        (None, None) => EventsFrom::Since(0),
    };
    let kinds = query.kind.iter().flat_map(|kinds| kinds.split(',')).filter(|kind| !kind.is_empty());
    let kinds =
        kinds.map(|kind| kind.parse::<EventKind>()).collect::<Result<Vec<_>, _>>().map_err(ApiError::invalid)?;
    let mut events = caller.client.events(EventsWanted { from, kinds, path: query.path, follow })?;
    if follow {
        let held = web.counts().hold(Lasting::EventStream);
        return Ok(Sse::new(sent(events, held)).keep_alive(KeepAlive::default()).into_response());
    }
    events.fill().await?;
    let items = events.take_queued();
    let views: Vec<_> = items.iter().map(EventView::from).collect();
    document(&json!({"events": views, "last": events.position(), "more": events.has_more()}))
}

/// A number, an RFC 3339 time, or how long ago in seconds with a unit.
fn since(text: &str) -> Result<EventsFrom, ApiError> {
    if let Ok(number) = text.parse() {
        return Ok(EventsFrom::After(number));
    }
    if let Some(millis) = parse_rfc3339(text) {
        return Ok(EventsFrom::Since(millis));
    }
    let wrong = || {
        ApiError::invalid(format!(
            "`since={text}` is no place: give a number, how long ago (10m), or a time (2026-01-31T08:00:00Z)"
        ))
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    Ok(EventsFrom::Since(now.saturating_sub(count.saturating_mul(seconds).saturating_mul(1_000))))
}

/// What a stream still has to send, and up to where it has.
struct Sending {
    events: EventStream,
    queued: VecDeque<EventItem>,
    told: Option<u64>,
    is_over: bool,
    /// Counts it as long as it goes on.
    _held: Held,
}

fn sent(events: EventStream, held: Held) -> impl stream::Stream<Item = Result<Event, Infallible>> {
    let state = Sending { events, queued: VecDeque::new(), told: None, is_over: false, _held: held };
    stream::unfold(state, |mut state| async move {
        loop {
            if state.is_over {
                return None;
            }
            if let Some(item) = state.queued.pop_front() {
                let view = EventView::from(&item);
                state.told = Some(view.number);
                let event = Event::default().id(view.number.to_string()).event(view.kind);
                let event = event.data(serde_json::to_string(&view).unwrap_or_default());
                return Some((Ok(event), state));
            }
            // An id without data: the browser comes back with it, and no event is seen. Else it would come back with the
            // number of an old event, when all since were of other kinds.
            let position = state.events.position();
            if position > state.told {
                state.told = position;
                return Some((Ok(Event::default().id(position.unwrap_or(0).to_string())), state));
            }
            match state.events.fill().await {
                Ok(_) => state.queued.extend(state.events.take_queued()),
                Err(error) => {
                    state.is_over = true;
                    let event = Event::default().event("error").data(ApiError::from(error).view().to_string());
                    return Some((Ok(event), state));
                }
            }
        }
    })
}

/// The header with which a reader of server-sent events comes back.
const LAST_EVENT_ID: &str = "last-event-id";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_page_knows_every_kind_of_event() {
        let page = include_str!("../../page/events.js");
        for kind in EventKind::ALL {
            assert!(page.contains(&format!("'{}'", kind.as_str())), "{kind:?}");
        }
    }

    #[test]
    fn a_place_is_a_number_a_time_or_how_long_ago_it_was() {
        assert_eq!(since("17").unwrap(), EventsFrom::After(17));
        assert_eq!(since("1970-01-01T00:00:07.000Z").unwrap(), EventsFrom::Since(7_000));
        assert!(matches!(since("10m").unwrap(), EventsFrom::Since(millis) if millis > 0));
        for wrong in ["", "m", "soon", "-1m", "10\u{e4}"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
