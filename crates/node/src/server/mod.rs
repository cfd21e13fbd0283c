//! The node as part of a process: the only code that knows both the [rules](crate::rules::Node) and the node context.
//! One task owns the rules. It never waits for anything but the next event, so nothing that waits for it is delayed.

mod actions;
mod metrics;

use std::{net::SocketAddr, path::PathBuf, process, sync::Arc, time::Duration};

use daemon::{
    metrics::{MetricsPort, MetricsQuestion},
    ready,
    settings::{Checked, NodeSettings},
    shutdown::{ShutdownToken, TaskGroup},
    worker::Workers,
};
use net::{
    clock::Clock,
    datagram::{DatagramSocket, bind_udp_towards},
    identity::{Credentials, TlsIdentity},
    local::LocalListener,
    messenger::{Messenger, MessengerEvent},
    transfer::{CarrierSettings, Carriers, Listener, MemoryRateCache, QuicSettings, TcpCarrier},
};
use protocol::{
    SessionId,
    message::{join::JoinRequest, work::WorkKind},
};
use spe::{Sandbox, SpeProgram};
use store::{Disk, OsDisk, finish_file_replacement};
use tokio::{
    sync::{Semaphore, mpsc},
    task::{JoinHandle, JoinSet},
    time::sleep_until,
};

use crate::{
    NodeError, blocking,
    bucket::BucketStore,
    disks::{
        self, DiskWatch, import::ImportFolders, memory_folder::remove_folder, scrub, scrub_statuses::ScrubStatuses,
        storage::Storage, upload_locks::UploadLocks,
    },
    load::{
        self, LoadSamples,
        evidence::Evidence,
        links::{LinkSamples, sample_links},
    },
    metadata_mirror::MetadataMirror,
    node_context::{
        NodeContext,
        event::{Event, EventSender},
        gauge::Gauge,
    },
    rules::{Node, NodeLimits},
    session::{
        certificate_renewal::CertificateRenewal,
        join::{JoinClient, JoinedSession},
        master_location::MasterLocation,
    },
    task::{
        driver_process::DriverProgram,
        environments::Environments,
        fair_scheduler::{FairScheduler, FairSharing},
        sandbox_check::{check_sandbox, sandbox_settings},
        spes::Spes,
    },
    tickets::TicketAuthorizer,
    transfer::{
        connection_pool::ConnectionPool,
        peers::Peers,
        pull::{address_policy::AddressPolicy, foreign_cloud_policy::ForeignCloudPolicy},
        site_limiters::SiteLimiters,
        transfer_limits::TransferLimits,
    },
    transfer_server,
};

/// A node that has its port and its slices, and serves once it [runs](Self::run).
pub struct NodeServer {
    listener: Listener,
    local: Option<LocalListener>,
    socket: Arc<dyn DatagramSocket>,
    clock: Clock,
    carrier: TcpCarrier,
    /// The background work; it begins with [`run`](Self::run).
    background: TaskGroup,
    renewal: CertificateRenewal,
    settings: Checked<NodeSettings>,
    context: Arc<NodeContext>,
    events: mpsc::Receiver<Event>,
    memory: Option<PathBuf>,
    metrics: Option<MetricsPort>,
}

/// Serves in a process of its own: prints the ready line and returns when it was stopped. An embedded cloud uses
/// [`NodeServer::bind`] and [`NodeServer::run`].
///
/// # Errors
/// See [`NodeServer::bind`] and [`NodeServer::run`].
pub async fn serve(settings: Checked<NodeSettings>, spe: SpeProgram, stopping: ShutdownToken) -> Result<(), NodeError> {
    let server = NodeServer::bind(&settings, spe).await?;
    ready::announce(server.address())?;
    server.run(stopping).await
}

impl NodeServer {
    /// Opens the data folders and the transfer port. SPEs are started from `spe`.
    ///
    /// # Errors
    /// When the credentials cannot be used, the data folder is another process's or the port is in use.
    pub async fn bind(settings: &Checked<NodeSettings>, spe: SpeProgram) -> Result<Self, NodeError> {
        daemon::open_files::raise_limit();
        let files = settings.credential_files();
        // An interrupted renewal is finished first.
        finish_file_replacement(&[&files.key, &files.certificate])
            .map_err(NodeError::io("renew the certificate", &files.certificate))?;
        let texts = files.read()?;
        let credentials = Credentials { certificate_pem: texts.certificate_pem, key_pem: texts.key_pem };
        let identity = TlsIdentity::role(&texts.authority_pem, &credentials)?;
        let (own_settings, disk): (_, Arc<dyn Disk>) = (settings.clone(), Arc::new(OsDisk));
        let (store, memory) = blocking("opening the data folders", move || disks::open(&own_settings, &disk)).await?;
        let folder = settings.folder.clone();
        let kept = blocking("opening the kept rows", move || MetadataMirror::open(&folder)).await?;
        // One cache for outgoing and incoming connections: a get starts at the rate that the last one found.
        let rates = Arc::new(MemoryRateCache::default());
        let quic = QuicSettings { controller: settings.controller, rate_cache: Some(rates), ..QuicSettings::default() };
        let listener = Listener::bind_both(settings.listen, identity.clone(), quic.clone()).await?;
        let carriers = CarrierSettings { choice: settings.carrier, quic, cached_peers: Vec::new() };
        let carriers = Carriers::with_listener(&listener, identity.clone(), carriers);
        let local = LocalListener::bind()
            .inspect_err(|error| tracing::warn!(%error, "clients of this machine will read over the network"))
            .ok();
        let socket = bind_udp_towards(&settings.master).await?;
        let master = Arc::new(MasterLocation::new(settings.master.clone()));
        let clock = Clock::start();
        let (sender, events) = EventSender::channel();
        let spe_slots = settings.spe_slots as usize;
        let site = settings.place().site;
        let (place, most) = (settings.folder.join(ENVIRONMENTS_FOLDER), settings.spe_environments_bytes);
        let opened = move || Ok(Arc::new(Environments::open(place, most)));
        let environments = blocking("opening the Python environments", opened).await?;
        let context = NodeContext {
            node: settings.id.clone(),
            tickets: TicketAuthorizer::new(settings.id.clone(), site.clone(), clock),
            storage: Storage {
                buckets: Arc::new(BucketStore::new(Arc::clone(&store))),
                slices: store,
                scrub_statuses: ScrubStatuses::default(),
                mirror: Arc::new(kept),
                import: Arc::new(ImportFolders::new(
                    &settings.folder,
                    settings.import_folders.as_deref().unwrap_or_default(),
                )),
                upload_locks: UploadLocks::default(),
                events: sender.clone(),
            },
            peers: Peers {
                site,
                connections: ConnectionPool::new(carriers),
                foreign_clouds: ForeignCloudPolicy {
                    from: settings.third_party_from,
                    addresses: AddressPolicy::of(settings.advertised(listener.address())),
                    carrier: settings.carrier,
                    controller: settings.controller,
                },
                site_limiters: SiteLimiters::default(),
            },
            limits: TransferLimits::new(settings.transfers_max as usize),
            spes: Spes {
                drivers: DriverProgram {
                    executable: spe.executable.clone(),
                    master: Arc::clone(&master),
                    authority: texts.authority_pem,
                },
                program: spe,
                sandbox: Arc::new(Sandbox::new(&sandbox_settings(settings))),
                slots: FairScheduler::new(clock, settings.spe_slots, FairSharing::from(&**settings)),
                running: Gauge::default(),
                environments,
                processes: Arc::new(Semaphore::new(spe_slots * SPES_PER_SLOT_MAX)),
            },
            load: LoadSamples::default(),
            // Tells runs apart: none begins in the same millisecond as the one before.
            links: LinkSamples::new(clock.now().unix_millis),
            evidence: Evidence::default(),
            events: sender,
        };
        let background = TaskGroup::new();
        let renewal = CertificateRenewal {
            name: settings.id.clone(),
            files,
            identity: identity.clone(),
            stopping: background.token(),
            master: settings.master.clone(),
        };
        let metrics = MetricsPort::bind(settings.metrics_listen).await?;
        let (carrier, settings) = (TcpCarrier::new(identity), settings.clone());
        Ok(Self {
            background,
            renewal,
            listener,
            local,
            socket,
            clock,
            carrier,
            settings,
            context: Arc::new(context),
            events,
            memory,
            metrics,
        })
    }

    /// Where its transfer port listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until it is stopped. Transfers under way then have a few seconds to end; cutting one off leaves nothing
    /// half done.
    ///
    /// # Errors
    /// When one of its tasks ends because of a bug.
    pub async fn run(self, stopping: ShutdownToken) -> Result<(), NodeError> {
        let Self {
            listener,
            local,
            socket,
            clock,
            carrier,
            background,
            renewal,
            settings,
            context,
            events,
            memory,
            metrics,
        } = self;
        let address = settings.advertised(listener.address());
        tracing::info!(node = %settings.id, %address, slices = context.storage.slices.held().len(), "the node is ready");
        let (messenger, messages) = Messenger::start(socket, clock);
        let request = JoinRequest::Node {
            local: local.as_ref().map(|local| local.name().to_owned()),
            node: settings.id.clone(),
            place: settings.place(),
            transfer: address,
            spe_slots: settings.spe_slots,
            pid: process::id(),
            folder: settings.folder.display().to_string(),
        };
        let master = Arc::clone(&context.spes.drivers.master);
        let link = Arc::new(JoinClient { carrier, master, request, messenger: messenger.clone() });
        let connections_max = settings.transfers_max as usize * CONNECTIONS_PER_TRANSFER;
        let mut door = tokio::spawn(transfer_server::serve(
            Arc::clone(&context),
            listener,
            local,
            connections_max,
            stopping.clone(),
        ));
        let looking = tokio::spawn(check_sandbox(Arc::clone(&context)));
        background.spawn("the load", load::sample(Arc::clone(&context), settings.data_folders(), background.token()));
        background.spawn("the links", sample_links(Arc::clone(&context), background.token()));
        let (scraped, scrapers) = mpsc::channel(SCRAPERS_MAX);
        let scraping = metrics.map(|port| tokio::spawn(port.run(scraped)));
        let workers = Workers::new(&background);
        workers.start(WorkKind::CertificateRenewal, "", 0.0, renewal);
        workers.start(WorkKind::DiskWatch, "", 0.0, DiskWatch::new(Arc::clone(&context)));
        if let Some(period) = settings.scrub_period() {
            scrub::start(&workers, &context, clock, period);
        }
        let limits = NodeLimits { status_interval: settings.status_interval(), copies_max: COPIES_MAX };
        let mut desk = ServerLoop {
            clock,
            node: Node::new(limits),
            context,
            messenger,
            link,
            joining: None,
            work: JoinSet::new(),
            workers,
            status_out: Gauge::default(),
            work_due: Duration::ZERO,
            arriving_due: Duration::ZERO,
        };
        let broken = |_| NodeError::Panicked { operation: "serving the transfer port" };
        let outcome = tokio::select! {
            // Both end when they are asked to; one that ends earlier must not leave half a node behind.
            outcome = desk.serve(messages, events, scrapers, &stopping) => match outcome {
                Ok(()) => door.await.map_err(broken),
                Err(error) => {
                    door.abort();
                    Err(error)
                }
            },
            ended = &mut door => ended.map_err(broken),
        };
        // Nobody takes its questions any more, so it ends.
        if let Some(scraping) = scraping {
            let _ = scraping.await;
        }
        // It uses the data folders.
        looking.abort();
        let _ = looking.await;
        if let Err(error) = background.finish(BACKGROUND_PATIENCE).await {
            tracing::warn!(%error, "background work did not end in order");
        }
        desk.finish().await;
        if let (Ok(()), Some(memory)) = (&outcome, memory) {
            blocking("removing what was kept in memory", move || {
                remove_folder(&memory);
                Ok(())
            })
            .await?;
        }
        outcome
    }
}

/// The rules with the context that carries out their actions.
struct ServerLoop {
    clock: Clock,
    node: Node,
    context: Arc<NodeContext>,
    messenger: Messenger,
    link: Arc<JoinClient>,
    /// The task that asks the master for a session; there is either this task or a session.
    joining: Option<JoinHandle<JoinedSession>>,
    /// The tasks that actions have started: no more than the rules allow at once.
    work: JoinSet<()>,
    /// The background work, which the master is told of.
    workers: Workers,
    /// When the next status also reports that, on the monotonic clock.
    work_due: Duration,
    /// Status reports in transit: at most one.
    status_out: Gauge,
    /// When the next status also reports what is being written, on the monotonic clock.
    arriving_due: Duration,
}

impl ServerLoop {
    async fn serve(
        &mut self,
        mut messages: mpsc::Receiver<MessengerEvent>,
        mut events: mpsc::Receiver<Event>,
        mut scrapers: mpsc::Receiver<MetricsQuestion>,
        stopping: &ShutdownToken,
    ) -> Result<(), NodeError> {
        self.start_joining();
        loop {
            self.perform();
            let due = self.node.next_timeout().map(|due| self.clock.instant(due));
            tokio::select! {
                () = stopping.cancelled() => return Ok(()),
                message = messages.recv() => match message {
                    Some(MessengerEvent::Delivered(delivered)) => self.deliver(delivered),
                    Some(MessengerEvent::SessionLost(session)) => self.lose_session(session),
                    None => return Err(NodeError::Panicked { operation: "speaking with the master" }),
                },
                // The context holds a sender, so this never ends.
                Some(event) = events.recv() => match event {
                    Event::Completion(completion) => self.node.handle_completion(self.clock.now(), completion),
                    Event::SessionFailed(session) => self.lose_session(session),
                },
                Some(scraper) = scrapers.recv() => self.read_metrics(move |text| {
                    // It may have hung up.
                    let _ = scraper.send(text);
                }),
                joined = ended(&mut self.joining) => {
                    self.joining = None;
                    let Some(JoinedSession { session, ticket_keys }) = joined else {
                        return Err(NodeError::Panicked { operation: "joining the master" });
                    };
                    tracing::info!(master = %self.link.master.host(), %session, "the node has joined");
                    self.context.tickets.set_keys(ticket_keys);
                    self.session_opened(session);
                }
                () = async { match due { Some(due) => sleep_until(due).await, None => std::future::pending().await } } => {
                    self.node.handle_timeout(self.clock.now());
                }
            }
            while self.work.try_join_next().is_some() {}
        }
    }

    async fn finish(mut self) {
        if let Some(joining) = self.joining.take() {
            joining.abort();
        }
        self.work.shutdown().await;
        let refused: u64 = self.context.tickets.refused().values().sum();
        tracing::info!(tickets_refused = refused, "the node has stopped");
        self.messenger.close().await;
    }

    fn session_opened(&mut self, session: SessionId) {
        self.node.handle_session_opened(self.clock.now(), session);
    }

    /// A session is gone or no longer usable: the next one is requested. For an old session this does nothing.
    fn lose_session(&mut self, session: SessionId) {
        if self.node.session() != Some(session) {
            return;
        }
        tracing::warn!(%session, "the session with the master is lost; the node joins again");
        self.node.handle_session_lost(session);
        self.messenger.remove_session(session);
        self.start_joining();
    }

    fn start_joining(&mut self) {
        if self.joining.is_none() {
            let link = Arc::clone(&self.link);
            self.joining = Some(tokio::spawn(async move { link.join().await }));
        }
    }
}

/// The outcome of a task, if there is one to wait for; `None` when it panicked.
async fn ended<T>(task: &mut Option<JoinHandle<T>>) -> Option<T> {
    match task {
        Some(task) => task.await.ok(),
        None => std::future::pending().await,
    }
}

/// Copies from other nodes at once. One keeps a link busy, and a few more fill the gaps between small files; the rest
/// of the disk is for users.
const COPIES_MAX: usize = 4;
/// How long background work may take to end its step: it reads a megabyte.
const BACKGROUND_PATIENCE: Duration = Duration::from_secs(5);
/// Scrapers of metrics that wait for the server loop.
const SCRAPERS_MAX: usize = 4;
/// Connections per transfer slot: most wait for their next request.
const CONNECTIONS_PER_TRANSFER: usize = 4;
/// SPE processes per slot: all but one wait, at some megabytes each, while tasks of other jobs have the slot.
const SPES_PER_SLOT_MAX: usize = 16;
/// Where the Python packages of jobs lie, in the main data folder.
const ENVIRONMENTS_FOLDER: &str = "environments";
