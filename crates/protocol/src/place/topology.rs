//! Where nodes and clients stand, how far two places are apart, and how much of each link copies may take. See the
//! Sector/Sphere paper, 2.2: "a hierarchical topology, e.g. computer nodes on racks within multiple data centers". It
//! serves placement, reading and replication. It never parses a topology file: `daemon` does.

use std::{collections::BTreeMap, fmt, net::IpAddr, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{AddressRange, NodeId, limits, rate};

/// The place of every node, and the links between sites. Made piece by piece; each piece is checked as it is added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    nodes: BTreeMap<NodeId, Place>,
    addresses: BTreeMap<AddressRange, PartialPlace>,
    links: BTreeMap<SitePair, Link>,
    default_link: Link,
}

impl Topology {
    /// Sets where a node stands.
    ///
    /// # Errors
    /// When there are too many nodes.
    pub fn set_node(&mut self, node: NodeId, place: Place) -> Result<(), TopologyError> {
        self.nodes.insert(node, place);
        within(self.nodes.len(), "nodes")
    }

    /// Sets where every address of this range stands: clients, and nodes that are not named.
    ///
    /// # Errors
    /// When there are too many ranges.
    pub fn set_addresses(&mut self, range: AddressRange, spot: PartialPlace) -> Result<(), TopologyError> {
        self.addresses.insert(range, spot);
        within(self.addresses.len(), "address ranges")
    }

    /// Sets the link between two sites, or within one where both are the same.
    ///
    /// # Errors
    /// When the pair was given before, or a number is out of its range.
    pub fn set_link(&mut self, pair: SitePair, link: Link) -> Result<(), TopologyError> {
        link.check()?;
        if self.links.contains_key(&pair) {
            return Err(TopologyError::Twice(pair));
        }
        self.links.insert(pair, link);
        within(self.links.len(), "links")
    }

    /// Sets the link between two different sites that have none of their own.
    ///
    /// # Errors
    /// When a number is out of its range.
    pub fn set_default_link(&mut self, link: Link) -> Result<(), TopologyError> {
        link.check()?;
        self.default_link = link;
        Ok(())
    }

    /// Where a node stands: by its name here, otherwise by its address, otherwise by its own report.
    pub fn place_of(&self, node: &NodeId, address: IpAddr, said: &Place) -> Place {
        if let Some(place) = self.nodes.get(node) {
            return place.clone();
        }
        match self.place_of_address(address) {
            Some(PartialPlace { site, rack: Some(rack) }) => Place::new(site, rack),
            Some(PartialPlace { site, rack: None }) => Place::new(site, &said.rack),
            None => said.clone(),
        }
    }

    /// Where this address stands, by the narrowest range that holds it.
    pub fn place_of_address(&self, address: IpAddr) -> Option<&PartialPlace> {
        let holding = self.addresses.iter().filter(|(range, _)| range.contains(address));
        holding.max_by_key(|(range, _)| range.prefix_bits()).map(|(_, spot)| spot)
    }

    /// How far a place is from `from`.
    pub fn network_distance(&self, from: &PartialPlace, to: &Place) -> NetworkDistance {
        let distance = match (from.site == to.site, &from.rack) {
            (true, Some(rack)) if *rack == to.rack => Distance::SameRack,
            (true, _) => Distance::SameSite,
            (false, _) => Distance::OtherSite,
        };
        let millis = match distance {
            Distance::OtherSite => self.distance_millis(&from.site, &to.site),
            _ => 0,
        };
        NetworkDistance { distance, millis }
    }

    /// The round trip between two sites in milliseconds; 0 within a site.
    pub fn distance_millis(&self, a: &str, b: &str) -> u32 {
        if a == b {
            return 0;
        }
        let said = self.links.get(&SitePair::new(a, b)).and_then(|link| link.distance_millis);
        said.or(self.default_link.distance_millis).unwrap_or(DISTANCE_MILLIS_UNKNOWN)
    }

    /// Whether any link has a limit.
    pub fn has_limits(&self) -> bool {
        self.links.values().chain([&self.default_link]).any(|link| link.limit_bytes_per_second.is_some())
    }

    /// Most bytes per second that may go between two sites, or within one, both ways together; `None` for no limit.
    pub fn limit_bytes_per_second(&self, a: &str, b: &str) -> Option<u64> {
        let said = self.links.get(&SitePair::new(a, b)).and_then(|link| link.limit_bytes_per_second);
        said.or(if a == b { None } else { self.default_link.limit_bytes_per_second })
    }

    /// The nodes that are named.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, &Place)> {
        self.nodes.iter()
    }

    /// The ranges of addresses.
    pub fn addresses(&self) -> impl Iterator<Item = (&AddressRange, &PartialPlace)> {
        self.addresses.iter()
    }

    /// The links of pairs of sites.
    pub fn links(&self) -> impl Iterator<Item = (&SitePair, &Link)> {
        self.links.iter()
    }

    /// The link between different sites that have none of their own.
    pub fn default_link(&self) -> Link {
        self.default_link
    }
}

/// The place of a node: site (data centre) and rack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The data centre.
    pub site: String,
    /// The rack within the site.
    pub rack: String,
}

/// Where a client, or a whole address range, stands; perhaps only partly known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartialPlace {
    /// The data centre.
    pub site: String,
    /// The rack, where that is known.
    pub rack: Option<String>,
}

/// Two sites, in any order; or one site twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SitePair(String, String);

/// The link between two sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The round trip in milliseconds, or any number that grows with the cost of a byte.
    pub distance_millis: Option<u32>,
    /// Most bytes per second of copies, in both directions together.
    pub limit_bytes_per_second: Option<u64>,
}

/// How far two nodes are apart; smaller is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Distance {
    /// The same node.
    SameNode,
    /// Another node of the same rack.
    SameRack,
    /// Another rack of the same site.
    SameSite,
    /// Another site.
    OtherSite,
}

/// A distance, with its size between sites; smaller is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkDistance {
    /// By the levels of the topology.
    pub distance: Distance,
    /// The round trip between the sites in milliseconds; 0 within one.
    pub millis: u32,
}

/// Why something cannot be in a topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// A text is not a place.
    #[error("`{text}` is not a place: {why}; write \"SITE/RACK\", for example \"chicago/rack-1\"")]
    Place {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A pair of sites is there twice.
    #[error("the link of {0} is there twice; say all of it in one place")]
    Twice(SitePair),
    /// The limit is so low that copies could not be made in time.
    #[error("a limit of {} is too low: copies would never end; give at least {}", rate::Shown(*.0), rate::Shown(LIMIT_BYTES_PER_SECOND_MIN))]
    Slow(u64),
    /// No network is that long.
    #[error("{0} ms are no distance on this planet; give at most {DISTANCE_MILLIS_MAX}")]
    Far(u32),
    /// More than a master accepts.
    #[error("there are more than {ENTRIES_MAX} {0}; name whole address ranges instead")]
    Many(&'static str),
}

impl Place {
    /// The place `site`/`rack`.
    pub fn new(site: impl Into<String>, rack: impl Into<String>) -> Self {
        Self { site: site.into(), rack: rack.into() }
    }

    /// The distance between two nodes that are not the same one.
    pub fn distance(&self, other: &Self) -> Distance {
        match (self.site == other.site, self.rack == other.rack) {
            (true, true) => Distance::SameRack,
            (true, false) => Distance::SameSite,
            (false, _) => Distance::OtherSite,
        }
    }
}

impl FromStr for Place {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        match text.parse()? {
            PartialPlace { site, rack: Some(rack) } => Ok(Self { site, rack }),
            PartialPlace { rack: None, .. } => Err(bad_place(text, "the rack is missing")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.site, self.rack)
    }
}

impl From<Place> for PartialPlace {
    fn from(place: Place) -> Self {
        Self { site: place.site, rack: Some(place.rack) }
    }
}

impl FromStr for PartialPlace {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        let (site, rack) = text.split_once('/').map_or((text, None), |(site, rack)| (site, Some(rack)));
        for name in [Some(site), rack].into_iter().flatten() {
            check_name(name).map_err(|why| bad_place(text, why))?;
        }
        Ok(Self { site: site.into(), rack: rack.map(Into::into) })
    }
}

impl fmt::Display for PartialPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rack {
            Some(rack) => write!(f, "{}/{rack}", self.site),
            None => f.write_str(&self.site),
        }
    }
}

impl SitePair {
    /// The pair of two sites; the order does not matter.
    pub fn new(a: impl Into<String>, b: impl Into<String>) -> Self {
        let (a, b) = (a.into(), b.into());
        if a <= b { Self(a, b) } else { Self(b, a) }
    }

    /// The sites, in the order of their names.
    pub fn sites(&self) -> (&str, &str) {
        (&self.0, &self.1)
    }
}

impl fmt::Display for SitePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` and `{}`", self.0, self.1)
    }
}

impl Link {
    fn check(&self) -> Result<(), TopologyError> {
        match (self.limit_bytes_per_second, self.distance_millis) {
            (Some(limit), _) if limit < LIMIT_BYTES_PER_SECOND_MIN => Err(TopologyError::Slow(limit)),
            (_, Some(millis)) if millis > DISTANCE_MILLIS_MAX => Err(TopologyError::Far(millis)),
            _ => Ok(()),
        }
    }
}

/// The distance between two named nodes and their places.
pub fn distance(a: (&NodeId, &Place), b: (&NodeId, &Place)) -> Distance {
    if a.0 == b.0 { Distance::SameNode } else { a.1.distance(b.1) }
}

/// Whether a text can be the name of a site or rack; returns what is wrong if not.
///
/// # Errors
/// See above.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
        return Err("a name has 1 to 64 bytes");
    }
    if name.contains('/') || name.chars().any(char::is_control) || name.trim() != name {
        return Err("a name has no `/`, no control characters, and no blanks at its ends");
    }
    Ok(())
}

fn bad_place(text: &str, why: &'static str) -> TopologyError {
    TopologyError::Place { text: text.chars().take(64).collect(), why }
}

fn within(count: usize, what: &'static str) -> Result<(), TopologyError> {
    if count > ENTRIES_MAX { Err(TopologyError::Many(what)) } else { Ok(()) }
}

/// Most entries of a kind: twice the nodes of a master; all are still one message of a few hundred kilobytes.
pub const ENTRIES_MAX: usize = 4_096;
/// Lowest limit, in bytes per second: below it a frame takes longer than a connection may be silent.
pub const LIMIT_BYTES_PER_SECOND_MIN: u64 = 125_000;
/// Round trip assumed between two sites without a link of their own, in milliseconds. It is across a continent, so that
/// every measured link inside one is preferred.
pub const DISTANCE_MILLIS_UNKNOWN: u32 = 100;
/// Longest distance, in milliseconds.
pub const DISTANCE_MILLIS_MAX: u32 = 60_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn spot(text: &str) -> PartialPlace {
        text.parse().unwrap()
    }

    fn place(text: &str) -> Place {
        text.parse().unwrap()
    }

    fn link(distance_millis: u32) -> Link {
        Link { distance_millis: Some(distance_millis), limit_bytes_per_second: None }
    }

    #[test]
    fn racks_of_the_same_name_in_two_sites_are_far_apart() {
        let (a, b, c, d) = (place("jhu/1"), place("uic/1"), place("uic/2"), place("uic/1"));
        assert_eq!(a.distance(&b), Distance::OtherSite);
        assert_eq!(b.distance(&c), Distance::SameSite);
        assert_eq!(b.distance(&d), Distance::SameRack);
        assert!(Distance::SameNode < Distance::SameRack && Distance::SameSite < Distance::OtherSite);
    }

    #[test]
    fn a_node_stands_where_its_name_says_else_its_address_else_itself() {
        let mut topology = Topology::default();
        let node = |text: &str| NodeId::new(text).unwrap();
        topology.set_node(node("n1"), place("a/1")).unwrap();
        topology.set_addresses("10.0.0.0/8".parse().unwrap(), spot("b")).unwrap();
        topology.set_addresses("10.1.0.0/16".parse().unwrap(), spot("c/7")).unwrap();
        let said = place("x/9");
        let at = |id: &str, address: &str| topology.place_of(&node(id), address.parse().unwrap(), &said);
        assert_eq!(at("n1", "10.1.0.1"), place("a/1"));
        assert_eq!(at("n2", "10.1.0.1"), place("c/7"), "the narrower range");
        assert_eq!(at("n2", "10.2.0.1"), place("b/9"), "the range says no rack");
        assert_eq!(at("n2", "192.0.2.1"), said);
    }

    #[test]
    fn a_client_is_nearer_to_its_rack_than_to_its_site_than_to_the_next_site() {
        let mut topology = Topology::default();
        topology.set_link(SitePair::new("b", "a"), link(20)).unwrap();
        topology.set_link(SitePair::new("a", "c"), link(90)).unwrap();
        let from = spot("a/1");
        let mut places = ["d/1", "c/1", "b/1", "a/2", "a/1"].map(place);
        places.sort_by_key(|to| topology.network_distance(&from, to));
        assert_eq!(places, ["a/1", "a/2", "b/1", "c/1", "d/1"].map(place));
        assert_eq!(topology.network_distance(&spot("a"), &place("a/1")).distance, Distance::SameSite);
    }

    #[test]
    fn what_is_said_of_all_links_holds_where_nothing_else_is_said() {
        let mut topology = Topology::default();
        let limit = |limit| Link { distance_millis: None, limit_bytes_per_second: Some(limit) };
        topology.set_default_link(Link { distance_millis: Some(30), ..limit(1_000_000) }).unwrap();
        topology.set_link(SitePair::new("a", "b"), limit(2_000_000)).unwrap();
        assert_eq!(topology.limit_bytes_per_second("b", "a"), Some(2_000_000));
        assert_eq!(topology.distance_millis("b", "a"), 30, "of this pair only the limit was said");
        assert_eq!(topology.limit_bytes_per_second("a", "c"), Some(1_000_000));
        assert_eq!(topology.limit_bytes_per_second("a", "a"), None, "it is no link between sites");
        topology.set_link(SitePair::new("a", "a"), limit(3_000_000)).unwrap();
        assert_eq!(topology.limit_bytes_per_second("a", "a"), Some(3_000_000));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_to_do() {
        let mut topology = Topology::default();
        let slow = Link { limit_bytes_per_second: Some(124_999), ..Link::default() };
        assert!(topology.set_default_link(slow).unwrap_err().to_string().contains("at least 1 Mbit/s"));
        assert!(topology.set_default_link(link(60_001)).unwrap_err().to_string().contains("60001 ms"));
        topology.set_link(SitePair::new("a", "b"), link(1)).unwrap();
        let twice = topology.set_link(SitePair::new("b", "a"), link(2)).unwrap_err();
        assert!(twice.to_string().contains("`a` and `b` is there twice"), "{twice}");
        for text in ["", "/", "a/", "/1", "a/b/c", " a/1", "a\n/1", "a"] {
            assert!(text.parse::<Place>().is_err(), "{text:?}");
        }
        assert!("a".parse::<Place>().unwrap_err().to_string().contains("the rack is missing"));
    }
}
