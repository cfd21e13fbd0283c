//! What this node carries to and from each site, its own included. Bytes of files are counted by conversation. Losses
//! and round trips are those of the connections under them. Serves the path *links*. Counts stay while the node runs. It never limits
//! anything: [`SiteLimiters`](super::site_limiters::SiteLimiters) do.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use net::transfer::{LinkMeter, TransportCounts};
use protocol::message::links::LINK_SITES_MAX;

/// The links, by far site.
#[derive(Debug, Default)]
pub(crate) struct SiteLinks {
    by_site: Mutex<BTreeMap<String, Arc<SiteLink>>>,
}

/// One link, as this node uses it.
#[derive(Debug, Default)]
pub(crate) struct SiteLink {
    sent_bytes: Arc<AtomicU64>,
    received_bytes: Arc<AtomicU64>,
    pub(crate) meter: LinkMeter,
}

/// Where the bytes of a conversation go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkDirection {
    /// From this node.
    Sent,
    /// To this node.
    Received,
}

/// What a link has carried since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkTotals {
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) transport: TransportCounts,
}

impl SiteLinks {
    /// The link with a site; `None` for one site too many.
    pub(crate) fn of(&self, far: &str) -> Option<Arc<SiteLink>> {
        let mut by_site = self.by_site.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = by_site.get(far) {
            return Some(Arc::clone(link));
        }
        if by_site.len() >= LINK_SITES_MAX {
            return None;
        }
        Some(Arc::clone(by_site.entry(far.to_owned()).or_default()))
    }

    /// What each has carried.
    pub(crate) fn totals(&self) -> Vec<(String, LinkTotals)> {
        let links: Vec<_> = {
            let by_site = self.by_site.lock().unwrap_or_else(PoisonError::into_inner);
            by_site.iter().map(|(site, link)| (site.clone(), Arc::clone(link))).collect()
        };
        // Reading connections takes a while, and no conversation waits for it.
        links.into_iter().map(|(site, link)| (site, link.totals())).collect()
    }
}

impl SiteLink {
    /// Where bytes of files are counted that go this way.
    pub(crate) fn bytes(&self, direction: LinkDirection) -> Arc<AtomicU64> {
        Arc::clone(match direction {
            LinkDirection::Sent => &self.sent_bytes,
            LinkDirection::Received => &self.received_bytes,
        })
    }

    fn totals(&self) -> LinkTotals {
        LinkTotals {
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            transport: self.meter.counts(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_direction_counts_for_itself_and_sites_are_bounded() {
        let links = SiteLinks::default();
        let jhu = links.of("jhu").unwrap();
        jhu.bytes(LinkDirection::Sent).fetch_add(3, Ordering::Relaxed);
        links.of("jhu").unwrap().bytes(LinkDirection::Received).fetch_add(5, Ordering::Relaxed);
        let totals = LinkTotals { sent_bytes: 3, received_bytes: 5, transport: TransportCounts::default() };
        assert_eq!(links.totals(), [("jhu".to_owned(), totals)]);
        for number in 1..LINK_SITES_MAX {
            assert!(links.of(&number.to_string()).is_some());
        }
        assert!(links.of("one too many").is_none());
        assert!(links.of("jhu").is_some());
    }
}
