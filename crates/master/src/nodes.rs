//! The nodes: where they stand, how they are, how busy (paper, 2.2: "the master also maintains the information about
//! all slaves ... and the system topology"). Serves placement, reading, replication, jobs. Never decides who may join.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use protocol::{
    NodeId, Now, Place, Refusal, SessionId, SliceId, Status,
    disk::{DiskState, DiskStatus},
    message::client_master::{NodeState, NodeStatus},
};

use crate::actions::NodeJoin;

/// A node's number in this master's life: shorter than its name where millions of replicas name their node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeKey(u32);

impl NodeKey {
    /// The least key.
    pub(crate) const FIRST: Self = Self(0);

    /// The number itself.
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// A node that joined at least once in this master's life.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) place: Place,
    /// Its transfer address.
    pub(crate) address: SocketAddr,
    /// The address it joined from.
    pub(crate) ip: IpAddr,
    pub(crate) spe_slots: u32,
    pid: u32,
    folder: String,
    /// Its session while it is not lost.
    pub(crate) session: Option<SessionId>,
    pub(crate) state: NodeState,
    pub(crate) last_heard: Duration,
    /// Since when it is lost.
    pub(crate) lost_at: Option<Duration>,
    /// Lost for so long that its copies are made anew elsewhere.
    pub(crate) gone: bool,
    /// Counts its inventories: a replica not named in the newest complete one is not there any more.
    pub(crate) epoch: u32,
    /// Whether pages of an inventory are still to come.
    pub(crate) inventory_open: bool,
    /// The slices that the replica map names this node for.
    pub(crate) held: BTreeSet<SliceId>,
    used_bytes: u64,
    /// `None` until it first reported.
    free_bytes: Option<u64>,
    reported_transfers: u32,
    /// Its disks, as it last reported them.
    pub(crate) disks: Vec<DiskStatus>,
    /// Bytes that leases and copies under way will still bring.
    pub(crate) promised_bytes: u64,
    /// Leases whose bytes it takes, and copies it makes.
    pub(crate) incoming: u32,
    /// Copies that others fetch from it.
    pub(crate) outgoing: u32,
}

impl Node {
    /// Whether it can be given work.
    pub(crate) fn is_up(&self) -> bool {
        self.state == NodeState::Up
    }

    /// Whether its replicas can be read now.
    pub(crate) fn is_reachable(&self) -> bool {
        self.state != NodeState::Lost
    }

    /// Bytes that one more slice may have here, as far as is known: a slice lies on one disk, whole.
    pub(crate) fn room_bytes(&self) -> u64 {
        let largest = self.disks.iter().map(|disk| disk.free_bytes).max().unwrap_or(u64::MAX);
        self.free_bytes.unwrap_or(u64::MAX).saturating_sub(self.promised_bytes).min(largest)
    }

    /// How busy it is: what it reported, or what we know it must be doing.
    pub(crate) fn load(&self) -> u32 {
        self.reported_transfers.max(self.incoming + self.outgoing)
    }

    /// Bytes its slices take and will take.
    pub(crate) fn filled_bytes(&self) -> u64 {
        self.used_bytes.saturating_add(self.promised_bytes)
    }

    /// Takes a status report.
    pub(crate) fn note_status(&mut self, used_bytes: u64, free_bytes: u64, transfers: u32) {
        (self.used_bytes, self.free_bytes, self.reported_transfers) = (used_bytes, Some(free_bytes), transfers);
    }

    /// Takes how its disks are, and gives those that are newly out of service.
    pub(crate) fn note_disks(&mut self, disks: Vec<DiskStatus>) -> Vec<DiskStatus> {
        let was_bad = |disk: &DiskStatus| {
            self.disks.iter().any(|known| known.folder == disk.folder && known.state != DiskState::Ok)
        };
        let is_new = |disk: &&DiskStatus| disk.state != DiskState::Ok && !was_bad(disk);
        let failed = disks.iter().filter(is_new).cloned().collect();
        self.disks = disks;
        failed
    }

    /// A slice came to lie here. Counted at once, since the next status may be seconds away and many small files
    /// would all go to the node that was emptiest then.
    pub(crate) fn note_stored(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        self.free_bytes = self.free_bytes.map(|free| free.saturating_sub(bytes));
    }

    pub(crate) fn begin_incoming(&mut self, bytes: u64) {
        self.incoming += 1;
        self.promised_bytes = self.promised_bytes.saturating_add(bytes);
    }

    pub(crate) fn end_incoming(&mut self, bytes: u64) {
        self.incoming = self.incoming.saturating_sub(1);
        self.promised_bytes = self.promised_bytes.saturating_sub(bytes);
    }

    pub(crate) fn status(&self) -> NodeStatus {
        NodeStatus {
            node: self.id.clone(),
            place: self.place.clone(),
            address: self.address,
            state: self.state,
            used_bytes: self.used_bytes,
            free_bytes: self.free_bytes.unwrap_or(0),
            pid: self.pid,
            folder: self.folder.clone(),
            disks: self.disks.clone(),
        }
    }
}

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    list: Vec<Node>,
    by_id: BTreeMap<NodeId, NodeKey>,
    by_session: BTreeMap<SessionId, NodeKey>,
}

impl Nodes {
    /// Lets a node in, for the first time or again; gives the session that it had before, which is void now.
    pub(crate) fn join(
        &mut self,
        now: Now,
        session: SessionId,
        join: NodeJoin,
    ) -> Result<(NodeKey, Option<SessionId>), Refusal> {
        let key = match self.by_id.get(&join.node) {
            Some(key) => *key,
            None => self.add(&join)?,
        };
        let node = self.get_mut(key);
        let old = node.session.replace(session);
        node.place = join.place;
        node.address = join.transfer;
        node.ip = join.address;
        node.spe_slots = join.spe_slots;
        node.pid = join.pid;
        node.folder = join.folder;
        node.state = NodeState::Joining;
        node.last_heard = now.monotonic;
        (node.lost_at, node.gone) = (None, false);
        node.epoch += 1;
        node.inventory_open = true;
        node.free_bytes = None;
        node.reported_transfers = 0;
        node.disks = Vec::new();
        if let Some(old) = old {
            self.by_session.remove(&old);
        }
        self.by_session.insert(session, key);
        Ok((key, old))
    }

    /// Marks a node lost and gives the session that ended with it.
    pub(crate) fn lose(&mut self, now: Now, key: NodeKey) -> Option<SessionId> {
        let node = self.get_mut(key);
        node.state = NodeState::Lost;
        node.lost_at = Some(now.monotonic);
        let session = node.session.take();
        if let Some(session) = session {
            self.by_session.remove(&session);
        }
        session
    }

    /// Does not count the last `span` as silence.
    pub(crate) fn excuse(&mut self, now: Now, span: Duration) {
        for node in &mut self.list {
            node.last_heard = now.monotonic.min(node.last_heard + span);
        }
    }

    pub(crate) fn of_session(&self, session: SessionId) -> Option<NodeKey> {
        self.by_session.get(&session).copied()
    }

    pub(crate) fn of_id(&self, id: &NodeId) -> Option<NodeKey> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn get(&self, key: NodeKey) -> &Node {
        // Keys are made only by `add`, and nodes are never taken out of the list.
        &self.list[key.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, key: NodeKey) -> &mut Node {
        &mut self.list[key.0 as usize]
    }

    /// All nodes, in the order in which they first joined.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        (0..).map(NodeKey).zip(&self.list)
    }

    /// All nodes by name.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.by_id.values().map(|key| (*key, self.get(*key)))
    }

    /// How many can be given work.
    pub(crate) fn up_count(&self) -> usize {
        self.list.iter().filter(|node| node.is_up()).count()
    }

    fn add(&mut self, join: &NodeJoin) -> Result<NodeKey, Refusal> {
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        if number >= NODES_MAX {
            return Err(Refusal::new(
                Status::Unavailable,
                format!("{} cannot join: this master has {NODES_MAX} nodes already", join.node),
            ));
        }
        let key = NodeKey(number);
        self.by_id.insert(join.node.clone(), key);
        self.list.push(Node {
            id: join.node.clone(),
            place: join.place.clone(),
            address: join.transfer,
            ip: join.address,
            spe_slots: join.spe_slots,
            pid: join.pid,
            folder: join.folder.clone(),
            session: None,
            state: NodeState::Joining,
            last_heard: Duration::ZERO,
            lost_at: None,
            gone: false,
            epoch: 0,
            inventory_open: true,
            held: BTreeSet::new(),
            used_bytes: 0,
            free_bytes: None,
            reported_transfers: 0,
            disks: Vec::new(),
            promised_bytes: 0,
            incoming: 0,
            outgoing: 0,
        });
        Ok(key)
    }
}

/// Most nodes one master takes: each is looked at on every tick, and named with its ticket in one message at the start
/// of a job (about 300 bytes each, within the limit of a message).
const NODES_MAX: u32 = 2_048;
