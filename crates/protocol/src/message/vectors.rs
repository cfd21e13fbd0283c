//! Test vectors: one value of every variant of every top-level message, with its encoding. A build with another
//! encoding does not understand its neighbours, nor yesterday's tickets and journals. So a changed vector means a new
//! [`VERSION`](crate::wire::codec::VERSION). The files in `tests/vectors/`, one per door, have a name and hexadecimal
//! bytes a line. A new variant needs a value to compile. `UPDATE_VECTORS=1` rewrites all lines.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fmt::Debug, net::SocketAddr};

use data_encoding::HEXLOWER;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    access::{AclReply, AclRequest},
    accounts::{AccountsReply, AccountsRequest},
    admission::{AdmissionReply, AdmissionVerb},
    audit::{AuditHead, AuditQuestion, AuditReply},
    client_master::{
        Admitted, ClientReply, ClientRequest, Condition, Copies, CopyState, CopyStatus, CreateRequest, Created,
        DriverKey, Entry, EntryKind, EntryStatus, FileContent, FileVersion, FoundCopy, Health, JobRecord, JobState,
        LeasePage, ListPage, Located, NodeState, NodeStatus, OpenLease, QuotaOf, QuotaPage, QuotaStatus, SiteLink,
        Source, SpeNode, StageRecord, TrashItem, TrashKey, TrashPage, Usage,
    },
    cluster::{
        DrainRequest, Membership, MovePlan, NodeRemoval, PlannedMove, RebalanceStatus, RebalanceVerb,
        RemoveNodeRequest, TopologyStatus,
    },
    history::NodeMarks,
    master_security::{KnownUser, UserRights},
    node_master::{
        Ack, DriveOrder, HeldPartial, HeldSlice, HeldState, IncomingWrite, LinkShare, LinkUse, Order, Report,
        Revocation,
    },
    rebuild::{
        Conflict, ConflictKind, MirrorBase, MirrorKey, MirrorPosition, MirrorRow, MirrorUpdate, RebuildRequest,
        RebuildState, RebuildStatus,
    },
    spe::BucketId,
};
use crate::{
    Acl, Counters, CredentialId, Digest, FileId, JobId, JournalId, LeaseId, NodeId, Place, Policy, Priority, Reason,
    RecordFraming, Refusal, ResumeKey, SectorPath, SliceHeader, SliceId, SliceMetadata, Topology, TransferQos,
    UserName, Version,
    disk::{DiskState, DiskStatus, ScrubStatus},
    message::{
        client_master::PolicyStatus,
        request::{
            AbandonRequest, AdmitJobRequest, BreakLeaseRequest, CancelJobRequest, ChangeMetadataRequest, CommitRequest,
            ConfirmClockRequest, CopiesRequest, CreateDatedRequest, DetachJobRequest, DismissRequest,
            EmptyTrashRequest, FindJobsRequest, FinishRebuildRequest, ForgetNodeRequest, GetAclRequest, HealthRequest,
            ImportRequest, JobRequest, JobsRequest, LeasesRequest, ListRequest, LocateRequest, LogoutRequest,
            MakeFolderRequest, MarksRequest, MetricsRequest, MetricsSource, NodesRequest, OnceRequest, PolicyRequest,
            QuotasRequest, RebuildStatusRequest, RecoverRequest, RemoveContentRequest, RemoveRequest, RenameRequest,
            RenewRequest, ReportJobRequest, RequestId, RestoreRequest, SetPolicyRequest, SetQuotaRequest, StatRequest,
            TopologyRequest, TrashRequest, UsageRequest, VerifyAuditRequest, VersionsRequest, WaitingMachinesRequest,
            WhoAmIRequest, WorkRequest,
        },
    },
    sandbox::SandboxLayer,
    ticket::{SignedTicket, TicketKeys},
    topology::{Distance, Link, SitePair},
    wire::codec,
};

/// The vectors of one file, while they are compared.
struct Vectors {
    name: &'static str,
    expected: BTreeMap<&'static str, &'static str>,
    found: Vec<String>,
    wrong: Vec<String>,
}

impl Vectors {
    fn of(name: &'static str, file: &'static str) -> Self {
        let lines = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self {
            expected: lines.map(|line| line.split_once(' ').unwrap()).collect(),
            found: Vec::new(),
            wrong: Vec::new(),
            name,
        }
    }

    fn compare<T: Serialize + DeserializeOwned + PartialEq + Debug>(&mut self, name: &'static str, value: &T) {
        let encoded = codec::encode(value);
        assert_eq!(codec::decode::<T>(&encoded).as_ref(), Ok(value), "{name} does not survive its own encoding");
        let hex = HEXLOWER.encode(&encoded);
        let line = format!("{name} {hex}");
        if self.expected.remove(name) != Some(&hex) {
            self.wrong.push(line.clone());
        }
        self.found.push(line);
    }

    fn finish(self) {
        if std::env::var_os("UPDATE_VECTORS").is_some() {
            let file = format!("{}/tests/vectors/{}.txt", env!("CARGO_MANIFEST_DIR"), self.name);
            let head = "# Name and encoding of a value; made and compared by src/message/vectors.rs.";
            return std::fs::write(file, format!("{head}\n{}\n", self.found.join("\n"))).unwrap();
        }
        assert!(self.expected.is_empty(), "vectors without a value: {:?}", self.expected.keys());
        assert!(self.wrong.is_empty(), "the encoding has changed, or is new:\n{}", self.wrong.join("\n"));
    }
}

/// Compares a value of each variant. The match has no wildcard, so that no variant is forgotten. A failing test prints
/// the line to add.
macro_rules! compare {
    ($vectors:ident, $type:ident { $($name:literal: $pattern:pat => $value:expr),+ $(,)? }) => {{
        fn name(value: &$type) -> &'static str {
            match value {
                $($pattern => $name),+
            }
        }
        $(
            let value: $type = $value;
            assert_eq!(name(&value), $name);
            $vectors.compare(concat!(stringify!($type), ".", $name), &value);
        )+
    }};
}

// After the macro, which it uses.
mod accounts;
mod acl;
mod admission;
mod audit;
mod events;
mod history;
mod joining;
mod links;
mod load;
mod local;
mod login;
mod marks;
mod reasons;
mod spe;
mod tickets;
mod transfer;
mod work;

#[test]
fn the_requests_of_a_client_have_their_bytes() {
    let mut vectors = Vectors::of("client_request", include_str!("../../tests/vectors/client_request.txt"));
    let create = CreateRequest {
        path: path(),
        bytes_expected: Some(1 << 40),
        copies: Some(3),
        sync_copies: None,
        records: RecordFraming::Fixed(100),
        user: keys(),
        condition: Condition::Version(Version(17)),
        parents: true,
        at: Some(node()),
        resume: Some(ResumeKey(0x1234)),
        append: true,
    };
    let list = ClientRequest::List(ListRequest {
        folder: SectorPath::root(),
        recursive: true,
        after: Some(path()),
        with_nodes: false,
    });
    compare!(vectors, ClientRequest {
        "create": ClientRequest::Create(_) => ClientRequest::Create(create.clone()),
        "find-jobs": ClientRequest::FindJobs(_) => ClientRequest::FindJobs(FindJobsRequest {
            user: Some(UserName::new("ann").unwrap()),
            state: Some(JobState::Lost),
        }),
        "create-dated": ClientRequest::CreateDated(_) => ClientRequest::CreateDated(CreateDatedRequest {
            create: create.clone(),
            modified_unix_millis: 1_600_000_000_123,
        }),
        "renew": ClientRequest::Renew(_) => ClientRequest::Renew(RenewRequest(LeaseId(5))),
        "commit": ClientRequest::Commit(_) =>
            ClientRequest::Commit(CommitRequest { lease: LeaseId(5), bytes: 1_000_000, digest: digest() }),
        "abandon": ClientRequest::Abandon(_) => ClientRequest::Abandon(AbandonRequest(LeaseId(u64::MAX))),
        "locate": ClientRequest::Locate(_) => ClientRequest::Locate(LocateRequest(path())),
        "stat": ClientRequest::Stat(_) => ClientRequest::Stat(StatRequest(path())),
        "list": ClientRequest::List(_) => list,
        "make-folder": ClientRequest::MakeFolder(_) => ClientRequest::MakeFolder(MakeFolderRequest { path: path(), parents: true }),
        "rename": ClientRequest::Rename(_) => ClientRequest::Rename(RenameRequest { from: path(), to: SectorPath::parse("/ü").unwrap() }),
        "remove": ClientRequest::Remove(_) => ClientRequest::Remove(RemoveRequest { path: path(), recursive: false, now: true }),
        "usage": ClientRequest::Usage(_) => ClientRequest::Usage(UsageRequest(SectorPath::root())),
        "nodes": ClientRequest::Nodes(NodesRequest) => ClientRequest::Nodes(NodesRequest),
        "health": ClientRequest::Health(HealthRequest) => ClientRequest::Health(HealthRequest),
        "admit-job": ClientRequest::AdmitJob(_) => ClientRequest::AdmitJob(AdmitJobRequest {
            title: "terasort /in".into(),
            output: Some(path()),
        }),
        "detach-job": ClientRequest::DetachJob(_) =>
            ClientRequest::DetachJob(DetachJobRequest { job: JobId(6), journal: path(), keys: vec![DriverKey([8; 32])] }),
        "report-job": ClientRequest::ReportJob(_) => ClientRequest::ReportJob(ReportJobRequest(job())),
        "jobs": ClientRequest::Jobs(JobsRequest) => ClientRequest::Jobs(JobsRequest),
        "job": ClientRequest::Job(_) => ClientRequest::Job(JobRequest(JobId(6))),
        "cancel-job": ClientRequest::CancelJob(_) => ClientRequest::CancelJob(CancelJobRequest(JobId(6))),
        "logout": ClientRequest::Logout(LogoutRequest) => ClientRequest::Logout(LogoutRequest),
        "drain": ClientRequest::Drain(_) =>
            ClientRequest::Drain(DrainRequest { node: node(), dry_run: true, undo: false }),
        "remove-node": ClientRequest::RemoveNode(_) => ClientRequest::RemoveNode(RemoveNodeRequest {
            node: node(),
            force: true,
            dry_run: false,
            undo: true,
        }),
        "rebalance": ClientRequest::Rebalance(_) => ClientRequest::Rebalance(RebalanceVerb::Begin),
        "topology": ClientRequest::Topology(_) => ClientRequest::Topology(TopologyRequest { reload: true }),
        "policy": ClientRequest::Policy(_) => ClientRequest::Policy(PolicyRequest(path())),
        "set-policy": ClientRequest::SetPolicy(_) => ClientRequest::SetPolicy(SetPolicyRequest { path: path(), policy: policy() }),
        "trash": ClientRequest::Trash(_) => ClientRequest::Trash(TrashRequest { all_users: true, after: Some(trash_key()) }),
        "restore": ClientRequest::Restore(_) => ClientRequest::Restore(RestoreRequest { path: path(), to: Some(path()) }),
        "empty-trash": ClientRequest::EmptyTrash(_) => ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: false }),
        "quotas": ClientRequest::Quotas(_) => ClientRequest::Quotas(QuotasRequest { after: Some(QuotaOf::User(user())) }),
        "set-quota": ClientRequest::SetQuota(_) => ClientRequest::SetQuota(SetQuotaRequest { user: user(), bytes: Some(1 << 40), files: None }),
        "copies": ClientRequest::Copies(_) => ClientRequest::Copies(CopiesRequest(path())),
        "rebuild": ClientRequest::Rebuild(_) => ClientRequest::Rebuild(RebuildRequest::Status(RebuildStatusRequest { after: Some(slice()) })),
        "import": ClientRequest::Import(_) => ClientRequest::Import(ImportRequest { node: node() }),
        "accounts": ClientRequest::Accounts(_) => ClientRequest::Accounts(AccountsRequest::WhoAmI(WhoAmIRequest)),
        "acl": ClientRequest::Acl(_) => ClientRequest::Acl(AclRequest::Get(GetAclRequest(path()))),
        "admission": ClientRequest::Admission(_) => ClientRequest::Admission(AdmissionVerb::Requests(WaitingMachinesRequest)),
        "audit": ClientRequest::Audit(_) => ClientRequest::Audit(AuditQuestion::Verify(VerifyAuditRequest)),
        "history": ClientRequest::History(_) => ClientRequest::History(history::tell()),
        "confirm-clock": ClientRequest::ConfirmClock(ConfirmClockRequest) => ClientRequest::ConfirmClock(ConfirmClockRequest),
        "once": ClientRequest::Once(_) =>
            ClientRequest::Once(OnceRequest { id: RequestId(7), request: Box::new(ClientRequest::Stat(StatRequest(path()))) }),
        "work": ClientRequest::Work(_) => ClientRequest::Work(WorkRequest { after: Some(node()) }),
        "metrics": ClientRequest::Metrics(_) => ClientRequest::Metrics(MetricsRequest { of: MetricsSource::Node(node()) }),
        "leases": ClientRequest::Leases(_) => ClientRequest::Leases(LeasesRequest { all_users: true, after: Some(path()) }),
        "load": ClientRequest::Load(_) => ClientRequest::Load(load::asked()),
        "load-series": ClientRequest::LoadSeries(_) => ClientRequest::LoadSeries(load::series_asked()),
        "marks": ClientRequest::Marks(MarksRequest) => ClientRequest::Marks(MarksRequest),
        "change-mark": ClientRequest::ChangeMark(_) => ClientRequest::ChangeMark(marks::change()),
        "links": ClientRequest::Links(_) => ClientRequest::Links(links::asked()),
        "link-series": ClientRequest::LinkSeries(_) => ClientRequest::LinkSeries(links::series_asked()),
        "break-lease": ClientRequest::BreakLease(_) => ClientRequest::BreakLease(BreakLeaseRequest(path())),
        "events": ClientRequest::Events(_) => ClientRequest::Events(events::asked()),
        "remove-content": ClientRequest::RemoveContent(_) =>
            ClientRequest::RemoveContent(RemoveContentRequest { path: path(), slice: slice() }),
        "change-metadata": ClientRequest::ChangeMetadata(_) => ClientRequest::ChangeMetadata(ChangeMetadataRequest {
            path: path(),
            slice: slice(),
            changes: BTreeMap::from([("k".into(), Some("v".into())), ("l".into(), None)]),
        }),
        "versions": ClientRequest::Versions(_) => ClientRequest::Versions(VersionsRequest(path())),
    });
    compare!(vectors, RebuildRequest {
        "status": RebuildRequest::Status(_) => RebuildRequest::Status(RebuildStatusRequest { after: None }),
        "finish": RebuildRequest::Finish(FinishRebuildRequest) => RebuildRequest::Finish(FinishRebuildRequest),
        "recover": RebuildRequest::Recover(_) => RebuildRequest::Recover(RecoverRequest { slice: slice(), path: path() }),
        "dismiss": RebuildRequest::Dismiss(_) => RebuildRequest::Dismiss(DismissRequest(Some(slice()))),
        "forget": RebuildRequest::Forget(_) => RebuildRequest::Forget(ForgetNodeRequest(node())),
    });
    let absent =
        CreateRequest { condition: Condition::Absent, at: None, resume: None, append: false, ..create.clone() };
    let kept = Policy { versions_seconds: Some(86_400), ..policy() };
    vectors.compare(
        "ClientRequest.set-policy-versions",
        &ClientRequest::SetPolicy(SetPolicyRequest { path: path(), policy: kept }),
    );
    vectors.compare("ClientRequest.create-absent", &ClientRequest::Create(absent));
    let any = CreateRequest { condition: Condition::Any, records: RecordFraming::Lines, ..create };
    vectors.compare("ClientRequest.create-any", &ClientRequest::Create(any));
    vectors.finish();
}

#[test]
fn the_replies_to_a_client_have_their_bytes() {
    let mut vectors = Vectors::of("client_reply", include_str!("../../tests/vectors/client_reply.txt"));
    let folder = Entry { kind: EntryKind::Folder, nodes: vec![], ..entry() };
    let states = [CopyState::Ok, CopyState::Writing, CopyState::Stale, CopyState::Corrupt];
    let copies = states.map(|state| CopyStatus { node: node(), place: place(), state }).to_vec();
    let nodes = [NodeState::Up, NodeState::Joining, NodeState::Lost].map(node_status).to_vec();
    let health = Health {
        reasons: vec!["1 node is lost".into()],
        under_replicated: 2,
        corrupt: 1,
        lost: 0,
        misplaced: 3,
        short_of_nodes: 4,
        refused_tickets: audit::refused(),
        insecure_sites: vec!["uic".into()],
    };
    let status = |state| CopyStatus { node: node(), place: place(), state };
    let found = vec![
        FoundCopy { status: status(CopyState::Ok), source: Some(source()) },
        FoundCopy { status: status(CopyState::Corrupt), source: None },
    ];
    let admitted = Admitted {
        job: JobId(6),
        nodes: vec![SpeNode { source: source(), slots: 2, is_marked: true }],
        links: vec![SiteLink { a: "jhu".into(), b: "uic".into(), bytes_per_second: 1_250_000 }],
    };
    let states = [JobState::Running, JobState::Done, JobState::Failed, JobState::Cancelled, JobState::Lost];
    let jobs = states.map(|state| JobRecord { state, ..job() }).to_vec();
    compare!(vectors, ClientReply {
        "done": ClientReply::Done => ClientReply::Done,
        "created": ClientReply::Created(_) =>
            ClientReply::Created(Created {
                lease: LeaseId(5),
                slice: slice(),
                target: source(),
                chain: vec![source()],
                base_bytes: 1 << 20,
            }),
        "entry": ClientReply::Entry(_) => ClientReply::Entry(entry()),
        "located": ClientReply::Located(_) => ClientReply::Located(Located { entry: entry(), sources: vec![source()] }),
        "status": ClientReply::Status(_) => ClientReply::Status(EntryStatus { entry: folder.clone(), copies }),
        "page": ClientReply::Page(_) => ClientReply::Page(ListPage {
            entries: vec![folder, entry()],
            more: true,
            next: Some(path()),
        }),
        "usage": ClientReply::Usage(_) => ClientReply::Usage(Usage { files: 300, folders: 2, bytes: 1 << 50 }),
        "nodes": ClientReply::Nodes(_) => ClientReply::Nodes(nodes),
        "health": ClientReply::Health(_) => ClientReply::Health(health),
        "admitted": ClientReply::Admitted(_) => ClientReply::Admitted(admitted),
        "jobs": ClientReply::Jobs(_) => ClientReply::Jobs(jobs),
        "refused": ClientReply::Refused(_) => ClientReply::Refused(refusal(Reason::Exists)),
        "plan": ClientReply::Plan(_) => ClientReply::Plan(plan()),
        "removal": ClientReply::Removal(_) => ClientReply::Removal(NodeRemoval {
            removed: true,
            lost: 2,
            lost_paths: vec![path()],
            fewer_copies: 3,
        }),
        "rebalance": ClientReply::Rebalance(_) => ClientReply::Rebalance(RebalanceStatus {
            running: true,
            moved_files: 4,
            moved_bytes: 5,
            fill_least_permille: 600,
            fill_most_permille: 700,
            plan: plan(),
        }),
        "topology": ClientReply::Topology(_) => ClientReply::Topology(topology_status()),
        "policy": ClientReply::Policy(_) => ClientReply::Policy(PolicyStatus {
            own: Policy::default(),
            effective: policy(),
            warnings: vec!["no node is at the site `x`".into()],
        }),
        "trash": ClientReply::Trash(_) => ClientReply::Trash(TrashPage { items: vec![trash_item()], more: false }),
        "quotas": ClientReply::Quotas(_) => ClientReply::Quotas(QuotaPage { quotas: vec![quota()], more: true }),
        "copies": ClientReply::Copies(_) => ClientReply::Copies(Copies { entry: entry(), copies: found }),
        "rebuild": ClientReply::Rebuild(_) =>
            ClientReply::Rebuild(rebuild(RebuildState::Running, ConflictKind::OlderVersion)),
        "source": ClientReply::Source(_) => ClientReply::Source(source()),
        "accounts": ClientReply::Accounts(_) => ClientReply::Accounts(AccountsReply::Done),
        "acl": ClientReply::Acl(_) => ClientReply::Acl(AclReply::Inputs(signed())),
        "admission": ClientReply::Admission(_) => ClientReply::Admission(AdmissionReply::Done),
        "audit": ClientReply::Audit(_) => ClientReply::Audit(AuditReply::Recorded(AuditHead::EMPTY)),
        "history": ClientReply::History(_) => ClientReply::History(history::history()),
        "work": ClientReply::Work(_) => ClientReply::Work(work::page()),
        "metrics": ClientReply::Metrics(_) => ClientReply::Metrics("# EOF\n".into()),
        "load": ClientReply::Load(_) => ClientReply::Load(load::page()),
        "load-series": ClientReply::LoadSeries(_) => ClientReply::LoadSeries(load::series()),
        "marks": ClientReply::Marks(_) => ClientReply::Marks(marks::marks()),
        "links": ClientReply::Links(_) => ClientReply::Links(links::page()),
        "link-series": ClientReply::LinkSeries(_) => ClientReply::LinkSeries(links::series()),
        "leases": ClientReply::Leases(_) => ClientReply::Leases(LeasePage { leases: vec![open_lease()], more: false }),
        "logs": ClientReply::Logs(_) => ClientReply::Logs(history::logs()),
        "events": ClientReply::Events(_) => ClientReply::Events(events::page()),
        "versions": ClientReply::Versions(_) => ClientReply::Versions(vec![file_version()]),
    });
    compare!(vectors, RebuildState {
        "new": RebuildState::New => RebuildState::New,
        "running": RebuildState::Running => RebuildState::Running,
        "settled": RebuildState::Settled => RebuildState::Settled,
    });
    compare!(vectors, ConflictKind {
        "older-version": ConflictKind::OlderVersion => ConflictKind::OlderVersion,
        "never-placed": ConflictKind::NeverPlaced => ConflictKind::NeverPlaced,
        "path-taken": ConflictKind::PathTaken => ConflictKind::PathTaken,
        "two-paths": ConflictKind::TwoPaths => ConflictKind::TwoPaths,
        "two-owners": ConflictKind::TwoOwners => ConflictKind::TwoOwners,
        "written-since": ConflictKind::WrittenSince => ConflictKind::WrittenSince,
        "two-acls": ConflictKind::TwoAcls => ConflictKind::TwoAcls,
        "no-bytes": ConflictKind::NoBytes => ConflictKind::NoBytes,
    });
    vectors.finish();
}

#[test]
fn the_words_of_node_and_master_have_their_bytes() {
    let mut vectors = Vectors::of("node_master", include_str!("../../tests/vectors/node_master.txt"));
    compare!(vectors, Order {
        "replicate": Order::Replicate { .. } => Order::Replicate {
            header: header(),
            bytes: 12,
            from: source(),
            qos: TransferQos { rate_bytes_per_second: Some(1 << 20), priority: Priority::Low },
        },
        "place": Order::Place { .. } => Order::Place { header: header() },
        "remove": Order::Remove(_) => Order::Remove(slice()),
        "forget-job": Order::ForgetJob(_) => Order::ForgetJob(JobId(6)),
        "drive": Order::Drive(_) => Order::Drive(drive()),
        "keep": Order::Mirror(_) => Order::Mirror(keep(MirrorBase::Change(6))),
        "tell-kept": Order::ReadMirror { .. } => Order::ReadMirror { after: Some(kept_key()) },
        "revoke": Order::Revoke(_) =>
            Order::Revoke(Revocation { user: user(), last_ticket: 1_800_000_000_000 }),
        "link-shares": Order::LinkShares(_) =>
            Order::LinkShares(vec![LinkShare { site: "jhu".into(), rate_bytes_per_second: 1 << 20 }]),
        "ticket-keys": Order::TicketKeys(_) => Order::TicketKeys(TicketKeys { current: [9; 32], next: [10; 32] }),
        "struck-off": Order::StruckOff(_) => Order::StruckOff(vec![node()]),
        "read-metrics": Order::ReadMetrics => Order::ReadMetrics,
        "slow-disks": Order::SlowDisks(_) => Order::SlowDisks(vec!["/srv/a".into()]),
    });
    compare!(vectors, MirrorBase {
        "change": MirrorBase::Change(_) => MirrorBase::Change(300),
        "page": MirrorBase::Page { .. } => MirrorBase::Page { page: 1, last: true },
    });
    let states = [HeldState::Staged, HeldState::Placed, HeldState::Retired];
    let slices = states.map(|state| HeldSlice { metadata: metadata(), state }).to_vec();
    compare!(vectors, Report {
        "inventory": Report::Inventory { .. } => Report::Inventory { slices, last: true },
        "stored": Report::Stored(_) => Report::Stored(metadata()),
        "replicate-failed": Report::ReplicateFailed { .. } =>
            Report::ReplicateFailed { slice: slice(), refusal: refusal(Reason::Unavailable), kept_bytes: 1 << 20 },
        "corrupt": Report::Corrupt(_) => Report::Corrupt(slice()),
        "removed": Report::Removed(_) => Report::Removed(slice()),
        "status": Report::Status { .. } =>
            Report::Status {
                used_bytes: 7,
                free_bytes: 1 << 44,
                transfers: 3,
                spes: 2,
                disks: disks(),
                sandbox_missing: sandbox(),
                refused_tickets: audit::refused(),
            links: vec![link_use()],
            memory_free_bytes: 1 << 30,
            },
        "forward-failed": Report::ForwardFailed { .. } => Report::ForwardFailed { slice: slice(), node: node() },
        "partials": Report::Partials(_) =>
            Report::Partials(vec![HeldPartial { user: user(), key: ResumeKey(7), bytes: 1 << 26 }]),
        "kept-mark": Report::MirrorPosition { .. } => Report::MirrorPosition { position: Some(kept_mark()), all_seen: true },
        "kept": Report::MirrorPage { .. } =>
            Report::MirrorPage { position: kept_mark(), after: Some(kept_key()), rows: keep(MirrorBase::Change(6)).rows, last: true },
        "tickets-refused": Report::TicketsRefused { .. } =>
            Report::TicketsRefused { refusals: vec![audit::refusal()], left_out: 3 },
        "clock": Report::Clock { .. } => Report::Clock { unix_millis: 1_800_000_000_000, machine: Some(1 << 100) },
        "arriving": Report::IncomingWrite(_) =>
            Report::IncomingWrite(vec![IncomingWrite { slice: slice(), bytes: 1 << 30, at_work: true }]),
        "disks-seen": Report::DisksSeen(_) => Report::DisksSeen(Some(kept_mark())),
        "work": Report::Work(_) => Report::Work(vec![work::item()]),
        "load": Report::Load(_) => Report::Load(load::report()),
        "evidence": Report::Evidence(_) => Report::Evidence(marks::evidence()),
        "links": Report::Links(_) => Report::Links(links::report()),
    });
    compare!(vectors, Ack {
        "done": Ack::Done => Ack::Done,
        "refused": Ack::Refused(_) => Ack::Refused(refusal(Reason::Failed)),
        "metrics": Ack::Metrics(_) => Ack::Metrics("# EOF\n".into()),
    });
    vectors.finish();
}

fn user() -> UserName {
    UserName::new("alice").unwrap()
}

fn rights() -> UserRights {
    UserRights { user: user(), groups: vec!["astro".into(), "geo".into()], admin: true }
}

fn known_user() -> KnownUser {
    KnownUser { rights: rights(), credential: CredentialId(0x77), until_unix_millis: Some(1_900_000_000_000) }
}

fn node() -> NodeId {
    NodeId::new("node-1").unwrap()
}

fn place() -> Place {
    Place::new("uic", "r2")
}

fn address() -> SocketAddr {
    "192.0.2.7:7000".parse().unwrap()
}

fn path() -> SectorPath {
    SectorPath::parse("/sdss/SDSS1.dat").unwrap()
}

fn slice() -> SliceId {
    SliceId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef)
}

fn digest() -> Digest {
    Digest(std::array::from_fn(|at| at as u8))
}

fn keys() -> BTreeMap<String, String> {
    BTreeMap::from([("a".into(), "1".into()), ("instrument".into(), "spectrograph".into())])
}

fn refusal(reason: Reason) -> Refusal {
    Refusal::new(reason, "no, because")
}

fn signed() -> SignedTicket {
    SignedTicket { ticket: vec![1, 2, 3], signature: vec![0xee; 64], delegation: None }
}

fn source() -> Source {
    let address = "[2001:db8::1]:7001".parse().unwrap();
    Source {
        node: node(),
        place: place(),
        address,
        distance: Some(Distance::OtherSite),
        local: Some("sector-1".into()),
        ticket: signed(),
    }
}

fn header() -> SliceHeader {
    SliceHeader {
        slice: slice(),
        path: path(),
        version: Version(1_700_000_000_000),
        owner: user(),
        modified_unix_millis: 1_700_000_000_000,
        copies: 3,
        records: RecordFraming::Lines,
        user: keys(),
        journal: JournalId(0x2a),
        acl: Some(acl()),
    }
}

fn acl() -> Acl {
    "user:alice:rw,group:astro:rx,everyone:r".parse().unwrap()
}

fn metadata() -> SliceMetadata {
    SliceMetadata { header: header(), bytes: 1 << 34, digest: digest() }
}

fn kept_mark() -> MirrorPosition {
    MirrorPosition { journal: JournalId(0x2a), generation: 2, sequence: 300 }
}

fn kept_key() -> MirrorKey {
    MirrorKey { table: "names".into(), key: vec![0, 1] }
}

fn keep(onto: MirrorBase) -> MirrorUpdate {
    let row = |key, value| MirrorRow { table: "names".into(), key: vec![key], value };
    MirrorUpdate { position: kept_mark(), base: onto, rows: vec![row(1, Some(vec![2, 3])), row(2, None)] }
}

fn rebuild(state: RebuildState, kind: ConflictKind) -> RebuildStatus {
    let conflict = Conflict { metadata: metadata(), node: node(), kind, other: Some(slice()), is_archived: true };
    RebuildStatus {
        state,
        journal: JournalId(0x2a),
        generation: 2,
        reported: vec![node()],
        missing: Vec::new(),
        copy: Some((node(), kept_mark())),
        files: 10,
        folders: 3,
        conflicts_total: 1,
        conflicts: vec![conflict],
        more: false,
    }
}

fn entry() -> Entry {
    let content = FileContent {
        slice: slice(),
        version: Version(3),
        bytes: 12_345,
        digest: digest(),
        records: RecordFraming::File,
        copies: 2,
        user: keys(),
    };
    Entry {
        path: path(),
        id: FileId(11),
        owner: user(),
        modified_unix_millis: 1_700_000_000_000,
        kind: EntryKind::File(content),
        nodes: vec![node()],
        has_acl: true,
    }
}

fn policy() -> Policy {
    Policy {
        copies: Some(3),
        sync_copies: Some(2),
        sites_wanted: vec!["jhu".into(), "uic".into()],
        sites_forbidden: vec!["x".into()],
        lifetime_seconds: Some(2_592_000),
        colocated: Some(true),
        quota_bytes: Some(10_000_000_000_000),
        quota_files: Some(1_000_000),
        versions_seconds: None,
    }
}

fn trash_key() -> TrashKey {
    TrashKey { removed_unix_millis: 1_700_000_000_000, file: FileId(11) }
}

fn open_lease() -> OpenLease {
    OpenLease {
        path: path(),
        user: user(),
        job: Some(JobId(3)),
        node: node(),
        received_bytes: 1 << 20,
        expected_bytes: 1 << 21,
        seconds_left: 60,
    }
}

fn trash_item() -> TrashItem {
    let at = SectorPath::parse("/.trash/alice/1700000000000/sdss/SDSS1.dat").unwrap();
    let until_unix_millis = 1_700_604_800_000;
    TrashItem { key: trash_key(), user: user(), from: path(), at, until_unix_millis, bytes: Some(5) }
}

fn file_version() -> FileVersion {
    let TrashItem { at, until_unix_millis, .. } = trash_item();
    FileVersion {
        at,
        user: user(),
        version: Version(17),
        bytes: 5,
        replaced_unix_millis: 1_700_000_000_000,
        replaced_by: user(),
        until_unix_millis,
    }
}

fn quota() -> QuotaStatus {
    let of = QuotaOf::Folder(path());
    QuotaStatus { of, used_bytes: 1 << 33, used_files: 7, bytes: Some(1 << 34), files: None }
}

fn link_use() -> LinkUse {
    LinkUse { site: "jhu".into(), conversations: 3, waiting: 2, rate_bytes_per_second: Some(1 << 20) }
}

fn node_status(state: NodeState) -> NodeStatus {
    NodeStatus {
        node: node(),
        place: place(),
        address: address(),
        state,
        used_bytes: 5,
        free_bytes: 6,
        pid: 77,
        folder: "/srv".into(),
        membership: Membership::Draining,
        reserve_bytes: 1 << 28,
        is_full: true,
        slices: 9,
        disks: disks(),
        sandbox_missing: sandbox(),
        refused_tickets: audit::refused(),
        links: vec![link_use()],
        marks: NodeMarks { failed: 2, overtaken: 300 },
    }
}

fn sandbox() -> Option<Vec<SandboxLayer>> {
    Some(vec![SandboxLayer::Identity, SandboxLayer::FileRules])
}

fn plan() -> MovePlan {
    let moves = vec![PlannedMove { from: node(), to: node(), files: 1, bytes: 2 }];
    MovePlan { files: 3, bytes: 4, planned_files: 2, moves, problems: vec!["no room".into()] }
}

fn topology_status() -> TopologyStatus {
    let mut topology = Topology::default();
    topology.set_node(node(), place()).unwrap();
    topology.set_addresses("10.0.0.0/8".parse().unwrap(), "uic".parse().unwrap()).unwrap();
    let link = Link { distance_millis: Some(20), limit_bytes_per_second: Some(25_000_000) };
    topology.set_link(SitePair::new("uic", "jhu"), link).unwrap();
    let places = vec![(node(), place())];
    TopologyStatus { file: Some("/etc/sites.toml".into()), fault: Some("line 3".into()), topology, places }
}

fn disks() -> Vec<DiskStatus> {
    let scrub = ScrubStatus {
        position: Some(slice()),
        began_unix_millis: Some(3),
        last_began_unix_millis: None,
        finished_unix_millis: Some(2),
        checked_bytes: 300,
        total_bytes: 1 << 40,
        corrupt: 1,
    };
    let disk = |state, scrub| DiskStatus {
        folder: "/srv/disk-1".into(),
        state,
        used_bytes: 5,
        free_bytes: 6,
        why: "no".into(),
        scrub,
    };
    vec![disk(DiskState::Ok, Some(scrub)), disk(DiskState::Failed, None), disk(DiskState::Missing, None)]
}

fn job() -> JobRecord {
    let stage = StageRecord {
        segments: 8,
        done: 7,
        failed: 1,
        retried: 2,
        speculative: 3,
        local: 6,
        bytes_in: 1 << 30,
        bytes_out: 1 << 29,
    };
    JobRecord {
        job: JobId(6),
        user: user(),
        title: "index".into(),
        state: JobState::Running,
        started_unix_millis: 1_700_000_000_000,
        stages: vec![stage, StageRecord::default()],
        errors: vec!["no".into()],
        error_slice: Some(path()),
        counters: vec![counters(), Counters::new()],
        driver: Some(node()),
    }
}

fn counters() -> Counters {
    let mut counters = Counters::new();
    counters.add("bad lines", 3).expect("a name");
    counters
}

fn drive() -> DriveOrder {
    DriveOrder { job: JobId(6), user: user(), key: DriverKey([8; 32]), journal: path() }
}

fn bucket() -> BucketId {
    BucketId { job: JobId(6), stage: 1, epoch: 2, bucket: 3, generation: 1 }
}
