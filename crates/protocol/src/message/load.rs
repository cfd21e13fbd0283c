//! How busy nodes are: what each metric was in each second. Nodes report it to the master (door 4), and users read it
//! there (door 2). (Open Cloud Testbed paper, section 3: each block of the heat map is a node, its colour the load.) A
//! sample never says what caused it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Place};

/// What is measured at every node, each second. New ones go last: their order is the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LoadMetric {
    /// The share of the machine's processor time that was used.
    Processor,
    /// Memory that programs use and could not be given to others, of the machine.
    Memory,
    /// Bytes read from the node's disks.
    DiskRead,
    /// Bytes written to the node's disks.
    DiskWritten,
    /// The share of the time in which the busiest of the node's disks had something to do.
    DiskBusy,
    /// Time that an operation of the node's disks took, waiting included, at the slowest disk.
    DiskLatency,
    /// Operations that waited for the node's disks, or ran there, on average.
    DiskQueue,
    /// Bytes that came into the machine.
    NetworkReceived,
    /// Bytes that left the machine.
    NetworkSent,
    /// Processor time of the node's own process, as a share of one processor.
    NodeProcessor,
    /// Memory of the node's own process.
    NodeMemory,
    /// Processor time of the SPEs and drivers that the node has started, as a share of one processor.
    SpeProcessor,
    /// Memory of the SPEs and drivers that the node has started.
    SpeMemory,
    /// SPEs at work.
    Spes,
    /// Transfers under way.
    Transfers,
}

impl LoadMetric {
    /// All of them, in the order of the wire format.
    pub const ALL: [Self; 15] = [
        Self::Processor,
        Self::Memory,
        Self::DiskRead,
        Self::DiskWritten,
        Self::DiskBusy,
        Self::DiskLatency,
        Self::DiskQueue,
        Self::NetworkReceived,
        Self::NetworkSent,
        Self::NodeProcessor,
        Self::NodeMemory,
        Self::SpeProcessor,
        Self::SpeMemory,
        Self::Spes,
        Self::Transfers,
    ];

    /// Its name, for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::Memory => "memory",
            Self::DiskRead => "disk-read",
            Self::DiskWritten => "disk-written",
            Self::DiskBusy => "disk-busy",
            Self::DiskLatency => "disk-latency",
            Self::DiskQueue => "disk-queue",
            Self::NetworkReceived => "network-received",
            Self::NetworkSent => "network-sent",
            Self::NodeProcessor => "node-processor",
            Self::NodeMemory => "node-memory",
            Self::SpeProcessor => "spe-processor",
            Self::SpeMemory => "spe-memory",
            Self::Spes => "spes",
            Self::Transfers => "transfers",
        }
    }

    /// The unit of its values.
    pub fn unit(self) -> LoadUnit {
        match self {
            Self::Processor | Self::DiskBusy | Self::NodeProcessor | Self::SpeProcessor => LoadUnit::Thousandths,
            Self::Memory | Self::NodeMemory | Self::SpeMemory => LoadUnit::Bytes,
            Self::DiskRead | Self::DiskWritten | Self::NetworkReceived | Self::NetworkSent => LoadUnit::BytesPerSecond,
            Self::DiskLatency => LoadUnit::Microseconds,
            Self::DiskQueue => LoadUnit::Hundredths,
            Self::Spes | Self::Transfers => LoadUnit::Count,
        }
    }
}

/// The unit of a [`LoadMetric`]: values are whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadUnit {
    /// A share: 1,000 is all of it.
    Thousandths,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Microseconds.
    Microseconds,
    /// A number with two decimals: 100 is one.
    Hundredths,
    /// A whole number.
    Count,
}

/// What a node did in one second, or on average in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSample([u64; LoadMetric::ALL.len()]);

impl LoadSample {
    /// The value of a metric, in its [unit](LoadMetric::unit).
    pub fn get(&self, metric: LoadMetric) -> u64 {
        self.0[metric as usize]
    }

    /// Sets the value of a metric, in its [unit](LoadMetric::unit).
    pub fn set(&mut self, metric: LoadMetric, value: u64) {
        self.0[metric as usize] = value;
    }
}

/// What a node reports about its load, with each status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadReport {
    /// What does not change while the node runs.
    pub machine: MachineSize,
    /// A sample for each second since the last report that was answered, oldest first; at most [`SAMPLES_MAX`].
    pub samples: Vec<LoadSample>,
    /// Each disk in the last second, in the order of the node's settings. `None` where the system does not count, as for
    /// a folder in memory.
    pub disks: Vec<Option<DiskLoad>>,
    /// Each SPE and driver in the last second; at most [`PROCESSES_MAX`].
    pub processes: Vec<ProcessLoad>,
}

/// How large a node's machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSize {
    /// Its processors.
    pub processors: u32,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
}

/// What a disk did in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskLoad {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The share of the time in which it had something to do, in thousandths.
    pub busy_thousandths: u64,
    /// Mean time of an operation, waiting included, in microseconds; 0 where there was none.
    pub latency_micros: u64,
    /// Operations that waited or ran, on average, in hundredths.
    pub queue_hundredths: u64,
}

/// What a process that the node has started did in one second, with all that it has started itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLoad {
    /// Its process id.
    pub pid: u32,
    /// Processor time, in thousandths of one processor.
    pub processor_thousandths: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

/// The load of one node at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Which.
    pub node: NodeId,
    /// Where it stands.
    pub place: Place,
    /// Its machine.
    pub machine: MachineSize,
    /// The sample of that moment; `None` where nothing was reported: the node was lost, or not there yet.
    pub sample: Option<LoadSample>,
    /// Its disks in the last second; empty where an earlier moment was asked for.
    pub disks: Vec<Option<DiskLoad>>,
    /// Its SPEs and drivers in the last second; empty where an earlier moment was asked for.
    pub processes: Vec<ProcessLoad>,
}

/// The load of the cloud at a moment, a page of nodes at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPage {
    /// When the samples end, in milliseconds since the Unix epoch, by the master's clock.
    pub unix_millis: u64,
    /// How many seconds a sample covers. The further back, the more: see [`LOAD_RESOLUTIONS`].
    pub sample_seconds: u32,
    /// Nodes by name.
    pub nodes: Vec<NodeLoad>,
    /// The last node of this page, if more follow.
    pub next: Option<NodeId>,
}

/// The load of one node over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSeries {
    /// When the last sample ends, in milliseconds since the Unix epoch, by the master's clock.
    pub unix_millis: u64,
    /// How many seconds a sample covers.
    pub sample_seconds: u32,
    /// Samples, oldest first; `None` where nothing was reported.
    pub samples: Vec<Option<LoadSample>>,
}

/// What the master keeps of each node: samples of so many seconds, and how many of them. It takes at most 70 kB a node.
pub const LOAD_RESOLUTIONS: [LoadResolution; 3] = [
    LoadResolution { sample_seconds: 1, samples: 60 },
    LoadResolution { sample_seconds: 10, samples: 360 },
    LoadResolution { sample_seconds: 120, samples: 720 },
];

/// See [`LOAD_RESOLUTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadResolution {
    /// How many seconds a sample covers.
    pub sample_seconds: u32,
    /// How many samples are kept.
    pub samples: u32,
}

impl LoadResolution {
    /// How far back it goes.
    pub const fn reach(self) -> Duration {
        Duration::from_secs(self.sample_seconds as u64 * self.samples as u64)
    }
}

/// Most samples of one report: a minute, during which the master did not answer. Older ones are lost.
pub const SAMPLES_MAX: usize = 60;
/// Most processes of one report: a node has fewer SPEs than that, and as many drivers as jobs.
pub const PROCESSES_MAX: usize = 256;
/// Most disks of one report.
pub const DISKS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_metric_has_its_own_place_and_name() {
        for (at, metric) in LoadMetric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, at);
        }
        let names: BTreeSet<_> = LoadMetric::ALL.into_iter().map(LoadMetric::as_str).collect();
        assert_eq!(names.len(), LoadMetric::ALL.len());
    }

    #[test]
    fn finer_samples_are_kept_for_less_long_and_a_day_is_kept() {
        for pair in LOAD_RESOLUTIONS.windows(2) {
            assert!(pair[0].reach() < pair[1].reach());
            assert_eq!(pair[1].sample_seconds % pair[0].sample_seconds, 0, "coarser samples are made of finer ones");
        }
        assert_eq!(LOAD_RESOLUTIONS.last().map(|last| last.reach()), Some(Duration::from_secs(86_400)));
    }
}
