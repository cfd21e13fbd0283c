//! GMP over a datagram socket, driving [`protocol::gmp::Endpoint`]. All messages between client, master and node pass
//! here. It seals and unseals, tracks peers' addresses, and matches replies with requests. Two tasks, one that receives
//! and one that sends and keeps time, serve all sessions (Sector/Sphere paper, 2.4: "a limited number of threads").
//! They end with the last [`Messenger`]. A caller sends a lone message itself, which saves two wake-ups
//! (`send_coalescing.rs`). It never decides anything about a message but its recipient.

mod event;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod messenger_state;
mod seal;
mod send_coalescing;
mod session_keys;
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
pub use event::{Delivered, MessengerEvent};
use messenger_state::{MessengerState, SendOutcome};
pub use session_keys::{SessionKeys, SessionRole};
use session_table::SessionTable;
pub use stateless_reset::{STATELESS_RESETS_PER_SECOND_MAX, StatelessResetKey};

/// GMP over a datagram socket: sealed requests, replies and notices. Clones are the same messenger.
///
/// The number of tasks does not grow with the sessions. The Sector/Sphere paper (2.4) says: "a limited number of
/// threads process the UDP packets, independent of the number of connections".
#[derive(Clone)]
pub struct Messenger {
    shared: Arc<Shared>,
    /// Ends the tasks with the last clone.
    _tasks: Arc<Tasks>,
}

impl Messenger {
    /// Starts on a bound socket, within a runtime. Events arrive at the receiver, which is bounded. While it is full,
    /// requests and notices are not acknowledged, so that peers send them again later. Once the receiver is dropped
    /// they are.
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

    /// Adds a session; one of the same id is replaced. A peer's address is updated when a newer authentic datagram
    /// comes from another address.
    pub fn add_session(&self, keys: SessionKeys) {
        self.shared.lock().sessions().add_session(keys);
    }

    /// From now on answers datagrams of an unknown session with a stateless reset, which only the owner of this key can
    /// make. So after a restart peers notice at once that their session is gone, without waiting for a timeout.
    pub fn enable_stateless_resets(&self, key: StatelessResetKey) {
        self.shared.lock().sessions().set_reset_key(key);
    }

    /// Sets the token with which the peer of an existing session will prove a stateless reset, as it told when the
    /// session began. A reset is believed only with this token.
    pub fn expect_reset_token(&self, session: SessionId, token: [u8; RESET_TOKEN_BYTES]) {
        self.shared.lock().sessions().set_reset_token(session, token);
    }

    /// Ends a session. Messages given to [`reply`](Self::reply) before are still sent, for
    /// [`CLOSE_LINGER`] at most. Whoever waits for a reply in it is told that the session has ended.
    pub fn remove_session(&self, session: SessionId) {
        self.shared.change(|board| board.close_session(session));
    }

    /// Sends a request of class [`Ordinary`](Class::Ordinary) and waits for its reply, at most for `deadline`. The peer
    /// sees the request once or, where this fails, perhaps not at all. Where this fails or is dropped, the peer is told
    /// that nobody waits any more. It then does not run a request that has not arrived, and sends no reply.
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

    /// Sends one request to many peers at the same time, encoded once. This is the G of GMP (Open Cloud Testbed paper,
    /// section 4). There is one answer for each session, which can be awaited by itself, in their order. A session that
    /// is named twice is asked once.
    ///
    /// ```
    /// # async fn tell(messenger: net::messenger::Messenger, nodes: &[protocol::SessionId], order: Vec<u8>) {
    /// use protocol::gmp::Class;
    /// for (node, asked) in messenger.request_each(Class::Urgent, nodes, order) {
    ///     let reply = match asked {
    ///         Ok(answer) => answer.within(std::time::Duration::from_secs(5)).await,
    ///         Err(error) => Err(error),
    ///     };
    ///     match reply {
    ///         Ok(reply) => println!("{node} answered {} bytes", reply.len()),
    ///         Err(error) => println!("{node} did not: {error}"),
    ///     }
    /// }
    /// # }
    /// ```
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
    /// full twice over, the answer is dropped. The requester then notices by its deadline.
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

    /// Sends a message that expects no reply, in class [`Ordinary`](Class::Ordinary). No role of Sector does, but
    /// services of one's own may.
    ///
    /// # Errors
    /// [`NetError::SessionLost`] if there is no such session, [`NetError::QueueFull`] if too much waits in it,
    /// [`NetError::TooLong`] if the message is too long.
    pub fn notify(&self, session: SessionId, body: Vec<u8>) -> Result<(), NetError> {
        let said = self.shared.lock().send(session, Class::Ordinary, Message { kind: MessageKind::Notice, body })?;
        self.shared.finish_send(said);
        Ok(())
    }

    /// What was counted since the start.
    pub fn counts(&self) -> MessengerCounts {
        self.shared.lock().sessions().counts()
    }

    /// Counters since the start, by the names in [`protocol::names`].
    pub fn counters(&self) -> [(&'static str, u64); 2] {
        self.shared.lock().sessions().counters()
    }

    /// Ends all sessions as [`remove_session`](Self::remove_session) does, and waits until their last messages are
    /// sent.
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
        // The rules end every session by then; the tasks get one more second to notice.
        let _ = tokio::time::timeout(CLOSE_LINGER + Duration::from_secs(1), all_gone).await;
    }
}

/// The state that the calls and the tasks share.
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
    /// Takes received datagrams, at most [`ARRIVALS_MAX`] under one lock.
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

    /// Makes a change that may leave something to send or sessions to end, and wakes the sending task for it.
    fn change<T>(&self, change: impl FnOnce(&mut SessionTable) -> T) {
        let mut desk = self.lock();
        change(desk.sessions());
        if desk.must_wake() {
            self.work.notify_one();
        }
    }

    /// Does the work that is left after a message was queued.
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
        // Nothing in there panics. If it did, the sessions would still be whole, since no call leaves one half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Tasks([AbortHandle; 2]);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// What a messenger has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessengerCounts {
    /// Messages given to peers.
    pub messages_sent: u64,
    /// Messages of peers.
    pub messages_received: u64,
    /// Datagrams that were foreign, replayed or incomplete, or had a wrong seal.
    pub datagrams_dropped: u64,
    /// Datagrams sent again because no acknowledgement came.
    pub datagrams_retransmitted: u64,
}

/// A reply that is awaited. When it is dropped, nobody waits for the reply any more, and the peer is told.
pub struct Answer {
    answered: oneshot::Receiver<Vec<u8>>,
    waiting: PendingReply,
}

impl Answer {
    /// Waits for the reply, at most for `deadline`.
    ///
    /// # Errors
    /// [`NetError::SessionLost`] when the session ends before, [`NetError::Deadline`] when the time does.
    pub async fn within(mut self, deadline: Duration) -> Result<Vec<u8>, NetError> {
        let session = self.waiting.session;
        match tokio::time::timeout(deadline, self.answered).await {
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

/// Takes the requester off the list when it has its reply, gave up waiting, or was itself dropped.
struct PendingReply {
    messenger: Messenger,
    session: SessionId,
    request: u64,
    /// The task that delivered the answer has taken it off already.
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
                // On UDP these are echoes of earlier sends (a port that is not open): the socket itself still works.
                debug!(%error, "a datagram could not be received");
                tokio::time::sleep(RECEIVE_PAUSE).await;
            }
        }
    }
}

/// The task that sends, keeps time, and reports lost sessions.
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
                // Tasks woken together with us queue their messages first: many messages then leave in one datagram.
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

/// Sends datagrams, as many at a time as the socket takes. One that cannot be sent does not hold up the others: the
/// rules send its content again.
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
/// Events that may wait for the receiver; most messages are small, so that is under a megabyte.
const EVENTS_MAX: usize = 1_024;
/// Datagrams unsealed under one lock, of the many that may have come together.
const ARRIVALS_MAX: usize = 16;
/// Datagrams sealed under one lock; a requester waits some 30 µs for that at most.
const DEPARTURES_MAX: usize = 16;
/// Pause after the socket failed to receive, so that a socket that always fails does not take a whole core.
const RECEIVE_PAUSE: Duration = Duration::from_millis(10);
