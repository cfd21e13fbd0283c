//! How often an upload or a copy is tried again, after which pause, and which progress a person is shown meanwhile
//! (paths: upload, third-party copy). It never decides what may be repeated: the caller knows that.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use protocol::SectorPath;

use super::TransferProgress;
use crate::{Client, ClientError, session::Delay};

/// The attempts at one file.
#[derive(Debug)]
pub(super) struct RetryState {
    made: u32,
    most: u32,
    furthest: u64,
}

impl Default for RetryState {
    fn default() -> Self {
        Self { made: 0, most: ATTEMPTS_MAX, furthest: 0 }
    }
}

impl RetryState {
    /// How long to wait before the next attempt, if there is to be one, after `error` and with `kept_bytes` of the file
    /// at a node. `may_repeat` can forbid it, and is only called when its answer matters.
    pub(super) fn pause_after(
        &mut self,
        error: &ClientError,
        kept_bytes: u64,
        may_repeat: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        if matches!(error, ClientError::Net { .. }) {
            self.most = ATTEMPTS_AFTER_BREAK_MAX;
        }
        self.made += 1;
        // A file that comes further each time may take as many attempts as it needs.
        if kept_bytes > self.furthest {
            (self.furthest, self.made) = (kept_bytes, 1);
        }
        if self.made >= self.most || !may_repeat() {
            return None;
        }
        let pause = pause_before(self.made);
        match error.retry_after() {
            // Sooner, the answer would be the same. A person who waits longer should know why.
            Some(after) if after > RETRY_AFTER_MAX => None,
            after => Some(pause.max(after.unwrap_or_default())),
        }
    }
}

/// The pause after this many attempts.
fn pause_before(made: u32) -> Duration {
    ATTEMPT_PAUSE_MIN.saturating_mul(1 << made.min(16)).min(ATTEMPT_PAUSE_MAX)
}

impl Client {
    /// Tells that a file is tried again, once it is no matter of a moment any more.
    pub(super) fn tell_retry(&self, path: &SectorPath, error: &ClientError, attempts: &RetryState, pause: Duration) {
        if pause >= PAUSE_TOLD_MIN {
            let at_most = (attempts.made..attempts.most).map(pause_before).sum::<Duration>().max(pause);
            self.tell(|| Delay { what: format!("`{path}` is tried again, since {error}"), at_most });
        }
    }
}

/// The progress shown for a file: bytes that come again with a later attempt are not shown again.
#[derive(Debug, Default)]
pub(super) struct ShownProgress {
    bytes: AtomicU64,
}

impl ShownProgress {
    /// Bytes shown so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// To be called with the bytes of the next attempt, from the file's beginning on.
    pub(super) fn next_attempt<'a>(&'a self, progress: TransferProgress<'a>) -> impl Fn(u64) + Send + Sync + 'a {
        let position = AtomicU64::new(0);
        move |bytes| {
            let now = position.fetch_add(bytes, Ordering::Relaxed) + bytes;
            let before = self.bytes.fetch_max(now, Ordering::Relaxed);
            progress(now.saturating_sub(before));
        }
    }
}

/// Whether a write has lost its lease by a renewal that failed. A lease outlives a moment without the master, and a
/// moment in which the master has too much to do.
pub(super) fn ends_lease(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(_)) && error.retry_after().is_none()
}

/// How often a file is tried if a node or the master refuses it.
const ATTEMPTS_MAX: u32 = 3;
/// How often a file is tried if its connection broke ...
const ATTEMPTS_AFTER_BREAK_MAX: u32 = 10;
/// ... with pauses between attempts, doubled each time, together 24 s. In that time a killed node has either started
/// again or been given up by the master, which then names another.
const ATTEMPT_PAUSE_MIN: Duration = Duration::from_millis(125);
const ATTEMPT_PAUSE_MAX: Duration = Duration::from_secs(4);

/// From such a pause on, a person has waited for some seconds.
const PAUSE_TOLD_MIN: Duration = Duration::from_secs(2);
/// The longest pause that is kept silently when the master asks for it; beyond it the refusal is reported.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::{Reason, Refusal, Status};

    use super::*;

    fn refused() -> ClientError {
        Refusal::new(Reason::Unavailable, "try again").into()
    }

    #[test]
    fn who_comes_no_further_is_soon_given_up_and_who_does_is_not() {
        let mut attempts = RetryState::default();
        assert!(attempts.pause_after(&refused(), 0, || false).is_none());
        let mut attempts = RetryState::default();
        let made = (0..100).take_while(|_| attempts.pause_after(&refused(), 0, || true).is_some()).count();
        assert_eq!(made as u32, ATTEMPTS_MAX - 1);
        let mut attempts = RetryState::default();
        assert!((1..100).all(|kept_bytes| attempts.pause_after(&refused(), kept_bytes, || true).is_some()));
    }

    // Promise 38.
    #[test]
    fn a_pause_that_the_master_asks_for_is_kept_and_a_long_one_is_left_to_the_person() {
        let too_much = |seconds| ClientError::from(Refusal::throttled("ann writes too many files", seconds));
        let mut attempts = RetryState::default();
        let pauses: Vec<_> = (0..100).map_while(|_| attempts.pause_after(&too_much(10), 0, || true)).collect();
        assert_eq!(pauses, [Duration::from_secs(10); ATTEMPTS_MAX as usize - 1]);
        assert_eq!(RetryState::default().pause_after(&too_much(11), 0, || true), None);
        assert_eq!(too_much(11).status(), Status::Unavailable);
        assert_eq!(too_much(11).to_string(), "ann writes too many files; try again in 11 s");
    }

    #[test]
    fn a_lease_outlives_a_master_that_is_away_or_has_too_much_to_do() {
        let ended = ClientError::from(Refusal::new(Reason::LeaseEnded, "the lease has ended"));
        let too_much = ClientError::from(Refusal::throttled("ann asks too much", 1));
        let away = ClientError::net("asking the master")(net::NetError::Closed {
            peer: ([127, 0, 0, 1], 9).into(),
            operation: "waiting",
        });
        assert_eq!([ended, too_much, away].map(|error| ends_lease(&error)), [true, false, false]);
    }

    #[test]
    fn a_broken_connection_is_tried_for_longer_and_pauses_grow() {
        let broken = ClientError::net("writing")(net::NetError::Closed {
            peer: ([127, 0, 0, 1], 9).into(),
            operation: "waiting",
        });
        let mut attempts = RetryState::default();
        let pauses: Vec<_> = (0..100).map_while(|_| attempts.pause_after(&broken, 0, || true)).collect();
        assert_eq!(pauses.len() as u32, ATTEMPTS_AFTER_BREAK_MAX - 1);
        assert!(pauses.is_sorted() && pauses.last() == Some(&ATTEMPT_PAUSE_MAX), "{pauses:?}");
    }

    #[test]
    fn bytes_that_come_again_are_shown_once() {
        let (shown, seen) = (ShownProgress::default(), AtomicU64::new(0));
        let progress = |bytes: u64| {
            seen.fetch_add(bytes, Ordering::Relaxed);
        };
        for attempt in [[5, 5], [7, 0], [6, 9]] {
            let told = shown.next_attempt(&progress);
            attempt.into_iter().for_each(told);
        }
        assert_eq!((seen.load(Ordering::Relaxed), shown.bytes()), (15, 15));
    }
}
