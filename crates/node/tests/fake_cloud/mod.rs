//! A cloud for one test: real nodes on ports of this machine, and a fake master. The fake master lets the nodes in,
//! signs any ticket, gives the orders the test wants and keeps all reports.
#![allow(clippy::unwrap_used)]
// Each test file uses its own part of this.
#![allow(dead_code)]

use std::{
    collections::BTreeMap,
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use daemon::{
    settings::{Checked, NodeSettings},
    shutdown::TaskGroup,
};
use net::{
    clock::Clock,
    datagram::bind_udp,
    identity::{Authority, HolderKeyPair, TicketSigner, TlsIdentity, random},
    local::LocalStream,
    messenger::{Messenger, MessengerEvent, SessionKeys, SessionRole},
    transfer::{Carrier, CarrierSettings, Carriers, Listener, Locality, StreamFrame, TcpCarrier, TransferStream},
};
use node::NodeServer;
use protocol::{
    CarrierChoice, JobId, LeaseId, NodeId, Place, RecordFraming, Refusal, SectorPath, SessionId, SliceHeader, SliceId,
    UserName, Version,
    message::{
        client_master::Source,
        join::{JoinReply, JoinRequest, KEY_LABEL},
        local::LocalRequest,
        node_master::{Ack, HeldSlice, Order, Report},
        spe::{BucketTarget, PrintedOutput, SpeReply, SpeRequest},
        transfer::{TransferReply, TransferRequest},
    },
    ticket::{Delegate, Holder, HolderKey, SignedTicket, Ticket, TicketRight},
    wire::codec,
};
use spe::SpeProgram;
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};

/// How long anything may take before a test is given up; nothing is asserted about timing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct FakeCloud {
    carrier: CarrierChoice,
    authority: Authority,
    signer: TicketSigner,
    /// The key of the one client.
    holder: HolderKeyPair,
    master: SocketAddr,
    messenger: Messenger,
    joins: mpsc::Receiver<(SessionId, JoinRequest)>,
    reports: mpsc::Receiver<(SessionId, Report)>,
    /// Reports of other sessions than the awaited one: nodes of a chain report in any order.
    deferred: Vec<(SessionId, Report)>,
    clock: Clock,
    folder: TempDir,
}

pub(crate) struct FakeNode {
    pub(crate) id: NodeId,
    pub(crate) address: SocketAddr,
    pub(crate) session: SessionId,
    pub(crate) folder: PathBuf,
    /// The name of its local socket.
    pub(crate) local: String,
    /// The size of its SPEs' scratch folders, which no other node has.
    pub(crate) spe_scratch_bytes: u64,
    stop: TaskGroup,
}

impl FakeCloud {
    pub(crate) async fn start() -> Self {
        Self::start_with(CarrierChoice::Auto).await
    }

    /// A cloud in which clients and nodes talk to nodes over this carrier.
    pub(crate) async fn start_with(carrier: CarrierChoice) -> Self {
        let authority = Authority::create("test").unwrap();
        let identity = TlsIdentity::role(authority.certificate_pem(), &authority.issue("master").unwrap()).unwrap();
        let (listener, socket) = loop {
            let listener = Listener::bind(([127, 0, 0, 1], 0).into(), identity.clone()).await.unwrap();
            // The same number may be in use for UDP.
            if let Ok(socket) = bind_udp(listener.address()).await {
                break (listener, socket);
            }
        };
        let (master, clock) = (listener.address(), Clock::start());
        let (messenger, mut events) = Messenger::start(socket, clock);
        let (joined, joins) = mpsc::channel(16);
        let (reported, reports) = mpsc::channel(10_000);
        let signer = TicketSigner::generate();
        let (ticket_keys, keys) = (signer.public_keys(), messenger.clone());
        tokio::spawn(async move {
            loop {
                let mut stream = listener.accept().await.unwrap().handshake().await.unwrap();
                let Ok(request) = stream.receive::<JoinRequest>().await else { continue };
                let session = SessionId(u64::from_be_bytes(random()));
                let key = stream.export_key(KEY_LABEL, &session.0.to_be_bytes()).unwrap();
                keys.add_session(SessionKeys { session, key, role: SessionRole::Responder, peer: None });
                stream.send(&JoinReply::Accepted { session, ticket_keys, reset_token: [0; 16] }).await.unwrap();
                stream.close().await;
                joined.send((session, request)).await.unwrap();
            }
        });
        let answering = messenger.clone();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                if let MessengerEvent::Delivered(delivered) = event {
                    let report = codec::decode::<Report>(&delivered.body).unwrap();
                    answering.reply(delivered.session, delivered.request.unwrap(), codec::encode(&Ack::Done));
                    let is_upkeep = matches!(
                        report,
                        Report::Status { .. }
                            | Report::Work(_)
                            | Report::Load(_)
                            | Report::Links(_)
                            | Report::TicketsRefused { .. }
                            | Report::Clock { .. }
                            | Report::IncomingWrite(_)
                            | Report::DisksSeen(_)
                    );
                    if !is_upkeep {
                        let _ = reported.send((delivered.session, report)).await;
                    }
                }
            }
        });
        let folder = tempfile::tempdir().unwrap();
        Self {
            carrier,
            authority,
            signer,
            holder: HolderKeyPair::generate(),
            master,
            messenger,
            joins,
            reports,
            deferred: Vec::new(),
            clock,
            folder,
        }
    }

    /// A node that has joined and reported its inventory.
    pub(crate) async fn node(&mut self, id: &str) -> FakeNode {
        let (node, held) = self.node_with_inventory(id).await;
        assert!(held.is_empty(), "{held:?}");
        node
    }

    /// The same for a node that already holds slices.
    pub(crate) async fn node_with_inventory(&mut self, id: &str) -> (FakeNode, Vec<HeldSlice>) {
        self.node_with(id, |_| ()).await
    }

    /// The same with other settings.
    pub(crate) async fn node_with(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut NodeSettings),
    ) -> (FakeNode, Vec<HeldSlice>) {
        self.node_at(id, ([127, 0, 0, 1], 0).into(), change).await
    }

    /// Stops a node and starts it again at the same address.
    pub(crate) async fn restart(&mut self, node: FakeNode) -> FakeNode {
        let (id, address) = (node.id.clone(), node.address);
        node.stop().await;
        self.node_at(id.as_str(), address, |_| ()).await.0
    }

    async fn node_at(
        &mut self,
        id: &str,
        listen: SocketAddr,
        change: impl FnOnce(&mut NodeSettings),
    ) -> (FakeNode, Vec<HeldSlice>) {
        let folder = self.folder.path().join(id);
        std::fs::create_dir_all(&folder).unwrap();
        let credentials = self.authority.issue(id).unwrap();
        let texts = [
            ("authority.pem", self.authority.certificate_pem()),
            ("certificate.pem", &credentials.certificate_pem),
            ("key.pem", &credentials.key_pem),
        ];
        for (name, text) in texts {
            std::fs::write(folder.join(name), text).unwrap();
        }
        static SCRATCH_BYTES: AtomicU64 = AtomicU64::new(64 << 20);
        // Another for each node of this test program, so that one can tell whose an SPE is.
        let spe_scratch_bytes = SCRATCH_BYTES.fetch_add(64 << 10, Ordering::Relaxed);
        let mut settings = NodeSettings {
            spe_scratch_bytes,
            id: id.parse().unwrap(),
            listen,
            master: self.master.into(),
            folder: folder.clone(),
            spe_slots: 2,
            carrier: self.carrier,
            status_interval_millis: 100,
            // A test's disk may be nearly full, and nothing happens that the test does not ask for.
            reserve_bytes: 0,
            scrub_period_seconds: 0,
            ..NodeSettings::default()
        };
        change(&mut settings);
        let settings = Checked::of(settings, &folder).unwrap();
        let server = NodeServer::bind(&settings, child_program()).await.unwrap();
        let (address, stop) = (server.address(), TaskGroup::new());
        let stopping = stop.token();
        stop.spawn(id, async move { server.run(stopping).await.unwrap() });
        let (session, local) = self.joined_with_local(id).await;
        let held = self.inventory(session).await;
        let local = local.unwrap();
        (FakeNode { id: id.parse().unwrap(), address, session, folder, local, spe_scratch_bytes, stop }, held)
    }

    /// The session of a node that joins, for the first time or again.
    pub(crate) async fn joined(&mut self, id: &str) -> SessionId {
        self.joined_with_local(id).await.0
    }

    async fn joined_with_local(&mut self, id: &str) -> (SessionId, Option<String>) {
        let (session, request) = timeout(PATIENCE, self.joins.recv()).await.unwrap().unwrap();
        match request {
            JoinRequest::Node { node, local, .. } if node.as_str() == id => (session, local),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn inventory(&mut self, session: SessionId) -> Vec<HeldSlice> {
        let mut held = Vec::new();
        loop {
            match self.report(session).await {
                Report::Inventory { slices, last } => {
                    held.extend(slices);
                    if last {
                        return held;
                    }
                }
                Report::MirrorPosition { .. } => {}
                other => panic!("{other:?} before the inventory"),
            }
        }
    }

    /// The next report of this session; reports of others wait until they are asked for.
    pub(crate) async fn report(&mut self, session: SessionId) -> Report {
        if let Some(at) = self.deferred.iter().position(|(from, _)| *from == session) {
            return self.deferred.remove(at).1;
        }
        loop {
            let (from, report) = timeout(PATIENCE, self.reports.recv()).await.unwrap().unwrap();
            if from == session {
                return report;
            }
            self.deferred.push((from, report));
        }
    }

    pub(crate) async fn order(&self, node: &FakeNode, order: Order) -> Ack {
        codec::decode(&self.messenger.request(node.session, codec::encode(&order), PATIENCE).await.unwrap()).unwrap()
    }

    /// Ends a session as if the master had forgotten it.
    pub(crate) fn forget(&self, node: &FakeNode) {
        self.messenger.remove_session(node.session);
    }

    pub(crate) fn ticket(&self, node: &NodeId, right: TicketRight) -> SignedTicket {
        self.ticket_until(node, right, self.clock.now().unix_millis + 60_000)
    }

    pub(crate) fn ticket_until(&self, node: &NodeId, right: TicketRight, until_unix_millis: u64) -> SignedTicket {
        self.signer.sign(&self.unsigned(node, right, Holder::Client(self.holder.public()), until_unix_millis))
    }

    /// A ticket that only the node `by` may present.
    pub(crate) fn ticket_of_node(&self, by: &FakeNode, node: &NodeId, right: TicketRight) -> SignedTicket {
        let until_unix_millis = self.clock.now().unix_millis + 60_000;
        self.signer.sign(&self.unsigned(node, right, Holder::Node(by.id.clone()), until_unix_millis))
    }

    /// The client's ticket, assigned to the node `to`.
    pub(crate) fn handed(&self, ticket: &SignedTicket, to: &FakeNode) -> SignedTicket {
        self.holder.delegate(ticket, &to.id)
    }

    /// The same, assigned to anyone.
    pub(crate) fn handed_to(&self, ticket: &SignedTicket, to: Delegate) -> SignedTicket {
        self.holder.delegate_to(ticket, to)
    }

    /// The certificate of its authority.
    pub(crate) fn authority_pem(&self) -> &str {
        self.authority.certificate_pem()
    }

    pub(crate) fn unsigned(&self, node: &NodeId, right: TicketRight, holder: Holder, until_unix_millis: u64) -> Ticket {
        Ticket {
            number: 1,
            user: UserName::new("alice").unwrap(),
            holder,
            node: node.clone(),
            right,
            file: None,
            plain_within: None,
            holder_site: None,
            until_unix_millis,
        }
    }

    /// The public half of the client's key.
    pub(crate) fn holder_key(&self) -> HolderKey {
        self.holder.public()
    }

    /// The master's next key signs from now on.
    pub(crate) fn roll_ticket_key(&mut self) {
        self.signer.roll();
    }

    /// The master tells a node its keys.
    pub(crate) async fn tell_ticket_keys(&self, node: &FakeNode) -> Ack {
        self.order(node, Order::TicketKeys(self.signer.public_keys())).await
    }

    pub(crate) fn sign(&self, ticket: &Ticket) -> SignedTicket {
        self.signer.sign(ticket)
    }

    pub(crate) fn read_ticket(&self, node: &FakeNode, slice: u128) -> SignedTicket {
        self.ticket(&node.id, TicketRight::Read { slice: SliceId(slice), from: 0, until: u64::MAX })
    }

    pub(crate) fn write_ticket(&self, node: &FakeNode, slice: u128) -> SignedTicket {
        self.ticket(&node.id, write_right(slice))
    }

    /// A node of a chain with its write ticket, to which `by` forwards bytes.
    pub(crate) fn source_with(&self, by: &FakeNode, node: &FakeNode, right: TicketRight) -> Source {
        let ticket = self.ticket_of_node(by, &node.id, right);
        Source {
            node: node.id.clone(),
            place: Place::new("s", "r"),
            address: node.address,
            distance: None,
            local: None,
            ticket,
        }
    }

    pub(crate) fn compute_ticket(&self, node: &FakeNode) -> SignedTicket {
        self.ticket(&node.id, TicketRight::Compute { job: JOB })
    }

    /// What a job may read at a node: each slice of the tests.
    pub(crate) fn inputs_ticket(&self, node: &FakeNode, slices: &[u128]) -> SignedTicket {
        let slices = slices.iter().map(|slice| SliceId(*slice)).collect();
        self.ticket(&node.id, TicketRight::Inputs { job: JOB, slices })
    }

    /// A source from which the node `by` can read a slice.
    pub(crate) fn source(&self, by: &FakeNode, node: &FakeNode, slice: u128) -> Source {
        let right = TicketRight::Read { slice: SliceId(slice), from: 0, until: u64::MAX };
        self.source_with(by, node, right)
    }

    /// The same, assigned to the node as which [`connect_as_node`](Self::connect_as_node) connects.
    pub(crate) fn handed_compute_ticket(&self, node: &FakeNode) -> SignedTicket {
        self.holder.delegate(&self.compute_ticket(node), &NodeId::new(SOME_NODE).unwrap())
    }

    /// The place of a bucket for the node `n1`, whose tasks deliver to it.
    pub(crate) fn bucket_place(&self, node: &FakeNode) -> BucketTarget {
        BucketTarget {
            node: node.id.clone(),
            address: node.address,
            distance: None,
            ticket: self.holder.delegate(&self.compute_ticket(node), &NodeId::new("n1").unwrap()),
            site: "s".into(),
            generation: 0,
            is_wanted: true,
        }
    }

    /// The client's connection: without a certificate, but with its key.
    pub(crate) async fn connect(&self, node: &FakeNode) -> TransferStream {
        let mut stream = self.connect_as_stranger(node).await;
        let proof = self.holder.prove(&stream).unwrap();
        stream.queue(&TransferRequest::ProveKey { key: self.holder.public(), proof }).await.unwrap();
        stream
    }

    /// A connection of a client without a key that a ticket names.
    pub(crate) async fn connect_as_stranger(&self, node: &FakeNode) -> TransferStream {
        let identity = TlsIdentity::client(self.authority.certificate_pem()).unwrap();
        let settings = CarrierSettings { choice: self.carrier, ..CarrierSettings::default() };
        Carriers::new(identity, settings).connect(node.address, node.id.as_str(), Locality::Unknown).await.unwrap()
    }

    /// The client's conversation at a node's local socket.
    pub(crate) async fn connect_local(&self, node: &FakeNode) -> LocalStream {
        let mut door = LocalStream::connect(&node.local).await.unwrap();
        let unix_millis = self.clock.now().unix_millis;
        let proof = self.holder.prove_locally(&node.local, unix_millis);
        door.send(&LocalRequest::ProveKey { key: self.holder.public(), unix_millis, proof }).await.unwrap();
        door
    }

    /// A connection of some other node of this cloud.
    pub(crate) async fn connect_as_node(&self, node: &FakeNode) -> TransferStream {
        let credentials = self.authority.issue(SOME_NODE).unwrap();
        let identity = TlsIdentity::role(self.authority.certificate_pem(), &credentials).unwrap();
        TcpCarrier::new(identity).connect(node.address, node.id.as_str()).await.unwrap()
    }

    /// Uploads a slice and waits until the node has reported it.
    pub(crate) async fn put(&mut self, node: &FakeNode, slice: u128, bytes: &[u8]) {
        let mut stream = self.connect(node).await;
        let reply = put(&mut stream, self.write_ticket(node, slice), bytes).await;
        assert!(
            matches!(reply, TransferReply::Stored { bytes: stored, .. } if stored == bytes.len() as u64),
            "{reply:?}"
        );
        let report = self.report(node.session).await;
        assert!(matches!(&report, Report::Stored(stored) if stored.header.slice == SliceId(slice)), "{report:?}");
        stream.close().await;
    }

    pub(crate) async fn get(&self, node: &FakeNode, slice: u128) -> Result<Vec<u8>, Refusal> {
        let mut stream = self.connect(node).await;
        get(&mut stream, self.read_ticket(node, slice), slice, 0..u64::MAX).await
    }

    /// A driver's conversation.
    pub(crate) async fn drive(&self, node: &FakeNode) -> Driver {
        let mut stream = self.connect(node).await;
        stream.send(&TransferRequest::Spe { ticket: self.compute_ticket(node) }).await.unwrap();
        let reply = stream.receive::<TransferReply>().await.unwrap();
        assert_eq!(reply, TransferReply::Ready);
        Driver { stream, inputs: self.inputs_ticket(node, &[1, 2, 3, 4]), printed: Vec::new() }
    }
}

impl FakeNode {
    /// Stops it in order; its folder stays.
    pub(crate) async fn stop(self) {
        self.stop.finish(PATIENCE).await.unwrap();
    }

    /// The only file below its data folder that has this content, for damaging it.
    pub(crate) fn file_with(&self, bytes: &[u8]) -> PathBuf {
        let mut unread = vec![self.folder.clone()];
        let mut found = Vec::new();
        while let Some(path) = unread.pop() {
            if path.is_dir() {
                unread.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if std::fs::read(&path).unwrap() == bytes {
                found.push(path);
            }
        }
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

/// The driver's end of a conversation with a node.
pub(crate) struct Driver {
    pub(crate) stream: TransferStream,
    /// What the master allows the job to read.
    pub(crate) inputs: SignedTicket,
    /// What functions have printed.
    pub(crate) printed: Vec<PrintedOutput>,
}

impl Driver {
    /// Sends a request with the ticket for its inputs, and returns the answer that follows the signs of life.
    pub(crate) async fn ask(&mut self, request: SpeRequest) -> SpeReply {
        self.tell(request).await;
        loop {
            match timeout(PATIENCE, self.stream.receive()).await.unwrap().unwrap() {
                SpeReply::Progress { .. } => {}
                SpeReply::Printed(printed) => self.printed.push(printed),
                reply => return reply,
            }
        }
    }

    pub(crate) async fn tell(&mut self, mut request: SpeRequest) {
        if let SpeRequest::Run(order) = &mut request {
            order.inputs.get_or_insert_with(|| self.inputs.clone());
        }
        self.stream.send(&request).await.unwrap();
    }
}

pub(crate) async fn put(stream: &mut TransferStream, ticket: SignedTicket, bytes: &[u8]) -> TransferReply {
    put_along(stream, ticket, vec![], bytes).await
}

/// The same with a chain after the first node.
pub(crate) async fn put_along(
    stream: &mut TransferStream,
    ticket: SignedTicket,
    chain: Vec<Source>,
    bytes: &[u8],
) -> TransferReply {
    match ask_to_write(stream, ticket, chain).await {
        TransferReply::Ready => {}
        refused => return refused,
    }
    send_frames(stream, bytes).await;
    stream.end_frames().await.unwrap();
    stream.receive().await.unwrap()
}

pub(crate) async fn ask_to_write(
    stream: &mut TransferStream,
    ticket: SignedTicket,
    chain: Vec<Source>,
) -> TransferReply {
    stream.send(&TransferRequest::Write { ticket, chain }).await.unwrap();
    stream.receive().await.unwrap()
}

pub(crate) async fn send_frames(stream: &mut TransferStream, bytes: &[u8]) {
    for frame in bytes.chunks(FRAME_BYTES) {
        stream.send_frame(frame).await.unwrap();
    }
}

pub(crate) fn write_right(slice: u128) -> TicketRight {
    TicketRight::Write { lease: LeaseId(1), header: header(slice), resume: None, base: None }
}

/// Reads a range; an error of the connection is a panic.
pub(crate) async fn get(
    stream: &mut TransferStream,
    ticket: SignedTicket,
    slice: u128,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, Refusal> {
    let request = TransferRequest::Read { ticket, slice: SliceId(slice), from: range.start, until: range.end };
    stream.send(&request).await.unwrap();
    let announced = match stream.receive::<TransferReply>().await.unwrap() {
        TransferReply::Reading { bytes } => bytes,
        TransferReply::Refused(refusal) => return Err(refusal),
        other => panic!("{other:?}"),
    };
    let (mut content, mut frame) = (Vec::new(), StreamFrame::default());
    while stream.receive_frame(&mut frame).await.unwrap() {
        content.extend_from_slice(&frame.payload);
    }
    assert_eq!(content.len() as u64, announced);
    Ok(content)
}

pub(crate) fn header(slice: u128) -> SliceHeader {
    SliceHeader {
        slice: SliceId(slice),
        path: path("/in/file"),
        version: Version(1),
        owner: UserName::new("alice").unwrap(),
        modified_unix_millis: 0,
        copies: 1,
        records: RecordFraming::File,
        user: BTreeMap::new(),
        journal: protocol::JournalId(1),
        acl: None,
    }
}

pub(crate) fn path(text: &str) -> SectorPath {
    SectorPath::parse(text).unwrap()
}

/// Bytes that do not repeat within a block.
pub(crate) fn content(bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(step).collect()
}

/// Flips a byte of a file.
pub(crate) fn damage(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
}

/// An SPE.
pub(crate) fn child_program() -> SpeProgram {
    SpeProgram { executable: env!("CARGO_BIN_EXE_sector-node-spe").into(), arguments: vec![] }
}

pub(crate) const JOB: JobId = JobId(7);
const FRAME_BYTES: usize = 300_000;

/// The name of a node that is not under test.
pub(crate) const SOME_NODE: &str = "some-node";
