//! Counts by label values, for drivers that see something pass which no one else counts. It never forgets a count, so
//! its labels must come from closed lists.

use std::{borrow::Cow, collections::BTreeMap};

use super::{metric::Metric, readings::Readings};

/// How often each combination of two label values was seen.
#[derive(Debug, Default)]
pub struct LabelCounts(BTreeMap<(Cow<'static, str>, Cow<'static, str>), u64>);

impl LabelCounts {
    /// Counts one.
    pub fn count(&mut self, first: impl Into<Cow<'static, str>>, second: impl Into<Cow<'static, str>>) {
        *self.0.entry((first.into(), second.into())).or_default() += 1;
    }

    /// Writes all counts as this metric, which has two labels.
    pub fn read(&self, metric: &'static Metric, readings: &mut Readings) {
        readings.declare(metric);
        for ((first, second), count) in &self.0 {
            readings.set_of(metric, &[first.as_ref(), second.as_ref()], *count);
        }
    }
}
