//! Spans as they run: when each began and ended, what it says of itself, and to which trace it belongs. Serves traces
//! (OpenTelemetry). No message carries a trace: the id of a slice or a job is the id of its trace, and all roles know it. It
//! never sends anything.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{SyncSender, TrySendError},
    },
    time::{Duration, Instant, SystemTime},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// A trace: that of an upload or of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceId(pub(super) u128);

impl TraceId {
    /// The trace of a slice or a job, from the id that log lines have.
    fn of(field: &str, text: &str) -> Option<Self> {
        let width = match field {
            "slice" => 32,
            "job" => 16,
            _ => return None,
        };
        let is_hex = text.len() == width && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|id| is_hex && *id != 0).map(Self)
    }

    /// The span of the client from which all others of the trace come. Each role knows it without being told.
    pub(super) fn origin(self) -> u64 {
        // Of a slice both halves are random, of a job the upper one is 0.
        let id = (self.0 >> 64) as u64 ^ self.0 as u64;
        if id == 0 { 1 } else { id }
    }
}

/// What the exporter hears.
#[derive(Debug)]
pub(super) enum Told {
    /// A span has ended.
    Span(EndedSpan),
    /// No more will come.
    Stop,
}

/// A span that has ended.
#[derive(Debug)]
pub(super) struct EndedSpan {
    pub(super) trace: Arc<Trace>,
    pub(super) id: u64,
    /// The span of this process around it.
    pub(super) parent: Option<u64>,
    pub(super) name: &'static str,
    pub(super) target: &'static str,
    pub(super) began: SystemTime,
    pub(super) took: Duration,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) events: Vec<SpanEvent>,
    /// Whether an error was logged in it.
    pub(super) has_failed: bool,
}

/// A line of the log within a span.
#[derive(Debug)]
pub(super) struct SpanEvent {
    pub(super) at: SystemTime,
    pub(super) message: String,
    pub(super) fields: Vec<(&'static str, String)>,
}

/// What the spans of one process that lie in each other know of their trace. It may become known only in the midst of
/// them, when a master has made the id.
#[derive(Debug, Default)]
pub(super) struct Trace {
    id: OnceLock<TraceId>,
    /// Whether the client's own span is among them.
    has_origin: AtomicBool,
    /// Reads: a slice may be read for years, and its trace is that of its upload.
    is_apart: bool,
}

impl Trace {
    pub(super) fn id(&self) -> Option<TraceId> {
        self.id.get().copied()
    }

    pub(super) fn has_origin(&self) -> bool {
        self.has_origin.load(Ordering::Relaxed)
    }

    /// A field of a span or of a line in it; the first id that is named counts.
    fn learn(&self, name: &str, text: &str) {
        if !self.is_apart
            && let Some(id) = TraceId::of(name, text)
        {
            self.id.get_or_init(|| id);
        }
    }
}

/// Takes spans that have ended to whoever sends them.
pub(super) struct SpanLayer {
    exporter: SyncSender<Told>,
}

impl SpanLayer {
    pub(super) fn new(exporter: SyncSender<Told>) -> Self {
        Self { exporter }
    }
}

/// A span under way.
struct OpenSpan {
    trace: Arc<Trace>,
    id: u64,
    parent: Option<u64>,
    began: SystemTime,
    clock: Instant,
    fields: Vec<(&'static str, String)>,
    events: Vec<SpanEvent>,
    has_failed: bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let around = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            let open = extensions.get::<OpenSpan>()?;
            Some((Arc::clone(&open.trace), open.id))
        });
        let is_apart = APART.contains(&span.name());
        let (trace, parent) = match around {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (Arc::new(Trace { is_apart, ..Trace::default() }), None),
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut open = OpenSpan {
            trace,
            id: fastrand::u64(1..),
            parent,
            began: SystemTime::now(),
            clock: Instant::now(),
            fields: Vec::new(),
            events: Vec::new(),
            has_failed: false,
        };
        open.take(fields);
        let metadata = span.metadata();
        if metadata.target().starts_with(ORIGIN_TARGET)
            && let Some(own) = open.fields.iter().find_map(|(name, text)| TraceId::of(name, text))
            && open.trace.id() == Some(own)
            && !open.trace.has_origin.swap(true, Ordering::Relaxed)
        {
            open.id = own.origin();
        }
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            open.take(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<OpenSpan>() else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.all.iter().for_each(|(name, text)| open.trace.learn(name, text));
        open.has_failed |= *event.metadata().level() == Level::ERROR;
        if open.events.len() < EVENTS_MAX {
            let Fields { all, message } = fields;
            open.events.push(SpanEvent { at: SystemTime::now(), message, fields: all });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        let OpenSpan { trace, id, parent, began, clock, fields, events, has_failed } = open;
        let (name, target, took) = (span.name(), span.metadata().target(), clock.elapsed());
        let ended = EndedSpan { trace, id, parent, name, target, began, took, fields, events, has_failed };
        if let Err(TrySendError::Full(_)) = self.exporter.try_send(Told::Span(ended)) {
            // No log line here: it would come back as an event. The exporter says it with its next batch.
            note_dropped();
        }
    }
}

impl OpenSpan {
    fn take(&mut self, fields: Fields) {
        fields.all.iter().for_each(|(name, text)| self.trace.learn(name, text));
        self.fields.extend(fields.all);
    }
}

/// The fields of a span or line as text.
#[derive(Default)]
struct Fields {
    all: Vec<(&'static str, String)>,
    message: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => self.all.push((name, text)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => self.all.push((name, value.to_owned())),
        }
    }
}

/// A span was dropped, since too many wait.
fn note_dropped() {
    DROPPED.fetch_add(1, Ordering::Relaxed);
}

/// How many spans were dropped since this was last asked.
pub(super) fn take_dropped() -> u64 {
    DROPPED.swap(0, Ordering::Relaxed)
}

static DROPPED: AtomicU64 = AtomicU64::new(0);
/// The code of clients; the outermost span of an upload or a job is theirs.
const ORIGIN_TARGET: &str = "client::";
/// Spans that name a slice and are no part of its upload.
const APART: [&str; 2] = ["read", "verify"];
/// Lines of one span that are kept.
const EVENTS_MAX: usize = 32;
