//! What a simulation found: its figures, the faults that fired, and the promise that was broken, if one was. It never
//! judges.

use std::{fmt, time::Duration};

use crate::environment::network::DatagramCounts;

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct SimulationReport {
    /// Its seed.
    pub seed: u64,
    /// A digest of the whole run: equal for equal runs.
    pub digest: u64,
    /// Events that happened.
    pub events: u64,
    /// Lines of the trace.
    pub lines: u64,
    /// Time that passed in it.
    pub simulated: Duration,
    /// The faults that fired.
    pub fired: FaultCounts,
    /// What the network did.
    pub network: DatagramCounts,
    /// Jobs that ended well.
    pub jobs_done: u32,
    /// Drivers that took over from one that had begun.
    pub taken_over: u32,
    /// Results of tasks that were sent again, since the node that had them was lost.
    pub delivered_again: u32,
    /// Appends that ended well.
    pub appended: u32,
    /// Uploads that continued after the part left by an earlier attempt.
    pub resumed: u32,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kind of the promise.
    pub kind: ViolationKind,
    /// What was found.
    pub message: String,
    /// When, in simulated time.
    pub at: Duration,
}

/// The kinds of promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// Something happened that must never happen.
    Safety,
    /// Something did not happen that must happen in the end.
    Liveness,
}

impl ViolationKind {
    /// The exit code of the command.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Safety => 1,
            Self::Liveness => 2,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ViolationKind::Safety => "safety",
            ViolationKind::Liveness => "liveness",
        };
        write!(f, "{kind} violated after {:.3} s: {}", self.at.as_secs_f64(), self.message)
    }
}

/// How often each fault fired: proof that a run tests something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Nodes that died.
    pub node_crashes: u64,
    /// Of these, in the middle of writing to their disks.
    pub power_cuts: u64,
    /// Times that the master died.
    pub master_crashes: u64,
    /// Processes or sites that were cut off from all others for a while.
    pub cuts: u64,
    /// Of these, cut in one direction only.
    pub one_way_cuts: u64,
    /// Of these, all nodes of a site.
    pub site_cuts: u64,
    /// Calls to a disk that failed once.
    pub disk_failures: u64,
    /// Disks that were full for a while.
    pub full_disks: u64,
    /// Disks that were replaced by empty ones.
    pub destroyed_disks: u64,
    /// Disks that answered with errors until they were repaired.
    pub broken_disks: u64,
    /// Copies with a flipped bit.
    pub flips: u64,
    /// Copies with an unreadable sector.
    pub bad_sectors: u64,
    /// Wall clocks that jumped.
    pub clock_jumps: u64,
    /// Changes of the journal's disk that failed.
    pub journal_failures: u64,
    /// Disks of the journal that were full for a while.
    pub full_journals: u64,
    /// Masters that lost their journal.
    pub lost_journals: u64,
    /// Masters that were given an older journal.
    pub rolled_back_journals: u64,
}

impl FaultCounts {
    /// Each fault's count, with its name in the plural.
    pub fn by_name(&self) -> [(&'static str, u64); 17] {
        [
            ("node crashes", self.node_crashes),
            ("power cuts among them", self.power_cuts),
            ("master crashes", self.master_crashes),
            ("cuts", self.cuts),
            ("one-way among them", self.one_way_cuts),
            ("sites among them", self.site_cuts),
            ("disk failures", self.disk_failures),
            ("full disks", self.full_disks),
            ("destroyed disks", self.destroyed_disks),
            ("broken disks", self.broken_disks),
            ("turned bits", self.flips),
            ("bad sectors", self.bad_sectors),
            ("clock jumps", self.clock_jumps),
            ("journal failures", self.journal_failures),
            ("full journals", self.full_journals),
            ("lost journals", self.lost_journals),
            ("older journals", self.rolled_back_journals),
        ]
    }
}
