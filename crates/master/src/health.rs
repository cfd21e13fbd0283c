//! How the cloud is, in sentences that say what to do. Serves `sector health` and `sector nodes`. All counts are kept as
//! things change; asking costs nothing.

use protocol::{
    NodeId,
    disk::{DiskState, DiskStatus},
    message::client_master::{ClientReply, Health, NodeState},
};

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
        for (_, node) in self.nodes.by_name().filter(|(_, node)| node.is_reachable()) {
            reasons.extend(node.disks.iter().filter_map(|disk| disk_reason(&node.id, disk)));
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
        if !self.unclaimed.is_empty() {
            reasons.push(format!(
                "{} slices are older than the master's journal and were never placed; they are kept on their nodes",
                self.unclaimed.len()
            ));
        }
        ClientReply::Health(Health { reasons, under_replicated, corrupt, lost })
    }
}

/// What is wrong with a disk, and what to do.
fn disk_reason(node: &NodeId, disk: &DiskStatus) -> Option<String> {
    let DiskStatus { folder, why, .. } = disk;
    match disk.state {
        DiskState::Ok => None,
        DiskState::Failed => Some(format!(
            "the disk `{folder}` of node {node} has failed ({why}); its files are copied from other nodes; \
             replace it and start the node again"
        )),
        DiskState::Missing => {
            Some(format!("the disk `{folder}` of node {node} was not there when the node started ({why})"))
        }
    }
}
