//! Traces as a collector gets them. Two processes are stood in for by two subscribers, each with an exporter of its own.

#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::mpsc::{Receiver, sync_channel},
};

use serde_json::Value;
use tracing::subscriber::with_default;
use tracing_subscriber::{Registry, layer::SubscriberExt};

use super::{
    export::{ExportSettings, Exporter},
    traced,
};

/// A collector that answers so, and what it gets.
fn collector(status: &'static str) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = sync_channel(1_024);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            let mut length = 0;
            while stream.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            sender.send(serde_json::from_slice(&body).unwrap()).unwrap();
        }
    });
    (address, received)
}

fn settings(variables: &[(&str, &str)]) -> Result<Option<ExportSettings>, String> {
    let variable = |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
    ExportSettings::read(variable).map_err(|error| error.to_string())
}

/// What a collector gets of a process that does this, and then ends.
fn exported(does: impl FnOnce()) -> Vec<Value> {
    let (address, received) = collector("200 OK");
    let settings = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]).unwrap().unwrap();
    let (exporter, layer) = Exporter::start(settings).unwrap();
    with_default(Registry::default().with(traced(layer)), does);
    drop(exporter);
    received.try_iter().collect()
}

/// The spans of requests, each with the name of its service.
fn spans(requests: &[Value]) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for resource in requests.iter().flat_map(|request| request["resourceSpans"].as_array().unwrap()) {
        let attributes = resource["resource"]["attributes"].as_array().unwrap();
        let service = attributes.iter().find(|attribute| attribute["key"] == "service.name").unwrap();
        let service = service["value"]["stringValue"].as_str().unwrap();
        for span in resource["scopeSpans"][0]["spans"].as_array().unwrap() {
            all.push((service.to_owned(), span.clone()));
        }
    }
    all
}

const SLICE: &str = "00112233445566778899aabbccddeeff";
const JOB: &str = "aaaa000011112222";

#[test]
fn an_upload_is_one_trace_with_the_clients_span_above_those_of_all_roles() {
    let client = exported(|| {
        let _ = tracing::info_span!(target: "client::file::put", "upload", slice = SLICE).entered();
    });
    let others = exported(|| {
        {
            let _entered = tracing::debug_span!(target: "master::server", "request", name = "create").entered();
            tracing::debug!(target: "master::uploads", slice = SLICE, "a write may begin");
        }
        let write = tracing::info_span!(target: "node::write", "write", slice = tracing::field::Empty);
        let _entered = write.clone().entered();
        let _ = tracing::debug_span!(target: "node::write", "sync").entered();
        write.record("slice", SLICE);
        tracing::error!(target: "node::write", "the disk is full");
    });
    let (client, others) = (spans(&client), spans(&others));
    assert_eq!((client.len(), others.len()), (1, 3), "{others:?}");
    let (service, upload) = &client[0];
    assert_eq!(
        (service.as_str(), &upload["traceId"], &upload["parentSpanId"]),
        ("sector-client", &SLICE.into(), &Value::Null)
    );
    let named = |name: &str| others.iter().find(|(_, span)| span["name"] == name).unwrap();
    for name in ["request", "write"] {
        let (_, span) = named(name);
        assert_eq!((&span["traceId"], &span["parentSpanId"]), (&SLICE.into(), &upload["spanId"]), "{name}");
        assert_eq!(span["kind"], 2, "{name}");
    }
    assert_eq!((named("request").0.as_str(), named("write").0.as_str()), ("sector-master", "sector-node"));
    assert_eq!(named("request").1["events"][0]["name"], "a write may begin");
    let (_, write) = named("write");
    assert_eq!(write["status"]["code"], 2, "an error was logged in it");
    let (_, sync) = named("sync");
    assert_eq!(
        (&sync["parentSpanId"], &sync["traceId"]),
        (&write["spanId"], &write["traceId"]),
        "named later than it ended"
    );
}

#[test]
fn a_job_is_a_trace_of_its_own_also_where_it_names_slices() {
    let requests = exported(|| {
        let _driver = tracing::info_span!(target: "client::job", "job", job = JOB).entered();
        let _ = tracing::info_span!(target: "client::file::put", "upload", slice = SLICE).entered();
    });
    let spans = spans(&requests);
    let named = |name: &str| &spans.iter().find(|(_, span)| span["name"] == name).unwrap().1;
    let trace = format!("{JOB:0>32}");
    assert_eq!((&named("job")["traceId"], &named("job")["spanId"]), (&trace.clone().into(), &JOB.into()));
    assert_eq!((&named("upload")["traceId"], &named("upload")["parentSpanId"]), (&trace.into(), &JOB.into()));
}

#[test]
fn a_request_at_a_gateway_is_above_the_upload_that_it_makes() {
    let requests = exported(|| {
        let _request = tracing::debug_span!(target: "gateway::web", "request", method = "PUT").entered();
        let _ = tracing::info_span!(target: "client::file::put", "upload", slice = SLICE).entered();
    });
    let spans = spans(&requests);
    let named = |name: &str| &spans.iter().find(|(_, span)| span["name"] == name).unwrap().1;
    assert_eq!(named("upload")["parentSpanId"], named("request")["spanId"]);
    assert_eq!((&named("request")["parentSpanId"], &named("request")["traceId"]), (&Value::Null, &SLICE.into()));
}

#[test]
fn reads_of_a_file_other_crates_and_requests_about_no_file_are_not_sent() {
    let requests = exported(|| {
        let _ = tracing::info_span!(target: "node::read", "read", slice = SLICE).entered();
        let _ = tracing::debug_span!(target: "master::server", "request", name = "ls").entered();
        let _ = tracing::info_span!(target: "hyper::proto", "upload", slice = SLICE).entered();
        let _ = tracing::trace_span!(target: "node::write", "block", slice = SLICE).entered();
    });
    assert_eq!(requests, Vec::<Value>::new());
}

#[test]
fn a_collector_that_refuses_or_is_away_holds_nothing_up() {
    let (address, received) = collector("500 No");
    let refusing = settings(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &address)]).unwrap().unwrap();
    let away = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")]).unwrap().unwrap();
    for settings in [refusing, away] {
        let (exporter, layer) = Exporter::start(settings).unwrap();
        with_default(Registry::default().with(traced(layer)), || {
            for _ in 0..20_000 {
                let _ = tracing::info_span!(target: "node::write", "write", slice = SLICE).entered();
            }
        });
        drop(exporter);
    }
    assert!(received.try_iter().count() > 0);
}

#[test]
fn the_variables_of_opentelemetry_say_where_to_and_how() {
    assert_eq!(settings(&[]), Ok(None));
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
    assert!(settings(&[endpoint]).unwrap().is_some_and(|settings| settings.url() == "http://collector:4318/v1/traces"));
    assert_eq!(settings(&[endpoint, ("OTEL_SDK_DISABLED", "true")]), Ok(None));
    let whole = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other/x");
    assert!(settings(&[endpoint, whole]).unwrap().is_some_and(|settings| settings.url() == "https://other/x"));
    assert!(settings(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err().contains("http/json"));
    assert!(settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")]).unwrap_err().contains("http://"));
}
