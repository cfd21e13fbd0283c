//! The state of the cloud, in sentences that say what to do. Serves `sector health` and `sector nodes`. All counts are
//! kept up to date as things change, so an answer never walks over files.

use std::{collections::BTreeMap, fmt::Display};

use protocol::{
    NodeId, Now,
    disk::{DiskState, DiskStatus, size},
    message::{
        audit::RefusedTickets,
        client_master::{ClientReply, Health, NEARLY_FULL_WHEN_LEFT, NodeState},
        cluster::Membership,
        master_security::UserRights,
    },
    sandbox::SandboxLayer,
};

use crate::{
    Master,
    fleet::nodes::{Node, NodeKey},
    log::journal_writes::MASTER_DISK_FULL,
    replicas::replication_queue::UnhealthyCounts,
};

impl Master {
    /// The nodes, by name.
    pub(crate) fn node_list(&self, now: Now) -> ClientReply {
        let reserve_bytes = self.config.reserve_bytes;
        ClientReply::Nodes(self.fleet.nodes.by_name().map(|(_, node)| node.status(now, reserve_bytes)).collect())
    }

    /// What is wrong, if anything: a sentence for each kind of trouble. Files are named to those who may know them.
    pub(crate) fn health(&self, by: Option<&UserRights>) -> ClientReply {
        let UnhealthyCounts { under_replicated, lost, lost_in_memory, misplaced, short_of_nodes } =
            self.replicas.queue.health();
        let corrupt = self.replicas.table.corrupt_count();
        let mut reasons = self.node_reasons();
        for (_, node) in self.fleet.nodes.by_name().filter(|(_, node)| node.is_reachable()) {
            reasons.extend(node.disks.iter().filter_map(|disk| disk_reason(&node.id, disk)));
            reasons.extend(sandbox_reason(&node.id, node.sandbox_missing.as_deref().unwrap_or_default()));
        }
        let up = self.fleet.nodes.up_count();
        if up == 0 {
            reasons.push("no node is up; start one".into());
        }
        reasons.extend(self.mark_reasons());
        reasons.extend(self.room_reason());
        if lost > 0 {
            let files = pluralized(
                lost,
                "file has no copy that can be reached; start the nodes that hold it",
                "files have no copy that can be reached; start the nodes that hold them",
            );
            reasons.push(files);
        }
        if lost_in_memory > 0 {
            let files = pluralized(
                lost_in_memory,
                "file below `/memory` is gone with its node; run the job again that made it, or remove it",
                "files below `/memory` are gone with their nodes; run the jobs again that made them, or remove them",
            );
            reasons.push(files);
        }
        if under_replicated > 0 {
            let files = pluralized(
                under_replicated,
                "file has fewer copies than wanted; it is being copied",
                "files have fewer copies than wanted; they are being copied",
            );
            let nodes = pluralized(up, "node that is up has room", "nodes that are up have room");
            reasons.push(format!("{files} as far as the {nodes}"));
        }
        if short_of_nodes > 0 {
            let files = pluralized(short_of_nodes, "file wants", "files want");
            reasons.push(format!(
                "{files} more copies than there are nodes, or copies at a site without nodes{}; add nodes there, or want \
                 less (`sector policy get` and `stat` say what is wanted)",
                self.short_of_nodes_named(by)
            ));
        }
        if misplaced > 0 {
            let files = pluralized(misplaced, "file has", "files have");
            reasons
                .push(format!("{files} copies where they should not be; they are being moved as far as there is room"));
        }
        if corrupt > 0 {
            let copies = pluralized(
                corrupt,
                "copy is corrupt and is being replaced; check the disk of its node",
                "copies are corrupt and are being replaced; check the disks of their nodes",
            );
            reasons.push(copies);
        }
        if self.log.journal_writes.is_full() {
            reasons.push(MASTER_DISK_FULL.into());
        }
        reasons.extend(self.rebuild_reasons());
        reasons.extend(self.catalog.clock_reason());
        reasons.extend(self.access.session_recheck.security_reasons.iter().cloned());
        reasons.extend(
            self.fleet.topology.fault.as_ref().map(|fault| format!("the topology before it is in use: {fault}")),
        );
        let insecure_sites = self.insecure_sites();
        reasons.extend(insecure_sites.iter().map(|site| {
            format!(
                "data within the site {site} is not encrypted, because `insecure_data` is set; unset it and restart"
            )
        }));
        let mut refused_tickets = RefusedTickets::new();
        for (_, node) in self.fleet.nodes.by_name() {
            for (fault, count) in &node.refused_tickets {
                *refused_tickets.entry(*fault).or_default() += count;
            }
        }
        ClientReply::Health(Health {
            reasons,
            under_replicated,
            corrupt,
            lost,
            misplaced,
            short_of_nodes,
            refused_tickets,
            insecure_sites,
        })
    }

    /// Whether files can be written, now and in the near future: an operator must hear of it before users do.
    fn room_reason(&self) -> Option<String> {
        let reserve_bytes = self.config.reserve_bytes;
        let up = self.fleet.nodes.up_count();
        let takers: Vec<_> =
            self.fleet.nodes.iter().map(|(_, node)| node).filter(|node| node.is_up() && node.is_active()).collect();
        if takers.is_empty() {
            return (up > 0).then(|| "no node takes new files: all that are up are being drained; add one".into());
        }
        let advice = "add nodes or disks, remove files, or empty the trash (`sector trash empty`)";
        if takers.iter().all(|node| node.is_full(reserve_bytes)) {
            return Some(format!("no node has room for a new file; {advice}"));
        }
        let near =
            takers.iter().filter(|node| node.is_full(reserve_bytes) || node.is_nearly_full(reserve_bytes)).count();
        (near * 2 > takers.len()).then(|| {
            let percent = 100 / NEARLY_FULL_WHEN_LEFT;
            // With two, more than half means both; with one, it is the only one.
            match takers.len() {
                1 => format!("the only node that takes new files has less than {percent} % of its room left; {advice}"),
                all => format!("{near} of {all} nodes have less than {percent} % of their room left; {advice}"),
            }
        })
    }

    /// Some of the files that want too much, for whoever may know their names.
    fn short_of_nodes_named(&self, by: Option<&UserRights>) -> String {
        let Some(by) = by else { return String::new() };
        let names = self.catalog.names();
        let files = self.replicas.queue.short_of_nodes().filter_map(|slice| names.file_of_slice(slice));
        let known = files.filter(|file| by.admin || names.owner(*file) == Some(&by.user));
        let named: Vec<_> = known.filter_map(|file| names.path(file)).take(FILES_NAMED_MAX).collect();
        match &named[..] {
            [] => String::new(),
            [one] => format!(", such as `{one}`"),
            [one, .., other] => format!(", such as `{one}` and `{other}`"),
        }
    }

    fn node_reasons(&self) -> Vec<String> {
        let reserve_bytes = self.config.reserve_bytes;
        let mut kinds: BTreeMap<NodeTrouble, Vec<&NodeId>> = BTreeMap::new();
        let takers = || self.fleet.nodes.iter().filter(|(_, node)| node.is_up() && node.is_active());
        let is_any_free = takers().any(|(_, node)| !node.is_full(reserve_bytes));
        for (_, node) in self.fleet.nodes.by_name() {
            let of_state = match node.state {
                NodeState::Up => None,
                NodeState::Joining => Some(NodeTrouble::Joining),
                NodeState::Lost if !node.has_joined => Some(NodeTrouble::NeverJoined),
                NodeState::Lost => Some(NodeTrouble::Lost),
            };
            // Where all are full, it is said once of the cloud.
            let is_full = is_any_free && node.is_up() && node.is_active() && node.is_full(reserve_bytes);
            for trouble in of_state.into_iter().chain(is_full.then_some(NodeTrouble::Full)) {
                kinds.entry(trouble).or_default().push(&node.id);
            }
        }
        let told = |(trouble, nodes): (&NodeTrouble, &Vec<&NodeId>)| trouble.message(nodes, reserve_bytes);
        let mut reasons: Vec<_> = kinds.iter().map(told).collect();
        for (key, node) in self.fleet.nodes.by_name() {
            reasons.extend(self.drain_reason(key, node));
        }
        reasons
    }

    fn drain_reason(&self, key: NodeKey, node: &Node) -> Option<String> {
        let id = &node.id;
        if node.membership == Membership::Draining {
            let in_doubt = self.in_doubt_at(key);
            let what_to_do = match in_doubt {
                0 => "wait".to_owned(),
                _ => {
                    let doubtful = match node.slice_count {
                        1 => "it is in doubt, and is not moved".to_owned(),
                        _ => pluralized(
                            in_doubt,
                            "of them is in doubt, and is not moved",
                            "of them are in doubt, and are not moved",
                        ),
                    };
                    format!(
                        "{doubtful} before an administrator decides: `sector rebuild recover` or `dismiss` (see \
                         `sector rebuild status`)"
                    )
                }
            };
            let slices = pluralized(node.slice_count, "slice is", "slices are");
            return Some(format!("node {id} is being drained, {slices} left; {what_to_do}"));
        }
        None
    }
}

/// What nodes have in common of which one sentence tells; the first is told first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NodeTrouble {
    Joining,
    NeverJoined,
    Lost,
    Full,
}

impl NodeTrouble {
    fn message(self, nodes: &[&NodeId], reserve_bytes: u64) -> String {
        let who = named(nodes);
        let (is, one) = if nodes.len() == 1 { ("is", true) } else { ("are", false) };
        let say = |of_one: &str, of_many: &str| format!("{who} {is} {}", if one { of_one } else { of_many });
        match self {
            Self::Joining => say("still telling what it holds; wait", "still telling what they hold; wait"),
            Self::NeverJoined => say(
                "lost: it was not heard of since the master was started; start it again, or remove it",
                "lost: they were not heard of since the master was started; start them again, or remove them",
            ),
            Self::Lost => say("lost; start it again", "lost; start them again"),
            Self::Full => {
                let gets = if one { "it gets" } else { "they get" };
                let room = match reserve_bytes {
                    0 => "nothing is free".to_owned(),
                    _ => format!("less than the reserve of {} is free", size(reserve_bytes)),
                };
                format!(
                    "{who} {is} full: {room}, so {gets} no new slices; add nodes, remove files, or `sector rebalance`"
                )
            }
        }
    }
}

/// Nodes by name, but no more than a person reads.
fn named(nodes: &[&NodeId]) -> String {
    let texts: Vec<_> = nodes.iter().take(NODES_NAMED_MAX).map(ToString::to_string).collect();
    match (nodes.len() - texts.len(), &texts[..]) {
        (0, [one]) => format!("node {one}"),
        (0, [firsts @ .., last]) => format!("nodes {} and {last}", firsts.join(", ")),
        (further, _) => format!("nodes {} and {further} more", texts.join(", ")),
    }
}

/// Most nodes that a sentence names.
const NODES_NAMED_MAX: usize = 3;
/// Most files that a sentence names.
const FILES_NAMED_MAX: usize = 2;

/// A count with its noun, in the singular or the plural.
pub(crate) fn pluralized<N: Display + PartialEq + From<u8>>(count: N, one: &str, others: &str) -> String {
    let words = if count == N::from(1) { one } else { others };
    format!("{count} {words}")
}

/// User functions run there with less isolation than they should have.
fn sandbox_reason(node: &NodeId, missing: &[SandboxLayer]) -> Option<String> {
    let first = missing.first()?;
    let layers = SandboxLayer::list(missing);
    Some(format!("the sandbox of node {node} lacks: {layers}; {} (`sector doctor` there says more)", first.advice()))
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
