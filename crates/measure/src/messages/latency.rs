//! The stopwatch of every requesting end: when to measure, when to stop, and how long each answer took. It never
//! sends anything.

use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};

use super::system::{MeasureError, WARM_UP};

/// A turn of one system.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasurementWindow {
    /// Requests to have under way.
    pub(super) in_flight: usize,
    from: Instant,
    until: Instant,
}

impl MeasurementWindow {
    /// A window that begins now. It is measured for `turn` after the warm-up.
    pub(super) fn begin(in_flight: usize, turn: Duration) -> Self {
        let from = Instant::now() + WARM_UP;
        Self { in_flight, from, until: from + turn }
    }
}

/// The times of one requester.
#[derive(Debug)]
pub(super) struct LatencyRecorder {
    window: MeasurementWindow,
    times: Vec<Duration>,
}

impl LatencyRecorder {
    pub(super) fn new(course: MeasurementWindow) -> Self {
        Self { window: course, times: Vec::with_capacity(TIMES_AT_FIRST) }
    }

    /// Records the answer to a request sent at `begun`; `false` when the window is over.
    pub(super) fn record_answer(&mut self, begun: Instant) -> bool {
        let now = Instant::now();
        if now >= self.window.from && now < self.window.until {
            self.times.push(now - begun);
        }
        now < self.window.until
    }

    pub(super) fn times(self) -> Vec<Duration> {
        self.times
    }
}

/// The times of all requesters, once the last is done.
pub(super) async fn collect_times(
    mut asking: JoinSet<Result<Vec<Duration>, MeasureError>>,
) -> Result<Vec<Duration>, MeasureError> {
    let mut times = Vec::new();
    while let Some(done) = asking.join_next().await {
        let stopped = |error: JoinError| MeasureError::System { system: "an asker", reason: error.to_string() };
        times.extend(done.map_err(stopped)??);
    }
    Ok(times)
}

/// Initial capacity for times.
const TIMES_AT_FIRST: usize = 4_096;
