//! How busy a node was: what it reported in the last day, the older the coarser ([`HistoryRings`]). Serves the path
//! *load* (Open Cloud Testbed paper, section 3). It is memory only and bounded. It never looks at a wall clock.

use std::time::Duration;

use protocol::message::load::{
    DISKS_MAX, DiskLoad, LoadMetric, LoadReport, LoadResolution, LoadSample, MachineSize, PROCESSES_MAX, ProcessLoad,
    SAMPLES_MAX,
};

use super::history_rings::HistoryRings;

/// The load of one node.
#[derive(Debug, Default)]
pub(crate) struct LoadHistory {
    pub(crate) machine: MachineSize,
    disks: Vec<Option<DiskLoad>>,
    processes: Vec<ProcessLoad>,
    rings: HistoryRings<METRICS>,
}

const METRICS: usize = LoadMetric::ALL.len();

impl LoadHistory {
    /// A report has come: its last sample ends now, and each one before it a second earlier.
    pub(crate) fn add(&mut self, now: Duration, report: LoadReport) {
        let LoadReport { machine, samples, mut disks, mut processes } = report;
        disks.truncate(DISKS_MAX);
        processes.truncate(PROCESSES_MAX);
        (self.machine, self.disks, self.processes) = (machine, disks, processes);
        let skipped = samples.len().saturating_sub(SAMPLES_MAX);
        let samples = &samples[skipped..];
        for (at, sample) in samples.iter().enumerate() {
            let second = now.as_secs().saturating_sub((samples.len() - 1 - at) as u64);
            self.rings.add_mean(second, LoadMetric::ALL.map(|metric| sample.get(metric) as f64));
        }
    }

    /// The sample that covers a moment so many seconds ago.
    pub(crate) fn at(&self, now: Duration, seconds_ago: u32) -> Option<LoadSample> {
        let ring = self.rings.ring(seconds_ago);
        let target = now.as_secs().checked_sub(u64::from(seconds_ago))?;
        // A node may be late with its last seconds by a pause of the network.
        let tolerated = if ring.resolution.sample_seconds == 1 { LATE_SECONDS_MAX } else { 0 };
        let values = (0..=tolerated).find_map(|earlier| ring.get(ring.span_of(target.checked_sub(earlier)?)));
        values.map(sample)
    }

    /// Disks and processes in the last second, while the node reports.
    pub(crate) fn details(&self, now: Duration) -> (&[Option<DiskLoad>], &[ProcessLoad]) {
        match self.at(now, 0) {
            Some(_) => (&self.disks, &self.processes),
            None => (&[], &[]),
        }
    }

    /// The samples of the last seconds, oldest first, at the finest resolution that reaches as far.
    pub(crate) fn series(&self, now: Duration, seconds: u32) -> Vec<Option<LoadSample>> {
        let ring = self.rings.ring(seconds.saturating_sub(1));
        let last = ring.span_of(now.as_secs());
        let LoadResolution { sample_seconds, samples } = ring.resolution;
        let count = seconds.div_ceil(sample_seconds).min(samples);
        (0..count).rev().map(|back| ring.get(last.checked_sub(u64::from(back))?).map(sample)).collect()
    }
}

fn sample(values: [f64; METRICS]) -> LoadSample {
    let mut sample = LoadSample::default();
    LoadMetric::ALL.into_iter().zip(values).for_each(|(metric, value)| sample.set(metric, value.round() as u64));
    sample
}

/// How late a node's newest sample may be and still be called its load of now.
const LATE_SECONDS_MAX: u64 = 5;

#[cfg(test)]
mod tests {
    use protocol::message::load::LOAD_RESOLUTIONS;

    use super::*;

    fn with_spes(spes: u64) -> LoadSample {
        let mut sample = LoadSample::default();
        sample.set(LoadMetric::Spes, spes);
        sample
    }

    fn report(spes: impl IntoIterator<Item = u64>) -> LoadReport {
        let machine = MachineSize { processors: 2, memory_bytes: 1 << 30 };
        let samples = spes.into_iter().map(with_spes).collect();
        LoadReport { machine, samples, disks: vec![None], processes: vec![] }
    }

    fn spes(sample: Option<LoadSample>) -> Option<u64> {
        sample.map(|sample| sample.get(LoadMetric::Spes))
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_last_minute_is_known_by_the_second() {
        let mut history = LoadHistory::default();
        assert_eq!(history.at(seconds(1_000), 0), None);
        for second in 1_000..1_100 {
            history.add(seconds(second), report([second]));
        }
        let now = seconds(1_099);
        assert_eq!(spes(history.at(now, 0)), Some(1_099));
        assert_eq!(spes(history.at(now, 59)), Some(1_040));
        let series: Vec<_> = history.series(now, 3).into_iter().map(spes).collect();
        assert_eq!(series, [Some(1_097), Some(1_098), Some(1_099)]);
        // A second later nothing new has come yet; six seconds later it is no longer the load of now.
        assert_eq!(spes(history.at(seconds(1_100), 0)), Some(1_099));
        assert_eq!(history.details(seconds(1_104)).0.len(), 1);
        assert_eq!((history.at(seconds(1_105), 0), history.details(seconds(1_105)).0.len()), (None, 0));
    }

    #[test]
    fn what_is_older_is_known_as_a_mean() {
        let mut history = LoadHistory::default();
        for second in 0..600 {
            history.add(seconds(second), report([second]));
        }
        let now = seconds(599);
        // 499 s of the clock: the span from 490 to 499.
        assert_eq!(spes(history.at(now, 100)), Some(495), "the mean of 490 to 499, rounded");
        let series: Vec<_> = history.series(now, 100).into_iter().map(spes).collect();
        assert_eq!((series.len(), series[0], series[9]), (10, Some(505), Some(595)));
        let day = history.series(now, 86_400);
        assert_eq!((day.len(), spes(day[719]), spes(day[715])), (720, Some(540), Some(60)));
        assert!(day[..715].iter().all(Option::is_none), "it was not there yet");
    }

    #[test]
    fn a_report_of_several_seconds_ends_now_and_one_that_is_repeated_changes_nothing_older() {
        let mut history = LoadHistory::default();
        history.add(seconds(100), report([1, 2, 3]));
        history.add(seconds(101), report([1, 2, 3, 4]));
        let series: Vec<_> = history.series(seconds(101), 5).into_iter().map(spes).collect();
        assert_eq!(series, [None, Some(1), Some(2), Some(3), Some(4)]);
    }

    #[test]
    fn a_gap_is_a_gap_unless_only_the_clocks_differ() {
        let mut history = LoadHistory::default();
        history.add(seconds(100), report([1]));
        history.add(seconds(102), report([2]));
        history.add(seconds(110), report([3]));
        let series: Vec<_> = history.series(seconds(110), 11).into_iter().map(spes).collect();
        assert_eq!(series[..4], [Some(1), Some(2), Some(2), None]);
        assert_eq!(series[9..], [None, Some(3)]);
        // Days of silence cost no more than the ring has places.
        history.add(seconds(10_000_000), report([4]));
        assert_eq!(spes(history.at(seconds(10_000_000), 0)), Some(4));
        assert_eq!(history.at(seconds(10_000_000), 50), None);
    }

    #[test]
    fn a_node_takes_at_most_seventy_kilobytes() {
        let mut history = LoadHistory::default();
        for second in (0..200_000).step_by(60) {
            history.add(seconds(second), report(0..100));
        }
        let bytes = history.rings.capacity_bytes() + size_of::<LoadHistory>();
        assert!(bytes <= 70_000, "{bytes}");
        assert_eq!(history.rings.lengths(), LOAD_RESOLUTIONS.map(|resolution| resolution.samples));
    }
}
