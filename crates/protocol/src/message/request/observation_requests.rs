//! Requests of those who watch the cloud: background work and metrics. Each is one paragraph: what it is, its reply, its
//! properties. This file never handles one.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by};
use crate::{
    NodeId,
    message::{client_reply::ClientReply, work::WorkPage},
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
