//! The values of a role's metrics at one moment, and the text that they make. They are read and written once, and never
//! kept.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, text},
    metrics::{MetricType, exemplar::Exemplar},
    registry::{Registry, Unit},
};
use protocol::message::work::{WorkItem, WorkState};

use super::{
    definitions,
    metric::{Metric, MetricKind, MetricUnit, PREFIX},
};

/// The values of a role's metrics at one moment.
#[derive(Debug, Default)]
pub struct Readings(Vec<Reading>);

#[derive(Debug)]
struct Reading {
    metric: &'static Metric,
    values: Vec<(Vec<(&'static str, String)>, MetricValue)>,
}

#[derive(Clone, Copy, Debug)]
enum MetricValue {
    Whole(u64),
    /// Seconds, or a share.
    Fraction(f64),
}

impl Readings {
    /// A metric without labels.
    pub fn set(&mut self, metric: &'static Metric, value: u64) {
        self.add(metric, &[], MetricValue::Whole(value));
    }

    /// A metric of this one combination of label values, in the order of its labels.
    pub fn set_of(&mut self, metric: &'static Metric, labels: &[&str], value: u64) {
        self.add(metric, labels, MetricValue::Whole(value));
    }

    /// A metric in seconds.
    pub fn set_seconds(&mut self, metric: &'static Metric, seconds: f64) {
        self.add(metric, &[], MetricValue::Fraction(seconds));
    }

    /// A metric in seconds, or a share, of this one combination of label values.
    pub fn set_fraction_of(&mut self, metric: &'static Metric, labels: &[&str], value: f64) {
        self.add(metric, labels, MetricValue::Fraction(value));
    }

    /// A metric of which there is nothing yet: it is named all the same, so that a dashboard finds it.
    pub fn declare(&mut self, metric: &'static Metric) {
        self.values(metric);
    }

    /// How much background work fails or cannot go on, by its kind.
    pub fn set_work(&mut self, items: &[WorkItem]) {
        self.declare(&definitions::WORK_FAILING);
        let mut kinds: Vec<_> = items.iter().map(|item| item.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            let is_stuck =
                |item: &&WorkItem| item.kind == kind && matches!(item.state, WorkState::Failing | WorkState::Blocked);
            let count = items.iter().filter(is_stuck).count() as u64;
            self.set_of(&definitions::WORK_FAILING, &[kind.as_str()], count);
        }
    }

    /// The whole text.
    pub fn encode(self) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }

    fn add(&mut self, metric: &'static Metric, labels: &[&str], value: MetricValue) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let labels = metric.labels.iter().copied().zip(labels.iter().map(|label| (*label).to_owned())).collect();
        self.values(metric).push((labels, value));
    }

    fn values(&mut self, metric: &'static Metric) -> &mut Vec<(Vec<(&'static str, String)>, MetricValue)> {
        let at = self.0.iter().position(|reading| reading.metric.name == metric.name).unwrap_or_else(|| {
            self.0.push(Reading { metric, values: Vec::new() });
            self.0.len() - 1
        });
        &mut self.0[at].values
    }
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Reading { metric, values } in &self.0 {
            let unit = metric.unit.map(|unit| match unit {
                MetricUnit::Bytes => Unit::Bytes,
                MetricUnit::Seconds => Unit::Seconds,
                MetricUnit::Ratio => Unit::Other("ratio".into()),
            });
            let kind = match metric.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
            };
            let mut family = encoder.encode_descriptor(metric.bare_name(), metric.help, unit.as_ref(), kind)?;
            for (labels, value) in values {
                match labels.is_empty() {
                    true => write_value(&mut family, metric.kind, *value)?,
                    false => write_value(&mut family.encode_family(labels)?, metric.kind, *value)?,
                }
            }
        }
        Ok(())
    }
}

fn write_value(encoder: &mut MetricEncoder<'_>, kind: MetricKind, value: MetricValue) -> Result<(), fmt::Error> {
    match (kind, value) {
        (MetricKind::Gauge, MetricValue::Whole(value)) => encoder.encode_gauge(&value),
        (MetricKind::Gauge, MetricValue::Fraction(value)) => encoder.encode_gauge(&value),
        (MetricKind::Counter, MetricValue::Whole(value)) => encoder.encode_counter(&value, NO_EXEMPLAR),
        (MetricKind::Counter, MetricValue::Fraction(value)) => encoder.encode_counter(&value, NO_EXEMPLAR),
    }
}

/// No metric has an example beside its value.
const NO_EXEMPLAR: Option<&Exemplar<[(&str, &str); 0], f64>> = None;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_written_as_prometheus_takes_them() {
        let mut readings = Readings::default();
        readings.set_of(&definitions::MASTER_REQUESTS, &["stat", "done"], 7);
        readings.set_of(&definitions::MASTER_REQUESTS, &["stat", "not-found"], 2);
        readings.set(&definitions::MASTER_SESSIONS, 3);
        readings.set_seconds(&definitions::JOURNAL_SAVE_SECONDS, 0.5);
        readings.declare(&definitions::NODE_CARRIED);
        let text = readings.encode();
        for line in [
            "# TYPE sector_master_requests counter",
            "sector_master_requests_total{request=\"stat\",outcome=\"done\"} 7",
            "sector_master_requests_total{request=\"stat\",outcome=\"not-found\"} 2",
            "sector_master_sessions 3",
            "sector_journal_save_seconds_total 0.5",
            "# UNIT sector_node_carried_bytes bytes",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn work_that_fails_or_cannot_go_on_is_counted_by_its_kind() {
        use protocol::message::work::WorkKind;
        let scrub = |state| WorkItem { state, ..WorkItem::idle(WorkKind::Scrub) };
        let mut readings = Readings::default();
        readings.set_work(&[scrub(WorkState::Failing), scrub(WorkState::Idle), scrub(WorkState::Blocked)]);
        assert!(readings.encode().contains("sector_work_stuck{work=\"scrub\"} 2\n"));
    }
}
