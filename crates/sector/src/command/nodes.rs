//! `nodes` and `health`: the state of the cloud. They never change anything.

use client::{
    Client,
    admin::room::{SharedDisk, local_device, total},
    views::{DiskView, HealthView, LinkUseView, MarksView, NodeView, marked_nodes, rfc3339},
};
use protocol::{Reason, Status, message::admission::MachineStatus, rate};
use serde::Serialize;
use terminal::{failure::Failure, show};

use crate::arguments::Global;

/// `sector nodes`.
pub(crate) async fn nodes(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let (nodes, marks) = (cloud.nodes().await?, cloud.marks().await?);
    let (_, shared) = total(&nodes, local_device);
    let views = marked_nodes(nodes, &marks);
    if global.json {
        return show::json(&views);
    }
    let held: Vec<_> =
        views.iter().flat_map(|node| node.links.iter().filter_map(|link| held(&node.id, link))).collect();
    let rows: Vec<_> = views
        .into_iter()
        .map(|view| {
            let (used, free) = (show::size(view.used_bytes), show::size(view.free_bytes));
            let state = state_in_words(&view);
            let fill = format!("{:.1} %", view.fill_percent);
            let disks = disks_in_words(&view.disks);
            vec![view.id, view.site, view.rack, state, used, free, fill, disks, view.address, view.data]
        })
        .collect();
    show::table(&["id", "site", "rack", "state", " used", " free", " fill", "disks", "address", "data"], &rows);
    held.iter().for_each(show::line);
    for SharedDisk { nodes, free_bytes } in shared {
        let (names, free) = (nodes.join(", "), show::size(free_bytes));
        show::line(format!("{names} share one disk: its {free} of free room count once"));
    }
    Ok(())
}

/// The state of a node for people: whether it is up, being emptied, full, and how jobs fared there.
pub(super) fn state_in_words(node: &NodeView) -> String {
    let mut state = node.state.to_owned();
    if node.standing != "active" {
        state = format!("{state}, {}", node.standing);
    }
    if node.full {
        state.push_str(", full");
    } else if node.nearly_full {
        state.push_str(", nearly full");
    }
    let slow = node.slow.iter().map(|what| if what == "node" { ", slow".to_owned() } else { format!(", slow {what}") });
    state.extend(slow);
    state + &marks_in_words(&node.marks)
}

/// A message if a limit slows a node's transfers with a site.
pub(super) fn held(node: &str, link: &LinkUseView) -> Option<String> {
    let rate = link.limit_bytes_per_second.filter(|_| link.waiting > 0)?;
    Some(format!(
        "{node} with {}: {} transfers are held to {} together, its share of the limit between the sites (`sector topology show`)",
        link.site,
        link.transfers,
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
    for node in marked_nodes(cloud.nodes().await?, &cloud.marks().await?) {
        let machine = machines.iter().find(|machine| machine.name.as_str() == node.id).map(CertificateView::from);
        listed.push(ListedNode { node, certificate: machine });
    }
    show::json(&listed)
}

/// `sector health`.
pub(crate) async fn health(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let health = HealthView::from(cloud.health_report().await?);
    let status = health.status;
    if global.json {
        show::json(&health)?;
    } else {
        let told = health_in_words(&health);
        show::line(if health.insecure_sites.is_empty() { told } else { show::red(&told) });
    }
    if status == "ok" { Ok(()) } else { Err(Failure::new(Reason::Failed, "")) }
}

/// The health of the cloud for people.
pub(super) fn health_in_words(health: &HealthView) -> String {
    match health.status {
        "ok" => "ok: every file has its copies and every node is up".into(),
        status => format!("{status}: {}", health.reasons.join("; ")),
    }
}

/// Marks for people; empty if there is none.
fn marks_in_words(marks: &MarksView) -> String {
    let count = |count: u32, what: &str| (count > 0).then(|| format!(", {count} {what}"));
    [count(marks.failed, "failed"), count(marks.overtaken, "overtaken")].into_iter().flatten().collect()
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
            until: machine.until_unix_millis.map(rfc3339),
            next_fingerprint: machine.next_fingerprint.map(hexadecimal),
            addresses: machine.addresses.iter().map(ToString::to_string).collect(),
            struck_off: machine.is_struck_off,
        }
    }
}

/// `4`, or `3 of 4 ok`.
pub(super) fn disks_in_words(disks: &[DiskView]) -> String {
    let ok = disks.iter().filter(|disk| disk.state == "ok").count();
    if ok == disks.len() { ok.to_string() } else { format!("{ok} of {} ok", disks.len()) }
}
