//! The sending half of a session: cuts messages into fragments, remembers each until it is acknowledged, and sends it
//! again when three later datagrams were acknowledged or the retransmission time has passed. It never copies a message
//! but into the datagram, and holds no more than the queue's limits.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::gmp::{
    FRAGMENT_BYTES_MAX, Fragment, Message, MessageKind, REORDERING_DATAGRAMS, REPLY_ALLOWANCE, SEND_QUEUE_BYTES_MAX,
    SEND_QUEUE_MESSAGES_MAX, WINDOW_FRAGMENTS,
    congestion::Congestion,
    frame::{self, FRAGMENT_HEAD_BYTES},
    round_trip::RoundTrip,
};

/// What is on its way to the peer.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// Messages not wholly cut yet; the first is being cut.
    queue: VecDeque<Arc<Message>>,
    /// Fragments already cut from the first message of the queue.
    cut: u16,
    /// Sequence number of `slots[0]`: all below are acknowledged.
    base: u64,
    /// Cut fragments, at most [`WINDOW_FRAGMENTS`].
    slots: VecDeque<Slot>,
    /// Sequence numbers of the slots that are held for lost and wait to be sent again.
    lost: BTreeSet<u64>,
    /// Slots sent, not acknowledged and not held for lost, and their bytes with the heads.
    in_flight: usize,
    in_flight_bytes: usize,
    /// Bytes of messages not acknowledged yet, cut or not.
    bytes: usize,
    round_trip: RoundTrip,
    congestion: Congestion,
    /// The highest packet numbers of which we know that they arrived, highest first.
    arrived_packets: [u64; REORDERING_DATAGRAMS],
    retransmit_at: Option<Duration>,
}

/// A cut fragment.
#[derive(Clone, Debug)]
struct Slot {
    message: Arc<Message>,
    index: u16,
    count: u16,
    state: SlotState,
    /// The packet that carried it last, and when.
    packet: u64,
    sent_at: Duration,
    sent_again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    InFlight,
    Lost,
    Acknowledged,
}

/// What went into a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) fragments: usize,
    pub(super) sent_again: usize,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            cut: 0,
            base: 0,
            slots: VecDeque::new(),
            lost: BTreeSet::new(),
            in_flight: 0,
            in_flight_bytes: 0,
            bytes: 0,
            round_trip: RoundTrip::default(),
            congestion: Congestion::new(),
            arrived_packets: [0; REORDERING_DATAGRAMS],
            retransmit_at: None,
        }
    }

    /// Queues a message; `false` when the queue is full.
    pub(super) fn push(&mut self, message: Message) -> bool {
        let allowance = if matches!(message.kind, MessageKind::Reply(_)) { REPLY_ALLOWANCE } else { 1 };
        let is_full = self.bytes + message.body.len() > allowance * SEND_QUEUE_BYTES_MAX
            || self.queue.len() >= allowance * SEND_QUEUE_MESSAGES_MAX;
        if !is_full {
            self.bytes += message.body.len();
            self.queue.push_back(Arc::new(message));
        }
        !is_full
    }

    /// Whether nothing waits to be sent or acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.slots.is_empty()
    }

    /// Whether a fragment may leave now.
    pub(super) fn wants_to_send(&self) -> bool {
        let has_room = self.in_flight_bytes < self.congestion.window_bytes();
        has_room && (!self.lost.is_empty() || self.may_cut())
    }

    /// Puts as many fragments as fit and may leave into the datagram `packet`, the lost ones first.
    pub(super) fn fill(&mut self, now: Duration, packet: u64, room_until: usize, out: &mut Vec<u8>) -> Filled {
        let mut filled = Filled::default();
        while self.wants_to_send() {
            let (sequence, again) = match self.lost.first() {
                Some(sequence) => (*sequence, true),
                None => (self.base + self.slots.len() as u64, false),
            };
            let slot = if again { self.slots[(sequence - self.base) as usize].clone() } else { self.next_cut(now) };
            if out.len() + FRAGMENT_HEAD_BYTES + slot.payload().len() > room_until {
                break;
            }
            slot.fragment(sequence).write(out);
            self.in_flight_bytes += slot.bytes();
            let slot = Slot { state: SlotState::InFlight, packet, sent_at: now, sent_again: again, ..slot };
            if again {
                self.lost.pop_first();
                self.slots[(sequence - self.base) as usize] = slot;
            } else {
                self.has_cut(&slot);
                self.slots.push_back(slot);
            }
            self.in_flight += 1;
            filled.fragments += 1;
            filled.sent_again += usize::from(again);
        }
        if filled.fragments > 0 && self.retransmit_at.is_none() {
            self.retransmit_at = Some(now + self.round_trip.retransmission_time());
        }
        filled
    }

    /// Takes an acknowledgement; `false` when it speaks of what was never sent.
    pub(super) fn acknowledged(&mut self, now: Duration, next: u64, map: &[u8], next_packet: u64) -> bool {
        let end = self.base + self.slots.len() as u64;
        if next > end || frame::marked(next, map).last().is_some_and(|sequence| sequence >= end) {
            return false;
        }
        let mut newest: Option<Slot> = None;
        let mut bytes = 0;
        let behind = frame::marked(next, map).filter(|sequence| *sequence >= self.base);
        for sequence in (self.base..next).chain(behind.collect::<Vec<_>>()) {
            if let Some(slot) = self.settle(sequence) {
                bytes += slot.bytes();
                // Only what was sent once tells which packet arrived, and when (Karn).
                if !slot.sent_again && newest.as_ref().is_none_or(|newest| newest.sent_at <= slot.sent_at) {
                    newest = Some(slot);
                }
            }
        }
        while self.slots.front().is_some_and(|slot| slot.state == SlotState::Acknowledged) {
            self.slots.pop_front();
            self.base += 1;
        }
        if bytes > 0 {
            if let Some(slot) = newest {
                self.round_trip.measured(now.saturating_sub(slot.sent_at));
            }
            self.congestion.acknowledged(bytes);
            self.find_overtaken(next_packet);
            self.retransmit_at = (self.in_flight > 0).then(|| now + self.round_trip.retransmission_time());
        }
        true
    }

    /// When [`time_out`](Self::time_out) must be called, if at all.
    pub(super) fn retransmit_at(&self) -> Option<Duration> {
        self.retransmit_at
    }

    /// The retransmission time has passed without an acknowledgement: what is older than a round trip is lost.
    pub(super) fn time_out(&mut self, now: Duration, next_packet: u64) {
        let oldest = self.in_flight().map(|slot| slot.sent_at).min().unwrap_or(now);
        let until = now.saturating_sub(self.round_trip.estimate()).max(oldest);
        self.lose(|slot| slot.sent_at <= until);
        self.round_trip.back_off();
        self.congestion.timed_out(next_packet);
        self.retransmit_at = (self.in_flight > 0).then(|| now + self.round_trip.retransmission_time());
    }

    fn may_cut(&self) -> bool {
        !self.queue.is_empty() && (self.slots.len() as u64) < WINDOW_FRAGMENTS
    }

    /// The next fragment of the queue's first message, not yet taken from it.
    ///
    /// # Panics
    /// When the queue is empty; `may_cut` was asked before.
    fn next_cut(&self, now: Duration) -> Slot {
        let message = Arc::clone(&self.queue[0]);
        // A message has at most MESSAGE_FRAGMENTS_MAX fragments; an empty one has one.
        let count = message.body.len().div_ceil(FRAGMENT_BYTES_MAX).max(1) as u16;
        Slot { message, index: self.cut, count, state: SlotState::InFlight, packet: 0, sent_at: now, sent_again: false }
    }

    fn has_cut(&mut self, slot: &Slot) {
        self.cut += 1;
        if self.cut == slot.count {
            self.cut = 0;
            self.queue.pop_front();
        }
    }

    /// Marks a slot acknowledged and gives it back as it was; `None` if it was so before.
    fn settle(&mut self, sequence: u64) -> Option<Slot> {
        let slot = self.slots.get_mut((sequence - self.base) as usize)?;
        let was = slot.clone();
        match slot.state {
            SlotState::InFlight => {
                self.in_flight -= 1;
                self.in_flight_bytes -= slot.bytes();
            }
            SlotState::Lost => {
                self.lost.remove(&sequence);
            }
            SlotState::Acknowledged => return None,
        }
        slot.state = SlotState::Acknowledged;
        self.bytes -= was.payload().len();
        if !was.sent_again && !self.arrived_packets.contains(&was.packet) {
            self.arrived_packets[REORDERING_DATAGRAMS - 1] =
                was.packet.max(self.arrived_packets[REORDERING_DATAGRAMS - 1]);
            self.arrived_packets.sort_unstable_by(|a, b| b.cmp(a));
        }
        Some(was)
    }

    /// Fast retransmission: holds for lost what enough later datagrams have overtaken.
    fn find_overtaken(&mut self, next_packet: u64) {
        let overtaken_below = self.arrived_packets[REORDERING_DATAGRAMS - 1];
        if let Some(packet) = self.lose(|slot| slot.packet < overtaken_below) {
            self.congestion.lost(packet, next_packet);
        }
    }

    /// Holds for lost the slots under way that `is_lost` names; gives the highest packet number among them.
    fn lose(&mut self, is_lost: impl Fn(&Slot) -> bool) -> Option<u64> {
        let mut highest = None;
        for (slot, sequence) in self.slots.iter_mut().zip(self.base..) {
            if slot.state == SlotState::InFlight && is_lost(slot) {
                slot.state = SlotState::Lost;
                self.lost.insert(sequence);
                self.in_flight -= 1;
                self.in_flight_bytes -= slot.bytes();
                highest = highest.max(Some(slot.packet));
            }
        }
        highest
    }

    fn in_flight(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.state == SlotState::InFlight)
    }
}

impl Slot {
    /// What it takes of a datagram.
    fn bytes(&self) -> usize {
        FRAGMENT_HEAD_BYTES + self.payload().len()
    }

    fn payload(&self) -> &[u8] {
        let from = usize::from(self.index) * FRAGMENT_BYTES_MAX;
        &self.message.body[from..self.message.body.len().min(from + FRAGMENT_BYTES_MAX)]
    }

    fn fragment(&self, sequence: u64) -> Fragment<'_> {
        Fragment { sequence, index: self.index, count: self.count, kind: self.message.kind, payload: self.payload() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gmp::{RETRANSMISSION_TIME_INITIAL, bits::Bits};

    const ROOM: usize = 1_342;

    fn notice(bytes: usize) -> Message {
        Message { kind: MessageKind::Notice, body: vec![1; bytes] }
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A sender that has sent `fragments` full fragments at 0 ms, one in each packet.
    fn sender(fragments: u64) -> Sender {
        let mut sender = Sender::new();
        assert!(sender.push(notice(fragments as usize * FRAGMENT_BYTES_MAX)));
        for packet in 0..fragments {
            assert_eq!(sender.fill(ms(0), packet, ROOM, &mut Vec::new()).fragments, 1);
        }
        sender
    }

    #[test]
    fn small_messages_share_a_datagram_and_large_ones_are_cut() {
        let mut sender = Sender::new();
        for bytes in [10, 20, 0, 3 * FRAGMENT_BYTES_MAX] {
            assert!(sender.push(notice(bytes)));
        }
        let fragments: Vec<_> =
            (0..4).map(|packet| sender.fill(ms(0), packet, ROOM, &mut Vec::new()).fragments).collect();
        assert_eq!(fragments, [3, 1, 1, 1]);
        assert!(!sender.wants_to_send() && !sender.is_idle());
        assert!(sender.acknowledged(ms(1), 6, &[], 4));
        assert!(sender.is_idle());
        assert_eq!((sender.bytes, sender.in_flight, sender.in_flight_bytes, sender.retransmit_at), (0, 0, 0, None));
    }

    #[test]
    fn what_three_later_datagrams_overtook_is_sent_again_at_once() {
        let mut sender = sender(6);
        assert!(sender.acknowledged(ms(1), 0, &[0b110], 6));
        assert!(!sender.wants_to_send(), "two later ones may have overtaken it");
        assert!(sender.acknowledged(ms(2), 0, &[0b1110], 6));
        let filled = sender.fill(ms(2), 6, ROOM, &mut Vec::new());
        assert_eq!(filled, Filled { fragments: 1, sent_again: 1 });
        assert!(sender.acknowledged(ms(3), 6, &[], 7) && sender.is_idle());
    }

    #[test]
    fn silence_sends_again_and_doubles_the_wait() {
        let mut sender = sender(1);
        let first = RETRANSMISSION_TIME_INITIAL;
        assert_eq!(sender.retransmit_at(), Some(first));
        sender.time_out(first, 1);
        assert_eq!(sender.fill(first, 1, ROOM, &mut Vec::new()), Filled { fragments: 1, sent_again: 1 });
        assert_eq!(sender.retransmit_at(), Some(first + first * 2));
        assert!(sender.acknowledged(first + ms(1), 1, &[], 2));
        assert_eq!(sender.round_trip.retransmission_time(), first * 2, "no one knows which sending was acknowledged");
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_changes_nothing() {
        let mut sender = sender(2);
        assert!(!sender.acknowledged(ms(1), 3, &[], 2));
        assert!(!sender.acknowledged(ms(1), 0, &[0b100], 2));
        assert!(!sender.acknowledged(ms(1), u64::MAX, &[0xfe], 2));
        assert_eq!(sender.in_flight, 2);
        assert!(
            sender.acknowledged(ms(1), 1, &[], 2) && sender.acknowledged(ms(1), 0, &[0b10], 2),
            "a late one is known"
        );
        assert!(sender.is_idle());
    }

    #[test]
    fn no_more_than_a_window_is_under_way() {
        let mut sender = Sender::new();
        assert!(sender.push(notice(400 * FRAGMENT_BYTES_MAX)));
        let (mut packet, mut most) = (0, 0);
        for round in 0..40 {
            while sender.fill(ms(round), packet, ROOM, &mut Vec::new()).fragments > 0 {
                packet += 1;
            }
            most = most.max(sender.in_flight);
            let end = sender.base + sender.slots.len() as u64;
            assert!(sender.slots.len() <= 256);
            assert!(sender.acknowledged(ms(round), end, &[], packet));
        }
        assert_eq!((most > 100, sender.is_idle()), (true, true));
    }

    #[test]
    fn a_missing_fragment_holds_the_window_back_however_much_else_arrives() {
        let mut sender = Sender::new();
        assert!(sender.push(notice(600 * FRAGMENT_BYTES_MAX)));
        let mut packet = 0;
        for round in 0..1_000 {
            while sender.fill(ms(round), packet, ROOM, &mut Vec::new()).fragments > 0 {
                packet += 1;
            }
            assert!(sender.slots.len() as u64 <= WINDOW_FRAGMENTS);
            let mut all_but_the_first = Bits::<4>::new();
            (1..sender.slots.len() as u64).for_each(|at| all_but_the_first.set(at));
            let map: Vec<_> = all_but_the_first.bytes().collect();
            assert!(sender.acknowledged(ms(round), 0, &map, packet));
        }
        assert_eq!((sender.base, sender.slots.len()), (0, 256));
        assert!(sender.acknowledged(ms(50), 256, &[], packet) && sender.wants_to_send());
    }

    #[test]
    fn a_full_queue_refuses_and_a_reply_may_fill_it_twice() {
        let mut sender = Sender::new();
        while sender.push(notice(1 << 20)) {}
        assert_eq!(sender.bytes, SEND_QUEUE_BYTES_MAX);
        let reply = || Message { kind: MessageKind::Reply(1), body: vec![0; 1 << 20] };
        while sender.push(reply()) {}
        assert_eq!(sender.bytes, 2 * SEND_QUEUE_BYTES_MAX);
        let mut sender = Sender::new();
        while sender.push(notice(0)) {}
        assert_eq!(sender.queue.len(), SEND_QUEUE_MESSAGES_MAX);
    }
}
