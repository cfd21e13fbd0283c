//! Sends spans to a collector, by OTLP over HTTP with JSON, if the environment names one. The variables are those of
//! OpenTelemetry. A collector that is away costs spans and never holds anything up.

use std::{
    io::{self, Write},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ureq::Agent;

use super::{
    otlp,
    spans::{EndedSpan, SpanLayer, Told, take_dropped},
};
use crate::{DaemonError, http_agent, system_certificates};

/// Where spans go, and how they are named, as the environment says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExportSettings {
    url: String,
    headers: Vec<(String, String)>,
    service: Option<String>,
    attributes: Vec<(String, String)>,
}

impl ExportSettings {
    /// Those of the environment; `None` where no collector is named.
    ///
    /// # Errors
    /// [`DaemonError::Traces`] for an address or a protocol that cannot be used.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, DaemonError> {
        let given = |name: &str| variable(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let whole = given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let base = given("OTEL_EXPORTER_OTLP_ENDPOINT");
        let url = match (whole, base) {
            (Some(url), _) => url,
            (None, Some(base)) => format!("{}/v1/traces", base.trim_end_matches('/')),
            (None, None) => return Ok(None),
        };
        if given("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let wrong = |why: String| Err(DaemonError::Traces { why });
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return wrong(format!("`{url}` is no address: it begins with `http://` or `https://`"));
        }
        let protocol = given("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| given("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(protocol) = protocol.filter(|name| name != PROTOCOL) {
            return wrong(format!(
                "the protocol `{protocol}` is not spoken here; set it to `{PROTOCOL}`, or not at all"
            ));
        }
        let headers = given("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| given("OTEL_EXPORTER_OTLP_HEADERS"));
        let pairs = |text: Option<String>| {
            let text = text.unwrap_or_default();
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
        };
        Ok(Some(Self {
            url,
            headers: pairs(headers),
            service: given("OTEL_SERVICE_NAME"),
            attributes: pairs(given("OTEL_RESOURCE_ATTRIBUTES")),
        }))
    }
}

#[cfg(test)]
impl ExportSettings {
    /// Where requests go.
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

/// The thread that sends; what is left goes out when it is dropped.
#[derive(Debug)]
pub(super) struct Exporter {
    thread: Option<JoinHandle<()>>,
    told: SyncSender<Told>,
}

impl Exporter {
    /// Starts it.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(super) fn start(settings: ExportSettings) -> Result<(Self, SpanLayer), DaemonError> {
        let (told, heard) = sync_channel(QUEUE_SPANS_MAX);
        let sender = Sender { agent: agent(&settings.url), settings, failing: false };
        let thread = thread::Builder::new()
            .name("traces".into())
            .spawn(move || sender.run(&heard))
            .map_err(|error| DaemonError::Traces { why: format!("no thread can be started: {error}") })?;
        Ok((Self { thread: Some(thread), told: told.clone() }, SpanLayer::new(told)))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // It takes what waits, so there is room in the end.
        let _ = self.told.send(Told::Stop);
        if let Some(thread) = self.thread.take() {
            // Each of its steps is bounded.
            let _ = thread.join();
        }
    }
}

struct Sender {
    agent: Agent,
    settings: ExportSettings,
    failing: bool,
}

impl Sender {
    fn run(mut self, heard: &Receiver<Told>) {
        let mut batch = Vec::new();
        let mut due = Instant::now() + SEND_EVERY;
        loop {
            let is_over = match heard.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Told::Span(span)) => {
                    batch.push(span);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Ok(Told::Stop) | Err(RecvTimeoutError::Disconnected) => true,
            };
            if is_over || batch.len() >= BATCH_SPANS_MAX || Instant::now() >= due {
                self.send(&batch);
                batch.clear();
                due = Instant::now() + SEND_EVERY;
            }
            if is_over {
                return;
            }
        }
    }

    fn send(&mut self, spans: &[EndedSpan]) {
        let ExportSettings { url, headers, service, attributes } = &self.settings;
        let Some(request) = otlp::request(spans, service.as_deref(), attributes) else { return };
        let mut asked = self.agent.post(url).header("content-type", "application/json");
        for (name, value) in headers {
            asked = asked.header(name, value);
        }
        let failure = match asked.send(request.to_string()) {
            Ok(mut answer) => {
                // Read so that the connection can be used again; nobody needs what it says.
                let _ = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
                match answer.status().as_u16() {
                    200..300 => None,
                    status => Some(format!("it answers with status {status}")),
                }
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = &failure
            && !self.failing
        {
            // Not to the log, which would come back here. Said once, until it works again.
            let _ = writeln!(io::stderr(), "traces are lost: `{url}` does not take them: {why}");
        }
        self.failing = failure.is_some();
        let dropped = take_dropped();
        if dropped > 0 {
            let _ = writeln!(io::stderr(), "traces are lost: {dropped} spans found {QUEUE_SPANS_MAX} others waiting");
        }
    }
}

/// An agent for the collector at this address.
fn agent(url: &str) -> Agent {
    let trusted = if url.starts_with("https://") { system_certificates() } else { Vec::new() };
    http_agent(&trusted, SEND_MAX).build().into()
}

/// The one way in which spans are sent.
const PROTOCOL: &str = "http/json";
/// Spans that wait to be sent, at some hundred bytes each.
const QUEUE_SPANS_MAX: usize = 8_192;
/// Spans of one request.
const BATCH_SPANS_MAX: usize = 512;
/// Also when there are few.
const SEND_EVERY: Duration = Duration::from_secs(2);
/// For one request; a command that ends waits so long at most.
const SEND_MAX: Duration = Duration::from_secs(3);
/// Of an answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
