//! How late the sender is. QUIC's pacer forgets after two milliseconds what it might have sent. A thread that does not
//! run for ten milliseconds thus sends less than the rate, and the link is idle meanwhile. So the sender catches up, a
//! little faster than the rate. It never reads a clock.

use std::time::Duration;

/// Tracks when packets leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacingDeficit {
    sent_at: Duration,
    /// Bytes that the rate allowed and that did not leave.
    missed_bytes: f64,
    /// The sender had a reason not to send.
    is_limited: bool,
}

impl PacingDeficit {
    /// Packets of `bytes` leave, where `rate` (bytes a second) is the target.
    pub(super) fn on_sent(&mut self, now: Duration, bytes: u64, rate: f64) {
        let gap = now.saturating_sub(self.sent_at);
        self.sent_at = self.sent_at.max(now);
        if self.is_limited || gap > GAP_MAX {
            self.missed_bytes = 0.0;
        } else {
            self.missed_bytes += rate * gap.as_secs_f64();
        }
        self.is_limited = false;
        let most = rate * MISSED_MAX.as_secs_f64();
        self.missed_bytes = (self.missed_bytes - bytes as f64).clamp(-most, most);
    }

    /// The sender has nothing to send, or may not: packets that do not leave now are not missed.
    pub(super) fn mark_limited(&mut self) {
        self.is_limited = true;
    }

    /// Whether the sender must catch up at `rate`.
    pub(super) fn is_behind(&self, rate: f64) -> bool {
        self.missed_bytes > rate * PUNCTUAL.as_secs_f64()
    }
}

/// A gap as short as this comes from timers.
const PUNCTUAL: Duration = Duration::from_millis(2);
/// A longer gap has another reason.
const GAP_MAX: Duration = Duration::from_millis(30);
/// How much the sender catches up, in time at the rate.
const MISSED_MAX: Duration = Duration::from_millis(30);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RATE: f64 = 125e6;

    /// Sends what the rate allows, at these milliseconds.
    fn sends(deficit: &mut PacingDeficit, times: impl IntoIterator<Item = u32>) {
        let mut before = 0;
        for at in times {
            let due_ms = (at - before).min(2);
            before = at;
            deficit.on_sent(MS * at, u64::from(due_ms) * 125_000, RATE);
        }
    }

    #[test]
    fn a_punctual_sender_is_never_late() {
        let mut deficit = PacingDeficit::default();
        sends(&mut deficit, 1..1_000);
        assert!(!deficit.is_behind(RATE));
    }

    #[test]
    fn what_a_gap_cost_is_missed() {
        let mut deficit = PacingDeficit::default();
        sends(&mut deficit, (1..100).chain([110]));
        assert!(deficit.is_behind(RATE));
    }

    #[test]
    fn an_excused_gap_is_none() {
        let mut deficit = PacingDeficit::default();
        sends(&mut deficit, 1..100);
        deficit.mark_limited();
        sends(&mut deficit, [110]);
        assert!(!deficit.is_behind(RATE));
    }

    #[test]
    fn what_is_made_up_for_is_forgotten_as_missed() {
        let mut deficit = PacingDeficit::default();
        sends(&mut deficit, (1..100).chain([110]));
        deficit.on_sent(111 * MS, 2_000_000, RATE);
        assert!(!deficit.is_behind(RATE));
    }
}
