//! The receiving half of a session: which fragments have come, the messages they make up, and when to acknowledge. Its
//! memory is bounded, whatever the peer sends. Fragments outside the window are never taken, and unfinished messages
//! never claim more than [`UNFINISHED_BYTES_MAX`] together.

use std::{collections::BTreeMap, time::Duration};

use crate::gmp::{
    ACKNOWLEDGE_EVERY_DATAGRAMS, ACKNOWLEDGEMENT_DELAY_MAX, FRAGMENT_BYTES_MAX, Fragment, Message, MessageKind,
    UNFINISHED_BYTES_MAX, WINDOW_FRAGMENTS,
    bits::Bits,
    frame::{self, WINDOW_WORDS},
};

/// What has arrived from the peer.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Every sequence number below has arrived.
    next: u64,
    /// Which of `next..next + WINDOW_FRAGMENTS` have.
    arrived: Bits<WINDOW_WORDS>,
    /// Unfinished messages by the sequence number of their first fragment.
    unfinished: BTreeMap<u64, Unfinished>,
    /// The size that they may reach together.
    claimed_bytes: usize,
    /// Datagrams with data since the last acknowledgement.
    unacknowledged_datagrams: u32,
    acknowledge_at: Option<Duration>,
}

/// The result of taking a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FragmentOutcome {
    /// It was the last one missing.
    Whole(Message),
    /// It was kept.
    Part,
    /// It had already come.
    Duplicate,
    /// It lies beyond the window, claims too much or contradicts others: the peer's fault.
    Contradiction,
    /// No message needs it; it is only acknowledged.
    Unwanted,
}

#[derive(Clone, Debug)]
struct Unfinished {
    kind: MessageKind,
    count: u16,
    missing: u16,
    body: Vec<u8>,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            arrived: Bits::new(),
            unfinished: BTreeMap::new(),
            claimed_bytes: 0,
            unacknowledged_datagrams: 0,
            acknowledge_at: None,
        }
    }

    /// Whether a fragment has come before.
    pub(super) fn has(&self, sequence: u64) -> bool {
        sequence < self.next || self.arrived.get(sequence - self.next)
    }

    /// Takes a fragment.
    pub(super) fn take(&mut self, fragment: &Fragment<'_>) -> FragmentOutcome {
        match self.sequence_state(fragment.sequence) {
            SequenceState::Received => return FragmentOutcome::Duplicate,
            SequenceState::OutOfWindow => return FragmentOutcome::Contradiction,
            SequenceState::Missing => {}
        }
        if fragment.count == 1 {
            self.mark(fragment.sequence);
            return FragmentOutcome::Whole(Message { kind: fragment.kind, body: fragment.payload.to_vec() });
        }
        if !self.unfinished.contains_key(&fragment.first) {
            let message = Unfinished::new(fragment);
            if self.claimed_bytes + message.bytes_max() > UNFINISHED_BYTES_MAX {
                return FragmentOutcome::Contradiction;
            }
            self.claimed_bytes += message.bytes_max();
            self.unfinished.insert(fragment.first, message);
        }
        self.take_part(fragment)
    }

    /// Acknowledges a sequence number with no needed content.
    pub(super) fn skip(&mut self, sequence: u64) -> FragmentOutcome {
        match self.sequence_state(sequence) {
            SequenceState::Received => FragmentOutcome::Duplicate,
            SequenceState::OutOfWindow => FragmentOutcome::Contradiction,
            SequenceState::Missing => {
                self.mark(sequence);
                FragmentOutcome::Unwanted
            }
        }
    }

    /// Forgets what has arrived of a request that nobody waits for any more.
    pub(super) fn forget_request(&mut self, request: u64) {
        let claimed_bytes = &mut self.claimed_bytes;
        self.unfinished.retain(|_, message| {
            let is_kept = message.kind != MessageKind::Request(request);
            *claimed_bytes -= if is_kept { 0 } else { message.bytes_max() };
            is_kept
        });
    }

    /// A datagram with data came. If it is out of order, repeated, or the second one, it is acknowledged at once.
    pub(super) fn datagram_came(&mut self, now: Duration, at_once: bool) {
        self.unacknowledged_datagrams += 1;
        let at_once = at_once || self.arrived.any() || self.unacknowledged_datagrams >= ACKNOWLEDGE_EVERY_DATAGRAMS;
        let by = if at_once { now } else { now + ACKNOWLEDGEMENT_DELAY_MAX };
        self.acknowledge_at = Some(self.acknowledge_at.map_or(by, |at| at.min(by)));
    }

    /// When an acknowledgement must leave at the latest, if one is owed.
    pub(super) fn acknowledge_at(&self) -> Option<Duration> {
        self.acknowledge_at
    }

    /// Writes the acknowledgement if one is owed, due or not: it travels with what is sent anyway.
    pub(super) fn write_acknowledgement(&mut self, out: &mut Vec<u8>) {
        if self.acknowledge_at.take().is_some() {
            self.unacknowledged_datagrams = 0;
            frame::write_acknowledgement(self.next, &self.arrived, out);
        }
    }

    /// Bytes kept for unfinished messages.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.unfinished.values().map(|message| message.body.capacity()).sum()
    }

    fn take_part(&mut self, fragment: &Fragment<'_>) -> FragmentOutcome {
        let Some(message) = self.unfinished.get_mut(&fragment.first) else {
            return FragmentOutcome::Contradiction;
        };
        if message.kind != fragment.kind || message.count != fragment.count {
            return FragmentOutcome::Contradiction;
        }
        message.put(fragment);
        let is_whole = message.missing == 0;
        self.mark(fragment.sequence);
        match is_whole.then(|| self.unfinished.remove(&fragment.first)).flatten() {
            Some(message) => {
                self.claimed_bytes -= message.bytes_max();
                FragmentOutcome::Whole(Message { kind: message.kind, body: message.body })
            }
            None => FragmentOutcome::Part,
        }
    }

    fn sequence_state(&self, sequence: u64) -> SequenceState {
        match sequence.checked_sub(self.next) {
            None => SequenceState::Received,
            Some(at) if at >= WINDOW_FRAGMENTS => SequenceState::OutOfWindow,
            Some(at) if self.arrived.get(at) => SequenceState::Received,
            Some(_) => SequenceState::Missing,
        }
    }

    fn mark(&mut self, sequence: u64) {
        self.arrived.set(sequence - self.next);
        let run = self.arrived.run();
        self.arrived.advance(run);
        self.next += run;
    }
}

/// Where a sequence number lies.
enum SequenceState {
    Received,
    Missing,
    OutOfWindow,
}

impl Unfinished {
    fn new(fragment: &Fragment<'_>) -> Self {
        // All at once: an honest peer fills it. The limit on claims bounds how many a dishonest peer may begin.
        let body = Vec::with_capacity(usize::from(fragment.count) * FRAGMENT_BYTES_MAX);
        Self { kind: fragment.kind, count: fragment.count, missing: fragment.count, body }
    }

    /// The size that its body may reach.
    fn bytes_max(&self) -> usize {
        usize::from(self.count) * FRAGMENT_BYTES_MAX
    }

    fn put(&mut self, fragment: &Fragment<'_>) {
        let (from, until) = (fragment.offset(), fragment.offset() + fragment.payload.len());
        if self.body.len() == from {
            self.body.extend_from_slice(fragment.payload);
        } else {
            self.body.resize(self.body.len().max(until), 0);
            self.body[from..until].copy_from_slice(fragment.payload);
        }
        self.missing -= 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{ProptestConfig, prop_assert, proptest},
    };

    use super::*;

    const FULL: [u8; FRAGMENT_BYTES_MAX] = [7; FRAGMENT_BYTES_MAX];

    fn single(sequence: u64) -> Fragment<'static> {
        Fragment { sequence, first: sequence, index: 0, count: 1, kind: MessageKind::Notice, payload: b"x" }
    }

    fn part(sequence: u64, index: u16, count: u16) -> Fragment<'static> {
        let payload = if index + 1 == count { b"end".as_slice() } else { &FULL };
        let first = sequence - u64::from(index);
        Fragment { sequence, first, index, count, kind: MessageKind::Request(1), payload }
    }

    fn acknowledgement(receiver: &mut Receiver) -> (u64, Vec<u64>) {
        let mut out = Vec::new();
        receiver.datagram_came(Duration::ZERO, true);
        receiver.write_acknowledgement(&mut out);
        match frame::Frames::new(&out).next() {
            Some(Ok(frame::Frame::Acknowledgement { next, map })) => (next, frame::marked(next, map).collect()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cut_message_is_whole_when_its_last_missing_fragment_comes_in_whatever_order() {
        let mut receiver = Receiver::new();
        assert_eq!(receiver.take(&part(2, 2, 3)), FragmentOutcome::Part);
        assert_eq!(receiver.take(&part(0, 0, 3)), FragmentOutcome::Part);
        assert!(matches!(receiver.take(&single(3)), FragmentOutcome::Whole(_)), "others overtake it");
        assert_eq!(acknowledgement(&mut receiver), (1, vec![2, 3]));
        let FragmentOutcome::Whole(message) = receiver.take(&part(1, 1, 3)) else { panic!("it is whole") };
        assert_eq!(message.body, [&FULL[..], &FULL, b"end"].concat());
        assert_eq!(acknowledgement(&mut receiver), (4, vec![]));
        assert_eq!(receiver.kept_bytes(), 0);
    }

    #[test]
    fn what_has_come_is_not_taken_again() {
        let mut receiver = Receiver::new();
        assert!(matches!(receiver.take(&single(0)), FragmentOutcome::Whole(_)));
        assert_eq!(receiver.take(&part(2, 1, 3)), FragmentOutcome::Part);
        assert_eq!(receiver.take(&single(0)), FragmentOutcome::Duplicate);
        assert_eq!(receiver.take(&part(2, 1, 3)), FragmentOutcome::Duplicate);
    }

    #[test]
    fn what_lies_beyond_the_window_or_contradicts_others_is_refused() {
        let mut receiver = Receiver::new();
        assert_eq!(receiver.take(&single(WINDOW_FRAGMENTS)), FragmentOutcome::Contradiction);
        assert_eq!(receiver.take(&part(11, 1, 3)), FragmentOutcome::Part);
        let other_kind = Fragment { kind: MessageKind::Notice, ..part(10, 0, 3) };
        for bad in [Fragment { first: 10, ..part(13, 3, 4) }, other_kind] {
            assert_eq!(receiver.take(&bad), FragmentOutcome::Contradiction, "{bad:?}");
        }
        assert_eq!(receiver.unfinished.len(), 1);
    }

    #[test]
    fn a_more_urgent_message_comes_between_the_fragments_of_another() {
        let mut receiver = Receiver::new();
        assert_eq!(receiver.take(&part(0, 0, 3)), FragmentOutcome::Part);
        assert!(matches!(receiver.take(&single(1)), FragmentOutcome::Whole(_)));
        assert_eq!(receiver.take(&Fragment { first: 0, ..part(2, 1, 3) }), FragmentOutcome::Part);
        assert!(matches!(receiver.take(&Fragment { first: 0, ..part(3, 2, 3) }), FragmentOutcome::Whole(_)));
        assert_eq!((receiver.kept_bytes(), receiver.claimed_bytes), (0, 0));
    }

    #[test]
    fn messages_that_claim_too_much_together_wait_until_others_are_whole_or_cancelled() {
        let mut receiver = Receiver::new();
        let begun: Vec<_> = (0..10).map(|at| receiver.take(&part(at, 0, 813))).collect();
        assert_eq!(begun.iter().filter(|taken| **taken == FragmentOutcome::Part).count(), 6);
        assert_eq!(begun[6..], [const { FragmentOutcome::Contradiction }; 4]);
        receiver.forget_request(1);
        assert_eq!((receiver.kept_bytes(), receiver.claimed_bytes), (0, 0));
        assert_eq!(receiver.take(&part(6, 0, 813)), FragmentOutcome::Part);
    }

    #[test]
    fn a_first_datagram_is_acknowledged_a_little_later_and_the_second_at_once() {
        let (mut receiver, now) = (Receiver::new(), Duration::from_secs(1));
        receiver.take(&single(0));
        receiver.datagram_came(now, false);
        assert_eq!(receiver.acknowledge_at(), Some(now + ACKNOWLEDGEMENT_DELAY_MAX));
        receiver.take(&single(1));
        receiver.datagram_came(now, false);
        assert_eq!(receiver.acknowledge_at(), Some(now));
        receiver.write_acknowledgement(&mut Vec::new());
        assert_eq!(receiver.acknowledge_at(), None);
        receiver.take(&single(5));
        receiver.datagram_came(now, false);
        assert_eq!(receiver.acknowledge_at(), Some(now), "there is a gap");
    }

    proptest! {
        // Each case is hundreds of fragments.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_peer_makes_a_receiver_keep_more_than_it_may_claim(
            fragments in vec((0u64..700, 0u16..815, 1u16..814), 1..400),
        ) {
            let mut receiver = Receiver::new();
            for (sequence, index, count) in fragments {
                let index = index % count;
                let last = index + 1 == count;
                // What the frame reader accepts.
                if u64::from(index) <= sequence && !(last && count == 813) {
                    receiver.take(&part(sequence, index, count));
                }
                prop_assert!(receiver.kept_bytes() <= receiver.claimed_bytes);
                prop_assert!(receiver.claimed_bytes <= UNFINISHED_BYTES_MAX);
            }
        }
    }
}
