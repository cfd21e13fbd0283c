//! How fast a client's transfers go together, and their priority ([`Throttle`]), for upload, download and copies. The
//! sender keeps to the limit: this client if it sends, else the node, which gets it with each request. Received bytes
//! are counted here too, so that many short requests do not each get a burst of their own. It never sends or receives a
//! byte itself.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use net::rate_limiter::{LimiterChain, RateLimiter};
use protocol::{Priority, TransferQos, limits::FRAME_BYTES_MAX, rate_limit::RATE_BYTES_PER_SECOND_MIN};

/// A limit for all transfers of the [clients](crate::Client::throttled) that share it. Clones are the same limit.
#[derive(Clone)]
pub struct Throttle {
    limiter: Arc<RateLimiter>,
    priority: Priority,
    /// Copies under way, which nodes make: each node knows only its own.
    copies: Arc<AtomicUsize>,
}

impl Throttle {
    /// At most this many bytes per second in all (`None`: no limit), but never less than [`RATE_BYTES_PER_SECOND_MIN`].
    /// `priority` says which transfers go first if nodes must keep to a limit between sites.
    pub fn new(rate_bytes_per_second: Option<u64>, priority: Priority) -> Self {
        Self {
            limiter: Arc::new(RateLimiter::new(rate_bytes_per_second.map(at_least))),
            priority,
            copies: Arc::default(),
        }
    }

    /// Sets another limit, even for transfers under way: at once if this client sends, and within some seconds if a
    /// node does.
    pub fn set_rate(&self, rate_bytes_per_second: Option<u64>) {
        self.limiter.set_rate(rate_bytes_per_second.map(at_least));
    }

    /// The limit, in bytes per second.
    pub fn rate_bytes_per_second(&self) -> Option<u64> {
        self.limiter.rate_bytes_per_second()
    }

    /// Bytes of files that passed over connections since it was made, in both directions.
    pub fn transferred_bytes(&self) -> u64 {
        self.limiter.granted_bytes()
    }

    /// The limit for one of `senders` that send at the same time.
    pub(crate) fn qos_per_sender(&self, senders: usize) -> TransferQos {
        let share = |rate: u64| at_least(rate / senders.max(1) as u64);
        TransferQos { rate_bytes_per_second: self.rate_bytes_per_second().map(share), priority: self.priority }
    }

    /// Counts a copy that a node makes, until the share is dropped.
    pub(crate) fn begin_copy(&self) -> CopyShare {
        self.copies.fetch_add(1, Ordering::Relaxed);
        CopyShare { throttle: self.clone() }
    }

    /// The limiters of this client's own bytes.
    pub(crate) fn send_limiter(&self) -> LimiterChain {
        LimiterChain::new(vec![Arc::clone(&self.limiter)], self.priority)
    }

    /// Counts received bytes: the next ones are not read before these would have come at the limit.
    pub(crate) async fn acquire(&self, bytes: u64) {
        self.limiter.acquire(self.priority, bytes).await;
    }

    /// How many of this many senders may send at once: a low rate is even only with few senders.
    pub(crate) fn senders_max(&self, wanted: usize) -> usize {
        let most = self.rate_bytes_per_second().map_or(u64::MAX, |rate| rate / SENDER_BYTES_PER_SECOND_MIN);
        wanted.min(usize::try_from(most).unwrap_or(usize::MAX).max(1))
    }

    /// The longest range requested at once, in whole frames, so that a new limit takes effect soon.
    pub(crate) fn range_bytes(&self, most: u64, senders: usize) -> u64 {
        let frame = FRAME_BYTES_MAX as u64;
        let Some(rate) = self.qos_per_sender(senders).rate_bytes_per_second else { return most };
        rate.saturating_mul(RANGE_SECONDS).div_ceil(frame).saturating_mul(frame).min(most)
    }
}

impl Default for Throttle {
    /// No limit.
    fn default() -> Self {
        Self::new(None, Priority::default())
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Throttle({:?})", self.qos_per_sender(1))
    }
}

/// One copy's share of a limit.
pub(crate) struct CopyShare {
    throttle: Throttle,
}

impl CopyShare {
    /// The limit for this copy now: all copies under way share the whole.
    pub(crate) fn qos(&self) -> TransferQos {
        self.throttle.qos_per_sender(self.throttle.copies.load(Ordering::Relaxed))
    }
}

impl Drop for CopyShare {
    fn drop(&mut self) {
        self.throttle.copies.fetch_sub(1, Ordering::Relaxed);
    }
}

fn at_least(rate: u64) -> u64 {
    rate.max(RATE_BYTES_PER_SECOND_MIN)
}

/// The least that one sender gets before another is asked too: 8 Mbit/s.
const SENDER_BYTES_PER_SECOND_MIN: u64 = 1_000_000;
/// How long a node sends at a rate before it gets another request, and perhaps another rate.
const RANGE_SECONDS: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_send_at_once_keep_to_the_limit_together() {
        let throttle = Throttle::new(Some(10_000_000), Priority::Low);
        assert_eq!(throttle.senders_max(8), 8);
        let pace = throttle.qos_per_sender(8);
        assert_eq!((pace.rate_bytes_per_second, pace.priority), (Some(1_250_000), Priority::Low));
        throttle.set_rate(Some(125_000));
        assert_eq!((throttle.senders_max(8), throttle.range_bytes(16 << 20, 1)), (1, 1 << 20));
        throttle.set_rate(Some(1));
        assert_eq!(throttle.rate_bytes_per_second(), Some(RATE_BYTES_PER_SECOND_MIN));
        throttle.set_rate(None);
        assert_eq!((throttle.senders_max(8), throttle.range_bytes(16 << 20, 8)), (8, 16 << 20));
    }

    // Promise 46.
    #[test]
    fn copies_that_nodes_make_at_the_same_time_share_the_limit() {
        let throttle = Throttle::new(Some(8_000_000), Priority::Low);
        let rate = |share: &CopyShare| share.qos().rate_bytes_per_second;
        let first = throttle.begin_copy();
        assert_eq!(rate(&first), Some(8_000_000));
        let second = throttle.clone().begin_copy();
        assert_eq!((rate(&first), rate(&second)), (Some(4_000_000), Some(4_000_000)));
        drop(first);
        assert_eq!(rate(&second), Some(8_000_000));
    }
}
