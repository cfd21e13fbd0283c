//! Whether something is far slower than its peers. The median of the others decides, how far they differ among
//! themselves, and several verdicts over some time. Serves the path *judgement*. It knows neither nodes nor disks nor links, and
//! never reads a clock.

use std::{collections::VecDeque, time::Duration};

/// How something did beside its peers in one span of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// What it took: time an operation, or time a byte.
    pub(crate) cost: f64,
    /// The median of its peers.
    pub(crate) median: f64,
    /// How many peers there were.
    pub(crate) peers: usize,
    pub(crate) verdict: Verdict,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It took far longer than its peers.
    Slow,
    /// It took longer, as some always do.
    Unclear,
    /// It is one of them.
    Fine,
}

/// Compares a cost with those of peers under like load. `None` where they are too few: of two, nobody knows which is the
/// odd one. Of an even number the upper median counts. So where half are slow, none is far from the others.
pub(crate) fn compare(cost: f64, mut peers: Vec<f64>) -> Option<Comparison> {
    if peers.len() < PEERS_MIN {
        return None;
    }
    let median = upper_median(&mut peers);
    let mut deviations: Vec<f64> = peers.iter().map(|peer| (peer - median).abs()).collect();
    let spread = upper_median(&mut deviations);
    let verdict = match cost {
        cost if cost >= SLOW_TIMES * median && cost - median >= SLOW_SPREADS * spread => Verdict::Slow,
        cost if cost <= FINE_TIMES * median => Verdict::Fine,
        _ => Verdict::Unclear,
    };
    Some(Comparison { cost, median, peers: peers.len(), verdict })
}

/// The middle one, or the larger of the two in the middle; zero of none.
pub(crate) fn upper_median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The newest verdicts about one thing, at most one a span.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// When, from what source, and what.
    recent: VecDeque<(Duration, u64, Verdict)>,
}

impl Verdicts {
    /// Adds what was found. `source` tells kinds of evidence apart, such as the stages of jobs.
    pub(crate) fn add(&mut self, now: Duration, source: u64, verdict: Verdict) {
        self.forget_old(now);
        self.recent.push_back((now, source, verdict));
        if self.recent.len() > VERDICTS_MAX {
            self.recent.pop_front();
        }
    }

    /// Forgets what no longer counts; returns whether anything is left.
    pub(crate) fn forget_old(&mut self, now: Duration) -> bool {
        self.recent.retain(|(at, ..)| now.saturating_sub(*at) <= VERDICT_LIFE);
        !self.recent.is_empty()
    }

    /// Whether there are enough verdicts, from enough sources, and nearly all of them say so.
    pub(crate) fn is_slow(&self, sources_min: usize) -> bool {
        let slow = || self.recent.iter().filter(|(_, _, verdict)| *verdict == Verdict::Slow);
        let first_source = slow().next().map(|(_, source, _)| *source);
        let has_sources = sources_min <= 1 || slow().any(|(_, source, _)| Some(*source) != first_source);
        self.recent.len() >= VERDICTS_MIN && slow().count() * 4 >= self.recent.len() * 3 && has_sources
    }

    /// Whether any verdict that still counts says so.
    pub(crate) fn was_ever_slow(&self) -> bool {
        self.recent.iter().any(|(_, _, verdict)| *verdict == Verdict::Slow)
    }

    /// Whether the newest verdicts all say that it is one of its peers.
    pub(crate) fn is_fine(&self) -> bool {
        let newest = || self.recent.iter().rev().take(VERDICTS_MIN);
        newest().count() == VERDICTS_MIN && newest().all(|(_, _, verdict)| *verdict == Verdict::Fine)
    }
}

/// Peers without which nothing is compared.
pub(crate) const PEERS_MIN: usize = 2;
/// How many times the median of its peers something must take to be slow. Machines of two generations differ by two.
const SLOW_TIMES: f64 = 3.0;
/// How many times the median deviation of its peers it must be away from their median. Where they are all different,
/// one more that is different says nothing.
const SLOW_SPREADS: f64 = 5.0;
/// Up to how many times the median it is one of them.
const FINE_TIMES: f64 = 2.0;
/// Verdicts that are needed, each of another span: 20 seconds of work at least.
pub(crate) const VERDICTS_MIN: usize = 4;
/// Verdicts that are kept.
const VERDICTS_MAX: usize = 8;
/// How long a verdict counts.
const VERDICT_LIFE: Duration = Duration::from_secs(1_800);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use fastrand::Rng;

    use super::*;

    fn verdict(cost: f64, peers: &[f64]) -> Option<Verdict> {
        compare(cost, peers.to_vec()).map(|found| found.verdict)
    }

    /// The verdict about each of these, beside all others.
    fn each(costs: &[f64]) -> Vec<Option<Verdict>> {
        let others = |at: usize| costs.iter().enumerate().filter(move |(of, _)| *of != at).map(|(_, cost)| *cost);
        (0..costs.len()).map(|at| compare(costs[at], others(at).collect()).map(|found| found.verdict)).collect()
    }

    #[test]
    fn two_of_four_are_slow_and_of_two_nobody_is() {
        use Verdict::{Fine, Slow};
        assert_eq!(each(&[1.0, 1.0, 5.0, 5.0]), [Some(Fine), Some(Fine), Some(Slow), Some(Slow)]);
        assert_eq!(each(&[1.0, 5.0]), [None, None]);
        assert_eq!(each(&[1.0]), [None]);
        assert_eq!(each(&[1.0, 1.0, 5.0]), [Some(Fine), Some(Fine), Some(Slow)]);
        assert!(!each(&[1.0, 5.0, 5.0]).contains(&Some(Slow)), "the quick one is the odd one");
    }

    #[test]
    fn where_all_differ_one_that_differs_too_is_not_slow() {
        assert_eq!(verdict(10.0, &[1.0, 1.0, 1.1]), Some(Verdict::Slow));
        assert_eq!(verdict(10.0, &[0.5, 3.0, 6.0]), Some(Verdict::Unclear));
        assert_eq!(verdict(2.5, &[1.0, 1.0]), Some(Verdict::Unclear));
        assert_eq!(verdict(0.0, &[1.0, 1.0]), Some(Verdict::Fine));
    }

    #[test]
    fn a_few_verdicts_or_one_source_are_not_enough() {
        let mut verdicts = Verdicts::default();
        let at = |second: u64| Duration::from_secs(second);
        for second in 1..VERDICTS_MIN as u64 {
            verdicts.add(at(second * 5), 1, Verdict::Slow);
            assert!(!verdicts.is_slow(1));
        }
        verdicts.add(at(20), 1, Verdict::Slow);
        assert!(verdicts.is_slow(1) && !verdicts.is_slow(2));
        verdicts.add(at(25), 2, Verdict::Slow);
        assert!(verdicts.is_slow(2));
        // It recovers; in between it is neither.
        verdicts.add(at(30), 2, Verdict::Fine);
        verdicts.add(at(35), 2, Verdict::Fine);
        assert!(!verdicts.is_slow(1) && !verdicts.is_fine());
        verdicts.add(at(40), 2, Verdict::Fine);
        verdicts.add(at(45), 2, Verdict::Fine);
        assert!(verdicts.is_fine());
        assert!(!verdicts.forget_old(at(10_000)), "half an hour later nothing is known");
    }

    #[test]
    fn equals_are_never_slow_by_noise_and_one_at_a_fifth_of_the_speed_is() {
        for seed in 0..40 {
            let mut rng = Rng::with_seed(seed);
            let count = rng.usize(3..12);
            let slow_one = rng.usize(..count);
            for factor in [1.0, 5.0] {
                let mut verdicts: Vec<Verdicts> = (0..count).map(|_| Verdicts::default()).collect();
                let mut was_slow = vec![false; count];
                for span in 1..500u64 {
                    // Three times as long as the quickest, every other time.
                    let mut costs: Vec<f64> = (0..count).map(|_| 1.0 + 2.0 * rng.f64() * rng.f64()).collect();
                    costs[slow_one] *= factor;
                    for (at, verdict) in each(&costs).into_iter().enumerate() {
                        verdicts[at].add(Duration::from_secs(span * 5), span, verdict.unwrap());
                        was_slow[at] |= verdicts[at].is_slow(2);
                    }
                }
                let expected: Vec<bool> = (0..count).map(|at| factor > 1.0 && at == slow_one).collect();
                assert_eq!(was_slow, expected, "seed {seed}, factor {factor}");
            }
        }
    }
}
