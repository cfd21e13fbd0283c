//! The state that a messenger's calls and its two tasks share under one lock: the session table, and the choice of who
//! sends. Its calls never wait and never send.

use std::{net::SocketAddr, time::Duration};

use protocol::{
    SessionId,
    gmp::{Class, Message},
};
use tokio::sync::{mpsc, oneshot};

use super::{
    MessengerEvent,
    send_coalescing::SendCoalescing,
    session_table::{SenderWork, SessionTable},
};
use crate::{NetError, clock::Clock, datagram::OutgoingDatagram};

/// See the module.
pub(super) struct MessengerState {
    sessions: SessionTable,
    coalescing: SendCoalescing,
    /// Messages queued since the sending task last ran.
    queued_messages: usize,
    sender: SenderTask,
    /// Datagrams to be sent at once for which the socket had no room.
    unsent: Vec<OutgoingDatagram>,
}

/// The state of the sending task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SenderTask {
    /// It will run by itself: it works, or was woken.
    Awake,
    /// It waits to be woken, at most until this time.
    Asleep(Option<Duration>),
}

/// The work that is left after a message was queued.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SendOutcome {
    /// A datagram that the caller sends at once.
    pub(super) datagram: Option<OutgoingDatagram>,
    /// The sending task must be woken.
    pub(super) must_wake: bool,
}

impl MessengerState {
    pub(super) fn new(clock: Clock, events: mpsc::Sender<MessengerEvent>) -> Self {
        Self {
            sessions: SessionTable::new(clock, events),
            coalescing: SendCoalescing::new(),
            queued_messages: 0,
            sender: SenderTask::Awake,
            unsent: Vec::new(),
        }
    }

    /// The session table, for calls that queue no message.
    pub(super) fn sessions(&mut self) -> &mut SessionTable {
        &mut self.sessions
    }

    /// Sends a request whose reply goes to `answer`; returns its number.
    pub(super) fn request(
        &mut self,
        session: SessionId,
        class: Class,
        body: Vec<u8>,
        answer: oneshot::Sender<Vec<u8>>,
    ) -> Result<(u64, SendOutcome), NetError> {
        let request = self.sessions.request(session, class, body, answer)?;
        Ok((request, self.after_send()))
    }

    /// Sends a reply or a notice.
    pub(super) fn send(&mut self, session: SessionId, class: Class, message: Message) -> Result<SendOutcome, NetError> {
        self.sessions.send(session, class, message)?;
        Ok(self.after_send())
    }

    /// Takes a datagram; returns how many messages it brought.
    pub(super) fn receive(&mut self, datagram: &mut [u8], from: SocketAddr) -> usize {
        self.sessions.receive(datagram, from)
    }

    /// Notes that so many messages came together; returns whether the sending task must be woken.
    pub(super) fn note_received(&mut self, messages: usize) -> bool {
        self.coalescing.note_received(messages);
        self.must_wake()
    }

    /// Keeps a datagram that was to be sent at once and for which the socket had no room.
    pub(super) fn keep_unsent(&mut self, departure: OutgoingDatagram) -> bool {
        if self.unsent.len() < UNSENT_DATAGRAMS_MAX {
            self.unsent.push(departure);
        }
        self.must_wake()
    }

    /// For the sending task: the datagrams to send now. With fewer than `datagrams_max` it may sleep afterwards.
    pub(super) fn collect_due(&mut self, departures: &mut Vec<OutgoingDatagram>, datagrams_max: usize) -> SenderWork {
        let next = self.sessions.collect_due(departures, datagrams_max);
        departures.splice(0..0, self.unsent.drain(..));
        if departures.len() >= datagrams_max {
            self.sender = SenderTask::Awake;
        } else {
            self.coalescing.note_flushed(std::mem::take(&mut self.queued_messages));
            self.sender = SenderTask::Asleep(next.timeout);
        }
        next
    }

    /// Whether the sending task must be woken, which the caller then does.
    pub(super) fn must_wake(&mut self) -> bool {
        let SenderTask::Asleep(until) = self.sender else { return false };
        let is_earlier = self.sessions.next_timeout().is_some_and(|at| until.is_none_or(|until| at < until));
        let has_work = is_earlier || self.sessions.has_work() || !self.unsent.is_empty();
        if has_work {
            self.sender = SenderTask::Awake;
        }
        has_work
    }

    fn after_send(&mut self) -> SendOutcome {
        self.queued_messages += 1;
        let is_due = self.coalescing.is_due() && self.unsent.is_empty();
        let departure = if is_due { self.sessions.next_datagram() } else { None };
        SendOutcome { datagram: departure, must_wake: self.must_wake() }
    }
}

/// Datagrams kept while the socket is full. Any more are lost, and the rules send their content again.
const UNSENT_DATAGRAMS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use protocol::gmp::MessageKind;

    use super::*;
    use crate::messenger::{SessionKeys, SessionRole};

    const SESSION: SessionId = SessionId(7);

    fn desk() -> MessengerState {
        let mut desk = MessengerState::new(Clock::start(), mpsc::channel(8).0);
        let peer = Some(SocketAddr::from(([10, 0, 0, 1], 7)));
        desk.sessions().add_session(SessionKeys { session: SESSION, key: [1; 32], role: SessionRole::Initiator, peer });
        desk
    }

    fn notice() -> Message {
        Message { kind: MessageKind::Notice, body: vec![1; 10] }
    }

    /// The datagrams that the sending task finds.
    fn departures(desk: &mut MessengerState) -> Vec<OutgoingDatagram> {
        let mut departures = Vec::new();
        desk.collect_due(&mut departures, 16);
        departures
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_word_leaves_at_once_and_the_next_ones_share_a_datagram() {
        let mut desk = desk();
        assert_eq!(departures(&mut desk), []);
        assert!(desk.send(SESSION, Class::Ordinary, notice()).unwrap().datagram.is_some());
        for _ in 0..5 {
            assert_eq!(desk.send(SESSION, Class::Ordinary, notice()).unwrap().datagram, None);
        }
        assert_eq!(departures(&mut desk).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_sending_task_is_woken_once_and_only_for_work_or_an_earlier_time() {
        let mut desk = desk();
        assert!(!desk.must_wake(), "it comes by itself at first");
        departures(&mut desk);
        assert!(!desk.must_wake(), "there is nothing to do");
        // The message has left already: only the time of its retransmission must be kept.
        assert!(desk.send(SESSION, Class::Ordinary, notice()).unwrap().must_wake);
        assert!(!desk.send(SESSION, Class::Ordinary, notice()).unwrap().must_wake, "it was woken already");
        departures(&mut desk);
        assert!(!desk.must_wake(), "the time that it waits for has not changed");
        assert!(desk.send(SESSION, Class::Ordinary, notice()).unwrap().must_wake, "a word waits for it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_full_socket_did_not_take_leaves_first_and_no_word_overtakes_it() {
        let mut desk = desk();
        departures(&mut desk);
        let first = desk.send(SESSION, Class::Ordinary, notice()).unwrap().datagram.unwrap();
        departures(&mut desk);
        assert!(desk.keep_unsent(first.clone()), "the sending task must come for it");
        assert_eq!(desk.send(SESSION, Class::Ordinary, notice()).unwrap().datagram, None);
        let left = departures(&mut desk);
        assert_eq!((left.len(), &left[0]), (2, &first));
        for _ in 0..2 * UNSENT_DATAGRAMS_MAX {
            desk.keep_unsent(first.clone());
        }
        assert_eq!(departures(&mut desk).len(), UNSENT_DATAGRAMS_MAX);
    }
}
