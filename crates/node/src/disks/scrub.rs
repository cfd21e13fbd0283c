//! The scrub of a node: one background worker per disk reads every slice again within the operator's period. So bit rot
//! is found while another copy is still good. It serves no path in particular, and so all of them. It paces itself by
//! the bytes and time that are left, and slows down while others use the disk. It never decides what a bad slice is.

use std::{sync::Arc, time::Duration};

use daemon::worker::{BackgroundWork, NextStep, WorkError, Worker, Workers};
use net::clock::Clock;
use protocol::{disk::ScrubStatus, message::work::WorkKind};
use store::{Scrub, ScrubStep, StoreError};
use tokio::time::Instant;

use crate::{NodeError, blocking, node_context::NodeContext};

/// Starts a worker for each disk that works.
pub(crate) fn start(workers: &Workers, context: &Arc<NodeContext>, clock: Clock, period: Duration) {
    let folders: Vec<_> = context.storage.slices.statuses().into_iter().map(|disk| disk.folder).collect();
    for (disk, scrub) in context.storage.slices.scrubs() {
        let work = DiskScrub::new(Arc::clone(context), clock, period, disk, scrub);
        // It computes its pauses itself.
        workers.start(WorkKind::Scrub, folders.get(disk).cloned().unwrap_or_default(), 0.0, work);
    }
}

/// The scrub of one disk.
pub(crate) struct DiskScrub {
    context: Arc<NodeContext>,
    clock: Clock,
    period: Duration,
    disk: usize,
    scrub: Option<Scrub>,
    saved: Instant,
}

impl DiskScrub {
    pub(crate) fn new(context: Arc<NodeContext>, clock: Clock, period: Duration, disk: usize, scrub: Scrub) -> Self {
        context.storage.scrub_statuses.note(disk, scrub.status());
        Self { context, clock, period, disk, scrub: Some(scrub), saved: Instant::now() }
    }

    /// Takes one step of the scrub and returns when the next is due.
    pub(crate) async fn advance(&mut self) -> Result<NextStep, NodeError> {
        let Some(mut scrub) = self.scrub.take() else {
            return Err(NodeError::Panicked { operation: "scrubbing a disk" });
        };
        let now = self.clock.now().unix_millis;
        if let Some(wait) = until_due(&scrub.status(), now, self.period) {
            self.scrub = Some(scrub);
            return Ok(NextStep::IdleFor(wait));
        }
        let step = blocking("scrubbing a disk", move || {
            let step = scrub.step(now, STEP_BYTES);
            Ok((scrub, step))
        });
        let (scrub, step) = step.await?;
        let status = scrub.status();
        self.context.storage.scrub_statuses.note(self.disk, status.clone());
        self.scrub = Some(scrub);
        match step {
            Ok(ScrubStep::Read(bytes)) => {
                self.save(false).await;
                let rate = rate_bytes_per_second(&status, now, self.period, self.busy());
                Ok(NextStep::ContinueAfter(pause(bytes, rate)))
            }
            Ok(ScrubStep::Corrupt { slice, what }) => {
                tracing::error!(%slice, what, "the scrub found a damaged slice");
                self.context.storage.quarantine_slice(slice).await;
                Ok(NextStep::Continue)
            }
            Ok(ScrubStep::PassDone) => {
                self.save(true).await;
                Ok(NextStep::Continue)
            }
            Err(StoreError::DiskFailed { .. }) => Ok(NextStep::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// Saves the progress now and then. A save that fails costs only a repetition.
    async fn save(&mut self, now: bool) {
        if !now && self.saved.elapsed() < SAVE_PERIOD {
            return;
        }
        self.saved = Instant::now();
        let Some(scrub) = self.scrub.take() else { return };
        let saved = blocking("saving how far the scrub is", move || {
            let saved = scrub.save();
            Ok((scrub, saved))
        });
        if let Ok((scrub, saved)) = saved.await {
            self.scrub = Some(scrub);
            if let Err(error) = saved {
                tracing::warn!(%error, "how far the scrub is could not be written down");
            }
        }
    }

    /// Transfers and SPEs that use the disks now.
    fn busy(&self) -> u32 {
        self.context.limits.transfers_running.value() + self.context.spes.running.value()
    }
}

impl BackgroundWork for DiskScrub {
    async fn step(&mut self, worker: &Worker) -> Result<NextStep, WorkError> {
        let next = self.advance().await?;
        if let Some(scrub) = &self.scrub {
            let status = scrub.status();
            let left_bytes = status.total_bytes.saturating_sub(status.checked_bytes);
            // Between two passes nothing is left to read, whatever the last one found.
            let left_bytes = if status.began_unix_millis.is_some() { left_bytes } else { 0 };
            worker.set_progress(Some(status.checked_bytes), Some(left_bytes));
        }
        Ok(next)
    }
}

/// How long until the next pass begins; `None` during a pass, or if one is due.
fn until_due(status: &ScrubStatus, now_unix_millis: u64, period: Duration) -> Option<Duration> {
    if status.began_unix_millis.is_some() {
        return None;
    }
    let due = status.last_began_unix_millis? + period.as_millis() as u64;
    // A clock that was set back must not postpone the pass for years.
    let wait = Duration::from_millis(due.saturating_sub(now_unix_millis)).min(period);
    (!wait.is_zero()).then_some(wait)
}

/// Bytes to read per second: twice what the rest of the period requires, and only part of that while others use the
/// disk. Reads held back are made up later, since the required rate grows.
fn rate_bytes_per_second(status: &ScrubStatus, now_unix_millis: u64, period: Duration, busy: u32) -> u64 {
    let began = status.began_unix_millis.unwrap_or(now_unix_millis);
    let passed = Duration::from_millis(now_unix_millis.saturating_sub(began));
    let left = period.saturating_sub(passed).max(period / 100).max(Duration::from_secs(1));
    let needed = status.total_bytes.saturating_sub(status.checked_bytes) / left.as_secs().max(1);
    let idle = needed.saturating_mul(2).max(RATE_MIN_BYTES_PER_SECOND);
    idle / u64::from(1 + busy.min(BUSY_MAX))
}

/// The pause after a step that read this many bytes.
fn pause(bytes: u64, rate_bytes_per_second: u64) -> Duration {
    let bytes = bytes.max(SLICE_COST_BYTES);
    Duration::from_secs_f64(bytes as f64 / rate_bytes_per_second.max(1) as f64)
}

/// Bytes read in one step: far less than a second's worth, so that a transfer never waits long behind it.
const STEP_BYTES: u64 = 1 << 20;
/// Lowest rate when nothing else uses the disk: a few percent of what the slowest disk delivers.
const RATE_MIN_BYTES_PER_SECOND: u64 = 4 << 20;
/// With more transfers and SPEs than this, the scrub slows down no further.
const BUSY_MAX: u32 = 7;
/// The cost of opening a slice: about as much disk time as reading this many bytes.
const SLICE_COST_BYTES: u64 = 64 << 10;
/// A node that was stopped repeats at most what it read in this time.
const SAVE_PERIOD: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::PathBuf;

    use protocol::SliceId;
    use store::DiskFault;

    use super::*;
    use crate::{
        node_context::event::Event,
        rules::NodeCompletion,
        transfer_server::tests::{Fixture, fixture},
    };

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const MIB: u64 = 1 << 20;

    fn scrub_of(made: &Fixture) -> DiskScrub {
        let (disk, scrub) = made.context.storage.slices.scrubs().remove(0);
        DiskScrub::new(Arc::clone(&made.context), made.clock, 14 * DAY, disk, scrub)
    }

    /// Steps until it waits for something other than its own pace; returns how many there were.
    async fn run(scrub: &mut DiskScrub) -> (usize, NextStep) {
        for steps in 1.. {
            match scrub.advance().await.unwrap() {
                NextStep::Continue | NextStep::ContinueAfter(_) => {}
                next => return (steps, next),
            }
        }
        unreachable!()
    }

    // Promise 32.
    #[tokio::test]
    async fn the_scrub_finds_a_flipped_bit_that_nobody_reads_and_the_master_hears_of_it() {
        let mut made = fixture();
        for slice in 1..=3 {
            made.store(slice, 3_000_000).await;
        }
        let file = PathBuf::from(format!("/node/staging/{}", SliceId(2)));
        made.disk.flip_bit(&file, 2_999_999).unwrap();
        let mut scrub = scrub_of(&made);
        let (steps, next) = run(&mut scrub).await;
        // Three steps for each slice, the end of the pass, and the wait for the next one.
        assert_eq!(steps, 11);
        assert!(matches!(next, NextStep::IdleFor(wait) if wait > 13 * DAY), "{next:?}");
        let told = made.events.recv().await.unwrap();
        assert!(matches!(told, Event::Completion(NodeCompletion::FoundCorrupt(SliceId(2)))), "{told:?}");
        assert!(!made.context.storage.slices.contains(SliceId(2)), "it is out of service");
        let mut disks = made.context.storage.slices.statuses();
        made.context.storage.scrub_statuses.fill(&mut disks);
        let status = disks[0].scrub.clone().unwrap();
        assert_eq!((status.corrupt, status.began_unix_millis), (1, None));
        assert!(status.finished_unix_millis.is_some());
        // A restarted node knows that the pass was made.
        let mut again = scrub_of(&made);
        assert!(matches!(run(&mut again).await, (1, NextStep::IdleFor(_))));
    }

    #[tokio::test]
    async fn the_scrub_of_a_disk_that_fails_ends() {
        let mut made = fixture();
        made.store(1, 3_000_000).await;
        let mut scrub = scrub_of(&made);
        scrub.advance().await.unwrap();
        made.disk.set_fault(Some(DiskFault::Everything(5)));
        assert_eq!(scrub.advance().await.unwrap(), NextStep::Done);
        assert_eq!(made.context.storage.slices.check_disks().len(), 1, "what happened is told of the disk");
        assert!(made.events.try_recv().is_err(), "no slice is called damaged");
    }

    fn status(checked_bytes: u64, total_bytes: u64) -> ScrubStatus {
        ScrubStatus { began_unix_millis: Some(0), checked_bytes, total_bytes, ..ScrubStatus::default() }
    }

    #[test]
    fn the_pace_follows_what_is_left_to_read_and_the_time_left_for_it() {
        let period = 10 * DAY;
        let day = DAY.as_millis() as u64;
        let rate = |checked, at| rate_bytes_per_second(&status(checked, 1 << 44), at, period, 0);
        let at_first = rate(0, 0);
        assert_eq!(at_first, 2 * ((1 << 44) / (10 * 24 * 60 * 60)));
        assert!(rate(1 << 43, 0) < at_first, "half is read");
        assert!(rate(0, 5 * day) > at_first, "half of the time is over");
        assert!(rate(0, 20 * day) < u64::MAX / 4, "late it is fast, and not endless");
        assert_eq!(rate_bytes_per_second(&status(0, 1), 0, period, 0), RATE_MIN_BYTES_PER_SECOND);
    }

    #[test]
    fn it_goes_slower_for_each_who_wants_the_disk_and_never_stops() {
        let rate = |busy| rate_bytes_per_second(&status(0, 1 << 44), 0, 10 * DAY, busy);
        assert!((0..7).all(|busy| rate(busy + 1) < rate(busy)));
        assert_eq!(rate(1_000), rate(BUSY_MAX));
        assert!(pause(MIB, rate(1_000)) < Duration::from_secs(10), "within what a worker pauses at most");
        assert!(pause(0, 4 * MIB) > Duration::ZERO, "empty files cost time too");
    }

    #[test]
    fn a_pass_begins_one_period_after_the_last_began_and_at_once_where_there_was_none() {
        let period = 14 * DAY;
        let done = ScrubStatus { last_began_unix_millis: Some(1_000), ..ScrubStatus::default() };
        assert_eq!(until_due(&ScrubStatus::default(), 5, period), None);
        assert_eq!(until_due(&done, 1_000, period), Some(period));
        assert_eq!(until_due(&done, 1_000 + period.as_millis() as u64, period), None);
        assert_eq!(
            until_due(&done, 0, period),
            Some(period),
            "a clock that was set back puts it off by one period at most"
        );
        assert_eq!(until_due(&status(0, 1), 0, period), None, "in the middle of a pass");
    }
}
