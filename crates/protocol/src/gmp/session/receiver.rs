//! The receiving half of a session: which fragments have come, the messages they make up, and when to say so. Its memory
//! is bounded whatever the peer sends: fragments are taken only within the window, and messages may not overlap, so
//! that all unfinished ones together span less than the window and two of the largest messages.

use std::{collections::BTreeMap, time::Duration};

use crate::gmp::{
    ACKNOWLEDGE_EVERY_DATAGRAMS, ACKNOWLEDGEMENT_DELAY_MAX, FRAGMENT_BYTES_MAX, Fragment, Message, MessageKind,
    WINDOW_FRAGMENTS,
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
    /// Unfinished messages by the sequence number of their first fragment. They do not overlap, and every fragment
    /// marked in their range is their own.
    unfinished: BTreeMap<u64, Unfinished>,
    /// Datagrams with data since the last acknowledgement.
    unacknowledged_datagrams: u32,
    acknowledge_at: Option<Duration>,
}

/// What came of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was the last that was missing.
    Whole(Message),
    /// It was kept.
    Part,
    /// It had come before.
    Duplicate,
    /// It lies beyond the window or contradicts others: the peer's fault.
    Contradiction,
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
            unacknowledged_datagrams: 0,
            acknowledge_at: None,
        }
    }

    /// Whether a fragment has come before.
    pub(super) fn has(&self, sequence: u64) -> bool {
        sequence < self.next || self.arrived.get(sequence - self.next)
    }

    /// Takes a fragment.
    pub(super) fn take(&mut self, fragment: &Fragment<'_>) -> Taken {
        if self.has(fragment.sequence) {
            return Taken::Duplicate;
        }
        if fragment.sequence - self.next >= WINDOW_FRAGMENTS {
            return Taken::Contradiction;
        }
        let first = fragment.first();
        if fragment.count == 1 {
            if !self.is_free(first, 1) {
                return Taken::Contradiction;
            }
            self.mark(fragment.sequence);
            return Taken::Whole(Message { kind: fragment.kind, body: fragment.payload.to_vec() });
        }
        if !self.unfinished.contains_key(&first) {
            if first < self.next || !self.is_free(first, fragment.count) {
                return Taken::Contradiction;
            }
            self.unfinished.insert(first, Unfinished::new(fragment));
        }
        self.take_part(first, fragment)
    }

    /// A datagram with data came. Out of order, repeated, or the second: it is acknowledged at once.
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

    /// Writes the acknowledgement if one is owed, due or not: it rides on what is sent anyway.
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

    fn take_part(&mut self, first: u64, fragment: &Fragment<'_>) -> Taken {
        let Some(message) = self.unfinished.get_mut(&first) else {
            return Taken::Contradiction;
        };
        if message.kind != fragment.kind || message.count != fragment.count {
            return Taken::Contradiction;
        }
        message.put(fragment);
        let is_whole = message.missing == 0;
        self.mark(fragment.sequence);
        match is_whole.then(|| self.unfinished.remove(&first)).flatten() {
            Some(message) => Taken::Whole(Message { kind: message.kind, body: message.body }),
            None => Taken::Part,
        }
    }

    /// Whether `count` sequence numbers from `first` on (not below `next` but for a count of 1) touch neither an
    /// unfinished message nor a fragment that has come.
    fn is_free(&self, first: u64, count: u16) -> bool {
        let Some(end) = first.checked_add(u64::from(count)) else {
            return false;
        };
        let before = self.unfinished.range(..first).next_back();
        let after = self.unfinished.range(first..).next();
        before.is_none_or(|(at, message)| at + u64::from(message.count) <= first)
            && after.is_none_or(|(at, _)| end <= *at)
            && (first..end.min(self.next + WINDOW_FRAGMENTS)).all(|sequence| !self.has(sequence))
    }

    fn mark(&mut self, sequence: u64) {
        self.arrived.set(sequence - self.next);
        let run = self.arrived.run();
        self.arrived.advance(run);
        self.next += run;
    }
}

impl Unfinished {
    fn new(fragment: &Fragment<'_>) -> Self {
        // All at once: an honest peer fills it, and the overlap rule bounds how many a dishonest one may begin.
        let body = Vec::with_capacity(usize::from(fragment.count) * FRAGMENT_BYTES_MAX);
        Self { kind: fragment.kind, count: fragment.count, missing: fragment.count, body }
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
    use crate::limits::MESSAGE_BYTES_MAX;

    const FULL: [u8; FRAGMENT_BYTES_MAX] = [7; FRAGMENT_BYTES_MAX];

    fn single(sequence: u64) -> Fragment<'static> {
        Fragment { sequence, index: 0, count: 1, kind: MessageKind::Notice, payload: b"x" }
    }

    fn part(sequence: u64, index: u16, count: u16) -> Fragment<'static> {
        let payload = if index + 1 == count { b"end".as_slice() } else { &FULL };
        Fragment { sequence, index, count, kind: MessageKind::Request(1), payload }
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
        assert_eq!(receiver.take(&part(2, 2, 3)), Taken::Part);
        assert_eq!(receiver.take(&part(0, 0, 3)), Taken::Part);
        assert!(matches!(receiver.take(&single(3)), Taken::Whole(_)), "others overtake it");
        assert_eq!(acknowledgement(&mut receiver), (1, vec![2, 3]));
        let Taken::Whole(message) = receiver.take(&part(1, 1, 3)) else { panic!("it is whole") };
        assert_eq!(message.body, [&FULL[..], &FULL, b"end"].concat());
        assert_eq!(acknowledgement(&mut receiver), (4, vec![]));
        assert_eq!(receiver.kept_bytes(), 0);
    }

    #[test]
    fn what_has_come_is_not_taken_again() {
        let mut receiver = Receiver::new();
        assert!(matches!(receiver.take(&single(0)), Taken::Whole(_)));
        assert_eq!(receiver.take(&part(2, 1, 3)), Taken::Part);
        assert_eq!(receiver.take(&single(0)), Taken::Duplicate);
        assert_eq!(receiver.take(&part(2, 1, 3)), Taken::Duplicate);
    }

    #[test]
    fn what_lies_beyond_the_window_or_contradicts_others_is_refused() {
        let mut receiver = Receiver::new();
        assert_eq!(receiver.take(&single(WINDOW_FRAGMENTS)), Taken::Contradiction);
        assert_eq!(receiver.take(&part(11, 1, 3)), Taken::Part);
        let other_kind = Fragment { kind: MessageKind::Notice, ..part(10, 0, 3) };
        for bad in [single(12), single(10), part(12, 2, 4), part(9, 0, 3), part(13, 1, 3), other_kind] {
            assert_eq!(receiver.take(&bad), Taken::Contradiction, "{bad:?}");
        }
        assert!(matches!(receiver.take(&single(20)), Taken::Whole(_)));
        assert_eq!(receiver.take(&part(19, 0, 3)), Taken::Contradiction, "its second has come as another's");
        assert_eq!(receiver.unfinished.len(), 1);
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
        fn no_peer_makes_a_receiver_keep_more_than_three_messages(
            fragments in vec((0u64..700, 0u16..810, 1u16..809), 1..400),
        ) {
            let mut receiver = Receiver::new();
            for (sequence, index, count) in fragments {
                let index = index % count;
                let last = index + 1 == count;
                // What the frame reader lets through.
                if u64::from(index) <= sequence && !(last && count == 808) {
                    receiver.take(&part(sequence, index, count));
                }
                prop_assert!(receiver.kept_bytes() <= 3 * (MESSAGE_BYTES_MAX + FRAGMENT_BYTES_MAX));
                prop_assert!(receiver.unfinished.len() as u64 <= WINDOW_FRAGMENTS);
                prop_assert!(receiver.unfinished.iter().all(|(at, message)| at + u64::from(message.count) > receiver.next));
            }
        }
    }
}
