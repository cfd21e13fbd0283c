//! The sending half of a session. It cuts messages into fragments, the most urgent first, and remembers each until it
//! is acknowledged. A fragment is sent again when three later datagrams were acknowledged or the retransmission time
//! has passed. It never copies a message except into the datagram, and never holds more than the queue's limits.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::slot::{Content, Slot, SlotState};
use crate::gmp::{
    CANCELS_WAITING_MAX, Class, Message, MessageKind, REORDERING_DATAGRAMS, REPLY_ALLOWANCE, SEND_QUEUE_BYTES_MAX,
    SEND_QUEUE_MESSAGES_MAX, congestion::Congestion, frame, round_trip::RoundTrip,
};

/// The messages and fragments on their way to the peer.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// Messages not completely cut yet, by class.
    queues: [Queue; Class::ALL.len()],
    /// Cancelled requests that the peer is to be told of.
    cancels: VecDeque<u64>,
    /// Sequence number of `slots[0]`: all below are acknowledged.
    base: u64,
    /// Cut fragments, at most [`WINDOW_FRAGMENTS`](crate::gmp::WINDOW_FRAGMENTS).
    slots: VecDeque<Slot>,
    /// The slots that count as lost and wait to be sent again: class and sequence number.
    lost: BTreeSet<(Class, u64)>,
    /// Slots sent, not acknowledged and not counted as lost, and the bytes they took of their packets.
    in_flight: usize,
    in_flight_bytes: usize,
    /// Bytes of messages not acknowledged yet, cut or not.
    bytes: usize,
    round_trip: RoundTrip,
    congestion: Congestion,
    /// The highest packet numbers that are known to have arrived, highest first.
    arrived_packets: [u64; REORDERING_DATAGRAMS],
    retransmit_at: Option<Duration>,
}

/// Messages of one class; the first is being cut.
#[derive(Clone, Debug, Default)]
struct Queue {
    messages: VecDeque<Arc<Message>>,
    /// Fragments already cut from the first message, and the sequence number of the first of them.
    cut: u16,
    first: u64,
}

/// What leaves next.
#[derive(Clone, Copy)]
enum Next {
    /// A slot that counts as lost.
    Retransmit(u64),
    /// The first of the cancellations.
    Cancel,
    /// The next fragment of a class's queue.
    Cut(Class),
}

/// What went into a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) fragments: usize,
    pub(super) retransmitted: usize,
}

impl Sender {
    pub(super) fn new() -> Self {
        Self {
            queues: Default::default(),
            cancels: VecDeque::new(),
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
    pub(super) fn push(&mut self, class: Class, message: Arc<Message>) -> bool {
        let is_allowed_more = class == Class::Urgent || matches!(message.kind, MessageKind::Reply(_));
        let allowance = if is_allowed_more { REPLY_ALLOWANCE } else { 1 };
        let waiting: usize = self.queues.iter().map(|queue| queue.messages.len()).sum();
        let is_full = self.bytes + message.body.len() > allowance * SEND_QUEUE_BYTES_MAX
            || waiting >= allowance * SEND_QUEUE_MESSAGES_MAX;
        if !is_full {
            self.bytes += message.body.len();
            self.queues[class as usize].messages.push_back(message);
        }
        !is_full
    }

    /// Sends no more of a request. The peer is told, unless none of it was sent. A fragment under way is resent as a
    /// cancellation should it be lost. So the peer never gets the rest of a message that it cannot complete.
    pub(super) fn cancel_request(&mut self, request: u64) {
        let kind = MessageKind::Request(request);
        for queue in &mut self.queues {
            if let Some(at) = queue.messages.iter().position(|message| message.kind == kind) {
                let cut = if at == 0 { std::mem::take(&mut queue.cut) } else { 0 };
                let message = queue.messages.remove(at);
                self.bytes -= message.map_or(0, |message| Slot::bytes_behind(&message, cut));
                if cut == 0 {
                    return;
                }
            }
        }
        for slot in &mut self.slots {
            if slot.state != SlotState::Acknowledged && slot.content.is_of(kind) {
                self.bytes -= slot.content.payload().len();
                slot.content = Content::Cancel(request);
            }
        }
        if self.cancels.len() < CANCELS_WAITING_MAX {
            self.cancels.push_back(request);
        }
    }

    /// Takes back the reply to a request if none of it was sent. Returns whether there is a reply to it, sent or not.
    pub(super) fn drop_reply(&mut self, request: u64) -> bool {
        let kind = MessageKind::Reply(request);
        for queue in &mut self.queues {
            if let Some(at) = queue.messages.iter().position(|message| message.kind == kind) {
                if at > 0 || queue.cut == 0 {
                    let message = queue.messages.remove(at);
                    self.bytes -= message.map_or(0, |message| message.body.len());
                }
                return true;
            }
        }
        self.slots.iter().any(|slot| slot.content.is_of(kind))
    }

    /// Whether nothing waits to be sent or acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.cancels.is_empty() && self.queues.iter().all(|queue| queue.messages.is_empty())
    }

    /// Whether a fragment may leave now.
    pub(super) fn wants_to_send(&self) -> bool {
        self.next().is_some()
    }

    /// Puts as many fragments as fit and may leave into the datagram `packet`.
    pub(super) fn fill(&mut self, now: Duration, packet: u64, room_until: usize, out: &mut Vec<u8>) -> Filled {
        let mut filled = Filled::default();
        while let Some(next) = self.next() {
            let (sequence, slot) = match next {
                Next::Retransmit(sequence) => (sequence, self.slots[(sequence - self.base) as usize].clone()),
                Next::Cancel => (self.end(), Slot::new(Class::Urgent, Content::Cancel(self.cancels[0]))),
                Next::Cut(class) => (self.end(), self.cut(class)),
            };
            if out.len() + slot.content.frame_bytes() > room_until {
                break;
            }
            slot.content.write(sequence, out);
            let sent_again = matches!(next, Next::Retransmit(_));
            let sent_bytes = slot.content.frame_bytes();
            let slot = Slot {
                state: SlotState::InFlight,
                packet,
                sent_at: now,
                is_retransmission: sent_again,
                sent_bytes,
                ..slot
            };
            match next {
                Next::Retransmit(_) => {
                    self.lost.remove(&(slot.class, sequence));
                    self.slots[(sequence - self.base) as usize] = slot;
                }
                Next::Cancel => {
                    self.cancels.pop_front();
                    self.slots.push_back(slot);
                }
                Next::Cut(class) => {
                    self.has_cut(class, &slot.content);
                    self.slots.push_back(slot);
                }
            }
            self.in_flight += 1;
            self.in_flight_bytes += sent_bytes;
            filled.fragments += 1;
            filled.retransmitted += usize::from(sent_again);
        }
        if filled.fragments > 0 && self.retransmit_at.is_none() {
            self.retransmit_at = Some(now + self.round_trip.retransmission_time());
        }
        filled
    }

    /// Takes an acknowledgement; `false` when it names something never sent.
    pub(super) fn acknowledged(&mut self, now: Duration, next: u64, map: &[u8], next_packet: u64) -> bool {
        let end = self.end();
        if next > end || frame::marked(next, map).last().is_some_and(|sequence| sequence >= end) {
            return false;
        }
        let mut newest: Option<Duration> = None;
        let (mut settled, mut bytes) = (0, 0);
        let behind = frame::marked(next, map).filter(|sequence| *sequence >= self.base);
        for sequence in (self.base..next).chain(behind.collect::<Vec<_>>()) {
            if let Some((sent_at, sent_bytes)) = self.acknowledge_slot(sequence) {
                settled += 1;
                bytes += sent_bytes;
                newest = newest.max(sent_at);
            }
        }
        while self.slots.front().is_some_and(|slot| slot.state == SlotState::Acknowledged) {
            self.slots.pop_front();
            self.base += 1;
        }
        if self.is_idle() {
            // A session may be idle for weeks, and there may be 100,000.
            self.slots = VecDeque::new();
        }
        if settled > 0 {
            if let Some(sent_at) = newest {
                self.round_trip.measured(now.saturating_sub(sent_at));
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

    /// The retransmission time has passed without an acknowledgement: everything older than a round trip is lost.
    pub(super) fn time_out(&mut self, now: Duration, next_packet: u64) {
        let in_flight = || self.slots.iter().filter(|slot| slot.state == SlotState::InFlight);
        let oldest = in_flight().map(|slot| slot.sent_at).min().unwrap_or(now);
        let until = now.saturating_sub(self.round_trip.estimate()).max(oldest);
        // With so few under way, no three datagrams followed that would have shown the loss. So it is a loss like any
        // other, and says no more about the path than one (RFC 8985, 7, has a probe for it). Silence after that does.
        let is_tail = self.in_flight <= REORDERING_DATAGRAMS && !self.round_trip.is_backed_off();
        let lost = self.lose(|slot| slot.sent_at <= until);
        match lost.filter(|_| is_tail) {
            Some(packet) => self.congestion.lost(packet, next_packet),
            None => self.congestion.timed_out(next_packet),
        }
        self.round_trip.back_off();
        self.retransmit_at = (self.in_flight > 0).then(|| now + self.round_trip.retransmission_time());
    }

    /// The most urgent item that may leave; within a class, lost slots come before new ones.
    fn next(&self) -> Option<Next> {
        Class::ALL.into_iter().find_map(|class| {
            if self.in_flight_bytes >= self.congestion.window_bytes() + class.beyond_congestion_bytes() {
                return None;
            }
            let of_class = (class, 0)..=(class, u64::MAX);
            if let Some((_, sequence)) = self.lost.range(of_class).next() {
                return Some(Next::Retransmit(*sequence));
            }
            if self.slots.len() >= class.window_fragments() {
                return None;
            }
            if class == Class::Urgent && !self.cancels.is_empty() {
                return Some(Next::Cancel);
            }
            (!self.queues[class as usize].messages.is_empty()).then_some(Next::Cut(class))
        })
    }

    /// The sequence number after the last.
    fn end(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// The next fragment of the first message of a class, not yet taken from it.
    ///
    /// # Panics
    /// When its queue is empty; `next` has checked that before.
    fn cut(&self, class: Class) -> Slot {
        let queue = &self.queues[class as usize];
        let first = if queue.cut == 0 { self.end() } else { queue.first };
        Slot::new(class, Content::Part { message: Arc::clone(&queue.messages[0]), index: queue.cut, first })
    }

    fn has_cut(&mut self, class: Class, content: &Content) {
        let Content::Part { first, .. } = content else { return };
        let queue = &mut self.queues[class as usize];
        queue.first = *first;
        queue.cut += 1;
        if queue.messages.front().is_some_and(|message| Slot::fragments_of(message) == queue.cut) {
            queue.cut = 0;
            queue.messages.pop_front();
        }
    }

    /// Marks a slot acknowledged; `None` if it was acknowledged before. Returns the bytes it took of its packet. If it
    /// was sent only once it also returns when: only then it tells which packet arrived, and when (Karn).
    fn acknowledge_slot(&mut self, sequence: u64) -> Option<(Option<Duration>, usize)> {
        let slot = self.slots.get_mut((sequence - self.base) as usize)?;
        match slot.state {
            SlotState::InFlight => {
                self.in_flight -= 1;
                self.in_flight_bytes -= slot.sent_bytes;
            }
            SlotState::Lost => {
                self.lost.remove(&(slot.class, sequence));
            }
            SlotState::Acknowledged => return None,
        }
        slot.state = SlotState::Acknowledged;
        self.bytes -= slot.content.payload().len();
        let (sent_at, packet, sent_bytes) = (slot.sent_at, slot.packet, slot.sent_bytes);
        if slot.is_retransmission {
            return Some((None, sent_bytes));
        }
        if !self.arrived_packets.contains(&packet) {
            self.arrived_packets[REORDERING_DATAGRAMS - 1] = packet.max(self.arrived_packets[REORDERING_DATAGRAMS - 1]);
            self.arrived_packets.sort_unstable_by(|a, b| b.cmp(a));
        }
        Some((Some(sent_at), sent_bytes))
    }

    /// Fast retransmission: counts a slot as lost when enough later datagrams have overtaken it.
    fn find_overtaken(&mut self, next_packet: u64) {
        let overtaken_below = self.arrived_packets[REORDERING_DATAGRAMS - 1];
        if let Some(packet) = self.lose(|slot| slot.packet < overtaken_below) {
            self.congestion.lost(packet, next_packet);
        }
    }

    /// Counts the slots under way that `is_lost` names as lost; returns the highest packet number among them.
    fn lose(&mut self, is_lost: impl Fn(&Slot) -> bool) -> Option<u64> {
        let mut highest = None;
        for (slot, sequence) in self.slots.iter_mut().zip(self.base..) {
            if slot.state == SlotState::InFlight && is_lost(slot) {
                slot.state = SlotState::Lost;
                self.lost.insert((slot.class, sequence));
                self.in_flight -= 1;
                self.in_flight_bytes -= slot.sent_bytes;
                highest = highest.max(Some(slot.packet));
            }
        }
        highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gmp::{
        FRAGMENT_BYTES_MAX, RETRANSMISSION_TIME_INITIAL, WINDOW_FRAGMENTS, WINDOW_RESERVED_FRAGMENTS, bits::Bits,
    };

    const ROOM: usize = 1_342;
    const ORDINARY_FRAGMENTS: usize = WINDOW_FRAGMENTS as usize - WINDOW_RESERVED_FRAGMENTS;

    fn message(kind: MessageKind, bytes: usize) -> Arc<Message> {
        Arc::new(Message { kind, body: vec![1; bytes] })
    }

    fn notice(bytes: usize) -> Arc<Message> {
        message(MessageKind::Notice, bytes)
    }

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A sender that has sent `fragments` full fragments at 0 ms, one in each packet.
    fn sender(fragments: u64) -> Sender {
        let mut sender = Sender::new();
        assert!(sender.push(Class::Ordinary, notice(fragments as usize * FRAGMENT_BYTES_MAX)));
        for packet in 0..fragments {
            assert_eq!(sender.fill(ms(0), packet, ROOM, &mut Vec::new()).fragments, 1);
        }
        sender
    }

    #[test]
    fn small_messages_share_a_datagram_and_large_ones_are_cut() {
        let mut sender = Sender::new();
        for bytes in [10, 20, 0, 3 * FRAGMENT_BYTES_MAX] {
            assert!(sender.push(Class::Ordinary, notice(bytes)));
        }
        let fragments: Vec<_> =
            (0..4).map(|packet| sender.fill(ms(0), packet, ROOM, &mut Vec::new()).fragments).collect();
        assert_eq!(fragments, [3, 1, 1, 1]);
        assert!(!sender.wants_to_send() && !sender.is_idle());
        assert!(sender.acknowledged(ms(1), 6, &[], 4));
        assert!(sender.is_idle());
        assert_eq!((sender.bytes, sender.in_flight, sender.retransmit_at), (0, 0, None));
    }

    #[test]
    fn what_three_later_datagrams_overtook_is_sent_again_at_once() {
        let mut sender = sender(6);
        assert!(sender.acknowledged(ms(1), 0, &[0b110], 6));
        assert!(!sender.wants_to_send(), "two later ones may have overtaken it");
        assert!(sender.acknowledged(ms(2), 0, &[0b1110], 6));
        let filled = sender.fill(ms(2), 6, ROOM, &mut Vec::new());
        assert_eq!(filled, Filled { fragments: 1, retransmitted: 1 });
        assert!(sender.acknowledged(ms(3), 6, &[], 7) && sender.is_idle());
    }

    #[test]
    fn silence_sends_again_and_doubles_the_wait() {
        let mut sender = sender(1);
        let first = RETRANSMISSION_TIME_INITIAL;
        assert_eq!(sender.retransmit_at(), Some(first));
        sender.time_out(first, 1);
        assert_eq!(sender.fill(first, 1, ROOM, &mut Vec::new()), Filled { fragments: 1, retransmitted: 1 });
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
        assert!(sender.push(Class::Ordinary, notice(400 * FRAGMENT_BYTES_MAX)));
        let (mut packet, mut most) = (0, 0);
        for round in 0..40 {
            while sender.fill(ms(round), packet, ROOM, &mut Vec::new()).fragments > 0 {
                packet += 1;
            }
            most = most.max(sender.in_flight);
            let end = sender.base + sender.slots.len() as u64;
            assert!(sender.slots.len() <= 224);
            assert!(sender.acknowledged(ms(round), end, &[], packet));
        }
        assert_eq!((most > 100, sender.is_idle()), (true, true));
    }

    #[test]
    fn a_missing_fragment_holds_the_window_back_however_much_else_arrives() {
        let mut sender = Sender::new();
        assert!(sender.push(Class::Ordinary, notice(600 * FRAGMENT_BYTES_MAX)));
        let mut packet = 0;
        for round in 0..1_000 {
            while sender.fill(ms(round), packet, ROOM, &mut Vec::new()).fragments > 0 {
                packet += 1;
            }
            assert!(sender.slots.len() <= ORDINARY_FRAGMENTS);
            let mut all_but_the_first = Bits::<4>::new();
            (1..sender.slots.len() as u64).for_each(|at| all_but_the_first.set(at));
            let map: Vec<_> = all_but_the_first.bytes().collect();
            assert!(sender.acknowledged(ms(round), 0, &map, packet));
        }
        assert_eq!((sender.base, sender.slots.len()), (0, ORDINARY_FRAGMENTS));
        assert!(sender.acknowledged(ms(50), ORDINARY_FRAGMENTS as u64, &[], packet) && sender.wants_to_send());
    }

    #[test]
    fn a_full_queue_refuses_and_a_reply_may_fill_it_twice() {
        let mut sender = Sender::new();
        while sender.push(Class::Ordinary, notice(1 << 20)) {}
        assert_eq!(sender.bytes, SEND_QUEUE_BYTES_MAX);
        let reply = || message(MessageKind::Reply(1), 1 << 20);
        while sender.push(Class::Ordinary, reply()) {}
        assert_eq!(sender.bytes, 2 * SEND_QUEUE_BYTES_MAX);
        let mut sender = Sender::new();
        while sender.push(Class::Ordinary, notice(0)) {}
        assert_eq!(sender.queues[1].messages.len(), SEND_QUEUE_MESSAGES_MAX);
    }

    #[test]
    fn what_is_urgent_leaves_next_although_a_long_message_fills_all_it_may() {
        let mut sender = Sender::new();
        assert!(sender.push(Class::Bulk, notice(600 * FRAGMENT_BYTES_MAX)));
        let mut packet = 0;
        while sender.fill(ms(0), packet, ROOM, &mut Vec::new()).fragments > 0 {
            packet += 1;
        }
        assert!(sender.push(Class::Ordinary, notice(10)) && !sender.wants_to_send(), "the congestion window is full");
        assert!(sender.push(Class::Urgent, notice(20)) && sender.wants_to_send());
        let sequence = sender.end();
        assert_eq!(sender.fill(ms(0), packet, ROOM, &mut Vec::new()).fragments, 1);
        // In the middle of the long message: its other fragments name their first.
        assert!(sender.acknowledged(ms(1), sequence, &[], packet));
        let mut out = Vec::new();
        sender.fill(ms(1), packet, ROOM, &mut out);
        sender.fill(ms(1), packet + 1, out.len() + ROOM, &mut out);
        let firsts: Vec<_> = frame::Frames::new(&out)
            .map(|frame| match frame {
                Ok(frame::Frame::Fragment(fragment)) => (fragment.first, u64::from(fragment.index)),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(firsts, [(sequence + 1, 0), (0, sequence)]);
    }

    #[test]
    fn a_request_given_up_before_it_left_leaves_no_trace() {
        let mut sender = sender(1);
        assert!(sender.push(Class::Ordinary, message(MessageKind::Request(4), 500)));
        sender.cancel_request(4);
        assert_eq!((sender.bytes, sender.wants_to_send()), (FRAGMENT_BYTES_MAX, false));
    }

    #[test]
    fn a_request_given_up_half_way_is_cancelled_and_its_lost_fragments_with_it() {
        let mut sender = Sender::new();
        assert!(sender.push(Class::Ordinary, message(MessageKind::Request(4), 5 * FRAGMENT_BYTES_MAX)));
        for packet in 0..2 {
            assert_eq!(sender.fill(ms(0), packet, ROOM, &mut Vec::new()).fragments, 1);
        }
        sender.cancel_request(4);
        assert_eq!(sender.bytes, 0);
        let mut out = Vec::new();
        assert_eq!(sender.fill(ms(1), 2, ROOM, &mut out).fragments, 1, "the rest is not sent");
        sender.time_out(RETRANSMISSION_TIME_INITIAL, 3);
        assert_eq!(sender.fill(RETRANSMISSION_TIME_INITIAL, 3, ROOM, &mut out).retransmitted, 2);
        let frames: Vec<_> = frame::Frames::new(&out).map(|frame| frame.expect("it is ours")).collect();
        assert_eq!(frames, [2, 0, 1].map(|sequence| frame::Frame::Cancel { sequence, request: 4 }));
        assert!(sender.acknowledged(ms(400), 3, &[], 4) && sender.is_idle());
    }
}
