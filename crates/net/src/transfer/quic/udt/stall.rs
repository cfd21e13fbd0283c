//! Whether an end or the path stood still. A busy machine may not run a thread for some tenths of a second, or a link
//! is gone for a moment. Packets then take long and arrive all at once, which looks like a long queue and a slow path.
//! Acknowledgements show it: none came for a while, and the next packet's delay grew by about that while. A queue does
//! not grow that fast. A sender with little to send sees silence too, but its round trip does not grow. Packets of a
//! stall are never measured.

use std::time::Duration;

/// Tracks when acknowledgements come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StallDetector {
    /// The last acknowledgement: when it came, and how long its newest packet took.
    last_acknowledgement: Option<(Duration, Duration)>,
    /// When the last silence ended, and until when packets that left before may still come.
    ended_at: Duration,
    until: Duration,
}

impl StallDetector {
    /// An acknowledgement comes, whose newest packet left at `sent_at`. Returns whether it says something about the
    /// path.
    pub(super) fn on_acknowledgement(&mut self, now: Duration, sent_at: Duration) -> bool {
        let took = now.saturating_sub(sent_at);
        if let Some((heard_at, before)) = self.last_acknowledgement {
            let gap = now.saturating_sub(heard_at);
            let longer = took.saturating_sub(before);
            // Packets that left in a silence belong to it, and begin no new one.
            if gap >= SILENCE && longer >= gap / 2 && sent_at >= self.ended_at {
                self.ended_at = now;
                self.until = now.saturating_add(before).saturating_add(SILENCE);
            }
        }
        self.last_acknowledgement = Some((now, took));
        // Packets that come even later have another reason.
        sent_at >= self.ended_at || now > self.until
    }
}

/// A shorter gap between acknowledgements comes from timers, batches of packets and their acknowledgements.
const SILENCE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Whether each acknowledgement says something, of `(comes at, newest packet left at)` in milliseconds.
    fn heard(acknowledgements: &[(u32, u32)]) -> Vec<bool> {
        let mut silence = StallDetector::default();
        acknowledgements.iter().map(|(now, sent_at)| silence.on_acknowledgement(MS * *now, MS * *sent_at)).collect()
    }

    #[test]
    fn what_was_in_flight_in_a_stall_is_not_measured_and_what_left_later_is() {
        let told = heard(&[(100, 0), (102, 2), (402, 4), (402, 50), (403, 101), (503, 402), (505, 404)]);
        assert_eq!(told, [true, true, false, false, false, true, true]);
    }

    #[test]
    fn a_sender_with_little_to_send_is_not_silent() {
        assert_eq!(heard(&[(100, 0), (300, 200), (600, 500)]), [true; 3]);
    }

    #[test]
    fn a_queue_that_grows_is_measured() {
        let growing: Vec<_> = (0..100).map(|at| (100 + 4 * at, 2 * at)).collect();
        assert_eq!(heard(&growing), [true; 100]);
    }

    #[test]
    fn a_path_that_became_very_slow_is_measured_after_a_round_trip() {
        // One packet each 40 ms, of what was sent each 2 ms.
        let slow: Vec<_> = (0..200).map(|at| (100 + 40 * at, 2 * at)).collect();
        let told = heard(&slow);
        assert!(!told[1] && told[5..70].iter().all(|says| *says), "{told:?}");
    }
}
