//! How many files a command processes at once. There are enough to hide the round trips between small files, and few
//! enough to bound memory and the transfers of the nodes. The first file never waits.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::failure::{Failure, Failures};

/// Files in flight.
pub(crate) struct InFlightWindow {
    running: JoinSet<(u64, Result<(), Failure>)>,
    /// What they may hold in memory together.
    bytes: u64,
    failures: Failures,
}

impl InFlightWindow {
    /// An empty window.
    pub(crate) fn new() -> Self {
        Self { running: JoinSet::new(), bytes: 0, failures: Failures::default() }
    }

    /// Starts a file of this many bytes once there is room for it. `round_trip` is the longest one to the servers
    /// involved, as far as it is known by then.
    pub(crate) async fn start(
        &mut self,
        file_bytes: u64,
        round_trip: impl Fn() -> Option<Duration>,
        work: impl Future<Output = Result<(), Failure>> + Send + 'static,
    ) {
        let bytes = file_bytes.min(FILE_BYTES_HELD_MAX);
        // The first file never waits, so no file waits for ever.
        while !self.running.is_empty()
            && (self.running.len() >= files_at_once(round_trip()) || self.bytes + bytes > BYTES_AT_ONCE_MAX)
        {
            self.wait_for_one().await;
        }
        self.bytes += bytes;
        self.running.spawn(async move { (bytes, work.await) });
    }

    /// Waits for all files in flight.
    pub(crate) async fn finish(mut self) -> Result<(), Failure> {
        while !self.running.is_empty() {
            self.wait_for_one().await;
        }
        self.failures.into_result()
    }

    async fn wait_for_one(&mut self) {
        match self.running.join_next().await {
            Some(Ok((bytes, result))) => {
                self.bytes -= bytes;
                self.failures.note_task(Some(Ok(result)));
            }
            Some(Err(error)) => self.failures.note_task(Some(Err(error))),
            None => {}
        }
    }
}

/// How many files may be in flight with this round trip.
fn files_at_once(round_trip: Option<Duration>) -> usize {
    let trips = round_trip.unwrap_or_default().as_secs_f64() / ROUND_TRIP_OF_MORE.as_secs_f64();
    let files = (FILES_AT_ONCE_MIN as f64 * (1.0 + trips)) as usize;
    files.clamp(FILES_AT_ONCE_MIN, FILES_AT_ONCE_MAX)
}

/// Files in flight when the servers are near: this hides the syncs of small files.
const FILES_AT_ONCE_MIN: usize = 32;
/// Files in flight when they are far: half of the transfers that a node serves at once with its usual settings.
const FILES_AT_ONCE_MAX: usize = 128;
/// The round trip that allows as many files again as a near one. A file takes some six round trips, and a megabyte's
/// share of a gigabit a second is 8 ms.
const ROUND_TRIP_OF_MORE: Duration = Duration::from_millis(25);
/// Bytes of a file that are in memory between its disk and the network, at most.
const FILE_BYTES_HELD_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of all files in flight that may be in memory.
const BYTES_AT_ONCE_MAX: u64 = 128 * 1024 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use protocol::{Reason, Status};
    use tokio::time::{Instant, sleep};

    use super::*;

    /// How many files were in flight at most, and how long all took, if each takes six round trips.
    async fn flown(files: usize, bytes: u64, round_trip: Duration) -> (usize, Duration) {
        let (now, most, began) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Instant::now());
        let mut flight = InFlightWindow::new();
        for _ in 0..files {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            let work = async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(round_trip * 6).await;
                now.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            };
            flight.start(bytes, || Some(round_trip), work).await;
        }
        flight.finish().await.unwrap();
        (most.load(Ordering::Relaxed), began.elapsed())
    }

    // Promise 56.
    #[tokio::test(start_paused = true)]
    async fn a_thousand_files_of_a_megabyte_do_not_wait_for_round_trips_of_100_ms() {
        let (most, span) = flown(1_000, 1_000_000, Duration::from_millis(100)).await;
        assert_eq!(most, 128);
        assert!(span < Duration::from_secs(8), "a gigabyte at a gigabit a second takes longer: {span:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn near_by_fewer_are_under_way_and_large_ones_only_as_many_as_memory_allows() {
        assert_eq!(flown(200, 1_000, Duration::from_micros(500)).await.0, 32);
        assert_eq!(flown(200, 1 << 30, Duration::from_millis(300)).await.0, 32);
        assert_eq!(flown(3, 1 << 40, Duration::from_millis(1)).await.0, 3);
    }

    #[tokio::test]
    async fn what_fails_is_told_at_the_end_and_holds_up_nothing() {
        let (mut flight, done) = (InFlightWindow::new(), Arc::new(Mutex::new(Vec::new())));
        for number in 0..40 {
            let done = Arc::clone(&done);
            let work = async move {
                done.lock().unwrap().push(number);
                if number == 3 { Err(Failure::new(Reason::Corrupt, "bad")) } else { Ok(()) }
            };
            flight.start(1, || None, work).await;
        }
        assert_eq!(flight.finish().await.unwrap_err().reason.status(), Status::Corrupt);
        assert_eq!(done.lock().unwrap().len(), 40);
    }
}
