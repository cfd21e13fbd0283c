//! Loads the events from the journal's rows. A row that cannot be read hides those before it, and a reader is told of a gap:
//! events never keep a master from starting.

use protocol::{JournalId, Now, message::events::EventKind};
use store::RowChange;

use super::{
    Events,
    event_log::{BEGIN_KEY, EventLog, EventsBegin, KeptEvent, StoredEvent, begin_row, first_number},
};
use crate::catalog::namespace::decode_row;

/// Takes rows, in any order.
#[derive(Debug, Default)]
pub(crate) struct EventLoader {
    begin: Option<EventsBegin>,
    rows: Vec<(u64, KeptEvent)>,
    /// The newest event that tells of the cloud's health, and what it says.
    health: (u64, bool),
}

impl EventLoader {
    /// Takes a row.
    pub(crate) fn add_row(&mut self, key: &[u8], value: &[u8]) {
        if key == BEGIN_KEY {
            self.begin = decode_row(value);
        } else if let Some(StoredEvent { event, .. }) = decode_row(value) {
            if event.kind == EventKind::HealthChanged && event.number > self.health.0 {
                self.health = (event.number, event.fields.state.as_deref() == Some(HEALTHY));
            }
            let (unix_millis, kind) = (event.unix_millis, event.kind);
            self.rows.push((event.number, KeptEvent { unix_millis, kind, row: value.into() }));
        }
    }

    /// The events of this journal, and a row that must be saved if it knew none. Those of another journal, which a backup
    /// may have brought, are not its own: it is told that they are missing.
    pub(crate) fn finish(mut self, now: Now, journal: JournalId) -> (Events, Option<RowChange>) {
        let last = self.rows.iter().map(|(number, _)| *number).max().unwrap_or(0);
        let is_healthy = self.health.0 == 0 || self.health.1;
        let Some(begin) = self.begin.filter(|begin| begin.journal == journal) else {
            let first = first_number(now).max(last + 1);
            let begin = EventsBegin { journal, first, is_after_loss: self.begin.is_some() || last > 0 };
            return (Events::new(now, EventLog::new(begin, Vec::new(), first), is_healthy), Some(begin_row(&begin)));
        };
        self.rows.retain(|(number, _)| *number >= begin.first);
        self.rows.sort_unstable_by_key(|(number, _)| *number);
        let torn = self.rows.windows(2).rposition(|pair| pair[1].0 != pair[0].0 + 1).map_or(0, |at| at + 1);
        let next = self.rows.last().map_or(begin.first, |(number, _)| number + 1);
        let kept = self.rows.drain(torn..).map(|(_, kept)| kept).collect();
        (Events::new(now, EventLog::new(begin, kept, next), is_healthy), None)
    }
}

/// What an event says of a healthy cloud, and of another.
pub(crate) const HEALTHY: &str = "healthy";
