//! A whole cloud in one process, on one thread, from one seed. The real rules of GMP, master, node, store and Sphere
//! run with a simulated clock, network and disks. Clients work while processes die, links are cut and disks fail; a
//! model keeps their answers, and the invariants report where the cloud disagrees. Then all faults stop, and the cloud
//! has to become well again. The same seed is the same run, to the byte. The other crates never depend on this one.

mod actor;
mod cloud;
mod environment;
mod faults;
mod invariants;
mod model;
mod reading;
mod role;
mod tagged;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

pub use cloud::run;
pub use environment::network::DatagramCounts;
pub use faults::FaultCounts;

/// What to simulate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Determines the whole run.
    pub seed: u64,
    /// Whether the trace is printed.
    pub is_shown: bool,
    /// The part that is broken on purpose, to see that an invariant finds it.
    pub sabotage: Option<Sabotage>,
}

/// A part of the simulated world that breaks its promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// In a crash, the master's journal loses changes it had reported as saved.
    JournalForgets,
    /// The disks of all nodes lose synced data.
    DisksForget,
    /// A bucket takes a piece's first record twice, and its last not at all.
    BucketRepeatsRecord,
    /// Nodes acknowledge the order to fetch a copy, but never fetch it.
    CopiesAreNeverMade,
    /// The master's journal loses the versions of removed files.
    VersionsAreForgotten,
    /// The first slice of each node's inventory is left out once the master has lost its journal.
    SlicesAreHidden,
    /// Nodes name other paths in their inventories once the master has lost its journal.
    PathsAreMixedUp,
    /// Nodes tell a master that lost its journal nothing of folders.
    FoldersAreForgotten,
    /// Nodes tell a master with an older journal nothing that it does not know.
    OldJournalIsBelieved,
    /// Nodes acknowledge the order to remove a slice, but never remove it.
    RemovalsAreNeverMade,
    /// Nodes leave the rights of folders out of their report to a master that lost its journal.
    RightsAreForgotten,
    /// The same for users' quotas.
    QuotasAreForgotten,
    /// The same for policies of folders.
    PoliciesAreForgotten,
    /// The same for the trash.
    TrashIsForgotten,
    /// The master treats everyone as an administrator.
    PrivateIsOpen,
    /// The master counts a byte too many for each quota.
    QuotasAreMiscounted,
    /// The master never hears whose sessions were revoked.
    RevocationsAreForgotten,
    /// The driver of jobs writes its output where nobody knows of it.
    OutputGoesAstray,
    /// The driver of jobs puts its output in place as soon as there is a part of it.
    OutputIsRevealedEarly,
    /// A bucket keeps the pieces of all attempts that left some.
    BucketsMixAttempts,
}

impl Sabotage {
    /// All sabotages.
    pub const ALL: [Self; 20] = [
        Self::JournalForgets,
        Self::DisksForget,
        Self::BucketRepeatsRecord,
        Self::CopiesAreNeverMade,
        Self::VersionsAreForgotten,
        Self::SlicesAreHidden,
        Self::PathsAreMixedUp,
        Self::FoldersAreForgotten,
        Self::OldJournalIsBelieved,
        Self::RemovalsAreNeverMade,
        Self::OutputGoesAstray,
        Self::OutputIsRevealedEarly,
        Self::BucketsMixAttempts,
        Self::RightsAreForgotten,
        Self::QuotasAreForgotten,
        Self::PoliciesAreForgotten,
        Self::TrashIsForgotten,
        Self::PrivateIsOpen,
        Self::QuotasAreMiscounted,
        Self::RevocationsAreForgotten,
    ];
}

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
