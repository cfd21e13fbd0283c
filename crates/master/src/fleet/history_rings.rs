//! What was measured in the last day, the older the coarser ([`LOAD_RESOLUTIONS`]), for histories of nodes and of links.
//! It serves the paths *load* and *links*. It is memory only and bounded. It never looks at a wall clock.

use std::{collections::VecDeque, time::Duration};

use protocol::message::load::{LOAD_RESOLUTIONS, LoadResolution};

/// The same values at every resolution.
#[derive(Debug)]
pub(crate) struct HistoryRings<const VALUES: usize> {
    rings: [Ring<VALUES>; LOAD_RESOLUTIONS.len()],
}

/// The samples of one resolution.
#[derive(Debug)]
pub(crate) struct Ring<const VALUES: usize> {
    pub(crate) resolution: LoadResolution,
    /// Means of closed spans, oldest first; the last one is that before `open`. All NaN where nothing was reported.
    /// Single precision is exact to a ten-millionth, at half the memory.
    closed: VecDeque<[f32; VALUES]>,
    open: Option<OpenSpan<VALUES>>,
}

/// The span that is being filled.
#[derive(Debug)]
struct OpenSpan<const VALUES: usize> {
    /// Its number: the second in which it begins, by the monotonic clock, divided by its length.
    number: u64,
    sums: [f64; VALUES],
    /// By what the sums are divided for the mean.
    weight: f64,
}

impl<const VALUES: usize> Default for HistoryRings<VALUES> {
    fn default() -> Self {
        Self { rings: LOAD_RESOLUTIONS.map(|resolution| Ring { resolution, closed: VecDeque::new(), open: None }) }
    }
}

impl<const VALUES: usize> HistoryRings<VALUES> {
    /// What the only reporter had in this second. A span has the mean of what came, and a closed one takes nothing.
    pub(crate) fn add_mean(&mut self, second: u64, values: [f64; VALUES]) {
        self.rings.iter_mut().for_each(|ring| ring.add_mean(second, values));
    }

    /// What one of many reporters had in this second. A span has the sum of what came by the second, and nothing is
    /// zero.
    pub(crate) fn add_sum(&mut self, second: u64, values: [f64; VALUES]) {
        self.rings.iter_mut().for_each(|ring| ring.add_sum(second, values));
    }

    /// The finest resolution that reaches so far back.
    pub(crate) fn ring(&self, seconds_ago: u32) -> &Ring<VALUES> {
        &self.rings[resolution_index(seconds_ago)]
    }

    /// The memory of its samples.
    #[cfg(test)]
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.closed.capacity() * size_of::<[f32; VALUES]>()).sum()
    }

    /// How many samples each ring has.
    #[cfg(test)]
    pub(crate) fn lengths(&self) -> [u32; LOAD_RESOLUTIONS.len()] {
        self.rings.each_ref().map(|ring| ring.closed.len() as u32 + u32::from(ring.open.is_some()))
    }
}

/// The resolution that is used for a moment so many seconds ago.
pub(crate) fn resolution(seconds_ago: u32) -> LoadResolution {
    LOAD_RESOLUTIONS[resolution_index(seconds_ago)]
}

fn resolution_index(seconds_ago: u32) -> usize {
    let ago = Duration::from_secs(u64::from(seconds_ago));
    let coarsest = LOAD_RESOLUTIONS.len() - 1;
    LOAD_RESOLUTIONS.iter().position(|resolution| ago < resolution.reach()).unwrap_or(coarsest)
}

impl<const VALUES: usize> Ring<VALUES> {
    /// The values of a span; `None` where nothing was reported.
    pub(crate) fn get(&self, number: u64) -> Option<[f64; VALUES]> {
        let open = self.open.as_ref()?;
        let back = open.number.checked_sub(number)?;
        let values = match usize::try_from(back).ok()? {
            0 => open.mean(),
            back => self.closed.get(self.closed.len().checked_sub(back)?)?.map(f64::from),
        };
        (!values[0].is_nan()).then_some(values)
    }

    /// The number of the span in which a second lies.
    pub(crate) fn span_of(&self, second: u64) -> u64 {
        second / u64::from(self.resolution.sample_seconds)
    }

    /// The newest span in which anything was added.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.number)
    }

    fn add_mean(&mut self, second: u64, values: [f64; VALUES]) {
        let number = self.span_of(second);
        if self.newest().is_some_and(|newest| number < newest) {
            // Its span is closed: a repeated report, whose samples were counted.
            return;
        }
        let finest = self.resolution.sample_seconds == 1;
        // A node's second is a trifle longer than ours: now and then one of ours has no sample of its own.
        let filler = |gap| if gap == 1 && finest { values.map(|value| value as f32) } else { [f32::NAN; VALUES] };
        let open = self.open(number, filler);
        add(&mut open.sums, values);
        open.weight += 1.0;
    }

    fn add_sum(&mut self, second: u64, values: [f64; VALUES]) {
        let (number, span) = (self.span_of(second), f64::from(self.resolution.sample_seconds));
        if let Some(back) = self.newest().and_then(|newest| newest.checked_sub(number)).filter(|back| *back > 0) {
            let index = usize::try_from(back).ok().and_then(|back| self.closed.len().checked_sub(back));
            if let Some(closed) = index.and_then(|index| self.closed.get_mut(index)) {
                closed.iter_mut().zip(values).for_each(|(mean, value)| *mean += (value / span) as f32);
            }
            return;
        }
        let open = self.open(number, |_| [0.0; VALUES]);
        add(&mut open.sums, values);
        open.weight = span;
    }

    /// The span `number`, which is the open one or a later one. Spans between get what `filler` makes of their count.
    fn open(&mut self, number: u64, filler: impl Fn(u64) -> [f32; VALUES]) -> &mut OpenSpan<VALUES> {
        if let Some(open) = self.open.take_if(|open| open.number < number) {
            let gap = number - open.number - 1;
            self.push(open.mean().map(|value| value as f32));
            (0..gap.min(u64::from(self.resolution.samples))).for_each(|_| self.push(filler(gap)));
        }
        self.open.get_or_insert(OpenSpan { number, sums: [0.0; VALUES], weight: 0.0 })
    }

    fn push(&mut self, values: [f32; VALUES]) {
        let most = self.resolution.samples as usize;
        if self.closed.capacity() < most {
            self.closed.reserve_exact(most - self.closed.len());
        }
        // The open span is one of them.
        while self.closed.len() + 1 >= most {
            self.closed.pop_front();
        }
        self.closed.push_back(values);
    }
}

impl<const VALUES: usize> OpenSpan<VALUES> {
    fn mean(&self) -> [f64; VALUES] {
        self.sums.map(|sum| sum / self.weight.max(1.0))
    }
}

fn add<const VALUES: usize>(sums: &mut [f64; VALUES], values: [f64; VALUES]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(rings: &HistoryRings<1>, seconds_ago: u32, spans: impl IntoIterator<Item = u64>) -> Vec<Option<f64>> {
        spans.into_iter().map(|span| rings.ring(seconds_ago).get(span).map(|[value]| value)).collect()
    }

    #[test]
    fn what_many_report_adds_up_also_when_one_is_late() {
        let mut rings = HistoryRings::<1>::default();
        for second in 100..120 {
            rings.add_sum(second, [10.0]);
            rings.add_sum(second, [20.0]);
        }
        // Seconds late: the spans of one second are closed, that of ten and that of two minutes are not all.
        rings.add_sum(105, [100.0]);
        rings.add_sum(119, [5.0]);
        assert_eq!(sums(&rings, 0, [99, 100, 105, 119, 120]), [None, Some(30.0), Some(130.0), Some(35.0), None]);
        assert_eq!(sums(&rings, 60, [9, 10, 11]), [None, Some(40.0), Some(30.5)]);
        assert_eq!(sums(&rings, 3_600, [0]), [Some(705.0 / 120.0)]);
    }

    #[test]
    fn a_pause_is_zero_where_many_report_and_unknown_where_one_does() {
        let (mut many, mut one) = (HistoryRings::<1>::default(), HistoryRings::<1>::default());
        for second in [100, 103] {
            many.add_sum(second, [1.0]);
            one.add_mean(second, [1.0]);
        }
        assert_eq!(sums(&many, 0, 100..104), [Some(1.0), Some(0.0), Some(0.0), Some(1.0)]);
        assert_eq!(sums(&one, 0, 100..104), [Some(1.0), None, None, Some(1.0)]);
        assert_eq!(one.ring(0).newest(), Some(103));
    }
}
