//! Time as the rules see it: an argument, never a call.

use std::time::Duration;

/// One reading of both clocks, taken by the hand that drives a rule-keeper and passed to every call.
///
/// Deadlines and round trips are reckoned on [`monotonic`](Now::monotonic), which never jumps; what people read and
/// what tickets carry is reckoned on [`unix_millis`](Now::unix_millis), which may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// Time since this process (or this simulation) started.
    pub monotonic: Duration,
    /// Milliseconds since the Unix epoch by the wall clock.
    pub unix_millis: u64,
}

impl Now {
    /// What the wall clock will say, or said, at this time of the monotonic clock, if it does not jump.
    pub fn unix_millis_at(self, monotonic: Duration) -> u64 {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        match monotonic.checked_sub(self.monotonic) {
            Some(ahead) => self.unix_millis.saturating_add(millis(ahead)),
            None => self.unix_millis.saturating_sub(millis(self.monotonic - monotonic)),
        }
    }

    /// The same reading, `span` later on both clocks.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self {
            monotonic: self.monotonic + span,
            unix_millis: self.unix_millis + u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
