//! The security server as part of a process: sockets, clock and processor time for the [rules](crate::rules). It serves
//! door 3: on a master's connection, one request and one reply at a time, over mutual TLS (Sector/Sphere paper, 2.3).
//! It answers masters and the holder of the security server's own key. It must never answer anyone else, except a
//! newcomer with a ticket for a master, once.

pub(crate) mod audit_writer;
pub(crate) mod server_loop;
pub(crate) mod signer;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use daemon::{
    metrics::{MetricsPort, MetricsQuestion},
    ready,
    settings::{Checked, CredentialFiles, SecuritySettings},
    shutdown::ShutdownToken,
};
use net::{
    backup_socket::BackupSocket,
    clock::Clock,
    identity::{Authority, Credentials, TlsIdentity},
    transfer::{Incoming, Listener, TransferStream},
    unauthenticated::UnauthenticatedLimits,
};
use protocol::{
    limits,
    message::master_security::{SecurityReply, SecurityRequest},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use store::{Journal, finish_file_replacement};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::{self, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    SecurityError,
    accounts::{self, Accounts, access_key_secrets::AccessKeySecrets},
    audit::{AUDIT_FOLDER, AuditLog},
    provider::{ProviderMapping, Providers},
    rules::{Connection, Security},
    server::{
        server_loop::{ServerEvent, ServerLoop},
        signer::{CertificateRenewal, Signer},
    },
    setup::{ACCOUNTS_FILE, AuthorityState, open_authority},
};

/// A security server that has its port and its accounts, and serves once it [runs](Self::run).
///
/// See the paper, 2.3: "both SSL connections require the use of public certificates for verification".
pub struct SecurityServer {
    listener: Listener,
    identity: TlsIdentity,
    files: CredentialFiles,
    signer: Arc<Signer>,
    security: Security,
    providers: Providers,
    journal: Arc<Journal>,
    folder: PathBuf,
    record: AuditLog,
    metrics: Option<MetricsPort>,
}

/// Serves in a process of its own: prints the ready line and returns when it was stopped. An embedded cloud, whose
/// standard output is not the server's, uses [`SecurityServer::bind`] and [`SecurityServer::run`].
pub async fn serve(settings: Checked<SecuritySettings>, stopping: ShutdownToken) -> Result<(), SecurityError> {
    let server = SecurityServer::bind(&settings).await?;
    ready::announce(server.address())?;
    server.run(stopping).await
}

impl SecurityServer {
    /// Reads the accounts and opens the port.
    pub async fn bind(settings: &Checked<SecuritySettings>) -> Result<Self, SecurityError> {
        daemon::open_files::raise_limit();
        let files = settings.credential_files();
        // An interrupted renewal is finished first.
        finish_file_replacement(&[&files.key, &files.certificate]).map_err(|source| SecurityError::File {
            operation: "renew",
            file: files.certificate.clone(),
            source,
        })?;
        let texts = files.read()?;
        let credentials = Credentials { certificate_pem: texts.certificate_pem, key_pem: texts.key_pem };
        let identity = TlsIdentity::role(&texts.authority_pem, &credentials)?;
        let folder = settings.folder.clone();
        let known = (**settings).clone();
        let opened =
            task::spawn_blocking(move || open(&folder).and_then(|opened| Ok((opened, Providers::open(&known)?)))).await;
        let ((journal, authority, security, record), providers) =
            opened.map_err(|_| SecurityError::Panicked("read its accounts"))??;
        let listener = Listener::bind(settings.listen, identity.clone()).await?.with_limits(UNAUTHENTICATED_LIMITS);
        let security = security.with_providers(ProviderMapping::new(settings));
        let signer = Arc::new(Signer { authority, life: settings.certificate_life() });
        let (journal, folder) = (Arc::new(journal), settings.folder.clone());
        let metrics = MetricsPort::bind(settings.metrics_listen).await?;
        Ok(Self { listener, identity, files, signer, security, providers, journal, folder, record, metrics })
    }

    /// The address where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until it is stopped. Requests under way are still answered.
    ///
    /// # Errors
    /// When the accounts can no longer be written.
    pub async fn run(self, stopping: ShutdownToken) -> Result<(), SecurityError> {
        let Self { listener, identity, files, signer, security, providers, journal, folder, record, metrics } = self;
        tracing::info!(address = %listener.address(), "the security server is ready");
        let (asks, asked) = mpsc::channel(MASTER_CONNECTIONS_MAX);
        let backups = tokio::spawn(serve_backups(folder, Arc::clone(&journal)));
        let keeper = ServerLoop::new(security, journal, providers, record, Arc::clone(&signer));
        let mut keeper = tokio::spawn(keeper.run(asked));
        let renewal = tokio::spawn(CertificateRenewal { signer, files, identity, events: asks.clone() }.run());
        let scraping = tokio::spawn(serve_metrics(metrics, asks.clone()));
        let door =
            Arc::new(ConnectionHandler { permits: Semaphore::new(MASTER_CONNECTIONS_MAX), events: asks, stopping });
        let mut connections = JoinSet::new();
        let mut ended = None;
        while ended.is_none() {
            tokio::select! {
                // Only when it cannot write its accounts: then no request can be answered any more.
                kept = &mut keeper => ended = Some(kept),
                // Taken at once, and counted as a stranger until it has shown a master's certificate.
                incoming = door.stopping.run_until_cancelled(listener.accept()) => match incoming {
                    Some(Ok(incoming)) => {
                        while connections.try_join_next().is_some() {}
                        connections.spawn(Arc::clone(&door).serve(incoming));
                    }
                    Some(Err(error)) => {
                        // Most likely out of descriptors. Accepting again at once would only waste a processor.
                        tracing::warn!(%error, "cannot take a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                    None => break,
                },
            }
        }
        drop(listener);
        backups.abort();
        renewal.abort();
        scraping.abort();
        // This also releases its hold on the accounts.
        let _ = backups.await;
        // Both have a sender of questions, and the keeper ends with the last one.
        let _ = renewal.await;
        let _ = scraping.await;
        let in_order = timeout(STOP_MAX, async { while connections.join_next().await.is_some() {} }).await;
        if in_order.is_err() {
            tracing::warn!(connections = connections.len(), "some connections did not end in time and were cut off");
            connections.shutdown().await;
        }
        // The last sender of questions is dropped with it, and so the keeper ends.
        drop(door);
        let kept = match ended {
            Some(kept) => kept,
            None => keeper.await,
        };
        kept.map_err(|_| SecurityError::Panicked("kept its accounts"))?
    }
}

/// Brings the questions of scrapers to the keeper.
async fn serve_metrics(port: Option<MetricsPort>, asks: mpsc::Sender<ServerEvent>) {
    let Some(port) = port else { return };
    let (sender, mut questions) = mpsc::channel::<MetricsQuestion>(1);
    let passing = async {
        while let Some(question) = questions.recv().await {
            if asks.send(ServerEvent::Metrics(question)).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(port.run(sender), passing);
}

/// Gives a consistent set of rows to a backup, while the keeper goes on.
async fn serve_backups(folder: PathBuf, journal: Arc<Journal>) {
    match BackupSocket::open(&folder) {
        Ok(door) => {
            door.serve(Arc::new(move |out| journal.export(out).map(drop).map_err(io::Error::other))).await;
        }
        Err(error) => tracing::warn!(%error, "backups can be taken only while this security server is stopped"),
    }
}

/// Opens the accounts; blocks.
fn open(folder: &Path) -> Result<(Journal, Authority, Security, AuditLog), SecurityError> {
    let journal = Journal::open(&folder.join(ACCOUNTS_FILE))?;
    let accounts = Accounts::load(&journal)?;
    let authority = match open_authority(folder)? {
        AuthorityState::Whole(authority) => *authority,
        AuthorityState::Missing(file) => return Err(SecurityError::AuthorityLost { file }),
    };
    if accounts.machines().masters().next().is_none() {
        tracing::warn!("there is no master yet; make a ticket for one with `sector security ticket master`");
    }
    let now = Clock::start().now().unix_millis;
    let record = AuditLog::open(&folder.join(AUDIT_FOLDER), accounts::audit_head(&journal)?, now)?;
    let security = Security::new(accounts)?.with_access_keys(access_key_secrets(&authority)?).with_audit();
    Ok((journal, authority, security, record))
}

/// Made of the bytes of the authority's private key, however its file is laid out.
fn access_key_secrets(authority: &Authority) -> Result<AccessKeySecrets, SecurityError> {
    let key = PrivateKeyDer::from_pem_slice(authority.key_pem().as_bytes());
    let key = key.map_err(|_| SecurityError::Panicked("read the authority's key"))?;
    Ok(AccessKeySecrets::new(key.secret_der()))
}

/// What every connection needs.
struct ConnectionHandler {
    /// Places for connections of masters.
    permits: Semaphore,
    events: mpsc::Sender<ServerEvent>,
    stopping: ShutdownToken,
}

impl ConnectionHandler {
    async fn serve(self: Arc<Self>, incoming: Incoming) {
        let peer = incoming.peer();
        // The handshake has a deadline of its own, so that a silent peer holds its place for seconds only.
        let mut stream = match self.stopping.run_until_cancelled(incoming.handshake()).await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return tracing::warn!(%peer, %error, "a connection was refused"),
            None => return,
        };
        let conversation = if self.is_server(stream.peer_fingerprint()).await {
            let Ok(_place) = self.permits.try_acquire() else {
                tracing::warn!(%peer, "a connection was refused: the masters have {MASTER_CONNECTIONS_MAX} already");
                return stream.close().await;
            };
            stream.admit();
            self.converse(stream).await
        } else {
            let Some(place) = stream.slot() else { return };
            match place.run_bounded(self.serve_unauthenticated(stream)).await {
                Ok(conversation) => conversation,
                Err(over) => Err(net::NetError::Unauthenticated { peer, over }),
            }
        };
        match conversation {
            // A master that stops, or is restarted, closes without notice.
            Ok(()) | Err(net::NetError::Closed { .. }) => tracing::debug!(%peer, "a caller has gone"),
            Err(error) => tracing::warn!(%peer, %error, "a connection broke"),
        }
    }

    /// Whether the other end showed a certificate that allows more than a stranger may ask.
    async fn is_server(&self, fingerprint: Option<[u8; 32]>) -> bool {
        let Some(fingerprint) = fingerprint else { return false };
        let (reply, replied) = oneshot::channel();
        self.events.send(ServerEvent::IsServer { fingerprint, reply }).await.is_ok() && replied.await.unwrap_or(false)
    }

    async fn converse(&self, mut stream: TransferStream) -> Result<(), net::NetError> {
        loop {
            let received = timeout(IDLE_MAX, stream.receive_or_end::<SecurityRequest>());
            // Stopped, or idle for too long: both end the connection between two requests.
            let Some(Ok(request)) = self.stopping.run_until_cancelled(received).await else { break };
            let Some(request) = request? else { break };
            let Some(reply) = self.ask(stream.peer_fingerprint(), request).await else { break };
            stream.send(&reply).await?;
        }
        stream.close().await;
        Ok(())
    }

    /// One short question, and an answer if strangers get one, all within a stranger's time limit.
    async fn serve_unauthenticated(&self, mut stream: TransferStream) -> Result<(), net::NetError> {
        let received = stream.receive_at_most::<SecurityRequest>(limits::JOIN_BYTES_MAX);
        let Some(request) = self.stopping.run_until_cancelled(received).await else { return Ok(()) };
        match self.ask(stream.peer_fingerprint(), request?).await {
            Some(reply) => stream.send(&reply).await?,
            None => tracing::warn!(peer = %stream.peer(), "hung up on one whose certificate is not that of a master"),
        }
        stream.close().await;
        Ok(())
    }

    /// The answer; `None` if the caller may not ask this, or the keeper is gone.
    async fn ask(&self, fingerprint: Option<[u8; 32]>, request: SecurityRequest) -> Option<SecurityReply> {
        let connection = Connection::new(fingerprint);
        let (reply, replied) = oneshot::channel();
        self.events.send(ServerEvent::Question { connection, request, reply }).await.ok()?;
        replied.await.ok()
    }
}

/// Connections of masters at once: a few masters with a few connections each.
const MASTER_CONNECTIONS_MAX: usize = 16;
/// Connections at once of callers that have not shown a master's certificate. One that joins asks a single question.
/// One address may have as many as a starting master may open, plus a few for newcomers.
const UNAUTHENTICATED_LIMITS: UnauthenticatedLimits = UnauthenticatedLimits { total: 64, per_address: 16 };
/// After this long without a request a connection is closed, since its master may be gone; a live one connects again.
const IDLE_MAX: Duration = Duration::from_secs(3_600);
/// How long requests under way may take once a stop was asked for.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Pause after the operating system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
