//! Sites and racks by number, and how many nodes stand in each. Serves placement: choosing a node then compares numbers
//! instead of names, and examines few nodes of many. It never decides anything.

use std::collections::BTreeMap;

use protocol::Place;

use super::{
    keys::{NodeKey, RackKey, SiteKey},
    node::Node,
};

/// The sites and racks, and their nodes. Numbers do not change with the topology.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    names: BTreeMap<String, SiteKey>,
    rack_names: BTreeMap<(SiteKey, String), RackKey>,
    sites: Vec<Site>,
    racks: Vec<Rack>,
    /// Nodes that new slices may go to, up or not.
    active: Vec<NodeKey>,
    active_count: usize,
    known_count: usize,
    /// Whether a rack without nodes has got some, or there are fewer nodes than before.
    changed: bool,
}

#[derive(Debug, Default)]
struct Site {
    name: String,
    /// Nodes that stay and are not given up.
    active: usize,
    /// Nodes that hold slices, or may come back with some.
    known: usize,
}

/// A rack, with those of its nodes that new slices may go to.
#[derive(Debug)]
pub(crate) struct Rack {
    pub(crate) site: SiteKey,
    pub(crate) key: RackKey,
    pub(crate) active: Vec<NodeKey>,
}

impl Sites {
    /// The numbers of a place, newly assigned the first time it is seen.
    pub(super) fn keys(&mut self, place: &Place) -> (SiteKey, RackKey) {
        let site = match self.names.get(&place.site) {
            Some(site) => *site,
            None => {
                let site = SiteKey(number(self.sites.len()));
                self.sites.push(Site { name: place.site.clone(), ..Site::default() });
                self.names.insert(place.site.clone(), site);
                site
            }
        };
        let name = (site, place.rack.clone());
        let rack = match self.rack_names.get(&name) {
            Some(rack) => *rack,
            None => {
                let key = RackKey(number(self.racks.len()));
                self.racks.push(Rack { site, key, active: Vec::new() });
                self.rack_names.insert(name, key);
                key
            }
        };
        (site, rack)
    }

    /// Counts all nodes again.
    pub(super) fn count<'a>(&mut self, nodes: impl Iterator<Item = (NodeKey, &'a Node)>) {
        let known_before = self.known_count;
        self.active.clear();
        (self.active_count, self.known_count) = (0, 0);
        let before: Vec<_> = self.racks.iter().map(|rack| !rack.active.is_empty()).collect();
        self.racks.iter_mut().for_each(|rack| rack.active.clear());
        self.sites.iter_mut().for_each(|site| (site.active, site.known) = (0, 0));
        for (key, node) in nodes {
            let site = &mut self.sites[usize::from(node.site.0)];
            let is_drained = node.membership == protocol::message::cluster::Membership::Drained;
            site.known += usize::from(!is_drained);
            self.known_count += usize::from(!is_drained);
            if node.is_active() && !node.is_dead {
                site.active += 1;
                self.active_count += 1;
                self.active.push(key);
                self.racks[usize::from(node.rack.0)].active.push(key);
            }
        }
        let has_grown = |(rack, before): (&Rack, &bool)| !rack.active.is_empty() && !before;
        self.changed |= self.racks.iter().zip(before.iter().chain(std::iter::repeat(&false))).any(has_grown);
        self.changed |= self.known_count < known_before;
    }

    /// Whether a site or rack has come since this was last asked, so that files may stand better. Also true if a node
    /// has gone for good: there may be fewer places than a file has copies.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// A site's number; `None` if no node ever stood there.
    pub(crate) fn of_name(&self, name: &str) -> Option<SiteKey> {
        self.names.get(name).copied()
    }

    pub(crate) fn name(&self, site: SiteKey) -> &str {
        &self.sites[usize::from(site.0)].name
    }

    /// Nodes that new slices may go to.
    pub(crate) fn active(&self) -> &[NodeKey] {
        &self.active
    }

    /// All racks.
    pub(crate) fn racks(&self) -> &[Rack] {
        &self.racks
    }

    /// All sites that have nodes for new slices.
    pub(crate) fn active_sites(&self) -> impl Iterator<Item = SiteKey> {
        (0..).map(SiteKey).zip(&self.sites).filter(|(_, site)| site.active > 0).map(|(key, _)| key)
    }

    /// How many nodes of a site new slices may go to.
    pub(crate) fn active_at(&self, site: SiteKey) -> usize {
        self.sites[usize::from(site.0)].active
    }

    /// How many nodes new slices may go to, outside these sites.
    pub(crate) fn active_outside(&self, forbidden: &[SiteKey]) -> usize {
        self.active_count - forbidden.iter().map(|site| self.sites[usize::from(site.0)].active).sum::<usize>()
    }

    /// How many nodes hold slices or may come back with some, outside these sites.
    pub(crate) fn known_outside(&self, forbidden: &[SiteKey]) -> usize {
        self.known_count - forbidden.iter().map(|site| self.sites[usize::from(site.0)].known).sum::<usize>()
    }
}

/// More than 65,535 names come only from a topology that is changed all day; the last number then stands for many.
fn number(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
