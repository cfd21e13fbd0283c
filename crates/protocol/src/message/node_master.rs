//! Door 4: orders (master to node) and reports (node to master). Each is a GMP request answered by [`Ack`] or refused.
//! The outcome of an order that takes time comes back as a report. A node never takes an order from anyone else
//! (Sector/Sphere paper, 2.3: "slave nodes only accept commands from the Sector master").

use std::{net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    JobId, NodeId, Refusal, ResumeKey, SectorPath, SliceHeader, SliceId, SliceMetadata, TransferQos, UserName,
    disk::DiskStatus,
    message::{
        audit::RefusedTickets,
        client_reply::{DriverKey, Source},
        links::LinkReport,
        load::LoadReport,
        marks::EvidenceReport,
        rebuild::{MirrorKey, MirrorPosition, MirrorRow, MirrorUpdate},
        work::WorkItem,
    },
    sandbox::SandboxLayer,
    ticket::{TicketFault, TicketKeys},
};

/// What the master orders.
// A message lives for one call; a box would be a needless allocation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Fetch a copy of a slice from another node; ends in [`Report::Stored`] or [`Report::ReplicateFailed`].
    Replicate {
        /// The slice's header, for the sidecar.
        header: SliceHeader,
        /// Its length in bytes.
        bytes: u64,
        /// Who has it, with a read ticket.
        from: Source,
        /// Rate and priority of the copy: the node requests them from its source.
        qos: TransferQos,
    },
    /// Move a slice that you hold to this header's path in your folder, and update its sidecar from this header. It was
    /// published, renamed, or given another owner or number of copies. Another slice at that path is set aside until
    /// its own order comes.
    Place {
        /// What the slice is now.
        header: SliceHeader,
    },
    /// Remove a slice. Readers that have it open may finish. Answered when it is gone and stays away.
    Remove(SliceId),
    /// Remove all that a job left behind.
    ForgetJob(JobId),
    /// Keep these rows for a master that loses its journal. Answered when they are on the disk. Refused where they do
    /// not follow directly on the rows already kept.
    Mirror(MirrorUpdate),
    /// Report the rows that you keep: [`Report::MirrorPage`], one page.
    ReadMirror {
        /// The last row of the page before.
        after: Option<MirrorKey>,
    },
    /// Tickets that were given out before a moment are no longer valid, and what runs on them is cut off.
    Revoke(Revocation),
    /// Check tickets with these keys from now on.
    TicketKeys(TicketKeys),
    /// Your shares of the limits between sites. Keep to them from now on, also for transfers under way. To and from
    /// sites that are not named there is no limit.
    LinkShares(Vec<LinkShare>),
    /// Start a driver for a detached job. Answered when the node has taken it. The driver itself reports to the master,
    /// as every driver does.
    Drive(DriveOrder),
    /// These machines were struck off, and no others: a peer that shows a certificate of theirs is refused and cut off.
    StruckOff(Vec<NodeId>),
    /// Say what you count: [`Ack::Metrics`].
    ReadMetrics,
    /// These of your disks are slow, by their folders, and no others: others take new slices first, as far as they have
    /// room.
    SlowDisks(Vec<String>),
}

/// See [`Order::Drive`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveOrder {
    /// The job.
    pub job: JobId,
    /// For whom.
    pub user: UserName,
    /// Proves the driver to the master.
    pub key: DriverKey,
    /// Where its journal is.
    pub journal: SectorPath,
}

/// The input that a node gives to a new driver on its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverStart {
    /// What it is to drive.
    pub order: DriveOrder,
    /// The master's address.
    pub master: SocketAddr,
    /// The certificate of the cloud's authority, PEM.
    pub authority: String,
}

/// What a node may take of a limit between its own site and another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkShare {
    /// The other site, or the node's own site for a limit within it.
    pub site: String,
    /// Most bytes per second, both ways together.
    pub rate_bytes_per_second: u64,
}

/// A node's transfers with another site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUse {
    /// The other site.
    pub site: String,
    /// Conversations that transfer bytes.
    pub conversations: u32,
    /// How many of them currently wait for the limit.
    pub waiting: u32,
    /// The node's share of the limit; `None` where there is none.
    pub rate_bytes_per_second: Option<u64>,
}

/// A user's tickets that are worthless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Whose.
    pub user: UserName,
    /// Tickets up to this number, which was the last when they were revoked. Clocks do not matter.
    pub last_ticket: u64,
}

/// What a node reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// What it holds, after joining; pages until `last`.
    Inventory {
        /// Slices.
        slices: Vec<HeldSlice>,
        /// Whether this was the last page.
        last: bool,
    },
    /// A slice is complete and synced here.
    Stored(SliceMetadata),
    /// A copy could not be made.
    ReplicateFailed {
        /// The slice.
        slice: SliceId,
        /// Why.
        refusal: Refusal,
        /// The part that arrived and is kept: the next order for it continues there, from any node.
        kept_bytes: u64,
    },
    /// A slice's bytes do not match its checksums; it is no longer served.
    Corrupt(SliceId),
    /// A slice is no longer here.
    Removed(SliceId),
    /// The node's state; sent every second or two, and the sign that it lives.
    Status {
        /// Bytes its slices take.
        used_bytes: u64,
        /// Bytes its disks can still take, above what it keeps free on each.
        free_bytes: u64,
        /// Transfers under way.
        transfers: u32,
        /// SPEs at work.
        spes: u32,
        /// Its disks, in the order of its settings.
        disks: Vec<DiskStatus>,
        /// Layers of the sandbox around user functions that it does not have; `None` until it has tried.
        sandbox_missing: Option<Vec<SandboxLayer>>,
        /// Tickets it has refused since it was started.
        refused_tickets: RefusedTickets,
        /// Its transfers with other sites.
        links: Vec<LinkUse>,
        /// Bytes that files below `/memory` can still take.
        memory_free_bytes: u64,
    },
    /// A slice that is being written here could not be passed on to the next node of its chain, or not completely.
    ForwardFailed {
        /// The slice.
        slice: SliceId,
        /// The node that does not have it.
        node: NodeId,
    },
    /// The broken uploads whose bytes are kept here, after joining; at most
    /// [`PARTIALS_MAX`](crate::limits::PARTIALS_MAX).
    Partials(Vec<HeldPartial>),
    /// Which copy of the master's small rows it keeps; sent after joining, before the inventory.
    MirrorPosition {
        /// The position; `None` where there is no copy.
        position: Option<MirrorPosition>,
        /// Whether a master was told of every disk of the node since that journal was begun: no disk came later from
        /// elsewhere, or was away.
        all_seen: bool,
    },
    /// A page of that copy.
    MirrorPage {
        /// The whole copy's position, at the time of this page.
        position: MirrorPosition,
        /// The page before ended with this row.
        after: Option<MirrorKey>,
        /// Rows.
        rows: Vec<MirrorRow>,
        /// Whether these were the last.
        last: bool,
    },
    /// Tickets that were refused here, for the audit record; at most [`REFUSALS_MAX`].
    TicketsRefused {
        /// The refusals, oldest first.
        refusals: Vec<TicketRefusal>,
        /// How many more there were that are only counted.
        left_out: u64,
    },
    /// The node's wall clock, after joining and every minute. A master whose own clock jumps compares it with those of
    /// others.
    Clock {
        /// Milliseconds since the Unix epoch.
        unix_millis: u64,
        /// The running system that the clock belongs to: nodes on one machine, or in its containers, share it. `None`
        /// where the operating system does not say.
        machine: Option<u128>,
    },
    /// What clients are currently writing here, in pages. It is sent every [`INCOMING_WRITES_EVERY`], even when empty,
    /// so that the master knows that this node reports it.
    IncomingWrite(Vec<IncomingWrite>),
    /// Speaks of the slices of the inventory pages that follow. A master was told of their disks, and then gave the
    /// small rows with this position; `None` where no master was. If a node sends this before no page,
    /// [`MirrorPosition`](Self::MirrorPosition) holds for all.
    DisksSeen(Option<MirrorPosition>),
    /// The node's background work, all of it; at most [`WORK_ITEMS_MAX`](super::work::WORK_ITEMS_MAX). Sent after joining
    /// and every [`WORK_REPORT_SECONDS`](super::work::WORK_REPORT_SECONDS).
    Work(Vec<WorkItem>),
    /// How busy the node was since the last report that was answered. Sent with each status.
    Load(LoadReport),
    /// What the node had to do with each site since the last such report that was answered. Sent after a status.
    Links(LinkReport),
    /// What the node has to say about slowness, its own and that of links. Sent after a status.
    Evidence(EvidenceReport),
}

/// A slice that is being written, under a lease of the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncomingWrite {
    /// Which.
    pub slice: SliceId,
    /// Bytes that have come since its conversation began.
    pub bytes: u64,
    /// Whether the node itself is working on it (it copies what the slice begins with, or syncs it), so that no byte
    /// can come.
    pub at_work: bool,
}

/// A ticket that a node has refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketRefusal {
    /// When, by the node's clock, in milliseconds since the Unix epoch.
    pub unix_millis: u64,
    /// Why.
    pub fault: TicketFault,
    /// Whom the ticket names, where it was the master's.
    pub user: Option<UserName>,
    /// The address that showed it, or "this machine".
    pub from: String,
    /// What was refused, in a sentence.
    pub why: String,
}

/// How often a node reports what is being written: far more often than a master gives up a write that receives nothing.
pub const INCOMING_WRITES_EVERY: Duration = Duration::from_secs(20);
/// Most slices of one such report, some 30 bytes each.
pub const INCOMING_WRITES_PAGE_MAX: usize = 1_000;

/// Most refusals told in one report.
pub const REFUSALS_MAX: usize = 32;

/// A broken upload whose bytes a node keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPartial {
    /// The user who may continue it.
    pub user: UserName,
    /// Its key.
    pub key: ResumeKey,
    /// Bytes that are safe here.
    pub bytes: u64,
}

/// A slice a node holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSlice {
    /// Its sidecar.
    pub metadata: SliceMetadata,
    /// Where it stands.
    pub state: HeldState,
}

/// Where a complete, synced slice stands on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeldState {
    /// Written, not yet told to be placed.
    Staged,
    /// At its path.
    Placed,
    /// Set aside by a newer one at its path.
    Retired,
}

/// The answer to an order or a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ack {
    /// Accepted.
    Done,
    /// No, and why.
    Refused(Refusal),
    /// What the node counts, in the text format of Prometheus.
    Metrics(String),
}
