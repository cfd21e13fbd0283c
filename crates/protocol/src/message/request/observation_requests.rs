//! Requests of those who watch the cloud: load, background work and metrics. Each is one paragraph: what it is, its reply, its
//! properties. This file never handles one.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by};
use crate::{
    NodeId,
    ids::IdError,
    message::{
        client_reply::ClientReply,
        links::{LinkPage, LinkSeries},
        load::{LoadPage, LoadSeries},
        work::WorkPage,
    },
};

/// All background work of the cloud, a page at a time: the master's, and what each reachable node last reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkRequest {
    /// Only nodes after this one (the last of the previous page).
    pub after: Option<NodeId>,
}

impl TypedRequest for WorkRequest {
    answered_by!(WorkPage, ClientReply::Work(page) => page);

    fn properties(&self) -> Properties<'_> {
        Properties::new("work", Need::Administrator("look at background work"))
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at background work", "")
    }
}

/// What one role counts, in the text format of Prometheus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsRequest {
    /// Which role.
    pub of: MetricsSource,
}

/// A role that counts something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetricsSource {
    /// The master that is asked.
    Master,
    /// Its security server.
    Security,
    /// One of its nodes.
    Node(NodeId),
}

impl FromStr for MetricsSource {
    type Err = IdError;

    /// `master`, `security`, or the name of a node.
    fn from_str(text: &str) -> Result<Self, IdError> {
        match text {
            "master" => Ok(Self::Master),
            "security" => Ok(Self::Security),
            node => node.parse().map(Self::Node),
        }
    }
}

impl TypedRequest for MetricsRequest {
    answered_by!(String, ClientReply::Metrics(text) => text);

    fn properties(&self) -> Properties<'_> {
        Properties::new("metrics", Need::Administrator("read metrics"))
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("read metrics", "")
    }
}

/// How busy the nodes are, or were: a page of nodes at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    /// How many seconds ago; 0 is now. A day is kept.
    pub seconds_ago: u32,
    /// Only nodes after this one (the last of the previous page).
    pub after: Option<NodeId>,
}

impl TypedRequest for LoadRequest {
    answered_by!(LoadPage, ClientReply::Load(page) => page);

    fn properties(&self) -> Properties<'_> {
        Properties::new("load", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at the load of the nodes", "")
    }
}

/// How busy one node was over time, at the finest resolution that is kept for so long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadSeriesRequest {
    /// Which node.
    pub node: NodeId,
    /// How many seconds back; at most a day is kept.
    pub seconds: u32,
}

impl TypedRequest for LoadSeriesRequest {
    answered_by!(LoadSeries, ClientReply::LoadSeries(series) => series);

    fn properties(&self) -> Properties<'_> {
        Properties::new("load-series", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at the load of a node", "")
    }
}

/// What goes over the links between sites, or went: a page of links at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksRequest {
    /// How many seconds ago; 0 is now. A day is kept.
    pub seconds_ago: u32,
    /// Only links after the one between these sites (the last of the previous page).
    pub after: Option<(String, String)>,
}

impl TypedRequest for LinksRequest {
    answered_by!(LinkPage, ClientReply::Links(page) => page);

    fn properties(&self) -> Properties<'_> {
        Properties::new("links", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at the links between sites", "")
    }
}

/// What went over one link over time, at the finest resolution that is kept for so long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSeriesRequest {
    /// The site that sends.
    pub from: String,
    /// The site that receives.
    pub to: String,
    /// How many seconds back; at most a day is kept.
    pub seconds: u32,
}

impl TypedRequest for LinkSeriesRequest {
    answered_by!(LinkSeries, ClientReply::LinkSeries(series) => series);

    fn properties(&self) -> Properties<'_> {
        Properties::new("link-series", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at a link between sites", "")
    }
}
