//! The topology as JSON. It never knows what is measured.

use protocol::Topology;
use serde::Serialize;

use crate::TopologyStatus;

/// The links that the topology names, the default for all others last.
pub fn links(topology: &Topology) -> Vec<TopologyLinkView> {
    let view = |sites: Vec<String>, link: protocol::topology::Link| TopologyLinkView {
        sites,
        distance_millis: link.distance_millis,
        limit_bytes_per_second: link.limit_bytes_per_second,
    };
    let named = topology.links().map(|(pair, link)| {
        let (a, b) = pair.sites();
        view(vec![a.to_owned(), b.to_owned()], *link)
    });
    let mut links: Vec<_> = named.collect();
    let between = topology.default_link();
    if between != protocol::topology::Link::default() {
        links.push(view(vec!["all others".into()], between));
    }
    links
}

/// Where nodes and networks are.
#[derive(Serialize)]
pub struct TopologyView {
    pub file: Option<String>,
    pub fault: Option<String>,
    pub nodes: Vec<PlacedNodeView>,
    pub addresses: Vec<AddressView>,
    pub links: Vec<TopologyLinkView>,
}

/// Where a node is; `known` if it has joined.
#[derive(Serialize)]
pub struct PlacedNodeView {
    pub id: String,
    pub site: String,
    pub rack: String,
    pub known: bool,
}

/// Where the machines of some addresses are.
#[derive(Serialize)]
pub struct AddressView {
    pub range: String,
    pub site: String,
    pub rack: Option<String>,
}

/// What the topology says of the link between two sites.
#[derive(Serialize)]
pub struct TopologyLinkView {
    pub sites: Vec<String>,
    pub distance_millis: Option<u32>,
    pub limit_bytes_per_second: Option<u64>,
}

impl From<TopologyStatus> for TopologyView {
    fn from(status: TopologyStatus) -> Self {
        let TopologyStatus { file, fault, topology, places } = status;
        let view = |id: &protocol::NodeId, place: &protocol::Place, known| PlacedNodeView {
            id: id.to_string(),
            site: place.site.clone(),
            rack: place.rack.clone(),
            known,
        };
        let mut nodes: Vec<_> = places.iter().map(|(id, place)| view(id, place, true)).collect();
        let named = topology.nodes().filter(|(id, _)| !places.iter().any(|(known, _)| known == *id));
        nodes.extend(named.map(|(id, place)| view(id, place, false)));
        let addresses = topology.addresses().map(|(range, spot)| AddressView {
            range: range.to_string(),
            site: spot.site.clone(),
            rack: spot.rack.clone(),
        });
        Self { file, fault, nodes, addresses: addresses.collect(), links: links(&topology) }
    }
}
