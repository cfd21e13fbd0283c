//! Door 2: what the master answers a client, and what the answers carry. The requests are in
//! [`client_master`](super::client_master). File bytes never travel here.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize};

use super::cluster::{Membership, MovePlan, NodeRemoval, RebalanceStatus, TopologyStatus};
use crate::{
    Counters, Digest, FileId, JobId, LeaseId, NodeId, Place, Policy, RecordFraming, Refusal, SectorPath, SliceId,
    UserName, Version,
    disk::DiskStatus,
    message::{
        access::AclReply,
        accounts::AccountsReply,
        admission::AdmissionReply,
        audit::{AuditReply, RefusedTickets},
        events::EventPage,
        history::{JobHistory, JobLogs, NodeMarks},
        links::{LinkPage, LinkSeries},
        load::{LoadPage, LoadSeries},
        marks::Mark,
        node_master::LinkUse,
        rebuild::RebuildStatus,
        work::WorkPage,
    },
    sandbox::SandboxLayer,
    ticket::SignedTicket,
    topology::Distance,
};

/// The master's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientReply {
    /// It is done, and durable if it changed names.
    Done,
    /// A write may start.
    Created(Created),
    /// The entry as it is now.
    Entry(Entry),
    /// A file and where it may be read.
    Located(Located),
    /// An entry and its copies.
    Status(EntryStatus),
    /// A page of a folder.
    Page(ListPage),
    /// What lies at and below a path.
    Usage(Usage),
    /// The nodes.
    Nodes(Vec<NodeStatus>),
    /// How the cloud is.
    Health(Health),
    /// A job is admitted.
    Admitted(Admitted),
    /// Jobs.
    Jobs(Vec<JobRecord>),
    /// No, and why.
    Refused(Refusal),
    /// What moves.
    Plan(MovePlan),
    /// What is lost with a node.
    Removal(NodeRemoval),
    /// How far a rebalance is.
    Rebalance(RebalanceStatus),
    /// The topology.
    Topology(TopologyStatus),
    /// A policy.
    Policy(PolicyStatus),
    /// A page of the trash.
    Trash(TrashPage),
    /// A page of quotas.
    Quotas(QuotaPage),
    /// A file and all its copies.
    Copies(Copies),
    /// How a rebuild is.
    Rebuild(RebuildStatus),
    /// A node to talk to.
    Source(Source),
    /// About users, groups, tokens and sessions.
    Accounts(AccountsReply),
    /// About rights.
    Acl(AclReply),
    /// About machines that join.
    Admission(AdmissionReply),
    /// Of the audit record.
    Audit(AuditReply),
    /// What became of a job's attempts.
    History(JobHistory),
    /// A page of background work.
    Work(WorkPage),
    /// What a role counts, in the text format of Prometheus.
    Metrics(String),
    /// A page of open leases.
    Leases(LeasePage),
    /// A page of nodes with their load.
    Load(LoadPage),
    /// The load of a node over time.
    LoadSeries(LoadSeries),
    /// What a job's functions printed.
    Logs(JobLogs),
    /// What was replaced at a path.
    Versions(Vec<FileVersion>),
    /// A page of links between sites.
    Links(LinkPage),
    /// A link between two sites over time.
    LinkSeries(LinkSeries),
    /// What is marked as slow.
    Marks(Vec<Mark>),
    /// A page of events.
    Events(EventPage),
}

/// What an entry says about its copies, lifetime and quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyStatus {
    /// The entry's own policy.
    pub own: Policy,
    /// The effective policy, with what its folders and the cloud's settings add. Quotas are not inherited: each
    /// folder counts for itself.
    pub effective: Policy,
    /// Warnings for the user who set it, one sentence each.
    pub warnings: Vec<String>,
}

/// What must hold of a path for a write to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Condition {
    /// Nothing; an existing file is replaced.
    #[default]
    Any,
    /// No file is there.
    Absent,
    /// This version is there.
    Version(Version),
}

/// See [`ClientRequest::Create`](super::client_master::ClientRequest::Create).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The right to write; lives [`LEASE_LIFE`](crate::limits::LEASE_LIFE) unless renewed.
    pub lease: LeaseId,
    /// The new slice.
    pub slice: SliceId,
    /// The node to send the bytes to.
    pub target: Source,
    /// The nodes that get the bytes from the target, one from the other in this order, each with its own write ticket.
    pub chain: Vec<Source>,
    /// Bytes with which the target itself begins the slice (an append); 0 otherwise.
    pub base_bytes: u64,
}

/// A node to talk to, with the ticket for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The node.
    pub node: NodeId,
    /// Where it stands.
    pub place: Place,
    /// Its transfer address.
    pub address: SocketAddr,
    /// How far it is from its caller, where that is known: the choice of carrier depends on it.
    pub distance: Option<Distance>,
    /// Name of its local socket, where reader and node may be on one machine. Bytes are then read through a passed
    /// descriptor. It is only a hint; a client that cannot use it takes the address.
    pub local: Option<String>,
    /// The ticket that the node accepts.
    pub ticket: SignedTicket,
}

/// A file or folder, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path now.
    pub path: SectorPath,
    /// Its identity across renames.
    pub id: FileId,
    /// Who owns it.
    pub owner: UserName,
    /// Last change of content, in milliseconds since the Unix epoch. A client may have given it; nothing follows from
    /// it.
    pub modified_unix_millis: u64,
    /// What it is.
    pub kind: EntryKind,
    /// Nodes that hold a good copy, where asked for.
    pub nodes: Vec<NodeId>,
    /// Whether it has its own access list.
    pub has_acl: bool,
}

/// A folder, or a file with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file.
    File(FileContent),
}

/// One version of a file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// The slice that holds it.
    pub slice: SliceId,
    /// Its version.
    pub version: Version,
    /// Length in bytes.
    pub bytes: u64,
    /// BLAKE3 of the bytes.
    pub digest: Digest,
    /// Record format.
    pub records: RecordFraming,
    /// Copies wanted, as they follow from the file's policy and its folders'. In the master's own rows only the file's
    /// own number, 0 where it has none.
    pub copies: u8,
    /// The user's own keys and values.
    pub user: BTreeMap<String, String>,
}

/// See [`ClientRequest::Locate`](super::client_master::ClientRequest::Locate).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// The file.
    pub entry: Entry,
    /// Nodes with a good copy, nearest and idlest first; empty when none can be reached.
    pub sources: Vec<Source>,
}

/// See [`ClientRequest::Stat`](super::client_master::ClientRequest::Stat).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryStatus {
    /// The entry.
    pub entry: Entry,
    /// Its copies.
    pub copies: Vec<CopyStatus>,
}

/// One replica as the master knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyStatus {
    /// Where.
    pub node: NodeId,
    /// The node's place.
    pub place: Place,
    /// How it is.
    pub state: CopyState,
}

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyState {
    /// Complete and synced.
    Ok,
    /// Being copied.
    Writing,
    /// On a node that is currently absent.
    Stale,
    /// Found bad; being replaced.
    Corrupt,
}

/// See [`ClientRequest::Copies`](super::client_master::ClientRequest::Copies).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// The file.
    pub entry: Entry,
    /// Its copies as the master knows them, by node; without those that are currently being made or removed.
    pub copies: Vec<FoundCopy>,
}

/// One copy of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundCopy {
    /// Where, and how it is as far as is known.
    pub status: CopyStatus,
    /// How to reach it; `None` where its node is lost, or has quarantined it.
    pub source: Option<Source>,
}

/// See [`ClientRequest::List`](super::client_master::ClientRequest::List).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPage {
    /// Entries by path.
    pub entries: Vec<Entry>,
    /// Whether more may follow.
    pub more: bool,
    /// The path after which they follow, where that is not the last entry. Entries that the user may not see are left
    /// out, so a page may even be empty.
    pub next: Option<SectorPath>,
}

/// See [`ClientRequest::Usage`](super::client_master::ClientRequest::Usage).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Usage {
    /// Files at and below the path.
    pub files: u64,
    /// Folders at and below the path.
    pub folders: u64,
    /// Bytes of the files, each counted once.
    pub bytes: u64,
}

/// See [`ClientRequest::Leases`](super::client_master::ClientRequest::Leases).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeasePage {
    /// By path.
    pub leases: Vec<OpenLease>,
    /// Whether more follow after the last.
    pub more: bool,
}

/// A write that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenLease {
    /// What is written.
    pub path: SectorPath,
    /// Who writes.
    pub user: UserName,
    /// The job whose driver writes, if one does.
    pub job: Option<JobId>,
    /// The node that the client sends to.
    pub node: NodeId,
    /// Bytes that have come there, as last reported.
    pub received_bytes: u64,
    /// Bytes that were announced; 0 where nobody knew.
    pub expected_bytes: u64,
    /// How long it lasts unless it is renewed, in seconds.
    pub seconds_left: u32,
}

/// See [`ClientRequest::Trash`](super::client_master::ClientRequest::Trash).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashPage {
    /// What was removed, oldest first.
    pub items: Vec<TrashItem>,
    /// Whether more follow after the last.
    pub more: bool,
}

/// Something that was removed and can be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrashItem {
    /// Its place in the list.
    pub key: TrashKey,
    /// Whose it is.
    pub user: UserName,
    /// Where it was.
    pub from: SectorPath,
    /// Where it is in the trash.
    pub at: SectorPath,
    /// When it will be removed for good, in milliseconds since the Unix epoch.
    pub until_unix_millis: u64,
    /// Length of a file in bytes; `None` for a folder.
    pub bytes: Option<u64>,
}

/// Names something in the trash: when it was removed, in milliseconds since the Unix epoch, and which entry it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrashKey {
    /// When.
    pub removed_unix_millis: u64,
    /// Which.
    pub file: FileId,
}

/// Content that was replaced at a path and can be had back. See
/// [`ClientRequest::Versions`](super::client_master::ClientRequest::Versions).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// Where it is in the trash.
    pub at: SectorPath,
    /// Whose it is: the owner of the file when it was replaced.
    pub user: UserName,
    /// Its version.
    pub version: Version,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was replaced, in milliseconds since the Unix epoch.
    pub replaced_unix_millis: u64,
    /// Who replaced it.
    pub replaced_by: UserName,
    /// When it goes for good, in milliseconds since the Unix epoch.
    pub until_unix_millis: u64,
}

/// See [`ClientRequest::Quotas`](super::client_master::ClientRequest::Quotas).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaPage {
    /// Users by name, then folders by path.
    pub quotas: Vec<QuotaStatus>,
    /// Whether more follow after the last.
    pub more: bool,
}

/// How much a user or a folder keeps, and may keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Who or what.
    pub of: QuotaOf,
    /// Bytes of the files, each counted once.
    pub used_bytes: u64,
    /// Files.
    pub used_files: u64,
    /// Most bytes; `None`: any number.
    pub bytes: Option<u64>,
    /// Most files; `None`: any number.
    pub files: Option<u64>,
}

/// Whose quota it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum QuotaOf {
    /// Of all files that a user owns, those in the trash included.
    User(UserName),
    /// Of the files at and below a folder.
    Folder(SectorPath),
}

/// A node as the master knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Which.
    pub node: NodeId,
    /// Where it stands.
    pub place: Place,
    /// Its transfer address.
    pub address: SocketAddr,
    /// Its state.
    pub state: NodeState,
    /// Bytes its slices take.
    pub used_bytes: u64,
    /// Bytes its disks can still take, above what it keeps free on each.
    pub free_bytes: u64,
    /// Its process id.
    pub pid: u32,
    /// Its data folder.
    pub folder: String,
    /// Whether it is being emptied.
    pub membership: Membership,
    /// Bytes of its disk that are kept free.
    pub reserve_bytes: u64,
    /// Whether only its reserve is left free, so that it gets no new slices.
    pub is_full: bool,
    /// Slices that it holds, as far as is known.
    pub slices: u64,
    /// Its disks.
    pub disks: Vec<DiskStatus>,
    /// Layers of the sandbox around user functions that it does not have; `None` while that is not known.
    pub sandbox_missing: Option<Vec<SandboxLayer>>,
    /// Tickets it has refused since it was started.
    pub refused_tickets: RefusedTickets,
    /// Its transfers with each site.
    pub links: Vec<LinkUse>,
    /// Recent attempts of jobs that failed there.
    pub marks: NodeMarks,
}

impl NodeStatus {
    /// Whether it will soon get no new slices for lack of room.
    pub fn is_nearly_full(&self) -> bool {
        is_nearly_full(self.used_bytes, self.free_bytes, self.reserve_bytes)
    }
}

/// Whether only one byte in [`NEARLY_FULL_WHEN_LEFT`] is left of what slices take and could take.
pub fn is_nearly_full(used_bytes: u64, free_bytes: u64, reserve_bytes: u64) -> bool {
    free_bytes.saturating_sub(reserve_bytes) < used_bytes.saturating_add(free_bytes) / NEARLY_FULL_WHEN_LEFT
}

/// A node is nearly full when one byte in so many is left. That is late enough that a large disk is not reported for
/// months, and early enough to add one.
pub const NEARLY_FULL_WHEN_LEFT: u64 = 20;

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeState {
    /// It joined and reports.
    Up,
    /// It joined and has not yet reported all that it holds.
    Joining,
    /// It has not been heard of for too long.
    Lost,
}

/// See [`ClientRequest::Health`](super::client_master::ClientRequest::Health).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Health {
    /// What is wrong, one sentence each; empty when all is well.
    pub reasons: Vec<String>,
    /// Files with fewer copies than wanted, though there are nodes for more.
    pub under_replicated: u64,
    /// Replicas found corrupt and not yet replaced.
    pub corrupt: u64,
    /// Files without any reachable copy.
    pub lost: u64,
    /// Files whose copies stand where they should not, and are being moved.
    pub misplaced: u64,
    /// Files for which more copies are wanted than there are nodes to hold them.
    pub short_of_nodes: u64,
    /// Tickets that the nodes have refused, by fault.
    pub refused_tickets: RefusedTickets,
    /// The sites within which data goes unencrypted, because the operator wants it so (`insecure_data`).
    pub insecure_sites: Vec<String>,
}

/// See [`ClientRequest::AdmitJob`](super::client_master::ClientRequest::AdmitJob): what a job needs to start SPEs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admitted {
    /// The job.
    pub job: JobId,
    /// The nodes that may run SPEs, with fresh tickets (right: compute).
    pub nodes: Vec<SpeNode>,
    /// What is known of links between their sites, when the job is admitted; empty in answers to its reports.
    pub links: Vec<SiteLink>,
}

/// What a link between two sites carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteLink {
    /// One site.
    pub a: String,
    /// The other.
    pub b: String,
    /// Most bytes per second, both ways together.
    pub bytes_per_second: u64,
}

/// A node that may run SPEs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpeNode {
    /// The node and the ticket.
    pub source: Source,
    /// SPEs it runs at once.
    pub slots: u32,
    /// Whether other nodes are to be preferred: recently attempts of jobs failed here far more often than elsewhere.
    pub is_marked: bool,
}

/// A job as its driver reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job.
    pub job: JobId,
    /// Who submitted it. Filled by the master.
    pub user: UserName,
    /// One line for people.
    pub title: String,
    /// Its state.
    pub state: JobState,
    /// When it was admitted, in milliseconds since the Unix epoch. Filled by the master.
    pub started_unix_millis: u64,
    /// Its stages.
    pub stages: Vec<StageRecord>,
    /// Errors of functions, the first few.
    pub errors: Vec<String>,
    /// The file that lists all of them, where the job went on without the segments that failed (docs/functions.md). It
    /// is the path at the time of writing: the output may have been renamed since.
    pub error_slice: Option<SectorPath>,
    /// The counters of each stage's functions in the attempts that won, by stage; at most
    /// [`JOB_COUNTERS_MAX`](crate::limits::JOB_COUNTERS_MAX) in all.
    pub counters: Vec<Counters>,
    /// The node that drives it, where it was detached. Filled by the master.
    pub driver: Option<NodeId>,
}

/// Proves the driver of a detached job to the master.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverKey(pub [u8; 32]);

impl std::fmt::Debug for DriverKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DriverKey(…)")
    }
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobState {
    /// At work.
    Running,
    /// Finished, its output published.
    Done,
    /// Ended without output.
    Failed,
    /// Stopped on request.
    Cancelled,
    /// Its driver has not reported for too long.
    Lost,
}

impl JobState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Running, Self::Done, Self::Failed, Self::Cancelled, Self::Lost];

    /// Its name, for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

impl std::str::FromStr for JobState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| format!("a job is one of {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

/// Counts of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct StageRecord {
    /// Segments in all.
    pub segments: u64,
    /// Segments finished.
    pub done: u64,
    /// Segments given up.
    pub failed: u64,
    /// Attempts begun again after an SPE died.
    pub retried: u64,
    /// Attempts begun beside another that was slow.
    pub speculative: u64,
    /// Segments processed where their bytes lie.
    pub local: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}
