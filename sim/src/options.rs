//! What to simulate: the seed, and the part that is broken on purpose. This file never acts.

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
    /// The master keeps replaced content for a second only.
    ReplacedGoesEarly,
    /// The driver of jobs writes its output where nobody knows of it.
    OutputGoesAstray,
    /// The driver of jobs puts its output in place as soon as there is a part of it.
    OutputIsRevealedEarly,
    /// A bucket keeps the pieces of all attempts that left some.
    BucketsMixAttempts,
}

impl Sabotage {
    /// All sabotages.
    pub const ALL: [Self; 21] = [
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
        Self::ReplacedGoesEarly,
    ];
}
