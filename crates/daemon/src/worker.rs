//! Background work that can be watched and slowed: repair of copies, scrubbing, cleaning up. A [`BackgroundWork`] is
//! done in bounded steps, and the worker pauses between them in proportion to the last step's time. So background work
//! leaves a chosen share of the disks and links to foreground requests. A worker decides when a step runs, never what
//! it does.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::shutdown::{ShutdownToken, TaskGroup};

/// Work that never finishes, or only after many steps.
pub trait BackgroundWork: Send + 'static {
    /// Does one bounded piece (a slice, a page) and says when to go on. A stop does not cut it off, so it must end by
    /// itself within seconds. An error is recorded and the step repeated after a growing pause.
    fn step(&mut self, worker: &Worker) -> impl Future<Output = Result<NextStep, WorkError>> + Send;
}

/// What went wrong in a step: any error, since only a person reads it.
pub type WorkError = Box<dyn Error + Send + Sync>;

/// When a worker takes its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// There is more to do: at once, apart from the throttle's pause.
    Continue,
    /// There is more to do, after this pause, which the work has computed itself; the throttle adds none.
    ContinueAfter(Duration),
    /// Nothing to do for this long, or until woken.
    IdleFor(Duration),
    /// Nothing to do until [`Worker::wake`].
    IdleUntilWoken,
    /// Never: the work is done.
    Done,
}

/// The workers of a role, by name.
#[derive(Clone, Debug)]
pub struct Workers {
    stop: TaskGroup,
    list: Arc<Mutex<Vec<Worker>>>,
}

impl Workers {
    /// No workers yet; later ones are among the tasks of `stop`.
    pub fn new(stop: &TaskGroup) -> Self {
        Self { stop: stop.clone(), list: Arc::default() }
    }

    /// Starts a worker. It pauses `pause_ratio` times as long as its last step took: 0 is full speed, 1 half the time,
    /// 9 a tenth of it.
    pub fn start(&self, name: impl Into<String>, pause_ratio: f64, work: impl BackgroundWork) -> Worker {
        let name = name.into();
        let worker = Worker { shared: Arc::new(Shared::new(name.clone(), pause_ratio)) };
        lock(&self.list).push(worker.clone());
        self.stop.spawn(name, run(work, worker.clone(), self.stop.token()));
        worker
    }

    /// The status of each worker, in the order of their start.
    pub fn statuses(&self) -> Vec<WorkerStatus> {
        lock(&self.list).iter().map(Worker::status).collect()
    }
}

/// A worker as its work and its owner see it. Clones are the same worker.
#[derive(Clone)]
pub struct Worker {
    shared: Arc<Shared>,
}

impl Worker {
    /// Ends the wait of a waiting worker; a working one looks again after its step. No wake is lost.
    pub fn wake(&self) {
        self.shared.woken.notify_one();
    }

    /// The progress of the work: `done` of `total`, in units that its name implies; `None` if the total is not known.
    pub fn set_progress(&self, done: u64, total: Option<u64>) {
        let mut status = self.lock();
        (status.done, status.total) = (done, total);
    }

    /// The current status of the worker.
    pub fn status(&self) -> WorkerStatus {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, WorkerStatus> {
        lock(&self.shared.status)
    }

    /// Records how a step ended and says how to wait for the next.
    fn note(&self, took: Duration, ended: Result<NextStep, WorkError>) -> Wait {
        let mut status = self.lock();
        match ended {
            Ok(next) => {
                status.steps += 1;
                status.errors_in_a_row = 0;
                let (state, wait) = match next {
                    NextStep::Continue => (WorkerState::Busy, Wait::Pause(pause(took, status.pause_ratio))),
                    NextStep::ContinueAfter(span) => (WorkerState::Busy, Wait::Pause(span.min(PAUSE_MAX))),
                    NextStep::IdleFor(span) => (WorkerState::Waiting, Wait::Idle(Some(span))),
                    NextStep::IdleUntilWoken => (WorkerState::Waiting, Wait::Idle(None)),
                    NextStep::Done => (WorkerState::Done, Wait::End),
                };
                status.state = state;
                wait
            }
            Err(error) => {
                tracing::warn!(worker = status.name, %error, "a step of background work failed and will be repeated");
                status.state = WorkerState::Failing;
                status.errors_in_a_row = status.errors_in_a_row.saturating_add(1);
                status.last_error = Some(error.to_string().chars().take(ERROR_CHARACTERS_MAX).collect());
                Wait::Pause(back_off(status.errors_in_a_row))
            }
        }
    }
}

async fn run(mut work: impl BackgroundWork, worker: Worker, stopping: ShutdownToken) {
    while !stopping.is_cancelled() {
        let began = Instant::now();
        let ended = work.step(&worker).await;
        let woken = worker.shared.woken.notified();
        let waited = match worker.note(began.elapsed(), ended) {
            Wait::Pause(span) => stopping.run_until_cancelled(tokio::time::sleep(span)).await,
            // The timeout's error only says that the span is over, which is as good as a wake.
            Wait::Idle(Some(span)) => {
                stopping.run_until_cancelled(async { drop(tokio::time::timeout(span, woken).await) }).await
            }
            Wait::Idle(None) => stopping.run_until_cancelled(woken).await,
            Wait::End => return,
        };
        if waited.is_none() {
            return;
        }
    }
}

/// The throttle: in proportion to the step, but never so long that the worker seems dead.
fn pause(took: Duration, pause_ratio: f64) -> Duration {
    Duration::try_from_secs_f64(took.as_secs_f64() * pause_ratio).unwrap_or(PAUSE_MAX).min(PAUSE_MAX)
}

fn back_off(errors_in_a_row: u32) -> Duration {
    BACK_OFF_MIN.saturating_mul(2u32.saturating_pow(errors_in_a_row.saturating_sub(1))).min(BACK_OFF_MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is complete in itself, so a poisoned lock is harmless.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status().fmt(f)
    }
}

/// The status of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerStatus {
    /// Its name.
    pub name: String,
    /// What it does now.
    pub state: WorkerState,
    /// How much is done.
    pub done: u64,
    /// How much there is to do, if known.
    pub total: Option<u64>,
    /// Steps that succeeded.
    pub steps: u64,
    /// Steps that failed since the last that succeeded.
    pub errors_in_a_row: u32,
    /// The last error, even if later steps succeeded.
    pub last_error: Option<String>,
    /// Its throttle; see [`Workers::start`].
    pub pause_ratio: f64,
}

/// What a worker does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It works, or pauses between two steps.
    Busy,
    /// It has nothing to do.
    Waiting,
    /// Its last step failed; it will repeat it.
    Failing,
    /// It has ended.
    Done,
}

struct Shared {
    status: Mutex<WorkerStatus>,
    woken: Notify,
}

impl Shared {
    fn new(name: String, pause_ratio: f64) -> Self {
        let status = WorkerStatus {
            name,
            state: WorkerState::Busy,
            done: 0,
            total: None,
            steps: 0,
            errors_in_a_row: 0,
            last_error: None,
            pause_ratio: pause_ratio.max(0.0),
        };
        Self { status: Mutex::new(status), woken: Notify::new() }
    }
}

enum Wait {
    Pause(Duration),
    Idle(Option<Duration>),
    End,
}

/// Longest pause of the throttle.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Pause after a first error; it doubles with each further one.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);
/// Longest pause after an error: work resumes within a minute after a manual repair.
const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// Most characters of an error that are kept for the status.
const ERROR_CHARACTERS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::VecDeque;

    use tokio::sync::mpsc;

    use super::*;

    /// Plays a list of outcomes, each after its time at work, and tells when each step began; then waits to be woken.
    struct Script {
        steps: VecDeque<(Duration, Result<NextStep, &'static str>)>,
        began: mpsc::Sender<Instant>,
    }

    impl BackgroundWork for Script {
        async fn step(&mut self, worker: &Worker) -> Result<NextStep, WorkError> {
            self.began.send(Instant::now()).await.unwrap();
            let (span, outcome) = self.steps.pop_front().unwrap_or((Duration::ZERO, Ok(NextStep::IdleUntilWoken)));
            tokio::time::sleep(span).await;
            worker.set_progress(10 - self.steps.len() as u64, Some(10));
            Ok(outcome?)
        }
    }

    fn script(
        steps: impl Into<VecDeque<(Duration, Result<NextStep, &'static str>)>>,
    ) -> (Script, mpsc::Receiver<Instant>) {
        let (began, receiver) = mpsc::channel(100);
        (Script { steps: steps.into(), began }, receiver)
    }

    /// When the next step began; a step that never comes fails the test once the stopped clock has run far ahead.
    async fn next(began: &mut mpsc::Receiver<Instant>) -> Instant {
        tokio::time::timeout(10_000 * SECOND, began.recv()).await.unwrap().unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_pause_is_in_proportion_to_the_step() {
        let (work, mut began) = script([(SECOND, Ok(NextStep::Continue)), (2 * SECOND, Ok(NextStep::Continue))]);
        let workers = Workers::new(&TaskGroup::new());
        workers.start("scrub", 2.0, work);
        let first = next(&mut began).await;
        let second = next(&mut began).await;
        let third = next(&mut began).await;
        assert_eq!((second - first).as_millis(), 3_000);
        assert_eq!((third - second).as_millis(), 6_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_the_work_reckoned_itself_is_taken_instead_of_the_throttles() {
        let (work, mut began) = script([(SECOND, Ok(NextStep::ContinueAfter(3 * SECOND)))]);
        let workers = Workers::new(&TaskGroup::new());
        let worker = workers.start("scrub", 9.0, work);
        let first = next(&mut began).await;
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(worker.status().state, WorkerState::Busy, "it is in the middle of its work");
        assert_eq!(next(&mut began).await - first, 4 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_kept_and_the_step_repeated_ever_later() {
        let (work, mut began) = script([
            (Duration::ZERO, Err("disk on fire")),
            (Duration::ZERO, Err("disk still on fire")),
            (Duration::ZERO, Ok(NextStep::IdleUntilWoken)),
        ]);
        let workers = Workers::new(&TaskGroup::new());
        workers.start("repair", 0.0, work);
        let first = next(&mut began).await;
        let second = next(&mut began).await;
        assert_eq!(second - first, BACK_OFF_MIN);
        let [status] = &workers.statuses()[..] else { panic!("one worker") };
        assert_eq!((status.name.as_str(), status.state), ("repair", WorkerState::Failing));
        let third = next(&mut began).await;
        assert_eq!(third - second, 2 * BACK_OFF_MIN);
        tokio::time::sleep(SECOND).await;
        let status = workers.statuses().remove(0);
        assert_eq!((status.state, status.errors_in_a_row, status.steps), (WorkerState::Waiting, 0, 1));
        assert_eq!(status.last_error.as_deref(), Some("disk still on fire"));
        assert_eq!((status.done, status.total), (10, Some(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_during_a_step_is_not_lost() {
        let (work, mut began) =
            script([(SECOND, Ok(NextStep::IdleUntilWoken)), (SECOND, Ok(NextStep::IdleFor(100 * SECOND)))]);
        // Kept: a worker ends without its owner.
        let workers = Workers::new(&TaskGroup::new());
        let worker = workers.start("cleaner", 0.0, work);
        let first = next(&mut began).await;
        worker.wake();
        let second = next(&mut began).await;
        assert_eq!(second - first, SECOND);
        // Without a wake, it goes on when its time is over.
        assert_eq!(next(&mut began).await - second, 101 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_lets_the_step_end_and_takes_no_further_one() {
        let stop = TaskGroup::new();
        let (work, mut began) = script([(SECOND, Ok(NextStep::Continue)), (SECOND, Ok(NextStep::Continue))]);
        let worker = Workers::new(&stop).start("repair", 0.0, work);
        next(&mut began).await;
        stop.finish(10 * SECOND).await.unwrap();
        assert_eq!(worker.status().steps, 1);
        assert!(began.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_stops_at_once_and_one_that_is_done_stays_listed() {
        let stop = TaskGroup::new();
        let workers = Workers::new(&stop);
        let (waiting, mut began) = script([]);
        let (done, mut done_began) = script([(Duration::ZERO, Ok(NextStep::Done))]);
        workers.start("waiting", 0.0, waiting);
        workers.start("once", 0.0, done);
        next(&mut began).await;
        next(&mut done_began).await;
        stop.finish(SECOND).await.unwrap();
        let states: Vec<_> = workers.statuses().iter().map(|status| status.state).collect();
        assert_eq!(states, [WorkerState::Waiting, WorkerState::Done]);
    }

    #[test]
    fn pauses_and_back_offs_are_bounded_and_never_panic() {
        for ratio in [0.0, 1e300, f64::INFINITY, f64::NAN] {
            assert!(pause(Duration::from_secs(100), ratio) <= PAUSE_MAX, "{ratio}");
        }
        assert_eq!(back_off(u32::MAX), BACK_OFF_MAX);
    }
}
