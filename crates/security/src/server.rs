//! The security server as a process part: sockets, clock and processor time for the [rules](crate::rules). It serves
//! door 3: a master's connection, one request and one reply at a time, over mutual TLS (Sector/Sphere paper, 2.3: "both
//! SSL connections require the use of public certificates for verification"). It must never answer anyone whose
//! certificate is not the one registered for the master.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use daemon::{
    ready,
    settings::{Checked, SecuritySettings, Settings},
    stop::Stopping,
};
use net::{
    clock::Clock,
    identity::{Credentials, TlsIdentity},
    transfer::{Incoming, Listener, TransferStream},
};
use protocol::message::master_security::SecurityRequest;
use store::Journal;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::{self, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    SecurityError,
    accounts::{self, Accounts},
    audit::{AUDIT_FOLDER, AuditLog},
    keeper::{Ask, Keeper},
    rules::Security,
    setup::ACCOUNTS_FILE,
};

/// A security server that has its port and its accounts, and serves once it [runs](Self::run).
pub struct Server {
    listener: Listener,
    master: [u8; 32],
    security: Security,
    journal: Journal,
    record: AuditLog,
}

/// Serves in a process of its own: prints the ready line and returns when it was stopped. An embedded cloud, whose
/// standard output is not the server's, uses [`Server::bind`] and [`Server::run`].
pub async fn serve(settings: Checked<SecuritySettings>, stopping: Stopping) -> Result<(), SecurityError> {
    let server = Server::bind(&settings).await?;
    ready::announce(server.address())?;
    server.run(stopping).await
}

impl Server {
    /// Reads the accounts and opens the port.
    pub async fn bind(settings: &Checked<SecuritySettings>) -> Result<Self, SecurityError> {
        let texts = settings.credential_files().read()?;
        let credentials = Credentials { certificate_pem: texts.certificate_pem, key_pem: texts.key_pem };
        let identity = TlsIdentity::role(&texts.authority_pem, &credentials)?;
        let folder = settings.folder.clone();
        let opened = task::spawn_blocking(move || open(&folder)).await;
        let (journal, master, security, record) =
            opened.map_err(|_| SecurityError::Panicked("read its accounts"))??;
        let listener = Listener::bind(settings.listen, identity).await?;
        Ok(Self { listener, master, security, journal, record })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until it is stopped. Requests under way are still answered.
    ///
    /// # Errors
    /// When the accounts can no longer be written.
    pub async fn run(self, stopping: Stopping) -> Result<(), SecurityError> {
        let Self { listener, master, security, journal, record } = self;
        tracing::info!(address = %listener.address(), "the security server is ready");
        let (asks, asked) = mpsc::channel(MASTER_CONNECTIONS_MAX);
        let mut keeper = tokio::spawn(Keeper::new(security, journal, record).keep(asked));
        let door = Arc::new(Door { master, places: Semaphore::new(MASTER_CONNECTIONS_MAX), asks, stopping });
        let mut connections = JoinSet::new();
        let mut ended = None;
        while ended.is_none() {
            tokio::select! {
                // Only when it cannot write its accounts: then nobody can be answered any more.
                kept = &mut keeper => ended = Some(kept),
                incoming = door.stopping.unless(next(&listener, &mut connections)) => match incoming {
                    Some(Ok(incoming)) => drop(connections.spawn(Arc::clone(&door).serve(incoming))),
                    Some(Err(error)) => {
                        // Out of descriptors, most likely. To ask again at once would only burn a processor.
                        tracing::warn!(%error, "cannot take a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                    None => break,
                },
            }
        }
        drop(listener);
        let in_order = timeout(STOP_MAX, async { while connections.join_next().await.is_some() {} }).await;
        if in_order.is_err() {
            tracing::warn!(connections = connections.len(), "some connections did not end in time and were cut off");
            connections.shutdown().await;
        }
        // The last sender of questions goes with it, and so the keeper ends.
        drop(door);
        let kept = match ended {
            Some(kept) => kept,
            None => keeper.await,
        };
        kept.map_err(|_| SecurityError::Panicked("kept its accounts"))?
    }
}

/// The next connection, once there is room for it.
async fn next(listener: &Listener, connections: &mut JoinSet<()>) -> Result<Incoming, net::NetError> {
    while connections.try_join_next().is_some() {}
    if connections.len() >= CONNECTIONS_MAX {
        connections.join_next().await;
    }
    listener.accept().await
}

/// Opens the accounts; blocks.
fn open(folder: &Path) -> Result<(Journal, [u8; 32], Security, AuditLog), SecurityError> {
    let journal = Journal::open(&folder.join(ACCOUNTS_FILE))?;
    let accounts = Accounts::load(&journal)?;
    let master = accounts.master().ok_or_else(|| SecurityError::NoMaster { folder: folder.to_owned() })?;
    let now = Clock::start().now().unix_millis;
    let record = AuditLog::open(&folder.join(AUDIT_FOLDER), accounts::audit_head(&journal)?, now)?;
    Ok((journal, master, Security::new(accounts)?.recorded(), record))
}

/// What every connection needs.
struct Door {
    /// The certificate of the only one who is answered.
    master: [u8; 32],
    /// Places for connections of the master.
    places: Semaphore,
    asks: mpsc::Sender<Ask>,
    stopping: Stopping,
}

impl Door {
    async fn serve(self: Arc<Self>, incoming: Incoming) {
        let peer = incoming.peer();
        // The handshake has a deadline of its own, so that a silent peer holds its place for seconds only.
        let stream = match self.stopping.unless(incoming.handshake()).await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return tracing::warn!(%peer, %error, "a connection was refused"),
            None => return,
        };
        if stream.peer_fingerprint() != Some(self.master) {
            tracing::warn!(%peer, "a connection was refused: its certificate is not that of the master");
            return stream.close().await;
        }
        let Ok(_place) = self.places.try_acquire() else {
            tracing::warn!(%peer, "a connection was refused: the master has {MASTER_CONNECTIONS_MAX} already");
            return stream.close().await;
        };
        match self.converse(stream).await {
            // A master that stops, or is started again, goes without a word.
            Ok(()) | Err(net::NetError::Closed { .. }) => tracing::debug!(%peer, "the master has gone"),
            Err(error) => tracing::warn!(%peer, %error, "a connection with the master broke"),
        }
    }

    async fn converse(&self, mut stream: TransferStream) -> Result<(), net::NetError> {
        loop {
            let received = timeout(IDLE_MAX, stream.receive_or_end::<SecurityRequest>());
            // Stopped, or idle for too long: both end the conversation between two requests.
            let Some(Ok(request)) = self.stopping.unless(received).await else { break };
            let Some(request) = request? else { break };
            let (reply, replied) = oneshot::channel();
            // Either fails only when the keeper is gone, and then nobody can be answered any more.
            if self.asks.send(Ask { request, reply }).await.is_err() {
                break;
            }
            let Ok(reply) = replied.await else { break };
            stream.send(&reply).await?;
        }
        stream.close().await;
        Ok(())
    }
}

/// Connections of masters at once: a few masters with a few connections each.
const MASTER_CONNECTIONS_MAX: usize = 16;
/// Connections at once, also of those who have not proved who they are.
const CONNECTIONS_MAX: usize = 64;
/// After this long without a request a connection is closed, since its master may be gone; a living one connects again.
const IDLE_MAX: Duration = Duration::from_secs(3_600);
/// How long requests under way may take once a stop was asked for.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Pause after the operating system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
