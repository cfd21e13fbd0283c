//! Where buckets are put, at first and when some have lost their place. They are spread over the nodes in proportion
//! to their weights, which are their SPEs unless [links between sites](crate::bucket::bucket_shares) say otherwise. It
//! never moves a bucket that has a place.

use std::collections::BTreeMap;

use protocol::NodeId;

use crate::job::action::BucketLocation;

/// Spreads `count` buckets over nodes in proportion to their weights, with neighbouring numbers on different nodes.
pub(crate) fn spread(count: u32, weights: &BTreeMap<NodeId, u32>) -> Vec<BucketLocation> {
    let mut load = Load { weights, given: BTreeMap::new() };
    let homes = (0..count).map_while(|_| load.next());
    homes.map(|node| BucketLocation { node: node.clone(), generation: 0 }).collect()
}

/// Gives the buckets of these numbers new places, each where the other buckets are fewest for the node's weight. Each
/// gets a new generation.
pub(crate) fn reassign(homes: &mut [BucketLocation], numbers: &[u32], weights: &BTreeMap<NodeId, u32>) {
    let mut load = Load { weights, given: BTreeMap::new() };
    let mut is_moved = vec![false; homes.len()];
    for number in numbers {
        is_moved[*number as usize] = true;
    }
    for (home, _) in homes.iter().zip(&is_moved).filter(|(_, is_moved)| !**is_moved) {
        load.count(&home.node);
    }
    for (home, _) in homes.iter_mut().zip(is_moved).filter(|(_, is_moved)| *is_moved) {
        if let Some(node) = load.next() {
            *home = BucketLocation { node: node.clone(), generation: home.generation + 1 };
        }
    }
}

/// How many buckets each node has.
struct Load<'a> {
    weights: &'a BTreeMap<NodeId, u32>,
    given: BTreeMap<&'a NodeId, u64>,
}

impl<'a> Load<'a> {
    fn count(&mut self, node: &NodeId) {
        if let Some((node, _)) = self.weights.get_key_value(node) {
            *self.given.entry(node).or_default() += 1;
        }
    }

    /// The node that would be least full with one more: compares (given + 1) / weight, in whole numbers.
    fn next(&mut self) -> Option<&'a NodeId> {
        let with_one_more = |node: &NodeId| self.given.get(node).map_or(1, |given| given + 1);
        let fullness = |(a, a_weight): &(&NodeId, &u32), (b, b_weight): &(&NodeId, &u32)| {
            let a_fullness = with_one_more(a) * u64::from((**b_weight).max(1));
            a_fullness.cmp(&(with_one_more(b) * u64::from((**a_weight).max(1))))
        };
        // Of equal ones, the first by name.
        let (node, _) = self.weights.iter().min_by(fullness)?;
        *self.given.entry(node).or_default() += 1;
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn weights(list: &[(&str, u32)]) -> BTreeMap<NodeId, u32> {
        list.iter().map(|(name, weight)| (NodeId::new(*name).unwrap(), *weight)).collect()
    }

    fn shown(homes: &[BucketLocation]) -> String {
        homes.iter().map(|home| home.node.as_str()).collect()
    }

    #[test]
    fn buckets_are_spread_by_the_number_of_spes_and_neighbours_apart() {
        let places = |count, list: &[(&str, u32)]| shown(&spread(count, &weights(list)));
        assert_eq!(places(5, &[("a", 1), ("b", 1)]), "ababa");
        assert_eq!(places(6, &[("a", 1), ("b", 2)]), "babbab");
        assert_eq!(places(2, &[]), "");
    }

    #[test]
    fn buckets_of_a_lost_node_are_shared_out_among_the_others_and_begin_anew() {
        let mut homes = spread(6, &weights(&[("a", 1), ("b", 1), ("c", 1)]));
        assert_eq!(shown(&homes), "abcabc");
        reassign(&mut homes, &[1, 4], &weights(&[("a", 1), ("c", 1)]));
        assert_eq!(shown(&homes), "aacacc");
        assert_eq!(homes.iter().map(|home| home.generation).collect::<Vec<_>>(), [0, 1, 0, 0, 1, 0]);
    }
}
