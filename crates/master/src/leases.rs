//! Write leases: one writer a path, for a time. Serves upload. Never publishes anything: `commits` does.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use protocol::{
    Digest, FileId, LeaseId, SectorPath, SliceHeader, SliceId,
    message::{client_master::Condition, master_security::UserRights},
};

use crate::{actions::Caller, nodes::NodeKey};

/// The right to write one path, and how far the write is.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) id: LeaseId,
    pub(crate) by: UserRights,
    pub(crate) header: SliceHeader,
    pub(crate) condition: Condition,
    pub(crate) parents: bool,
    /// Copies that must be synced before the commit is answered, as wished for.
    pub(crate) sync_copies: usize,
    /// The node that the client writes to.
    pub(crate) target: NodeKey,
    /// Bytes promised to the target's disk until they are stored.
    pub(crate) bytes_promised: u64,
    /// Whether the target still waits for the bytes.
    pub(crate) incoming: bool,
    /// When it ends, on the monotonic clock.
    pub(crate) ends: Duration,
    /// What nodes reported synced.
    pub(crate) stored: BTreeMap<NodeKey, Stored>,
    /// The client's wish to publish, once it came.
    pub(crate) commit: Option<Commit>,
}

/// What a node says that it synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
}

/// A commit that waits for copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) caller: Caller,
    pub(crate) written: Stored,
}

/// All leases that have not ended, and the last ones that were used.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_id: BTreeMap<LeaseId, Lease>,
    by_path: BTreeMap<SectorPath, LeaseId>,
    by_slice: BTreeMap<SliceId, LeaseId>,
    by_end: BTreeSet<(Duration, LeaseId)>,
    used: VecDeque<Used>,
}

/// A lease that was published, kept for clients that ask again because the answer was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) lease: LeaseId,
    pub(crate) file: FileId,
    pub(crate) slice: SliceId,
}

impl Leases {
    /// Whether another lease can be given.
    pub(crate) fn has_room(&self) -> bool {
        self.by_id.len() < LEASES_MAX
    }

    pub(crate) fn add(&mut self, lease: Lease) {
        self.by_path.insert(lease.header.path.clone(), lease.id);
        self.by_slice.insert(lease.header.slice, lease.id);
        self.by_end.insert((lease.ends, lease.id));
        self.by_id.insert(lease.id, lease);
    }

    pub(crate) fn remove(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.by_id.remove(&id)?;
        self.by_path.remove(&lease.header.path);
        self.by_slice.remove(&lease.header.slice);
        self.by_end.remove(&(lease.ends, id));
        Some(lease)
    }

    /// Lets a lease live until `ends`.
    pub(crate) fn renew(&mut self, id: LeaseId, ends: Duration) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            self.by_end.remove(&(lease.ends, id));
            lease.ends = ends;
            self.by_end.insert((ends, id));
        }
    }

    pub(crate) fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: LeaseId) -> Option<&mut Lease> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn of_path(&self, path: &SectorPath) -> Option<&Lease> {
        self.by_id.get(self.by_path.get(path)?)
    }

    /// The lease under which a slice is written.
    pub(crate) fn of_slice(&self, slice: SliceId) -> Option<LeaseId> {
        self.by_slice.get(&slice).copied()
    }

    /// When the next lease ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        self.by_end.first().map(|(end, _)| *end)
    }

    /// A lease that has ended by `now`.
    pub(crate) fn ended(&self, now: Duration) -> Option<LeaseId> {
        self.by_end.first().filter(|(end, _)| *end <= now).map(|(_, id)| *id)
    }

    /// The leases that have bytes at some node: those whose copies may have to be seen to.
    pub(crate) fn with_bytes(&self) -> Vec<LeaseId> {
        self.by_id.values().filter(|lease| !lease.stored.is_empty()).map(|lease| lease.id).collect()
    }

    /// Forgets what a node said that it stored: it came back, and says anew what it has.
    pub(crate) fn forget_node(&mut self, node: NodeKey) {
        for lease in self.by_id.values_mut() {
            lease.stored.remove(&node);
        }
    }

    pub(crate) fn remember_used(&mut self, used: Used) {
        if self.used.len() == USED_LEASES_MAX {
            self.used.pop_front();
        }
        self.used.push_back(used);
    }

    pub(crate) fn used(&self, id: LeaseId) -> Option<Used> {
        self.used.iter().rev().find(|used| used.lease == id).copied()
    }
}

/// Most leases at once, some 500 bytes each: far above what the nodes could take in parallel.
const LEASES_MAX: usize = 16_384;
/// Most used leases remembered: a client asks again within seconds, and a master publishes some hundreds a second.
const USED_LEASES_MAX: usize = 1_024;
