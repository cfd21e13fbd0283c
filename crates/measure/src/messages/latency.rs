//! The watch that every asking end holds: when to measure, when to stop, and how long each answer took.

use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};

use super::{MeasureError, WARM_UP};

/// A turn of one system.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasurementWindow {
    /// Requests to have under way.
    pub(super) in_flight: usize,
    from: Instant,
    until: Instant,
}

impl MeasurementWindow {
    /// A course that begins now, and is measured for `turn` once it is warm.
    pub(super) fn begin(in_flight: usize, turn: Duration) -> Self {
        let from = Instant::now() + WARM_UP;
        Self { in_flight, from, until: from + turn }
    }
}

/// One asker's times.
#[derive(Debug)]
pub(super) struct LatencyRecorder {
    window: MeasurementWindow,
    times: Vec<Duration>,
}

impl LatencyRecorder {
    pub(super) fn new(course: MeasurementWindow) -> Self {
        Self { window: course, times: Vec::with_capacity(TIMES_AT_FIRST) }
    }

    /// An answer came to what was asked at `begun`; `false` when the course is over.
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

/// The times of all askers, when the last is done.
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

/// Room for times before the first growth.
const TIMES_AT_FIRST: usize = 4_096;
