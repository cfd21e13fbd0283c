//! Divides the limit between two sites, which counts all bytes between them, whoever sends. The master gives each node
//! a share by its number of transfers with the other site, and adjusts it as these change. Serves every path on which
//! bytes leave a site. The master itself never enforces a share: the nodes do (`site_limiters` in the node).

use std::collections::{BTreeMap, BTreeSet};

use protocol::message::node_master::{LinkShare, LinkUse};

use crate::{Master, fleet::nodes::NodeKey, replicas::orders::QueuedWork};

impl Master {
    /// Recomputes the shares of all limits, and orders those that have changed.
    pub(crate) fn divide_link_limits(&mut self) {
        let mut shares: BTreeMap<NodeKey, Vec<LinkShare>> = BTreeMap::new();
        if self.fleet.nodes.topology().has_limits() {
            let sites = self.sites_of_links();
            for (index, a) in sites.iter().enumerate() {
                for b in &sites[index..] {
                    let Some(limit) = self.fleet.nodes.topology().limit_bytes_per_second(a, b) else { continue };
                    self.divide_link_limit(limit, (a, b), &mut shares);
                }
            }
        }
        let known: Vec<_> =
            self.fleet.nodes.iter().filter(|(_, node)| node.is_reachable()).map(|(key, _)| key).collect();
        for key in known {
            let new = shares.remove(&key).unwrap_or_default();
            let node = self.fleet.nodes.get_mut(key);
            // A node told by an earlier master may still keep to an obsolete share.
            let is_obsolete = |link: &LinkUse| {
                link.rate_bytes_per_second.is_some() && new.iter().all(|share| share.site != link.site)
            };
            if node.link_shares != new || node.links.iter().any(is_obsolete) {
                node.link_shares = new;
                self.replicas.orders.push(key, QueuedWork::LinkShares);
            }
        }
    }

    fn divide_link_limit(&self, limit: u64, (a, b): (&str, &str), shares: &mut BTreeMap<NodeKey, Vec<LinkShare>>) {
        let mut ends = Vec::new();
        for (key, node) in self.fleet.nodes.iter().filter(|(_, node)| node.is_reachable()) {
            if node.place.site == a {
                ends.push((key, b, node.conversations_with(b)));
            } else if node.place.site == b {
                ends.push((key, a, node.conversations_with(a)));
            }
        }
        let conversations: Vec<_> = ends.iter().map(|(_, _, conversations)| *conversations).collect();
        for ((key, far, _), rate_bytes_per_second) in ends.iter().zip(divide(limit, &conversations)) {
            shares.entry(*key).or_default().push(LinkShare { site: (*far).to_owned(), rate_bytes_per_second });
        }
    }

    /// The sites of nodes and of clients.
    fn sites_of_links(&self) -> Vec<String> {
        let nodes = self.fleet.nodes.iter().map(|(_, node)| node.place.site.as_str());
        let addresses = self.fleet.nodes.topology().addresses().map(|(_, spot)| spot.site.as_str());
        nodes.chain(addresses).collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
    }
}

/// Divides a limit between nodes in proportion to their numbers of transfers over it. Nodes without any share a
/// sixteenth, so that a new transfer can begin before the master knows of it. The sum never exceeds the limit.
fn divide(limit: u64, conversations: &[u32]) -> Vec<u64> {
    let total: u64 = conversations.iter().map(|count| u64::from(*count)).sum();
    let idle = conversations.iter().filter(|count| **count == 0).count() as u64;
    let for_idle = match (total, idle) {
        (0, _) => limit,
        (_, 0) => 0,
        _ => limit / IDLE_PART,
    };
    let share = |count: &u32| match *count {
        0 => for_idle / idle.max(1),
        count => (u128::from(limit - for_idle) * u128::from(count) / u128::from(total.max(1))) as u64,
    };
    conversations.iter().map(share).collect()
}

/// The part of a limit that is kept for nodes without transfers over it: one in this many.
const IDLE_PART: u64 = 16;

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn a_limit_is_divided_by_conversations_and_leaves_room_to_begin() {
        assert_eq!(divide(1_600, &[0, 0]), [800, 800]);
        assert_eq!(divide(1_600, &[3, 1]), [1_200, 400]);
        assert_eq!(divide(1_600, &[3, 0, 0]), [1_500, 50, 50]);
        assert_eq!(divide(1_600, &[]), [0; 0]);
    }

    // Promise 48.
    #[test]
    fn shares_are_never_more_than_the_limit_and_nearly_all_of_it() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..2_000 {
            let limit = rng.u64(125_000..) >> rng.u32(..40);
            let limit = limit.max(125_000);
            let conversations: Vec<u32> = (0..rng.usize(1..100)).map(|_| rng.u32(..4) * rng.u32(..300)).collect();
            let shares = divide(limit, &conversations);
            let sum: u128 = shares.iter().map(|share| u128::from(*share)).sum();
            assert!(sum <= u128::from(limit), "{limit} {conversations:?}");
            assert!(u128::from(limit) - sum <= shares.len() as u128 + 16, "{limit} {conversations:?}");
            assert!(shares.iter().all(|share| *share > 0), "{limit} {conversations:?}");
        }
    }
}
