//! Shares of users: a user who has too much is told so and when to try again, and others go on.

#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use protocol::{
    JobId,
    message::{
        client_master::{Admitted, DriverKey, JobRecord, JobState},
        history::{HistoryRequest, JobHistory},
        node_master::IncomingWrite,
        request::{
            AbandonRequest, AdmitJobRequest, CancelJobRequest, DetachJobRequest, GetHistoryRequest, HealthRequest,
            JobRequest, JobsRequest, MakeFolderRequest, RemoveRequest, RenewRequest, ReportJobRequest, SetQuotaRequest,
            SubmitHistoryRequest,
        },
    },
};

use super::*;

impl Bench {
    /// The answer to a user who has too much.
    fn too_much(&mut self, user: &str, request: ClientRequest) -> Refusal {
        match self.ask(user, request) {
            ClientReply::Refused(too_much) => {
                assert_eq!(too_much.status().exit_code(), 5);
                let after = too_much.retry_after().unwrap_or_else(|| panic!("{too_much:?}"));
                assert!(too_much.message.ends_with(&format!("try again in {} s", after.as_secs())), "{too_much:?}");
                too_much
            }
            other => panic!("not too much: {other:?}"),
        }
    }

    fn admitted(&mut self, user: &str) -> JobId {
        match self.ask(user, ClientRequest::AdmitJob(AdmitJobRequest { title: "sort".into(), output: None })) {
            ClientReply::Admitted(Admitted { job, .. }) => job,
            other => panic!("not admitted: {other:?}"),
        }
    }

    fn end_job(&mut self, user: &str, job: JobId) {
        let ClientReply::Jobs(jobs) = self.ask(user, ClientRequest::Job(JobRequest(job))) else { panic!("no job") };
        let record = JobRecord { state: JobState::Done, ..jobs[0].clone() };
        assert!(matches!(self.ask(user, ClientRequest::ReportJob(ReportJobRequest(record))), ClientReply::Admitted(_)));
    }

    /// Lets time pass in which a write is renewed, and its node tells how far it is.
    fn renewed_for(
        &mut self,
        minutes: u64,
        lease: LeaseId,
        told: impl Fn(u64) -> Option<IncomingWrite>,
    ) -> ClientReply {
        for minute in 0..minutes {
            self.advance(seconds(30));
            self.report("n1", Report::IncomingWrite(told(minute).into_iter().collect()));
            self.ask("ann", ClientRequest::Renew(RenewRequest(lease)));
            self.advance(seconds(30));
            self.ask("ann", ClientRequest::Renew(RenewRequest(lease)));
        }
        self.ask("ann", ClientRequest::Renew(RenewRequest(lease)))
    }
}

fn sized(at: &str, bytes: u64) -> CreateRequest {
    CreateRequest { bytes_expected: Some(bytes), ..create(at) }
}

fn ask_sized(at: &str, bytes: u64) -> ClientRequest {
    ClientRequest::Create(sized(at, bytes))
}

fn admit() -> ClientRequest {
    ClientRequest::AdmitJob(AdmitJobRequest { title: "sort".into(), output: None })
}

fn quota(bytes: u64) -> ClientRequest {
    ClientRequest::SetQuota(SetQuotaRequest { user: UserName::new("ann").unwrap(), bytes: Some(bytes), files: None })
}

// Promise 38.
#[test]
fn who_writes_too_many_files_hears_so_and_another_goes_on() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let leases: Vec<_> = (0..8_192).map(|index| bench.created("ann", sized(&format!("/a{index}"), 0)).lease).collect();
    let said = bench.too_much("ann", ask_sized("/more", 0)).message;
    assert!(said.contains("ann writes 8192 files at once already"), "{said}");
    for index in 0..100 {
        bench.put("bob", sized(&format!("/b{index}"), 1), 1);
    }
    // With one of them given back there is room for one; an upload that comes again takes none.
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(leases[0])));
    bench.created("ann", sized("/more", 0));
    bench.too_much("ann", ask_sized("/still-more", 0));
}

// Promise 38.
#[test]
fn what_one_user_was_promised_leaves_others_a_fair_part_of_the_room() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    // Alone a user may have all: 1,000,000 are free, 1,000 in reserve.
    let large = bench.created("ann", sized("/large", 990_000));
    let refusal = bench.refused("ann", ask_sized("/more", 100_000));
    assert_eq!(refusal.reason, protocol::Reason::NoSpace, "nobody else's write may make room: {refusal}");
    bench.created("bob", sized("/bobs", 400_000));
    // He gets no more than his half as long as ann may still come.
    let said = bench.too_much("bob", ask_sized("/bobs-too", 200_000)).message;
    assert!(said.contains("990000 bytes that are promised to writes of others"), "{said}");
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(large.lease)));
    bench.created("bob", sized("/bobs-too", 590_000));
}

// Promise 38.
#[test]
fn two_users_at_the_bound_each_get_what_they_need() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for user in ["ann", "bob"] {
        bench.created(user, sized(&format!("/{user}"), 499_000));
    }
    for user in ["ann", "bob"] {
        bench.too_much(user, ask_sized(&format!("/{user}-too"), 10_000));
    }
    // A third user gets a third, although nothing is left beside the promised room.
    bench.put("eve", sized("/eve", 300_000), 300_000);
}

// Promise 38.
#[test]
fn promises_keep_no_copy_from_being_made() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.put("bob", sized("/f", 1_000), 1_000);
    bench.add_node("n2", "b/1");
    bench.advance(seconds(1));
    let at = |node_of: &str| CreateRequest { at: Some(node(node_of)), ..sized("/large", 995_000) };
    bench.created("ann", at("n2"));
    bench.advance(seconds(120));
    let slice = match bench.stat("/f").entry.kind {
        EntryKind::File(content) => content.slice,
        EntryKind::Folder => panic!("a folder"),
    };
    assert_eq!(bench.holders(slice), ["n1", "n2"]);
}

// Promise 31.
#[test]
fn what_is_being_written_counts_for_the_quotas_of_user_and_folder() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("admin", quota(100));
    let first = bench.created("ann", sized("/a", 60));
    let said = bench.refused("ann", ask_sized("/b", 60)).message;
    assert!(said.contains("ann may keep 100 bytes, has 0 and would have 120"), "{said}");
    assert_eq!(bench.status_of("ann", ask_sized("/b", 101)), Status::Refused, "that will never do");
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(first.lease)));
    bench.put("ann", sized("/b", 60), 60);
    // The same file again takes nothing more.
    bench.created("ann", sized("/b", 60));

    bench.done("bob", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/d"), parents: false }));
    bench.done("bob", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/d-beside"), parents: false }));
    bench.set_policy("admin", "/d", protocol::Policy { quota_bytes: Some(100), ..protocol::Policy::default() });
    bench.created("bob", sized("/d/x", 60));
    bench.created("bob", sized("/d-beside/x", 1_000));
    let said = bench.refused("bob", ask_sized("/d/y", 60)).message;
    assert!(said.contains("the folder `/d` may keep 100 bytes"), "{said}");
    bench.created("bob", sized("/d/y", 40));
}

// Promise 31.
#[test]
fn a_write_of_unknown_length_ends_when_more_came_than_its_owner_may_keep() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("admin", quota(1_000));
    let created = bench.created("ann", CreateRequest { bytes_expected: None, ..create("/a") });
    let came = |bytes| Report::IncomingWrite(vec![IncomingWrite { slice: created.slice, bytes, at_work: false }]);
    bench.report("n1", came(900));
    assert_eq!(bench.refused("ann", ask_sized("/b", 200)).reason, protocol::Reason::QuotaExceeded);
    bench.done("ann", ClientRequest::Renew(RenewRequest(created.lease)));
    bench.report("n1", came(1_001));
    assert_eq!(bench.status_of("ann", ClientRequest::Renew(RenewRequest(created.lease))), Status::NotFound);
    bench.created("ann", sized("/b", 1_000));
}

// Promise 3.
#[test]
fn a_lease_under_which_nothing_comes_ends_although_it_is_renewed() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let still = bench.created("ann", sized("/still", 900_000));
    let ended = bench.renewed_for(21, still.lease, |_| None);
    assert!(matches!(&ended, ClientReply::Refused(refusal) if refusal.status() == Status::NotFound), "{ended:?}");
    bench.created("bob", sized("/still", 900_000));
    // As long as something comes, or its node is at work on it, it goes on.
    let slow = bench.created("ann", sized("/slow", 10));
    let told = |bytes, at_work| Some(IncomingWrite { slice: slow.slice, bytes, at_work });
    assert_eq!(bench.renewed_for(41, slow.lease, |minute| told(minute / 15, false)), ClientReply::Done);
    assert_eq!(bench.renewed_for(41, slow.lease, |_| told(3, true)), ClientReply::Done);
    // What has come but is not published holds its room no longer.
    bench.write(&slow, 10);
    assert!(matches!(bench.renewed_for(21, slow.lease, |_| None), ClientReply::Refused(_)));
    bench.advance(seconds(5));
    assert!(bench.holders(slow.slice).is_empty());
}

// Promise 3.
#[test]
fn a_lease_goes_on_where_its_node_does_not_tell_what_comes() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("ann", sized("/a", 10));
    for _ in 0..60 {
        bench.advance(seconds(30));
        bench.done("ann", ClientRequest::Renew(RenewRequest(created.lease)));
    }
}

// Promise 38.
#[test]
fn an_answer_that_was_lost_is_given_again_however_much_another_publishes() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("bob", create("/b"));
    bench.write(&created, 10);
    let number = bench.commit_later("bob", created.lease, 10);
    let first = bench.answer(number);
    for index in 0..1_100 {
        bench.put("ann", sized(&format!("/{index}"), 1), 1);
    }
    let number = bench.commit_later("bob", created.lease, 10);
    assert_eq!(bench.answer(number), first);
}

// Promise 38.
#[test]
fn one_users_many_sessions_put_out_his_own_and_no_others() {
    let mut bench = Bench::new(config(), 1);
    let from = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let bobs = bench.login("bob", from);
    let anns: Vec<_> = (0..16_383).map(|_| bench.login("ann", from)).collect();
    bench.run();
    assert!(bench.closed.is_empty());
    bench.now = bench.now.after(seconds(60));
    for hers in anns.iter().take(20) {
        bench.login("ann", from);
        // Her oldest sessions are in use; his is not.
        let asked = SessionCaller { session: *hers, request: Some(1) };
        bench.master.handle_message(bench.now, asked, MasterMessage::Client(ClientRequest::Jobs(JobsRequest)));
    }
    let eves = bench.login("eve", from);
    bench.run();
    assert!(bench.master.peer(bobs).is_some() && bench.master.peer(eves).is_some());
    assert_eq!(bench.closed.len(), 21);
    assert!(bench.closed.iter().all(|closed| anns.contains(closed)));
}

// Promise 38.
#[test]
fn who_has_too_many_jobs_running_hears_so_and_another_goes_on() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let jobs: Vec<_> = (0..500).map(|_| bench.admitted("ann")).collect();
    let said = bench.too_much("ann", admit()).message;
    assert!(said.contains("ann has 500 jobs running already"), "{said}");
    for _ in 0..100 {
        bench.admitted("bob");
    }
    // There are others now: ann may have as many as are left.
    bench.done("ann", ClientRequest::CancelJob(CancelJobRequest(jobs[0])));
    bench.too_much("ann", admit());
    for job in &jobs[1..101] {
        bench.done("ann", ClientRequest::CancelJob(CancelJobRequest(*job)));
    }
    bench.admitted("ann");
}

// Promise 38.
#[test]
fn one_users_many_jobs_make_nobody_forget_anothers() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let bobs = bench.admitted("bob");
    bench.end_job("bob", bobs);
    let tell = |job| {
        ClientRequest::History(HistoryRequest::Submit(SubmitHistoryRequest { job, history: JobHistory::default() }))
    };
    bench.done("bob", tell(bobs));
    let mut first = None;
    for _ in 0..1_100 {
        bench.now.unix_millis += 1;
        let job = bench.admitted("ann");
        first.get_or_insert(job);
        bench.end_job("ann", job);
        bench.done("ann", tell(job));
    }
    assert!(matches!(bench.ask("bob", ClientRequest::Job(JobRequest(bobs))), ClientReply::Jobs(_)));
    assert!(matches!(
        bench.ask("bob", ClientRequest::History(HistoryRequest::Get(GetHistoryRequest(bobs)))),
        ClientReply::History(_)
    ));
    assert_eq!(bench.status_of("ann", ClientRequest::Job(JobRequest(first.unwrap()))), Status::NotFound);
    assert_eq!(bench.rows.keys().filter(|(table, _)| *table == "jobs").count(), 1_000);
}

// Promise 38.
#[test]
fn nodes_drive_only_so_many_detached_jobs_of_one_user() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let detach = |job| {
        ClientRequest::DetachJob(DetachJobRequest { job, journal: path("/journal"), keys: vec![DriverKey([1; 32])] })
    };
    for _ in 0..32 {
        let job = bench.admitted("ann");
        bench.done("ann", detach(job));
    }
    let job = bench.admitted("ann");
    let said = bench.too_much("ann", detach(job)).message;
    assert!(said.contains("nodes drive 32 detached jobs of ann already"), "{said}");
    let job = bench.admitted("bob");
    bench.done("bob", detach(job));
}

// Promise 40.
#[test]
fn health_warns_when_no_node_has_room_and_when_most_nearly_have_none() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    assert!(bench.health().reasons.is_empty());
    let free = |bench: &mut Bench, id: &str, bytes| {
        bench.node_mut(id).free_bytes = bytes;
        bench.advance(seconds(2));
        bench.health().reasons
    };
    for id in ["n1", "n2", "n3"] {
        bench.put(
            "ann",
            CreateRequest { at: Some(node(id)), copies: Some(1), ..sized(&format!("/{id}"), 900_000) },
            900_000,
        );
    }
    // Above the reserve of 1,000 not one byte in twenty is left.
    assert!(free(&mut bench, "n1", 40_000).is_empty());
    let near = free(&mut bench, "n2", 40_000);
    assert!(near.len() == 1 && near[0].starts_with("2 of 3 nodes have less than 5 % of their room left"), "{near:?}");
    for id in ["n1", "n2"] {
        free(&mut bench, id, 999);
    }
    let all = free(&mut bench, "n3", 999);
    assert!(all.len() == 1 && all[0].starts_with("no node has room for a new file; add nodes"), "{all:?}");
    assert!(!all[0].contains("rebalance"), "{all:?}");
}

// Promise 40.
#[test]
fn health_has_one_sentence_for_all_nodes_in_the_same_trouble_and_names_three() {
    let places: Vec<_> = (0..6).map(|at| format!("s{at}/1")).collect();
    let places: Vec<_> = places.iter().map(String::as_str).collect();
    let mut bench = Bench::with_nodes(&places);
    for id in ["n1", "n2", "n3", "n4"] {
        bench.node_mut(id).free_bytes = 1;
    }
    bench.advance(seconds(2));
    for id in ["n5", "n6"] {
        bench.crash(id);
    }
    bench.advance(seconds(20));
    assert_eq!(bench.health().reasons[0], "nodes n5 and n6 are lost; start them again");
    for id in ["n5", "n6"] {
        bench.join(id);
    }
    bench.advance(seconds(2));
    let reasons = bench.health().reasons;
    let full =
        "nodes n1, n2, n3 and 1 more are full: less than the reserve of 1000 B is free, so they get no new slices";
    assert!(reasons[0].starts_with(full), "{reasons:?}");
}

// Promise 40.
#[test]
fn files_in_the_trash_want_no_nodes_and_the_others_are_named_to_their_owner() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for at in ["/one", "/two", "/three"] {
        bench.put("ann", CreateRequest { copies: Some(9), ..sized(at, 1) }, 1);
    }
    let said = |bench: &mut Bench, user| match bench.ask(user, ClientRequest::Health(HealthRequest)) {
        ClientReply::Health(health) => health.reasons.join("\n"),
        other => panic!("{other:?}"),
    };
    let named = said(&mut bench, "ann");
    assert!(named.contains("3 files want more copies") && named.matches("`/").count() == 2, "{named}");
    assert!(!said(&mut bench, "bob").contains("`/"), "names are not told to everybody");
    for at in ["/one", "/two", "/three"] {
        bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path(at), recursive: false, now: false }));
    }
    bench.advance(seconds(5));
    assert_eq!(bench.health().short_of_nodes, 0);
}

// Promise 40.
#[test]
fn a_node_without_a_free_byte_is_full_also_where_nothing_is_kept_in_reserve() {
    let mut bench = Bench::configured(MasterConfig { reserve_bytes: 0, ..config() }, &["a/1"]);
    bench.node_mut("n1").free_bytes = 0;
    bench.advance(seconds(2));
    let reasons = bench.health().reasons;
    assert!(reasons.iter().any(|reason| reason.starts_with("no node has room")), "{reasons:?}");
    assert_eq!(bench.status_of("ann", ask_sized("/f", 0)), Status::Unavailable);
}
