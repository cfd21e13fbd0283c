//! Write leases: one writer per path, for a limited time. Serves upload. Never publishes anything: `lease_completion`
//! does.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    time::Duration,
};

use protocol::{
    Digest, FileId, JobId, LeaseId, Now, ResumeKey, SectorPath, SliceHeader, SliceId, UserName, Version,
    message::{client_master::Condition, master_security::UserRights},
};

use crate::{
    access::per_user::PerUser,
    actions::SessionCaller,
    catalog::quota_table::{OpenWrites, StorageUsage},
    fleet::nodes::NodeKey,
};

/// The right to write one path, and the progress of the write.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) id: LeaseId,
    pub(crate) by: UserRights,
    /// The job whose driver writes, if its session is a driver's.
    pub(crate) drives: Option<JobId>,
    pub(crate) header: SliceHeader,
    pub(crate) condition: Condition,
    pub(crate) parents: bool,
    /// Copies that must be synced before the commit is answered, as requested.
    pub(crate) sync_copies: usize,
    /// The node that the client writes to.
    pub(crate) target: NodeKey,
    /// The nodes that have not received all bytes: the target, and those after it in the chain.
    pub(crate) awaited: BTreeSet<NodeKey>,
    /// Bytes reserved on the disk of each of these.
    pub(crate) bytes_promised: u64,
    /// Bytes it begins with, from the file that is appended to. A node does not report them.
    pub(crate) base_bytes: u64,
    /// Bytes received at each node, as last reported.
    pub(crate) received_bytes: BTreeMap<NodeKey, u64>,
    /// What the file's owner, and its folders, will have in addition. It counts against quotas as long as the lease
    /// lives.
    pub(crate) added_usage: StorageUsage,
    /// When its received bytes last grew, at any node, on the monotonic clock.
    pub(crate) last_progress: Duration,
    /// When the awaited nodes count as failed; set once one node has all bytes.
    pub(crate) chain_deadline: Option<Duration>,
    /// Nodes that the chain did not reach: copies are made elsewhere if possible.
    pub(crate) failed: Vec<NodeKey>,
    /// The key under which a later attempt may replace this one.
    pub(crate) resume: Option<ResumeKey>,
    /// When it ends, on the monotonic clock.
    pub(crate) expires_at: Duration,
    /// What nodes reported as synced.
    pub(crate) stored: BTreeMap<NodeKey, SyncedCopy>,
    /// The client's commit request, once it came.
    pub(crate) commit: Option<PendingCommit>,
    /// Whether a newer version was published meanwhile, at any path: the journal has a row of it.
    pub(crate) is_overtaken: bool,
}

impl Lease {
    /// The seconds that it lasts unless it is renewed, rounded up.
    pub(crate) fn seconds_left(&self, now: Now) -> u32 {
        let left = self.expires_at.saturating_sub(now.monotonic);
        u32::try_from(left.as_secs() + u64::from(left.subsec_nanos() > 0)).unwrap_or(u32::MAX)
    }
}

/// A node's report of a synced copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncedCopy {
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
}

/// A commit that waits for copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingCommit {
    pub(crate) caller: SessionCaller,
    pub(crate) written: SyncedCopy,
}

/// All open leases, and the last ones that were published.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_id: BTreeMap<LeaseId, Lease>,
    by_path: BTreeMap<SectorPath, LeaseId>,
    by_slice: BTreeMap<SliceId, LeaseId>,
    by_end: BTreeSet<(Duration, LeaseId)>,
    by_chain_end: BTreeSet<(Duration, LeaseId)>,
    /// Those that no newer version has overtaken.
    by_version: BTreeSet<(Version, LeaseId)>,
    /// How many each user has.
    per_user: PerUser,
    /// Usage that open writes will add to each owner's files,
    promised: BTreeMap<UserName, StorageUsage>,
    /// and below each folder on their paths: nodes report progress every second, and each report needs these sums.
    promised_below: BTreeMap<SectorPath, StorageUsage>,
    used: VecDeque<PublishedLease>,
    used_per_user: PerUser,
}

/// A published lease, kept for clients that ask again because the answer was lost.
#[derive(Clone, Debug)]
pub(crate) struct PublishedLease {
    pub(crate) by: UserName,
    pub(crate) lease: LeaseId,
    pub(crate) file: FileId,
    pub(crate) slice: SliceId,
}

impl OpenWrites for Leases {
    fn promised(&self, user: &UserName) -> StorageUsage {
        self.promised.get(user).copied().unwrap_or_default()
    }

    fn promised_below(&self, folder: &SectorPath) -> StorageUsage {
        self.promised_below.get(folder).copied().unwrap_or_default()
    }

    fn written_by(&self, user: &UserName) -> Self {
        let mut of_user = Self::default();
        for lease in self.by_id.values().filter(|lease| lease.by.user == *user) {
            of_user.promise(lease.header.owner.clone(), &lease.header.path, lease.added_usage);
        }
        of_user
    }
}

impl Leases {
    /// Whether a user can be given another lease.
    pub(crate) fn has_room(&self, user: &UserName) -> bool {
        self.per_user.may_add(user, 1, LEASES_MAX)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// How many leases a user has.
    pub(crate) fn held_by(&self, user: &UserName) -> u64 {
        self.per_user.has(user)
    }

    /// More bytes came under a lease than were promised.
    pub(crate) fn promise_more(&mut self, id: LeaseId, bytes: u64) {
        let Some(lease) = self.by_id.get_mut(&id) else { return };
        lease.added_usage.bytes = lease.added_usage.bytes.saturating_add(bytes);
        let (owner, path) = (lease.header.owner.clone(), lease.header.path.clone());
        self.promise(owner, &path, StorageUsage { bytes, files: 0 });
    }

    fn promise(&mut self, owner: UserName, path: &SectorPath, more: StorageUsage) {
        self.promised.entry(owner).or_default().add(more);
        for folder in folders_of(path) {
            self.promised_below.entry(folder).or_default().add(more);
        }
    }

    fn take_promised(&mut self, owner: &UserName, path: &SectorPath, more: StorageUsage) {
        take_of(&mut self.promised, owner, more);
        for folder in folders_of(path) {
            take_of(&mut self.promised_below, &folder, more);
        }
    }

    pub(crate) fn add(&mut self, lease: Lease) {
        self.per_user.add(&lease.by.user, 1);
        self.promise(lease.header.owner.clone(), &lease.header.path, lease.added_usage);
        self.by_path.insert(lease.header.path.clone(), lease.id);
        self.by_slice.insert(lease.header.slice, lease.id);
        self.by_end.insert((lease.expires_at, lease.id));
        self.by_version.insert((lease.header.version, lease.id));
        self.by_id.insert(lease.id, lease);
    }

    pub(crate) fn remove(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.by_id.remove(&id)?;
        self.per_user.take(&lease.by.user, 1);
        self.take_promised(&lease.header.owner, &lease.header.path, lease.added_usage);
        self.by_path.remove(&lease.header.path);
        self.by_slice.remove(&lease.header.slice);
        self.by_end.remove(&(lease.expires_at, id));
        self.by_version.remove(&(lease.header.version, id));
        if let Some(at) = lease.chain_deadline {
            self.by_chain_end.remove(&(at, id));
        }
        Some(lease)
    }

    /// A version is published: returns the slices of older versions that are still being written and were not overtaken
    /// before.
    pub(crate) fn overtake(&mut self, version: Version) -> Vec<SliceId> {
        let younger = self.by_version.split_off(&(version, LeaseId(0)));
        let overtaken = std::mem::replace(&mut self.by_version, younger);
        let mut slices = Vec::new();
        for (_, id) in overtaken {
            if let Some(lease) = self.by_id.get_mut(&id) {
                lease.is_overtaken = true;
                slices.push(lease.header.slice);
            }
        }
        slices
    }

    /// Extends a lease until `ends`.
    pub(crate) fn renew(&mut self, id: LeaseId, ends: Duration) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            self.by_end.remove(&(lease.expires_at, id));
            lease.expires_at = ends;
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

    /// All leases after a path, by path.
    pub(crate) fn after(&self, path: Option<&SectorPath>) -> impl Iterator<Item = &Lease> {
        let from = path.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_path.range::<SectorPath, _>((from, Bound::Unbounded)).filter_map(|(_, id)| self.by_id.get(id))
    }

    /// The lease under which a slice is written.
    pub(crate) fn of_slice(&self, slice: SliceId) -> Option<LeaseId> {
        self.by_slice.get(&slice).copied()
    }

    /// When the next lease ends.
    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        self.by_end.first().map(|(end, _)| *end)
    }

    /// A lease that has ended by `now`.
    pub(crate) fn next_expired(&self, now: Duration) -> Option<LeaseId> {
        self.by_end.first().filter(|(end, _)| *end <= now).map(|(_, id)| *id)
    }

    /// Gives the awaited nodes time until `at`, unless a deadline was set before.
    pub(crate) fn set_chain_deadline(&mut self, id: LeaseId, at: Duration) {
        if let Some(lease) = self.by_id.get_mut(&id)
            && lease.chain_deadline.is_none()
        {
            lease.chain_deadline = Some(at);
            self.by_chain_end.insert((at, id));
        }
    }

    /// A lease whose chain deadline has passed by `now`; returned once.
    pub(crate) fn next_expired_chain(&mut self, now: Duration) -> Option<LeaseId> {
        let (at, id) = *self.by_chain_end.first()?;
        if at > now {
            return None;
        }
        self.by_chain_end.pop_first();
        Some(id)
    }

    /// The leases whose bytes are being sent to a node.
    pub(crate) fn awaiting(&self, node: NodeKey) -> Vec<LeaseId> {
        self.by_id.values().filter(|lease| lease.awaited.contains(&node)).map(|lease| lease.id).collect()
    }

    /// The leases under which drivers of a job write.
    pub(crate) fn driving(&self, job: JobId) -> Vec<LeaseId> {
        self.by_id.values().filter(|lease| lease.drives == Some(job)).map(|lease| lease.id).collect()
    }

    /// The leases that have bytes at some node: their copies may need attention.
    pub(crate) fn with_bytes(&self) -> Vec<LeaseId> {
        self.by_id.values().filter(|lease| !lease.stored.is_empty()).map(|lease| lease.id).collect()
    }

    /// Forgets what a node reported as stored: it came back, and reports anew what it has.
    pub(crate) fn forget_node(&mut self, node: NodeKey) {
        for lease in self.by_id.values_mut() {
            lease.stored.remove(&node);
        }
    }

    pub(crate) fn remember_published(&mut self, used: PublishedLease) {
        if self.used.len() == USED_LEASES_MAX {
            let greediest = self.used_per_user.greediest().cloned();
            let oldest = self.used.iter().position(|used| Some(&used.by) == greediest.as_ref());
            if let Some(used) = oldest.and_then(|at| self.used.remove(at)) {
                self.used_per_user.take(&used.by, 1);
            }
        }
        self.used_per_user.add(&used.by, 1);
        self.used.push_back(used);
    }

    pub(crate) fn published(&self, id: LeaseId) -> Option<&PublishedLease> {
        self.used.iter().rev().find(|used| used.lease == id)
    }
}

/// The folders on a path, and the path itself: a file's path may become a folder's while it is written.
fn folders_of(path: &SectorPath) -> impl Iterator<Item = SectorPath> + use<> {
    std::iter::successors(Some(path.clone()), SectorPath::parent)
}

/// Subtracts `usage` from the entry of `key`; an entry that reaches zero is forgotten.
fn take_of<K: Ord>(all: &mut BTreeMap<K, StorageUsage>, key: &K, usage: StorageUsage) {
    if let Some(has) = all.get_mut(key) {
        has.take(usage);
        if *has == StorageUsage::default() {
            all.remove(key);
        }
    }
}

/// Most leases at once, some 500 bytes each. That is far more than the nodes could take in parallel, and so is the half
/// that one user alone may have.
const LEASES_MAX: u64 = 16_384;
/// A lease that receives nothing ends although it is renewed. A node lets an uploader pause for 15 minutes, since the
/// source may be a pipe. After these 20 minutes, no writer is left.
pub(crate) const LEASE_STALL_MAX: Duration = Duration::from_secs(20 * 60);
/// Most published leases remembered. A client asks again within seconds, and a master publishes some hundreds a second.
const USED_LEASES_MAX: usize = 1_024;
