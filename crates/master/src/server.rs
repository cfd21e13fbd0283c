//! The master as a process part: sockets, journal and clock for the [rules](crate::Master). Serves every path. The one
//! task that runs here owns the rules, so there is no lock. It must never wait for anything but the next event.

mod metrics;
mod starting;

use std::{future::ready, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use daemon::{
    group_commit::{CommitError, GroupCommit},
    metrics::{MetricsPort, MetricsQuestion, Readings},
    ready as ready_line,
    settings::{Checked, MasterSettings},
    shutdown::{ShutdownToken, TaskGroup},
    topology::TopologyFile,
    worker::Workers,
};
use net::{
    NetError,
    clock::Clock,
    datagram::DatagramSocket,
    identity::{Credentials, TicketSigner, TlsIdentity, random},
    message_port,
    messenger::{Answer, Delivered, Messenger, MessengerEvent, SessionKeys, SessionRole, StatelessResetKey},
    transfer::{Listener, TcpCarrier},
};
use protocol::{
    Reason, Refusal, SessionId,
    gmp::Class,
    message::{
        audit::{AuditBatch, AuditHead, AuditReply, AuditRequest},
        client_master::{ClientReply, ClientRequest},
        master_security::{SecurityReply, SecurityRequest},
        node_master::{Ack, Order, Report},
        work::WorkKind,
    },
    wire::codec::{self, CodecError},
};
use store::{Journal, RowChange, StoreError, finish_file_replacement};
use tokio::{
    sync::mpsc,
    task::{JoinSet, spawn_blocking},
    time::{sleep_until, timeout},
};

use crate::{
    Master, MasterConfig, MasterError,
    access::certificate_renewal::CertificateRenewal,
    access::fair_queue::FairQueue,
    access::joins::{DriverQuestion, JoinAcceptor, Joiner, PendingSession},
    access::security_client::SecurityClient,
    access::session_recheck,
    access::sessions::Peer,
    actions::{BatchId, MasterAction, MasterCompletion, MasterMessage, OrderId, OrderOutcome, SessionCaller},
    fleet::topology_watch::TopologyWatch,
    replicas::order_group::OrderGroup,
};
use metrics::RequestCounts;
pub(crate) use starting::read_rows;
use starting::{load_rows, open_journal, serve_backups};

/// A master that has its port and its names, and serves once it [runs](Self::run).
pub struct MasterServer {
    listener: Listener,
    socket: Arc<dyn DatagramSocket>,
    clock: Clock,
    master: Master,
    journal: Arc<Journal>,
    folder: PathBuf,
    security: Arc<SecurityClient>,
    /// The background work beside the rules; it begins with [`run`](Self::run).
    background: TaskGroup,
    renewal: CertificateRenewal,
    reset_key: StatelessResetKey,
    topology: Option<TopologyFile>,
    metrics: Option<MetricsPort>,
}

/// Serves in a process of its own: prints the ready line and returns once it is stopped. An embedded cloud uses
/// [`MasterServer::bind`] and [`MasterServer::run`].
///
/// # Errors
/// See [`MasterServer::bind`] and [`MasterServer::run`].
pub async fn serve(settings: Checked<MasterSettings>, stopping: ShutdownToken) -> Result<(), MasterError> {
    let server = MasterServer::bind(&settings).await?;
    ready_line::announce(server.address())?;
    server.run(stopping).await
}

impl MasterServer {
    /// Loads the names and opens the port, TCP and UDP.
    ///
    /// # Errors
    /// When certificates, journal or topology cannot be used, or the port is in use.
    pub async fn bind(settings: &Checked<MasterSettings>) -> Result<Self, MasterError> {
        daemon::open_files::raise_limit();
        let files = settings.credential_files();
        // An interrupted renewal is finished first.
        let settled = finish_file_replacement(&[&files.key, &files.certificate]);
        settled.map_err(|source| MasterError::Folder {
            operation: "renew",
            path: files.certificate.display().to_string(),
            source,
        })?;
        let texts = files.read()?;
        let credentials = Credentials { certificate_pem: texts.certificate_pem, key_pem: texts.key_pem };
        let identity = TlsIdentity::role(&texts.authority_pem, &credentials).map_err(MasterError::Identity)?;
        let gone_key = StatelessResetKey::of_private_key(&credentials.key_pem);
        let clock = Clock::start();
        // Created at each start: nodes get the public half when they join, which they have to do anyway.
        let signer = TicketSigner::generate();
        let config = MasterConfig {
            copies: settings.copies,
            sync_copies: settings.sync_copies,
            node_lost_after: settings.node_lost_after(),
            replicate_after: settings.replicate_after(),
            rebuild_wait: settings.rebuild_wait(),
            reserve_bytes: settings.reserve_bytes,
            trash: settings.trash(),
            versions: settings.versions(),
            memory_lifetime: settings.memory_lifetime(),
            // Checked with all settings.
            everyone: settings.everyone().unwrap_or_default(),
            insecure_data: settings.insecure_data,
        };
        let metrics = MetricsPort::bind(settings.metrics_listen).await?;
        let (folder, topology) = (settings.folder.clone(), settings.topology.clone());
        let load = move || {
            // Before the journal: an operator with a wrong file should not wait for millions of names to learn of it.
            let mut file = topology.map(TopologyFile::new);
            let topology = file.as_mut().map(TopologyFile::read).transpose()?;
            let journal = open_journal(&folder)?;
            let rows = load_rows(&journal)?;
            let seed = u64::from_be_bytes(random());
            let mut master = Master::load(clock.now(), config, seed, Box::new(signer), rows)?;
            master.set_machine(net::clock::boot_id());
            if let (Some(file), Some(topology)) = (&file, topology) {
                master.set_topology(clock.now(), Some(file.path().display().to_string()), topology);
            }
            Ok::<_, MasterError>((journal, master, file))
        };
        let (journal, master, topology) = spawn_blocking(load).await.map_err(|_| MasterError::Ended("journal"))??;
        let (listener, socket) = message_port::listen(settings.listen, &identity)
            .await
            .map_err(|source| MasterError::Listen { address: settings.listen, source })?;
        let security = Arc::new(SecurityClient::new(TcpCarrier::new(identity.clone()), settings.security.clone()));
        let background = TaskGroup::new();
        let renewal = CertificateRenewal {
            name: settings.id.clone(),
            files,
            identity,
            stopping: background.token(),
            security: Arc::clone(&security),
        };
        let (journal, folder) = (Arc::new(journal), settings.folder.clone());
        Ok(Self {
            background,
            renewal,
            listener,
            socket,
            clock,
            master,
            journal,
            folder,
            security,
            reset_key: gone_key,
            topology,
            metrics,
        })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until it is stopped. Earlier changes are saved and answered.
    ///
    /// # Errors
    /// When the journal can no longer be written.
    pub async fn run(self, stopping: ShutdownToken) -> Result<(), MasterError> {
        tracing::info!(address = %self.address(), "the master is ready");
        let (messenger, mut events) = Messenger::start(self.socket, self.clock);
        messenger.enable_stateless_resets(self.reset_key.clone());
        let (admitted, mut admissions) = mpsc::channel(ADMISSIONS_MAX);
        let (questions, mut driver_questions) = mpsc::channel(ADMISSIONS_MAX);
        let (security, gone_key) = (Arc::clone(&self.security), self.reset_key);
        let gate = Arc::new(JoinAcceptor { security, reset_key: gone_key, admitted, driver_questions: questions });
        let keeping = tokio::spawn(gate.accept_joins(self.listener, stopping.clone()));
        let workers = Workers::new(&self.background);
        workers.start(WorkKind::CertificateRenewal, "", 0.0, self.renewal);
        let backups = tokio::spawn(serve_backups(self.folder, Arc::clone(&self.journal)));
        let (scraped, mut scrapers) = mpsc::channel(SCRAPERS_MAX);
        let scraping = self.metrics.map(|port| tokio::spawn(port.run(scraped)));
        let mut desk = ServerLoop {
            clock: self.clock,
            suspended_before: Clock::suspended(),
            master: self.master,
            messenger,
            waiting_requests: FairQueue::default(),
            journal: GroupCommit::new(move |rows: &[RowChange]| self.journal.commit(rows)),
            orders: JoinSet::new(),
            security: self.security,
            security_requests: JoinSet::new(),
            audit: JoinSet::new(),
            topology_watch: TopologyWatch::start(self.topology),
            workers,
            requests: RequestCounts::default(),
        };
        let outcome =
            desk.run_loop(&mut events, &mut admissions, &mut driver_questions, &mut scrapers, &stopping).await;
        // Ends the task that asks.
        drop(scrapers);
        if let Some(scraping) = scraping {
            let _ = scraping.await;
        }
        if let Err(error) = self.background.finish(BACKGROUND_PATIENCE).await {
            tracing::warn!(%error, "background work did not end in order");
        }
        backups.abort();
        // This releases its hold on the journal.
        let _ = backups.await;
        // Joiners that wait for admission are told at once that there is none.
        drop(admissions);
        drop(driver_questions);
        if keeping.await.is_err() {
            tracing::error!("the task that takes connections panicked");
        }
        match outcome {
            Ok(()) => desk.finish().await,
            Err(error) => Err(error),
        }
    }
}

/// The rules with the tasks that serve them.
struct ServerLoop {
    clock: Clock,
    /// How long the machine had been suspended when the master was started.
    suspended_before: Duration,
    master: Master,
    messenger: Messenger,
    journal: GroupCommit<BatchId, RowChange, StoreError>,
    /// Requests of clients that have arrived.
    waiting_requests: FairQueue<Delivered>,
    /// Outstanding orders; the rules limit them for each node.
    orders: JoinSet<(OrderId, OrderOutcome)>,
    security: Arc<SecurityClient>,
    /// Outstanding questions to the security server; the rules limit them.
    security_requests: JoinSet<(SessionCaller, Result<SecurityReply, Refusal>)>,
    /// Events being sent to the audit record: one batch at most.
    audit: JoinSet<Result<AuditHead, Refusal>>,
    topology_watch: TopologyWatch,
    /// The background work beside the rules.
    workers: Workers,
    requests: RequestCounts,
}

impl ServerLoop {
    async fn run_loop(
        &mut self,
        events: &mut mpsc::Receiver<MessengerEvent>,
        admissions: &mut mpsc::Receiver<PendingSession>,
        driver_questions: &mut mpsc::Receiver<DriverQuestion>,
        scrapers: &mut mpsc::Receiver<MetricsQuestion>,
        stopping: &ShutdownToken,
    ) -> Result<(), MasterError> {
        loop {
            self.perform();
            let due = self.clock.instant(self.master.next_timeout());
            tokio::select! {
                () = stopping.cancelled() => return Ok(()),
                saved = self.journal.saved() => self.note_saving(saved)?,
                event = events.recv(), if self.journal.waiting_rows() < WAITING_ROWS_MAX => {
                    self.take(event.ok_or(MasterError::Ended("messenger"))?);
                    // Everything that came meanwhile is taken too: its rows then share a sync, its answers a datagram.
                    // All of it is taken, so that users take turns among all waiting requests.
                    for _ in 1..EVENTS_TAKEN_MAX {
                        let Ok(event) = events.try_recv() else { break };
                        self.take(event);
                    }
                    self.serve();
                }
                () = ready(()), if !self.waiting_requests.is_empty() && self.journal.waiting_rows() < WAITING_ROWS_MAX => self.serve(),
                Some(admission) = admissions.recv() => self.open(admission),
                Some(DriverQuestion { job, key, answer }) = driver_questions.recv() => {
                    // The asker may have hung up.
                    let _ = answer.send(self.master.driver_session(job, key));
                }
                Some(scraper) = scrapers.recv() => {
                    // It may have hung up.
                    let _ = scraper.send(self.metrics());
                }
                Some(done) = self.orders.join_next() => {
                    // An order whose task panicked stays open until its node joins again.
                    if let Ok((order, outcome)) = done {
                        self.master.handle_completion(self.clock.now(), MasterCompletion::OrderFinished { order, outcome });
                    }
                }
                Some(answered) = self.security_requests.join_next() => {
                    // If its task panicked, it is never answered; the client asks again after its timeout.
                    if let Ok((to, reply)) = answered {
                        self.master.handle_completion(self.clock.now(), MasterCompletion::SecurityAnswered { to, reply });
                    }
                }
                Some(brought) = self.audit.join_next() => {
                    let ended = |_| Err(Refusal::new(Reason::Failed, "the task that brings audit events panicked"));
                    let brought = brought.unwrap_or_else(ended);
                    self.master.handle_completion(self.clock.now(), MasterCompletion::AuditSent(brought));
                }
                (to, topology) = self.topology_watch.read() => {
                    self.master.handle_completion(self.clock.now(), MasterCompletion::TopologyRead { to, topology });
                }
                () = sleep_until(due) => {
                    self.master.note_suspended(Clock::suspended().saturating_sub(self.suspended_before));
                    self.master.handle_timeout(self.clock.now());
                }
            }
        }
    }

    /// Saves and answers all changes, then tells the peers that it ends.
    async fn finish(mut self) -> Result<(), MasterError> {
        self.perform();
        let mut flushed = timeout(FINISH_MAX, self.flush()).await;
        if matches!(flushed, Ok(Ok(()))) {
            // A node that is slow, or also stops, gets the last half second's rows the next time.
            let _ = timeout(MIRROR_FLUSH_MAX, self.flush_mirrors()).await;
            flushed = timeout(FINISH_MAX, self.flush()).await;
        }
        self.orders.shutdown().await;
        self.security_requests.shutdown().await;
        self.audit.shutdown().await;
        self.messenger.close().await;
        flushed.unwrap_or_else(|_| {
            tracing::error!("the journal was not written in time; what was not yet answered may be lost");
            Ok(())
        })
    }

    /// Writes and answers all changes.
    async fn flush(&mut self) -> Result<(), MasterError> {
        while !self.journal.is_idle() {
            let saved = self.journal.saved().await?;
            self.note_saved(saved);
            self.perform();
        }
        Ok(())
    }

    /// Sends nodes the small rows they lack, and waits for their answers.
    async fn flush_mirrors(&mut self) {
        while self.master.flush_mirror_updates(self.clock.now()) {
            self.perform();
            match self.orders.join_next().await {
                Some(Ok((order, outcome))) => {
                    self.master.handle_completion(self.clock.now(), MasterCompletion::OrderFinished { order, outcome });
                    self.perform();
                }
                Some(Err(_)) => {}
                None => return,
            }
        }
    }

    /// A full disk does not end the master: the rows wait until there is room.
    fn note_saving(&mut self, saved: Result<BatchId, CommitError<StoreError>>) -> Result<(), MasterError> {
        match saved {
            Ok(batch) => self.note_saved(batch),
            Err(CommitError::Refused(error)) if error.is_full() => {
                tracing::error!(%error, "the journal waits for room on its disk");
                self.master.note_journal_full();
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn note_saved(&mut self, batch: BatchId) {
        self.master.handle_completion(self.clock.now(), MasterCompletion::Saved { batch });
    }

    /// Opens the session of an admitted peer. Its keys are in place before the joiner hears of it, so that its first
    /// message is understood.
    fn open(&mut self, admission: PendingSession) {
        let PendingSession { session, key, who, opened } = admission;
        let now = self.clock.now();
        let is_open = match who {
            Joiner::Client(client) => {
                self.master.open_client_session(now, session, client);
                Ok(())
            }
            Joiner::Node(join) => self.master.open_node_session(now, session, join),
        };
        if is_open.is_ok() {
            self.messenger.add_session(SessionKeys { session, key, role: SessionRole::Responder, peer: None });
        }
        // The joiner may have hung up; its session then ends by itself.
        let _ = opened.send(is_open.map(|()| self.master.ticket_keys()));
    }

    /// Serves some of the waiting requests.
    fn serve(&mut self) {
        for _ in 0..EVENTS_AT_ONCE_MAX {
            let Some(delivered) = self.waiting_requests.pop() else { break };
            self.deliver(delivered);
        }
    }

    /// Queues a client's request for its turn; passes everything else to the rules.
    fn take_message(&mut self, delivered: Delivered) {
        let Some(Peer::Client(rights)) = self.master.peer(delivered.session) else { return self.deliver(delivered) };
        let user = rights.user.clone();
        let bytes = delivered.body.len() as u64;
        if let Err(Delivered { session, request, .. }) = self.waiting_requests.push(&user, delivered, bytes) {
            let sentence =
                format!("{} requests of {user} wait for the master", self.waiting_requests.waiting_of(&user));
            let too_much = ClientReply::Refused(Refusal::throttled(sentence, REQUEST_RETRY_SECONDS));
            self.answer(SessionCaller { session, request }, Class::Ordinary, codec::encode(&too_much));
        }
    }

    fn take(&mut self, event: MessengerEvent) {
        match event {
            MessengerEvent::Delivered(delivered) => self.take_message(delivered),
            MessengerEvent::SessionLost(session) => self.master.close_session(self.clock.now(), session),
        }
    }

    /// Passes a message to the rules; one that cannot be understood is answered so.
    fn deliver(&mut self, delivered: Delivered) {
        let from = SessionCaller { session: delivered.session, request: delivered.request };
        let message = match self.master.peer(from.session) {
            Some(Peer::Client(_)) => codec::decode::<ClientRequest>(&delivered.body).map(MasterMessage::Client),
            Some(Peer::Node(_)) => codec::decode::<Report>(&delivered.body).map(MasterMessage::Node),
            None => return self.messenger.remove_session(from.session),
        };
        match message {
            Ok(message) => {
                let name = match &message {
                    MasterMessage::Client(request) => request.properties().name,
                    MasterMessage::Node(_) => "report",
                };
                if matches!(message, MasterMessage::Client(_)) {
                    self.requests.begin(from, name);
                }
                let _entered = tracing::debug_span!("request", session = %from.session, name).entered();
                self.master.handle_message(self.clock.now(), from, message);
            }
            Err(error) => self.refuse(from, error),
        }
    }

    fn refuse(&self, from: SessionCaller, error: CodecError) {
        tracing::warn!(session = %from.session, %error, "a message was not understood");
        let sentence = format!("the master does not understand this request: {error}; use the same version as it");
        let refusal = Refusal::new(Reason::Invalid, sentence);
        match self.master.peer(from.session) {
            Some(Peer::Client(_)) => self.answer(from, Class::Ordinary, codec::encode(&ClientReply::Refused(refusal))),
            Some(Peer::Node(_)) => self.answer(from, Class::Urgent, codec::encode(&Ack::Refused(refusal))),
            None => {}
        }
    }

    /// Performs all actions of the rules.
    fn perform(&mut self) {
        let mut orders = Vec::new();
        while let Some(action) = self.master.poll_action() {
            match action {
                MasterAction::Save { batch, changes } => self.journal.push(batch, changes),
                MasterAction::Reply { to, reply } => {
                    self.requests.finish(to, &reply);
                    self.answer(to, class_of(&reply), codec::encode(&reply));
                }
                MasterAction::Ack { to, ack } => self.answer(to, Class::Urgent, codec::encode(&ack)),
                MasterAction::Order { session, order, body } => {
                    OrderGroup::add(&mut orders, session, order, body);
                }
                MasterAction::CloseSession(session) => {
                    self.requests.forget(session);
                    self.messenger.remove_session(session);
                }
                MasterAction::AskSecurity { to, request } => {
                    let security = Arc::clone(&self.security);
                    drop(self.security_requests.spawn(async move {
                        let asked = match session_recheck::is_master_call(to) {
                            true => security.ask_for_master(&request).await,
                            false => security.ask(&request).await,
                        };
                        (to, asked)
                    }));
                }
                MasterAction::SendAudit(batch) => {
                    let security = Arc::clone(&self.security);
                    drop(self.audit.spawn(async move { send_audit_batch(&security, batch).await }));
                }
                MasterAction::ReadTopology { to } => self.topology_watch.ask(to),
                MasterAction::ReadWork { to, after } => {
                    let now = self.clock.now();
                    let own = self.workers.rows(now.unix_millis);
                    self.master.handle_completion(now, MasterCompletion::WorkRead { to, after, own });
                }
                MasterAction::ReadMetrics { to } => {
                    let text = self.metrics();
                    self.master.handle_completion(self.clock.now(), MasterCompletion::MetricsRead { to, text });
                }
            }
        }
        orders.into_iter().for_each(|group| self.send_orders(group));
        self.journal.begin();
    }

    /// Sends orders to the nodes: the same order to many is encoded once and sent as one.
    fn send_orders(&mut self, group: OrderGroup) {
        let OrderGroup { body, to } = group;
        // Mirror rows are many, and wait behind orders that someone waits for.
        let class = if matches!(body, Order::Mirror(_)) { Class::Ordinary } else { Class::Urgent };
        let sessions: Vec<_> = to.iter().map(|(session, _)| *session).collect();
        let asked = self.messenger.request_each(class, &sessions, codec::encode(&body));
        for ((_, order), (session, answer)) in to.into_iter().zip(asked) {
            self.orders.spawn(async move { (order, ordered(session, answer).await) });
        }
    }

    /// All that the master counts, as text.
    fn metrics(&self) -> String {
        let mut readings = Readings::default();
        self.requests.read(&mut readings);
        metrics::read_master(&self.master, &mut readings);
        self.journal.read(&mut readings);
        let now = self.clock.now();
        let mut work = self.workers.rows(now.unix_millis);
        work.extend(self.master.own_work(now));
        readings.set_work(&work);
        metrics::read_messenger(&self.messenger, &mut readings);
        readings.encode()
    }

    fn answer(&self, to: SessionCaller, class: Class, body: Vec<u8>) {
        if let Some(request) = to.request {
            self.messenger.reply_as(class, to.session, request, body);
        }
    }
}

/// Priority of an answer among others to the same client: a renewal never waits behind a page.
fn class_of(reply: &ClientReply) -> Class {
    use ClientReply::{
        Admitted, Copies, Done, Events, Jobs, LinkSeries, Links, Load, LoadSeries, Metrics, Nodes, Page, Quotas, Trash,
        Work,
    };
    match reply {
        Done | Admitted(_) => Class::Urgent,
        Page(_) | Nodes(_) | Jobs(_) | Trash(_) | Quotas(_) | Copies(_) | Work(_) | Metrics(_) | Load(_)
        | LoadSeries(_) | Links(_) | LinkSeries(_) | Events(_) => Class::Bulk,
        _ => Class::Ordinary,
    }
}

/// Waits for the answer to an order.
async fn ordered(session: SessionId, answer: Result<Answer, NetError>) -> OrderOutcome {
    let reply = match answer {
        Ok(answer) => answer.within(ORDER_MAX).await,
        Err(error) => Err(error),
    };
    match reply {
        Ok(bytes) => codec::decode(&bytes).map_or(OrderOutcome::Unanswered, OrderOutcome::Answered),
        Err(error) => {
            tracing::debug!(%session, %error, "an order was not answered");
            OrderOutcome::Unanswered
        }
    }
}

/// Sends events to the audit record.
async fn send_audit_batch(security: &SecurityClient, batch: AuditBatch) -> Result<AuditHead, Refusal> {
    match security.ask_for_master(&SecurityRequest::Audit(AuditRequest::Record(batch))).await? {
        SecurityReply::Audit(AuditReply::Recorded(head)) => Ok(head),
        SecurityReply::Refused(refusal) => Err(refusal),
        _ => Err(Refusal::new(Reason::Failed, "the security server answered audit events with something else")),
    }
}

/// The journal's file in the master's folder.
pub const JOURNAL_FILE: &str = "journal.redb";
/// Waiting rows beyond which clients are no longer served: about 4 MiB. One batch may exceed it, such as the removal of
/// a large folder.
const WAITING_ROWS_MAX: usize = 16_384;
/// Events that are taken before some are served: as many as can wait at most.
const EVENTS_TAKEN_MAX: usize = 1_024;
/// Requests served at once, before saved rows, admissions and timers are checked again: some 100 µs.
const EVENTS_AT_ONCE_MAX: usize = 64;
/// Some thousands of waiting requests are served within this time, in seconds.
const REQUEST_RETRY_SECONDS: u32 = 1;
/// Admissions that wait for the server loop: no more than joins run at once.
const ADMISSIONS_MAX: usize = 128;
/// Scrapers that wait for the server loop.
const SCRAPERS_MAX: usize = 4;
/// How long a node may take to answer an order. The longest is placing a slice on a busy disk. Longer work (copying) is
/// answered at once and reported when it is done.
const ORDER_MAX: Duration = Duration::from_secs(20);
/// How long background work may take to end its step when the master is stopped.
const BACKGROUND_PATIENCE: Duration = Duration::from_secs(2);
/// How long the last rows may take when the master is stopped.
const FINISH_MAX: Duration = Duration::from_secs(5);
/// How long nodes may take to receive missing small rows when the master is stopped.
const MIRROR_FLUSH_MAX: Duration = Duration::from_secs(1);
