//! Background work, one row a piece: what it is, how far it is, what went wrong last. Nodes report theirs to the master
//! (door 4), and administrators read all rows there (door 2). A row never starts or stops what it tells of.

use serde::{Deserialize, Serialize};

use crate::NodeId;

/// One piece of background work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItem {
    /// What it is.
    pub kind: WorkKind,
    /// Which of several of its kind: a disk's folder, a job, a node. Empty where there is only one.
    pub subject: String,
    /// What it does now.
    pub state: WorkState,
    /// How much is done, in the [unit](WorkKind::unit) of its kind; `None` where nobody counts.
    pub done: Option<u64>,
    /// How much is left, in the same unit; `None` where that is not known.
    pub left: Option<u64>,
    /// What went wrong last, even if it went well since.
    pub last_fault: Option<WorkFault>,
    /// When it goes on, in milliseconds since the Unix epoch; `None` while it runs, or where nobody knows.
    pub next_unix_millis: Option<u64>,
}

/// What a piece of background work is. New kinds go last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WorkKind {
    /// A node reads every slice of a disk again, and compares it with its checksums.
    Scrub,
    /// A node looks whether its disks still work.
    DiskWatch,
    /// A machine's certificate is renewed before it ends.
    CertificateRenewal,
    /// Missing copies are made, and misplaced ones moved.
    Repair,
    /// Nodes get the small rows that a master needs if it loses its journal.
    Mirror,
    /// What nodes hold is compared with what they should hold.
    Reconcile,
    /// The names are put together again after a lost journal.
    Rebuild,
    /// A node drives a detached job.
    JobDriver,
    /// What was in the trash for long enough, and expired files, are removed for good.
    TrashPurge,
    /// Slices move from fuller to emptier nodes.
    Rebalance,
    /// A node is emptied.
    Drain,
    /// What happened is taken to the audit record.
    AuditDelivery,
}

/// What a piece of background work does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkState {
    /// It works, or pauses between two steps.
    Running,
    /// It has nothing to do.
    Idle,
    /// It has something to do and cannot: no room, no node.
    Blocked,
    /// Its last step failed; it will be repeated.
    Failing,
    /// It has ended, or was never switched on.
    Off,
}

/// What went wrong, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkFault {
    /// When, in milliseconds since the Unix epoch.
    pub unix_millis: u64,
    /// What, for people; at most [`FAULT_CHARACTERS_MAX`].
    pub message: String,
}

/// A piece of background work, and where it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkRow {
    /// The node that does it; `None`: the master.
    pub node: Option<NodeId>,
    /// When this was known, in milliseconds since the Unix epoch: nodes report every [`WORK_REPORT_SECONDS`].
    pub unix_millis: u64,
    /// What is done.
    pub item: WorkItem,
}

/// Background work, a page at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkPage {
    /// Rows: first those of the master, then those of its nodes by name.
    pub rows: Vec<WorkRow>,
    /// The last node of this page, if more follow.
    pub next: Option<NodeId>,
}

impl WorkItem {
    /// One that has nothing to do, and of which nothing more is known.
    pub fn idle(kind: WorkKind) -> Self {
        Self {
            kind,
            subject: String::new(),
            state: WorkState::Idle,
            done: None,
            left: None,
            last_fault: None,
            next_unix_millis: None,
        }
    }
}

impl WorkFault {
    /// A fault of this moment; a long text is cut.
    pub fn new(unix_millis: u64, message: &str) -> Self {
        Self { unix_millis, message: message.chars().take(FAULT_CHARACTERS_MAX).collect() }
    }
}

impl WorkKind {
    /// Its name, for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scrub => "scrub",
            Self::DiskWatch => "disk-watch",
            Self::CertificateRenewal => "certificate-renewal",
            Self::Repair => "repair",
            Self::Mirror => "mirror",
            Self::Reconcile => "reconcile",
            Self::Rebuild => "rebuild",
            Self::JobDriver => "job-driver",
            Self::TrashPurge => "trash-purge",
            Self::Rebalance => "rebalance",
            Self::Drain => "drain",
            Self::AuditDelivery => "audit-delivery",
        }
    }

    /// What its progress counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Scrub => "bytes",
            Self::Mirror | Self::Rebuild => "nodes",
            Self::JobDriver => "segments",
            Self::Repair | Self::Rebalance | Self::TrashPurge => "files",
            Self::Reconcile | Self::Drain => "slices",
            Self::AuditDelivery => "events",
            Self::DiskWatch | Self::CertificateRenewal => "steps",
        }
    }
}

impl WorkState {
    /// Its name, for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Blocked => "blocked",
            Self::Failing => "failing",
            Self::Off => "off",
        }
    }
}

/// How often a node reports its background work, in seconds: some hundred bytes, and as fresh as a person needs it.
pub const WORK_REPORT_SECONDS: u64 = 5;
/// Most rows that one node reports: it has some workers a disk, and far fewer disks.
pub const WORK_ITEMS_MAX: usize = 256;
/// Most characters of a fault: a sentence with a path.
pub const FAULT_CHARACTERS_MAX: usize = 300;
