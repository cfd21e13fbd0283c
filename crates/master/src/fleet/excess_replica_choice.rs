//! Chooses which copy of a file goes when there is one too many, by sites, racks and fullness of nodes. It never says
//! how many copies are too many.

use protocol::SliceId;

use crate::fleet::{
    nodes::{NodeKey, Nodes},
    placement_constraints::PlacementConstraints,
};

/// The copy that a file can best do without: the remaining ones are then spread best. Among equals `first` goes, then
/// the one on the fullest node.
pub(crate) fn choose_excess_replica(
    nodes: &Nodes,
    terms: &PlacementConstraints,
    holders: &[NodeKey],
    first: Option<NodeKey>,
    slice: SliceId,
) -> Option<NodeKey> {
    holders.iter().copied().min_by_key(|key| {
        let others: Vec<_> = holders.iter().copied().filter(|other| other != key).collect();
        let fill_permille = (nodes.get(*key).fill() * 1_000.0) as u32;
        // The slice's own bits break ties, so that one node does not lose the copies of a thousand files.
        let lot = std::cmp::Reverse(slice.0.rotate_left(key_bits(*key)));
        (terms.cost(nodes, &others), Some(*key) != first, std::cmp::Reverse(fill_permille), lot)
    })
}

fn key_bits(key: NodeKey) -> u32 {
    key.number().wrapping_mul(13) % 128
}
