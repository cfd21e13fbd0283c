//! Tasks whose input is away: no copy of what they read can be reached. They wait, and are tried again from time to
//! time, for as long as the [job](crate::job) has patience; that is no failure of any node.

use std::time::Duration;

use protocol::{Now, Refusal, message::spe::AttemptId};

use super::{RETRY_PAUSE, Stage};

/// What was found to be away last.
#[derive(Debug)]
pub(super) struct UnavailableInput {
    task: u32,
    refusal: Refusal,
}

/// For how long a task's input has been away.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutageSpan {
    since: Duration,
    /// When that was found last.
    last_checked: Duration,
}

impl Stage {
    /// An attempt that is counted on was not begun, since no copy of its input can be reached: the task waits for a
    /// while, unless another attempt at it is at work. Gives for how long its input has been away.
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
            // It has its input; only a rival did not get it.
            past.speculate_after = now + PAUSE_MAX;
            return Duration::ZERO;
        }
        state.is_unblamed = true;
        // Where nobody has looked for a while, it may have been there in between.
        let span = past.outage.filter(|span| now.saturating_sub(span.last_checked) <= UNSEEN_MAX);
        let since = span.map_or(now, |span| span.since);
        past.outage = Some(OutageSpan { since, last_checked: now });
        self.unavailable_input = Some(UnavailableInput { task, refusal: refusal.clone() });
        let waited = now.saturating_sub(since);
        // As long again as it has waited, so that many of them do not ask the master all the time.
        self.paused.insert((now + waited.clamp(RETRY_PAUSE, PAUSE_MAX), task));
        waited
    }

    /// What a task waits for, of those whose input is away.
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

/// Longest pause: what is back is found soon.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// What was away before and after such a time counts as away twice: a task may wait long for an SPE.
const UNSEEN_MAX: Duration = Duration::from_secs(60);
