//! How busy the node is: it reads the system's counters every second, and keeps a sample of each second until the master
//! has it. Serves the paths *load* and *links*. It never reads from a disk: counters are files in memory.

mod counters;
pub(crate) mod evidence;
pub(crate) mod links;
mod rates;
mod untold_queue;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use daemon::shutdown::ShutdownToken;
use protocol::message::load::{DISKS_MAX, LoadMetric, LoadReport, LoadSample, MachineSize, PROCESSES_MAX};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{blocking, node_context::NodeContext};
pub(crate) use counters::Counters;
use counters::CountersReader;
use rates::rates;
use untold_queue::UntoldQueue;

/// What was measured and not yet reported.
#[derive(Debug, Default)]
pub(crate) struct LoadSamples(Mutex<Measured>);

#[derive(Debug, Default)]
struct Measured {
    /// Its samples are those that the master does not have.
    untold: UntoldQueue<LoadSample>,
    /// Everything else is of the last second.
    last: Option<(LoadReport, Counters)>,
}

/// A report, and what to say once the master has it.
pub(crate) struct UntoldLoad {
    pub(crate) report: LoadReport,
    /// The number of the first sample after it.
    end: u64,
}

impl LoadSamples {
    /// The last second, for metrics; `None` until there were two readings.
    pub(crate) fn last(&self) -> Option<(LoadReport, Counters)> {
        self.lock().last.clone()
    }

    /// What the master does not have yet; `None` where that is nothing.
    pub(crate) fn untold(&self) -> Option<UntoldLoad> {
        let measured = self.lock();
        let (samples, end) = measured.untold.all();
        let (last, _) = measured.last.as_ref().filter(|_| !samples.is_empty())?;
        Some(UntoldLoad { report: LoadReport { samples, ..last.clone() }, end })
    }

    /// The master has this.
    pub(crate) fn note_told(&self, told: &UntoldLoad) {
        self.lock().untold.note_told(told.end);
    }

    fn add(&self, report: LoadReport, counters: Counters) {
        let mut measured = self.lock();
        report.samples.iter().for_each(|sample| measured.untold.push(*sample));
        measured.last = Some((report, counters));
    }

    fn lock(&self) -> MutexGuard<'_, Measured> {
        // Samples are whole after each line of this file.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a sample every second until the node stops. A system that does not count is told once, and then left alone.
pub(crate) async fn sample(context: Arc<NodeContext>, folders: Vec<PathBuf>, stopping: ShutdownToken) {
    let mut ticks = interval_at(Instant::now(), EVERY);
    // Two readings at once would tell a rate of nothing.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reader = CountersReader::new(folders);
    let mut before: Option<Counters> = None;
    while stopping.run_until_cancelled(ticks.tick()).await.is_some() {
        // Away from the network's threads, although it takes less than a millisecond: on a machine in trouble it may not.
        let read = blocking("reading the counters of the system", move || {
            let read = reader.read();
            Ok((reader, read))
        });
        let Ok((given_back, read)) = read.await else { return };
        reader = given_back;
        let now = match read {
            Ok(now) => now,
            Err(error) => return tracing::warn!(%error, "the load of this node is not measured"),
        };
        if let Some(before) = before.replace(now.clone()) {
            let report = report(&context, &before, &now);
            context.load.add(report, now);
        }
    }
}

fn report(context: &NodeContext, before: &Counters, now: &Counters) -> LoadReport {
    let (mut sample, mut disks, mut processes) = rates(before, now);
    sample.set(LoadMetric::Spes, u64::from(context.spes.running.value()));
    sample.set(LoadMetric::Transfers, u64::from(context.limits.transfers_running.value()));
    disks.truncate(DISKS_MAX);
    processes.truncate(PROCESSES_MAX);
    let machine = MachineSize { processors: now.processors, memory_bytes: now.memory_bytes };
    LoadReport { machine, samples: vec![sample], disks, processes }
}

/// How often a sample is taken.
const EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::message::load::SAMPLES_MAX;

    use super::*;

    fn second(spes: u64) -> LoadReport {
        let mut sample = LoadSample::default();
        sample.set(LoadMetric::Spes, spes);
        let machine = MachineSize { processors: 2, memory_bytes: 1 << 30 };
        LoadReport { machine, samples: vec![sample], disks: vec![], processes: vec![] }
    }

    fn add(samples: &LoadSamples, spes: u64) {
        samples.add(second(spes), CountersReader::new(vec![]).read().unwrap());
    }

    fn spes(untold: &UntoldLoad) -> Vec<u64> {
        untold.report.samples.iter().map(|sample| sample.get(LoadMetric::Spes)).collect()
    }

    #[test]
    fn a_sample_is_kept_until_the_master_has_it() {
        let samples = LoadSamples::default();
        assert!(samples.untold().is_none());
        add(&samples, 1);
        add(&samples, 2);
        let first = samples.untold().unwrap();
        assert_eq!(spes(&first), [1, 2]);
        // The answer to the report did not come; meanwhile another second has passed.
        add(&samples, 3);
        let again = samples.untold().unwrap();
        assert_eq!(spes(&again), [1, 2, 3]);
        samples.note_told(&first);
        assert_eq!(spes(&samples.untold().unwrap()), [3]);
        samples.note_told(&again);
        assert!(samples.untold().is_none());
        samples.note_told(&again);
        add(&samples, 4);
        assert_eq!(spes(&samples.untold().unwrap()), [4], "an old answer takes nothing newer away");
    }

    #[test]
    #[ignore = "a measurement: `cargo test --release -p sector-node --lib what_a_sample_takes -- --ignored --nocapture`"]
    fn what_a_sample_takes() {
        let folders = vec![std::env::temp_dir(), "/".into(), "/usr".into(), "/var".into()];
        let mut reader = CountersReader::new(folders);
        let sleeper = || std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut children: Vec<_> = (0..16).map(|_| sleeper()).collect();
        let mut before = reader.read().unwrap();
        let begun = std::time::Instant::now();
        for _ in 0..READINGS {
            let now = reader.read().unwrap();
            let (sample, _, processes) = rates(&before, &now);
            assert!(sample.get(LoadMetric::Memory) > 0 && processes.len() >= 16);
            before = now;
        }
        let each = begun.elapsed() / READINGS;
        let share = each.as_secs_f64() / EVERY.as_secs_f64() * 100.0;
        println!("a sample takes {each:?} with 16 children and 4 folders: {share:.3} % of a processor");
        children.iter_mut().for_each(|child| drop(child.kill().and_then(|()| child.wait())));
        assert!(share < 1.0, "{share} %");
    }

    const READINGS: u32 = 2_000;

    #[test]
    fn the_oldest_samples_are_lost_when_no_master_takes_them() {
        let samples = LoadSamples::default();
        let told_late = {
            add(&samples, 0);
            samples.untold().unwrap()
        };
        for number in 1..=SAMPLES_MAX as u64 + 5 {
            add(&samples, number);
        }
        samples.note_told(&told_late);
        let kept = spes(&samples.untold().unwrap());
        assert_eq!((kept.len(), kept[0]), (SAMPLES_MAX, 6));
    }
}
