//! Vectors of the load of nodes: the requests, a report, a page, a series. They never leave out a field.

use super::{node, place};
use crate::message::{
    load::{DiskLoad, LoadMetric, LoadPage, LoadReport, LoadSample, LoadSeries, MachineSize, NodeLoad, ProcessLoad},
    request::{LoadRequest, LoadSeriesRequest},
};

pub(super) fn asked() -> LoadRequest {
    LoadRequest { seconds_ago: 300, after: Some(node()) }
}

pub(super) fn series_asked() -> LoadSeriesRequest {
    LoadSeriesRequest { node: node(), seconds: 3_600 }
}

/// Every metric has a value of its own.
fn sample() -> LoadSample {
    let mut sample = LoadSample::default();
    for (at, metric) in (1..).zip(LoadMetric::ALL) {
        sample.set(metric, at * 100);
    }
    sample
}

fn disk() -> DiskLoad {
    DiskLoad {
        read_bytes: 1 << 20,
        written_bytes: 1 << 30,
        busy_thousandths: 999,
        latency_micros: 350,
        queue_hundredths: 275,
    }
}

pub(super) fn report() -> LoadReport {
    LoadReport {
        machine: MachineSize { processors: 64, memory_bytes: 1 << 38 },
        samples: vec![sample(), LoadSample::default()],
        disks: vec![Some(disk()), None],
        processes: vec![ProcessLoad { pid: 4_711, processor_thousandths: 1_000, memory_bytes: 1 << 28 }],
    }
}

pub(super) fn page() -> LoadPage {
    let LoadReport { machine, disks, processes, .. } = report();
    LoadPage {
        unix_millis: 1_800_000_000_000,
        sample_seconds: 10,
        nodes: vec![NodeLoad { node: node(), place: place(), machine, sample: Some(sample()), disks, processes }],
        next: Some(node()),
    }
}

pub(super) fn series() -> LoadSeries {
    LoadSeries { unix_millis: 1_800_000_000_000, sample_seconds: 120, samples: vec![None, Some(sample())] }
}
