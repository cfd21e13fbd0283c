//! What the functions of a stage have counted, added up over the attempts that won. Serves the path *job*. A task that
//! is done again takes back what it had counted: so each count is in the sum once, whatever was lost. It never sees an
//! attempt that did not win.

use std::collections::BTreeMap;

use protocol::{CounterError, Counters};

/// The sums of a stage.
#[derive(Debug, Default)]
pub(crate) struct CounterTotals {
    /// The place of each name in `sums`.
    indexes: BTreeMap<String, u16>,
    sums: Vec<u64>,
}

/// What one task has added: places and counts. Names would be the same a million times.
#[derive(Debug, Default)]
pub(crate) struct CountedShare(Box<[(u16, u64)]>);

impl CounterTotals {
    /// How many names there would be with those of `counters`.
    pub(crate) fn names_with(&self, counters: &Counters) -> usize {
        let new = counters.iter().filter(|(name, _)| !self.indexes.contains_key(*name));
        self.sums.len() + new.count()
    }

    /// How many names there are.
    pub(crate) fn names(&self) -> usize {
        self.sums.len()
    }

    /// Adds what a task has counted.
    pub(crate) fn add(&mut self, counters: &Counters) -> CountedShare {
        let mut share = Vec::with_capacity(counters.len());
        for (name, count) in counters.iter() {
            let place = match self.indexes.get(name) {
                Some(place) => *place,
                None => {
                    // The job has looked at `names_with` before: there are few.
                    let place = self.sums.len() as u16;
                    self.indexes.insert(name.to_owned(), place);
                    self.sums.push(0);
                    place
                }
            };
            let sum = &mut self.sums[usize::from(place)];
            *sum = sum.wrapping_add(count);
            share.push((place, count));
        }
        CountedShare(share.into())
    }

    /// Takes back what a task had added. Its names stay, since it is about to be done again.
    pub(crate) fn subtract(&mut self, share: &CountedShare) {
        for (place, count) in &share.0 {
            let sum = &mut self.sums[usize::from(*place)];
            *sum = sum.wrapping_sub(*count);
        }
    }

    /// The sums, by name.
    pub(crate) fn counters(&self) -> Result<Counters, CounterError> {
        let mut counters = Counters::new();
        for (name, place) in &self.indexes {
            counters.add(name, self.sums[usize::from(*place)])?;
        }
        Ok(counters)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn counters(counts: &[(&str, u64)]) -> Counters {
        let mut counters = Counters::new();
        counts.iter().for_each(|(name, count)| counters.add(name, *count).unwrap());
        counters
    }

    #[test]
    fn what_is_taken_back_and_added_again_is_in_the_sum_once() {
        let mut totals = CounterTotals::default();
        let first = totals.add(&counters(&[("a", 2), ("b", u64::MAX)]));
        assert_eq!(totals.names_with(&counters(&[("b", 1), ("c", 1), ("d", 0)])), 4);
        totals.add(&counters(&[("b", 5), ("c", 1)]));
        assert_eq!(totals.counters().unwrap(), counters(&[("a", 2), ("b", 4), ("c", 1)]));
        totals.subtract(&first);
        assert_eq!(totals.counters().unwrap(), counters(&[("a", 0), ("b", 5), ("c", 1)]));
        totals.add(&counters(&[("a", 2), ("b", u64::MAX)]));
        assert_eq!(totals.counters().unwrap(), counters(&[("a", 2), ("b", 4), ("c", 1)]));
        assert_eq!((totals.names(), CounterTotals::default().counters().unwrap()), (3, Counters::new()));
    }
}
