//! A limit that several conversations share: a bucket of tokens that fills at the limit's rate, with three queues
//! before it. Tests below prove its promises. No span of time passes more bytes than the rate allows in it, plus one
//! burst. While someone waits, nothing of the rate is lost. Priorities share the rate by weight, so none ever starves.
//! Within a priority the first to come passes first. It serves every limited path, and never waits or reads a clock.

use std::{collections::VecDeque, time::Duration};

use super::Priority;
use crate::limits::BLOCK_BYTES;

/// A limit and its waiters.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate_bytes_per_second: Option<u64>,
    /// What may pass now, in billionths of a byte; negative where a limit was lowered meanwhile.
    tokens: i128,
    /// When `tokens` was last updated, on the caller's clock.
    at: Duration,
    queues: [Queue; Priority::ALL.len()],
    /// The [`Queue::served`] of the queue that passed last: a queue where nobody waited meanwhile has no arrears.
    served: u64,
    last: u64,
}

/// Identifies a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(u64);

#[derive(Clone, Debug, Default)]
struct Queue {
    waiting: VecDeque<(WaiterId, u64)>,
    /// Bytes that passed, divided by the priority's weight; the queue that is behind the others is next.
    served: u64,
}

impl TokenBucket {
    /// A limit at which nobody waits, with a whole burst to begin with. `None`: there is no limit.
    pub fn new(now: Duration, rate_bytes_per_second: Option<u64>) -> Self {
        let mut bucket =
            Self { rate_bytes_per_second, tokens: 0, at: now, queues: Default::default(), served: 0, last: 0 };
        bucket.tokens = units(bucket.burst_bytes());
        bucket
    }

    /// The limit.
    pub fn rate_bytes_per_second(&self) -> Option<u64> {
        self.rate_bytes_per_second
    }

    /// Sets another limit. Tokens gathered under the old one are kept, up to the new one's burst.
    pub fn set_rate(&mut self, now: Duration, rate_bytes_per_second: Option<u64>) {
        self.fill(now);
        self.rate_bytes_per_second = rate_bytes_per_second;
        self.tokens = self.tokens.min(units(self.burst_bytes()));
    }

    /// Most bytes that pass at once after a pause: a twentieth of a second's, at least a block.
    pub fn burst_bytes(&self) -> u64 {
        let rate = self.rate_bytes_per_second.unwrap_or(u64::MAX);
        (rate / BURSTS_PER_SECOND).clamp(BLOCK_BYTES, BURST_BYTES_MAX)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting.len()).sum()
    }

    /// A waiter for `bytes`, a burst at most (more pass too, but later waiters wait for it).
    pub fn enqueue(&mut self, priority: Priority, bytes: u64) -> WaiterId {
        self.last += 1;
        let id = WaiterId(self.last);
        let served = self.served;
        let queue = &mut self.queues[priority as usize];
        if queue.waiting.is_empty() {
            queue.served = queue.served.max(served);
        }
        queue.waiting.push_back((id, bytes));
        id
    }

    /// Removes a waiter.
    pub fn cancel(&mut self, id: WaiterId) {
        for queue in &mut self.queues {
            queue.waiting.retain(|(waiting, _)| *waiting != id);
        }
    }

    /// The waiter that passes now, if any: the next of the queue that is furthest behind, once its bytes are there.
    pub fn try_grant(&mut self, now: Duration) -> Option<WaiterId> {
        self.fill(now);
        let next = self.next()?;
        let (id, bytes) = *self.queues[next as usize].waiting.front()?;
        if self.rate_bytes_per_second.is_some() {
            if self.tokens < units(bytes.min(self.burst_bytes())) {
                return None;
            }
            self.tokens -= units(bytes);
        }
        let queue = &mut self.queues[next as usize];
        queue.waiting.pop_front();
        self.served = queue.served;
        queue.served += bytes * (Priority::High.weight() / next.weight());
        Some(id)
    }

    /// When the next waiter passes; `None` while nobody waits.
    pub fn next_grant_at(&self) -> Option<Duration> {
        let (_, bytes) = self.queues[self.next()? as usize].waiting.front()?;
        let Some(rate) = self.rate_bytes_per_second else { return Some(self.at) };
        let missing = units((*bytes).min(self.burst_bytes())) - self.tokens;
        let nanos = u128::try_from(missing).unwrap_or(0).div_ceil(u128::from(rate.max(1)));
        Some(self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    fn next(&self) -> Option<Priority> {
        let waiting = |priority: &Priority| !self.queues[*priority as usize].waiting.is_empty();
        Priority::ALL.into_iter().filter(waiting).min_by_key(|priority| self.queues[*priority as usize].served)
    }

    fn fill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.at);
        self.at += elapsed;
        if let Some(rate) = self.rate_bytes_per_second {
            let filled = i128::from(rate) * elapsed.as_nanos() as i128;
            self.tokens = (self.tokens + filled).min(units(self.burst_bytes()));
        }
    }
}

fn units(bytes: u64) -> i128 {
    i128::from(bytes) * 1_000_000_000
}

/// See [`TokenBucket::burst_bytes`].
const BURSTS_PER_SECOND: u64 = 20;
/// The largest burst in bytes: four frames, which hides the delay of a timer on a fast link.
const BURST_BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Lets all pass who may until `until`; returns when and who, in order.
    fn run(bucket: &mut TokenBucket, until: Duration) -> Vec<(Duration, WaiterId)> {
        let mut passed = Vec::new();
        while let Some(at) = bucket.next_grant_at().filter(|at| *at <= until) {
            if let Some(id) = bucket.try_grant(at) {
                passed.push((at, id));
            }
        }
        passed
    }

    /// Arrivals: each comes this many milliseconds after the one before, with so many bytes.
    fn comers() -> impl Strategy<Value = Vec<(u64, usize, u64)>> {
        prop::collection::vec((0..200_u64, 0..3_usize, 1..=BLOCK_BYTES), 1..200)
    }

    proptest! {
        // Promise 46.
        #[test]
        fn in_no_span_more_passes_than_its_rate_and_a_burst(rate in 20_000..50_000_000_u64, comers in comers()) {
            let mut bucket = TokenBucket::new(Duration::ZERO, Some(rate));
            let (mut now, mut bytes_of, mut passed) = (Duration::ZERO, BTreeMap::new(), Vec::new());
            for (pause, class, bytes) in comers {
                now += Duration::from_millis(pause);
                passed.extend(run(&mut bucket, now));
                bytes_of.insert(bucket.enqueue(Priority::ALL[class], bytes), bytes);
            }
            passed.extend(run(&mut bucket, Duration::MAX));
            prop_assert_eq!(passed.len(), bytes_of.len(), "everyone passes at last");
            let burst = bucket.burst_bytes();
            for (first, (begin, _)) in passed.iter().enumerate() {
                let mut sum = 0;
                for (end, id) in &passed[first..] {
                    sum += bytes_of[id];
                    let allowed = u128::from(rate) * (*end - *begin).as_nanos() / 1_000_000_000;
                    prop_assert!(u128::from(sum) <= allowed + u128::from(burst) + 1, "{sum} in {:?}", *end - *begin);
                }
            }
        }

        // Promise 46.
        #[test]
        fn while_someone_waits_nothing_of_the_rate_is_lost(rate in 20_000..50_000_000_u64, sizes in prop::collection::vec(1..=BLOCK_BYTES, 2..100)) {
            let mut bucket = TokenBucket::new(Duration::ZERO, Some(rate));
            for (at, bytes) in sizes.iter().enumerate() {
                bucket.enqueue(Priority::ALL[at % 3], *bytes);
            }
            let passed = run(&mut bucket, Duration::MAX);
            let last = passed.last().unwrap().0;
            // Only the last piece may still be missing when the one before it has passed.
            let total: u64 = sizes.iter().sum();
            let needed = total.saturating_sub(bucket.burst_bytes()) as f64 / rate as f64;
            prop_assert!(last.as_secs_f64() <= needed + 1e-6, "{last:?} for {needed} s");
        }

        // Promise 50.
        #[test]
        fn what_waits_shares_by_weight(rate in 100_000..50_000_000_u64, classes in prop::sample::subsequence(Priority::ALL.to_vec(), 2..=3)) {
            const EACH: usize = 400;
            let mut bucket = TokenBucket::new(Duration::ZERO, Some(rate));
            let mut class_of = BTreeMap::new();
            for priority in &classes {
                for _ in 0..EACH {
                    class_of.insert(bucket.enqueue(*priority, BLOCK_BYTES), *priority);
                }
            }
            let mut passed: BTreeMap<Priority, u64> = BTreeMap::new();
            for (_, id) in run(&mut bucket, Duration::MAX) {
                let count = passed.entry(class_of[&id]).or_default();
                *count += 1;
                if *count == EACH as u64 {
                    break;
                }
            }
            for pair in classes.windows(2) {
                let (a, b) = (passed[&pair[0]] as f64, passed.get(&pair[1]).copied().unwrap_or(0) as f64);
                let share = pair[0].weight() as f64 / pair[1].weight() as f64;
                prop_assert!((a / share - b).abs() <= 1.0, "{passed:?}");
            }
        }
    }

    #[test]
    fn of_one_priority_the_first_goes_first() {
        let mut bucket = TokenBucket::new(Duration::ZERO, Some(100_000));
        let ids: Vec<_> = (0..10).map(|_| bucket.enqueue(Priority::Normal, 30_000)).collect();
        let passed: Vec<_> = run(&mut bucket, Duration::MAX).into_iter().map(|(_, id)| id).collect();
        assert_eq!(passed, ids);
    }

    // Promise 50.
    #[test]
    fn a_low_one_passes_though_high_ones_come_without_end() {
        let mut bucket = TokenBucket::new(Duration::ZERO, Some(1 << 20));
        let low = bucket.enqueue(Priority::Low, BLOCK_BYTES);
        bucket.enqueue(Priority::High, BLOCK_BYTES);
        let mut before = 0;
        loop {
            let at = bucket.next_grant_at().unwrap();
            let Some(id) = bucket.try_grant(at) else { continue };
            if id == low {
                break;
            }
            before += 1;
            bucket.enqueue(Priority::High, BLOCK_BYTES);
        }
        assert!(before <= 16, "{before} high ones passed before it");
    }

    #[test]
    fn a_long_pause_saves_up_no_more_than_a_burst_and_no_arrears() {
        let mut bucket = TokenBucket::new(Duration::ZERO, Some(10 << 20));
        bucket.enqueue(Priority::High, BLOCK_BYTES);
        assert_eq!(run(&mut bucket, Duration::from_secs(3_600)).len(), 1);
        // The low one slept all the time; that does not give it the next minute.
        for _ in 0..40 {
            bucket.enqueue(Priority::High, BLOCK_BYTES);
        }
        let now = Duration::from_secs(3_600);
        let low = bucket.enqueue(Priority::Low, BLOCK_BYTES);
        let second_low = bucket.enqueue(Priority::Low, BLOCK_BYTES);
        let mut order: Vec<_> = std::iter::from_fn(|| bucket.try_grant(now)).collect();
        assert_eq!(order.len() as u64, bucket.burst_bytes() / BLOCK_BYTES);
        order.extend(run(&mut bucket, Duration::MAX).into_iter().map(|(_, id)| id));
        let place = |id| order.iter().position(|passed| *passed == id).unwrap();
        assert!(place(second_low) > place(low) + 10);
    }

    #[test]
    fn another_limit_holds_at_once_for_those_who_wait() {
        let mut bucket = TokenBucket::new(Duration::ZERO, Some(100 << 20));
        for _ in 0..100 {
            bucket.enqueue(Priority::Normal, 1 << 20);
        }
        let burst = std::iter::from_fn(|| bucket.try_grant(Duration::ZERO)).count();
        assert_eq!(burst, 4, "five per cent of a second, a frame's room left over");
        bucket.set_rate(Duration::ZERO, Some(1 << 20));
        let in_ten_seconds = run(&mut bucket, Duration::from_secs(10)).len();
        assert!((9..=11).contains(&in_ten_seconds), "{in_ten_seconds}");
        bucket.set_rate(Duration::from_secs(10), None);
        assert_eq!(std::iter::from_fn(|| bucket.try_grant(Duration::from_secs(10))).count(), 96 - in_ten_seconds);
    }

    #[test]
    fn one_that_leaves_holds_nobody_up() {
        let mut bucket = TokenBucket::new(Duration::ZERO, Some(1 << 20));
        bucket.enqueue(Priority::High, BLOCK_BYTES);
        let gone = bucket.enqueue(Priority::High, 1 << 20);
        let stays = bucket.enqueue(Priority::Low, BLOCK_BYTES);
        bucket.cancel(gone);
        assert_eq!(bucket.waiting(), 2);
        assert_eq!(run(&mut bucket, Duration::from_millis(100)).last().map(|(_, id)| *id), Some(stays));
    }
}
