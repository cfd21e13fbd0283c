//! Vectors of events: the request, and a page with every field. They never leave out a field.

use super::{digest, node, path, user};
use crate::{
    Version,
    message::{
        events::{CloudEvent, EventFields, EventGap, EventKind, EventPage},
        request::{EventsFrom, EventsRequest},
    },
};

pub(super) fn asked() -> EventsRequest {
    EventsRequest {
        from: EventsFrom::After(1_700_000_000_000_007),
        kinds: vec![EventKind::FilePublished, EventKind::HealthChanged],
        below: Some(path()),
        wait_millis: 5_000,
    }
}

pub(super) fn page() -> EventPage {
    let event = CloudEvent {
        number: 1_700_000_000_000_009,
        unix_millis: 1_700_000_000_321,
        kind: EventKind::EntryRenamed,
        subject: path().to_string(),
        fields: EventFields {
            user: Some(user()),
            version: Some(Version(7)),
            bytes: Some(4_096),
            digest: Some(digest()),
            from: Some(path()),
            node: Some(node()),
            cause: Some("lifetime".into()),
            count: Some(3),
            state: Some("healthy".into()),
        },
    };
    let gap = EventGap { after: Some(1_700_000_000_000_007), first: 1_700_000_000_000_009 };
    EventPage { gap: Some(gap), events: vec![event], last: 1_700_000_000_000_010, more: true }
}
