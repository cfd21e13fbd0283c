//! What the master tells of the load of its nodes, now or earlier. Serves the path *load*. It never changes anything.

use std::time::Duration;

use protocol::{
    NodeId, Now, Reason, Refusal,
    message::{
        client_master::ClientReply,
        load::{LoadPage, LoadSeries, NodeLoad},
        request::{LoadRequest, LoadSeriesRequest},
    },
};

use crate::{Master, fleet::history_rings};

impl Master {
    pub(crate) fn load_page(&self, now: Now, asked: &LoadRequest) -> Result<ClientReply, Refusal> {
        let LoadRequest { seconds_ago, after } = asked;
        let sample_seconds = within_reach(*seconds_ago)?;
        let ago = Duration::from_secs(u64::from(*seconds_ago));
        let unix_millis = now.unix_millis.saturating_sub(ago.as_millis() as u64);
        let mut page = LoadPage { unix_millis, sample_seconds, nodes: Vec::new(), next: None };
        let mut rows = 0;
        let nodes = self.fleet.nodes.by_name().map(|(_, node)| node);
        for node in nodes.filter(|node| after.as_ref().is_none_or(|after| node.id > *after)) {
            if rows >= PAGE_ROWS_MAX {
                page.next = page.nodes.last().map(|last| last.node.clone());
                break;
            }
            let (disks, processes) = match seconds_ago {
                0 => node.load_history.details(now.monotonic),
                _ => (&[][..], &[][..]),
            };
            rows += 1 + disks.len() + processes.len();
            page.nodes.push(NodeLoad {
                node: node.id.clone(),
                place: node.place.clone(),
                machine: node.load_history.machine,
                sample: node.load_history.at(now.monotonic, *seconds_ago),
                disks: disks.to_vec(),
                processes: processes.to_vec(),
            });
        }
        Ok(ClientReply::Load(page))
    }

    pub(crate) fn load_series(&self, now: Now, asked: &LoadSeriesRequest) -> Result<ClientReply, Refusal> {
        let LoadSeriesRequest { node, seconds } = asked;
        let sample_seconds = within_reach(seconds.saturating_sub(1))?;
        let key = self.fleet.nodes.of_id(node).ok_or_else(|| unknown_node(node))?;
        let samples = self.fleet.nodes.get(key).load_history.series(now.monotonic, *seconds);
        Ok(ClientReply::LoadSeries(LoadSeries { unix_millis: now.unix_millis, sample_seconds, samples }))
    }
}

/// How many seconds a sample covers that is so old.
pub(super) fn within_reach(seconds_ago: u32) -> Result<u32, Refusal> {
    let resolution = history_rings::resolution(seconds_ago);
    if Duration::from_secs(u64::from(seconds_ago)) >= resolution.reach() {
        let hours = resolution.reach().as_secs() / 3_600;
        return Err(Refusal::new(Reason::Invalid, format!("what was measured is kept for {hours} hours")));
    }
    Ok(resolution.sample_seconds)
}

fn unknown_node(node: &NodeId) -> Refusal {
    Refusal::new(Reason::NotFound, format!("no node {node} is known; see `sector nodes`"))
}

/// Nodes, disks and processes after which a page ends: some 100 KB.
const PAGE_ROWS_MAX: usize = 1_000;
