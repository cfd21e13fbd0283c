//! The ring of events: its bounds, and its pages.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use protocol::{UserName, message::events::EventFields};

use super::*;
use crate::{StoredRow, log::events::event_loader::EventLoader};

const JOURNAL: JournalId = JournalId(7);

fn now(unix_millis: u64) -> Now {
    Now { monotonic: std::time::Duration::ZERO, unix_millis }
}

fn user() -> UserRights {
    UserRights { user: UserName::new("ann").unwrap(), groups: Vec::new(), admin: false }
}

fn published(unix_millis: u64, subject: &str) -> StoredEvent {
    let event = CloudEvent {
        number: 0,
        unix_millis,
        kind: EventKind::FilePublished,
        subject: subject.into(),
        fields: EventFields::default(),
    };
    StoredEvent { event, audience: Audience::Everyone, former: None }
}

fn asked(from: EventsFrom) -> EventsRequest {
    EventsRequest { from, kinds: Vec::new(), below: None, wait_millis: 0 }
}

/// A log, and the rows of its journal.
struct Kept {
    log: EventLog,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Kept {
    fn new() -> Self {
        let (events, row) = EventLoader::default().finish(now(1_000), JOURNAL);
        let mut kept = Self { log: events.log, rows: BTreeMap::new() };
        kept.save(row.into_iter().collect());
        kept
    }

    fn save(&mut self, rows: Vec<RowChange>) {
        for row in rows {
            let RowChange::Set { key, value, .. } = row else { panic!("a row of events is never removed") };
            self.rows.insert(key, value);
        }
    }

    fn add(&mut self, events: impl IntoIterator<Item = StoredEvent>) {
        events.into_iter().for_each(|event| self.log.note(event));
        let (rows, next) = self.log.take_rows();
        self.save(rows);
        self.log.note_durable(next);
    }

    fn reload(&mut self) {
        let mut loader = EventLoader::default();
        for (key, value) in &self.rows {
            let row = StoredRow { table: EVENTS_TABLE, key: key.clone(), value: value.clone() };
            loader.add_row(&row.key, &row.value);
        }
        let (events, row) = loader.finish(now(9_000), JOURNAL);
        assert!(row.is_none());
        self.log = events.log;
    }
}

#[test]
fn the_ring_keeps_the_newest_and_its_rows_never_grow_beyond_it() {
    let mut kept = Kept::new();
    let first = kept.log.last() + 1;
    let total = EVENTS_MAX + 1_000;
    kept.add((0..total).map(|at| published(at, "/f")));
    assert_eq!(kept.rows.len() as u64, EVENTS_MAX + 1, "and one row that says where the numbers begin");
    for _ in 0..2 {
        let page = kept.log.page(&user(), &asked(EventsFrom::After(first)));
        assert_eq!(page.gap, Some(EventGap { after: Some(first), first: first + 1_000 }));
        assert_eq!((page.events.len(), page.events[0].number), (EVENTS_PAGE_MAX, first + 1_000));
        assert_eq!(page.events[0].unix_millis, 1_000, "each with its own content");
        assert_eq!(kept.log.last(), first + total - 1);
        let reached = kept.log.page(&user(), &asked(EventsFrom::After(first + 999)));
        assert_eq!(reached.gap, None, "just not too late");
        kept.reload();
    }
}

#[test]
fn long_paths_do_not_take_more_memory_than_is_meant() {
    let mut kept = Kept::new();
    let long = format!("/{}", "x".repeat(60_000));
    kept.add((0..3_000).map(|at| published(at, &long)));
    assert!(kept.log.bytes <= EVENTS_BYTES_MAX && kept.log.kept.len() > 1_000, "{}", kept.log.kept.len());
    let page = kept.log.page(&user(), &asked(EventsFrom::Since(0)));
    assert!(page.gap.is_some() && page.more);
    let bytes: usize = page.events.iter().map(|event| event.subject.len()).sum();
    assert!(bytes <= PAGE_BYTES_MAX + long.len(), "a page fits into a message");
}

#[test]
fn a_reader_that_wants_little_is_led_through_much_in_steps() {
    let mut kept = Kept::new();
    let start = kept.log.last();
    kept.add((0..20_000).map(|at| published(at, if at == 19_999 { "/wanted" } else { "/f" })));
    let (mut from, mut pages) = (start, 0);
    let found = loop {
        let wanted = EventsRequest {
            below: Some(protocol::SectorPath::parse("/wanted").unwrap()),
            ..asked(EventsFrom::After(from))
        };
        let page = kept.log.page(&user(), &wanted);
        pages += 1;
        from = page.last;
        if !page.more {
            break page.events;
        }
    };
    assert_eq!((found.len(), found[0].subject.as_str()), (1, "/wanted"));
    assert_eq!(pages, 3);
}

#[test]
fn a_time_leads_to_the_first_event_that_is_not_older() {
    let mut kept = Kept::new();
    kept.add([10, 20, 30].map(|at| published(at, "/f")));
    let times = |log: &EventLog, since| {
        let page = log.page(&user(), &asked(EventsFrom::Since(since)));
        (page.gap, page.events.iter().map(|event| event.unix_millis).collect::<Vec<_>>())
    };
    assert_eq!(times(&kept.log, 20), (None, vec![20, 30]));
    assert_eq!(times(&kept.log, 0), (None, vec![10, 20, 30]), "nothing was there before");
    assert_eq!(times(&kept.log, 31), (None, vec![]));
}

#[test]
fn a_journal_under_another_id_begins_with_a_larger_number() {
    let mut kept = Kept::new();
    kept.add([published(1, "/f")]);
    let last = kept.log.last();
    let row = kept.log.begin_anew(now(1_000), JournalId(8));
    assert_eq!(kept.log.last(), last.max(first_number(now(1_000)) - 1), "the clock has not moved: it only grows");
    kept.save(vec![row]);
    kept.add([published(2, "/g")]);
    let page = kept.log.page(&user(), &asked(EventsFrom::Since(0)));
    assert_eq!((page.gap.is_some(), page.events.len()), (true, 1));
    let (events, _) = {
        let mut loader = EventLoader::default();
        kept.rows.iter().for_each(|(key, value)| loader.add_row(key, value));
        loader.finish(now(2_000), JournalId(8))
    };
    assert_eq!(events.log.last(), kept.log.last());
}
