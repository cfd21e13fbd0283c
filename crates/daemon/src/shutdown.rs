//! Stopping in order. One [`TaskGroup`] owns a part's tasks, its [`ShutdownToken`]s tell them to end, and
//! [`TaskGroup::finish`] waits for that until a deadline. A process with several parts finishes their `TaskGroup`s one
//! after another, in the reverse order of their start. It never ends a task before the deadline.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::{Id, JoinError, JoinSet},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::DaemonError;

/// The right to stop a part of the process, and the tasks it consists of. Clones are the same.
#[derive(Clone)]
pub struct TaskGroup {
    /// Dropped with the last clone, which cancels: a part whose owner is gone should stop.
    cancelled: Arc<DropGuard>,
    tasks: Arc<Mutex<Tasks>>,
}

/// Tells a task that it should end. Cheap to clone. Unlike the library's token, it cannot cancel: a task never stops
/// the part that it belongs to.
#[derive(Clone, Debug)]
pub struct ShutdownToken(CancellationToken);

impl TaskGroup {
    /// A running part, without tasks so far.
    pub fn new() -> Self {
        Self { cancelled: Arc::new(CancellationToken::new().drop_guard()), tasks: Arc::default() }
    }

    /// A token for tasks that should end when this part is stopped.
    pub fn token(&self) -> ShutdownToken {
        ShutdownToken(self.cancelled.token().clone())
    }

    /// Starts a task that [`finish`](Self::finish) will wait for, under a name for people. It is for the few tasks that
    /// live as long as the part. Tasks that come and go (one a connection) are counted and bounded by their creators.
    pub fn spawn(&self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.lock();
        // Tasks that have ended are removed here, so that the set holds only running ones.
        while let Some(ended) = tasks.set.try_join_next_with_id() {
            tasks.note(ended);
        }
        let id = tasks.set.spawn(task).id();
        tasks.names.insert(id, name.into());
    }

    /// Asks all tasks to end and returns at once.
    pub fn cancel(&self) {
        self.cancelled.token().cancel();
    }

    /// Asks all tasks to end and waits until they have, at most for `patience`. Tasks still running then are cut off
    /// and named in the error. The error also names tasks that had ended by a panic.
    pub async fn finish(&self, patience: Duration) -> Result<(), DaemonError> {
        self.cancel();
        // Taken out, so that no lock is held while waiting; a task spawned from now on is not waited for.
        let mut tasks = std::mem::take(&mut *self.lock());
        let in_time = tokio::time::timeout(patience, async {
            while let Some(ended) = tasks.set.join_next_with_id().await {
                tasks.note(ended);
            }
        });
        if in_time.await.is_err() {
            let overdue = tasks.names.values().cloned().collect();
            tasks.set.shutdown().await;
            return Err(DaemonError::StopOverdue { tasks: overdue, waited: patience });
        }
        if tasks.panicked.is_empty() { Ok(()) } else { Err(DaemonError::TaskPanicked { tasks: tasks.panicked }) }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        // No code under this lock can leave the set half changed, so a poisoned lock is harmless.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShutdownToken {
    /// Returns when the part should stop, or when its owner is gone.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }

    /// Whether the part should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Runs `work` unless the part should stop before it is done; then gives `None` and drops `work` where it waits.
    pub async fn run_until_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.0.run_until_cancelled(work).await
    }
}

impl Default for TaskGroup {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TaskGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup").field("cancelled", &self.cancelled.token().is_cancelled()).finish_non_exhaustive()
    }
}

/// Waits for the terminal's ctrl-c or for SIGTERM, and says which one came.
pub async fn on_signal() -> Result<&'static str, DaemonError> {
    Ok(Signals::listen()?.next().await)
}

/// The two signals that ask a process to stop in order. From [`listen`](Self::listen) on they no longer kill it.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes the signals over; call it before any part that must not be killed half way.
    pub fn listen() -> Result<Self, DaemonError> {
        let take = |kind| signal(kind).map_err(DaemonError::Signals);
        Ok(Self { interrupt: take(SignalKind::interrupt())?, terminate: take(SignalKind::terminate())? })
    }

    /// Waits for the next of them, and says which one came.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "ctrl-c",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

#[derive(Default)]
struct Tasks {
    set: JoinSet<()>,
    names: BTreeMap<Id, String>,
    panicked: Vec<String>,
}

impl Tasks {
    fn note(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (id, panicked) = match &ended {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let name = self.names.remove(&id);
        if panicked && self.panicked.len() < PANICKED_NAMES_MAX {
            self.panicked.extend(name);
        }
    }
}

/// Most names of panicked tasks that are kept: enough to report, not enough to fill memory when one panics for ever.
const PANICKED_NAMES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn finish_returns_only_when_every_task_has_ended() {
        let stop = TaskGroup::new();
        let cleaned_up = Arc::new(AtomicBool::new(false));
        let (stopping, flag) = (stop.token(), Arc::clone(&cleaned_up));
        stop.spawn("cleaner", async move {
            stopping.cancelled().await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            flag.store(true, Ordering::SeqCst);
        });
        assert!(!stop.token().is_cancelled());
        stop.finish(PATIENCE).await.unwrap();
        assert!(cleaned_up.load(Ordering::SeqCst));
        assert!(stop.token().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_cut_off_and_named() {
        let stop = TaskGroup::new();
        let dropped = Arc::new(());
        let held = Arc::clone(&dropped);
        stop.spawn("punctual", async {});
        stop.spawn("deaf", async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        let error = stop.finish(PATIENCE).await.unwrap_err();
        assert!(matches!(&error, DaemonError::StopOverdue { tasks, .. } if *tasks == ["deaf"]), "{error}");
        assert_eq!(Arc::strong_count(&dropped), 1, "the task was not cut off");
    }

    #[tokio::test]
    async fn a_task_that_panicked_long_ago_is_still_named_at_the_end() {
        let stop = TaskGroup::new();
        stop.spawn("clumsy", async { panic!("on purpose") });
        // Each further task removes those that have ended.
        for _ in 0..100 {
            tokio::task::yield_now().await;
            stop.spawn("next", async {});
        }
        assert_eq!(stop.lock().panicked, ["clumsy"]);
        let error = stop.finish(PATIENCE).await.unwrap_err();
        assert!(matches!(&error, DaemonError::TaskPanicked { tasks } if *tasks == ["clumsy"]), "{error}");
        assert_eq!(error.class(), protocol::status::ErrorClass::Bug);
    }

    #[tokio::test]
    async fn work_is_given_up_once_the_stop_was_asked_for() {
        let stop = TaskGroup::new();
        let stopping = stop.token();
        assert_eq!(stopping.run_until_cancelled(async { 7 }).await, Some(7));
        stop.cancel();
        assert_eq!(stopping.run_until_cancelled(async { 7 }).await, None);
    }

    #[tokio::test]
    async fn a_token_whose_owner_is_gone_counts_as_asked() {
        let stopping = TaskGroup::new().token();
        stopping.cancelled().await;
        assert!(stopping.is_cancelled());
    }

    #[tokio::test]
    async fn sigterm_is_taken_over_and_reported() {
        let mut signals = Signals::listen().unwrap();
        let killed = std::process::Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status();
        assert!(killed.unwrap().success());
        assert_eq!(signals.next().await, "SIGTERM");
    }
}
