//! The load of nodes as JSON, in whole units: shares of one, bytes, seconds. It never judges a value.

use serde_json::{Map, Value, json};

use super::rfc3339;
use crate::{DiskLoad, LoadMetric, LoadPage, LoadSample, LoadSeries, LoadUnit, NodeLoad, ProcessLoad};

/// All nodes at one moment.
pub fn load_page(page: &LoadPage) -> Value {
    let nodes: Vec<_> = page.nodes.iter().map(node_json).collect();
    json!({"time": rfc3339(page.unix_millis), "sample_seconds": page.sample_seconds, "nodes": nodes})
}

/// One node over time.
pub fn load_series(series: &LoadSeries) -> Value {
    let samples: Vec<_> = series.samples.iter().map(|sample| sample.as_ref().map(sample_json)).collect();
    json!({"time": rfc3339(series.unix_millis), "sample_seconds": series.sample_seconds, "samples": samples})
}

fn node_json(load: &NodeLoad) -> Value {
    let disk = |disk: &DiskLoad| {
        json!({
            "read_bytes_per_second": disk.read_bytes,
            "written_bytes_per_second": disk.written_bytes,
            "busy": disk.busy_thousandths as f64 / 1_000.0,
            "latency_seconds": disk.latency_micros as f64 / 1_000_000.0,
            "queue": disk.queue_hundredths as f64 / 100.0,
        })
    };
    let process = |process: &ProcessLoad| {
        json!({
            "pid": process.pid,
            "processor": process.processor_thousandths as f64 / 1_000.0,
            "memory_bytes": process.memory_bytes,
        })
    };
    json!({
        "node": load.node.to_string(),
        "site": load.place.site.to_string(),
        "rack": load.place.rack.to_string(),
        "processors": load.machine.processors,
        "memory_bytes": load.machine.memory_bytes,
        "load": load.sample.as_ref().map(sample_json),
        "disks": load.disks.iter().map(|it| it.as_ref().map(disk)).collect::<Vec<_>>(),
        "processes": load.processes.iter().map(process).collect::<Vec<_>>(),
    })
}

/// Every metric, in whole units: shares of one, bytes, seconds.
fn sample_json(sample: &LoadSample) -> Value {
    let field = |metric: LoadMetric| {
        let value = sample.get(metric);
        let name = metric.as_str().replace('-', "_");
        match metric.unit() {
            LoadUnit::Thousandths => (name, json!(value as f64 / 1_000.0)),
            LoadUnit::Hundredths => (name, json!(value as f64 / 100.0)),
            LoadUnit::Microseconds => (name + "_seconds", json!(value as f64 / 1_000_000.0)),
            LoadUnit::Bytes => (name + "_bytes", json!(value)),
            LoadUnit::BytesPerSecond => (name + "_bytes_per_second", json!(value)),
            LoadUnit::Count => (name, json!(value)),
        }
    };
    Value::Object(LoadMetric::ALL.into_iter().map(field).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn json_has_every_metric_in_whole_units() {
        let mut sample = LoadSample::default();
        sample.set(LoadMetric::Processor, 375);
        sample.set(LoadMetric::DiskLatency, 350);
        let value = sample_json(&sample);
        assert_eq!(value["processor"], json!(0.375));
        assert_eq!(value["disk_latency_seconds"], json!(0.00035));
        assert_eq!(value.as_object().unwrap().len(), LoadMetric::ALL.len());
    }
}
