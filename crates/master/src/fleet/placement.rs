//! Where a new file or a further copy goes. (Paper, 2.2: "the new location of the file copy is based on the topology of
//! the slaves' network".) Serves upload and replication. The spread over sites and racks comes first, then recent
//! failures of a node, then its cost. The cost is load for its speed and fullness for its size
//! ([`Node::cost`](crate::fleet::nodes::Node::cost)). It only chooses and never starts anything.

use fastrand::Rng;
use protocol::{
    UserName,
    topology::{Distance, PartialPlace},
};

use crate::{
    fleet::copy_bandwidth::CopyBandwidth,
    fleet::nodes::{NodeKey, Nodes, Rack},
    fleet::placement_constraints::{PlacementConstraints, PlacementCost},
    replicas::replica_table::Replica,
};

/// The needs of a slice or copy for which a place is sought.
pub(crate) struct PlacementRequest<'a> {
    /// Bytes that will come; 0 if unknown.
    pub(crate) bytes: u64,
    /// The user it is for. If other users' promises take all the room, a fair part may remain. `None`: a copy that the
    /// cloud makes.
    pub(crate) user: Option<&'a UserName>,
    /// Bytes to leave free.
    pub(crate) reserve_bytes: u64,
    /// Where copies may stand.
    pub(crate) constraints: &'a PlacementConstraints,
    /// Nodes that hold a copy or soon will: the new one goes as far from them as possible.
    pub(crate) holders: &'a [NodeKey],
    /// Further nodes that cannot take it.
    pub(crate) ineligible: &'a [NodeKey],
    /// Nodes used only if there is no other: the last try there failed.
    pub(crate) avoided: &'a [NodeKey],
    /// The node that has a part of it already. It is taken if its place is as good as any.
    pub(crate) preferred: Option<NodeKey>,
    /// Most incoming work at the node at once.
    pub(crate) incoming_max: u32,
    /// Whether to wait for a busy node rather than take a worse place.
    pub(crate) may_wait: bool,
}

/// The result of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacementChoice {
    /// This node.
    Node(NodeKey),
    /// Suitable nodes exist, but all are busy now.
    Busy,
    /// No node has room, or every one has a copy already.
    NoNode,
}

/// Chooses a node that is up, stays and has room.
///
/// Among many equally good places a few are drawn at random and the cheapest of them is taken. That costs little and
/// fills nodes nearly as evenly as examining all.
pub(crate) fn choose_node(nodes: &Nodes, wanted: &PlacementRequest<'_>, rng: &mut Rng) -> PlacementChoice {
    match choose_with(nodes, wanted, false, rng) {
        // Nobody knows whether the bytes promised to others will ever come.
        PlacementChoice::NoNode => choose_with(nodes, wanted, true, rng),
        choice => choice,
    }
}

/// The same. `fair`: other users' promises count only up to their fair part.
fn choose_with(nodes: &Nodes, wanted: &PlacementRequest<'_>, fair: bool, rng: &mut Rng) -> PlacementChoice {
    let mut busy = false;
    for shunned in [false, true] {
        if shunned && wanted.avoided.is_empty() {
            break;
        }
        for places in classes(nodes, wanted) {
            match pick(nodes, wanted, &places, (shunned, fair), rng) {
                PlacementChoice::NoNode => {}
                PlacementChoice::Busy => {
                    busy = true;
                    if wanted.may_wait {
                        return PlacementChoice::Busy;
                    }
                }
                node @ PlacementChoice::Node(_) => return node,
            }
        }
    }
    if busy { PlacementChoice::Busy } else { PlacementChoice::NoNode }
}

/// Nodes in groups whose places are equally good, best first. Forbidden places are in none.
fn classes<'a>(nodes: &'a Nodes, wanted: &'a PlacementRequest<'_>) -> Vec<Places<'a>> {
    if let Some(only) = &wanted.constraints.allowed_nodes {
        return vec![Places::Nodes(only)];
    }
    if wanted.constraints.is_unconstrained() && wanted.holders.is_empty() {
        return vec![Places::Nodes(nodes.sites().active())];
    }
    let cost = |rack: &Rack| wanted.constraints.cost_of_adding(nodes, wanted.holders, rack.site, rack.key);
    let racks = nodes.sites().racks().iter().filter(|rack| !rack.active.is_empty());
    let mut ranked: Vec<(PlacementCost, &Rack)> =
        racks.map(|rack| (cost(rack), rack)).filter(|(cost, _)| cost.unfit == 0).collect();
    ranked.sort_by_key(|(cost, _)| *cost);
    let equal = ranked.chunk_by(|a, b| a.0 == b.0);
    equal.map(|group| Places::Racks(group.iter().map(|(_, rack)| *rack).collect())).collect()
}

/// The cheapest of a few drawn at random. All are examined if there are few, or if those drawn are unsuitable.
fn pick(
    nodes: &Nodes,
    wanted: &PlacementRequest<'_>,
    places: &Places<'_>,
    how: (bool, bool),
    rng: &mut Rng,
) -> PlacementChoice {
    let mut best = Best::default();
    let count = places.len();
    if let Some(preferred) = wanted.preferred
        && (0..count).any(|index| places.at(index) == preferred)
    {
        best.consider(nodes, wanted, preferred, how, rng);
        if let Some((_, _, key)) = best.node {
            return PlacementChoice::Node(key);
        }
    }
    if count > SCANNED_MAX {
        for _ in 0..DRAWN {
            best.consider(nodes, wanted, places.at(rng.usize(..count)), how, rng);
        }
    }
    if best.node.is_none() {
        (0..count).for_each(|index| best.consider(nodes, wanted, places.at(index), how, rng));
    }
    match best.node {
        Some((_, _, key)) => PlacementChoice::Node(key),
        None if best.busy => PlacementChoice::Busy,
        None => PlacementChoice::NoNode,
    }
}

/// Nodes to choose from.
enum Places<'a> {
    Nodes(&'a [NodeKey]),
    Racks(Vec<&'a Rack>),
}

impl Places<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Nodes(nodes) => nodes.len(),
            Self::Racks(racks) => racks.iter().map(|rack| rack.active.len()).sum(),
        }
    }

    fn at(&self, mut index: usize) -> NodeKey {
        match self {
            Self::Nodes(nodes) => nodes[index],
            Self::Racks(racks) => {
                for rack in racks {
                    match rack.active.get(index) {
                        Some(key) => return *key,
                        None => index -= rack.active.len(),
                    }
                }
                // `index` is below `len`, the sum of all racks; so this is not reached.
                NodeKey::FIRST
            }
        }
    }
}

/// The cheapest node so far; ties are broken at random.
#[derive(Default)]
struct Best {
    node: Option<(f64, u32, NodeKey)>,
    busy: bool,
}

impl Best {
    fn consider(
        &mut self,
        nodes: &Nodes,
        wanted: &PlacementRequest<'_>,
        key: NodeKey,
        (shunned, fair): (bool, bool),
        rng: &mut Rng,
    ) {
        let node = nodes.get(key);
        let (bytes, reserve, in_memory) = (wanted.bytes, wanted.reserve_bytes, wanted.constraints.is_in_memory);
        let room = if fair {
            node.has_fair_room(wanted.user, bytes, reserve, in_memory)
        } else {
            node.has_room(bytes, reserve, in_memory)
        };
        let is_closed = wanted.holders.contains(&key) || wanted.ineligible.contains(&key);
        if !node.is_up() || !node.is_active() || !room || is_closed || wanted.avoided.contains(&key) != shunned {
            return;
        }
        if node.incoming >= wanted.incoming_max {
            self.busy = true;
            return;
        }
        let is_behind_slow_link =
            || wanted.holders.iter().any(|holder| nodes.is_slow_link(nodes.get(*holder).site, node.site));
        let link_times = if is_behind_slow_link() { SLOW_LINK_TIMES } else { 1.0 };
        let (cost, lot) = (node.cost() * link_times, rng.u32(..));
        let is_better =
            |(least, least_lot, _): &(f64, u32, NodeKey)| cost.total_cmp(least).then(lot.cmp(least_lot)).is_lt();
        if self.node.as_ref().is_none_or(is_better) {
            self.node = Some((cost, lot, key));
        }
    }
}

/// A place to fetch a copy from, if there is one now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopySource {
    /// This node.
    Node(NodeKey),
    /// Suitable nodes exist, but all are busy now.
    Busy,
    /// Suitable nodes exist, but their links have no room now.
    LinkFull,
    /// No reachable node has a good copy.
    NoNode,
}

/// Chooses where a copy is fetched from: a good replica at a reachable node, nearest to `target`, then least busy. Within
/// the target's site, and beyond it, what is marked as slow comes last. A
/// node that is busy, or whose link to `target` is full, is skipped unless the copy is `urgent`.
pub(crate) fn choose_copy_source(
    nodes: &Nodes,
    links: &CopyBandwidth,
    replicas: &[Replica],
    target: NodeKey,
    shunned: &[NodeKey],
    outgoing_max: Option<u32>,
    rng: &mut Rng,
) -> CopySource {
    let to = nodes.get(target);
    let from = PartialPlace::from(to.place.clone());
    let (mut busy, mut link_full) = (false, false);
    let mut best = None;
    for replica in replicas.iter().filter(|replica| replica.is_good() && replica.node != target) {
        let node = nodes.get(replica.node);
        if !node.is_reachable() {
            continue;
        }
        if let Some(max) = outgoing_max {
            let (is_busy, is_full) = (node.outgoing >= max, !links.has_room(nodes, node.site, to.site));
            busy |= is_busy && !is_full;
            link_full |= is_full;
            if is_busy || is_full {
                continue;
            }
        }
        let far = nodes.topology().network_distance(&from, &node.place);
        let is_slow = node.is_mostly_slow() || nodes.is_slow_link(node.site, to.site);
        let is_abroad = far.distance == Distance::OtherSite;
        let rank = (shunned.contains(&replica.node), is_abroad, is_slow, far, node.load(), rng.u32(..));
        if best.as_ref().is_none_or(|(least, _)| rank < *least) {
            best = Some((rank, replica.node));
        }
    }
    match best {
        Some((_, key)) => CopySource::Node(key),
        None if busy => CopySource::Busy,
        None if link_full => CopySource::LinkFull,
        None => CopySource::NoNode,
    }
}

/// How many times as much a place costs to which a copy would have to come over a slow link.
const SLOW_LINK_TIMES: f64 = 4.0;
/// Up to this many nodes are all examined.
const SCANNED_MAX: usize = 32;
/// With more, this many are drawn: the cheapest of sixteen is among the cheapest tenth five times out of six.
const DRAWN: usize = 16;
