//! The nodes with tasks that wait, by how many, for SPEs that have none on their own node: in their rack, in their
//! site, anywhere. Kept in order all the time, because with a thousand nodes nobody can sort them for every task.
//!
//! It never knows which tasks wait, nor whether they may leave.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use protocol::{NodeId, Place};

use crate::schedule::fleet::Fleet;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BusiestNodes {
    by_rack: BTreeMap<Place, Ranks>,
    by_site: BTreeMap<String, Ranks>,
    all: Ranks,
}

/// Nodes, the one with most tasks first, equal ones by name.
type Ranks = BTreeSet<(Reverse<usize>, NodeId)>;

impl BusiestNodes {
    /// So many tasks wait at a node of `fleet`, instead of so many.
    pub(crate) fn update(&mut self, fleet: &Fleet, node: &NodeId, before: usize, after: usize) {
        let Some(place) = fleet.place(node).filter(|_| before != after) else { return };
        let rack = self.by_rack.entry(place.clone()).or_default();
        let site = match self.by_site.get_mut(&place.site) {
            Some(site) => site,
            None => self.by_site.entry(place.site.clone()).or_default(),
        };
        for ranks in [rack, site, &mut self.all] {
            ranks.remove(&(Reverse(before), node.clone()));
            if after > 0 {
                ranks.insert((Reverse(after), node.clone()));
            }
        }
    }

    /// The other nodes with tasks that wait, the nearest to `node` first, and among equally near ones the one with
    /// most.
    pub(crate) fn nearest_first<'a>(&'a self, fleet: &'a Fleet, node: &'a NodeId) -> impl Iterator<Item = &'a NodeId> {
        let place = fleet.place(node);
        let rack = place.and_then(|place| self.by_rack.get(place));
        let site = place.and_then(|place| self.by_site.get(&place.site));
        let here = move |other: &NodeId| place.zip(fleet.place(other)).is_some_and(|(a, b)| a.site == b.site);
        let in_rack = move |other: &NodeId| place == fleet.place(other);
        let rack = rack.into_iter().flatten().map(|(_, other)| other);
        let site = site.into_iter().flatten().map(|(_, other)| other).filter(move |other| !in_rack(other));
        let all = self.all.iter().map(|(_, other)| other).filter(move |other| !here(other));
        rack.chain(site).chain(all).filter(move |other| *other != node)
    }
}
