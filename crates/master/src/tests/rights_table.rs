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
    },
};

use super::*;

/// Requests about `at`, which exists or not in the folder `/d`, with the letters of the rights that each needs there.
/// `-`: none; every logged-in user may. `!`: only administrators.
fn about(at: &str) -> Vec<(ClientRequest, &'static str)> {
    let at = path(at);
    let mine = path("/mine");
    let list = ClientRequest::List { folder: at.clone(), recursive: true, after: None, with_nodes: false };
    let acl = AclRequest::Set { path: at.clone(), acl: "everyone:r".parse().unwrap() };
    let remove = AclRequest::Remove { path: at.clone(), principals: Vec::new() };
    let give = AclRequest::GiveTo { path: at.clone(), owner: UserName::new("bob").unwrap() };
    vec![
        (ClientRequest::Create(create(at.as_str())), "w"),
        (ClientRequest::Locate(at.clone()), "r"),
        (ClientRequest::Stat(at.clone()), "r"),
        (ClientRequest::Usage(at.clone()), "r"),
        (ClientRequest::Copies(at.clone()), "r"),
        (ClientRequest::Policy(at.clone()), "r"),
        (list, "r"),
        (ClientRequest::Rename { from: at.clone(), to: path("/d/other") }, "w"),
        (ClientRequest::Rename { from: at.clone(), to: mine.clone() }, "rw"),
        (ClientRequest::Rename { from: mine.clone(), to: at.clone() }, "w"),
        (ClientRequest::Remove { path: at.clone(), recursive: true, now: true }, "w"),
        (ClientRequest::SetPolicy { path: at.clone(), policy: Policy::default() }, "a"),
        (ClientRequest::Restore { path: path("/gone"), to: Some(at.clone()) }, "w"),
        (ClientRequest::AdmitJob { title: "t".into(), output: Some(at.clone()) }, "w"),
        (ClientRequest::Acl(AclRequest::Get(at.clone())), "r"),
        (ClientRequest::Acl(acl), "a"),
        (ClientRequest::Acl(remove), "a"),
        (ClientRequest::Acl(AclRequest::Clear(at)), "a"),
        (ClientRequest::Acl(give), "!"),
    ]
}

/// Requests that name no entry, or find it themselves.
fn others() -> Vec<(ClientRequest, &'static str)> {
    let (lease, job) = (LeaseId(1), JobId(2));
    let commit = ClientRequest::Commit { lease, bytes: 1, digest: digest(1) };
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
    let quota = ClientRequest::SetQuota { user: UserName::new("bob").unwrap(), bytes: None, files: None };
    let inputs = AclRequest::Inputs { job, node: node("n1"), slices: Vec::new() };
    vec![
        (ClientRequest::MakeFolder { path: path("/mine/new"), parents: true }, "-"),
        (ClientRequest::Renew(lease), "-"),
        (commit, "-"),
        (ClientRequest::Abandon(lease), "-"),
        // The security server decides whether an administrator's question is answered.
        (ClientRequest::Accounts(AccountsRequest::WhoAmI), "-"),
        (ClientRequest::Admission(AdmissionVerb::Requests), "-"),
        (ClientRequest::Nodes, "-"),
        (ClientRequest::Health, "-"),
        (ClientRequest::AdmitJob { title: "t".into(), output: None }, "-"),
        (ClientRequest::ReportJob(record), "-"),
        (ClientRequest::DetachJob { job, journal: path("/j"), keys: vec![] }, "-"),
        (ClientRequest::Jobs, "-"),
        (ClientRequest::Job(job), "-"),
        (ClientRequest::CancelJob(job), "-"),
        (ClientRequest::History(HistoryRequest::Get(job)), "-"),
        (ClientRequest::Logout, "-"),
        (ClientRequest::Acl(inputs), "-"),
        (ClientRequest::Restore { path: path("/gone"), to: None }, "-"),
        (ClientRequest::Trash { all_users: false, after: None }, "-"),
        (ClientRequest::Trash { all_users: true, after: None }, "!"),
        (ClientRequest::EmptyTrash { all_users: false }, "-"),
        (ClientRequest::EmptyTrash { all_users: true }, "!"),
        (ClientRequest::Quotas { after: Some(QuotaOf::User(UserName::new("bob").unwrap())) }, "-"),
        (ClientRequest::ConfirmClock, "!"),
        (quota, "!"),
        (drain, "!"),
        (ClientRequest::RemoveNode(remove), "!"),
        (ClientRequest::Rebalance(RebalanceVerb::Plan), "-"),
        (ClientRequest::Rebalance(RebalanceVerb::Status), "-"),
        (ClientRequest::Rebalance(RebalanceVerb::Begin), "!"),
        (ClientRequest::Rebalance(RebalanceVerb::Stop), "!"),
        (ClientRequest::Topology { reload: false }, "-"),
        (ClientRequest::Topology { reload: true }, "!"),
        (ClientRequest::Import { node: node("n1") }, "!"),
        (ClientRequest::Audit(AuditQuestion::Verify), "!"),
        (ClientRequest::Rebuild(RebuildRequest::Status { after: None }), "-"),
        (ClientRequest::Rebuild(RebuildRequest::Finish), "!"),
        (ClientRequest::Rebuild(RebuildRequest::Dismiss(None)), "!"),
        (ClientRequest::Rebuild(RebuildRequest::Forget(node("n1"))), "!"),
        (ClientRequest::Rebuild(RebuildRequest::Recover { slice: SliceId(1), path: path("/d/f") }), "!"),
    ]
}

/// A number for each request; a new one gets its own here, and its line above.
fn number(request: &ClientRequest) -> usize {
    match request {
        ClientRequest::Create(_) => 0,
        ClientRequest::Renew(_) => 1,
        ClientRequest::Commit { .. } => 2,
        ClientRequest::Abandon(_) => 3,
        ClientRequest::Locate(_) => 4,
        ClientRequest::Stat(_) => 5,
        ClientRequest::List { .. } => 6,
        ClientRequest::MakeFolder { .. } => 7,
        ClientRequest::Rename { .. } => 8,
        ClientRequest::Remove { .. } => 9,
        ClientRequest::Usage(_) => 10,
        ClientRequest::Nodes => 11,
        ClientRequest::Health => 12,
        ClientRequest::AdmitJob { .. } => 13,
        ClientRequest::ReportJob(_) => 14,
        ClientRequest::Jobs => 15,
        ClientRequest::Job(_) => 16,
        ClientRequest::CancelJob(_) => 17,
        ClientRequest::Logout => 18,
        ClientRequest::Drain(_) => 19,
        ClientRequest::RemoveNode(_) => 20,
        ClientRequest::Rebalance(_) => 21,
        ClientRequest::Topology { .. } => 22,
        ClientRequest::Policy(_) => 23,
        ClientRequest::SetPolicy { .. } => 24,
        ClientRequest::Trash { .. } => 25,
        ClientRequest::Restore { .. } => 26,
        ClientRequest::EmptyTrash { .. } => 27,
        ClientRequest::Quotas { .. } => 28,
        ClientRequest::SetQuota { .. } => 29,
        ClientRequest::Copies(_) => 30,
        ClientRequest::Rebuild(_) => 31,
        ClientRequest::Import { .. } => 32,
        ClientRequest::Acl(_) => 33,
        ClientRequest::Accounts(_) => 34,
        ClientRequest::Admission(_) => 35,
        ClientRequest::Audit(_) => 36,
        ClientRequest::DetachJob { .. } => 37,
        ClientRequest::History(_) => 38,
        ClientRequest::ConfirmClock => 39,
    }
}

const REQUESTS: usize = 40;

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
    let set = AclRequest::Set { path: path("/d"), acl: text.parse().unwrap() };
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
            let found = bench.master.check_rights(&bob, &request);
            assert_eq!(found.is_ok(), allowed, "{request:?} with `{rights}` needs {needed}: {found:?}");
            assert_eq!(bench.master.check_rights(&rights_of("admin"), &request), Ok(()), "{request:?}");
            let names_what_is_bobs = format!("{request:?}").contains("/mine");
            let found = bench.master.check_rights(&rights_of("ann"), &request);
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
                    let refusal = bench.master.check_rights(&bob, request).unwrap_err();
                    assert_eq!(bench.status_of("bob", request.clone()), Status::Refused, "{request:?}");
                    assert!(!refusal.message.contains("ann"), "nor is the owner named: {refusal}");
                    refusal.message.replace(&format!("`{at}`"), "PATH")
                };
                assert_eq!(said(&one, there), said(&other, missing), "{one:?} needs {needed}");
            }
        }
        let make = |at: &str| ClientRequest::MakeFolder { path: path(at), parents: true };
        for at in ["/d/f", "/d/not", "/d/not/deep"] {
            assert!(bench.refused("bob", make(at)).message.contains("may not see"), "{at}");
        }
    }
}

#[test]
fn a_refusal_says_what_is_lacking_and_who_may_help() {
    let (mut bench, _) = world("r".parse().unwrap(), false);
    for (request, says) in [
        (ClientRequest::Remove { path: path("/d/f"), recursive: false, now: true }, "may not change it"),
        (ClientRequest::Create(create("/d/new")), "may not make anything in it"),
        (ClientRequest::Acl(AclRequest::Clear(path("/d/f"))), "may not say who may do what with it"),
    ] {
        let refusal = bench.refused("bob", request);
        assert_eq!(refusal.status(), Status::Refused);
        assert!(refusal.message.contains(says) && refusal.message.contains("ask ann or an administrator"), "{refusal}");
    }
    // Users who may list the folder are told that an entry does not exist.
    assert_eq!(bench.status_of("bob", ClientRequest::Stat(path("/d/not"))), Status::NotFound);
}
