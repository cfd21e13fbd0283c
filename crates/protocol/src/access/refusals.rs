//! How many refusals and removals are recorded one by one; those above the bounds are counted. It serves the audit record. A
//! stranger who causes refusals never decides how large the record grows, and a moved clock never keeps a refusal out
//! of it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use crate::Now;

/// Which refusals are recorded, and which only counted. It uses the monotonic clock alone.
#[derive(Clone, Debug, Default)]
pub struct RefusalBudget {
    bounds: RecordBounds,
    /// The second that `in_second` counts.
    second: u64,
    in_second: u64,
    /// When the day ends that the other fields count.
    day_ends: Duration,
    in_day: u64,
    of_source: BTreeMap<String, u64>,
    counted: u64,
    /// Before this time the count is not reported again.
    next_count: Duration,
}

/// How many events of a kind are recorded one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordBounds {
    /// In a second.
    pub per_second: u64,
    /// Of one source in a day.
    pub per_source: u64,
    /// Of all in a day.
    pub per_day: u64,
}

impl Default for RecordBounds {
    fn default() -> Self {
        Self {
            per_second: REFUSALS_PER_SECOND_MAX,
            per_source: SOURCE_REFUSALS_PER_DAY_MAX,
            per_day: REFUSALS_PER_DAY_MAX,
        }
    }
}

impl RecordBounds {
    /// For what users remove and rename: a user who tidies up may do thousands, and a program no more than that. At some
    /// 300 bytes each, 15 MB a day.
    pub const REMOVALS: Self = Self { per_second: 500, per_source: 10_000, per_day: 50_000 };
}

impl RefusalBudget {
    /// A budget with bounds of its own.
    pub fn within(bounds: RecordBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Whether one more from this source is recorded by itself; otherwise it is counted.
    pub fn try_record(&mut self, now: Now, source: &str) -> bool {
        let second = now.monotonic.as_secs();
        if second != self.second {
            (self.second, self.in_second) = (second, 0);
        }
        if now.monotonic >= self.day_ends {
            (self.day_ends, self.in_day) = (now.monotonic + DAY, 0);
            self.of_source.clear();
        }
        let of_source = self.of_source.get(source).copied().unwrap_or(0);
        let is_known = of_source > 0 || self.of_source.len() < SOURCES_MAX;
        let is_taken = self.in_second < self.bounds.per_second
            && self.in_day < self.bounds.per_day
            && of_source < self.bounds.per_source
            && is_known;
        if is_taken {
            (self.in_second, self.in_day) = (self.in_second + 1, self.in_day + 1);
            self.of_source.insert(source.to_owned(), of_source + 1);
        } else {
            self.count(1);
        }
        is_taken
    }

    /// Counts refusals that are not recorded one by one.
    pub fn count(&mut self, refusals: u64) {
        self.counted = self.counted.saturating_add(refusals);
    }

    /// How many were only counted, where it is time to record that.
    pub fn take_counted(&mut self, now: Now) -> Option<u64> {
        if self.counted == 0 || now.monotonic < self.next_count || now.monotonic.as_secs() == self.second {
            return None;
        }
        self.next_count = now.monotonic + COUNT_EVERY;
        Some(std::mem::take(&mut self.counted))
    }
}

/// The unit that counts as one address: for IPv6 a /64, since the owner of one of its addresses has them all.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// The source of a refusal at this address, as it was recorded.
pub fn source_of(address: &str) -> String {
    address.parse().map_or_else(|_| address.to_owned(), |address| network(address).to_string())
}

/// Refusals recorded one by one in a second: far more than people cause.
pub const REFUSALS_PER_SECOND_MAX: u64 = 20;
/// Those of one source in a day: more than anyone reads, even from someone who errs all day.
pub const SOURCE_REFUSALS_PER_DAY_MAX: u64 = 500;
/// Those of all sources in a day: at some 500 bytes each, 10 MB.
pub const REFUSALS_PER_DAY_MAX: u64 = 20_000;
/// Sources distinguished in a day; refusals of others are counted.
const SOURCES_MAX: usize = 10_000;
/// How often the count is recorded at most: 1,440 lines a day.
const COUNT_EVERY: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3_600);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(seconds: u64) -> Now {
        Now::default().after(Duration::from_secs(seconds))
    }

    // Promise 26b.
    #[test]
    fn refusals_are_bounded_for_a_source_a_second_and_a_day_and_the_rest_is_counted() {
        let mut budget = RefusalBudget::default();
        // One source, one refusal a second.
        let taken = (1..=1_000).filter(|second| budget.try_record(at(*second), "a")).count() as u64;
        assert_eq!(taken, SOURCE_REFUSALS_PER_DAY_MAX);
        assert_eq!(budget.take_counted(at(1_001)), Some(1_000 - SOURCE_REFUSALS_PER_DAY_MAX));
        // Many sources, ten a second each from its own.
        let mut taken = 0;
        for second in 2_000..12_000 {
            taken += (0..30)
                .filter(|number| budget.try_record(at(second), &format!("{}-{number}", second % 100)))
                .count() as u64;
        }
        assert_eq!(taken, REFUSALS_PER_DAY_MAX - SOURCE_REFUSALS_PER_DAY_MAX);
        assert!(!budget.try_record(at(80_000), "b"));
        assert!(
            budget.try_record(at(24 * 3_600 + 1), "b") && budget.try_record(at(24 * 3_600 + 2), "a"),
            "another day"
        );
    }

    // Promise 26b.
    #[test]
    fn a_wall_clock_that_is_moved_silences_nothing() {
        let mut budget = RefusalBudget::default();
        for (second, unix_millis) in [(1, 9_000_000_000), (2, 5_000), (3, 4_000), (4, 0)] {
            let now = Now { monotonic: Duration::from_secs(second), unix_millis };
            let taken = (0..30).filter(|_| budget.try_record(now, "a")).count() as u64;
            assert_eq!(taken, REFUSALS_PER_SECOND_MAX, "in second {second}");
        }
        assert_eq!(budget.take_counted(at(5)), Some(40));
        budget.count(3);
        assert_eq!(budget.take_counted(at(6)), None, "once a minute");
        assert_eq!(budget.take_counted(at(70)), Some(3));
    }

    #[test]
    fn the_sources_told_apart_are_bounded() {
        let mut budget = RefusalBudget::default();
        for number in 0..2 * SOURCES_MAX as u64 {
            budget.try_record(at(number), &number.to_string());
        }
        assert_eq!(budget.of_source.len(), SOURCES_MAX);
    }

    #[test]
    fn the_addresses_of_one_network_are_one_source() {
        assert_eq!(source_of("2001:db8::1"), source_of("2001:db8::ffff:2"));
        assert_ne!(source_of("2001:db8::1"), source_of("2001:db8:0:1::1"));
        assert_eq!(source_of("::ffff:10.0.0.1"), "10.0.0.1");
        assert_eq!(source_of("this machine"), "this machine");
    }
}
