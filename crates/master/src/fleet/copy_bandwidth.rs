//! How much of each limited link copies use now. Serves replication and rebalancing. The operator limits the bytes per
//! second that copies may take between two sites, and running copies together never exceed that limit. Each copy gets a
//! rate at which the fetching node reads: half of the free rate, and at least an eighth of the limit. So one large copy
//! does not hold up the others for hours, and a few fill the link. Copies that a client waits for are part of an upload
//! and never counted.

use std::collections::BTreeMap;

use crate::fleet::nodes::{Nodes, SiteKey};

/// The rates that are in use.
#[derive(Debug, Default)]
pub(crate) struct CopyBandwidth {
    taken: BTreeMap<Pair, u64>,
}

/// A share of a link, held by one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BandwidthShare {
    pair: Pair,
    /// The rate that the copy may use.
    pub(crate) rate_bytes_per_second: u64,
}

/// Two sites in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair(SiteKey, SiteKey);

impl CopyBandwidth {
    /// Whether another copy may begin between two sites.
    pub(crate) fn has_room(&self, nodes: &Nodes, a: SiteKey, b: SiteKey) -> bool {
        limit(nodes, a, b).is_none_or(|limit| self.free(Pair::new(a, b), limit) >= least_share(limit))
    }

    /// Takes a share of the link between two sites; `None` if it has no limit.
    pub(crate) fn reserve(&mut self, nodes: &Nodes, a: SiteKey, b: SiteKey) -> Option<BandwidthShare> {
        let limit = limit(nodes, a, b)?;
        let pair = Pair::new(a, b);
        let free = self.free(pair, limit);
        let rate_bytes_per_second = (free / 2).max(least_share(limit)).min(free.max(SHARE_BYTES_PER_SECOND_MIN));
        *self.taken.entry(pair).or_default() += rate_bytes_per_second;
        Some(BandwidthShare { pair, rate_bytes_per_second })
    }

    /// Gives a share back.
    pub(crate) fn release(&mut self, share: BandwidthShare) {
        if let Some(taken) = self.taken.get_mut(&share.pair) {
            *taken = taken.saturating_sub(share.rate_bytes_per_second);
            if *taken == 0 {
                self.taken.remove(&share.pair);
            }
        }
    }

    fn free(&self, pair: Pair, limit: u64) -> u64 {
        limit.saturating_sub(self.taken.get(&pair).copied().unwrap_or(0))
    }
}

impl Pair {
    fn new(a: SiteKey, b: SiteKey) -> Self {
        if a <= b { Self(a, b) } else { Self(b, a) }
    }
}

fn limit(nodes: &Nodes, a: SiteKey, b: SiteKey) -> Option<u64> {
    nodes.topology().limit_bytes_per_second(nodes.sites().name(a), nodes.sites().name(b))
}

fn least_share(limit: u64) -> u64 {
    (limit / 8).max(SHARE_BYTES_PER_SECOND_MIN)
}

/// The least that a copy gets, in bytes per second. At a lower rate, a frame of 1 MiB would keep its sender waiting
/// longer than a connection may stay silent.
const SHARE_BYTES_PER_SECOND_MIN: u64 = 64 * 1024;
