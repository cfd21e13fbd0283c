//! Tasks whose input is unavailable: no copy of it can be reached. They wait, and are tried again from time to time,
//! until the patience of the [job](crate::job) ends. This never counts as a failure of a node.

use std::time::Duration;

use protocol::{Now, Refusal, message::spe::AttemptId};

use super::{RETRY_PAUSE, Stage};

/// The input last found to be unavailable.
#[derive(Debug)]
pub(super) struct UnavailableInput {
    task: u32,
    refusal: Refusal,
}

/// For how long a task's input has been unavailable.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutageSpan {
    since: Duration,
    /// When that was last found.
    last_checked: Duration,
}

impl Stage {
    /// An attempt that is counted on was not begun, since no copy of its input can be reached. The task waits for a
    /// while, unless another attempt at it is at work. Gives for how long its input has been unavailable.
    pub(crate) fn await_input(&mut self, now: Now, attempt: AttemptId, refusal: &Refusal) -> Duration {
        let task = attempt.task;
        if self.end(attempt).is_none() {
            return Duration::ZERO;
        }
        let now = now.monotonic;
        let state = &mut self.tasks[task as usize];
        let past = state.past.get_or_insert_default();
        past.not_begun += 1;
        if self.running_attempts.contains_key(&task) {
            // The task has its input; only a rival did not get it.
            past.speculate_after = now + PAUSE_MAX;
            return Duration::ZERO;
        }
        state.is_unblamed = true;
        // If it was not checked for a while, the input may have been there in between.
        let span = past.outage.filter(|span| now.saturating_sub(span.last_checked) <= UNSEEN_MAX);
        let since = span.map_or(now, |span| span.since);
        past.outage = Some(OutageSpan { since, last_checked: now });
        self.unavailable_input = Some(UnavailableInput { task, refusal: refusal.clone() });
        let waited = now.saturating_sub(since);
        // The pause equals the time waited so far, so that many such tasks do not ask the master all the time.
        self.paused.insert((now + waited.clamp(RETRY_PAUSE, PAUSE_MAX), task));
        waited
    }

    /// The input that a task waits for, if any is unavailable.
    pub(crate) fn awaited_input(&self) -> Option<&Refusal> {
        self.unavailable_input.as_ref().map(|away| &away.refusal)
    }

    /// An attempt at this task had its input.
    pub(super) fn has_input(&mut self, task: u32) {
        let state = &mut self.tasks[task as usize];
        state.is_unblamed = false;
        if let Some(past) = &mut state.past {
            past.outage = None;
        }
        self.unavailable_input.take_if(|away| away.task == task);
    }
}

/// Longest pause: an input that is back is found soon.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// If longer than this passes between two attempts that found no input, a new outage begins: a task may wait long for
/// an SPE.
const UNSEEN_MAX: Duration = Duration::from_secs(60);
