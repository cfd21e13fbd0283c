//! The table that a messenger keeps under its lock: the rules, each session's seal and peer, and the requests that wait
//! for replies. Its calls never wait, and an unauthentic datagram never changes more than counters and the queue of
//! answers.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use protocol::{
    SessionId,
    gmp::{
        Arrival, Class, Endpoint, EndpointAction, Message, MessageKind, OpenMode, SEND_QUEUE_MESSAGES_MAX, SendError,
        Transmit,
    },
    limits::{DATAGRAM_BYTES_MAX, MESSAGE_BYTES_MAX},
    names,
    wire::datagram::{HEAD_BYTES, Head, RESET_TOKEN_BYTES, StatelessReset},
};
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

use super::{
    Delivered, MessengerCounts, MessengerEvent, SessionKeys,
    seal::Seal,
    stateless_reset::{self, ResetResponder, StatelessResetKey},
};
use crate::{NetError, clock::Clock, datagram::OutgoingDatagram};

/// See the module.
pub(super) struct SessionTable {
    clock: Clock,
    endpoint: Endpoint,
    peers: HashMap<SessionId, Peer>,
    /// The waiter for the reply to each request; dropping a sender means that the session has ended.
    waiting: BTreeMap<(SessionId, u64), oneshot::Sender<Vec<u8>>>,
    next_request: u64,
    events: mpsc::Sender<MessengerEvent>,
    /// Lost sessions not yet reported, for lack of room; never more than were added.
    lost: VecDeque<SessionId>,
    reset_responder: ResetResponder,
    /// Answers to strangers, waiting to be sent.
    resets: VecDeque<OutgoingDatagram>,
    datagrams_dropped: u64,
    messages_sent: u64,
    messages_received: u64,
    sessions_removed: bool,
}

struct Peer {
    seal: Seal,
    address: Option<SocketAddr>,
    /// The token that the peer shows when it no longer knows the session.
    reset_token: Option<[u8; RESET_TOKEN_BYTES]>,
}

/// The work of the sending task after the departures.
pub(super) struct SenderWork {
    /// When to run again, on the monotonic clock.
    pub(super) timeout: Option<Duration>,
    /// Whether lost sessions wait to be reported.
    pub(super) has_lost: bool,
    /// Whether sessions have gone since the last call.
    pub(super) sessions_removed: bool,
}

impl SessionTable {
    pub(super) fn new(clock: Clock, events: mpsc::Sender<MessengerEvent>) -> Self {
        Self {
            clock,
            endpoint: Endpoint::new(),
            peers: HashMap::new(),
            waiting: BTreeMap::new(),
            next_request: 0,
            events,
            lost: VecDeque::new(),
            reset_responder: ResetResponder::default(),
            resets: VecDeque::new(),
            datagrams_dropped: 0,
            messages_sent: 0,
            messages_received: 0,
            sessions_removed: false,
        }
    }

    pub(super) fn add_session(&mut self, keys: SessionKeys) {
        self.stop_all_waiting(keys.session);
        let opening = if keys.peer.is_some() { OpenMode::Active } else { OpenMode::Passive };
        self.endpoint.add_session(keys.session, opening);
        let seal = Seal::new(&keys.key, keys.role);
        self.peers.insert(keys.session, Peer { seal, address: keys.peer, reset_token: None });
    }

    pub(super) fn set_reset_key(&mut self, key: StatelessResetKey) {
        self.reset_responder.set_key(key);
    }

    pub(super) fn set_reset_token(&mut self, session: SessionId, token: [u8; RESET_TOKEN_BYTES]) {
        if let Some(peer) = self.peers.get_mut(&session) {
            peer.reset_token = Some(token);
        }
    }

    pub(super) fn close_session(&mut self, session: SessionId) {
        self.stop_all_waiting(session);
        self.endpoint.close_session(self.clock.now(), session);
        // Done at once: an event of this session must not be taken for one of a later session with the same id.
        self.handle_events();
    }

    pub(super) fn close_all(&mut self) {
        for session in self.peers.keys().copied().collect::<Vec<_>>() {
            self.close_session(session);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Sends a request whose reply goes to `answer`; returns its number.
    pub(super) fn request(
        &mut self,
        session: SessionId,
        class: Class,
        body: Vec<u8>,
        answer: oneshot::Sender<Vec<u8>>,
    ) -> Result<u64, NetError> {
        let (request, message) = self.next_request(body);
        self.send_request(session, class, request, message, answer)?;
        Ok(request)
    }

    /// A request with the next number. It may go to several sessions, each of which sees it as its own.
    pub(super) fn next_request(&mut self, body: Vec<u8>) -> (u64, Arc<Message>) {
        let request = self.next_request;
        self.next_request += 1;
        (request, Arc::new(Message { kind: MessageKind::Request(request), body }))
    }

    pub(super) fn send_request(
        &mut self,
        session: SessionId,
        class: Class,
        request: u64,
        message: Arc<Message>,
        answer: oneshot::Sender<Vec<u8>>,
    ) -> Result<(), NetError> {
        if self.waiting.len() >= REQUESTS_WAITING_MAX {
            return Err(NetError::QueueFull { session, messages_max: REQUESTS_WAITING_MAX });
        }
        self.send(session, class, message)?;
        self.waiting.insert((session, request), answer);
        Ok(())
    }

    pub(super) fn send(
        &mut self,
        session: SessionId,
        class: Class,
        message: impl Into<Arc<Message>>,
    ) -> Result<(), NetError> {
        self.endpoint.send(self.clock.now(), session, class, message).map_err(|error| match error {
            SendError::QueueFull(session) => NetError::QueueFull { session, messages_max: SEND_QUEUE_MESSAGES_MAX },
            SendError::NoSession(session) => NetError::SessionLost { session },
            SendError::TooLarge { bytes } => {
                NetError::TooLong { what: "a message", bytes: bytes as u64, bytes_max: MESSAGE_BYTES_MAX }
            }
        })?;
        self.messages_sent += 1;
        Ok(())
    }

    /// Nobody waits for this reply any more. Where it has not come, the peer is told. Returns whether there is
    /// something to send.
    pub(super) fn stop_waiting(&mut self, session: SessionId, request: u64) -> bool {
        let was_waiting = self.waiting.remove(&(session, request)).is_some();
        if was_waiting {
            self.endpoint.cancel_request(self.clock.now(), session, request);
        }
        was_waiting
    }

    /// Takes a datagram from the socket; one that is not authentic is counted and dropped. Returns how many messages it
    /// brought.
    pub(super) fn receive(&mut self, datagram: &mut [u8], from: SocketAddr) -> usize {
        if let Some(gone) = StatelessReset::read(datagram) {
            self.handle_stateless_reset(gone);
            return 0;
        }
        let head = Head::split(datagram).map(|(head, _)| head).filter(|_| datagram.len() <= DATAGRAM_BYTES_MAX);
        let Some(head) = head else {
            self.datagrams_dropped += 1;
            return 0;
        };
        let now = self.clock.now();
        let Some(peer) = self.peers.get_mut(&head.session) else {
            self.answer_unknown_session(now.monotonic, head.session, from);
            return 0;
        };
        let Some(body) = peer.seal.unseal(now.monotonic, head, &mut datagram[HEAD_BYTES..]) else {
            self.datagrams_dropped += 1;
            return 0;
        };
        // Apart from this lock's holder only the sending task sends events, one for each lost session. So there will be
        // as much room when the messages are delivered.
        let room = self.events.capacity().saturating_sub(self.lost.len());
        self.endpoint.set_receive_capacity(if self.events.is_closed() { usize::MAX } else { room });
        let arrival = self.endpoint.handle_datagram(now, &head, body);
        if arrival == Arrival::Newest && peer.address != Some(from) {
            debug!(session = %head.session, %from, "the peer's address is known");
            peer.address = Some(from);
        }
        self.handle_events()
    }

    /// Does what is due, and seals up to `datagrams_max` datagrams.
    pub(super) fn collect_due(&mut self, departures: &mut Vec<OutgoingDatagram>, datagrams_max: usize) -> SenderWork {
        departures.clear();
        let now = self.clock.now();
        if self.endpoint.next_timeout().is_some_and(|at| at <= now.monotonic) {
            self.endpoint.handle_timeout(now);
        }
        while departures.len() < datagrams_max {
            let Some(departure) = self.resets.pop_front().or_else(|| self.next_datagram()) else { break };
            departures.push(departure);
        }
        let sessions_gone = std::mem::take(&mut self.sessions_removed);
        SenderWork {
            timeout: self.endpoint.next_timeout(),
            has_lost: !self.lost.is_empty(),
            sessions_removed: sessions_gone,
        }
    }

    /// Seals the next datagram, if there is one.
    pub(super) fn next_datagram(&mut self) -> Option<OutgoingDatagram> {
        loop {
            match self.endpoint.poll_action()? {
                EndpointAction::Send(sent) => {
                    let departure = self.seal(sent);
                    if departure.is_some() {
                        return departure;
                    }
                }
                news => self.handle_event(news),
            }
        }
    }

    /// When [`collect_due`](Self::collect_due) must be called, on the monotonic clock.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.endpoint.next_timeout()
    }

    /// Whether the sending task has something to do now.
    pub(super) fn has_work(&self) -> bool {
        self.endpoint.is_ready() || self.sessions_removed || !self.lost.is_empty() || !self.resets.is_empty()
    }

    /// Reports one lost session.
    pub(super) fn report_lost(&mut self, permit: mpsc::Permit<'_, MessengerEvent>) {
        if let Some(session) = self.lost.pop_front() {
            permit.send(MessengerEvent::SessionLost(session));
        }
    }

    /// Nobody listens any more.
    pub(super) fn forget_lost(&mut self) {
        self.lost.clear();
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 2] {
        let rules = self.endpoint.counters();
        [
            (names::METRIC_DATAGRAMS_DROPPED, self.datagrams_dropped + rules.datagrams_dropped),
            (names::METRIC_DATAGRAMS_RETRANSMITTED, rules.datagrams_retransmitted),
        ]
    }

    pub(super) fn counts(&self) -> MessengerCounts {
        let [(_, datagrams_dropped), (_, datagrams_retransmitted)] = self.counters();
        let Self { messages_sent, messages_received, .. } = *self;
        MessengerCounts { messages_sent, messages_received, datagrams_dropped, datagrams_retransmitted }
    }

    /// A stateless reset: the session is gone, if the reset comes from its peer.
    fn handle_stateless_reset(&mut self, gone: StatelessReset) {
        let token = self.peers.get(&gone.session).and_then(|peer| peer.reset_token);
        if !token.is_some_and(|token| stateless_reset::is_same(&token, &gone.token)) {
            self.datagrams_dropped += 1;
            return;
        }
        debug!(session = %gone.session, "the peer knows this session no more");
        self.endpoint.reset_session(gone.session);
        self.handle_events();
    }

    /// A datagram of a session that is unknown here. It proves nothing, so nothing is kept. But its sender may not know
    /// that this process was restarted. The answer is shorter than any datagram that it answers.
    fn answer_unknown_session(&mut self, now: Duration, session: SessionId, from: SocketAddr) {
        self.datagrams_dropped += 1;
        if self.resets.len() >= RESETS_WAITING_MAX {
            return;
        }
        if let Some(gone) = self.reset_responder.answer(now, session) {
            self.resets.push_back(OutgoingDatagram { datagram: gone.to_bytes().to_vec(), to: from });
        }
    }

    fn seal(&mut self, sent: Transmit) -> Option<OutgoingDatagram> {
        let Transmit { session, packet, phase, bytes: mut datagram } = sent;
        let peer = self.peers.get_mut(&session)?;
        // The rules send nothing before the peer was heard, which is when its address is known.
        let to = peer.address?;
        peer.seal.seal(phase, packet, &mut datagram).then_some(OutgoingDatagram { datagram, to })
    }

    /// The rules, for tests.
    #[cfg(test)]
    pub(super) fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The key phase that seals what is sent in a session.
    #[cfg(test)]
    pub(super) fn sealing_phase(&self, session: SessionId) -> u64 {
        self.peers.get(&session).map_or(0, |peer| peer.seal.sealing_phase())
    }

    /// How many requests wait for replies.
    #[cfg(test)]
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// The whole state, except counters, for comparison before and after.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn state(&self) -> String {
        let mut peers: Vec<_> = self
            .peers
            .iter()
            .map(|(session, peer)| format!("{session} {} {:?} {:?}", peer.seal.state(), peer.address, peer.reset_token))
            .collect();
        peers.sort();
        let waiting: Vec<_> = self.waiting.keys().collect();
        format!("{} {peers:?} {waiting:?} {:?}", self.endpoint.state(), self.lost)
    }

    /// Reports pending events; returns how many of them were messages.
    fn handle_events(&mut self) -> usize {
        let mut messages = 0;
        while let Some(news) = self.endpoint.poll_event() {
            messages += usize::from(matches!(news, EndpointAction::Deliver { .. }));
            self.handle_event(news);
        }
        messages
    }

    /// Passes an event on to its recipient.
    fn handle_event(&mut self, news: EndpointAction) {
        match news {
            EndpointAction::Deliver { session, message } => self.deliver(session, message),
            EndpointAction::SessionLost(session) => {
                self.forget(session);
                self.lost.push_back(session);
            }
            EndpointAction::SessionClosed(session) => self.forget(session),
            EndpointAction::Send(_) => debug_assert!(false, "sending is no news"),
        }
    }

    fn deliver(&mut self, session: SessionId, message: Message) {
        self.messages_received += 1;
        let request = match message.kind {
            MessageKind::Notice => None,
            MessageKind::Request(request) => Some(request),
            MessageKind::Reply(request) => {
                match self.waiting.remove(&(session, request)) {
                    // A requester that stopped waiting this very moment does not need it.
                    Some(answer) => drop(answer.send(message.body)),
                    None => debug!(%session, request, "a reply came too late"),
                }
                return;
            }
        };
        let event = MessengerEvent::Delivered(Delivered { session, request, body: message.body });
        if let Err(error) = self.events.try_send(event) {
            debug_assert!(matches!(error, mpsc::error::TrySendError::Closed(_)), "there was room");
        }
    }

    fn forget(&mut self, session: SessionId) {
        self.peers.remove(&session);
        self.stop_all_waiting(session);
        self.sessions_removed = true;
    }

    fn stop_all_waiting(&mut self, session: SessionId) {
        let waiting: Vec<_> = self.waiting.range((session, 0)..=(session, u64::MAX)).map(|(key, _)| *key).collect();
        for key in waiting {
            self.waiting.remove(&key);
        }
    }
}

/// Requests that may wait for their replies at once. Each has a task of the caller, which costs more than this.
const REQUESTS_WAITING_MAX: usize = 65_536;
/// Answers to strangers that may wait for the sending task; further strangers are not answered.
const RESETS_WAITING_MAX: usize = 64;
