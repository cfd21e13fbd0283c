//! The request for what happened in the cloud. One paragraph: what it is, its reply, its properties. This file never
//! handles it.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by};
use crate::{
    SectorPath,
    message::{
        client_reply::ClientReply,
        events::{EventKind, EventPage},
    },
};

/// Events after some place, those that the user may hear of. Without any it waits a little, where asked to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsRequest {
    /// Where to begin.
    pub from: EventsFrom,
    /// Of these kinds alone; of all if there are none.
    pub kinds: Vec<EventKind>,
    /// Of paths at and below this one alone. Events of nodes, jobs and the cloud are then left out.
    pub below: Option<SectorPath>,
    /// How long to wait for an event, at most [`EVENTS_WAIT_MILLIS_MAX`](crate::message::events::EVENTS_WAIT_MILLIS_MAX).
    /// A master with too many readers that wait answers at once.
    pub wait_millis: u32,
}

/// A place in the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventsFrom {
    /// Only what happens from now on: the answer has no events, but the number of the last one.
    Now,
    /// After the event of this number.
    After(u64),
    /// The first that is not older than this, in milliseconds since the Unix epoch.
    Since(u64),
}

impl TypedRequest for EventsRequest {
    answered_by!(EventPage, ClientReply::Events(page) => page);

    fn properties(&self) -> Properties<'_> {
        Properties::new("events", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at events", "")
    }
}
