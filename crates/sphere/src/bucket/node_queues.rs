//! Work that nodes can be ordered to do, a limited amount at a time. When a node has enough under way, it gets more
//! only after an answer. Bucket steps and deliveries wait here. It never knows what the work is.

use std::collections::{BTreeMap, BTreeSet};

use protocol::NodeId;

/// See the module.
#[derive(Debug)]
pub(crate) struct NodeQueues {
    in_flight_max: usize,
    nodes: BTreeMap<NodeId, NodeQueue>,
    /// Nodes that have work and not enough under way.
    open: BTreeSet<NodeId>,
}

#[derive(Debug, Default)]
struct NodeQueue {
    ready: BTreeSet<u32>,
    under_way: usize,
}

impl NodeQueues {
    /// No work yet; at most `at_once_max` orders are under way at each node.
    pub(crate) fn new(at_once_max: usize) -> Self {
        Self { in_flight_max: at_once_max, nodes: BTreeMap::new(), open: BTreeSet::new() }
    }

    /// A node can be ordered to do this.
    pub(crate) fn add(&mut self, node: &NodeId, number: u32) {
        self.nodes.entry(node.clone()).or_default().ready.insert(number);
        self.update_open(node);
    }

    /// The node is no longer to be ordered to do this.
    pub(crate) fn remove(&mut self, node: &NodeId, number: u32) {
        if let Some(turn) = self.nodes.get_mut(node) {
            turn.ready.remove(&number);
        }
        self.update_open(node);
    }

    /// Takes out the next order; if it is given, the caller then calls [`begin`](Self::begin).
    pub(crate) fn next(&mut self) -> Option<(NodeId, u32)> {
        let node = self.open.first()?.clone();
        let number = self.nodes.get_mut(&node)?.ready.pop_first()?;
        self.update_open(&node);
        Some((node, number))
    }

    /// A node was given an order.
    pub(crate) fn begin(&mut self, node: &NodeId) {
        self.nodes.entry(node.clone()).or_default().under_way += 1;
        self.update_open(node);
    }

    /// The node has answered an order, or will not.
    pub(crate) fn end(&mut self, node: &NodeId) {
        if let Some(turn) = self.nodes.get_mut(node) {
            turn.under_way = turn.under_way.saturating_sub(1);
        }
        self.update_open(node);
    }

    /// Nobody will answer the orders given: everything under way is over.
    pub(crate) fn end_all(&mut self) {
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            if let Some(turn) = self.nodes.get_mut(&node) {
                turn.under_way = 0;
            }
            self.update_open(&node);
        }
    }

    fn update_open(&mut self, node: &NodeId) {
        let Some(turn) = self.nodes.get(node) else { return };
        if turn.ready.is_empty() || turn.under_way >= self.in_flight_max {
            self.open.remove(node);
            if turn.ready.is_empty() && turn.under_way == 0 {
                self.nodes.remove(node);
            }
        } else if !self.open.contains(node) {
            self.open.insert(node.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn tell(turns: &mut NodeQueues) -> Option<(String, u32)> {
        let (node, number) = turns.next()?;
        turns.begin(&node);
        Some((node.into(), number))
    }

    #[test]
    fn a_node_with_enough_under_way_waits_and_others_do_not() {
        let mut turns = NodeQueues::new(2);
        for number in [3, 1, 2] {
            turns.add(&node("a"), number);
        }
        turns.add(&node("b"), 9);
        let told: Vec<_> = std::iter::from_fn(|| tell(&mut turns)).map(|(_, number)| number).collect();
        assert_eq!(told, [1, 2, 9]);
        turns.end(&node("a"));
        assert_eq!(tell(&mut turns), Some(("a".into(), 3)));
    }

    #[test]
    fn what_is_removed_is_not_told_and_an_end_too_many_makes_no_room() {
        let mut turns = NodeQueues::new(1);
        turns.add(&node("a"), 1);
        turns.add(&node("a"), 2);
        turns.remove(&node("a"), 1);
        turns.end(&node("a"));
        assert_eq!(tell(&mut turns), Some(("a".into(), 2)));
        turns.add(&node("a"), 3);
        assert_eq!(tell(&mut turns), None);
    }

    #[test]
    fn what_is_taken_and_not_told_leaves_room() {
        let mut turns = NodeQueues::new(1);
        turns.add(&node("a"), 1);
        turns.add(&node("a"), 2);
        assert_eq!(turns.next(), Some((node("a"), 1)));
        assert_eq!(tell(&mut turns), Some(("a".into(), 2)));
    }
}
