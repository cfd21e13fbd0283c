//! `nodes` and `health`: how the cloud is.

use client::{Client, NodeState};
use protocol::Status;
use serde::Serialize;

use crate::{arguments::Global, failure::Failure, show};

/// `sector nodes`.
pub(crate) async fn nodes(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let nodes = cloud.nodes().await?;
    let views: Vec<_> = nodes
        .into_iter()
        .map(|node| NodeView {
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
        })
        .collect();
    if global.json {
        return show::json(&views);
    }
    let rows: Vec<_> = views
        .into_iter()
        .map(|view| {
            let (used, free) = (show::size(view.used_bytes), show::size(view.free_bytes));
            vec![view.id, view.site, view.rack, view.state.to_owned(), used, free, view.address, view.data]
        })
        .collect();
    show::table(&["id", "site", "rack", "state", " used", " free", "address", "data"], &rows);
    Ok(())
}

/// `sector health`.
pub(crate) async fn health(cloud: &Client, global: &Global) -> Result<(), Failure> {
    let health = cloud.health().await?;
    let status = match (health.lost + health.corrupt, health.reasons.is_empty()) {
        (0, true) => "ok",
        (0, false) => "warning",
        _ => "critical",
    };
    if global.json {
        show::json(&HealthView {
            status,
            reasons: health.reasons,
            under_replicated: health.under_replicated,
            corrupt: health.corrupt,
            lost: health.lost,
        })?;
    } else if status == "ok" {
        show::line("ok: every file has its copies and every node is up");
    } else {
        show::line(format!("{status}: {}", health.reasons.join("; ")));
    }
    if status == "ok" { Ok(()) } else { Err(Failure::new(Status::Failed, "")) }
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
}

#[derive(Serialize)]
struct HealthView {
    status: &'static str,
    reasons: Vec<String>,
    under_replicated: u64,
    corrupt: u64,
    lost: u64,
}
