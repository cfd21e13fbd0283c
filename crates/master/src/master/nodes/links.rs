//! What the master tells of the links between sites, now or earlier, and how it takes the reports of nodes. Serves the
//! path *links*. It never changes a limit.

use std::time::Duration;

use protocol::{
    Now, Reason, Refusal,
    message::{
        client_master::ClientReply,
        links::{LinkPage, LinkReport, LinkSeries, MeasuredLink},
        request::{LinkSeriesRequest, LinksRequest},
    },
};

use super::load::within_reach;
use crate::{Master, fleet::nodes::NodeKey};

impl Master {
    /// A node has reported; it counts for the site where it stands now.
    pub(crate) fn note_links(&mut self, now: Now, key: NodeKey, report: LinkReport) {
        let node = self.fleet.nodes.get_mut(key);
        let mut progress = node.link_progress;
        self.fleet.links.add(now.monotonic, &node.place.site, &mut progress, report);
        node.link_progress = progress;
    }

    pub(crate) fn link_page(&self, now: Now, asked: &LinksRequest) -> Result<ClientReply, Refusal> {
        let LinksRequest { seconds_ago, after } = asked;
        let mut sample_seconds = within_reach(*seconds_ago)?;
        let (mut links, mut ended_seconds_ago, mut next) = (Vec::new(), 0, None);
        for (from, to) in self.fleet.links.names(after.as_ref()) {
            if links.len() >= PAGE_LINKS_MAX {
                next = links.last().map(|last: &MeasuredLink| (last.from.clone(), last.to.clone()));
                break;
            }
            let view = self.fleet.links.at(now.monotonic, (from, to), *seconds_ago);
            (sample_seconds, ended_seconds_ago) = (view.sample_seconds, view.ended_seconds_ago);
            let limit_bytes_per_second = self.fleet.nodes.topology().limit_bytes_per_second(from, to);
            links.push(MeasuredLink { from: from.into(), to: to.into(), rates: view.rates, limit_bytes_per_second });
        }
        Ok(ClientReply::Links(LinkPage { unix_millis: earlier(now, ended_seconds_ago), sample_seconds, links, next }))
    }

    pub(crate) fn link_series(&self, now: Now, asked: &LinkSeriesRequest) -> Result<ClientReply, Refusal> {
        let LinkSeriesRequest { from, to, seconds } = asked;
        within_reach(seconds.saturating_sub(1))?;
        let series = self.fleet.links.series(now.monotonic, (from, to), *seconds);
        let view = series.ok_or_else(|| unknown_link(from, to))?;
        Ok(ClientReply::LinkSeries(LinkSeries {
            unix_millis: earlier(now, view.ended_seconds_ago),
            sample_seconds: view.sample_seconds,
            samples: view.rates,
            limit_bytes_per_second: self.fleet.nodes.topology().limit_bytes_per_second(from, to),
        }))
    }
}

fn earlier(now: Now, seconds: u64) -> u64 {
    now.unix_millis.saturating_sub(Duration::from_secs(seconds).as_millis() as u64)
}

fn unknown_link(from: &str, to: &str) -> Refusal {
    let message = format!("nothing went from site {from:?} to site {to:?} within a day; see `sector links`");
    Refusal::new(Reason::NotFound, message)
}

/// Links after which a page ends: some 200 KB where names are as long as they may be.
const PAGE_LINKS_MAX: usize = 1_000;
