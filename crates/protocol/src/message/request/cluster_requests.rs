//! Requests about the nodes, the topology and the clock. Each is one paragraph: what it is, its reply, its properties.
//! This file never handles one.

use serde::{Deserialize, Serialize};

use super::{Need, Properties, TypedRequest, answered_by};
use crate::{
    NodeId,
    message::{
        audit::AuditKind,
        client_reply::{ClientReply, Health, NodeStatus, Source},
        cluster::{
            DrainRequest, MovePlan, NodeRemoval, RebalanceStatus, RebalanceVerb, RemoveNodeRequest, TopologyStatus,
        },
    },
};

/// The nodes and how they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesRequest;

impl TypedRequest for NodesRequest {
    answered_by!(Vec<NodeStatus>, ClientReply::Nodes(nodes) => nodes);

    fn properties(&self) -> Properties<'_> {
        Properties::new("nodes", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at nodes", "")
    }
}

/// Is everything all right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthRequest;

impl TypedRequest for HealthRequest {
    answered_by!(Health, ClientReply::Health(health) => health);

    fn properties(&self) -> Properties<'_> {
        Properties::new("health", Need::Login)
            .repeatable()
            .during_rebuild()
            .without_names()
            .refused_as("look at nodes", "")
    }
}

/// The end of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogoutRequest;

impl TypedRequest for LogoutRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("log out", Need::Login).during_rebuild().without_names().refused_as("log out", "")
    }
}

impl TypedRequest for DrainRequest {
    answered_by!(MovePlan, ClientReply::Plan(plan) => plan);

    fn properties(&self) -> Properties<'_> {
        Properties::new("drain node", Need::Administrator("drain nodes")).repeatable().without_names().noted(
            AuditKind::Admin,
            "drain",
            &self.node,
        )
    }
}

impl TypedRequest for RemoveNodeRequest {
    answered_by!(NodeRemoval, ClientReply::Removal(removal) => removal);

    fn properties(&self) -> Properties<'_> {
        Properties::new("remove node", Need::Administrator("remove nodes")).once().without_names().noted(
            AuditKind::Admin,
            "remove node",
            &self.node,
        )
    }
}

impl TypedRequest for RebalanceVerb {
    answered_by!(RebalanceStatus, ClientReply::Rebalance(status) => status);

    fn properties(&self) -> Properties<'_> {
        let named = |needs| Properties::new("rebalance", needs).repeatable().without_names();
        match self {
            Self::Plan => named(Need::Login).refused_as("look at rebalancing", ""),
            Self::Status => named(Need::Login).during_rebuild().refused_as("look at rebalancing", ""),
            Self::Begin => named(Need::Administrator("rebalance the nodes")).noted(AuditKind::Admin, "rebalance", ""),
            Self::Stop => named(Need::Administrator("stop rebalancing")).noted(AuditKind::Admin, "rebalance", ""),
        }
    }
}

/// Where the nodes stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyRequest {
    /// Read the file again before.
    pub reload: bool,
}

impl TypedRequest for TopologyRequest {
    answered_by!(TopologyStatus, ClientReply::Topology(status) => status);

    fn properties(&self) -> Properties<'_> {
        let named = |needs| Properties::new("topology", needs).repeatable().during_rebuild().without_names();
        match self.reload {
            false => named(Need::Login).refused_as("look at topology", ""),
            true => {
                named(Need::Administrator("read the topology again")).noted(AuditKind::Admin, "reload topology", "")
            }
        }
    }
}

/// Import files that already lie on a node: its address, with a ticket (right: import).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRequest {
    /// The node.
    pub node: NodeId,
}

impl TypedRequest for ImportRequest {
    answered_by!(Source, ClientReply::Source(source) => source);

    fn properties(&self) -> Properties<'_> {
        Properties::new("import", Need::Administrator("import files from a node's disk")).repeatable().noted(
            AuditKind::Admin,
            "import",
            &self.node,
        )
    }
}

/// The master's wall clock is right, although it jumped. What waited for that is again removed by time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmClockRequest;

impl TypedRequest for ConfirmClockRequest {
    answered_by!((), ClientReply::Done => ());

    fn properties(&self) -> Properties<'_> {
        Properties::new("confirm clock", Need::Administrator("say that the clock is right")).repeatable().noted(
            AuditKind::Admin,
            "confirm clock",
            "",
        )
    }
}
