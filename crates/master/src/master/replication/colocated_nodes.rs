//! Folders whose files all lie on the same nodes (a data file and its index, the parts of one image). Serves the target
//! of a write, further copies, and repair. A lost node is replaced once, for the folder, and all its files follow. The
//! nodes are not in the journal: they are those with most of the folder's copies, and are found again after a restart.
//! That waits until the nodes have had time to come back. This file never moves anything: a copy elsewhere counts as
//! [apart](crate::fleet::placement_constraints::PlacementViolation::NotColocated), and replication moves it.

use std::collections::BTreeMap;

use protocol::{FileId, Now};

use crate::{
    Master,
    fleet::{
        nodes::NodeKey,
        placement::{PlacementChoice, PlacementRequest, choose_node},
        placement_constraints::PlacementConstraints,
    },
};

impl Master {
    /// The nodes for the files of a folder. `None` while that cannot be known, and for anything that is no folder.
    pub(crate) fn colocated_nodes(
        &mut self,
        now: Now,
        folder: FileId,
        terms: &PlacementConstraints,
    ) -> Option<Vec<NodeKey>> {
        if !self.catalog.names().is_folder(folder) {
            self.fleet.colocation.folders.remove(&folder);
            return None;
        }
        let stays = |key: &NodeKey| terms.is_fit(&self.fleet.nodes, *key) && !self.fleet.nodes.get(*key).is_dead;
        if let Some(members) = self.fleet.colocation.folders.get_mut(&folder) {
            members.retain(stays);
            if members.len() >= terms.copies {
                return Some(members[..terms.copies].to_vec());
            }
        }
        let known = self.fleet.colocation.folders.get(&folder).cloned();
        let found = self.scan_folder(folder);
        let mut members = known.unwrap_or_else(|| {
            let mut members = found.by_copies.clone();
            members.retain(stays);
            members.truncate(terms.copies);
            members
        });
        // Until the nodes of an earlier master are back, the copies found may be the smaller part.
        if now.monotonic < self.replication_begins && found.has_files {
            return (members.len() >= terms.copies).then_some(members);
        }
        self.fill_up(&mut members, found.bytes, terms);
        if self.fleet.colocation.folders.len() >= FOLDERS_MAX {
            self.fleet.colocation.folders.clear();
        }
        self.fleet.colocation.folders.insert(folder, members.clone());
        (!members.is_empty()).then_some(members)
    }

    /// Adds nodes until there are enough for all copies, as well spread as possible.
    fn fill_up(&mut self, members: &mut Vec<NodeKey>, bytes: u64, terms: &PlacementConstraints) {
        while members.len() < terms.copies {
            let wanted = PlacementRequest {
                bytes,
                user: None,
                reserve_bytes: self.config.reserve_bytes,
                constraints: terms,
                holders: members,
                ineligible: &[],
                avoided: &[],
                preferred: None,
                incoming_max: u32::MAX,
                may_wait: false,
            };
            match choose_node(&self.fleet.nodes, &wanted, &mut self.rng) {
                PlacementChoice::Node(key) => members.push(key),
                PlacementChoice::Busy | PlacementChoice::NoNode => return,
            }
        }
    }

    /// Where the copies of a folder's files lie, from enough files to be certain.
    fn scan_folder(&self, folder: FileId) -> Found {
        let mut found = Found::default();
        let mut counts: BTreeMap<NodeKey, u32> = BTreeMap::new();
        let mut rest = vec![folder];
        let mut seen = 0;
        while let Some(entry) = rest.pop()
            && seen < LOOKED_THROUGH_MAX
        {
            seen += 1;
            match self.catalog.names().content(entry) {
                Some(content) => {
                    found.has_files = true;
                    found.bytes = found.bytes.saturating_add(content.bytes);
                    for replica in self.replicas.table.of(content.slice).iter().filter(|replica| replica.is_good()) {
                        *counts.entry(replica.node).or_default() += 1;
                    }
                }
                None => rest.extend(self.catalog.names().children(entry)),
            }
        }
        found.by_copies = counts.keys().copied().collect();
        found.by_copies.sort_by_key(|key| (std::cmp::Reverse(counts[key]), self.fleet.nodes.get(*key).id.clone()));
        found
    }
}

/// What lies in a folder.
#[derive(Debug, Default)]
struct Found {
    /// Nodes that hold copies, those with most first.
    by_copies: Vec<NodeKey>,
    bytes: u64,
    has_files: bool,
}

/// Folders remembered at once, some 100 bytes each. Beyond that the table starts again from empty.
const FOLDERS_MAX: usize = 65_536;

/// Files and folders examined to find where a folder's copies lie: some hundred microseconds.
const LOOKED_THROUGH_MAX: usize = 1_000;
