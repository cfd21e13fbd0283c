//! The messages of one process: the real GMP rules, and the list of outstanding requests. It is `net::messenger`
//! without tasks and sockets. Datagrams are encoded as there, but never encrypted: fixed bytes take the place of the
//! cipher's seal.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use protocol::{
    Now, SessionId,
    gmp::{Class, Endpoint, EndpointAction, Message, MessageKind, OpenMode},
    wire::datagram::{Head, SEAL_BYTES},
};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SimMessenger {
    endpoint: Endpoint,
    /// The asker's tag, and until when it waits.
    waiting: BTreeMap<(SessionId, u64), (u64, Duration)>,
    deadlines: BTreeSet<(Duration, SessionId, u64)>,
    next_request: u64,
    heard: VecDeque<MessageEvent>,
    leaving: VecDeque<(SessionId, Vec<u8>)>,
}

/// An event for a process.
#[derive(Debug)]
pub(crate) enum MessageEvent {
    /// A request; notices have no number.
    Asked { session: SessionId, request: Option<u64>, body: Vec<u8> },
    /// The answer to a request of this process, or the news that none came.
    Answered { session: SessionId, tag: u64, body: Option<Vec<u8>> },
    /// The peer is unreachable.
    Lost(SessionId),
}

impl SimMessenger {
    pub(crate) fn add_session(&mut self, session: SessionId, opening: OpenMode) {
        self.endpoint.add_session(session, opening);
    }

    /// Ends a session; earlier messages are still sent for a while.
    pub(crate) fn close_session(&mut self, now: Now, session: SessionId) {
        self.stop_waiting(session);
        self.endpoint.close_session(now, session);
        self.take_actions();
    }

    /// Forgets a session at once: from now on nothing of it is sent.
    pub(crate) fn drop_session(&mut self, session: SessionId) {
        self.stop_waiting(session);
        self.endpoint.remove_session(session);
        self.leaving.retain(|(of, _)| *of != session);
    }

    /// Asks; there will be one [`MessageEvent::Answered`] with this tag.
    pub(crate) fn ask(&mut self, now: Now, session: SessionId, body: Vec<u8>, tag: u64, patience: Duration) {
        let request = self.next_request;
        self.next_request += 1;
        let message = Message { kind: MessageKind::Request(request), body };
        if self.endpoint.send(now, session, Class::Ordinary, message).is_err() {
            self.heard.push_back(MessageEvent::Answered { session, tag, body: None });
            return;
        }
        let deadline = now.monotonic + patience;
        self.waiting.insert((session, request), (tag, deadline));
        self.deadlines.insert((deadline, session, request));
    }

    /// Answers a request. If the session is gone, the asker learns it by its timeout.
    pub(crate) fn reply(&mut self, now: Now, session: SessionId, request: u64, body: Vec<u8>) {
        let message = Message { kind: MessageKind::Reply(request), body };
        let _ = self.endpoint.send(now, session, Class::Ordinary, message);
    }

    /// Takes a datagram from the network.
    pub(crate) fn receive(&mut self, now: Now, datagram: &[u8]) {
        if let Some((head, body)) = Head::split(datagram) {
            let body = &body[..body.len() - SEAL_BYTES];
            self.endpoint.handle_datagram(now, &head, body);
        }
    }

    /// Performs the work that is due.
    pub(crate) fn handle_timeout(&mut self, now: Now) {
        if self.endpoint.next_timeout().is_some_and(|at| at <= now.monotonic) {
            self.endpoint.handle_timeout(now);
        }
        while let Some((at, session, request)) = self.deadlines.first().copied() {
            if at > now.monotonic {
                break;
            }
            self.deadlines.pop_first();
            if let Some((tag, _)) = self.waiting.remove(&(session, request)) {
                self.endpoint.cancel_request(now, session, request);
                self.heard.push_back(MessageEvent::Answered { session, tag, body: None });
            }
        }
    }

    /// The next event since the last call.
    pub(crate) fn next_event(&mut self) -> Option<MessageEvent> {
        self.take_actions();
        self.heard.pop_front()
    }

    /// The next datagram to send, and its session.
    pub(crate) fn next_datagram(&mut self) -> Option<(SessionId, Vec<u8>)> {
        self.take_actions();
        self.leaving.pop_front()
    }

    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let deadline = self.deadlines.first().map(|(at, _, _)| *at);
        self.endpoint.next_timeout().into_iter().chain(deadline).min()
    }

    fn take_actions(&mut self) {
        while let Some(action) = self.endpoint.poll_action() {
            match action {
                EndpointAction::Send(sent) => {
                    let mut datagram = sent.bytes;
                    datagram.extend([0; SEAL_BYTES]);
                    self.leaving.push_back((sent.session, datagram));
                }
                EndpointAction::Deliver { session, message } => self.deliver(session, message),
                EndpointAction::SessionLost(session) => {
                    self.stop_waiting(session);
                    self.heard.push_back(MessageEvent::Lost(session));
                }
                EndpointAction::SessionClosed(_) => {}
            }
        }
    }

    fn deliver(&mut self, session: SessionId, message: Message) {
        let request = match message.kind {
            MessageKind::Notice => None,
            MessageKind::Request(request) => Some(request),
            MessageKind::Reply(request) => {
                // A reply that comes too late is dropped.
                if let Some((tag, deadline)) = self.waiting.remove(&(session, request)) {
                    self.deadlines.remove(&(deadline, session, request));
                    self.heard.push_back(MessageEvent::Answered { session, tag, body: Some(message.body) });
                }
                return;
            }
        };
        self.heard.push_back(MessageEvent::Asked { session, request, body: message.body });
    }

    fn stop_waiting(&mut self, session: SessionId) {
        let ended: Vec<_> = self.waiting.range((session, 0)..=(session, u64::MAX)).map(|(key, _)| *key).collect();
        for key in ended {
            if let Some((tag, deadline)) = self.waiting.remove(&key) {
                self.deadlines.remove(&(deadline, key.0, key.1));
                self.heard.push_back(MessageEvent::Answered { session, tag, body: None });
            }
        }
    }
}
