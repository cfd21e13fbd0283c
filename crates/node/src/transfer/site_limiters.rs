//! Limits this node's bytes to and from each other site, by the shares of the limits between sites that the master
//! assigns. Serves every path on which bytes leave a site. All conversations with one site share one limiter, so
//! together they keep to the share, by priority. With a client the node pays. Two nodes never both pay: the sender
//! does, except that a task's reads are paid by the reader.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use net::{
    identity::Bearer,
    rate_limiter::{LimiterChain, RateLimiter},
    transfer::TransferStream,
};
use protocol::{
    TransferQos,
    message::node_master::{LinkShare, LinkUse},
    rate_limit::RATE_BYTES_PER_SECOND_MIN,
    ticket::{Holder, SignedTicket, Ticket},
    ticket_verifier::ProvedBearer,
    wire::codec,
};

use super::site_links::{LinkDirection, SiteLink, SiteLinks};

/// The limiters, by far site.
#[derive(Debug, Default)]
pub(crate) struct SiteLimiters {
    by_site: Mutex<BTreeMap<String, Arc<SiteLimiter>>>,
    /// What goes over the links, limited or not.
    pub(crate) links: SiteLinks,
}

#[derive(Debug)]
struct SiteLimiter {
    limiter: Arc<RateLimiter>,
    conversations: AtomicU32,
}

impl SiteLimiters {
    /// The limiter of a conversation with a peer at the site `far`: the requested pace, and the share of the link. What
    /// passes it is counted for that link. If the peer's site is unknown, only the pace counts.
    pub(crate) fn for_transfer(
        &self,
        far: Option<&str>,
        direction: LinkDirection,
        pace: TransferQos,
    ) -> TransferLimiter {
        let own = pace
            .rate_bytes_per_second
            .map(|rate| Arc::new(RateLimiter::new(Some(rate.max(RATE_BYTES_PER_SECOND_MIN)))));
        let site_gate = far.and_then(|far| self.of(far));
        let gates = own.into_iter().chain(site_gate.as_ref().map(|site_gate| Arc::clone(&site_gate.limiter))).collect();
        if let Some(site_gate) = &site_gate {
            site_gate.conversations.fetch_add(1, Ordering::Relaxed);
        }
        let mut limiter = LimiterChain::new(gates, pace.priority);
        let link = far.and_then(|far| self.links.of(far));
        if let Some(link) = &link {
            limiter = limiter.counted_in(link.bytes(direction));
        }
        TransferLimiter { site_limiter: site_gate, limiter, link }
    }

    /// Sets the shares of this node; sites that are not named have no limit. They apply at once to transfers under way.
    pub(crate) fn set_shares(&self, shares: &[LinkShare]) {
        for LinkShare { site, .. } in shares {
            self.of(site);
        }
        for (site, site_gate) in self.lock().iter() {
            let share = shares.iter().find(|share| share.site == *site);
            site_gate.limiter.set_rate(share.map(|share| share.rate_bytes_per_second.max(1)));
        }
    }

    /// The limit to this site in bytes per second, if there is one.
    pub(crate) fn limit(&self, far: &str) -> Option<u64> {
        self.lock().get(far)?.limiter.rate_bytes_per_second()
    }

    /// The usage of each site's link, for the master.
    pub(crate) fn uses(&self) -> Vec<LinkUse> {
        let mut by_site = self.lock();
        by_site.retain(|_, site_gate| !site_gate.is_idle());
        let link_use = |(site, site_gate): (&String, &Arc<SiteLimiter>)| LinkUse {
            site: site.clone(),
            conversations: site_gate.conversations.load(Ordering::Relaxed),
            waiting: u32::try_from(site_gate.limiter.waiting()).unwrap_or(u32::MAX),
            rate_bytes_per_second: site_gate.limiter.rate_bytes_per_second(),
        };
        by_site.iter().map(link_use).collect()
    }

    fn of(&self, far: &str) -> Option<Arc<SiteLimiter>> {
        let mut by_site = self.lock();
        if let Some(site_gate) = by_site.get(far) {
            return Some(Arc::clone(site_gate));
        }
        if by_site.len() >= SITES_MAX {
            by_site.retain(|_, site_gate| !site_gate.is_idle());
        }
        if by_site.len() >= SITES_MAX {
            return None;
        }
        let site_gate =
            Arc::new(SiteLimiter { limiter: Arc::new(RateLimiter::new(None)), conversations: AtomicU32::new(0) });
        by_site.insert(far.to_owned(), Arc::clone(&site_gate));
        Some(site_gate)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<SiteLimiter>>> {
        // Each change under this lock is complete in itself.
        self.by_site.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SiteLimiter {
    /// Whether nothing would be lost by dropping it.
    fn is_idle(&self) -> bool {
        self.conversations.load(Ordering::Relaxed) == 0 && self.limiter.rate_bytes_per_second().is_none()
    }
}

/// The limiter of one conversation, counted while it lives.
#[derive(Debug)]
pub(crate) struct TransferLimiter {
    site_limiter: Option<Arc<SiteLimiter>>,
    limiter: LimiterChain,
    link: Option<Arc<SiteLink>>,
}

impl TransferLimiter {
    /// What its bytes wait for.
    pub(crate) fn limiter(&self) -> &LimiterChain {
        &self.limiter
    }

    /// Counts what the connection of the conversation meets on its way for the link, if the site is known.
    pub(crate) fn meter(&self, stream: &mut TransferStream) {
        if let Some(link) = &self.link {
            stream.meter_with(&link.meter);
        }
    }
}

impl Drop for TransferLimiter {
    fn drop(&mut self) {
        if let Some(site_gate) = &self.site_limiter {
            site_gate.conversations.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The site of the peer that presented a checked ticket, if this node pays for the link to it. A node that uses a
/// client's ticket pays itself: the ticket says where the client is.
pub(crate) fn remote_site(bearer: &Bearer, ticket: &SignedTicket) -> Option<String> {
    let ticket: Ticket = codec::decode(&ticket.ticket).ok()?;
    match ticket.holder {
        Holder::Client(_) if bearer.is_role() => None,
        _ => ticket.holder_site,
    }
}

/// Sites remembered at once: far more than a cloud has.
const SITES_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use protocol::Priority;
    use tokio::time::Instant;

    use super::*;

    fn share(site: &str, rate_bytes_per_second: u64) -> LinkShare {
        LinkShare { site: site.into(), rate_bytes_per_second }
    }

    // Promise 48.
    #[tokio::test(start_paused = true)]
    async fn all_conversations_with_a_site_keep_to_its_share_together_also_those_under_way() {
        let gates = Arc::new(SiteLimiters::default());
        let (begun, mut tasks) = (Instant::now(), tokio::task::JoinSet::new());
        for _ in 0..4 {
            let crossing = gates.for_transfer(Some("uic"), LinkDirection::Sent, TransferQos::default());
            tasks.spawn(async move {
                // A second of unlimited speed, then what is left.
                tokio::time::sleep(Duration::from_secs(1)).await;
                for _ in 0..16 {
                    crossing.limiter().acquire(64 * 1024).await;
                }
            });
        }
        gates.set_shares(&[share("uic", 1 << 20), share("jhu", 1)]);
        let elsewhere = gates.for_transfer(Some("starlight"), LinkDirection::Sent, TransferQos::default());
        elsewhere.limiter().acquire(1 << 40).await;
        gates.for_transfer(None, LinkDirection::Sent, TransferQos::default()).limiter().acquire(1 << 40).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "other sites are not held up");
        let uses = gates.uses();
        assert_eq!(uses.iter().find(|of| of.site == "uic").unwrap().conversations, 4);
        tasks.join_all().await;
        let span = begun.elapsed();
        assert!((Duration::from_millis(4_800)..Duration::from_millis(5_200)).contains(&span), "{span:?}");
        drop(elsewhere);
        gates.set_shares(&[]);
        let counted: Vec<_> =
            gates.links.totals().into_iter().map(|(site, totals)| (site, totals.sent_bytes)).collect();
        assert_eq!(counted, [("starlight".into(), 1 << 40), ("uic".into(), 4 << 20)], "with a limit or without");
        assert_eq!(gates.uses(), [], "nothing is kept in mind of what is over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_transfer_keeps_to_its_own_limit_and_to_its_sites_whichever_is_lower() {
        let gates = SiteLimiters::default();
        gates.set_shares(&[share("uic", 1 << 20)]);
        for (own, seconds) in [(1 << 18, 16), (1 << 30, 4)] {
            let begun = Instant::now();
            let pace = TransferQos { rate_bytes_per_second: Some(own), priority: Priority::High };
            let crossing = gates.for_transfer(Some("uic"), LinkDirection::Sent, pace);
            for _ in 0..64 {
                crossing.limiter().acquire(64 * 1024).await;
            }
            let span = begun.elapsed().as_secs_f64();
            assert!((span - f64::from(seconds)).abs() < 0.5, "{span}");
        }
    }
}
