//! Makes the text of `docs/metrics.md` from the definitions. Only its test touches the file; the code itself never does.

use std::fmt::Write;

use super::{
    definitions::METRICS,
    metric::{MetricKind, MetricRole},
};

/// The reference of all metrics as Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for (role, title, command) in [
        (MetricRole::Master, "Master", "sector metrics master"),
        (MetricRole::Node, "Node", "sector metrics NODE"),
        (MetricRole::Security, "Security server", "sector metrics security"),
        (MetricRole::Gateway, "Gateway", "GET /api/v1/metrics/gateway"),
    ] {
        // Writing to a `String` cannot fail.
        let _ =
            write!(page, "\n## {title}\n\n`{command}`\n\n| metric | kind | labels | what it is |\n|---|---|---|---|\n");
        for metric in METRICS.iter().filter(|metric| metric.roles.contains(&role)) {
            let kind = match metric.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
            };
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(", ") };
            let _ = writeln!(page, "| `{}` | {kind} | {labels} | {} |", metric.name, metric.help);
        }
    }
    page
}

const HEAD: &str = "\
# Metrics

Made from the code (`crates/daemon/src/metrics/definitions.rs`); do not edit. To make it again:
`cargo xtask reference`.

`sector metrics` prints what a role counts, in the text format of Prometheus. It is for administrators. A role whose
settings have `metrics_listen` also answers `GET /metrics` there. [`howto/prometheus.md`](howto/prometheus.md) says when
to use which. Names and labels are stable. Counters begin with 0 when the role starts. No label holds a user, a path or
an address.
";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{collections::BTreeSet, fs, path::Path};

    use protocol::names;

    use super::*;
    use crate::metrics::MetricUnit;

    #[test]
    fn the_reference_of_metrics_in_the_docs_is_that_of_the_code() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            fs::write(&file, page()).unwrap();
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == page(), "docs/metrics.md is not that of the code: cargo xtask reference");
    }

    #[test]
    fn alerts_and_dashboard_use_only_metrics_that_there_are() {
        let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        let all: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        for file in ["prometheus/alerts.yml", "prometheus/alerts_test.yml", "grafana/sector.json"] {
            let text = fs::read_to_string(packaging.join(file)).unwrap();
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let named: BTreeSet<_> = words.filter(|word| word.starts_with("sector_")).collect();
            assert!(!named.is_empty() && named.is_subset(&all), "{file}: {:?}", named.difference(&all));
        }
    }

    #[test]
    fn every_metric_has_a_name_of_its_own_and_says_what_it_is() {
        let all: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(all.len(), METRICS.len(), "two have one name");
        for metric in METRICS {
            assert!(metric.help.ends_with('.') && metric.help.len() > 20, "`{}` needs its text", metric.name);
            let ends = match (metric.unit, metric.kind) {
                (Some(MetricUnit::Bytes), MetricKind::Counter) => "_bytes_total",
                (Some(MetricUnit::Seconds), MetricKind::Counter) => "_seconds_total",
                (None, MetricKind::Counter) => "_total",
                (Some(MetricUnit::Bytes), MetricKind::Gauge) => "_bytes",
                (Some(MetricUnit::Seconds), MetricKind::Gauge) => "_seconds",
                (Some(MetricUnit::Ratio), _) => "_ratio",
                (None, MetricKind::Gauge) => "",
            };
            assert!(metric.name.starts_with("sector_") && metric.name.ends_with(ends), "{}", metric.name);
            assert!(!metric.roles.is_empty(), "nobody counts `{}`", metric.name);
            assert!(!["user", "path", "address", "file"].iter().any(|word| metric.labels.contains(word)));
        }
        // What log lines name is what is counted.
        for name in
            [names::METRIC_DATAGRAMS_DROPPED, names::METRIC_DATAGRAMS_RETRANSMITTED, names::METRIC_TICKETS_REFUSED]
        {
            assert!(all.contains(format!("sector_{name}").as_str()), "{name}");
        }
    }
}
