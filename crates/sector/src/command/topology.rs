//! `topology show`, `reload` and `check`: where nodes and networks are. It never edits the topology's file.

use std::path::Path;

use client::{Client, TopologyStatus};
use protocol::{Topology, rate};
use serde::Serialize;
use terminal::{failure::Failure, show};

use crate::arguments::{Global, TopologyVerb};

/// `sector topology show` and `reload`.
pub(crate) async fn run(cloud: &Client, verb: TopologyVerb, global: &Global) -> Result<(), Failure> {
    match verb {
        TopologyVerb::Check { file } => check(&file, global),
        TopologyVerb::Show => print(cloud.topology(false).await?, global),
        TopologyVerb::Reload => print(cloud.topology(true).await?, global),
    }
}

/// `sector topology check`: the file alone, without a cloud.
pub(crate) fn check(file: &Path, global: &Global) -> Result<(), Failure> {
    let topology = daemon::topology::read(file)?;
    let status = TopologyStatus { file: Some(file.display().to_string()), topology, ..TopologyStatus::default() };
    print(status, global)
}

fn print(status: TopologyStatus, global: &Global) -> Result<(), Failure> {
    if global.json {
        return show::json(&TopologyView::from(status));
    }
    let TopologyStatus { file, fault, topology, places } = status;
    show::line(match &file {
        Some(file) => format!("from {file}"),
        None => "no file: nodes say themselves where they stand".into(),
    });
    if let Some(fault) = fault {
        show::line(format!("the file as it is now is not in use: {fault}"));
    }
    let mut rows: Vec<_> =
        places.iter().map(|(node, place)| vec!["node".to_owned(), node.to_string(), place.to_string()]).collect();
    let named = topology.nodes().filter(|(node, _)| !places.iter().any(|(known, _)| known == *node));
    rows.extend(named.map(|(node, place)| vec!["named".to_owned(), node.to_string(), place.to_string()]));
    rows.extend(
        topology.addresses().map(|(range, spot)| vec!["addresses".into(), range.to_string(), spot.to_string()]),
    );
    show::table(&["what", "which", "place"], &rows);
    let links: Vec<_> = links(&topology)
        .into_iter()
        .map(|link| {
            let distance = link.distance_millis.map_or("-".into(), |millis| format!("{millis} ms"));
            let limit = link.limit_bytes_per_second.map_or("-".into(), |limit| rate::Shown(limit).to_string());
            vec![link.sites.join(" - "), distance, limit]
        })
        .collect();
    if !links.is_empty() {
        show::table(&["link", " distance", " limit"], &links);
    }
    Ok(())
}

fn links(topology: &Topology) -> Vec<LinkView> {
    let view = |sites: Vec<String>, link: protocol::topology::Link| LinkView {
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

#[derive(Serialize)]
struct TopologyView {
    file: Option<String>,
    fault: Option<String>,
    nodes: Vec<NodeView>,
    addresses: Vec<AddressView>,
    links: Vec<LinkView>,
}

#[derive(Serialize)]
struct NodeView {
    id: String,
    site: String,
    rack: String,
    known: bool,
}

#[derive(Serialize)]
struct AddressView {
    range: String,
    site: String,
    rack: Option<String>,
}

#[derive(Serialize)]
struct LinkView {
    sites: Vec<String>,
    distance_millis: Option<u32>,
    limit_bytes_per_second: Option<u64>,
}

impl From<TopologyStatus> for TopologyView {
    fn from(status: TopologyStatus) -> Self {
        let TopologyStatus { file, fault, topology, places } = status;
        let view = |id: &protocol::NodeId, place: &protocol::Place, known| NodeView {
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
