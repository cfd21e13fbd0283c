//! Where a new file or a further copy goes (paper, 2.2: "the new location of the file copy is based on the topology of
//! the slaves' network"). Serves upload and replication. Never starts anything: it only chooses.

use std::cmp::Reverse;

use fastrand::Rng;
use protocol::{SliceId, topology::Distance};

use crate::{
    nodes::{Node, NodeKey, Nodes},
    replicas::Replica,
};

/// What a place is sought for.
pub(crate) struct Wanted<'a> {
    /// Bytes that will come; 0 where nobody knows.
    pub(crate) bytes: u64,
    /// Bytes to leave free.
    pub(crate) reserve_bytes: u64,
    /// Nodes that hold a copy or soon will: the new one goes as far from them as can be.
    pub(crate) spread_from: &'a [NodeKey],
    /// Nodes that are taken only when there is no other: the last try there failed.
    pub(crate) shunned: &'a [NodeKey],
    /// Most work coming in at once at the node.
    pub(crate) incoming_max: u32,
}

/// What came of seeking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This node.
    Node(NodeKey),
    /// Nodes would do, but have enough to do now.
    Busy,
    /// No node has room, or every one has a copy already.
    Nowhere,
}

/// Chooses a node that is up and has room: another site before another rack before another node of the same rack, then
/// the least busy, then the emptiest; ties by lot.
pub(crate) fn choose(nodes: &Nodes, wanted: &Wanted<'_>, rng: &mut Rng) -> Choice {
    let mut best: Option<(Rank, NodeKey)> = None;
    let mut busy = false;
    for (key, node) in nodes.iter() {
        let room = node.room_bytes() >= wanted.bytes.saturating_add(wanted.reserve_bytes);
        if !node.is_up() || !room || wanted.spread_from.contains(&key) {
            continue;
        }
        if node.incoming >= wanted.incoming_max {
            busy = true;
            continue;
        }
        let rank = Rank {
            shunned: wanted.shunned.contains(&key),
            nearness: Reverse(nearest(nodes, node, wanted.spread_from)),
            load: node.load(),
            filled_bytes: node.filled_bytes(),
            lot: rng.u32(..),
        };
        if best.as_ref().is_none_or(|(least, _)| rank < *least) {
            best = Some((rank, key));
        }
    }
    match best {
        Some((_, key)) => Choice::Node(key),
        None if busy => Choice::Busy,
        None => Choice::Nowhere,
    }
}

/// Chooses where a copy is fetched from: a good replica at a reachable node, nearest to `target`, then least busy.
pub(crate) fn choose_source(
    nodes: &Nodes,
    replicas: &[Replica],
    target: NodeKey,
    shunned: &[NodeKey],
    rng: &mut Rng,
) -> Option<NodeKey> {
    let to = nodes.get(target);
    replicas
        .iter()
        .filter(|replica| replica.is_good() && replica.node != target && nodes.get(replica.node).is_reachable())
        .map(|replica| replica.node)
        .min_by_key(|key| {
            let node = nodes.get(*key);
            (shunned.contains(key), node.place.distance(&to.place), node.load(), rng.u32(..))
        })
}

/// The copy that a file can best do without: its node's neighbours hold the others, or it is the fullest.
pub(crate) fn choose_superfluous(nodes: &Nodes, holders: &[NodeKey], slice: SliceId) -> Option<NodeKey> {
    holders.iter().copied().max_by_key(|key| {
        let others: Vec<_> = holders.iter().copied().filter(|other| other != key).collect();
        let node = nodes.get(*key);
        // The slice's own bits break ties, so that not one node loses the copies of a thousand files.
        (Reverse(nearest(nodes, node, &others)), node.filled_bytes(), slice.0.rotate_left(key_bits(*key)))
    })
}

/// How near a node is to the nearest of `holders`; as far as can be when there are none.
fn nearest(nodes: &Nodes, node: &Node, holders: &[NodeKey]) -> Distance {
    holders.iter().map(|holder| node.place.distance(&nodes.get(*holder).place)).min().unwrap_or(Distance::OtherSite)
}

fn key_bits(key: NodeKey) -> u32 {
    key.number().wrapping_mul(13) % 128
}

/// Better is smaller, in this order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    shunned: bool,
    nearness: Reverse<Distance>,
    load: u32,
    filled_bytes: u64,
    lot: u32,
}
