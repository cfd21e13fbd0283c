//! What happened between two readings of the counters, by the second. Pure: no clock and no file. It never reports more
//! than a whole of anything that is a share.

use std::time::Duration;

use protocol::message::load::{DiskLoad, LoadMetric, LoadSample, ProcessLoad};

use super::counters::{Counters, DiskCounters};

/// The sample of the time between two readings, without what the node counts itself; each disk; each child.
pub(super) fn rates(before: &Counters, now: &Counters) -> (LoadSample, Vec<Option<DiskLoad>>, Vec<ProcessLoad>) {
    let span = now.at.saturating_duration_since(before.at);
    let mut sample = LoadSample::default();
    let used = now.processor_ticks.0.saturating_sub(before.processor_ticks.0);
    let all = now.processor_ticks.1.saturating_sub(before.processor_ticks.1);
    sample.set(LoadMetric::Processor, share(used, all));
    sample.set(LoadMetric::Memory, now.memory_used_bytes);
    let (received, sent) = now.network_bytes;
    sample.set(LoadMetric::NetworkReceived, per_second(received.saturating_sub(before.network_bytes.0), span));
    sample.set(LoadMetric::NetworkSent, per_second(sent.saturating_sub(before.network_bytes.1), span));
    let processor = |ticks: u64, earlier: u64| {
        let millis = (ticks.saturating_sub(earlier)).saturating_mul(1_000) / now.ticks_per_second.max(1);
        per_second(millis, span)
    };
    sample.set(LoadMetric::NodeProcessor, processor(now.node.ticks, before.node.ticks));
    sample.set(LoadMetric::NodeMemory, now.node.memory_bytes);
    let processes: Vec<_> = now
        .children
        .iter()
        .map(|(&pid, child)| {
            // A new one has used all its time since the reading before.
            let earlier = before.children.get(&pid).map_or(0, |earlier| earlier.ticks);
            let processor_thousandths = processor(child.ticks, earlier);
            ProcessLoad { pid, processor_thousandths, memory_bytes: child.memory_bytes }
        })
        .collect();
    sample.set(LoadMetric::SpeProcessor, processes.iter().map(|it| it.processor_thousandths).sum());
    sample.set(LoadMetric::SpeMemory, processes.iter().map(|it| it.memory_bytes).sum());
    let disks: Vec<_> = now
        .disks
        .iter()
        .enumerate()
        .map(|(at, disk)| {
            let (disk, earlier) = ((*disk)?, before.disks.get(at).copied().flatten()?);
            // Another disk may have come to the folder.
            (disk.device == earlier.device).then(|| disk_load(&earlier, &disk, span))
        })
        .collect();
    set_disks(&mut sample, &now.disks, &disks);
    (sample, disks, processes)
}

/// The disks together. Folders on one device share its counters, which count once.
fn set_disks(sample: &mut LoadSample, counters: &[Option<DiskCounters>], disks: &[Option<DiskLoad>]) {
    let mut devices = Vec::new();
    for (counter, load) in counters.iter().zip(disks) {
        let (Some(counter), Some(load)) = (counter, load) else { continue };
        if devices.contains(&counter.device) {
            continue;
        }
        devices.push(counter.device);
        let mut add = |metric, value| sample.set(metric, sample.get(metric) + value);
        add(LoadMetric::DiskRead, load.read_bytes);
        add(LoadMetric::DiskWritten, load.written_bytes);
        add(LoadMetric::DiskQueue, load.queue_hundredths);
        let mut most = |metric, value| sample.set(metric, sample.get(metric).max(value));
        most(LoadMetric::DiskBusy, load.busy_thousandths);
        most(LoadMetric::DiskLatency, load.latency_micros);
    }
}

fn disk_load(before: &DiskCounters, now: &DiskCounters, span: Duration) -> DiskLoad {
    let since = |of: fn(&DiskCounters) -> u64| of(now).saturating_sub(of(before));
    let operation_millis = since(|it| it.operation_millis);
    DiskLoad {
        read_bytes: per_second(since(|it| it.read_bytes), span),
        written_bytes: per_second(since(|it| it.written_bytes), span),
        // The system counts in milliseconds, so that a full second may show as a few more.
        busy_thousandths: per_second(since(|it| it.busy_millis), span).min(1_000),
        latency_micros: operation_millis.saturating_mul(1_000).checked_div(since(|it| it.operations)).unwrap_or(0),
        // Milliseconds that operations took, in a second of a thousand: that many were there on average.
        queue_hundredths: per_second(operation_millis, span) / 10,
    }
}

/// A part of a whole, in thousandths.
fn share(part: u64, whole: u64) -> u64 {
    part.saturating_mul(1_000).checked_div(whole).unwrap_or(0).min(1_000)
}

/// How much a second, where this much came in this time.
fn per_second(count: u64, span: Duration) -> u64 {
    let millis = span.as_millis().max(1);
    u64::try_from(u128::from(count) * 1_000 / millis).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{collections::BTreeMap, time::Instant};

    use super::*;
    use crate::load::counters::ProcessCounters;

    fn disk(minor: u32) -> DiskCounters {
        DiskCounters { device: (8, minor), ..DiskCounters::default() }
    }

    fn counters(at: Instant) -> Counters {
        Counters {
            at,
            processors: 4,
            processor_ticks: (1_000, 10_000),
            ticks_per_second: 100,
            memory_bytes: 1 << 34,
            memory_used_bytes: 1 << 33,
            disks: vec![Some(disk(1)), Some(disk(1)), Some(disk(2)), None],
            network_bytes: (5_000, 7_000),
            node: ProcessCounters { ticks: 50, memory_bytes: 1 << 20 },
            children: BTreeMap::from([(7, ProcessCounters { ticks: 10, memory_bytes: 1 << 21 })]),
        }
    }

    #[test]
    fn rates_are_by_the_second_however_long_the_time_between_was() {
        let before = counters(Instant::now());
        let mut now = counters(before.at + Duration::from_secs(2));
        now.processor_ticks = (1_300, 10_800);
        now.network_bytes = (7_000, 8_000);
        now.node.ticks = 150;
        now.children.insert(8, ProcessCounters { ticks: 200, memory_bytes: 1 << 22 });
        let (sample, _, processes) = rates(&before, &now);
        let of = |metric| sample.get(metric);
        assert_eq!(of(LoadMetric::Processor), 375, "300 of 800 ticks");
        assert_eq!(of(LoadMetric::Memory), 1 << 33);
        assert_eq!((of(LoadMetric::NetworkReceived), of(LoadMetric::NetworkSent)), (1_000, 500));
        assert_eq!(of(LoadMetric::NodeProcessor), 500, "a second of processor time in two seconds");
        assert_eq!(
            processes.iter().map(|it| (it.pid, it.processor_thousandths)).collect::<Vec<_>>(),
            [(7, 0), (8, 1_000)]
        );
        assert_eq!(of(LoadMetric::SpeProcessor), 1_000);
        assert_eq!(of(LoadMetric::SpeMemory), (1 << 21) + (1 << 22));
    }

    #[test]
    fn a_device_under_two_folders_counts_once_and_the_slowest_tells() {
        let before = counters(Instant::now());
        let mut now = counters(before.at + Duration::from_secs(1));
        let [fast, slow] =
            [(1, 100, 50, 400), (2, 10, 500, 1_004)].map(|(minor, operations, time, busy)| DiskCounters {
                operations,
                read_bytes: 1 << 20,
                written_bytes: 1 << 10,
                operation_millis: time,
                busy_millis: busy,
                ..disk(minor)
            });
        now.disks = vec![Some(fast), Some(fast), Some(slow), None];
        let (sample, disks, _) = rates(&before, &now);
        assert_eq!(sample.get(LoadMetric::DiskRead), 2 << 20);
        assert_eq!(sample.get(LoadMetric::DiskWritten), 2 << 10);
        assert_eq!(sample.get(LoadMetric::DiskBusy), 1_000, "never more than all of it");
        assert_eq!(sample.get(LoadMetric::DiskLatency), 50_000);
        assert_eq!(sample.get(LoadMetric::DiskQueue), 55);
        assert_eq!(disks[0].unwrap().latency_micros, 500);
        assert_eq!(disks[3], None);
    }

    #[test]
    fn counters_that_went_back_or_belong_to_another_disk_tell_nothing() {
        let mut before = counters(Instant::now());
        before.network_bytes = (u64::MAX, u64::MAX);
        before.disks[2] = Some(DiskCounters { read_bytes: 1, ..disk(9) });
        let mut now = counters(before.at + Duration::from_secs(1));
        now.disks[2] = Some(DiskCounters { read_bytes: 1 << 40, ..disk(2) });
        let (sample, disks, _) = rates(&before, &now);
        assert_eq!((sample.get(LoadMetric::NetworkReceived), sample.get(LoadMetric::DiskRead)), (0, 0));
        assert_eq!(disks[2], None);
    }
}
