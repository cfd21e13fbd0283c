//! Nodes and the cloud's health as JSON. It never decides what is healthy: `admin::room` does.

use std::collections::BTreeMap;

use protocol::{
    disk::{DiskState, DiskStatus},
    message::{audit::RefusedTickets, node_master::LinkUse},
    sandbox::SandboxLayer,
    ticket::TicketFault,
};
use serde::Serialize;

use super::rfc3339;
use crate::{Membership, NodeState, NodeStatus, admin::room::HealthReport};

/// The state of a node.
#[derive(Serialize)]
pub struct NodeView {
    pub id: String,
    pub site: String,
    pub rack: String,
    pub address: String,
    pub state: &'static str,
    pub used_bytes: u64,
    pub free_bytes: u64,
    pub pid: u32,
    pub data: String,
    /// `active`, `draining` or `drained`.
    pub standing: &'static str,
    /// How full it is for its size: the share that its slices take of their own bytes and the free space.
    pub fill_percent: f64,
    /// Bytes kept free.
    pub reserve_bytes: u64,
    /// Whether it gets no new slices for lack of room.
    pub full: bool,
    /// Whether it soon will be.
    pub nearly_full: bool,
    pub slices: u64,
    pub disks: Vec<DiskView>,
    /// Layers of the sandbox around user functions that it lacks; `null` while that is not known.
    pub sandbox_missing: Option<Vec<&'static str>>,
    /// Tickets that it has refused since it was started, by fault.
    pub refused_tickets: BTreeMap<&'static str, u64>,
    /// The transfers that are under way with each site.
    pub links: Vec<LinkUseView>,
    /// Attempts of jobs there in the last hour that brought no result.
    pub marks: MarksView,
    /// What is [marked as slow](super::marked_nodes) there: `node`, or `disk FOLDER`.
    pub slow: Vec<String>,
}

/// Attempts of jobs at a node that brought no result.
#[derive(Serialize)]
pub struct MarksView {
    /// Their SPE or the node failed.
    pub failed: u32,
    /// Another node was faster.
    pub overtaken: u32,
}

/// The transfers of a node with a site.
#[derive(Serialize)]
pub struct LinkUseView {
    pub site: String,
    pub transfers: u32,
    /// How many of them wait for the limit at this moment.
    pub waiting: u32,
    /// The node's share of the limit between the sites; null if there is none.
    pub limit_bytes_per_second: Option<u64>,
}

impl From<NodeStatus> for NodeView {
    fn from(node: NodeStatus) -> Self {
        let capacity_bytes = node.used_bytes.saturating_add(node.free_bytes);
        let nearly_full = !node.is_full && node.is_nearly_full();
        Self {
            id: node.node.to_string(),
            site: node.place.site,
            rack: node.place.rack,
            address: node.address.to_string(),
            state: match node.state {
                NodeState::Up => "up",
                NodeState::Joining => "joining",
                NodeState::Lost => "lost",
            },
            used_bytes: node.used_bytes,
            free_bytes: node.free_bytes,
            pid: node.pid,
            data: node.folder,
            standing: match node.membership {
                Membership::Active => "active",
                Membership::Draining => "draining",
                Membership::Drained => "drained",
            },
            fill_percent: (node.used_bytes as f64 * 1_000.0 / capacity_bytes.max(1) as f64).round() / 10.0,
            reserve_bytes: node.reserve_bytes,
            full: node.is_full,
            nearly_full,
            slices: node.slices,
            disks: node.disks.into_iter().map(DiskView::new).collect(),
            sandbox_missing: node.sandbox_missing.map(|layers| layers.into_iter().map(SandboxLayer::name).collect()),
            refused_tickets: by_fault(node.refused_tickets),
            links: node.links.into_iter().map(LinkUseView::from).collect(),
            marks: MarksView { failed: node.marks.failed, overtaken: node.marks.overtaken },
            slow: Vec::new(),
        }
    }
}

impl From<LinkUse> for LinkUseView {
    fn from(link: LinkUse) -> Self {
        Self {
            site: link.site,
            transfers: link.conversations,
            waiting: link.waiting,
            limit_bytes_per_second: link.rate_bytes_per_second,
        }
    }
}

/// The state of a node's disk.
#[derive(Serialize)]
pub struct DiskView {
    pub folder: String,
    pub state: &'static str,
    pub used_bytes: u64,
    pub free_bytes: u64,
    pub why: String,
    pub scrub: Option<ScrubView>,
}

/// How far the scrub of a disk is. Times are RFC 3339; `None` for what has not happened yet.
#[derive(Serialize)]
pub struct ScrubView {
    pub pass_began: Option<String>,
    pub last_pass: Option<String>,
    pub position: Option<String>,
    pub checked_bytes: u64,
    pub total_bytes: u64,
    pub corrupt: u64,
}

impl DiskView {
    fn new(disk: DiskStatus) -> Self {
        let state = match disk.state {
            DiskState::Ok => "ok",
            DiskState::Failed => "failed",
            DiskState::Missing => "missing",
        };
        let scrub = disk.scrub.map(|scrub| ScrubView {
            pass_began: scrub.began_unix_millis.map(rfc3339),
            last_pass: scrub.finished_unix_millis.map(rfc3339),
            position: scrub.position.map(|slice| slice.to_string()),
            checked_bytes: scrub.checked_bytes,
            total_bytes: scrub.total_bytes,
            corrupt: scrub.corrupt,
        });
        let DiskStatus { folder, used_bytes, free_bytes, why, .. } = disk;
        Self { folder, state, used_bytes, free_bytes, why, scrub }
    }
}

/// Every fault with its count, so that a script finds each.
fn by_fault(refused: RefusedTickets) -> BTreeMap<&'static str, u64> {
    TicketFault::ALL.into_iter().map(|fault| (fault.as_str(), refused.get(&fault).copied().unwrap_or(0))).collect()
}

/// The health of the cloud in one word, with what to do about it.
#[derive(Serialize)]
pub struct HealthView {
    pub status: &'static str,
    pub reasons: Vec<String>,
    pub under_replicated: u64,
    pub corrupt: u64,
    pub lost: u64,
    pub misplaced: u64,
    pub short_of_nodes: u64,
    /// Tickets that nodes have refused, by fault.
    pub refused_tickets: BTreeMap<&'static str, u64>,
    /// Sites within which data is not encrypted.
    pub insecure_sites: Vec<String>,
    /// Bytes that slices take on all nodes that are up.
    pub used_bytes: u64,
    /// Bytes that they can still take; a disk that nodes share counts once.
    pub free_bytes: u64,
}

impl From<HealthReport> for HealthView {
    fn from(report: HealthReport) -> Self {
        let status = report.status();
        let HealthReport { health, room, total } = report;
        Self {
            status,
            reasons: health.reasons.into_iter().chain(room.reasons).collect(),
            under_replicated: health.under_replicated,
            corrupt: health.corrupt,
            lost: health.lost,
            misplaced: health.misplaced,
            short_of_nodes: health.short_of_nodes,
            refused_tickets: by_fault(health.refused_tickets),
            insecure_sites: health.insecure_sites,
            used_bytes: total.used_bytes,
            free_bytes: total.free_bytes,
        }
    }
}
