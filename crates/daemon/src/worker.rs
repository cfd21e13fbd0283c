//! Background work that can be watched and slowed: scrubbing, watching disks, renewing certificates. A
//! [`BackgroundWork`] is done in bounded steps, and the worker pauses between them in proportion to the last step's time.
//! So it leaves a chosen share of the disks and links to foreground requests. `sector work` shows every worker of the
//! cloud. A worker decides when a step runs, never what it does.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::message::work::{WorkFault, WorkItem, WorkKind, WorkState};
use tokio::{sync::Notify, time::Instant};

use crate::shutdown::{ShutdownToken, TaskGroup};

/// Work that never finishes, or only after many steps.
pub trait BackgroundWork: Send + 'static {
    /// Longest pause after an error: work resumes within a minute after a manual repair.
    const BACK_OFF_MAX: Duration = Duration::from_secs(60);

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

/// The workers of a role.
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

    /// Starts a worker on what its kind and its subject name. It pauses `pause_ratio` times as long as its last step
    /// took: 0 is full speed, 1 half the time, 9 a tenth of it.
    pub fn start(
        &self,
        kind: WorkKind,
        subject: impl Into<String>,
        pause_ratio: f64,
        work: impl BackgroundWork,
    ) -> Worker {
        let worker = Worker { shared: Arc::new(Shared::new(kind, subject.into(), pause_ratio)) };
        lock(&self.list).push(worker.clone());
        self.stop.spawn(worker.name(), run(work, worker.clone(), self.stop.token()));
        worker
    }

    /// A row for each worker, in the order of their start, as of this time.
    pub fn rows(&self, now_unix_millis: u64) -> Vec<WorkItem> {
        let now = Instant::now();
        lock(&self.list).iter().map(|worker| worker.status().row(now, now_unix_millis)).collect()
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

    /// The progress of the work, in the [unit](WorkKind::unit) of its kind; `None` for what is not known.
    pub fn set_progress(&self, done: Option<u64>, left: Option<u64>) {
        let mut status = self.lock();
        (status.done, status.left) = (done, left);
    }

    /// The work will be due in this time, although the next step, which only looks, may come earlier.
    pub fn set_due(&self, due: Duration) {
        self.lock().due = Instant::now().checked_add(due);
    }

    /// The current status of the worker.
    pub fn status(&self) -> WorkerStatus {
        self.lock().clone()
    }

    fn name(&self) -> String {
        let status = self.lock();
        format!("{} {}", status.kind.as_str(), status.subject).trim_end().to_owned()
    }

    fn lock(&self) -> MutexGuard<'_, WorkerStatus> {
        lock(&self.shared.status)
    }

    /// Records how a step ended and says how to wait for the next.
    fn note(&self, took: Duration, ended: Result<NextStep, WorkError>, back_off_max: Duration) -> Wait {
        let mut status = self.lock();
        match ended {
            Ok(next) => {
                status.steps += 1;
                status.errors_in_a_row = 0;
                let (state, wait) = match next {
                    NextStep::Continue => (WorkState::Running, Wait::Pause(pause(took, status.pause_ratio))),
                    NextStep::ContinueAfter(span) => (WorkState::Running, Wait::Pause(span.min(PAUSE_MAX))),
                    NextStep::IdleFor(span) => (WorkState::Idle, Wait::Idle(Some(span))),
                    NextStep::IdleUntilWoken => (WorkState::Idle, Wait::Idle(None)),
                    NextStep::Done => (WorkState::Off, Wait::End),
                };
                status.state = state;
                status.set_next(wait);
                wait
            }
            Err(error) => {
                let (work, subject) = (status.kind.as_str(), &status.subject);
                tracing::warn!(work, subject, %error, "a step of background work failed and will be repeated");
                status.state = WorkState::Failing;
                status.errors_in_a_row = status.errors_in_a_row.saturating_add(1);
                status.last_error = Some((Instant::now(), error.to_string()));
                let wait = Wait::Pause(back_off(status.errors_in_a_row, back_off_max));
                status.set_next(wait);
                wait
            }
        }
    }
}

async fn run<W: BackgroundWork>(mut work: W, worker: Worker, stopping: ShutdownToken) {
    while !stopping.is_cancelled() {
        let began = Instant::now();
        worker.lock().due = None;
        let ended = work.step(&worker).await;
        let woken = worker.shared.woken.notified();
        let waited = match worker.note(began.elapsed(), ended, W::BACK_OFF_MAX) {
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

fn back_off(errors_in_a_row: u32, longest: Duration) -> Duration {
    BACK_OFF_MIN.saturating_mul(2u32.saturating_pow(errors_in_a_row.saturating_sub(1))).min(longest)
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
    /// What it works on.
    pub kind: WorkKind,
    /// Which of several of its kind.
    pub subject: String,
    /// What it does now.
    pub state: WorkState,
    /// How much is done, if someone counts.
    pub done: Option<u64>,
    /// How much is left, if known.
    pub left: Option<u64>,
    /// Steps that succeeded.
    pub steps: u64,
    /// Steps that failed since the last that succeeded.
    pub errors_in_a_row: u32,
    /// The last error and when it was, even if later steps succeeded.
    pub last_error: Option<(Instant, String)>,
    /// When its next step is.
    pub next: Option<Instant>,
    /// When its work is due, where the last step has said so.
    pub due: Option<Instant>,
    /// Its throttle; see [`Workers::start`].
    pub pause_ratio: f64,
}

impl WorkerStatus {
    fn set_next(&mut self, wait: Wait) {
        self.next = match wait {
            Wait::Pause(span) | Wait::Idle(Some(span)) => Instant::now().checked_add(span),
            Wait::Idle(None) | Wait::End => None,
        };
    }

    /// What others are told of it. While it works, nobody needs to know when its next step is.
    fn row(&self, now: Instant, now_unix_millis: u64) -> WorkItem {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let next = if self.state == WorkState::Running { None } else { self.due.or(self.next) };
        WorkItem {
            kind: self.kind,
            subject: self.subject.clone(),
            state: self.state,
            done: self.done,
            left: self.left,
            last_fault: self.last_error.as_ref().map(|(at, message)| {
                WorkFault::new(now_unix_millis.saturating_sub(millis(now.saturating_duration_since(*at))), message)
            }),
            next_unix_millis: next
                .map(|next| now_unix_millis.saturating_add(millis(next.saturating_duration_since(now)))),
        }
    }
}

struct Shared {
    status: Mutex<WorkerStatus>,
    woken: Notify,
}

impl Shared {
    fn new(kind: WorkKind, subject: String, pause_ratio: f64) -> Self {
        let status = WorkerStatus {
            kind,
            subject,
            state: WorkState::Running,
            done: None,
            left: None,
            steps: 0,
            errors_in_a_row: 0,
            last_error: None,
            next: None,
            due: None,
            pause_ratio: pause_ratio.max(0.0),
        };
        Self { status: Mutex::new(status), woken: Notify::new() }
    }
}

#[derive(Clone, Copy)]
enum Wait {
    Pause(Duration),
    Idle(Option<Duration>),
    End,
}

/// Longest pause of the throttle.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Pause after a first error; it doubles with each further one.
const BACK_OFF_MIN: Duration = Duration::from_secs(1);

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
            worker.set_progress(Some(10 - self.steps.len() as u64), Some(self.steps.len() as u64));
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
        workers.start(WorkKind::Scrub, "disk", 2.0, work);
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
        let worker = workers.start(WorkKind::Scrub, "disk", 9.0, work);
        let first = next(&mut began).await;
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(worker.status().state, WorkState::Running, "it is in the middle of its work");
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
        let worker = workers.start(WorkKind::Repair, "", 0.0, work);
        let first = next(&mut began).await;
        let second = next(&mut began).await;
        assert_eq!(second - first, BACK_OFF_MIN);
        let [row] = &workers.rows(1_000_000)[..] else { panic!("one worker") };
        assert_eq!((row.kind, row.state), (WorkKind::Repair, WorkState::Failing));
        assert_eq!(row.next_unix_millis, Some(1_002_000), "it says when it is repeated");
        let third = next(&mut began).await;
        assert_eq!(third - second, 2 * BACK_OFF_MIN);
        tokio::time::sleep(SECOND).await;
        let status = worker.status();
        assert_eq!((status.state, status.errors_in_a_row, status.steps), (WorkState::Idle, 0, 1));
        let row = workers.rows(1_000_000).remove(0);
        // It was two seconds before the last step, and one before now.
        assert_eq!(row.last_fault, Some(WorkFault::new(997_000, "disk still on fire")));
        assert_eq!((row.done, row.left, row.next_unix_millis), (Some(10), Some(0), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_during_a_step_is_not_lost() {
        let (work, mut began) =
            script([(SECOND, Ok(NextStep::IdleUntilWoken)), (SECOND, Ok(NextStep::IdleFor(100 * SECOND)))]);
        // Kept: a worker ends without its owner.
        let workers = Workers::new(&TaskGroup::new());
        let worker = workers.start(WorkKind::TrashPurge, "", 0.0, work);
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
        let worker = Workers::new(&stop).start(WorkKind::Repair, "", 0.0, work);
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
        workers.start(WorkKind::DiskWatch, "", 0.0, waiting);
        workers.start(WorkKind::Rebuild, "", 0.0, done);
        next(&mut began).await;
        next(&mut done_began).await;
        stop.finish(SECOND).await.unwrap();
        let states: Vec<_> = workers.rows(0).iter().map(|row| row.state).collect();
        assert_eq!(states, [WorkState::Idle, WorkState::Off]);
    }

    /// Looks every hour whether something is due that is due in a day.
    struct Renewal;

    impl BackgroundWork for Renewal {
        async fn step(&mut self, worker: &Worker) -> Result<NextStep, WorkError> {
            worker.set_due(24 * 3_600 * SECOND);
            Ok(NextStep::IdleFor(3_600 * SECOND))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_says_when_work_is_due_and_not_when_it_is_looked_at() {
        let workers = Workers::new(&TaskGroup::new());
        workers.start(WorkKind::CertificateRenewal, "", 0.0, Renewal);
        tokio::time::sleep(SECOND).await;
        let row = workers.rows(1_000_000).remove(0);
        assert_eq!(row.next_unix_millis, Some(1_000_000 + (24 * 3_600 - 1) * 1_000));
    }

    #[test]
    fn pauses_and_back_offs_are_bounded_and_never_panic() {
        for ratio in [0.0, 1e300, f64::INFINITY, f64::NAN] {
            assert!(pause(Duration::from_secs(100), ratio) <= PAUSE_MAX, "{ratio}");
        }
        assert_eq!(back_off(u32::MAX, 60 * SECOND), 60 * SECOND);
    }
}
