//! The master's rules, driven by a bench that plays clock, journal, clients and nodes. Nothing here waits for anything:
//! time passes when a test says so.

#![allow(clippy::unwrap_used)]

mod attempts;
mod audit;
mod chains;
mod clock;
mod colocation;
mod dates;
mod disks;
mod drain;
mod drivers;
mod events;
mod fake_nodes;
mod files;
mod job_histories;
mod job_logs;
mod jobs;
mod journal_restore;
mod links;
mod load;
mod marks;
mod memory_files;
mod metadata;
mod node_churn;
mod nodes;
mod once;
mod per_user;
mod placement_constraints;
mod policies;
mod quotas;
mod random_faults;
mod rebalance;
mod rebuild;
mod replication;
mod restart;
mod rights;
mod rights_table;
mod security_proxy;
mod server;
mod session_recheck;
mod stale_journal;
mod subtree_removal;
mod topology;
mod trash;
mod uploads;
mod versions;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use fake_nodes::FakeNode;
use protocol::{
    CredentialId, Digest, LeaseId, NodeId, Now, Place, Refusal, SectorPath, SessionId, SliceHeader, SliceId,
    SliceMetadata, Status, UserName,
    disk::DiskStatus,
    message::{
        audit::{AuditEvent, AuditHead, RefusedTickets},
        client_master::{
            ClientReply, ClientRequest, Condition, CreateRequest, Created, Entry, EntryKind, EntryStatus, Health,
            Located, Source,
        },
        master_security::{KnownUser, SecurityReply, SecurityRequest, UserRights},
        node_master::{Ack, HeldSlice, HeldState, Order, Report},
        rebuild::{Conflict, ConflictKind, MirrorBase, MirrorUpdate, RebuildRequest, RebuildState, RebuildStatus},
        request::{CommitRequest, HealthRequest, LocateRequest, StatRequest},
        work::{WorkItem, WorkKind},
    },
    ticket::{HolderKey, SignedTicket, Ticket, TicketKeys, TicketRight},
    wire::codec,
};
use store::RowChange;

use crate::{
    BatchId, Master, MasterAction, MasterCompletion, MasterConfig, MasterMessage, NodeJoin, OrderId, OrderOutcome,
    SessionCaller, SignTickets, StoredRow, actions::ClientJoin,
};

/// A cloud without sockets and disks.
pub(super) struct Bench {
    pub(super) master: Master,
    pub(super) now: Now,
    config: MasterConfig,
    seed: u64,
    /// The rows of the journal.
    pub(super) rows: BTreeMap<(&'static str, Vec<u8>), Vec<u8>>,
    /// Joining nodes report their inventory before their mirror position.
    pub(super) tells_held_first: bool,
    /// Batches being written to the journal.
    pub(super) unsaved: VecDeque<(BatchId, Vec<RowChange>)>,
    /// Whether the journal saves at once.
    pub(super) saves: bool,
    pub(super) nodes: BTreeMap<NodeId, FakeNode>,
    pub(super) replies: BTreeMap<u64, ClientReply>,
    clients: BTreeMap<String, SessionId>,
    pub(super) closed: BTreeSet<SessionId>,
    /// Callers that want the topology file to be read.
    pub(super) topology_asked: Vec<SessionCaller>,
    /// Events that reached the audit record.
    pub(super) audited: Vec<AuditEvent>,
    /// Whether they are answered at once.
    pub(super) audit_answers: bool,
    /// Questions to the security server, in order.
    pub(super) security_asked: Vec<(SessionCaller, SecurityRequest)>,
    /// How long the machine slept since the master was started.
    slept: Duration,
    /// How far the master's wall clock is from the true time.
    pub(super) clock_ahead_millis: i64,
    next_number: u64,
    next_report: Duration,
}

/// Signs with nothing, so that a test can read the ticket.
struct NoSignature(u8);

impl SignTickets for NoSignature {
    fn sign(&self, ticket: &Ticket) -> SignedTicket {
        SignedTicket { ticket: codec::encode(ticket), signature: Vec::new(), delegation: None }
    }

    fn public_keys(&self) -> TicketKeys {
        TicketKeys { current: [self.0; 32], next: [self.0 + 1; 32] }
    }

    fn roll(&mut self) {
        self.0 += 1;
    }
}

pub(super) fn read_ticket(ticket: &SignedTicket) -> Ticket {
    codec::decode(&ticket.ticket).unwrap()
}

/// The header of the slice that a write ticket is for.
pub(super) fn write_header(source: &Source) -> SliceHeader {
    match read_ticket(&source.ticket).right {
        TicketRight::Write { header, .. } => header,
        other => panic!("no write ticket: {other:?}"),
    }
}

pub(super) fn path(text: &str) -> SectorPath {
    SectorPath::parse(text).unwrap()
}

pub(super) fn node(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

pub(super) fn rights_of(user: &str) -> UserRights {
    let mut names = user.split('@');
    let user = UserName::new(names.next().unwrap()).unwrap();
    UserRights { admin: user.as_str() == "admin", user, groups: names.map(str::to_owned).collect() }
}

pub(super) fn digest(bytes: u64) -> Digest {
    let mut digest = [7; 32];
    digest[..8].copy_from_slice(&bytes.to_be_bytes());
    Digest(digest)
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn create(at: &str) -> CreateRequest {
    CreateRequest {
        path: path(at),
        bytes_expected: Some(100),
        copies: None,
        sync_copies: None,
        records: protocol::RecordFraming::File,
        user: BTreeMap::new(),
        condition: Condition::Any,
        parents: false,
        at: None,
        resume: None,
        append: false,
    }
}

pub(super) fn content(entry: &Entry) -> &protocol::message::client_master::FileContent {
    match &entry.kind {
        EntryKind::File(content) => content,
        EntryKind::Folder => panic!("{} is a folder", entry.path),
    }
}

pub(super) fn config() -> MasterConfig {
    MasterConfig { copies: 2, sync_copies: 2, reserve_bytes: 1_000, ..MasterConfig::default() }
}

impl Bench {
    /// A master alone.
    pub(super) fn new(config: MasterConfig, seed: u64) -> Self {
        let now = Now { monotonic: Duration::from_secs(1), unix_millis: 1_700_000_000_000 };
        let master = Master::new(now, config, seed, Box::new(NoSignature(1)), Vec::new()).unwrap();
        let mut bench = Self {
            master,
            now,
            config,
            seed,
            rows: BTreeMap::new(),
            tells_held_first: false,
            unsaved: VecDeque::new(),
            saves: true,
            nodes: BTreeMap::new(),
            replies: BTreeMap::new(),
            clients: BTreeMap::new(),
            closed: BTreeSet::new(),
            topology_asked: Vec::new(),
            security_asked: Vec::new(),
            audited: Vec::new(),
            audit_answers: true,
            slept: Duration::ZERO,
            clock_ahead_millis: 0,
            next_number: 0,
            next_report: Duration::ZERO,
        };
        // Nothing in the tests is older than the journal unless a test says so.
        bench.advance(seconds(1));
        bench
    }

    /// A master with nodes `n1` ... at `site/rack` each.
    pub(super) fn with_nodes(places: &[&str]) -> Self {
        Self::configured(config(), places)
    }

    /// The same where replaced content goes at once, for tests of what becomes of its bytes then.
    pub(super) fn without_versions(places: &[&str]) -> Self {
        Self::configured(MasterConfig { versions: Duration::ZERO, ..config() }, places)
    }

    pub(super) fn configured(config: MasterConfig, places: &[&str]) -> Self {
        let mut bench = Self::new(config, 1);
        for (index, place) in places.iter().enumerate() {
            bench.add_node(&format!("n{}", index + 1), place);
        }
        // Past the time in which a started master waits for its nodes.
        bench.advance(config.replicate_after + seconds(1));
        bench
    }

    /// The master's process ends without notice and starts again on its journal. Clients log in again by themselves,
    /// nodes when the test says so.
    pub(super) fn restart_master(&mut self) {
        self.seed += 1;
        self.unsaved.clear();
        self.slept = Duration::ZERO;
        self.clients.clear();
        for fake in self.nodes.values_mut() {
            fake.session = None;
            fake.unanswered.clear();
        }
        let rows =
            self.rows.iter().map(|((table, key), value)| StoredRow { table, key: key.clone(), value: value.clone() });
        self.master = Master::new(self.now, self.config, self.seed, Box::new(NoSignature(1)), rows).unwrap();
        self.run();
    }

    /// The reading of a correct clock.
    pub(super) fn true_unix_millis(&self) -> u64 {
        self.now.unix_millis.saturating_add_signed(-self.clock_ahead_millis)
    }

    /// The machine sleeps: time passes by the wall clock, and nothing else happens.
    pub(super) fn sleep(&mut self, span: Duration) {
        self.slept += span;
        self.now.unix_millis += u64::try_from(span.as_millis()).unwrap();
        self.master.note_suspended(self.slept);
    }

    /// Lets time pass, with everything that is due: timeouts, status reports.
    pub(super) fn advance(&mut self, span: Duration) {
        let end = self.now.after(span);
        loop {
            let due = self.master.next_timeout().min(self.next_report).max(self.now.monotonic);
            if due > end.monotonic {
                break;
            }
            self.now = self.now.after(due - self.now.monotonic);
            if self.next_report <= self.now.monotonic {
                self.next_report = self.now.monotonic + seconds(1);
                for id in self.nodes.keys().map(ToString::to_string).collect::<Vec<_>>() {
                    self.report_status(&id);
                }
            }
            self.master.handle_timeout(self.now);
            self.run();
        }
        self.now = end;
    }

    /// Asks as `user` and returns the request's number. An administrator is called `admin`, and `bob@astro` is bob of
    /// the group astro.
    pub(super) fn ask_later(&mut self, user: &str, request: ClientRequest) -> u64 {
        let session = match self.clients.get(user) {
            Some(session) if self.master.peer(*session).is_some() => *session,
            _ => self.login(user, [192, 0, 2, 1].into()),
        };
        let number = self.number();
        let from = SessionCaller { session, request: Some(number) };
        self.master.handle_message(self.now, from, MasterMessage::Client(request));
        self.run();
        number
    }

    pub(super) fn login(&mut self, user: &str, address: IpAddr) -> SessionId {
        let session = SessionId(self.number());
        let rights = rights_of(user);
        let known = KnownUser { rights, credential: CredentialId(session.0), until_unix_millis: None };
        let holder = HolderKey([session.0 as u8; 32]);
        self.master.open_client_session(
            self.now,
            session,
            ClientJoin { user: known, address, holder, proved_from: address, drives: None },
        );
        self.clients.insert(user.into(), session);
        session
    }

    pub(super) fn answer(&mut self, number: u64) -> Option<ClientReply> {
        self.replies.remove(&number)
    }

    pub(super) fn ask(&mut self, user: &str, request: ClientRequest) -> ClientReply {
        let number = self.ask_later(user, request.clone());
        let reply = self.answer(number).expect("an answer at once");
        // The reply is the one that the request is tied to: a client takes no other.
        assert!(request.is_answered_by(&reply), "{request:?}: {reply:?}");
        reply
    }

    pub(super) fn done(&mut self, user: &str, request: ClientRequest) {
        assert_eq!(self.ask(user, request), ClientReply::Done);
    }

    pub(super) fn refused(&mut self, user: &str, request: ClientRequest) -> Refusal {
        match self.ask(user, request.clone()) {
            ClientReply::Refused(refusal) => refusal,
            other => panic!("{request:?} was not refused: {other:?}"),
        }
    }

    pub(super) fn status_of(&mut self, user: &str, request: ClientRequest) -> Status {
        self.refused(user, request).status()
    }

    pub(super) fn created(&mut self, user: &str, request: CreateRequest) -> Created {
        match self.ask(user, ClientRequest::Create(request)) {
            ClientReply::Created(created) => created,
            other => panic!("not created: {other:?}"),
        }
    }

    /// The target node gets all bytes and reports them. So do the nodes of the chain up to the first that does not
    /// answer. One that cannot copy is reported by the one before it.
    pub(super) fn write(&mut self, created: &Created, bytes: u64) {
        self.write_to_target(created, bytes);
        for source in &created.chain {
            let fake = &self.nodes[&source.node];
            if fake.session.is_none() || !fake.answers {
                return;
            }
            if fake.fails_copies {
                let failed = Report::ForwardFailed { slice: created.slice, node: source.node.clone() };
                return self.report(created.target.node.as_str(), failed);
            }
            self.store(source.node.as_str(), write_header(source), bytes);
        }
    }

    /// The target node alone gets all bytes and reports them.
    pub(super) fn write_to_target(&mut self, created: &Created, bytes: u64) {
        self.store(created.target.node.as_str(), write_header(&created.target), bytes);
    }

    /// A node has synced a slice and reports it.
    pub(super) fn store(&mut self, id: &str, header: SliceHeader, bytes: u64) {
        let metadata = SliceMetadata { header, bytes, digest: digest(bytes) };
        let held = HeldSlice { metadata: metadata.clone(), state: HeldState::Staged };
        self.node_mut(id).held.insert(metadata.header.slice, held);
        self.report(id, Report::Stored(metadata));
    }

    pub(super) fn commit_later(&mut self, user: &str, lease: LeaseId, bytes: u64) -> u64 {
        self.ask_later(user, ClientRequest::Commit(CommitRequest { lease, bytes, digest: digest(bytes) }))
    }

    /// A whole upload.
    pub(super) fn put(&mut self, user: &str, request: CreateRequest, bytes: u64) -> Entry {
        let created = self.created(user, request);
        self.write(&created, bytes);
        let number = self.commit_later(user, created.lease, bytes);
        match self.answer(number) {
            Some(ClientReply::Entry(entry)) => entry,
            other => panic!("not committed: {other:?}"),
        }
    }

    pub(super) fn stat(&mut self, at: &str) -> EntryStatus {
        match self.ask("admin", ClientRequest::Stat(StatRequest(path(at)))) {
            ClientReply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn exists(&mut self, at: &str) -> bool {
        matches!(self.ask("admin", ClientRequest::Stat(StatRequest(path(at)))), ClientReply::Status(_))
    }

    pub(super) fn locate(&mut self, user: &str, at: &str) -> Located {
        match self.ask(user, ClientRequest::Locate(LocateRequest(path(at)))) {
            ClientReply::Located(located) => located,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn health(&mut self) -> Health {
        match self.ask("admin", ClientRequest::Health(HealthRequest)) {
            ClientReply::Health(health) => health,
            other => panic!("{other:?}"),
        }
    }

    /// The security server answers, or cannot be reached.
    pub(super) fn hear_security(&mut self, to: SessionCaller, reply: Result<SecurityReply, Refusal>) {
        self.master.handle_completion(self.now, MasterCompletion::SecurityAnswered { to, reply });
        self.run();
    }

    /// Lets the journal save everything it was given so far.
    pub(super) fn save_all(&mut self) {
        while let Some((batch, changes)) = self.unsaved.pop_front() {
            for change in changes {
                match change {
                    RowChange::Set { table, key, value } => drop(self.rows.insert((table, key), value)),
                    RowChange::Remove { table, key } => drop(self.rows.remove(&(table, key))),
                }
            }
            self.master.handle_completion(self.now, MasterCompletion::Saved { batch });
            self.perform();
        }
    }

    /// Performs the master's actions until there are none left.
    pub(super) fn run(&mut self) {
        self.perform();
        while self.saves && !self.unsaved.is_empty() {
            self.save_all();
        }
    }

    fn perform(&mut self) {
        while let Some(action) = self.master.poll_action() {
            match action {
                MasterAction::Save { batch, changes } => self.unsaved.push_back((batch, changes)),
                MasterAction::Reply { to, reply } => drop(self.replies.insert(to.request.unwrap(), reply)),
                MasterAction::Ack { ack, .. } => assert_eq!(ack, Ack::Done),
                MasterAction::CloseSession(session) => {
                    self.closed.insert(session);
                    let fakes = self.nodes.values_mut().filter(|fake| fake.session == Some(session));
                    fakes.for_each(|fake| fake.session = None);
                }
                MasterAction::ReadWork { to, after } => {
                    let own = vec![WorkItem::idle(WorkKind::CertificateRenewal)];
                    self.master.handle_completion(self.now, MasterCompletion::WorkRead { to, after, own });
                }
                MasterAction::ReadMetrics { to } => {
                    let text = "of the master".into();
                    self.master.handle_completion(self.now, MasterCompletion::MetricsRead { to, text });
                }
                MasterAction::ReadTopology { to } => self.topology_asked.push(to),
                MasterAction::AskSecurity { to, request } => self.security_asked.push((to, request)),
                MasterAction::SendAudit(batch) => {
                    self.audited.extend(batch.events);
                    if self.audit_answers {
                        self.audit_sent(Ok(()));
                    }
                }
                MasterAction::Order { session, order, body } => {
                    let of_session = |(_, fake): &(&NodeId, &FakeNode)| fake.session == Some(session);
                    let Some(id) = self.nodes.iter().find(of_session).map(|(id, _)| id.clone()) else { continue };
                    let fake = self.nodes.get_mut(&id).unwrap();
                    fake.orders.push(body.clone());
                    if fake.answers {
                        self.obey(&id, order, &body);
                    } else {
                        fake.unanswered.push((order, body));
                    }
                }
            }
        }
    }

    /// The batch of events is recorded, or could not be sent.
    pub(super) fn audit_sent(&mut self, brought: Result<(), Refusal>) {
        let head = AuditHead { number: self.audited.len() as u64, hash: [1; 32] };
        self.master.handle_completion(self.now, MasterCompletion::AuditSent(brought.map(|()| head)));
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}
