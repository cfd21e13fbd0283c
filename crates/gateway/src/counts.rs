//! What the gateway counts: requests, connections, open streams, and messages of webhooks. Clones are the same. It never
//! counts by user, path or address.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use daemon::metrics::{LabelCounts, Readings, definitions as metric};
use http::{Method, StatusCode};

/// The counts of one gateway.
#[derive(Clone, Default)]
pub(crate) struct Counts(Arc<Inner>);

#[derive(Default)]
struct Inner {
    requests: Mutex<LabelCounts>,
    webhooks: Mutex<LabelCounts>,
    connections: AtomicU64,
    live_streams: AtomicU64,
    event_streams: AtomicU64,
}

/// What is counted as long as it lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lasting {
    Connection,
    LiveStream,
    EventStream,
}

/// Counts one until it is dropped.
pub(crate) struct Held {
    counts: Counts,
    what: Lasting,
}

impl Counts {
    /// A request was answered. `route` is that of the router, without values.
    pub(crate) fn count_request(&self, method: &Method, route: Option<&str>, status: StatusCode) {
        let request = match route {
            Some(route) => format!("{} {}", method_label(method), route.strip_prefix(BASE).unwrap_or(route)),
            None => "page".to_owned(),
        };
        lock(&self.0.requests).count(request, status.as_u16().to_string());
    }

    /// A message of a webhook was sent, with this outcome.
    pub(crate) fn count_message(&self, webhook: &str, outcome: &'static str) {
        lock(&self.0.webhooks).count(webhook.to_owned(), outcome);
    }

    /// Counts one of these until what is returned is dropped.
    pub(crate) fn hold(&self, what: Lasting) -> Held {
        self.lasting(what).fetch_add(1, Ordering::Relaxed);
        Held { counts: self.clone(), what }
    }

    /// All of it, as Prometheus reads it.
    pub(crate) fn text(&self, sessions: usize) -> String {
        let mut readings = Readings::default();
        let now = |what| self.lasting(what).load(Ordering::Relaxed);
        lock(&self.0.requests).read(&metric::GATEWAY_REQUESTS, &mut readings);
        readings.set(&metric::GATEWAY_CONNECTIONS, now(Lasting::Connection));
        readings.set(&metric::GATEWAY_SESSIONS, sessions as u64);
        readings.set_of(&metric::GATEWAY_EVENT_STREAMS, &["live"], now(Lasting::LiveStream));
        readings.set_of(&metric::GATEWAY_EVENT_STREAMS, &["events"], now(Lasting::EventStream));
        lock(&self.0.webhooks).read(&metric::GATEWAY_WEBHOOK_MESSAGES, &mut readings);
        readings.encode()
    }

    fn lasting(&self, what: Lasting) -> &AtomicU64 {
        match what {
            Lasting::Connection => &self.0.connections,
            Lasting::LiveStream => &self.0.live_streams,
            Lasting::EventStream => &self.0.event_streams,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counts.lasting(self.what).fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock(counts: &Mutex<LabelCounts>) -> std::sync::MutexGuard<'_, LabelCounts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A peer may send any word as its method; those that the interface knows have a count of their own.
fn method_label(method: &Method) -> &str {
    match *method {
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => method.as_str(),
        _ => "other",
    }
}

/// Below which all requests of the interface are.
const BASE: &str = "/api/v1";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use daemon::metrics::{METRICS, MetricRole};

    use super::*;

    #[test]
    fn a_gateway_counts_all_that_the_table_says_it_counts() {
        let text = Counts::default().text(0);
        let heads = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next());
        let named: BTreeSet<_> = heads.collect();
        let of_gateways = METRICS.iter().filter(|metric| metric.roles.contains(&MetricRole::Gateway));
        let wanted = of_gateways.map(|metric| metric.name.strip_suffix("_total").unwrap_or(metric.name));
        assert_eq!(named, wanted.collect());
    }

    #[test]
    fn requests_are_counted_by_route_and_never_by_what_a_peer_writes() {
        let counts = Counts::default();
        counts.count_request(&Method::GET, Some("/api/v1/content/{*path}"), StatusCode::OK);
        counts.count_request(&Method::GET, None, StatusCode::NOT_FOUND);
        counts.count_request(&"SECRET".parse().unwrap(), Some("/api/v1/files"), StatusCode::METHOD_NOT_ALLOWED);
        let text = counts.text(3);
        for line in [
            "sector_gateway_requests_total{request=\"GET /content/{*path}\",status=\"200\"} 1",
            "sector_gateway_requests_total{request=\"page\",status=\"404\"} 1",
            "sector_gateway_requests_total{request=\"other /files\",status=\"405\"} 1",
            "sector_gateway_sessions 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_lasts_is_counted_as_long_as_it_does() {
        let counts = Counts::default();
        let held = counts.hold(Lasting::EventStream);
        assert!(counts.text(0).contains("sector_gateway_event_streams{stream=\"events\"} 1\n"));
        drop(held);
        assert!(counts.text(0).contains("sector_gateway_event_streams{stream=\"events\"} 0\n"));
    }
}
