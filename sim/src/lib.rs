//! A whole cloud in one process, on one thread, from one seed: the real rules of GMP, master, node, store and Sphere
//! with a clock, a network and disks of the simulation's own. Clients work on it while processes die, links are cut and
//! disks fail; what they were told is kept in a model, and the invariants say where the cloud does not agree with it.
//! Then all faults stop, and the cloud has to become well again.
//!
//! The same seed is the same run, to the byte. Nothing here is depended on by anything else.

mod actor;
mod calls;
mod cloud;
mod environment;
mod faults;
mod invariants;
mod messenger;
mod model;
mod network;
mod queue;
mod reading;
mod role;
mod tagged;
#[cfg(test)]
mod tests;
mod trace;

use std::{fmt, time::Duration};

pub use cloud::run;
pub use faults::FaultCounts;
pub use network::DatagramCounts;

/// What to simulate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Decides everything.
    pub seed: u64,
    /// Whether the trace is printed.
    pub is_shown: bool,
    /// What is broken on purpose, to see that an invariant finds it.
    pub sabotage: Option<Sabotage>,
}

/// A part of the simulated world that does not keep its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The master's journal loses in a crash what it had said was saved.
    JournalForgets,
    /// The disks of all nodes lose what was synced.
    DisksForget,
    /// A bucket takes a piece's first record twice, and its last not at all.
    BucketRepeatsRecord,
    /// Nodes acknowledge the order to fetch a copy, and never do.
    CopiesAreNeverMade,
    /// The master's journal loses which versions removed files had.
    VersionsAreForgotten,
    /// The first slice of each node's inventory is left out once the master has lost its journal.
    SlicesAreHidden,
    /// Nodes name other paths in their inventories once the master has lost its journal.
    PathsAreMixedUp,
    /// Nodes tell a master that lost its journal nothing of folders.
    FoldersAreForgotten,
    /// Nodes tell a master with an older journal nothing that it does not know.
    OldJournalIsBelieved,
    /// Nodes acknowledge the order to remove a slice, and never do.
    RemovalsAreNeverMade,
    /// Nodes tell a master that lost its journal nothing of who may do what with folders.
    RightsAreForgotten,
    /// Nor how much users may keep.
    QuotasAreForgotten,
    /// Nor what policies folders have.
    PoliciesAreForgotten,
    /// Nor what is in the trash.
    TrashIsForgotten,
    /// The master takes everyone for an administrator.
    PrivateIsOpen,
    /// The master counts a byte too many for each quota.
    QuotasAreMiscounted,
    /// The master never hears whose sessions were revoked.
    RevocationsAreForgotten,
    /// The driver of jobs writes its output where nobody knows of it.
    OutputGoesAstray,
    /// The driver of jobs gives its output its place as soon as there is a part of it.
    OutputIsRevealedEarly,
    /// A bucket keeps the pieces of all attempts that left some.
    BucketsMixAttempts,
}

impl Sabotage {
    /// All there are.
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

/// How a simulation went.
#[derive(Clone, Debug)]
pub struct SimulationReport {
    /// Its seed.
    pub seed: u64,
    /// Stands for all that happened: equal for equal runs.
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
    /// Uploads that went on behind what an earlier attempt had left.
    pub resumed: u32,
    /// The promise that was broken, if one was.
    pub violation: Option<Violation>,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Of which kind.
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
    /// What the command says to the shell.
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
