//! A master and nodes that are real on the wire (TLS, GMP, transfer connections) and simple behind it. Names, slices
//! and buckets are maps in memory, and the only function copies records of 10 bytes to the bucket of their first byte.
//! Tests set what fails, and check what was asked.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub(crate) mod reading;
mod writing;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use client::{CarrierChoice, Client, Profile};
use net::{
    clock::Clock,
    datagram::bind_udp,
    identity::{Authority, TlsIdentity},
    messenger::{Messenger, MessengerEvent, SessionKeys, SessionRole},
    transfer::{Listener, QuicSettings, TransferStream},
};
use protocol::{
    Counters, Digest, FileId, JobId, LeaseId, NodeId, Place, Reason, RecordFraming, Refusal, SectorPath, SessionId,
    SliceId, UserName, Version,
    message::{
        access::{AclReply, AclRequest},
        client_master::{
            Admitted, ClientReply, ClientRequest, Condition, Created, Entry, EntryKind, EntryStatus, FileContent,
            JobRecord, ListPage, Located, Source, SpeNode,
        },
        history::{HistoryRequest, JobHistory, SegmentLog},
        join::{JoinReply, JoinRequest, KEY_LABEL},
        request::{
            AddLogsRequest, AdmitJobRequest, CommitRequest, CreateDatedRequest, JobInputsRequest, ListRequest,
            LocateRequest, MakeFolderRequest, OnceRequest, RemoveRequest, RenameRequest, ReportJobRequest, RequestId,
            StatRequest, SubmitHistoryRequest,
        },
        spe::{
            AttemptId, BucketId, DeliveryOrder, FunctionFailure, OutputPlacement, PieceId, PieceResult, PrintedOutput,
            SealOrder, SegmentOutput, SegmentSource, SpeReply, SpeRequest, TaskOrder, TaskResult,
        },
        transfer::{TransferReply, TransferRequest},
    },
    ticket::{HolderKey, SignedTicket, TicketKeys},
    topology::Distance,
    wire::codec,
};
use tokio::task::JoinHandle;

pub(crate) const RECORD_BYTES: usize = 10;
pub(crate) const JOB: JobId = JobId(0x77);

/// What happens to the next task that any SPE is given.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The SPE dies after some of its results were delivered.
    Die,
    /// The function fails.
    Err(String),
    /// The whole node goes, with its buckets and its port.
    NodeDies,
    /// The job is cancelled at the master; the task is never answered.
    Cancel,
    /// The job is cancelled at the master before its function is loaded, and the node hears of it before the driver.
    CancelBeforeLoad,
    /// The user may no longer log in; the task is never answered.
    PutOut,
    /// The task is never answered; the log says when it was begun, and when the connection ended.
    Hang,
}

/// A cloud in this process.
pub(crate) struct FakeCloud {
    world: Arc<Mutex<World>>,
    profile: Profile,
}

/// What master and nodes know.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) files: BTreeMap<SectorPath, FileContent>,
    pub(crate) slices: BTreeMap<SliceId, Vec<u8>>,
    pub(crate) faults: VecDeque<Fault>,
    /// How many jobs were admitted: the first is [`JOB`].
    jobs: u64,
    /// The last report of a job.
    pub(crate) record: Option<JobRecord>,
    /// The history of a job's attempts, as last reported.
    pub(crate) history: Option<JobHistory>,
    /// What functions printed, as reported.
    pub(crate) logs: Vec<SegmentLog>,
    /// Functions print where they are loaded and what they do.
    pub(crate) prints: bool,
    /// How nodes fail their readers.
    pub(crate) read_faults: BTreeMap<NodeId, reading::ReadFault>,
    /// How far the nodes are said to be.
    pub(crate) distance: Option<Distance>,
    /// Reads that nodes are answering, and how many of them were at once at most.
    pub(crate) reads_now: usize,
    pub(crate) reads_most: usize,
    /// Where the files are that the local sockets of nodes pass.
    folder: Option<tempfile::TempDir>,
    /// Requests to nodes and master, in a word each.
    pub(crate) log: Vec<String>,
    nodes: BTreeMap<NodeId, FakeNode>,
    leases: BTreeMap<LeaseId, (SectorPath, SliceId, RecordFraming)>,
    /// The refusal that reports get.
    refusal: Option<Refusal>,
    /// Renames that are done and then answered with this: the answer was lost, or somebody else did it first.
    pub(crate) renames_denied: VecDeque<Reason>,
    /// The keys that tickets of sessions name.
    holders: BTreeMap<SessionId, HolderKey>,
    /// For each connection to a node, the key that was proved on it.
    pub(crate) connections: Vec<HolderKey>,
    /// Bytes of uploads that nodes have received.
    pub(crate) received_bytes: u64,
    /// Copies that nodes have begun, and how many of them must have before one goes on.
    pub(crate) copies_now: usize,
    pub(crate) copies_awaited: usize,
    /// Nodes refuse to fetch for copies.
    pub(crate) pulls_refused: Option<Refusal>,
    /// What the node has of the next upload.
    pub(crate) partial_upload: Option<Vec<u8>>,
    /// Nothing may be written to these paths.
    pub(crate) closed_paths: BTreeSet<SectorPath>,
    /// How many commits are answered with "too much, try again", and not looked at.
    pub(crate) commits_deferred: u32,
    /// Of changes with a number.
    answers: BTreeMap<RequestId, ClientReply>,
    /// An unknown commit puts this file beside the next part.
    pub(crate) stray: Option<String>,
    /// A file beside the next part that is gone when the job looks.
    pub(crate) loses_part: bool,
    /// The refusal for all jobs that want to read, if set.
    pub(crate) inputs_refused: Option<Refusal>,
    next: u64,
}

#[derive(Default)]
struct FakeNode {
    address: Option<SocketAddr>,
    local: Option<String>,
    pieces: BTreeMap<PieceId, Vec<u8>>,
    sealed: BTreeMap<BucketId, Vec<u8>>,
    kept: BTreeMap<AttemptId, BTreeMap<u32, Vec<u8>>>,
    listener: Option<JoinHandle<()>>,
}

impl FakeCloud {
    /// A master and nodes of these names, with one SPE each.
    pub(crate) async fn start(names: &[&str]) -> Self {
        let authority = Authority::create("test").unwrap();
        let identity =
            |role: &str| TlsIdentity::role(authority.certificate_pem(), &authority.issue(role).unwrap()).unwrap();
        let world = Arc::new(Mutex::new(World::default()));
        for name in names {
            let node = NodeId::new(*name).unwrap();
            let any_port = "127.0.0.1:0".parse().unwrap();
            let listener = Listener::bind_both(any_port, identity(name), QuicSettings::default()).await.unwrap();
            let address = Some(listener.address());
            let handle = tokio::spawn(serve_node(Arc::clone(&world), node.clone(), listener));
            lock(&world).nodes.insert(node, FakeNode { address, listener: Some(handle), ..FakeNode::default() });
        }
        let (listener, messenger, events) = loop {
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), identity("master")).await.unwrap();
            // The port of the same number may be taken for datagrams.
            if let Ok(socket) = bind_udp(listener.address()).await {
                let (messenger, events) = Messenger::start(socket, Clock::start());
                break (listener, messenger, events);
            }
        };
        let alice = UserName::new("alice").unwrap();
        let profile = Profile::of(listener.address(), alice, [1; 32], authority.certificate_pem().into());
        tokio::spawn(serve_joins(Arc::clone(&world), listener, messenger.clone()));
        tokio::spawn(serve_master(Arc::clone(&world), messenger, events));
        Self { world, profile }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.profile).await.unwrap()
    }

    /// The profile of a user.
    pub(crate) fn profile_of(&self, user: &str) -> Profile {
        Profile { user: UserName::new(user).unwrap(), ..self.profile.clone() }
    }

    /// A client of nodes that are reported to be far, which speaks to them with this carrier.
    pub(crate) async fn far_client(&self, carrier: CarrierChoice) -> Client {
        self.world().distance = Some(Distance::OtherSite);
        Client::connect(&Profile { carrier, ..self.profile.clone() }).await.unwrap()
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// Puts a file of records on some nodes and gives its entry.
    pub(crate) fn add_file(&self, path: &str, records: &[Vec<u8>], nodes: &[&str]) -> Entry {
        let path: SectorPath = path.parse().unwrap();
        let mut world = self.world();
        let slice = world.add_slice(records.concat());
        let content = world.content(slice, RecordFraming::Fixed(RECORD_BYTES as u32));
        world.files.insert(path.clone(), content);
        let nodes = nodes.iter().map(|name| NodeId::new(*name).unwrap()).collect();
        Entry { nodes, ..world.entry(&path).unwrap() }
    }

    /// Waits until the log has a line.
    pub(crate) async fn until_logged(&self, line: &str) {
        while !self.world().log.iter().any(|logged| logged == line) {
            tokio::task::yield_now().await;
        }
    }

    /// The records of all files at or below a path, sorted.
    pub(crate) fn records_below(&self, path: &str) -> Vec<Vec<u8>> {
        let (world, path) = (self.world(), path.parse().unwrap());
        let below = world.files.iter().filter(|(file, _)| file.is_within(&path));
        let bytes: Vec<u8> = below.flat_map(|(_, content)| world.slices[&content.slice].clone()).collect();
        let mut records: Vec<Vec<u8>> = bytes.chunks(RECORD_BYTES).map(<[u8]>::to_vec).collect();
        records.sort();
        records
    }
}

impl World {
    /// Paths of all files.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.files.keys().map(ToString::to_string).collect()
    }

    fn add_slice(&mut self, bytes: Vec<u8>) -> SliceId {
        self.next += 1;
        let slice = SliceId(u128::from(self.next));
        self.slices.insert(slice, bytes);
        slice
    }

    fn content(&self, slice: SliceId, records: RecordFraming) -> FileContent {
        FileContent {
            slice,
            version: Version(1),
            bytes: self.slices[&slice].len() as u64,
            digest: Digest(*blake3::hash(&self.slices[&slice]).as_bytes()),
            records,
            copies: 1,
            user: BTreeMap::new(),
        }
    }

    fn entry(&self, path: &SectorPath) -> Option<Entry> {
        let kind = match self.files.get(path) {
            Some(content) => EntryKind::File(content.clone()),
            None if self.files.keys().any(|file| file.is_within(path)) => EntryKind::Folder,
            None => return None,
        };
        let owner = UserName::new("alice").unwrap();
        Some(Entry {
            path: path.clone(),
            id: FileId(1),
            owner,
            modified_unix_millis: 0,
            kind,
            nodes: vec![],
            has_acl: false,
        })
    }

    fn source(&self, node: &NodeId, ticket: Vec<u8>) -> Option<Source> {
        let FakeNode { address, local, .. } = self.nodes.get(node)?;
        let (address, local) = ((*address)?, local.clone());
        let ticket = SignedTicket { ticket, signature: vec![], delegation: None };
        Some(Source {
            node: node.clone(),
            place: Place::new("site", "rack"),
            address,
            distance: self.distance,
            local,
            ticket,
        })
    }

    fn admitted(&self, job: JobId) -> ClientReply {
        let sources = self.nodes.keys().filter_map(|node| self.source(node, vec![]));
        ClientReply::Admitted(Admitted {
            job,
            nodes: sources.map(|source| SpeNode { source, slots: 1, is_marked: false }).collect(),
            links: vec![],
        })
    }

    fn answer(&mut self, session: SessionId, request: ClientRequest) -> ClientReply {
        let not_found =
            |what: &SectorPath| ClientReply::Refused(Refusal::new(Reason::NotFound, format!("nothing at {what}")));
        let request = match request {
            ClientRequest::Once(OnceRequest { id, request }) => {
                if let Some(answer) = self.answers.get(&id) {
                    return answer.clone();
                }
                let answer = self.answer(session, *request);
                self.answers.insert(id, answer.clone());
                return answer;
            }
            request => request,
        };
        match request {
            ClientRequest::AdmitJob(AdmitJobRequest { title, .. }) => {
                self.log.push(format!("admit {title}"));
                self.jobs += 1;
                self.admitted(JobId(JOB.0 + self.jobs - 1))
            }
            ClientRequest::ReportJob(ReportJobRequest(record)) => {
                let job = record.job;
                self.record = Some(record);
                if let Some(refusal) = &self.refusal {
                    return ClientReply::Refused(refusal.clone());
                }
                self.admitted(job)
            }
            ClientRequest::Stat(StatRequest(path)) => match self.entry(&path) {
                Some(entry) => ClientReply::Status(EntryStatus { entry, copies: vec![] }),
                None => not_found(&path),
            },
            ClientRequest::List(ListRequest { folder, .. }) => {
                let entries =
                    self.files.keys().filter(|file| file.is_within(&folder)).filter_map(|file| self.entry(file));
                ClientReply::Page(ListPage { entries: entries.collect(), more: false, next: None })
            }
            ClientRequest::Acl(AclRequest::Inputs(JobInputsRequest { slices, .. })) => {
                match self.inputs_refused.clone() {
                    Some(refusal) => ClientReply::Refused(refusal),
                    // What a fake node is shown: the slices it may read.
                    None => ClientReply::Acl(AclReply::Inputs(SignedTicket {
                        ticket: slices.iter().flat_map(|slice| slice.0.to_be_bytes()).collect(),
                        signature: vec![],
                        delegation: None,
                    })),
                }
            }
            ClientRequest::Locate(LocateRequest(path)) => match self.entry(&path) {
                Some(entry) => {
                    // A ticket to read is good for the session's holder alone.
                    let ticket = self.holders[&session].0.to_vec();
                    let sources = self.nodes.keys().filter_map(|node| self.source(node, ticket.clone())).collect();
                    ClientReply::Located(Located { entry, sources })
                }
                None => not_found(&path),
            },
            // This cloud knows no dates, but notes them.
            ClientRequest::CreateDated(CreateDatedRequest { create, modified_unix_millis }) => {
                self.log.push(format!("date {modified_unix_millis} for {}", create.path));
                self.answer(session, ClientRequest::Create(create))
            }
            ClientRequest::Create(create) if self.closed_paths.contains(&create.path) => {
                ClientReply::Refused(Refusal::new(Reason::NoRight, format!("{} is closed", create.path)))
            }
            ClientRequest::Create(create)
                if create.condition == Condition::Absent && self.entry(&create.path).is_some() =>
            {
                ClientReply::Refused(Refusal::new(Reason::Exists, format!("{} is there", create.path)))
            }
            ClientRequest::Create(create) => {
                let slice = self.add_slice(vec![]);
                let lease = LeaseId(self.next);
                self.leases.insert(lease, (create.path, slice, create.records));
                // A job says where its output lies; an upload leaves it to the master.
                let up = || self.nodes.iter().find(|(_, node)| node.address.is_some()).map(|(name, _)| name.clone());
                let node = create.at.or_else(up).expect("a node is up");
                match self.source(&node, slice.0.to_be_bytes().to_vec()) {
                    Some(target) => {
                        ClientReply::Created(Created { lease, slice, target, chain: vec![], base_bytes: 0 })
                    }
                    None => ClientReply::Refused(Refusal::new(Reason::Unavailable, "the node is gone")),
                }
            }
            ClientRequest::Commit(_) if self.commits_deferred > 0 => {
                self.commits_deferred -= 1;
                ClientReply::Refused(Refusal::throttled("alice asks too much", 0))
            }
            ClientRequest::Commit(CommitRequest { lease, bytes, .. }) => {
                let (path, slice, records) = self.leases.remove(&lease).expect("a lease that was given");
                assert_eq!(self.slices[&slice].len() as u64, bytes);
                let content = self.content(slice, records);
                self.files.insert(path.clone(), content);
                let entry = self.entry(&path).unwrap();
                if let Some(name) = self.stray.take() {
                    let slice = self.add_slice(b"stray-----".to_vec());
                    let content = self.content(slice, records);
                    self.files.insert(path.parent().unwrap().join(&name).unwrap(), content);
                }
                if std::mem::take(&mut self.loses_part) {
                    self.files.remove(&path);
                }
                ClientReply::Entry(entry)
            }
            ClientRequest::Rename(RenameRequest { from, to }) => {
                self.log.push(format!("rename {from} {to}"));
                if self.entry(&from).is_none() {
                    return not_found(&from);
                }
                let moved: Vec<_> = self.files.keys().filter(|file| file.is_within(&from)).cloned().collect();
                for file in moved {
                    let content = self.files.remove(&file).unwrap();
                    let path = format!("{to}{}", &file.as_str()[from.as_str().len()..]);
                    self.files.insert(path.parse().unwrap(), content);
                }
                match self.renames_denied.pop_front() {
                    Some(reason) => ClientReply::Refused(Refusal::new(reason, "who knows")),
                    None => ClientReply::Done,
                }
            }
            ClientRequest::Remove(RemoveRequest { path, .. }) => {
                let before = self.files.len();
                self.files.retain(|file, _| !file.is_within(&path));
                if self.files.len() == before { not_found(&path) } else { ClientReply::Done }
            }
            ClientRequest::History(HistoryRequest::AddLogs(AddLogsRequest { logs, .. })) => {
                self.logs.extend(logs.segments);
                ClientReply::Done
            }
            ClientRequest::History(HistoryRequest::Submit(SubmitHistoryRequest { history, .. })) => {
                self.history = Some(history);
                ClientReply::Done
            }
            ClientRequest::MakeFolder(MakeFolderRequest { path, .. }) => {
                self.log.push(format!("make folder {path}"));
                ClientReply::Done
            }
            ClientRequest::Abandon(_) => {
                self.log.push("abandon".into());
                ClientReply::Done
            }
            ClientRequest::Renew(_) => ClientReply::Done,
            ClientRequest::Logout(_) => {
                self.log.push(format!("logout {session}"));
                ClientReply::Done
            }
            other => panic!("a driver does not ask {other:?}"),
        }
    }

    /// Does a task; a dying SPE delivers only its first piece.
    fn process(&mut self, node: &NodeId, order: &TaskOrder, is_dying: bool) -> SpeReply {
        let mut pieces: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut bytes_in = 0;
        for segment in &order.segments {
            let segment = &segment.first;
            let bytes = match &segment.source {
                SegmentSource::Local(slice) | SegmentSource::Remote { slice, .. } => self.slices.get(slice),
                SegmentSource::Bucket(bucket) => self.nodes[node].sealed.get(bucket),
            };
            let Some(bytes) = bytes else { return SpeReply::Refused(Refusal::new(Reason::NotFound, "no such input")) };
            let bytes = &bytes[segment.from as usize..segment.until as usize];
            bytes_in += bytes.len() as u64;
            for record in bytes.chunks(RECORD_BYTES) {
                let bucket = match &order.output {
                    OutputPlacement::Local => order.attempt.task,
                    OutputPlacement::Buckets(places) => u32::from(record[0]) % places.len() as u32,
                };
                pieces.entry(bucket).or_default().extend_from_slice(record);
            }
        }
        let a = order.attempt;
        let mut results = Vec::new();
        self.nodes.get_mut(node).unwrap().kept.insert(a, pieces.clone());
        for (number, bytes) in pieces.into_iter().take(if is_dying { 1 } else { usize::MAX }) {
            let (home, making, is_wanted) = match &order.output {
                OutputPlacement::Local => (node, a.attempt, true),
                OutputPlacement::Buckets(places) => {
                    let place = &places[number as usize];
                    (&place.node, place.generation, place.is_wanted)
                }
            };
            let (length, checksum) =
                (bytes.len() as u64, bytes.iter().fold(0, |sum: u32, byte| sum.wrapping_mul(31) + u32::from(*byte)));
            let is_delivered = is_wanted && self.give(a, number, home, making, bytes);
            results.push(PieceResult { bucket: number, bytes: length, checksum, is_delivered });
        }
        SpeReply::Finished(TaskResult {
            records_in: 0,
            bytes_in,
            records_out: 0,
            pieces: results,
            counters: Counters::new(),
        })
    }

    /// Gives a piece to its bucket; false if that bucket's node is gone.
    fn give(&mut self, a: AttemptId, number: u32, home: &NodeId, making: u32, bytes: Vec<u8>) -> bool {
        let home = self.nodes.get_mut(home).unwrap();
        let bucket = BucketId { job: a.job, stage: a.stage, epoch: a.epoch, bucket: number, generation: making };
        if home.address.is_some() {
            home.pieces.insert(PieceId { bucket, task: a.task, attempt: a.attempt }, bytes);
        }
        home.address.is_some()
    }

    fn deliver_again(&mut self, node: &NodeId, order: &DeliveryOrder) -> SpeReply {
        self.log.push(format!("deliver again from {node}"));
        let Some(kept) = self.nodes[node].kept.get(&order.attempt).cloned() else {
            return SpeReply::Refused(Refusal::new(Reason::NotFound, "not kept"));
        };
        for (number, place) in &order.targets {
            if !self.give(order.attempt, *number, &place.node, place.generation, kept[number].clone()) {
                return SpeReply::Refused(Refusal::new(Reason::Unavailable, "a bucket's node is gone"));
            }
        }
        SpeReply::Delivered
    }

    fn seal(&mut self, node: &NodeId, order: &SealOrder) -> SpeReply {
        let node = self.nodes.get_mut(node).unwrap();
        let mut content = Vec::new();
        for winner in &order.winners {
            let piece = PieceId { bucket: order.bucket, task: winner.task, attempt: winner.attempt };
            match node.pieces.get(&piece) {
                Some(bytes) => content.extend_from_slice(bytes),
                None => return SpeReply::Refused(Refusal::new(Reason::NotFound, "a piece is missing")),
            }
        }
        let bytes = content.len() as u64;
        node.sealed.insert(order.bucket, content);
        SpeReply::Sealed { bytes, order: order.winners.iter().map(|winner| winner.task).collect() }
    }
}

async fn serve_joins(world: Arc<Mutex<World>>, listener: Listener, messenger: Messenger) {
    let mut next = 1;
    while let Ok(incoming) = listener.accept().await {
        let mut stream = incoming.handshake().await.unwrap();
        let JoinRequest::Client { holder, .. } = stream.receive().await.unwrap() else { panic!("only users join") };
        let session = SessionId(next);
        lock(&world).holders.insert(session, holder);
        next += 1;
        let key = stream.export_key(KEY_LABEL, &session.0.to_be_bytes()).unwrap();
        messenger.add_session(SessionKeys { session, key, role: SessionRole::Responder, peer: None });
        let ticket_keys = TicketKeys { current: [0; 32], next: [1; 32] };
        stream.send(&JoinReply::Accepted { session, ticket_keys, reset_token: [0; 16] }).await.unwrap();
        stream.close().await;
    }
}

async fn serve_master(
    world: Arc<Mutex<World>>,
    messenger: Messenger,
    mut events: tokio::sync::mpsc::Receiver<MessengerEvent>,
) {
    while let Some(event) = events.recv().await {
        if let MessengerEvent::Delivered(delivered) = event {
            let reply = lock(&world).answer(delivered.session, codec::decode(&delivered.body).unwrap());
            messenger.reply(delivered.session, delivered.request.unwrap(), codec::encode(&reply));
        }
    }
}

async fn serve_node(world: Arc<Mutex<World>>, node: NodeId, listener: Listener) {
    let mut conversations = tokio::task::JoinSet::new();
    while let Ok(incoming) = listener.accept().await {
        if let Ok(mut stream) = incoming.handshake().await {
            stream.admit();
            conversations.spawn(serve_driver(Arc::clone(&world), node.clone(), stream));
        }
    }
}

async fn serve_driver(world: Arc<Mutex<World>>, node: NodeId, mut stream: TransferStream) {
    // The proof itself is not checked here.
    let Ok(TransferRequest::ProveKey { key, .. }) = stream.receive().await else {
        panic!("a client proves its key first")
    };
    lock(&world).connections.push(key);
    match reading::next_request(&world, &mut stream).await {
        Ok(Some(TransferRequest::Spe { .. })) => {}
        Ok(Some(first @ (TransferRequest::Read { .. } | TransferRequest::ReadRuns { .. }))) => {
            return reading::serve(&world, &node, stream, key, first).await;
        }
        Ok(Some(first @ (TransferRequest::Write { .. } | TransferRequest::Pull(_)))) => {
            return writing::serve(&world, &node, stream, key, first).await;
        }
        _ => return,
    }
    stream.send(&TransferReply::Ready).await.unwrap();
    while let Ok(Some(request)) = stream.receive_or_end::<SpeRequest>().await {
        // Progress messages come before any answer.
        stream.send(&SpeReply::Progress { bytes: 1 }).await.unwrap();
        let segments: Vec<u64> = match &request {
            SpeRequest::Run(order) => order.segments.iter().map(|segment| segment.segment).collect(),
            _ => Vec::new(),
        };
        let reply = match request {
            SpeRequest::Load(_) if matches!(lock(&world).faults.front(), Some(Fault::CancelBeforeLoad)) => {
                lock(&world).refusal = Some(Refusal::new(Reason::Failed, "the job was cancelled by bob"));
                SpeReply::Refused(Refusal::new(Reason::JobEnded, "the job has ended; admit it again"))
            }
            SpeRequest::Load(order) => {
                lock(&world).log.push(format!("load {:?} at {node}", order.function.code));
                SpeReply::Loaded
            }
            SpeRequest::Run(_) if matches!(lock(&world).faults.front(), Some(Fault::Hang)) => {
                lock(&world).faults.pop_front();
                lock(&world).log.push("hanging".into());
                let ended = stream.receive_or_end::<SpeRequest>().await;
                assert!(!matches!(ended, Ok(Some(_))), "a driver asks one thing at a time");
                lock(&world).log.push("conversation ended".into());
                return;
            }
            SpeRequest::Run(order) => match run(&world, &node, &order).await {
                Some(reply) => reply,
                None => return,
            },
            SpeRequest::Seal(order) => lock(&world).seal(&node, &order),
            SpeRequest::Deliver(order) => lock(&world).deliver_again(&node, &order),
            SpeRequest::Publish { bucket, ticket } => {
                lock(&world).log.push("publish".into());
                let mut world = lock(&world);
                let bytes = world.nodes[&node].sealed[&bucket].clone();
                let slice = SliceId(u128::from_be_bytes(ticket.ticket.try_into().unwrap()));
                let reply = SpeReply::Published { bytes: bytes.len() as u64, digest: Digest([0; 32]) };
                world.slices.insert(slice, bytes);
                reply
            }
            SpeRequest::Fetch(bucket) => SpeReply::Bytes(lock(&world).nodes[&node].sealed[&bucket].clone()),
        };
        let printed = if lock(&world).prints { printed_before(&reply, &segments) } else { None };
        if let Some(printed) = printed
            && stream.send(&SpeReply::Printed(printed)).await.is_err()
        {
            return;
        }
        if stream.send(&reply).await.is_err() {
            return;
        }
    }
}

/// What a function has printed before this reply.
fn printed_before(reply: &SpeReply, segments: &[u64]) -> Option<PrintedOutput> {
    let output = |segment, first: String| SegmentOutput { segment, first, ..SegmentOutput::default() };
    let segments = match reply {
        SpeReply::Loaded => vec![output(None, "loaded".into())],
        SpeReply::Finished(_) | SpeReply::FunctionFailed(_) => {
            segments.iter().map(|segment| output(Some(*segment), format!("segment {segment}"))).collect()
        }
        _ => return None,
    };
    Some(PrintedOutput { segments, left_out: 0 })
}

/// Runs a task, or its fault; `None` breaks the connection.
async fn run(world: &Mutex<World>, node: &NodeId, order: &TaskOrder) -> Option<SpeReply> {
    let fault = lock(world).faults.pop_front();
    match fault {
        None => Some(lock(world).process(node, order, false)),
        Some(Fault::Die) => {
            lock(world).process(node, order, true);
            None
        }
        Some(Fault::Err(message)) => {
            let (path, segment) = (order.segments[0].first.path.clone(), order.segments[0].segment);
            let function = "stack".into();
            Some(SpeReply::FunctionFailed(FunctionFailure {
                function,
                path,
                segment,
                record: Some(4),
                message,
                record_start: b"bad".to_vec(),
            }))
        }
        Some(Fault::NodeDies) => {
            let listener = {
                let mut world = lock(world);
                let node = world.nodes.get_mut(node).unwrap();
                std::mem::take(node).listener
            };
            // Ends this task too, with all connections of the node.
            listener.unwrap().abort();
            std::future::pending().await
        }
        Some(Fault::Cancel | Fault::CancelBeforeLoad | Fault::Hang) => {
            lock(world).refusal = Some(Refusal::new(Reason::Failed, "the job was cancelled by bob"));
            std::future::pending().await
        }
        Some(Fault::PutOut) => {
            lock(world).refusal = Some(Refusal::new(Reason::NoRight, "the session has ended"));
            std::future::pending().await
        }
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap()
}

/// `count` different records that fall into many buckets.
pub(crate) fn records(count: usize) -> Vec<Vec<u8>> {
    let made: BTreeSet<Vec<u8>> =
        (0..count).map(|at| format!("{}{at:09}", (b'a' + (at % 23) as u8) as char).into_bytes()).collect();
    made.into_iter().collect()
}
