//! `topology show`, `reload` and `check`: where nodes and networks are. It never edits the topology's file.

use std::path::Path;

use client::{
    Client, TopologyStatus,
    views::{TopologyView, links},
};
use protocol::rate;
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
