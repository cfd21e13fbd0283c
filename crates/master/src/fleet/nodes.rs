//! The nodes: their place, state and load. (Paper, 2.2: "the master also maintains the information about all slaves ...
//! and the system topology".) Serves placement, reading, replication, jobs. Every node that ever joined is known until
//! it is removed, also over restarts of the master ([`node_rows`]). So a missing node is noticed. It never decides who
//! may join.

mod keys;
mod node;
mod node_rows;
mod sites;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use protocol::{
    NodeId, Now, Reason, Refusal, SessionId, Topology,
    message::{client_master::NodeState, cluster::Membership},
};

use crate::actions::NodeJoin;
pub(crate) use keys::{EPOCHS, NodeKey, RackKey, SiteKey};
pub(crate) use node::Node;
pub(crate) use sites::Rack;
use sites::Sites;

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    list: Vec<Node>,
    by_id: BTreeMap<NodeId, NodeKey>,
    by_session: BTreeMap<SessionId, NodeKey>,
    /// Nodes that were removed while they were up, and may not join again by themselves.
    barred: BTreeSet<NodeId>,
    topology: Topology,
    sites: Sites,
    /// Pairs of sites whose link is marked as slow.
    slow_links: BTreeSet<(String, String)>,
}

impl Nodes {
    /// Lets a node in, for the first time or again. Returns its previous session, which is void now.
    pub(crate) fn join(
        &mut self,
        now: Now,
        session: SessionId,
        join: NodeJoin,
    ) -> Result<(NodeKey, Option<SessionId>), Refusal> {
        if self.barred.contains(&join.node) {
            let id = &join.node;
            let message = format!(
                "node {id} was removed from this cloud; stop it, or let it in again with `sector node remove {id} --undo`"
            );
            return Err(Refusal::new(Reason::NotPermitted, message));
        }
        let key = match self.by_id.get(&join.node) {
            Some(key) => *key,
            None => self.add(Node::new(join.node, join.place.clone(), join.transfer, join.address))?,
        };
        let node = self.get_mut(key);
        let old = node.session.replace(session);
        node.reported_place = join.place;
        node.address = join.transfer;
        node.ip = join.address;
        node.spe_slots = join.spe_slots;
        node.pid = join.pid;
        node.folder = join.folder;
        node.local = join.local;
        node.state = NodeState::Joining;
        node.has_joined = true;
        node.last_heartbeat = now.monotonic;
        (node.lost_at, node.is_dead) = (None, false);
        node.begin_epoch();
        node.inventory_open = true;
        (node.free_bytes, node.memory_free_bytes) = (None, None);
        node.reported_transfers = 0;
        (node.links, node.link_shares) = (Vec::new(), Vec::new());
        // It begins without; it is told again.
        node.slow_disks = Vec::new();
        if node.membership == Membership::Drained && node.slice_count > 0 {
            node.membership = Membership::Draining;
        }
        node.disks = Vec::new();
        node.is_reporting_writes = false;
        if let Some(old) = old {
            self.by_session.remove(&old);
        }
        self.by_session.insert(session, key);
        self.resolve_places();
        Ok((key, old))
    }

    /// Marks a node lost and returns the session that ended with it.
    pub(crate) fn mark_lost(&mut self, now: Now, key: NodeKey) -> Option<SessionId> {
        let node = self.get_mut(key);
        node.state = NodeState::Lost;
        node.lost_at = Some(now.monotonic);
        let session = node.session.take();
        if let Some(session) = session {
            self.by_session.remove(&session);
        }
        session
    }

    /// Marks a lost node dead: nothing is expected of it any more.
    pub(crate) fn mark_dead(&mut self, key: NodeKey) {
        self.get_mut(key).is_dead = true;
        self.resolve_places();
    }

    /// Makes a node stay or leave.
    pub(crate) fn set_membership(&mut self, key: NodeKey, standing: Membership) {
        self.get_mut(key).membership = standing;
        self.resolve_places();
    }

    /// Removes a node. Its number stays void, so that a remaining reference never means another node.
    pub(crate) fn remove(&mut self, key: NodeKey, bar: bool) {
        let node = &mut self.list[key.0 as usize];
        (node.removed, node.is_dead, node.state, node.session) = (true, true, NodeState::Lost, None);
        let id = node.id.clone();
        self.by_id.remove(&id);
        self.by_session.retain(|_, of| *of != key);
        if bar {
            self.barred.insert(id);
        }
        self.resolve_places();
    }

    /// Whether a node was removed and may not join.
    pub(crate) fn is_barred(&self, id: &NodeId) -> bool {
        self.barred.contains(id)
    }

    /// Lets a removed node join again; returns whether it was barred.
    pub(crate) fn unbar(&mut self, id: &NodeId) -> bool {
        self.barred.remove(id)
    }

    /// Takes a topology into use; returns whether it moves any node.
    pub(crate) fn set_topology(&mut self, topology: Topology) -> bool {
        self.topology = topology;
        self.resolve_places()
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// From now on the links between these sites are slow, and no others.
    pub(crate) fn set_slow_links(&mut self, pairs: impl IntoIterator<Item = (String, String)>) {
        self.slow_links = pairs.into_iter().flat_map(|(a, b)| [(a.clone(), b.clone()), (b, a)]).collect();
    }

    /// Whether the link between two sites is marked as slow.
    pub(crate) fn is_slow_link(&self, a: SiteKey, b: SiteKey) -> bool {
        let named = || (self.sites.name(a).to_owned(), self.sites.name(b).to_owned());
        !self.slow_links.is_empty() && self.slow_links.contains(&named())
    }

    /// Whether a node stands at a site.
    pub(crate) fn has_site(&self, name: &str) -> bool {
        self.iter().any(|(_, node)| node.place.site == name)
    }

    /// Which sites and racks there are, and how many nodes in each.
    pub(crate) fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Whether files on unaffected nodes may have to be checked too, since this was last asked.
    pub(crate) fn take_racks_changed(&mut self) -> bool {
        self.sites.take_changed()
    }

    /// Compares the recent speed of nodes. A node never counts as more than four times as fast or slow as the others:
    /// the link may have been the limit.
    pub(crate) fn compare_speeds(&mut self) {
        let measured = || self.list.iter().map(|node| node.rate_bytes_per_second).filter(|rate| *rate > 0.0);
        let count = measured().count();
        if count == 0 {
            return;
        }
        let average = measured().sum::<f64>() / count as f64;
        for node in &mut self.list {
            let rate = node.rate_bytes_per_second;
            node.speed = if rate > 0.0 { (rate / average).clamp(0.25, 4.0) } else { 1.0 };
        }
    }

    /// Excludes the last `span` from the silence of nodes.
    pub(crate) fn discount_pause(&mut self, now: Now, span: Duration) {
        for node in &mut self.list {
            node.last_heartbeat = now.monotonic.min(node.last_heartbeat + span);
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
        (0..).map(NodeKey).zip(&self.list).filter(|(_, node)| !node.removed)
    }

    /// All nodes by name.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = (NodeKey, &Node)> {
        self.by_id.values().map(|key| (*key, self.get(*key)))
    }

    /// How many can be given work.
    pub(crate) fn up_count(&self) -> usize {
        self.iter().filter(|(_, node)| node.is_up()).count()
    }

    /// How many are up and may get new slices, outside these sites; counted up to `enough`.
    pub(crate) fn writable_count(&self, forbidden: &[SiteKey], enough: usize) -> usize {
        let takes = |node: &Node| node.is_up() && node.is_active() && !forbidden.contains(&node.site);
        self.iter().filter(|(_, node)| takes(node)).take(enough).count()
    }

    fn add(&mut self, node: Node) -> Result<NodeKey, Refusal> {
        if self.by_id.len() >= NODES_MAX as usize {
            return Err(Refusal::new(
                Reason::Unavailable,
                format!("{} cannot join: this master has {NODES_MAX} nodes already; remove lost ones", node.id),
            ));
        }
        let key = NodeKey(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.by_id.insert(node.id.clone(), key);
        self.list.push(node);
        Ok(key)
    }

    /// Finds each node's place, and counts them; returns whether any place changed.
    fn resolve_places(&mut self) -> bool {
        let mut moved = false;
        for node in self.list.iter_mut().filter(|node| !node.removed) {
            let place = self.topology.place_of(&node.id, node.ip, &node.reported_place);
            moved |= place != node.place;
            (node.site, node.rack) = self.sites.keys(&place);
            node.place = place;
        }
        let nodes = (0..).map(NodeKey).zip(&self.list).filter(|(_, node)| !node.removed);
        self.sites.count(nodes);
        moved
    }
}

/// Most nodes of one master. Each is checked on every tick. At the start of a job each is named with its ticket in one
/// message (about 300 bytes each, within the limit of a message).
pub(crate) const NODES_MAX: u32 = 2_048;
