//! Counts what is under way, for the status that the master gets and for work that gives way to it. It never limits
//! anything.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// How many of something are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicU32>);

impl Gauge {
    /// Counts one until the result is dropped.
    pub(crate) fn count(&self) -> GaugeGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(Arc::clone(&self.0))
    }

    pub(crate) fn value(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`Gauge::count`].
#[derive(Debug)]
pub(crate) struct GaugeGuard(Arc<AtomicU32>);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
