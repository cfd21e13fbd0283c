//! Which node holds which slice, and how it stands there. Comes from the nodes' inventories and reports alone and is in
//! no journal: what a disk holds, only the disk knows. Serves reading, commits, orders, replication.
//! Never knows which slices are wanted.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use protocol::{SectorPath, SliceHeader, SliceId};

use crate::nodes::NodeKey;

/// The replicas of all slices.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    slices: BTreeMap<SliceId, Vec<Replica>>,
    corrupt: u64,
}

/// One slice at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) node: NodeKey,
    pub(crate) state: ReplicaState,
    /// The node's inventory that last named it.
    pub(crate) epoch: u32,
}

/// How a replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaState {
    /// Complete and synced, not yet at its path.
    Staged,
    /// At its path, with a sidecar that says what this mark stands for.
    Placed(HeaderMark),
    /// Set aside by another slice at its path.
    Retired,
    /// One too many, being removed.
    Leaving,
    /// Found bad; kept in mind until a good copy has replaced it.
    Corrupt {
        /// Whether its node has put it aside.
        put_aside: bool,
    },
}

impl Replica {
    /// Whether it may be read and counts as a copy.
    pub(crate) fn is_good(&self) -> bool {
        matches!(self.state, ReplicaState::Staged | ReplicaState::Placed(_) | ReplicaState::Retired)
    }
}

/// Stands for all that a sidecar says of a slice in 8 bytes: a replica only needs to know whether it is still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HeaderMark(u64);

impl HeaderMark {
    pub(crate) fn of(header: &SliceHeader) -> Self {
        Self(mark(header))
    }
}

/// Stands for a path in 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathMark(u64);

impl PathMark {
    pub(crate) fn of(path: &SectorPath) -> Self {
        Self(mark(path))
    }
}

fn mark(of: &impl Hash) -> u64 {
    // `DefaultHasher::new` has fixed keys: marks are the same in every run, as the simulation needs.
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Replicas {
    /// The replicas of a slice, by node.
    pub(crate) fn of(&self, slice: SliceId) -> &[Replica] {
        self.slices.get(&slice).map_or(&[], Vec::as_slice)
    }

    /// A slice's replica at a node.
    pub(crate) fn at(&self, slice: SliceId, node: NodeKey) -> Option<Replica> {
        self.of(slice).iter().find(|replica| replica.node == node).copied()
    }

    /// Notes how a slice stands at a node, as of the node's inventory `epoch`.
    pub(crate) fn set(&mut self, slice: SliceId, replica: Replica) {
        let replicas = self.slices.entry(slice).or_default();
        match replicas.binary_search_by_key(&replica.node, |known| known.node) {
            Ok(at) => {
                self.corrupt -= is_corrupt(&replicas[at]);
                replicas[at] = replica;
            }
            Err(at) => replicas.insert(at, replica),
        }
        self.corrupt += is_corrupt(&replica);
    }

    /// Forgets a slice at a node; whether it was known.
    pub(crate) fn remove(&mut self, slice: SliceId, node: NodeKey) -> bool {
        let Some(replicas) = self.slices.get_mut(&slice) else { return false };
        let Some(at) = replicas.iter().position(|replica| replica.node == node) else { return false };
        self.corrupt -= is_corrupt(&replicas.remove(at));
        if replicas.is_empty() {
            self.slices.remove(&slice);
        }
        true
    }

    /// Replicas found corrupt and not yet replaced.
    pub(crate) fn corrupt_count(&self) -> u64 {
        self.corrupt
    }
}

fn is_corrupt(replica: &Replica) -> u64 {
    u64::from(matches!(replica.state, ReplicaState::Corrupt { .. }))
}
