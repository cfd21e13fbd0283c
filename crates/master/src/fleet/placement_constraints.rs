//! How well the copies of a file are spread (paper, 2.2: "replicas ... according to the topology"). Serves the choice
//! of a place, the choice of a superfluous copy, and the search for copies in wrong places. The cost is a sum over
//! sites and racks, in which each further copy in the same one costs more. It never knows how full or busy a node is:
//! that only decides between places that are equally good here.

use crate::{
    fleet::nodes::{NodeKey, Nodes, RackKey, SiteKey},
    replicas::desired_replication::DesiredReplication,
};

/// The desired replication, in the numbers of the existing nodes.
///
/// The cost of a set of copies is a sum over sites and racks. For such sums, taking the best place for one copy after
/// the other ends at an overall best. So does exchanging one copy at a time. The tests compare both with all possible
/// sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlacementConstraints {
    /// Copies wanted: the desired number, and at least one for each wanted site.
    pub(crate) copies: usize,
    /// Wanted sites at which nodes were ever seen.
    pub(crate) wanted_sites: Vec<SiteKey>,
    pub(crate) forbidden_sites: Vec<SiteKey>,
    /// Whether a copy is wanted at a site that has no node for it.
    pub(crate) wants_absent_site: bool,
    /// For a file of a co-located folder: the folder's nodes.
    pub(crate) allowed_nodes: Option<Vec<NodeKey>>,
    /// Whether they are kept in memory.
    pub(crate) is_in_memory: bool,
}

/// The faults of a set of copies; smaller is better, the first counts most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlacementCost {
    /// Copies where none should be: at a forbidden site, at a leaving node, or outside the folder's nodes.
    pub(crate) unfit: usize,
    /// Wanted sites without a copy.
    pub(crate) unmet: usize,
    /// Pairs of copies at the same site.
    pub(crate) same_site: usize,
    /// Pairs of copies in the same rack.
    pub(crate) same_rack: usize,
}

/// Why a set of copies should be changed, the most important reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlacementViolation {
    /// A copy at a forbidden site, or a wanted site without one.
    Site,
    /// A copy at a leaving node.
    DrainingNode,
    /// A copy outside the folder's nodes.
    NotColocated,
    /// All copies at one site, or in one rack, though there are others.
    SameFaultDomain,
}

impl PlacementConstraints {
    /// The constraints of a desired replication.
    pub(crate) fn new(nodes: &Nodes, desired: &DesiredReplication) -> Self {
        let keys = |names: &[String]| -> Vec<SiteKey> {
            let mut keys: Vec<_> = names.iter().filter_map(|name| nodes.sites().of_name(name)).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        let forbidden = keys(&desired.sites_forbidden);
        let mut wanted = keys(&desired.sites_wanted);
        wanted.retain(|site| !forbidden.contains(site));
        let has_nodes =
            |name: &String| nodes.sites().of_name(name).is_some_and(|site| nodes.sites().active_at(site) > 0);
        Self {
            copies: usize::from(desired.copies).max(wanted.len()).max(1),
            wants_absent_site: !desired.sites_wanted.iter().all(has_nodes),
            wanted_sites: wanted,
            forbidden_sites: forbidden,
            allowed_nodes: None,
            is_in_memory: desired.is_in_memory,
        }
    }

    /// Whether every node is as good as any other for a first copy.
    pub(crate) fn is_unconstrained(&self) -> bool {
        self.wanted_sites.is_empty() && self.forbidden_sites.is_empty() && self.allowed_nodes.is_none()
    }

    /// How many copies are possible now: no more than nodes that stay and are not given up.
    pub(crate) fn copies_possible(&self, nodes: &Nodes) -> usize {
        self.copies.min(nodes.sites().active_outside(&self.forbidden_sites)).max(1)
    }

    /// Whether more is wanted than there are nodes for.
    pub(crate) fn is_short_of_nodes(&self, nodes: &Nodes) -> bool {
        self.wants_absent_site || self.copies > nodes.sites().active_outside(&self.forbidden_sites)
    }

    /// The number of copies below which none is removed. Nodes that leave or may come back count here: their copies are
    /// not given up just because they are about to go.
    pub(crate) fn copies_to_keep(&self, nodes: &Nodes) -> usize {
        self.copies.min(nodes.sites().known_outside(&self.forbidden_sites)).max(1)
    }

    /// Whether a copy may stand at a node for good.
    pub(crate) fn is_fit(&self, nodes: &Nodes, key: NodeKey) -> bool {
        let node = nodes.get(key);
        let is_apart = self.allowed_nodes.as_ref().is_some_and(|only| !only.contains(&key));
        node.is_active() && !self.forbidden_sites.contains(&node.site) && !is_apart
    }

    /// The faults of copies at these nodes.
    pub(crate) fn cost(&self, nodes: &Nodes, holders: &[NodeKey]) -> PlacementCost {
        let unfit = holders.iter().filter(|key| !self.is_fit(nodes, **key)).count();
        if self.allowed_nodes.is_some() {
            return PlacementCost { unfit, ..PlacementCost::default() };
        }
        let has_none = |site: &&SiteKey| !holders.iter().any(|key| nodes.get(*key).site == **site);
        let mut cost = PlacementCost {
            unfit,
            unmet: self.wanted_sites.iter().filter(has_none).count(),
            ..PlacementCost::default()
        };
        for (index, a) in holders.iter().enumerate() {
            for b in &holders[..index] {
                let (a, b) = (nodes.get(*a), nodes.get(*b));
                cost.same_site += usize::from(a.site == b.site);
                cost.same_rack += usize::from(a.rack == b.rack);
            }
        }
        cost
    }

    /// The cost that a further copy in a rack adds.
    pub(crate) fn cost_of_adding(
        &self,
        nodes: &Nodes,
        holders: &[NodeKey],
        site: SiteKey,
        rack: RackKey,
    ) -> PlacementCost {
        let same_site = holders.iter().filter(|key| nodes.get(**key).site == site).count();
        PlacementCost {
            unfit: usize::from(self.forbidden_sites.contains(&site)),
            // The first copy at a wanted site is a gain. Costs are not negative, so all other places lose by one
            // instead.
            unmet: usize::from(!(self.wanted_sites.contains(&site) && same_site == 0)),
            same_site,
            same_rack: holders.iter().filter(|key| nodes.get(**key).rack == rack).count(),
        }
    }

    /// The lowest cost of `holders` without one of them.
    pub(crate) fn best_without_one(&self, nodes: &Nodes, holders: &[NodeKey]) -> PlacementCost {
        let without = |index: usize| {
            let mut rest = holders.to_vec();
            rest.remove(index);
            self.cost(nodes, &rest)
        };
        (0..holders.len()).map(without).min().unwrap_or_default()
    }

    /// Whether copies at these nodes should stand elsewhere and could, as far as is known without asking for room.
    /// Racks and sites that came later do not make every file move. A set counts as bad only if the loss of one site,
    /// or of one rack, takes all copies.
    pub(crate) fn violation(&self, nodes: &Nodes, holders: &[NodeKey]) -> Option<PlacementViolation> {
        let sites = nodes.sites();
        let fit = holders.iter().filter(|key| self.is_fit(nodes, **key)).count();
        if fit < holders.len() {
            let places = match &self.allowed_nodes {
                Some(only) => only.len(),
                None => sites.active_outside(&self.forbidden_sites),
            };
            let is_at = |key: &NodeKey| self.forbidden_sites.contains(&nodes.get(*key).site);
            let is_leaving = |key: &NodeKey| !nodes.get(*key).is_active();
            return match places > fit {
                true if holders.iter().any(is_at) => Some(PlacementViolation::Site),
                true if holders.iter().any(is_leaving) => Some(PlacementViolation::DrainingNode),
                true => Some(PlacementViolation::NotColocated),
                false => None,
            };
        }
        if self.allowed_nodes.is_some() {
            return None;
        }
        let is_at = |site: SiteKey| holders.iter().any(|key| nodes.get(*key).site == site);
        if self.wanted_sites.iter().any(|site| sites.active_at(*site) > 0 && !is_at(*site)) {
            return Some(PlacementViolation::Site);
        }
        let [first, rest @ ..] = holders else { return None };
        let (site, rack) = (nodes.get(*first).site, nodes.get(*first).rack);
        if rest.is_empty() || rest.iter().any(|key| nodes.get(*key).site != site) {
            return None;
        }
        let is_open = |other: SiteKey| other != site && !self.forbidden_sites.contains(&other);
        let has_other_site = sites.active_sites().any(is_open);
        let one_rack = rest.iter().all(|key| nodes.get(*key).rack == rack);
        let is_other =
            |other: &crate::fleet::nodes::Rack| other.site == site && other.key != rack && !other.active.is_empty();
        let has_other_rack = one_rack && sites.racks().iter().any(is_other);
        (has_other_site || has_other_rack).then_some(PlacementViolation::SameFaultDomain)
    }
}
