//! The rule-keeper of GMP: all sessions of one UDP port. Every message between client, master and node passes here
//! twice. It never seals, sends or waits: it is told the time and what has come, and says what to do.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{
    Class, Message, SendError,
    session::{End, KeyLimits, OpenMode, Outgoing, Session},
};
use crate::{Now, SessionId, limits, wire::datagram::Head};

/// The sessions of one port. After each call, take the actions until there are none.
///
/// ```text
/// message ──cut──▶ fragments (a sequence number each) ──packed──▶ datagrams (a packet number each) ──sealed──▶ UDP
/// ```
///
/// A **packet number** belongs to one transmission: it is the seal's nonce, is never used twice, and feeds the replay
/// filter. A **sequence number** belongs to a fragment, however often it is sent: it is acknowledged, and it identifies
/// duplicates. Messages are delivered whole, once, in the order in which they become whole; they may overtake each
/// other.
///
/// The endpoint chooses the **key phase** that seals a datagram; the keys belong to the driver, `net::messenger`, which
/// seals and unseals.
#[derive(Debug, Default)]
pub struct Endpoint {
    /// Boxed: the map's nodes have room for more than they hold, and an entry is large.
    sessions: BTreeMap<SessionId, Box<Entry>>,
    /// Sessions that may have a datagram to send, each at most once (`Entry::is_ready`).
    ready: VecDeque<SessionId>,
    /// When each session is due; there is one entry for each session that is (`Entry::timeout`).
    timeouts: BTreeSet<(Duration, SessionId)>,
    /// Messages and ends to be reported. Bounded: they are taken after each call, and a datagram holds a bounded
    /// number.
    events: VecDeque<EndpointAction>,
    counters: EndpointCounters,
    receive_capacity: ReceiveCapacity,
    key_limits: KeyLimits,
    now: Duration,
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointAction {
    /// Seal and send a datagram.
    Send(Transmit),
    /// Hand a message to its recipient. The next datagram sent acknowledges it: hand it over before that.
    Deliver {
        /// The session it came in.
        session: SessionId,
        /// The message.
        message: Message,
    },
    /// The peer is unreachable, or has [gone](Endpoint::reset_session). The session is gone, and so is all that waited
    /// in it.
    SessionLost(SessionId),
    /// A [closed](Endpoint::close_session) session is gone; its key may be forgotten.
    SessionClosed(SessionId),
}

/// A datagram to seal and send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its session.
    pub session: SessionId,
    /// Its packet number, the nonce of its seal.
    pub packet: u64,
    /// The key phase that seals it, counted from 0: that of the session's last datagram, or the next.
    pub phase: u64,
    /// The [head](crate::wire::datagram) and the body to be sealed; the capacity has room for the seal.
    pub bytes: Vec<u8>,
}

/// The result of taking a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is the newest of its session: its source is the peer's current address.
    Newest,
    /// Others overtook it; it was accepted.
    Late,
    /// It was replayed, or its session is unknown.
    Dropped,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EndpointCounters {
    /// Datagrams of no session here, or replayed.
    pub datagrams_dropped: u64,
    /// Datagrams that carried something sent before.
    pub datagrams_retransmitted: u64,
    /// Frames that made no sense, or whose message found no room.
    pub frames_dropped: u64,
}

impl Endpoint {
    /// An endpoint without sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a session; one of the same id is replaced, and its peer's old datagrams no longer have a key.
    pub fn add_session(&mut self, session: SessionId, opening: OpenMode) {
        self.remove_session(session);
        let entry = Entry { session: Session::new(session, opening), is_ready: false, timeout: None };
        self.sessions.insert(session, Box::new(entry));
    }

    /// Takes no more messages in a session. Ends it with [`EndpointAction::SessionClosed`] once everything taken so far
    /// is acknowledged, or after [`CLOSE_LINGER`](super::CLOSE_LINGER).
    pub fn close_session(&mut self, now: Now, session: SessionId) {
        self.now = now.monotonic;
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.session.close(self.now);
            self.reschedule(session);
        }
    }

    /// Forgets a session at once, with all that waits in it.
    pub fn remove_session(&mut self, session: SessionId) {
        if let Some(entry) = self.sessions.remove(&session) {
            entry.timeout.map(|at| self.timeouts.remove(&(at, session)));
            if entry.is_ready {
                self.ready.retain(|ready| *ready != session);
            }
        }
    }

    /// Ends a session at once, as after too long a silence: its peer has said that it no longer knows the session.
    pub fn reset_session(&mut self, session: SessionId) {
        let Some(entry) = self.sessions.get(&session) else { return };
        let is_closed = entry.session.is_closed();
        self.remove_session(session);
        self.events.push_back(if is_closed {
            EndpointAction::SessionClosed(session)
        } else {
            EndpointAction::SessionLost(session)
        });
    }

    /// Takes a message for sending. A message to several sessions is given as the same `Arc`, and stored once.
    pub fn send(
        &mut self,
        now: Now,
        session: SessionId,
        class: Class,
        message: impl Into<Arc<Message>>,
    ) -> Result<(), SendError> {
        self.now = now.monotonic;
        let message = message.into();
        if message.body.len() > limits::MESSAGE_BYTES_MAX {
            return Err(SendError::TooLarge { bytes: message.body.len() });
        }
        let entry = self.sessions.get_mut(&session).filter(|entry| !entry.session.is_closed());
        let entry = entry.ok_or(SendError::NoSession(session))?;
        if !entry.session.push(self.now, class, message) {
            return Err(SendError::QueueFull(session));
        }
        self.reschedule(session);
        Ok(())
    }

    /// Nobody waits for the reply to this request any more. Its unsent part is not sent. Where the peer may know of it,
    /// the peer is told. It then delivers the request only if it has already done so, and sends no reply.
    pub fn cancel_request(&mut self, now: Now, session: SessionId, request: u64) {
        self.now = now.monotonic;
        if let Some(entry) = self.sessions.get_mut(&session) {
            entry.session.cancel_request(self.now, request);
            self.reschedule(session);
        }
    }

    /// Sets when a key phase ends, from now on.
    pub fn set_key_limits(&mut self, limits: KeyLimits) {
        self.key_limits = limits;
    }

    /// Sets for how many more requests and notices there is room. Without room they are not acknowledged, and come
    /// again; replies always have room. Unlimited until this is called.
    pub fn set_receive_capacity(&mut self, messages: usize) {
        self.receive_capacity = ReceiveCapacity(messages);
    }

    /// Takes the head and the unsealed body of an authentic datagram.
    pub fn handle_datagram(&mut self, now: Now, head: &Head, body: &[u8]) -> Arrival {
        self.now = now.monotonic;
        let session = head.session;
        let Some(entry) = self.sessions.get_mut(&session) else {
            self.counters.datagrams_dropped += 1;
            return Arrival::Dropped;
        };
        let received = entry.session.handle_datagram(self.now, head, body, &mut self.receive_capacity.0);
        self.counters.frames_dropped += received.frames_dropped;
        self.events.extend(received.messages.into_iter().map(|message| EndpointAction::Deliver { session, message }));
        if !received.is_new {
            self.counters.datagrams_dropped += 1;
            return Arrival::Dropped;
        }
        self.reschedule(session);
        if received.is_newest { Arrival::Newest } else { Arrival::Late }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        self.now = now.monotonic;
        // Collected first: a session that owes an acknowledgement stays due until its datagram is taken.
        let due: Vec<_> = self.timeouts.iter().take_while(|(at, _)| *at <= self.now).map(|(_, due)| *due).collect();
        for session in due {
            if let Some(entry) = self.sessions.get_mut(&session) {
                entry.session.handle_timeout(self.now);
                self.reschedule(session);
            }
        }
    }

    /// The next action, if there is one. Deliveries come before the datagrams that acknowledge them.
    pub fn poll_action(&mut self) -> Option<EndpointAction> {
        if let Some(news) = self.poll_event() {
            return Some(news);
        }
        while let Some(session) = self.ready.pop_front() {
            let Some(entry) = self.sessions.get_mut(&session) else { continue };
            entry.is_ready = false;
            let datagram = entry.session.next_datagram(self.now, &self.key_limits);
            self.reschedule(session);
            if let Some(Outgoing { packet, phase, bytes, retransmitted: sent_again }) = datagram {
                self.counters.datagrams_retransmitted += u64::from(sent_again > 0);
                return Some(EndpointAction::Send(Transmit { session, packet, phase, bytes }));
            }
        }
        None
    }

    /// The next action except sending, for a driver that receives and sends in two places.
    pub fn poll_event(&mut self) -> Option<EndpointAction> {
        self.events.pop_front()
    }

    /// Whether some session may have a datagram to send now.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called, on the monotonic clock.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.timeouts.first().map(|(at, _)| *at)
    }

    /// Whether nothing of this session waits to be sent or acknowledged; also true where there is no such session.
    pub fn is_idle(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_none_or(|entry| entry.session.is_idle())
    }

    /// Whether the peer has given up a request that was not answered yet: its reply will not be sent.
    pub fn is_cancelled(&self, session: SessionId, request: u64) -> bool {
        self.sessions.get(&session).is_some_and(|entry| entry.session.is_cancelled(request))
    }

    /// The state of all sessions, as text: for tests that compare it before and after.
    pub fn state(&self) -> String {
        format!("{:?} {:?} {:?} {:?}", self.sessions, self.ready, self.timeouts, self.events)
    }

    /// What was counted.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// Bytes kept for messages that have not arrived completely.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.sessions.values().map(|entry| entry.session.kept_bytes()).sum()
    }

    /// Moves a changed session to where it belongs: the ready, the due, or the ended ones.
    fn reschedule(&mut self, session: SessionId) {
        let Some(entry) = self.sessions.get_mut(&session) else { return };
        if let Some(end) = entry.session.end(self.now) {
            self.remove_session(session);
            self.events.push_back(match end {
                End::Lost => EndpointAction::SessionLost(session),
                End::Closed => EndpointAction::SessionClosed(session),
            });
            return;
        }
        let timeout = entry.session.next_timeout();
        if timeout != entry.timeout {
            entry.timeout.map(|at| self.timeouts.remove(&(at, session)));
            timeout.map(|at| self.timeouts.insert((at, session)));
            entry.timeout = timeout;
        }
        if !entry.is_ready && entry.session.wants_to_send(self.now) {
            entry.is_ready = true;
            self.ready.push_back(session);
        }
    }
}

#[derive(Debug)]
struct Entry {
    session: Session,
    is_ready: bool,
    timeout: Option<Duration>,
}

/// For how many more messages there is room.
#[derive(Debug)]
struct ReceiveCapacity(usize);

impl Default for ReceiveCapacity {
    fn default() -> Self {
        Self(usize::MAX)
    }
}
