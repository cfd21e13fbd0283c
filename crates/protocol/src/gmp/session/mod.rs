//! One session: a sender, a receiver and the replay filter, the packet numbers they share, and the watch over a silent
//! peer. It turns datagrams into messages and messages into datagrams, and never lets a peer's nonsense through.

mod phases;
mod receiver;
mod replay;
mod sender;
mod slot;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use super::{
    CANCELLED_REQUESTS_MAX, CLOSE_LINGER, Class, Frame, FrameError, Frames, Message, MessageKind, UNREACHABLE_AFTER,
    UNREACHABLE_RETRIES_MIN, frame,
};
use crate::{
    SessionId, limits,
    wire::datagram::{self, Head, PACKETS_MAX},
};
pub use phases::KeyLimits;
use phases::Phases;
use receiver::{FragmentOutcome, Receiver};
use replay::{Novelty, Replay};
use sender::Sender;

/// Whether this end knows where to send before it has heard the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// It knows the peer's address.
    Active,
    /// It learns the peer's address from the first datagram; until then it only collects what it will say.
    Passive,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Session {
    id: SessionId,
    sender: Sender,
    receiver: Receiver,
    replay: Replay,
    phases: Phases,
    next_packet: u64,
    /// Requests that the peer has given up, the latest first: not delivered any more, their replies not sent.
    cancelled: VecDeque<u64>,
    is_listening: bool,
    /// Since when something waits for the peer without a sound from it.
    silent_since: Option<Duration>,
    /// Retransmission timeouts since the peer was last heard.
    timeouts: u32,
    /// When a closed session goes, whatever is left.
    closed_at: Option<Duration>,
}

/// How a datagram was received.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Messages that became whole, in order.
    pub(super) messages: Vec<Message>,
    /// Whether it was new; one that was not is not looked at.
    pub(super) is_new: bool,
    /// Whether its packet number is the highest so far.
    pub(super) is_newest: bool,
    /// Fragments and acknowledgements that made no sense, or found no room.
    pub(super) frames_dropped: u64,
}

/// A datagram to be sealed.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) packet: u64,
    /// The key phase, counted from 0.
    pub(super) phase: u64,
    /// Head and unsealed body, with room for the seal.
    pub(super) bytes: Vec<u8>,
    /// How many of its fragments were sent before.
    pub(super) retransmitted: usize,
}

/// How a session ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer cannot be reached.
    Lost,
    /// It was closed, and all is said.
    Closed,
}

impl Session {
    pub(super) fn new(id: SessionId, opening: OpenMode) -> Self {
        Self {
            id,
            sender: Sender::new(),
            receiver: Receiver::new(),
            replay: Replay::new(),
            phases: Phases::new(),
            next_packet: 0,
            cancelled: VecDeque::new(),
            is_listening: opening == OpenMode::Passive,
            silent_since: None,
            timeouts: 0,
            closed_at: None,
        }
    }

    /// Takes a message for sending; `false` when the queue is full. A reply that nobody waits for is not sent.
    pub(super) fn push(&mut self, now: Duration, class: Class, message: Arc<Message>) -> bool {
        if let MessageKind::Reply(request) = message.kind
            && let Some(at) = self.cancelled.iter().position(|cancelled| *cancelled == request)
        {
            self.cancelled.remove(at);
            return true;
        }
        let is_taken = self.sender.push(class, message);
        if is_taken {
            self.silent_since.get_or_insert(now);
        }
        is_taken
    }

    /// Gives up a request: what was not sent of it is not, and the peer is told where it may know of it.
    pub(super) fn cancel_request(&mut self, now: Duration, request: u64) {
        self.sender.cancel_request(request);
        // The request itself may have been all that waited for the peer.
        self.silent_since = if self.sender.is_idle() { None } else { self.silent_since.or(Some(now)) };
    }

    /// Takes an authentic datagram. `room` is how many requests and notices the receiver of messages has room for: what
    /// it has none for is not acknowledged and comes again. Replies always have room, their requester waits.
    pub(super) fn handle_datagram(&mut self, now: Duration, head: &Head, body: &[u8], room: &mut usize) -> Received {
        let novelty = self.replay.take(head.packet);
        if novelty == Novelty::Replayed {
            return Received::default();
        }
        let mut received = Received { is_new: true, is_newest: novelty == Novelty::Newest, ..Received::default() };
        self.phases.heard(head.phase, head.heard_phase);
        self.is_listening = false;
        self.timeouts = 0;
        let (mut has_data, mut at_once) = (false, false);
        for frame in Frames::new(body) {
            match frame {
                Ok(Frame::Acknowledgement { next, map }) => {
                    let makes_sense = self.sender.acknowledged(now, next, map, self.next_packet);
                    received.frames_dropped += u64::from(!makes_sense);
                }
                Ok(Frame::Fragment(fragment)) => {
                    has_data = true;
                    at_once |= self.take_fragment(&fragment, room, &mut received);
                }
                Ok(Frame::Cancel { sequence, request }) => {
                    has_data = true;
                    at_once |= self.take_cancel(sequence, request, &mut received);
                }
                Err(error) => {
                    received.frames_dropped += 1;
                    // Of a kind we do not know it may be a newer peer's; what came before it holds.
                    at_once |= matches!(error, FrameError::Kind(_));
                }
            }
        }
        if has_data {
            self.receiver.datagram_came(now, at_once);
        }
        self.silent_since = (!self.sender.is_idle()).then_some(now);
        received
    }

    /// Does what is due at `now`.
    pub(super) fn handle_timeout(&mut self, now: Duration) -> Option<End> {
        if self.sender.retransmit_at().is_some_and(|at| at <= now) {
            self.sender.time_out(now, self.next_packet);
            self.timeouts += 1;
        }
        self.end(now)
    }

    /// When [`handle_timeout`](Self::handle_timeout) or [`next_datagram`](Self::next_datagram) must be called.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        let acknowledge = self.receiver.acknowledge_at();
        // While retransmissions go unanswered, their own times lead here.
        let unreachable = self.silent_since.filter(|_| self.may_be_unreachable()).map(|at| at + UNREACHABLE_AFTER);
        [self.sender.retransmit_at(), acknowledge, unreachable, self.closed_at].into_iter().flatten().min()
    }

    /// Whether [`next_datagram`](Self::next_datagram) has one.
    pub(super) fn wants_to_send(&self, now: Duration) -> bool {
        let owes_acknowledgement = self.receiver.acknowledge_at().is_some_and(|at| at <= now);
        let may_speak = !self.is_listening && self.next_packet < PACKETS_MAX;
        may_speak && (owes_acknowledgement || self.sender.wants_to_send())
    }

    /// The next datagram.
    pub(super) fn next_datagram(&mut self, now: Duration, limits: &KeyLimits) -> Option<Outgoing> {
        if !self.wants_to_send(now) {
            return None;
        }
        let packet = self.next_packet;
        self.next_packet += 1;
        let phase = self.phases.of_packet(now, packet, limits);
        let (own, heard_phase) = (phases::in_head(phase), self.phases.newest_heard());
        let mut bytes = Vec::with_capacity(limits::DATAGRAM_BYTES_MAX);
        bytes.extend_from_slice(&Head { session: self.id, packet, phase: own, heard_phase }.to_bytes());
        self.receiver.write_acknowledgement(&mut bytes);
        let room_until = limits::DATAGRAM_BYTES_MAX - datagram::SEAL_BYTES;
        let filled = self.sender.fill(now, packet, room_until, &mut bytes);
        Some(Outgoing { packet, phase, bytes, retransmitted: filled.retransmitted })
    }

    /// Takes no more messages, and ends when all that was taken is acknowledged, or after [`CLOSE_LINGER`].
    pub(super) fn close(&mut self, now: Duration) {
        self.closed_at.get_or_insert(now + CLOSE_LINGER);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed_at.is_some()
    }

    /// Whether the session has ended, and how.
    pub(super) fn end(&self, now: Duration) -> Option<End> {
        let is_silent = self.silent_since.is_some_and(|at| now >= at + UNREACHABLE_AFTER);
        let has_said_all = self.sender.is_idle() && self.receiver.acknowledge_at().is_none();
        match self.closed_at {
            Some(at) if at <= now || has_said_all || self.is_listening => Some(End::Closed),
            None if is_silent && self.may_be_unreachable() => Some(End::Lost),
            None if self.next_packet >= PACKETS_MAX => Some(End::Lost),
            _ => None,
        }
    }

    /// Bytes kept for messages that have not wholly come.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.receiver.kept_bytes()
    }

    /// Whether the peer has given up a request that was not answered yet.
    pub(super) fn is_cancelled(&self, request: u64) -> bool {
        self.cancelled.contains(&request)
    }

    /// Whether nothing waits to be sent or acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.sender.is_idle()
    }

    fn may_be_unreachable(&self) -> bool {
        self.is_listening || self.timeouts >= UNREACHABLE_RETRIES_MIN
    }

    /// Takes the word that nobody waits for a reply any more; whether its acknowledgement should not wait.
    fn take_cancel(&mut self, sequence: u64, request: u64, received: &mut Received) -> bool {
        let taken = self.receiver.skip(sequence);
        if taken == FragmentOutcome::Contradiction {
            received.frames_dropped += 1;
            return false;
        }
        // Also when its number was had: the request itself may have come under the same.
        self.receiver.forget_request(request);
        if !self.sender.drop_reply(request) && !self.cancelled.contains(&request) {
            self.cancelled.truncate(CANCELLED_REQUESTS_MAX - 1);
            self.cancelled.push_front(request);
        }
        taken == FragmentOutcome::Duplicate
    }

    /// Takes a fragment; whether the acknowledgement should not wait.
    fn take_fragment(&mut self, fragment: &frame::Fragment<'_>, room: &mut usize, received: &mut Received) -> bool {
        let is_cancelled = matches!(fragment.kind, MessageKind::Request(request) if self.is_cancelled(request));
        let needs_room = !matches!(fragment.kind, MessageKind::Reply(_)) && !is_cancelled;
        if needs_room && *room == 0 && !self.is_closed() && !self.receiver.has(fragment.sequence) {
            received.frames_dropped += 1;
            return false;
        }
        let taken = if is_cancelled { self.receiver.skip(fragment.sequence) } else { self.receiver.take(fragment) };
        match taken {
            FragmentOutcome::Whole(message) => {
                // A closed session still acknowledges, so that its peer does not ask on.
                if !self.is_closed() {
                    *room -= usize::from(needs_room);
                    received.messages.push(message);
                }
                false
            }
            FragmentOutcome::Part | FragmentOutcome::Unwanted => false,
            FragmentOutcome::Duplicate => true,
            FragmentOutcome::Contradiction => {
                received.frames_dropped += 1;
                false
            }
        }
    }
}
