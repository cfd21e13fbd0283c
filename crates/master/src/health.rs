//! How the cloud is, in sentences that say what to do. Serves `sector health` and `sector nodes`. All counts are kept as
//! things change; asking costs nothing.

use protocol::message::client_master::{ClientReply, Health, NodeState};

use crate::Master;

impl Master {
    /// The nodes, by name.
    pub(crate) fn node_list(&self) -> ClientReply {
        ClientReply::Nodes(self.nodes.by_name().map(|(_, node)| node.status()).collect())
    }

    /// What is wrong, if anything.
    pub(crate) fn health(&self) -> ClientReply {
        let (under_replicated, lost) = self.replication.health();
        let corrupt = self.replicas.corrupt_count();
        let mut reasons = Vec::new();
        for (_, node) in self.nodes.by_name() {
            match node.state {
                NodeState::Up => {}
                NodeState::Joining => reasons.push(format!("node {} is still telling what it holds; wait", node.id)),
                NodeState::Lost => reasons.push(format!("node {} is lost; start it again", node.id)),
            }
        }
        let up = self.nodes.up_count();
        if up == 0 {
            reasons.push("no node is up; start one".into());
        }
        if lost > 0 {
            reasons.push(format!("{lost} files have no copy that can be reached; start the nodes that hold them"));
        }
        if under_replicated > 0 {
            reasons.push(format!(
                "{under_replicated} files have fewer copies than wanted; \
                 they are being copied as far as the {up} nodes that are up have room"
            ));
        }
        if corrupt > 0 {
            reasons
                .push(format!("{corrupt} copies are corrupt and are being replaced; check the disks of their nodes"));
        }
        reasons.extend(self.rebuild_reasons());
        ClientReply::Health(Health { reasons, under_replicated, corrupt, lost })
    }
}
