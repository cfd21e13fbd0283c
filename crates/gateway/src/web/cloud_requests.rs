//! Requests about the cloud as a whole: health, nodes, load, background work, topology. They never change anything.

use axum::extract::Path;
use client::{
    Client,
    views::{HealthView, NodeView, TopologyView, WorkView, load_page, load_series},
};
use serde::Deserialize;

use super::{
    answer::{Answer, ApiError, document},
    ask::Asked,
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
    Ok(client.nodes().await?.into_iter().map(NodeView::from).collect())
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

pub(crate) async fn work(caller: Caller) -> Answer {
    document(&caller.client.work().await?.iter().map(WorkView::from).collect::<Vec<_>>())
}

pub(crate) async fn topology(caller: Caller) -> Answer {
    document(&TopologyView::from(caller.client.topology(false).await?))
}

fn one_minute() -> u32 {
    60
}
