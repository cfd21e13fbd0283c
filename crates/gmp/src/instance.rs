//! One end of GMP: a port, the sessions with other members, and the requests that go out. A session opens at the first
//! message to a member and is used from then on. It never sends a request again that may have arrived.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use net::{
    NetError,
    clock::Clock,
    datagram::as_seen_from,
    identity::TlsIdentity,
    message_port,
    messenger::{Answer, Messenger, SessionKeys, SessionRole, StatelessResetKey},
    transfer::{Incoming, Listener, TcpCarrier},
};
use protocol::{SessionId, gmp::Class, host_address::HostAddress, limits::CERTIFICATE_LIFE};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{Instant, interval, timeout, timeout_at},
};

use crate::{
    Group,
    inbox::Inbox,
    opening::{self, OpenedSession},
    sessions::Sessions,
};

/// One end of GMP (the paper's "GMP instance"): it sends to any other instance of its group, and receives from any.
/// Clones are the same instance, which ends with the last of them.
///
/// ```no_run
/// # async fn service() -> Result<(), net::NetError> {
/// use gmp::{Group, Instance};
///
/// let group = Group::load("group.pem".as_ref())?;
/// let (_instance, mut inbox) = Instance::bind(&group, ([0, 0, 0, 0], 9000).into()).await?;
/// while let Some(message) = inbox.next().await {
///     let answer = message.body().to_ascii_uppercase();
///     message.reply(answer)?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// Delivery is at most once: a request that ends in an error was handled once or not at all. There is no order among
/// messages. A message has at most [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX) bytes.
#[derive(Clone)]
pub struct Instance {
    shared: Arc<Shared>,
    accepting: Arc<Accepting>,
}

/// What an instance and its inbox share.
pub(crate) struct Shared {
    pub(crate) messenger: Messenger,
    carrier: TcpCarrier,
    address: SocketAddr,
    reset_key: StatelessResetKey,
    sessions: Mutex<Sessions>,
    /// Tells the inbox.
    closed: watch::Sender<bool>,
}

impl Instance {
    /// Opens a port, UDP for messages and TCP of the same number for the openings of sessions. Port 0 takes any that is
    /// free for both.
    ///
    /// # Errors
    /// [`NetError::Bind`] if the port is in use.
    pub async fn bind(group: &Group, address: SocketAddr) -> Result<(Self, Inbox), NetError> {
        let identity = group.identity()?;
        let (listener, socket) = message_port::listen(address, &identity).await?;
        let (messenger, events) = Messenger::start(socket, Clock::start());
        let reset_key = group.reset_key(listener.address().port());
        messenger.enable_stateless_resets(reset_key.clone());
        let shared = Arc::new(Shared {
            messenger,
            carrier: TcpCarrier::new(identity.clone()),
            address: listener.address(),
            reset_key,
            sessions: Mutex::default(),
            closed: watch::Sender::new(false),
        });
        let accepting = accept_sessions(listener, Arc::clone(&shared), group.clone(), identity);
        let task = tokio::spawn(accepting).abort_handle();
        let accepting = Arc::new(Accepting { task, shared: Arc::clone(&shared) });
        let inbox = Inbox { events, closed: shared.closed.subscribe(), shared: Arc::clone(&shared) };
        Ok((Self { shared, accepting }, inbox))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Sends a request to the instance at `to`, and waits for its reply, at most for `deadline`.
    ///
    /// # Errors
    /// Where no member listens there. [`NetError::Deadline`] when no reply came in time, [`NetError::SessionLost`] when
    /// the peer ended before it replied: the request was handled once or not at all.
    pub async fn request(&self, to: &HostAddress, body: Vec<u8>, deadline: Duration) -> Result<Vec<u8>, NetError> {
        let until = Until::after(deadline);
        let session = self.session(to, until).await?;
        let asked = self.shared.messenger.request_each(Class::Ordinary, &[session], body.clone()).pop();
        match asked.map(|(_, asked)| asked) {
            Some(Ok(answer)) => self.reply(answer, until).await,
            Some(Err(error)) if !matches!(error, NetError::SessionLost { .. }) => Err(error),
            // The session had ended before anything was sent in it.
            _ => {
                self.shared.forget(session);
                let session = self.session(to, until).await?;
                let replied = self.shared.messenger.request(session, body, until.left()).await;
                self.shared.forget_lost(&replied);
                replied
            }
        }
    }

    /// Sends one request to many instances at the same time, encoded once, and waits for all replies, at most for
    /// `deadline`. This is the G of GMP. The replies come in the order of `to`, where an instance that is named twice
    /// is asked once. One that cannot be reached delays the return, and no other's request.
    pub async fn request_each(
        &self,
        to: &[HostAddress],
        body: Vec<u8>,
        deadline: Duration,
    ) -> Vec<(HostAddress, Result<Vec<u8>, NetError>)> {
        let until = Until::after(deadline);
        let mut named = HashSet::new();
        let hosts: Vec<_> = to.iter().filter(|host| named.insert(*host)).cloned().collect();
        let sessions: Vec<_> = hosts.iter().map(|host| self.shared.sessions().opened(host)).collect();
        let known: Vec<_> = sessions.iter().flatten().copied().collect();
        let mut asked = self.shared.messenger.request_each(Class::Ordinary, &known, body.clone()).into_iter();
        join_all(hosts.into_iter().zip(sessions).map(|(host, session)| {
            let (asked, body) = (session.and_then(|_| asked.next()), body.clone());
            async move {
                let replied = match asked {
                    Some((_, Ok(answer))) => self.reply(answer, until).await,
                    Some((_, Err(error))) if !matches!(error, NetError::SessionLost { .. }) => Err(error),
                    // Nothing was sent in a session that there is not, or no more.
                    _ => self.request(&host, body, until.left()).await,
                };
                (host, replied)
            }
        }))
        .await
    }

    /// Sends a message that expects no reply. It returns when the message is on its way: that it arrives is likely, and
    /// not said.
    ///
    /// # Errors
    /// Where no session with the instance at `to` can be opened within `deadline`, or too much waits for it.
    pub async fn notify(&self, to: &HostAddress, body: Vec<u8>, deadline: Duration) -> Result<(), NetError> {
        let until = Until::after(deadline);
        let session = self.session(to, until).await?;
        match self.shared.messenger.notify(session, body.clone()) {
            Err(NetError::SessionLost { .. }) => {
                self.shared.forget(session);
                let session = self.session(to, until).await?;
                self.shared.messenger.notify(session, body)
            }
            sent => sent,
        }
    }

    /// Ends the instance. Replies given before are still sent, for two seconds at most. Whoever waits for another one
    /// does so until its deadline, or until it finds nobody there.
    pub async fn close(self) {
        self.accepting.task.abort();
        self.shared.messenger.close().await;
        self.shared.closed.send_replace(true);
    }

    /// The session with the instance at `to`, opened if there is none.
    async fn session(&self, to: &HostAddress, until: Until) -> Result<SessionId, NetError> {
        let cell = self.shared.sessions().cell(to);
        let opened = timeout_at(until.at, cell.get_or_try_init(|| self.shared.open(to))).await;
        let session = opened.unwrap_or_else(|_| Err(until.overdue(to))).copied();
        if session.is_err() {
            self.shared.sessions().forget_unopened(to);
        }
        session
    }

    async fn reply(&self, answer: Answer, until: Until) -> Result<Vec<u8>, NetError> {
        let replied = answer.within(until.left()).await;
        self.shared.forget_lost(&replied);
        replied
    }
}

impl Shared {
    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        // Nothing in there panics half way.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the member listens that opened this session.
    pub(crate) fn sender(&self, session: SessionId) -> Option<SocketAddr> {
        self.sessions().sender(session, Instant::now())
    }

    /// Forgets a session that has ended; the next message to its peer opens another.
    pub(crate) fn forget(&self, session: SessionId) {
        self.sessions().forget(session);
    }

    fn forget_lost<T>(&self, result: &Result<T, NetError>) {
        if let Err(NetError::SessionLost { session }) = result {
            self.forget(*session);
        }
    }

    async fn open(&self, to: &HostAddress) -> Result<SessionId, NetError> {
        let OpenedSession { session, key, reset_token, peer } =
            opening::open(&self.carrier, to, self.address.port()).await?;
        let peer = Some(as_seen_from(self.messenger.local_address(), peer));
        self.messenger.add_session(SessionKeys { session, key, role: SessionRole::Initiator, peer });
        self.messenger.expect_reset_token(session, reset_token);
        Ok(session)
    }

    /// The other side of [`open`](Self::open).
    async fn accept(&self, incoming: Incoming) -> Result<(), NetError> {
        let token = |session| self.reset_key.token(session);
        opening::accept(incoming, token, |opened| {
            let OpenedSession { session, key, peer, .. } = *opened;
            self.messenger.add_session(SessionKeys { session, key, role: SessionRole::Responder, peer: None });
            let evicted = self.sessions().accept(session, peer, Instant::now());
            if let Some(evicted) = evicted {
                self.messenger.remove_session(evicted);
            }
        })
        .await
    }
}

/// Takes the openings of other members' sessions, and renews the own certificate.
async fn accept_sessions(listener: Listener, shared: Arc<Shared>, group: Group, identity: TlsIdentity) {
    let mut opening = JoinSet::new();
    let mut renewal = interval(CERTIFICATE_LIFE / 3);
    // The first tick is now, when the certificate is new.
    renewal.tick().await;
    loop {
        tokio::select! {
            incoming = listener.accept() => match incoming {
                Ok(incoming) => {
                    let (peer, shared) = (incoming.peer(), Arc::clone(&shared));
                    opening.spawn(async move {
                        match timeout(OPENING_MAX, shared.accept(incoming)).await {
                            Ok(Ok(())) => {}
                            Ok(Err(error)) => tracing::info!(%peer, %error, "a session was not opened"),
                            Err(_) => tracing::info!(%peer, "the opening of a session took too long"),
                        }
                    });
                }
                Err(error) => tracing::warn!(%error, "cannot take a connection"),
            },
            Some(_) = opening.join_next() => {}
            _ = renewal.tick() => {
                if let Err(error) = group.renew(&identity) {
                    tracing::warn!(%error, "the certificate was not renewed");
                }
            }
        }
    }
}

/// Until when a call may wait.
#[derive(Clone, Copy)]
struct Until {
    at: Instant,
    deadline: Duration,
}

impl Until {
    fn after(deadline: Duration) -> Self {
        Self { at: Instant::now() + deadline, deadline }
    }

    fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    fn overdue(self, to: &HostAddress) -> NetError {
        NetError::Deadline { operation: format!("opening a session with {to}"), after: self.deadline }
    }
}

/// Ends the accepting task, and says so to the inbox.
struct Accepting {
    task: AbortHandle,
    shared: Arc<Shared>,
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.closed.send_replace(true);
    }
}

/// For one opening, from the connection on.
const OPENING_MAX: Duration = Duration::from_secs(10);
