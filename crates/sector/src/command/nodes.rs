//! `nodes` and `health`: the state of the cloud. They never change anything.

use std::collections::BTreeMap;

use client::{Client, Membership, NodeState, NodeStatus};
use protocol::{
    Reason, Status,
    disk::{DiskState, DiskStatus},
    message::{admission::MachineStatus, audit::RefusedTickets, node_master::LinkUse},
    rate,
    sandbox::SandboxLayer,
    ticket::TicketFault,
};
use serde::Serialize;
use terminal::{failure::Failure, show};

use super::room::{local_device, room, total};
use crate::arguments::Global;

/// `sector nodes`.
pub(crate) async fn nodes(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let nodes = cloud.nodes().await?;
    let held: Vec<_> = nodes.iter().flat_map(|node| node.links.iter().filter_map(|link| held(node, link))).collect();
    let (_, shared) = total(&nodes, local_device);
    let views: Vec<_> = nodes.into_iter().map(NodeView::from).collect();
    if global.json {
        return show::json(&views);
    }
    let rows: Vec<_> = views
        .into_iter()
        .map(|view| {
            let (used, free) = (show::size(view.used_bytes), show::size(view.free_bytes));
            let mut state = view.state.to_owned();
            if view.standing != "active" {
                state = format!("{state}, {}", view.standing);
            }
            if view.full {
                state.push_str(", full");
            } else if view.nearly_full {
                state.push_str(", nearly full");
            }
            state.push_str(&view.marks.in_words());
            let fill = format!("{:.1} %", view.fill_percent);
            let disks = disks_in_words(&view.disks);
            vec![view.id, view.site, view.rack, state, used, free, fill, disks, view.address, view.data]
        })
        .collect();
    show::table(&["id", "site", "rack", "state", " used", " free", " fill", "disks", "address", "data"], &rows);
    held.iter().chain(&shared).for_each(show::line);
    Ok(())
}

/// A message if a limit slows a node's transfers with a site.
fn held(node: &NodeStatus, link: &LinkUse) -> Option<String> {
    let rate = link.rate_bytes_per_second.filter(|_| link.waiting > 0)?;
    Some(format!(
        "{} with {}: {} transfers are held to {} together, its share of the limit between the sites (`sector topology show`)",
        node.node,
        link.site,
        link.conversations,
        rate::Shown(rate)
    ))
}

/// `sector node list`: like `nodes`, and in JSON also what administrators may know of the nodes' certificates. That
/// part is null if the asker may not know it, or if the security server knows no certificate of the node.
pub(crate) async fn list(cloud: &Client, global: &Global) -> Result<(), Failure> {
    if !global.json {
        return nodes(cloud, global).await;
    }
    let machines = match cloud.machines().await {
        Err(error) if error.status() == Status::Refused => Vec::new(),
        machines => machines?,
    };
    let mut listed = Vec::new();
    for node in cloud.nodes().await? {
        let machine = machines.iter().find(|machine| machine.name == node.node).map(CertificateView::from);
        listed.push(ListedNode { node: node.into(), certificate: machine });
    }
    show::json(&listed)
}

/// `sector health`.
pub(crate) async fn health(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let mut health = cloud.health().await?;
    let nodes = cloud.nodes().await?;
    let room = room(&nodes, &cloud.quotas().await?);
    health.reasons.extend(room.reasons);
    let status = match (health.lost + health.corrupt, health.reasons.is_empty()) {
        (0, true) => "ok",
        (0, false) if !room.is_critical => "warning",
        _ => "critical",
    };
    let (total, _) = total(&nodes, local_device);
    if global.json {
        show::json(&HealthView {
            status,
            reasons: health.reasons,
            under_replicated: health.under_replicated,
            corrupt: health.corrupt,
            lost: health.lost,
            misplaced: health.misplaced,
            short_of_nodes: health.short_of_nodes,
            refused_tickets: by_fault(health.refused_tickets),
            insecure_sites: health.insecure_sites,
            used_bytes: total.used_bytes,
            free_bytes: total.free_bytes,
        })?;
    } else if status == "ok" {
        show::line("ok: every file has its copies and every node is up");
    } else {
        let told = format!("{status}: {}", health.reasons.join("; "));
        show::line(if health.insecure_sites.is_empty() { told } else { show::red(&told) });
    }
    if status == "ok" { Ok(()) } else { Err(Failure::new(Reason::Failed, "")) }
}

#[derive(Serialize)]
struct NodeView {
    id: String,
    site: String,
    rack: String,
    address: String,
    state: &'static str,
    used_bytes: u64,
    free_bytes: u64,
    pid: u32,
    data: String,
    /// `active`, `draining` or `drained`.
    standing: &'static str,
    /// How full it is for its size: the share that its slices take of their own bytes and the free space.
    fill_percent: f64,
    /// Bytes kept free.
    reserve_bytes: u64,
    /// Whether it gets no new slices for lack of room.
    full: bool,
    /// Whether it soon will be.
    nearly_full: bool,
    slices: u64,
    disks: Vec<DiskView>,
    /// Layers of the sandbox around user functions that it lacks; `null` while that is not known.
    sandbox_missing: Option<Vec<&'static str>>,
    /// Tickets that it has refused since it was started, by fault.
    refused_tickets: BTreeMap<&'static str, u64>,
    /// The transfers that are under way with each site.
    links: Vec<LinkView>,
    /// Attempts of jobs there in the last hour that brought no result.
    marks: MarksView,
}

#[derive(Serialize)]
struct MarksView {
    /// Their SPE or the node failed.
    failed: u32,
    /// Another node was faster.
    overtaken: u32,
}

#[derive(Serialize)]
struct LinkView {
    site: String,
    transfers: u32,
    /// How many of them wait for the limit at this moment.
    waiting: u32,
    /// The node's share of the limit between the sites; null if there is none.
    limit_bytes_per_second: Option<u64>,
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
            links: node.links.into_iter().map(LinkView::from).collect(),
            marks: MarksView { failed: node.marks.failed, overtaken: node.marks.overtaken },
        }
    }
}

impl MarksView {
    /// For people; empty if there is no mark.
    fn in_words(&self) -> String {
        let count = |count: u32, what: &str| (count > 0).then(|| format!(", {count} {what}"));
        [count(self.failed, "failed"), count(self.overtaken, "overtaken")].into_iter().flatten().collect()
    }
}

impl From<LinkUse> for LinkView {
    fn from(link: LinkUse) -> Self {
        Self {
            site: link.site,
            transfers: link.conversations,
            waiting: link.waiting,
            limit_bytes_per_second: link.rate_bytes_per_second,
        }
    }
}

#[derive(Serialize)]
struct ListedNode {
    #[serde(flatten)]
    node: NodeView,
    certificate: Option<CertificateView>,
}

/// What the security server knows of a node.
#[derive(Serialize)]
struct CertificateView {
    /// SHA-256 of its certificate.
    fingerprint: String,
    /// When it expires.
    until: Option<String>,
    /// SHA-256 of the certificate that was issued to follow, until it is used.
    next_fingerprint: Option<String>,
    /// The addresses from which it may join; empty: any address.
    addresses: Vec<String>,
    /// Whether it is refused.
    struck_off: bool,
}

impl From<&MachineStatus> for CertificateView {
    fn from(machine: &MachineStatus) -> Self {
        let hexadecimal = |digest: [u8; 32]| digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            fingerprint: hexadecimal(machine.fingerprint),
            until: machine.until_unix_millis.map(|until| show::time(until, true)),
            next_fingerprint: machine.next_fingerprint.map(hexadecimal),
            addresses: machine.addresses.iter().map(ToString::to_string).collect(),
            struck_off: machine.is_struck_off,
        }
    }
}

#[derive(Serialize)]
struct DiskView {
    folder: String,
    state: &'static str,
    used_bytes: u64,
    free_bytes: u64,
    why: String,
    scrub: Option<ScrubView>,
}

/// Times are RFC 3339; `None` for what has not happened yet.
#[derive(Serialize)]
struct ScrubView {
    pass_began: Option<String>,
    last_pass: Option<String>,
    position: Option<String>,
    checked_bytes: u64,
    total_bytes: u64,
    corrupt: u64,
}

impl DiskView {
    fn new(disk: DiskStatus) -> Self {
        let state = match disk.state {
            DiskState::Ok => "ok",
            DiskState::Failed => "failed",
            DiskState::Missing => "missing",
        };
        let time = |millis: u64| show::time(millis, true);
        let scrub = disk.scrub.map(|scrub| ScrubView {
            pass_began: scrub.began_unix_millis.map(time),
            last_pass: scrub.finished_unix_millis.map(time),
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

/// `4`, or `3 of 4 ok`.
fn disks_in_words(disks: &[DiskView]) -> String {
    let ok = disks.iter().filter(|disk| disk.state == "ok").count();
    if ok == disks.len() { ok.to_string() } else { format!("{ok} of {} ok", disks.len()) }
}

#[derive(Serialize)]
struct HealthView {
    status: &'static str,
    reasons: Vec<String>,
    under_replicated: u64,
    corrupt: u64,
    lost: u64,
    misplaced: u64,
    short_of_nodes: u64,
    /// Tickets that nodes have refused, by fault.
    refused_tickets: BTreeMap<&'static str, u64>,
    /// Sites within which data is not encrypted.
    insecure_sites: Vec<String>,
    /// Bytes that slices take on all nodes that are up.
    used_bytes: u64,
    /// Bytes that they can still take; a disk that nodes share counts once.
    free_bytes: u64,
}
