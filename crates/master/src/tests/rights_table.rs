//! Who may ask what, as a plain table beside `rights::needs`: every request, asked by a user with every set of rights.
//! The table and the master must agree. A new request does not compile here until it has its line.

#![allow(clippy::unwrap_used)]

use protocol::{
    JobId, Policy, Rights,
    message::{
        access::AclRequest,
        accounts::AccountsRequest,
        admission::AdmissionVerb,
        audit::AuditQuestion,
        client_master::{JobRecord, JobState, QuotaOf},
        cluster::{DrainRequest, RebalanceVerb, RemoveNodeRequest},
        history::HistoryRequest,
        marks::{MarkChange, MarkSubject},
        request::{
            AbandonRequest, AddToAclRequest, AdmitJobRequest, BreakLeaseRequest, CancelJobRequest, ChangeMarkRequest,
            ClearAclRequest, CommitRequest, ConfirmClockRequest, CopiesRequest, CreateDatedRequest, DetachJobRequest,
            DismissRequest, EmptyTrashRequest, EventsFrom, EventsRequest, FindJobsRequest, FinishRebuildRequest,
            ForgetNodeRequest, GetAclRequest, GetHistoryRequest, GetLogsRequest, GiveToRequest, HealthRequest,
            ImportRequest, JobInputsRequest, JobRequest, JobsRequest, LeasesRequest, LinkSeriesRequest, LinksRequest,
            ListRequest, LoadRequest, LoadSeriesRequest, LocateRequest, LogoutRequest, MakeFolderRequest, MarksRequest,
            MetricsRequest, MetricsSource, NodesRequest, OnceRequest, PolicyRequest, QuotasRequest,
            RebuildStatusRequest, RecoverRequest, RemoveFromAclRequest, RemoveRequest, RenameRequest, RenewRequest,
            ReportJobRequest, RequestId, RestoreRequest, SetAclRequest, SetPolicyRequest, SetQuotaRequest, StatRequest,
            TopologyRequest, TrashRequest, UsageRequest, VerifyAuditRequest, VersionsRequest, WaitingMachinesRequest,
            WhoAmIRequest, WorkRequest,
        },
    },
};

use super::*;

/// Requests about `at`, which exists or not in the folder `/d`, with the letters of the rights that each needs there.
/// `-`: none; every logged-in user may. `!`: only administrators.
fn about(at: &str) -> Vec<(ClientRequest, &'static str)> {
    let at = path(at);
    let mine = path("/mine");
    let list = ClientRequest::List(ListRequest { folder: at.clone(), recursive: true, after: None, with_nodes: false });
    let acl = AclRequest::Set(SetAclRequest { path: at.clone(), acl: "everyone:r".parse().unwrap() });
    let remove = AclRequest::Remove(RemoveFromAclRequest { path: at.clone(), principals: Vec::new() });
    let add = AclRequest::Add(AddToAclRequest { path: at.clone(), acl: "everyone:r".parse().unwrap() });
    let give = AclRequest::GiveTo(GiveToRequest { path: at.clone(), owner: UserName::new("bob").unwrap() });
    vec![
        (ClientRequest::Create(create(at.as_str())), "w"),
        (ClientRequest::CreateDated(CreateDatedRequest { create: create(at.as_str()), modified_unix_millis: 1 }), "w"),
        (ClientRequest::Locate(LocateRequest(at.clone())), "r"),
        (ClientRequest::Stat(StatRequest(at.clone())), "r"),
        (ClientRequest::Usage(UsageRequest(at.clone())), "r"),
        (ClientRequest::Copies(CopiesRequest(at.clone())), "r"),
        (ClientRequest::Policy(PolicyRequest(at.clone())), "r"),
        (list, "r"),
        (ClientRequest::Rename(RenameRequest { from: at.clone(), to: path("/d/other") }), "w"),
        (ClientRequest::Rename(RenameRequest { from: at.clone(), to: mine.clone() }), "rw"),
        (ClientRequest::Rename(RenameRequest { from: mine.clone(), to: at.clone() }), "w"),
        (ClientRequest::Remove(RemoveRequest { path: at.clone(), recursive: true, now: true }), "w"),
        (ClientRequest::SetPolicy(SetPolicyRequest { path: at.clone(), policy: Policy::default() }), "a"),
        (metadata::remove(at.as_str(), SliceId(0)), "w"),
        (metadata::change(at.as_str(), SliceId(0), &[]), "w"),
        (ClientRequest::Restore(RestoreRequest { path: path("/gone"), to: Some(at.clone()) }), "w"),
        (ClientRequest::AdmitJob(AdmitJobRequest { title: "t".into(), output: Some(at.clone()) }), "w"),
        (ClientRequest::Acl(AclRequest::Get(GetAclRequest(at.clone()))), "r"),
        (ClientRequest::Acl(add), "a"),
        (ClientRequest::Acl(acl), "a"),
        (ClientRequest::Acl(remove), "a"),
        (ClientRequest::Acl(AclRequest::Clear(ClearAclRequest(at))), "a"),
        (ClientRequest::Acl(give), "!"),
    ]
}

/// Requests that name no entry, or find it themselves.
fn others() -> Vec<(ClientRequest, &'static str)> {
    let (lease, job) = (LeaseId(1), JobId(2));
    let commit = ClientRequest::Commit(CommitRequest { lease, bytes: 1, digest: digest(1) });
    let drain = ClientRequest::Drain(DrainRequest { node: node("n1"), dry_run: true, undo: false });
    let remove = RemoveNodeRequest { node: node("n1"), force: false, dry_run: true, undo: false };
    let record = JobRecord {
        job,
        user: UserName::new("bob").unwrap(),
        title: String::new(),
        state: JobState::Running,
        started_unix_millis: 0,
        stages: Vec::new(),
        errors: Vec::new(),
        error_slice: None,
        counters: Vec::new(),
        driver: None,
    };
    let quota =
        ClientRequest::SetQuota(SetQuotaRequest { user: UserName::new("bob").unwrap(), bytes: None, files: None });
    let subject = MarkSubject::Node(node("n1"));
    let mark = ClientRequest::ChangeMark(ChangeMarkRequest { subject, change: MarkChange::Clear });
    let link = ClientRequest::LinkSeries(LinkSeriesRequest { from: "a".into(), to: "b".into(), seconds: 60 });
    let events = EventsRequest { from: EventsFrom::Now, kinds: Vec::new(), below: None, wait_millis: 0 };
    let inputs = AclRequest::Inputs(JobInputsRequest { job, node: node("n1"), slices: Vec::new() });
    vec![
        (ClientRequest::MakeFolder(MakeFolderRequest { path: path("/mine/new"), parents: true }), "-"),
        (ClientRequest::Renew(RenewRequest(lease)), "-"),
        (commit, "-"),
        (ClientRequest::Abandon(AbandonRequest(lease)), "-"),
        (ClientRequest::Leases(LeasesRequest { all_users: false, after: None }), "-"),
        (ClientRequest::Leases(LeasesRequest { all_users: true, after: None }), "!"),
        (ClientRequest::BreakLease(BreakLeaseRequest(path("/mine/f"))), "-"),
        // The security server decides whether an administrator's question is answered.
        (ClientRequest::Accounts(AccountsRequest::WhoAmI(WhoAmIRequest)), "-"),
        (ClientRequest::Admission(AdmissionVerb::Requests(WaitingMachinesRequest)), "-"),
        (ClientRequest::Nodes(NodesRequest), "-"),
        (ClientRequest::Health(HealthRequest), "-"),
        (ClientRequest::AdmitJob(AdmitJobRequest { title: "t".into(), output: None }), "-"),
        (ClientRequest::ReportJob(ReportJobRequest(record)), "-"),
        (ClientRequest::DetachJob(DetachJobRequest { job, journal: path("/j"), keys: vec![] }), "-"),
        (ClientRequest::Jobs(JobsRequest), "-"),
        (ClientRequest::FindJobs(FindJobsRequest { user: None, state: None }), "-"),
        (ClientRequest::Job(JobRequest(job)), "-"),
        (ClientRequest::CancelJob(CancelJobRequest(job)), "-"),
        (ClientRequest::History(HistoryRequest::Get(GetHistoryRequest(job))), "-"),
        (ClientRequest::History(HistoryRequest::GetLogs(GetLogsRequest(job))), "-"),
        (ClientRequest::Logout(LogoutRequest), "-"),
        (ClientRequest::Acl(inputs), "-"),
        (ClientRequest::Restore(RestoreRequest { path: path("/gone"), to: None }), "-"),
        (ClientRequest::Trash(TrashRequest { all_users: false, after: None }), "-"),
        (ClientRequest::Trash(TrashRequest { all_users: true, after: None }), "!"),
        (ClientRequest::Versions(VersionsRequest(path("/d/f"))), "-"),
        (ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: false }), "-"),
        (ClientRequest::EmptyTrash(EmptyTrashRequest { all_users: true }), "!"),
        (ClientRequest::Quotas(QuotasRequest { after: Some(QuotaOf::User(UserName::new("bob").unwrap())) }), "-"),
        (ClientRequest::ConfirmClock(ConfirmClockRequest), "!"),
        (ClientRequest::Work(WorkRequest { after: None }), "!"),
        (ClientRequest::Links(LinksRequest { seconds_ago: 0, after: None }), "-"),
        (link, "-"),
        (ClientRequest::Marks(MarksRequest), "-"),
        (mark, "!"),
        (ClientRequest::Events(events), "-"),
        (ClientRequest::Load(LoadRequest { seconds_ago: 0, after: None }), "-"),
        (ClientRequest::LoadSeries(LoadSeriesRequest { node: node("n1"), seconds: 60 }), "-"),
        (ClientRequest::Metrics(MetricsRequest { of: MetricsSource::Master }), "!"),
        (quota, "!"),
        (drain, "!"),
        (ClientRequest::RemoveNode(remove), "!"),
        (ClientRequest::Rebalance(RebalanceVerb::Plan), "-"),
        (ClientRequest::Rebalance(RebalanceVerb::Status), "-"),
        (ClientRequest::Rebalance(RebalanceVerb::Begin), "!"),
        (ClientRequest::Rebalance(RebalanceVerb::Stop), "!"),
        (ClientRequest::Topology(TopologyRequest { reload: false }), "-"),
        (ClientRequest::Topology(TopologyRequest { reload: true }), "!"),
        (ClientRequest::Import(ImportRequest { node: node("n1") }), "!"),
        (ClientRequest::Audit(AuditQuestion::Verify(VerifyAuditRequest)), "!"),
        (ClientRequest::Rebuild(RebuildRequest::Status(RebuildStatusRequest { after: None })), "-"),
        (ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)), "!"),
        (ClientRequest::Rebuild(RebuildRequest::Dismiss(DismissRequest(None))), "!"),
        (ClientRequest::Rebuild(RebuildRequest::Forget(ForgetNodeRequest(node("n1")))), "!"),
        (
            ClientRequest::Rebuild(RebuildRequest::Recover(RecoverRequest { slice: SliceId(1), path: path("/d/f") })),
            "!",
        ),
        // It needs what the change in it needs.
        (
            ClientRequest::Once(OnceRequest {
                id: RequestId(1),
                request: Box::new(ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest))),
            }),
            "!",
        ),
    ]
}

/// A number for each request; a new one gets its own here, and its line above.
fn number(request: &ClientRequest) -> usize {
    match request {
        ClientRequest::Create(_) => 0,
        ClientRequest::Renew(_) => 1,
        ClientRequest::Commit(_) => 2,
        ClientRequest::Abandon(_) => 3,
        ClientRequest::Locate(_) => 4,
        ClientRequest::Stat(_) => 5,
        ClientRequest::List(_) => 6,
        ClientRequest::MakeFolder(_) => 7,
        ClientRequest::Rename(_) => 8,
        ClientRequest::Remove(_) => 9,
        ClientRequest::Usage(_) => 10,
        ClientRequest::Nodes(NodesRequest) => 11,
        ClientRequest::Health(HealthRequest) => 12,
        ClientRequest::AdmitJob(_) => 13,
        ClientRequest::ReportJob(_) => 14,
        ClientRequest::Jobs(JobsRequest) => 15,
        ClientRequest::Job(_) => 16,
        ClientRequest::CancelJob(_) => 17,
        ClientRequest::Logout(LogoutRequest) => 18,
        ClientRequest::Drain(_) => 19,
        ClientRequest::RemoveNode(_) => 20,
        ClientRequest::Rebalance(_) => 21,
        ClientRequest::Topology(_) => 22,
        ClientRequest::Policy(_) => 23,
        ClientRequest::SetPolicy(_) => 24,
        ClientRequest::Trash(_) => 25,
        ClientRequest::Restore(_) => 26,
        ClientRequest::EmptyTrash(_) => 27,
        ClientRequest::Quotas(_) => 28,
        ClientRequest::SetQuota(_) => 29,
        ClientRequest::Copies(_) => 30,
        ClientRequest::Rebuild(_) => 31,
        ClientRequest::Import(_) => 32,
        ClientRequest::Acl(_) => 33,
        ClientRequest::Accounts(_) => 34,
        ClientRequest::Admission(_) => 35,
        ClientRequest::Audit(_) => 36,
        ClientRequest::DetachJob(_) => 37,
        ClientRequest::History(_) => 38,
        ClientRequest::ConfirmClock(ConfirmClockRequest) => 39,
        ClientRequest::Once(_) => 40,
        ClientRequest::Work(_) => 41,
        ClientRequest::Metrics(_) => 42,
        ClientRequest::Leases(_) => 43,
        ClientRequest::BreakLease(_) => 44,
        ClientRequest::CreateDated(_) => 45,
        ClientRequest::Load(_) => 46,
        ClientRequest::LoadSeries(_) => 47,
        ClientRequest::FindJobs(_) => 48,
        ClientRequest::Versions(_) => 49,
        ClientRequest::Links(_) => 50,
        ClientRequest::LinkSeries(_) => 51,
        ClientRequest::Marks(MarksRequest) => 52,
        ClientRequest::ChangeMark(_) => 53,
        ClientRequest::Events(_) => 54,
        ClientRequest::ChangeMetadata(_) => 55,
        ClientRequest::RemoveContent(_) => 56,
    }
}

const REQUESTS: usize = 57;

/// All sixteen sets of rights.
fn sets() -> impl Iterator<Item = Rights> {
    (0..16_u8).map(|bits| Rights::try_from(bits).unwrap())
}

/// A folder of ann's with a file, a file of bob's, and bob's rights in the folder, as himself or as one of a group.
fn world(rights: Rights, by_group: bool) -> (Bench, UserRights) {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.mkdir("ann", "/d");
    bench.put("ann", create("/d/f"), 1);
    bench.put("bob", create("/mine"), 1);
    let who = if by_group { "group:astro" } else { "user:bob" };
    let text = if rights.is_empty() { "none".into() } else { format!("{who}:{rights}") };
    let set = AclRequest::Set(SetAclRequest { path: path("/d"), acl: text.parse().unwrap() });
    assert!(matches!(bench.ask("ann", ClientRequest::Acl(set)), ClientReply::Acl(_)));
    (bench, rights_of(if by_group { "bob@geo@astro" } else { "bob" }))
}

// Promise 13.
#[test]
fn every_request_is_allowed_to_who_has_just_the_rights_that_the_table_says() {
    for (rights, by_group) in sets().flat_map(|rights| [(rights, false), (rights, true)]) {
        let (bench, bob) = world(rights, by_group);
        for (request, needed) in about("/d/f").into_iter().chain(others()) {
            let allowed = match needed {
                "-" => true,
                "!" => false,
                letters => rights.has(letters.parse().unwrap()),
            };
            let found = bench.master.catalog.check_rights(&bob, &request.properties());
            assert_eq!(found.is_ok(), allowed, "{request:?} with `{rights}` needs {needed}: {found:?}");
            assert_eq!(
                bench.master.catalog.check_rights(&rights_of("admin"), &request.properties()),
                Ok(()),
                "{request:?}"
            );
            let names_what_is_bobs = format!("{request:?}").contains("/mine");
            let found = bench.master.catalog.check_rights(&rights_of("ann"), &request.properties());
            assert!(names_what_is_bobs || found.is_ok() == (needed != "!"), "{request:?}: {found:?}");
        }
    }
}

#[test]
fn the_table_has_a_line_for_every_request() {
    let asked: BTreeSet<_> = about("/d/f").iter().chain(&others()).map(|(request, _)| number(request)).collect();
    assert_eq!(asked, (0..REQUESTS).collect());
}

// Promise 13.
#[test]
fn who_may_not_read_a_folder_gets_the_same_answer_whether_or_not_a_name_is_in_it() {
    for rights in ["", "x"] {
        let rights = if rights.is_empty() { Rights::default() } else { rights.parse().unwrap() };
        let (mut bench, bob) = world(rights, false);
        let asked = [("/d/f", "/d/not"), ("/d/f", "/d/f/below"), ("/d/not", "/d/not/below")];
        for (there, missing) in asked {
            for ((one, needed), (other, _)) in about(there).into_iter().zip(about(missing)) {
                let mut said = |request: &ClientRequest, at: &str| {
                    let refusal = bench.master.catalog.check_rights(&bob, &request.properties()).unwrap_err();
                    assert_eq!(bench.status_of("bob", request.clone()), Status::Refused, "{request:?}");
                    assert!(!refusal.message.contains("ann"), "nor is the owner named: {refusal}");
                    refusal.message.replace(&format!("`{at}`"), "PATH")
                };
                assert_eq!(said(&one, there), said(&other, missing), "{one:?} needs {needed}");
            }
        }
        let make = |at: &str| ClientRequest::MakeFolder(MakeFolderRequest { path: path(at), parents: true });
        for at in ["/d/f", "/d/not", "/d/not/deep"] {
            assert!(bench.refused("bob", make(at)).message.contains("may not see"), "{at}");
        }
    }
}

#[test]
fn a_refusal_says_what_is_lacking_and_who_may_help() {
    let (mut bench, _) = world("r".parse().unwrap(), false);
    for (request, says) in [
        (ClientRequest::Remove(RemoveRequest { path: path("/d/f"), recursive: false, now: true }), "may not change it"),
        (ClientRequest::Create(create("/d/new")), "may not make anything in it"),
        (ClientRequest::Acl(AclRequest::Clear(ClearAclRequest(path("/d/f")))), "may not say who may do what with it"),
    ] {
        let refusal = bench.refused("bob", request);
        assert_eq!(refusal.status(), Status::Refused);
        assert!(refusal.message.contains(says) && refusal.message.contains("ask ann or an administrator"), "{refusal}");
    }
    // Users who may list the folder are told that an entry does not exist.
    assert_eq!(bench.status_of("bob", ClientRequest::Stat(StatRequest(path("/d/not")))), Status::NotFound);
}
