//! What happened in the cloud, as a stream that goes on (door 2 alone). Serves the path *events*. A reader that names the
//! last number it has seen misses nothing, and is told where that cannot be. It never tells an event twice.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use protocol::message::{
    events::{CloudEvent, EVENTS_WAIT_MILLIS_MAX, EventGap, EventKind, EventPage},
    request::{EventsFrom, EventsRequest},
};

use crate::{
    Client, ClientError,
    names::expand::{Glob, is_glob},
};
use protocol::{SectorPath, status::ErrorClass};

/// Which events, and from where on.
#[derive(Clone, Debug)]
pub struct EventsWanted {
    /// Where to begin.
    pub from: EventsFrom,
    /// These kinds alone; all if there are none.
    pub kinds: Vec<EventKind>,
    /// What happened to this path or glob, and below it, alone.
    pub path: Option<String>,
    /// Whether to wait for what is still to come.
    pub follow: bool,
}

impl EventsWanted {
    /// All that is kept.
    pub fn all() -> Self {
        Self { from: EventsFrom::Since(0), kinds: Vec::new(), path: None, follow: false }
    }
}

/// What comes out of a stream of events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // nearly all are events: a box would be an allocation for nothing
pub enum EventItem {
    /// Events that were asked for are not kept any more: whoever mirrors the cloud looks at it anew.
    Gap(EventGap),
    /// An event.
    Event(CloudEvent),
}

impl EventItem {
    /// The number to name next time, so that nothing comes twice and nothing is missed.
    pub fn number(&self) -> u64 {
        match self {
            Self::Gap(gap) => gap.first.saturating_sub(1),
            Self::Event(event) => event.number,
        }
    }
}

/// Events, one after the other.
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    asked: EventsRequest,
    pattern: Option<Glob>,
    follow: bool,
    queued: VecDeque<EventItem>,
    /// Whether the last page was not the last there is.
    has_more: bool,
    /// Since when the master does not answer.
    away_since: Option<Instant>,
}

impl Client {
    /// Events, as they are wanted.
    ///
    /// # Errors
    /// `Usage` for what is no path and no glob.
    pub fn events(&self, wanted: EventsWanted) -> Result<EventStream, ClientError> {
        let (pattern, below) = match &wanted.path {
            Some(text) if is_glob(text) => {
                let glob = Glob::parse(text)?;
                let base = glob.base.clone();
                (Some(glob), Some(base))
            }
            Some(text) => (None, Some(SectorPath::parse(text)?)),
            None => (None, None),
        };
        let wait_millis = if wanted.follow { EVENTS_WAIT_MILLIS_MAX } else { 0 };
        let asked = EventsRequest { from: wanted.from, kinds: wanted.kinds, below, wait_millis };
        Ok(EventStream {
            client: self.clone(),
            asked,
            pattern,
            follow: wanted.follow,
            queued: VecDeque::new(),
            has_more: true,
            away_since: None,
        })
    }
}

impl EventStream {
    /// The next one. `None` where there is none yet and the stream does not follow. A stream that follows waits, and goes
    /// on where it was when the master was away, for an hour at most. A call that is dropped loses nothing.
    ///
    /// # Errors
    /// When the master refuses, or has been away for too long.
    pub async fn next(&mut self) -> Result<Option<EventItem>, ClientError> {
        loop {
            if let Some(item) = self.queued.pop_front() {
                return Ok(Some(item));
            }
            if !self.has_more && !self.follow {
                return Ok(None);
            }
            self.ask().await?;
        }
    }

    /// Learns where "now" is: the stream goes on from there, however late the next call is.
    ///
    /// # Errors
    /// When the master does not answer.
    pub async fn begin(&mut self) -> Result<(), ClientError> {
        if self.asked.from == EventsFrom::Now {
            let page = self.client.ask(EventsRequest { wait_millis: 0, ..self.asked.clone() }).await?;
            self.take(page);
        }
        Ok(())
    }

    /// Waits for one page at most: what the master has by now, or `false` if there is nothing. For a door that says now
    /// and then that it is still there.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn fill(&mut self) -> Result<bool, ClientError> {
        if self.queued.is_empty() {
            self.ask().await?;
        }
        Ok(!self.queued.is_empty())
    }

    /// What was taken from the master and not given out yet.
    pub fn take_queued(&mut self) -> Vec<EventItem> {
        self.queued.drain(..).collect()
    }

    /// The number up to which all was looked at, once a page has come. Events that were not wanted count.
    pub fn position(&self) -> Option<u64> {
        match self.asked.from {
            EventsFrom::After(number) => Some(number),
            EventsFrom::Now | EventsFrom::Since(_) => None,
        }
    }

    /// Whether the master has more at once.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    async fn ask(&mut self) -> Result<(), ClientError> {
        let asked_at = Instant::now();
        // Where "now" is must be known before anything else: an answer that was waited for could be lost with the master.
        let was_now = self.asked.from == EventsFrom::Now;
        let wait_millis = if was_now { 0 } else { self.asked.wait_millis };
        match self.client.ask(EventsRequest { wait_millis, ..self.asked.clone() }).await {
            Ok(page) => {
                self.away_since = None;
                let is_empty = page.events.is_empty() && page.gap.is_none() && !page.more;
                self.take(page);
                // Too many wait at the master: it has answered at once.
                if self.follow && is_empty && !was_now && asked_at.elapsed() < CROWDED_BELOW {
                    tokio::time::sleep(CROWDED_PAUSE).await;
                }
                Ok(())
            }
            Err(error) if self.follow && is_passing(&error) => {
                let since = *self.away_since.get_or_insert(asked_at);
                if since.elapsed() > AWAY_MAX {
                    return Err(error);
                }
                tracing::debug!(%error, "the master is away; its events are asked for again");
                tokio::time::sleep(AWAY_PAUSE).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, page: EventPage) {
        let EventPage { gap, events, last, more } = page;
        self.queued.extend(gap.map(EventItem::Gap));
        let pattern = &self.pattern;
        let is_wanted = |event: &CloudEvent| {
            pattern.as_ref().is_none_or(|glob| {
                let covers = |path: &SectorPath| glob.covers(path);
                SectorPath::parse(&event.subject).is_ok_and(|path| covers(&path))
                    || event.fields.from.as_ref().is_some_and(covers)
            })
        };
        self.queued.extend(events.into_iter().filter(is_wanted).map(EventItem::Event));
        self.asked.from = EventsFrom::After(last);
        self.has_more = more;
    }
}

/// Whether the same question may be answered later: the master is away, or busy, or new.
fn is_passing(error: &ClientError) -> bool {
    matches!(error.class(), ErrorClass::RetryHere | ErrorClass::RetryElsewhere)
}

/// An answer without events that comes before this was given because too many wait.
const CROWDED_BELOW: Duration = Duration::from_secs(1);
/// Then the next question comes so much later.
const CROWDED_PAUSE: Duration = Duration::from_secs(1);
/// Between two questions to a master that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(500);
/// How long it may be away.
const AWAY_MAX: Duration = Duration::from_secs(3_600);
