//! `events`: what happened in the cloud, and what happens. A gap is told, on standard error or as a document. It never
//! says that nothing was missed where something was.

use client::{
    Client,
    events::{EventItem, EventsWanted},
    views::EventView,
};
use protocol::message::{events::CloudEvent, request::EventsFrom};
use terminal::{failure::Failure, sanitize, show, show::say};

use crate::arguments::{Events, Global};

/// `sector events`.
pub(crate) async fn run(cloud: &Client, asked: Events, global: &Global) -> Result<(), Failure> {
    let Events { since, kinds, path, follow } = asked;
    let from = since.unwrap_or(if follow { EventsFrom::Now } else { EventsFrom::Since(0) });
    let asks_for_all = since.is_none();
    let mut events = cloud.events(EventsWanted { from, kinds, path, follow })?;
    let mut gathered = Vec::new();
    while let Some(item) = events.next().await? {
        match (&item, global.json) {
            // Nobody expects that all events since the beginning of the cloud are kept.
            (EventItem::Gap(_), _) if asks_for_all && !follow => {}
            (_, true) if follow => show::line(document(&item)?),
            (_, true) => gathered.push(EventView::from(&item)),
            (EventItem::Gap(gap), false) => {
                say!("sector: events are missing here: the first that is kept has the number {}", gap.first);
            }
            (EventItem::Event(event), false) => show::line(in_words(event)),
        }
    }
    if global.json { show::json(&gathered) } else { Ok(()) }
}

fn document(item: &EventItem) -> Result<String, Failure> {
    serde_json::to_string(&EventView::from(item))
        .map_err(|error| Failure::failed(format!("cannot print JSON: {error}")))
}

/// A line for people.
fn in_words(event: &CloudEvent) -> String {
    let fields = &event.fields;
    let mut words = vec![
        event.number.to_string(),
        show::exact_time(event.unix_millis),
        event.kind.as_str().to_owned(),
        event.subject.clone(),
    ];
    words.extend(fields.from.as_ref().map(|from| format!("from {from}")));
    words.extend(fields.state.clone());
    words.extend(fields.node.as_ref().map(|node| format!("at {node}")));
    words.extend(fields.count.map(|count| format!("count {count}")));
    words.extend(fields.bytes.map(show::size));
    words.extend(fields.user.as_ref().map(|user| format!("by {user}")));
    words.extend(fields.cause.as_ref().map(|cause| format!("({cause})")));
    sanitize(&words.join(" ")).into_owned()
}
