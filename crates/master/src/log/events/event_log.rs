//! The record of events: a ring of rows in the journal, and the same rows in memory. Serves `sector events`. Numbers only
//! grow. After a lost or an old journal they go on from the clock, and a reader is told of a gap. It never shows an event
//! that a crash could take back.

use std::collections::{BTreeMap, VecDeque};

use protocol::{
    JournalId, Now,
    message::{
        events::{CloudEvent, EVENTS_PAGE_MAX, EventGap, EventKind, EventPage},
        master_security::UserRights,
        request::{EventsFrom, EventsRequest},
    },
};
use serde::{Deserialize, Serialize};
use store::RowChange;

use super::audience::Audience;
use crate::{
    actions::EVENTS_TABLE,
    catalog::namespace::{decode_row, encode_row},
};

/// The events, those that are kept.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// By number, without a hole; the last has the number before `next`.
    kept: VecDeque<KeptEvent>,
    /// Bytes of their rows.
    bytes: usize,
    next: u64,
    /// The number of the first event that is not durable yet.
    told: u64,
    begin: EventsBegin,
    /// Happened, and not in a batch of rows yet.
    noted: Vec<StoredEvent>,
    /// Numbered since the start, by kind.
    written: BTreeMap<EventKind, u64>,
}

/// An event with those who may hear of it, as its row has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredEvent {
    pub(crate) event: CloudEvent,
    pub(crate) audience: Audience,
    /// Of a renamed entry: those who may know its former path.
    pub(crate) former: Option<Audience>,
}

/// Where the numbers of a journal begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventsBegin {
    pub(crate) journal: JournalId,
    pub(crate) first: u64,
    /// Whether there were events before that are not known any more.
    pub(crate) is_after_loss: bool,
}

/// An event in memory.
#[derive(Debug)]
pub(crate) struct KeptEvent {
    pub(crate) unix_millis: u64,
    pub(crate) kind: EventKind,
    pub(crate) row: Box<[u8]>,
}

impl EventLog {
    /// These events, which follow each other up to the number before `next`.
    pub(crate) fn new(begin: EventsBegin, kept: Vec<KeptEvent>, next: u64) -> Self {
        let bytes = kept.iter().map(|event| event.row.len()).sum();
        let mut log =
            Self { kept: kept.into(), bytes, next, told: next, begin, noted: Vec::new(), written: BTreeMap::new() };
        log.forget_oldest();
        log
    }

    /// Takes an event that goes with the next rows that are saved. Its number is given then.
    pub(crate) fn note(&mut self, event: StoredEvent) {
        self.noted.push(event);
    }

    /// Whether an event waits for the next rows.
    pub(crate) fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Numbers the events that were noted; returns their rows, and the number after them.
    pub(crate) fn take_rows(&mut self) -> (Vec<RowChange>, u64) {
        let mut rows = Vec::with_capacity(self.noted.len());
        for mut stored in std::mem::take(&mut self.noted) {
            stored.event.number = self.next;
            self.next += 1;
            let value = encode_row(&stored);
            let (unix_millis, kind) = (stored.event.unix_millis, stored.event.kind);
            *self.written.entry(kind).or_default() += 1;
            self.bytes += value.len();
            self.kept.push_back(KeptEvent { unix_millis, kind, row: value.clone().into() });
            rows.push(RowChange::Set { table: EVENTS_TABLE, key: slot_key(stored.event.number), value });
        }
        self.forget_oldest();
        (rows, self.next)
    }

    /// The events before this number are durable. Returns whether that is news.
    pub(crate) fn note_durable(&mut self, next: u64) -> bool {
        let is_news = next > self.told;
        self.told = self.told.max(next);
        is_news
    }

    /// The journal goes on under another id, since nodes know more than it had. Readers may have seen other events under
    /// the next numbers. Returns the row that says so.
    pub(crate) fn begin_anew(&mut self, now: Now, journal: JournalId) -> RowChange {
        self.next = self.next.max(first_number(now));
        self.told = self.next;
        self.kept.clear();
        self.bytes = 0;
        self.begin = EventsBegin { journal, first: self.next, is_after_loss: true };
        begin_row(&self.begin)
    }

    /// The number of the last event that may be told.
    pub(crate) fn last(&self) -> u64 {
        self.told - 1
    }

    /// A page for a user, from a request that begins anywhere.
    pub(crate) fn page(&self, by: &UserRights, asked: &EventsRequest) -> EventPage {
        let (start, gap) = self.start(asked.from);
        let mut page = EventPage { gap, events: Vec::new(), last: start - 1, more: false };
        let mut bytes = 0;
        let scan_end = self.told.min(start.saturating_add(SCAN_MAX));
        for number in start..scan_end {
            let Some(kept) = self.kept.get((number - self.first()) as usize) else { break };
            if page.events.len() == EVENTS_PAGE_MAX || bytes >= PAGE_BYTES_MAX {
                break;
            }
            page.last = number;
            // A renamed entry may be a removed one for this user.
            let is_asked = asked.kinds.is_empty()
                || asked.kinds.contains(&kept.kind)
                || (kept.kind == EventKind::EntryRenamed && asked.kinds.contains(&EventKind::EntryRemoved));
            if !is_asked {
                continue;
            }
            if let Some(event) = decode_row::<StoredEvent>(&kept.row).and_then(|stored| stored.shown_to(by))
                && event.is_wanted(asked)
            {
                bytes += kept.row.len();
                page.events.push(event);
            }
        }
        page.more = page.last < self.last();
        page
    }

    /// How many were written since the start, by kind.
    pub(crate) fn written(&self) -> &BTreeMap<EventKind, u64> {
        &self.written
    }

    /// The number with which a reader goes on, and what it has missed.
    fn start(&self, from: EventsFrom) -> (u64, Option<EventGap>) {
        let first = self.first();
        match from {
            EventsFrom::Now => (self.told, None),
            // It has seen numbers of a life that the journal does not know.
            EventsFrom::After(number) if number >= self.told => {
                (self.told, Some(EventGap { after: Some(number), first: self.told }))
            }
            EventsFrom::After(number) if number + 1 < first => (first, Some(EventGap { after: Some(number), first })),
            EventsFrom::After(number) => (number + 1, None),
            EventsFrom::Since(unix_millis) => {
                // The clock may have jumped: so not a search by halves.
                let skipped = self.kept.iter().take_while(|event| event.unix_millis < unix_millis).count();
                let is_incomplete = first > self.begin.first || self.begin.is_after_loss;
                let gap = (skipped == 0 && is_incomplete).then_some(EventGap { after: None, first });
                ((first + skipped as u64).min(self.told), gap)
            }
        }
    }

    fn first(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    fn forget_oldest(&mut self) {
        while self.kept.len() as u64 > EVENTS_MAX || self.bytes > EVENTS_BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.bytes -= oldest.row.len();
        }
    }
}

impl StoredEvent {
    /// The event as a user may see it. An entry that was moved to where they may not look was removed for them.
    fn shown_to(self, by: &UserRights) -> Option<CloudEvent> {
        let Self { mut event, audience, former } = self;
        let Some(former) = former else { return audience.has(by).then_some(event) };
        match (audience.has(by), former.has(by)) {
            (true, true) => Some(event),
            (true, false) => {
                event.fields.from = None;
                Some(event)
            }
            (false, true) => {
                event.subject = event.fields.from.take()?.to_string();
                event.kind = EventKind::EntryRemoved;
                Some(event)
            }
            (false, false) => None,
        }
    }
}

/// What a reader asks for.
trait Wanted {
    fn is_wanted(&self, asked: &EventsRequest) -> bool;
}

impl Wanted for CloudEvent {
    fn is_wanted(&self, asked: &EventsRequest) -> bool {
        let is_below = |path: &str| {
            asked.below.as_ref().is_none_or(|below| {
                below.is_root() && path.starts_with('/')
                    || path.strip_prefix(below.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        (asked.kinds.is_empty() || asked.kinds.contains(&self.kind))
            && (is_below(&self.subject) || self.fields.from.as_ref().is_some_and(|from| is_below(from.as_str())))
    }
}

/// The first number of a journal that knows of no number. At less than a million events a second it is larger than all
/// before. It is exact in a JSON number.
pub(super) fn first_number(now: Now) -> u64 {
    now.unix_millis.saturating_mul(1_000).max(1)
}

/// The row that says where the numbers begin.
pub(super) fn begin_row(begin: &EventsBegin) -> RowChange {
    RowChange::Set { table: EVENTS_TABLE, key: BEGIN_KEY.to_vec(), value: encode_row(begin) }
}

/// An event's place in the ring: it takes that of the event so many before, which then needs no removal.
fn slot_key(number: u64) -> Vec<u8> {
    ((number % EVENTS_MAX) as u32).to_be_bytes().to_vec()
}

/// The key of the row that says where the numbers begin.
pub(super) const BEGIN_KEY: &[u8] = b"begin";
/// Events that are kept: an hour of 55 a second. A row has some 130 bytes.
pub(crate) const EVENTS_MAX: u64 = 200_000;
/// Bytes of rows that are kept in memory, where paths are long.
const EVENTS_BYTES_MAX: usize = 64 << 20;
/// Events that one request looks at: some milliseconds.
const SCAN_MAX: u64 = 8_192;
/// Where a page ends, in bytes of rows: well within a message, however long the last row is.
const PAGE_BYTES_MAX: usize = protocol::limits::MESSAGE_BYTES_MAX / 4;

#[cfg(test)]
mod tests;
