//! Spans in the JSON of OTLP, the protocol of OpenTelemetry (opentelemetry-proto 1, `ExportTraceServiceRequest`). It never
//! sends them.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::spans::{EndedSpan, SpanEvent};

/// A request with these spans; `None` if none of them belongs to an upload or a job. `service` is the name to use instead
/// of that of each role, `more` what the environment adds to every resource.
pub(super) fn request(spans: &[EndedSpan], service: Option<&str>, more: &[(String, String)]) -> Option<Value> {
    let mut by_role: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for span in spans {
        if let Some(value) = span_value(span) {
            by_role.entry(role(span.target)).or_default().push(value);
        }
    }
    let resources = by_role.into_iter().map(|(role, spans)| {
        let name = service.map_or_else(|| format!("sector-{role}"), str::to_owned);
        let mut attributes = vec![
            attribute("service.name", &name),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
            attribute("process.pid", &std::process::id().to_string()),
        ];
        attributes.extend(more.iter().map(|(key, value)| attribute(key, value)));
        json!({"resource": {"attributes": attributes}, "scopeSpans": [{"scope": {"name": role}, "spans": spans}]})
    });
    let resources: Vec<_> = resources.collect();
    (!resources.is_empty()).then(|| json!({ "resourceSpans": resources }))
}

fn span_value(span: &EndedSpan) -> Option<Value> {
    let trace = span.trace.id()?;
    // Without a span around it here, it comes from the client's. The client's own comes from none.
    let from_elsewhere = (!span.trace.has_origin()).then(|| trace.origin());
    let parent = span.parent.or(from_elsewhere).filter(|parent| *parent != span.id);
    let is_done_for_another = parent.is_some() && span.parent.is_none();
    let began = nanos(span.began);
    let mut value = json!({
        "traceId": format!("{:032x}", trace.0),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        // A server's span, or one within a process.
        "kind": if is_done_for_another { 2 } else { 1 },
        "startTimeUnixNano": began.to_string(),
        "endTimeUnixNano": (began + span.took.as_nanos()).to_string(),
        "attributes": attributes(&span.fields),
        "events": span.events.iter().map(event_value).collect::<Vec<_>>(),
        "status": if span.has_failed { json!({"code": 2}) } else { json!({}) },
    });
    if let Some(parent) = parent {
        value["parentSpanId"] = format!("{parent:016x}").into();
    }
    Some(value)
}

fn event_value(event: &SpanEvent) -> Value {
    json!({
        "timeUnixNano": nanos(event.at).to_string(),
        "name": event.message,
        "attributes": attributes(&event.fields),
    })
}

fn attributes(fields: &[(&'static str, String)]) -> Vec<Value> {
    fields.iter().map(|(name, text)| attribute(name, text)).collect()
}

fn attribute(name: &str, text: &str) -> Value {
    json!({"key": name, "value": {"stringValue": text}})
}

/// The crate whose code it is: `client`, `master`, `node`, …
fn role(target: &'static str) -> &'static str {
    target.split("::").next().unwrap_or(target)
}

fn nanos(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
