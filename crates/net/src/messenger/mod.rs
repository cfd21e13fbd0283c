//! GMP over a datagram socket: the hand that drives [`protocol::gmp::Endpoint`]. Every word between client, master and
//! node passes here: it seals and unseals, keeps where each peer is, and matches replies with those who wait for them.
//! It decides nothing about a message but to whom it goes.
//!
//! Two tasks serve all sessions, however many (Sector/Sphere paper, 2.4: "a limited number of threads process the UDP
//! packets, independent of the number of connections"): one receives, one sends and keeps time. They end with the last
//! [`Messenger`]. A word that comes alone is sent by who says it (`send_coalescing.rs`): two wakings less on its way.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod messenger_state;
mod seal;
mod send_coalescing;
mod session_table;
mod stateless_reset;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    io::ErrorKind,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::{
    SessionId,
    gmp::{CLOSE_LINGER, Class, Message, MessageKind},
    wire::datagram::RESET_TOKEN_BYTES,
};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::AbortHandle,
};
use tracing::{debug, warn};

use crate::{
    NetError,
    clock::Clock,
    datagram::{DatagramSocket, OutgoingDatagram, ReceiveBatch},
};
use messenger_state::{MessengerState, SendOutcome};
use session_table::SessionTable;
pub use stateless_reset::{STATELESS_RESETS_PER_SECOND_MAX, StatelessResetKey};

/// The keys of a session and where its peer is.
#[derive(Clone)]
pub struct SessionKeys {
    /// The session.
    pub session: SessionId,
    /// Derived by both ends from the handshake.
    pub key: [u8; 32],
    /// Which end this is.
    pub role: SessionRole,
    /// Where the peer is; `None` to learn it from its first authentic datagram.
    pub peer: Option<SocketAddr>,
}

/// Who opened the session: each direction has its own nonce space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionRole {
    /// The one who joined.
    Initiator,
    /// The one who let in.
    Responder,
}

/// GMP over a datagram socket: requests, replies, notices; sealed. Clones are the same messenger.
#[derive(Clone)]
pub struct Messenger {
    shared: Arc<Shared>,
    /// Ends the tasks with the last clone.
    _tasks: Arc<Tasks>,
}

/// A request or notice from a peer. It is given once, however often it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The session it came in: who says this.
    pub session: SessionId,
    /// For a request: what to give to [`Messenger::reply`].
    pub request: Option<u64>,
    /// The encoded message.
    pub body: Vec<u8>,
}

/// What a messenger tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessengerEvent {
    /// A request or notice came.
    Delivered(Delivered),
    /// A peer is unreachable; its session is gone.
    SessionLost(SessionId),
}

impl Messenger {
    /// Starts on a bound socket, within a runtime. Events arrive at the receiver (bounded): while it is full, requests
    /// and notices are not acknowledged, so that peers send them again later. Once it is dropped they are.
    pub fn start(socket: Arc<dyn DatagramSocket>, clock: Clock) -> (Self, mpsc::Receiver<MessengerEvent>) {
        let (events, receiver) = mpsc::channel(EVENTS_MAX);
        let desk = Mutex::new(MessengerState::new(clock, events.clone()));
        let shared =
            Arc::new(Shared { socket, clock, state: desk, work: Notify::new(), session_removed: Notify::new() });
        let reading = tokio::spawn(read(Arc::clone(&shared))).abort_handle();
        let sending = tokio::spawn(send(Arc::clone(&shared), events)).abort_handle();
        (Self { shared, _tasks: Arc::new(Tasks([reading, sending])) }, receiver)
    }

    /// Where its socket is bound.
    pub fn local_address(&self) -> SocketAddr {
        self.shared.socket.local_address()
    }

    /// Adds a session; one of the same id is replaced. The peer is followed when it comes from another address with a
    /// newer authentic datagram.
    pub fn add_session(&self, keys: SessionKeys) {
        self.shared.lock().sessions().add_session(keys);
    }

    /// From now on tells those who speak into a session that is not here that it is gone, in a way that only who has
    /// this key can: after a restart, peers then notice at once, and not only when they have waited long enough.
    pub fn enable_stateless_resets(&self, key: StatelessResetKey) {
        self.shared.lock().sessions().set_reset_key(key);
    }

    /// What the peer of a session (that was added) will show when it says that the session is gone, as it told when the
    /// session began. It is believed only then.
    pub fn expect_reset_token(&self, session: SessionId, token: [u8; RESET_TOKEN_BYTES]) {
        self.shared.lock().sessions().set_reset_token(session, token);
    }

    /// Ends a session. What was given to [`reply`](Self::reply) or [`notify`](Self::notify) before is still sent, for
    /// [`CLOSE_LINGER`] at most; who waits for a reply in it is told that the session has ended.
    pub fn remove_session(&self, session: SessionId) {
        self.shared.change(|board| board.close_session(session));
    }

    /// Sends a request of class [`Ordinary`](Class::Ordinary) and waits for its reply, at most for `deadline`. The peer
    /// sees the request once or, where this fails, perhaps not at all. Where this fails or is dropped, the peer is told
    /// that nobody waits any more: it does not run what has not arrived, and sends no reply.
    pub async fn request(&self, session: SessionId, body: Vec<u8>, deadline: Duration) -> Result<Vec<u8>, NetError> {
        self.request_as(Class::Ordinary, session, body, deadline).await
    }

    /// The same, for a request of another class.
    pub async fn request_as(
        &self,
        class: Class,
        session: SessionId,
        body: Vec<u8>,
        deadline: Duration,
    ) -> Result<Vec<u8>, NetError> {
        let (answer, answered) = oneshot::channel();
        let (request, said) = self.shared.lock().request(session, class, body, answer)?;
        let answer = Answer { answered, waiting: PendingReply::new(self, session, request) };
        self.shared.finish_send(said);
        answer.within(deadline).await
    }

    /// Sends one request to many peers, at the same time and encoded once, and waits for all their replies, at most for
    /// `deadline` (the G of GMP; Open Cloud Testbed paper, section 4). There is one result for each session, in their
    /// order; one that is named twice is asked once.
    ///
    /// ```
    /// # async fn tell(messenger: net::messenger::Messenger, nodes: &[protocol::SessionId], order: Vec<u8>) {
    /// use protocol::gmp::Class;
    /// for (node, reply) in messenger.request_group(Class::Urgent, nodes, order, std::time::Duration::from_secs(5)).await {
    ///     match reply {
    ///         Ok(reply) => println!("{node} answered {} bytes", reply.len()),
    ///         Err(error) => println!("{node} did not: {error}"),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn request_group(
        &self,
        class: Class,
        sessions: &[SessionId],
        body: Vec<u8>,
        deadline: Duration,
    ) -> Vec<(SessionId, Result<Vec<u8>, NetError>)> {
        let until = tokio::time::Instant::now() + deadline;
        let mut results = Vec::with_capacity(sessions.len());
        for (session, asked) in self.request_each(class, sessions, body) {
            let result = match asked {
                Ok(answer) => answer.until(until, deadline).await,
                Err(error) => Err(error),
            };
            results.push((session, result));
        }
        results
    }

    /// The same, for a caller that wants each answer as it comes: the request is sent, and each answer is waited for by
    /// itself.
    pub fn request_each(
        &self,
        class: Class,
        sessions: &[SessionId],
        body: Vec<u8>,
    ) -> Vec<(SessionId, Result<Answer, NetError>)> {
        let mut asked = Vec::with_capacity(sessions.len());
        {
            let mut desk = self.shared.lock();
            let (request, message) = desk.sessions().next_request(body);
            let mut named = BTreeSet::new();
            for session in sessions.iter().copied().filter(|session| named.insert(*session)) {
                let (answer, answered) = oneshot::channel();
                let said = desk.sessions().send_request(session, class, request, Arc::clone(&message), answer);
                let answer = said.map(|()| Answer { answered, waiting: PendingReply::new(self, session, request) });
                asked.push((session, answer));
            }
            if desk.must_wake() {
                self.shared.work.notify_one();
            }
        }
        asked
    }

    /// Answers a request, in class [`Ordinary`](Class::Ordinary). If the session has gone meanwhile, or its queue is
    /// full twice over, the answer is dropped, and the requester's deadline tells it.
    pub fn reply(&self, session: SessionId, request: u64, body: Vec<u8>) {
        self.reply_as(Class::Ordinary, session, request, body);
    }

    /// The same, for an answer of another class.
    pub fn reply_as(&self, class: Class, session: SessionId, request: u64, body: Vec<u8>) {
        let message = Message { kind: MessageKind::Reply(request), body };
        let said = self.shared.lock().send(session, class, message);
        match said {
            Ok(said) => self.shared.finish_send(said),
            Err(error) => warn!(%session, %error, "an answer was dropped"),
        }
    }

    /// Sends a message that expects no reply, in class [`Ordinary`](Class::Ordinary).
    pub fn notify(&self, session: SessionId, body: Vec<u8>) -> Result<(), NetError> {
        let said = self.shared.lock().send(session, Class::Ordinary, Message { kind: MessageKind::Notice, body })?;
        self.shared.finish_send(said);
        Ok(())
    }

    /// What was counted since the start, by the names in [`protocol::names`].
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        self.shared.lock().sessions().counters()
    }

    /// Ends all sessions as [`remove_session`](Self::remove_session) does, and waits until they have said what they had
    /// to say.
    pub async fn close(&self) {
        self.shared.change(SessionTable::close_all);
        let all_gone = async {
            loop {
                let gone = self.shared.session_removed.notified();
                if self.shared.lock().sessions().is_empty() {
                    break;
                }
                gone.await;
            }
        };
        // The rules end every session by then; a second more for the tasks to notice.
        let _ = tokio::time::timeout(CLOSE_LINGER + Duration::from_secs(1), all_gone).await;
    }
}

/// What the calls and the tasks share.
struct Shared {
    socket: Arc<dyn DatagramSocket>,
    clock: Clock,
    state: Mutex<MessengerState>,
    /// There may be something to send, or an earlier time to keep.
    work: Notify,
    /// A session has gone.
    session_removed: Notify,
}

impl Shared {
    /// Takes what came, so many datagrams under one lock.
    fn receive(&self, arrivals: &mut ReceiveBatch) {
        let (mut number, mut messages) = (0, 0);
        while number < arrivals.len() {
            let mut desk = self.lock();
            for _ in 0..ARRIVALS_MAX {
                let Some((datagram, from)) = arrivals.datagram(number) else { break };
                messages += desk.receive(datagram, from);
                number += 1;
            }
            if number >= arrivals.len() && desk.note_received(messages) {
                self.work.notify_one();
            }
        }
    }

    /// Does what may leave something to send or sessions to end, and has the sending task see to it.
    fn change<T>(&self, change: impl FnOnce(&mut SessionTable) -> T) {
        let mut desk = self.lock();
        change(desk.sessions());
        if desk.must_wake() {
            self.work.notify_one();
        }
    }

    /// Does what is left to do after something was said.
    fn finish_send(&self, said: SendOutcome) {
        let mut wakes = said.must_wake;
        if let Some(departure) = said.datagram {
            match self.socket.try_send_to(&departure.datagram, departure.to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => wakes |= self.lock().keep_unsent(departure),
                Err(error) => debug!(to = %departure.to, %error, "{NOT_SENT}"),
                Ok(()) => {}
            }
        }
        if wakes {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, MessengerState> {
        // Nothing in there panics; if it did, the sessions would still be whole, since no call leaves one half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Tasks([AbortHandle; 2]);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// A reply that is on its way, or not. Dropped, nobody waits for it any more, and the peer is told.
pub struct Answer {
    answered: oneshot::Receiver<Vec<u8>>,
    waiting: PendingReply,
}

impl Answer {
    /// Waits for the reply, at most for `deadline`.
    ///
    /// # Errors
    /// [`NetError::SessionLost`] when the session ends before, [`NetError::Deadline`] when the time does.
    pub async fn within(self, deadline: Duration) -> Result<Vec<u8>, NetError> {
        self.until(tokio::time::Instant::now() + deadline, deadline).await
    }

    /// The same, for one of several that are waited for together: until `at`, which was `deadline` away.
    async fn until(mut self, at: tokio::time::Instant, deadline: Duration) -> Result<Vec<u8>, NetError> {
        let session = self.waiting.session;
        match tokio::time::timeout_at(at, self.answered).await {
            Ok(Ok(reply)) => {
                self.waiting.is_answered = true;
                Ok(reply)
            }
            Ok(Err(_)) => Err(NetError::SessionLost { session }),
            Err(_) => {
                let operation = format!("waiting for the answer to a request in session {session}");
                Err(NetError::Deadline { operation, after: deadline })
            }
        }
    }
}

/// Takes the requester off the list when it has its reply, or gave up waiting, or was itself dropped.
struct PendingReply {
    messenger: Messenger,
    session: SessionId,
    request: u64,
    /// Whoever brought the answer has taken it off already.
    is_answered: bool,
}

impl PendingReply {
    fn new(messenger: &Messenger, session: SessionId, request: u64) -> Self {
        Self { messenger: messenger.clone(), session, request, is_answered: false }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        if !self.is_answered {
            self.messenger.shared.change(|board| board.stop_waiting(self.session, self.request));
        }
    }
}

/// The task that receives.
async fn read(shared: Arc<Shared>) {
    let mut arrivals = ReceiveBatch::new();
    loop {
        match shared.socket.receive_many(&mut arrivals).await {
            Ok(()) => {
                shared.receive(&mut arrivals);
            }
            Err(error) => {
                // On UDP these are echoes of earlier sends (a port that is not open): the socket itself goes on.
                debug!(%error, "a datagram could not be received");
                tokio::time::sleep(RECEIVE_PAUSE).await;
            }
        }
    }
}

/// The task that sends, keeps time, and tells of lost sessions.
async fn send(shared: Arc<Shared>, events: mpsc::Sender<MessengerEvent>) {
    let mut departures: Vec<OutgoingDatagram> = Vec::with_capacity(DEPARTURES_MAX);
    loop {
        let next = shared.lock().collect_due(&mut departures, DEPARTURES_MAX);
        if next.sessions_removed {
            shared.session_removed.notify_waiters();
        }
        dispatch(&*shared.socket, &departures).await;
        if departures.len() >= DEPARTURES_MAX {
            continue;
        }
        let at = next.timeout.map(|at| shared.clock.instant(at));
        tokio::select! {
            () = shared.work.notified() => {
                // Whoever was woken with us says first what he has to say: many words then leave in one datagram.
                tokio::task::yield_now().await;
            }
            () = async { tokio::time::sleep_until(at.unwrap_or_else(tokio::time::Instant::now)).await }, if at.is_some() => {}
            permit = events.reserve(), if next.has_lost => match permit {
                Ok(permit) => shared.lock().sessions().report_lost(permit),
                Err(_) => shared.lock().sessions().forget_lost(),
            },
        }
    }
}

/// Sends datagrams, as many at a time as the socket takes. One that cannot be sent holds up no other: the rules send
/// what it carried again.
async fn dispatch(socket: &dyn DatagramSocket, mut departures: &[OutgoingDatagram]) {
    while let [first, rest @ ..] = departures {
        let sent = match socket.try_send_many(departures) {
            Ok(sent) => {
                departures = departures.get(sent..).unwrap_or_default();
                continue;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => socket.send_to(&first.datagram, first.to).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            debug!(to = %first.to, %error, "{NOT_SENT}");
        }
        departures = rest;
    }
}

const NOT_SENT: &str = "a datagram could not be sent; it will be sent again";
/// Events that may wait for the receiver; at the size of most messages under a megabyte.
const EVENTS_MAX: usize = 1_024;
/// Datagrams unsealed under one lock, of the many that may have come in one go.
const ARRIVALS_MAX: usize = 16;
/// Datagrams sealed under one lock: a requester waits some 30 µs for it at most.
const DEPARTURES_MAX: usize = 16;
/// Pause after the socket failed to receive, so that a socket that always fails does not take a core.
const RECEIVE_PAUSE: Duration = Duration::from_millis(10);
