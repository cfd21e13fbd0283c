//! What links carry when they are full, each direction by itself. A link that was never full may carry much more than it
//! did. So only seconds count in which nodes said that the network held them up. Serves the path *judgement*. It never
//! counts what goes on within a site.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use super::comparison::{Comparison, compare, upper_median};

/// What is known of links.
#[derive(Debug, Default)]
pub(crate) struct LinkEvidence {
    /// By the site that sends and the one that receives.
    by_direction: BTreeMap<(String, String), Direction>,
}

/// A link in one direction, and how it compares.
pub(crate) struct JudgedLink {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Costs are seconds a byte.
    pub(crate) comparison: Comparison,
}

#[derive(Debug, Default)]
struct Direction {
    /// Seconds in which it was full, and that were not looked at.
    full: BTreeSet<u64>,
    /// What it carried in full seconds, in bytes per second: a number a span, with its time.
    carried: VecDeque<(Duration, f64)>,
}

impl LinkEvidence {
    /// A node was held up by this link through the second that has just ended.
    pub(crate) fn add(&mut self, now: Duration, from: &str, to: &str) {
        let key = (from.to_owned(), to.to_owned());
        if from == to || (self.by_direction.len() >= DIRECTIONS_MAX && !self.by_direction.contains_key(&key)) {
            return;
        }
        let full = &mut self.by_direction.entry(key).or_default().full;
        full.insert(now.as_secs().saturating_sub(1));
        while full.len() > FULL_MAX {
            full.pop_first();
        }
    }

    /// How the links compare that were full since the last time. `rate` says what went over a link in a second.
    pub(crate) fn judge(&mut self, now: Duration, rate: impl Fn(&str, &str, u64) -> Option<f64>) -> Vec<JudgedLink> {
        let mut fresh = Vec::new();
        for ((from, to), direction) in &mut self.by_direction {
            if let Some(carried) = direction.measure(now, |second| rate(from, to, second)) {
                fresh.push((from.clone(), to.clone(), carried));
            }
        }
        self.by_direction.retain(|_, direction| direction.is_of_use(now));
        let judged = fresh.into_iter().filter_map(|(from, to, carried)| {
            let is_peer = |(a, b): &(String, String)| (a, b) != (&from, &to) && (a, b) != (&to, &from);
            let peers = self.by_direction.iter().filter(|(sites, _)| is_peer(sites));
            let costs = peers.filter_map(|(_, direction)| Some(1.0 / direction.capacity()?)).collect();
            let comparison = compare(1.0 / carried, costs)?;
            Some(JudgedLink { from, to, comparison })
        });
        judged.collect()
    }

    /// What the link between two sites carries, both ways together, as far as it was measured. One way stands for both
    /// where only that was full.
    pub(crate) fn capacity(&self, a: &str, b: &str) -> Option<u64> {
        let one = |from: &str, to: &str| self.by_direction.get(&(from.to_owned(), to.to_owned()))?.capacity();
        let both = match (one(a, b), one(b, a)) {
            (Some(there), Some(back)) => there + back,
            (Some(known), None) | (None, Some(known)) => known * 2.0,
            (None, None) => return None,
        };
        Some(both.max(1.0) as u64)
    }

    /// Forgets the seconds that were not looked at.
    pub(crate) fn clear(&mut self) {
        self.by_direction.values_mut().for_each(|direction| direction.full.clear());
    }
}

impl Direction {
    /// What it carried in the full seconds since the last time, if they are enough.
    fn measure(&mut self, now: Duration, rate: impl Fn(u64) -> Option<f64>) -> Option<f64> {
        let complete = now.as_secs().saturating_sub(COMPLETE_AFTER_SECONDS);
        // A node's second lies across two of ours: those with full ones on both sides were full for sure.
        let is_inner =
            |second: &u64| self.full.contains(&(second.saturating_sub(1))) && self.full.contains(&(second + 1));
        let inner: Vec<u64> = self.full.iter().copied().filter(|second| *second < complete).filter(is_inner).collect();
        let last = *inner.last()?;
        let mut rates: Vec<f64> = inner.into_iter().filter_map(rate).filter(|rate| *rate > 0.0).collect();
        if rates.len() < SECONDS_MIN {
            return None;
        }
        self.full.retain(|second| *second >= last);
        let carried = upper_median(&mut rates);
        self.carried.push_back((now, carried));
        if self.carried.len() > CARRIED_MAX {
            self.carried.pop_front();
        }
        Some(carried)
    }

    fn capacity(&self) -> Option<f64> {
        let mut carried: Vec<f64> = self.carried.iter().map(|(_, carried)| *carried).collect();
        (!carried.is_empty()).then(|| upper_median(&mut carried))
    }

    fn is_of_use(&mut self, now: Duration) -> bool {
        self.carried.retain(|(at, _)| now.saturating_sub(*at) <= CARRIED_LIFE);
        self.full.retain(|second| now.as_secs().saturating_sub(*second) <= FULL_MAX as u64);
        !self.carried.is_empty() || !self.full.is_empty()
    }
}

/// Most directions that are kept, as many as links have histories.
const DIRECTIONS_MAX: usize = 1_024;
/// Full seconds that wait to be looked at: what a link did is known by the second for a minute.
const FULL_MAX: usize = 50;
/// From here on all nodes have reported a second.
const COMPLETE_AFTER_SECONDS: u64 = 3;
/// Full seconds without which nothing is said.
const SECONDS_MIN: usize = 3;
/// What is kept of a link: the median of so many spans is its capacity.
const CARRIED_MAX: usize = 12;
/// How long that counts. Links change less than nodes do.
const CARRIED_LIFE: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::judgement::comparison::Verdict;

    /// All these directions are full for some seconds, and carry so much.
    fn judged(evidence: &mut LinkEvidence, rates: &[(&str, &str, f64)], from: u64, seconds: u64) -> Vec<JudgedLink> {
        for second in from..from + seconds {
            rates.iter().for_each(|(a, b, _)| evidence.add(Duration::from_secs(second + 1), a, b));
        }
        let rate = |a: &str, b: &str, _| rates.iter().find(|(x, y, _)| (*x, *y) == (a, b)).map(|(_, _, rate)| *rate);
        evidence.judge(Duration::from_secs(from + seconds + 4), rate)
    }

    #[test]
    fn the_link_that_carries_a_tenth_is_slow_and_its_other_direction_is_no_peer() {
        let mut evidence = LinkEvidence::default();
        let rates = [("a", "b", 1e6), ("b", "a", 1e6), ("a", "c", 1e7), ("b", "c", 1.2e7), ("c", "a", 0.9e7)];
        let found = judged(&mut evidence, &rates, 100, 6);
        let slow: Vec<_> = found.iter().filter(|it| it.comparison.verdict == Verdict::Slow).collect();
        assert_eq!(slow.iter().map(|it| (&it.from[..], &it.to[..])).collect::<Vec<_>>(), [("a", "b"), ("b", "a")]);
        assert_eq!(evidence.capacity("b", "a"), Some(2_000_000));
        assert_eq!(evidence.capacity("b", "c"), Some(24_000_000), "one way stands for both");
        assert_eq!(evidence.capacity("c", "d"), None);
    }

    #[test]
    fn a_link_that_is_never_full_or_for_a_moment_only_is_not_known() {
        let mut evidence = LinkEvidence::default();
        assert!(judged(&mut evidence, &[("a", "b", 1e3), ("a", "c", 1e7), ("b", "c", 1e7)], 100, 3).is_empty());
        assert_eq!(evidence.capacity("a", "b"), None);
        evidence.add(Duration::from_secs(200), "a", "a");
        assert!(evidence.by_direction.keys().all(|(from, to)| from != to));
    }

    #[test]
    fn memory_is_bounded_and_a_day_later_nothing_is_known() {
        let mut evidence = LinkEvidence::default();
        for number in 0..2_000 {
            evidence.add(Duration::from_secs(number), &number.to_string(), "b");
            evidence.add(Duration::from_secs(number), "a", "b");
        }
        assert_eq!(evidence.by_direction.len(), DIRECTIONS_MAX);
        evidence.judge(Duration::from_secs(200_000), |_, _, _| None);
        assert!(evidence.by_direction.is_empty());
    }
}
