//! Requests about the cloud as a whole: health, nodes, load, background work, topology. They never change anything.

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use client::{
    Client, MarkChange, MarkSubject, Reason, Refusal,
    views::{
        HealthView, MarkView, NodeView, TopologyView, WorkView, link_series, links_page, load_page, load_series,
        marked_nodes,
    },
};
use http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::json;

use super::{
    Web,
    answer::{Answer, ApiError, document, done},
    ask::{Asked, Document},
    caller::Caller,
};

pub(crate) async fn health(caller: Caller) -> Answer {
    document(&HealthView::from(caller.client.health_report().await?))
}

pub(crate) async fn nodes(caller: Caller) -> Answer {
    document(&node_views(&caller.client).await?)
}

/// All nodes, as the page shows them.
pub(crate) async fn node_views(client: &Client) -> Result<Vec<NodeView>, ApiError> {
    Ok(marked_nodes(client.nodes().await?, &client.marks().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadQuery {
    #[serde(default)]
    ago: u32,
}

pub(crate) async fn load(caller: Caller, Asked(query): Asked<LoadQuery>) -> Answer {
    document(&load_page(&caller.client.load(query.ago).await?))
}

pub(crate) async fn links(caller: Caller, Asked(query): Asked<LoadQuery>) -> Answer {
    document(&links_page(&caller.client.links(query.ago).await?))
}

pub(crate) async fn link(
    caller: Caller,
    Path((from, to)): Path<(String, String)>,
    Asked(query): Asked<SeriesQuery>,
) -> Answer {
    document(&link_series(&caller.client.link_series(&from, &to, query.last).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeriesQuery {
    #[serde(default = "one_minute")]
    last: u32,
}

pub(crate) async fn load_of_node(caller: Caller, Path(node): Path<String>, Asked(query): Asked<SeriesQuery>) -> Answer {
    let node = node.parse().map_err(|error| ApiError::invalid(format!("`{node}` is no node: {error}")))?;
    document(&load_series(&caller.client.load_series(node, query.last).await?))
}

pub(crate) async fn marks(caller: Caller) -> Answer {
    document(&caller.client.marks().await?.iter().map(MarkView::from).collect::<Vec<_>>())
}

/// What to decide about a mark: of a node, of a disk, or of the link between two sites.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkDecision {
    node: Option<String>,
    folder: Option<String>,
    sites: Option<[String; 2]>,
    /// `add`, `clear` or `ignore`.
    change: String,
    #[serde(default)]
    reason: String,
}

pub(crate) async fn change_mark(caller: Caller, Document(decision): Document<MarkDecision>) -> Answer {
    caller.session()?;
    let MarkDecision { node, folder, sites, change, reason } = decision;
    let node =
        node.map(|node| node.parse().map_err(|error| ApiError::invalid(format!("`{node}` is no node: {error}"))));
    let subject = match (node.transpose()?, folder, sites) {
        (Some(node), None, None) => MarkSubject::Node(node),
        (Some(node), Some(folder), None) => MarkSubject::Disk { node, folder },
        (None, None, Some([a, b])) => MarkSubject::link(a, b),
        _ => return Err(ApiError::invalid("name `node`, `node` and `folder`, or two `sites`")),
    };
    let change = match change.as_str() {
        "add" => MarkChange::Add(reason),
        "clear" => MarkChange::Clear,
        "ignore" => MarkChange::Ignore(reason),
        other => return Err(ApiError::invalid(format!("`{other}` is no change: add, clear or ignore"))),
    };
    caller.client.change_mark(subject, change).await?;
    done()
}

pub(crate) async fn work(caller: Caller) -> Answer {
    document(&caller.client.work().await?.iter().map(WorkView::from).collect::<Vec<_>>())
}

pub(crate) async fn topology(caller: Caller) -> Answer {
    document(&TopologyView::from(caller.client.topology(false).await?))
}

/// What a role counts, in the text format of Prometheus.
pub(crate) async fn metrics(State(web): State<Web>, caller: Caller, Path(of): Path<String>) -> Answer {
    if of == GATEWAY {
        // As for the other roles; here nobody else would ask.
        if !caller.client.who_am_i().await?.rights.admin {
            return Err(Refusal::new(Reason::NoRight, "metrics are for administrators").into());
        }
        return Ok(metrics_text(web.metrics()));
    }
    let of = of.parse().map_err(|error| ApiError::invalid(format!("no role or node {of}: {error}")))?;
    Ok(metrics_text(caller.client.metrics(of).await?))
}

fn metrics_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// All roles, as Prometheus discovers them (`http_sd_configs`): each is asked at this gateway.
pub(crate) async fn metrics_targets(caller: Caller, headers: HeaderMap) -> Answer {
    let here = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let target = |role: &str, name: &str, place: Option<(&str, &str)>| {
        let (site, rack) = place.unwrap_or_default();
        let path = format!("{METRICS}/{name}");
        json!({"targets": [here], "labels": {
            "__metrics_path__": path, "instance": name, "role": role, "site": site, "rack": rack,
        }})
    };
    let mut targets =
        vec![target("master", "master", None), target("security", "security", None), target(GATEWAY, GATEWAY, None)];
    let nodes = caller.client.nodes().await?;
    targets.extend(
        nodes
            .iter()
            .map(|node| target("node", node.node.as_str(), Some((node.place.site.as_str(), node.place.rack.as_str())))),
    );
    document(&targets)
}

/// This gateway itself, among the roles.
const GATEWAY: &str = "gateway";
/// Where they are.
const METRICS: &str = "/api/v1/metrics";

fn one_minute() -> u32 {
    60
}
