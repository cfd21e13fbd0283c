//! The effects of rights: inheritance, visibility, and inputs of jobs. Also what remains of them over renames, the
//! trash, restarts and the loss of the journal.

#![allow(clippy::unwrap_used)]

use protocol::{
    Acl, Counters, JobId, Rights,
    message::{
        access::{AclReply, AclRequest, AclStatus},
        client_master::{Admitted, JobRecord, ListPage, Usage},
        request::{
            AddToAclRequest, AdmitJobRequest, CancelJobRequest, ClearAclRequest, GetAclRequest, GiveToRequest,
            JobInputsRequest, JobRequest, ListRequest, LocateRequest, RemoveFromAclRequest, RemoveRequest,
            RenameRequest, ReportJobRequest, RestoreRequest, SetAclRequest, SetQuotaRequest, StatRequest, TrashRequest,
            UsageRequest,
        },
    },
};

use super::*;

impl Bench {
    fn set_acl(&mut self, user: &str, at: &str, acl: &str) {
        let request = AclRequest::Set(SetAclRequest { path: path(at), acl: acl.parse().unwrap() });
        assert!(matches!(self.ask(user, ClientRequest::Acl(request)), ClientReply::Acl(_)), "{at}");
    }

    fn acl(&mut self, user: &str, at: &str) -> AclStatus {
        match self.ask(user, ClientRequest::Acl(AclRequest::Get(GetAclRequest(path(at))))) {
            ClientReply::Acl(AclReply::Status(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    fn page_of(&mut self, user: &str, at: &str, recursive: bool, after: Option<SectorPath>) -> ListPage {
        let list = ClientRequest::List(ListRequest { folder: path(at), recursive, after, with_nodes: false });
        match self.ask(user, list) {
            ClientReply::Page(page) => page,
            other => panic!("{other:?}"),
        }
    }

    fn seen(&mut self, user: &str, at: &str) -> Vec<String> {
        self.page_of(user, at, true, None).entries.iter().map(|entry| entry.path.to_string()).collect()
    }

    fn used_at(&mut self, user: &str, at: &str) -> (u64, u64) {
        match self.ask(user, ClientRequest::Usage(UsageRequest(path(at)))) {
            ClientReply::Usage(Usage { files, bytes, .. }) => (files, bytes),
            other => panic!("{other:?}"),
        }
    }

    fn may_read(&mut self, user: &str, at: &str) -> bool {
        match self.ask(user, ClientRequest::Locate(LocateRequest(path(at)))) {
            ClientReply::Located(_) => true,
            ClientReply::Refused(refusal) if refusal.status() == Status::Refused => false,
            other => panic!("{other:?}"),
        }
    }

    fn job(&mut self, user: &str) -> JobId {
        match self.ask(user, ClientRequest::AdmitJob(AdmitJobRequest { title: "t".into(), output: None })) {
            ClientReply::Admitted(Admitted { job, .. }) => job,
            other => panic!("{other:?}"),
        }
    }

    fn inputs(&mut self, user: &str, job: JobId, slices: &[SliceId]) -> Result<Ticket, Refusal> {
        let request = AclRequest::Inputs(JobInputsRequest { job, node: node("n1"), slices: slices.to_vec() });
        match self.ask(user, ClientRequest::Acl(request)) {
            ClientReply::Acl(AclReply::Inputs(ticket)) => Ok(read_ticket(&ticket)),
            ClientReply::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// The lists of rights in the sidecars of a file.
    fn told(&self, slice: SliceId) -> Vec<Option<String>> {
        let held = self.nodes.values().filter_map(|fake| fake.held.get(&slice));
        held.map(|held| held.metadata.header.acl.as_ref().map(ToString::to_string)).collect()
    }
}

fn restore(at: &str) -> ClientRequest {
    ClientRequest::Restore(RestoreRequest { path: path(at), to: None })
}

fn remove(at: &str) -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: false })
}

fn rename(from: &str, to: &str) -> ClientRequest {
    ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) })
}

fn put(bench: &mut Bench, user: &str, at: &str) -> SliceId {
    content(&bench.put(user, CreateRequest { parents: true, ..create(at) }, 10)).slice
}

// Promise 13.
#[test]
fn an_entry_takes_the_rights_of_the_nearest_that_says_any() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    put(&mut bench, "ann", "/d/e/f");
    assert_eq!(bench.acl("bob", "/d/e/f").effective.to_string(), "everyone:rx");
    bench.set_acl("ann", "/d", "user:bob:r,group:astro:rw");
    assert!(bench.may_read("bob", "/d/e/f") && !bench.may_read("eve", "/d/e/f"));
    let status = bench.acl("carl@astro", "/d/e/f");
    assert_eq!((status.from, status.own, status.mine), (Some(path("/d")), None, "rw".parse().unwrap()));
    bench.set_acl("ann", "/d/e", "user:eve:r");
    assert!(bench.may_read("eve", "/d/e/f") && !bench.may_read("bob", "/d/e/f"), "the nearer says all");
    // The folders above need not let anyone pass.
    assert_eq!(bench.status_of("eve", ClientRequest::Stat(StatRequest(path("/d")))), Status::Refused);
    let clear = |at: &str| ClientRequest::Acl(AclRequest::Clear(ClearAclRequest(path(at))));
    assert!(matches!(bench.ask("ann", clear("/d/e")), ClientReply::Acl(_)));
    assert!(bench.may_read("bob", "/d/e/f") && !bench.may_read("eve", "/d/e/f"));
    let add = |to: &str, rights: &str| {
        ClientRequest::Acl(AclRequest::Add(AddToAclRequest { path: path(to), acl: rights.parse().unwrap() }))
    };
    // What holds is what is added to: here that of the folder above, which goes on to hold there.
    assert!(matches!(bench.ask("ann", add("/d/e", "user:eve:r")), ClientReply::Acl(_)));
    assert!(["bob", "eve", "carl@astro"].iter().all(|who| bench.may_read(who, "/d/e/f")));
    assert!(matches!(bench.ask("ann", clear("/d/e")), ClientReply::Acl(_)));
    assert_eq!(bench.status_of("bob", add("/d/e", "user:bob:rwxa")), Status::Refused);
    let take =
        AclRequest::Remove(RemoveFromAclRequest { path: path("/d"), principals: vec!["user:bob".parse().unwrap()] });
    assert!(matches!(bench.ask("ann", ClientRequest::Acl(take.clone())), ClientReply::Acl(_)));
    assert!(!bench.may_read("bob", "/d/e/f") && bench.may_read("carl@astro", "/d/e/f"));
    assert_eq!(bench.status_of("ann", ClientRequest::Acl(take)), Status::NotFound, "it is not there any more");
}

// Promise 13.
#[test]
fn who_owns_a_folder_may_do_everything_below_it_as_far_as_that_says_nothing_itself() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.mkdir("ann", "/d");
    bench.set_acl("ann", "/d", "group:astro:rw");
    put(&mut bench, "bob@astro", "/d/f");
    put(&mut bench, "bob@astro", "/d/own");
    bench.set_acl("bob@astro", "/d/own", "none");
    assert_eq!(bench.acl("ann", "/d/f").mine, Rights::ALL);
    assert!(!bench.may_read("ann", "/d/own") && bench.may_read("bob", "/d/own") && bench.may_read("admin", "/d/own"));
    // A folder with an entry in it that the user may not remove is not removed; the answer does not name the entry.
    let refusal = bench.refused("ann", remove("/d"));
    assert!(refusal.status() == Status::Refused && !refusal.message.contains("own `"), "{refusal}");
    assert!(bench.exists("/d/own"));
    bench.done("bob", remove("/d/own"));
    bench.done("ann", remove("/d"));
}

// Promise 13.
#[test]
fn nobody_is_shown_what_he_may_not_read() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for at in ["/d/open", "/d/secret/a", "/d/secret/deep/b", "/d/secret/shared/c", "/d/z"] {
        put(&mut bench, "ann", at);
    }
    bench.set_acl("ann", "/d/secret", "none");
    bench.set_acl("ann", "/d/secret/shared", "everyone:r");
    assert_eq!(bench.seen("bob", "/"), ["/d", "/d/open", "/d/z"]);
    assert_eq!(bench.seen("bob", "/d/secret/shared"), ["/d/secret/shared/c"], "it may be named");
    assert_eq!(bench.status_of("bob", ClientRequest::Stat(StatRequest(path("/d/secret/a")))), Status::Refused);
    assert_eq!((bench.used_at("bob", "/d"), bench.used_at("ann", "/d")), ((2, 20), (5, 50)));
    assert_eq!(bench.seen("ann", "/").len(), 9);
    let entries = bench.page_of("ann", "/d", false, None).entries;
    assert_eq!(entries.iter().map(|entry| entry.has_acl).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn a_page_of_which_nothing_is_shown_says_where_to_go_on() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.mkdir("ann", "/d");
    for index in 0..12_000 {
        bench.mkdir("ann", &format!("/d/{index:05}"));
    }
    bench.set_acl("ann", "/d", "none");
    bench.set_acl("ann", "/d/11999", "everyone:r");
    bench.set_acl("ann", "/d", "user:bob:x");
    // bob lists the root's other folder, in which he may see only the last.
    bench.done("ann", rename("/d", "/e"));
    bench.mkdir("bob", "/d");
    let master = &bench.master;
    let e = master.catalog.names().find(&path("/e")).unwrap();
    let last = master.catalog.names().children(e).last().copied().unwrap();
    let page = master.catalog.names().list_filtered(&path("/e"), false, None, Some(&|id| id == last)).unwrap();
    assert!(page.entries.is_empty() && page.more);
    let rest =
        master.catalog.names().list_filtered(&path("/e"), false, page.next.as_ref(), Some(&|id| id == last)).unwrap();
    assert_eq!((rest.entries.len(), rest.more, rest.next), (1, false, None));
    assert_eq!(rest.entries[0].path, path("/e/11999"));
}

// Promise 13.
#[test]
fn a_private_cloud_shows_each_his_own_and_what_others_give_him() {
    let private = MasterConfig { everyone: Rights::default(), ..config() };
    let mut bench = Bench::configured(private, &["a/1"]);
    put(&mut bench, "ann", "/ann/f");
    put(&mut bench, "bob", "/bob/g");
    assert!(!bench.may_read("bob", "/ann/f") && bench.may_read("bob", "/bob/g"));
    assert_eq!(bench.seen("bob", "/"), ["/bob", "/bob/g"]);
    assert_eq!((bench.used_at("bob", "/"), bench.used_at("admin", "/")), ((1, 10), (2, 20)));
    bench.set_acl("ann", "/ann", "user:bob:r");
    assert_eq!(bench.seen("bob", "/"), ["/ann", "/ann/f", "/bob", "/bob/g"]);
    assert_eq!(bench.status_of("bob", remove("/ann/f")), Status::Refused);
}

#[test]
fn only_administrators_say_what_holds_for_the_root_and_may_close_it() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let set =
        |acl: &str| ClientRequest::Acl(AclRequest::Set(SetAclRequest { path: path("/"), acl: acl.parse().unwrap() }));
    assert_eq!(bench.status_of("bob", set("everyone:rwxa")), Status::Refused);
    put(&mut bench, "ann", "/f");
    bench.set_acl("admin", "/", "group:astro:r");
    assert_eq!(bench.status_of("bob", ClientRequest::Create(create("/new"))), Status::Refused);
    assert!(bench.may_read("carl@astro", "/f") && !bench.may_read("bob", "/f") && bench.may_read("ann", "/f"));
    let list = ClientRequest::List(ListRequest { folder: path("/"), recursive: false, after: None, with_nodes: false });
    assert_eq!(bench.status_of("bob", list), Status::Refused);
}

#[test]
fn who_may_only_put_things_into_a_folder_cannot_take_out_what_others_put_there() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.mkdir("ann", "/drop");
    bench.set_acl("ann", "/drop", "everyone:w");
    put(&mut bench, "bob", "/drop/of-bob");
    assert!(!bench.may_read("eve", "/drop/of-bob"));
    assert_eq!(bench.status_of("eve", rename("/drop/of-bob", "/got-it")), Status::Refused);
    assert!(bench.may_read("ann", "/drop/of-bob") && bench.may_read("bob", "/drop/of-bob"));
    bench.done("bob", rename("/drop/of-bob", "/back"));
}

// Promise 13.
#[test]
fn a_file_that_is_overwritten_keeps_its_owner_and_its_rights() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    put(&mut bench, "ann", "/f");
    bench.set_acl("ann", "/f", "user:bob:rw");
    let slice = put(&mut bench, "bob", "/f");
    bench.advance(seconds(3));
    let status = bench.acl("bob", "/f");
    assert_eq!((status.owner.as_str(), status.effective.to_string()), ("ann", "user:bob:rw".into()));
    assert_eq!(bench.told(slice), [Some("user:bob:rw".to_owned())]);
    assert!(!bench.may_read("eve", "/f"));
    // The right is checked again when the write is published.
    let created = bench.created("bob", create("/f"));
    bench.write(&created, 20);
    bench.set_acl("ann", "/f", "user:bob:r");
    let number = bench.commit_later("bob", created.lease, 20);
    assert!(matches!(bench.answer(number), Some(ClientReply::Refused(refusal)) if refusal.status() == Status::Refused));
    assert_eq!(content(&bench.stat("/f").entry).bytes, 10);
}

// Promise 23.
#[test]
fn a_job_reads_only_what_its_user_may_read_and_run_jobs_on() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let (open, read, run, both) = (
        put(&mut bench, "ann", "/open"),
        put(&mut bench, "ann", "/r"),
        put(&mut bench, "ann", "/x"),
        put(&mut bench, "ann", "/rx"),
    );
    for (at, acl) in [("/r", "user:bob:r"), ("/x", "user:bob:x"), ("/rx", "user:bob:rx")] {
        bench.set_acl("ann", at, acl);
    }
    let job = bench.job("bob");
    let ticket = bench.inputs("bob", job, &[open, both]).unwrap();
    assert_eq!(ticket.right, TicketRight::Inputs { job, slices: vec![open, both] });
    assert_eq!((ticket.user.as_str(), ticket.node), ("bob", node("n1")));
    for refused in [read, run, SliceId(77)] {
        let refusal = bench.inputs("bob", job, &[open, refused]).unwrap_err();
        assert_eq!(refusal.status(), Status::Refused, "{refusal}");
    }
    assert!(bench.inputs("bob", job, &[read]).unwrap_err().message.contains("run jobs on it"));
    // Nor for another's job, nor once it has ended, nor for a file its owner has thrown away.
    assert_eq!(bench.inputs("eve", job, &[open]).unwrap_err().status(), Status::Refused);
    bench.done("ann", remove("/open"));
    assert!(bench.inputs("bob", job, &[open]).is_err());
    bench.done("bob", ClientRequest::CancelJob(CancelJobRequest(job)));
    assert!(bench.inputs("bob", job, &[both]).is_err());
    let out = |at: &str| ClientRequest::AdmitJob(AdmitJobRequest { title: "t".into(), output: Some(path(at)) });
    bench.mkdir("ann", "/ann");
    assert_eq!(bench.status_of("bob", out("/ann/out")), Status::Refused, "nor written where he may not");
}

#[test]
fn only_administrators_give_entries_away_and_their_bytes_count_for_the_new_owner() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let slice = put(&mut bench, "ann", "/f");
    let give = |owner: &str| {
        ClientRequest::Acl(AclRequest::GiveTo(GiveToRequest { path: path("/f"), owner: UserName::new(owner).unwrap() }))
    };
    assert_eq!(bench.status_of("ann", give("bob")), Status::Refused);
    let quota = |files| {
        ClientRequest::SetQuota(SetQuotaRequest {
            user: UserName::new("bob").unwrap(),
            bytes: None,
            files: Some(files),
        })
    };
    bench.done("admin", quota(0));
    assert_eq!(bench.status_of("admin", give("bob")), Status::Refused, "not beyond his quota");
    bench.done("admin", quota(1));
    assert!(matches!(bench.ask("admin", give("bob")), ClientReply::Acl(_)));
    bench.advance(seconds(3));
    assert_eq!(bench.stat("/f").entry.owner.as_str(), "bob");
    assert_eq!(bench.node("n1").held[&slice].metadata.header.owner.as_str(), "bob");
    assert_eq!(bench.status_of("bob", ClientRequest::Create(create("/g"))), Status::Refused, "his quota is used up");
    assert_eq!(bench.status_of("ann", remove("/f")), Status::Refused);
}

// Promise 13.
#[test]
fn rights_go_with_what_they_are_of_through_renames_the_trash_and_a_restart() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let slice = put(&mut bench, "ann", "/d/f");
    put(&mut bench, "ann", "/d/g");
    bench.set_acl("ann", "/d", "user:bob:r");
    bench.set_acl("ann", "/d/f", "user:eve:r");
    bench.done("ann", rename("/d", "/e"));
    bench.done("ann", rename("/e/f", "/f"));
    bench.advance(seconds(3));
    assert_eq!(bench.told(slice), [Some("user:eve:r".to_owned())], "and its sidecar says so");
    bench.restart_master();
    bench.join("n1");
    bench.advance(seconds(3));
    assert!(bench.may_read("eve", "/f") && !bench.may_read("bob", "/f"));
    assert!(bench.may_read("bob", "/e/g") && !bench.may_read("eve", "/e/g"));
    for at in ["/f", "/e"] {
        bench.done("ann", remove(at));
    }
    let place = bench.ask("ann", ClientRequest::Trash(TrashRequest { all_users: false, after: None }));
    let ClientReply::Trash(trash) = place else { panic!("{place:?}") };
    for item in &trash.items {
        // The trash belongs to its owner, whoever could read its entries before.
        assert_eq!(bench.status_of("eve", ClientRequest::Stat(StatRequest(item.at.clone()))), Status::Refused);
    }
    for at in ["/f", "/e"] {
        assert!(matches!(bench.ask("ann", restore(at)), ClientReply::Entry(_)));
    }
    assert!(bench.may_read("eve", "/f") && bench.may_read("bob", "/e/g") && !bench.may_read("eve", "/e/g"));
}

// Promise 13.
#[test]
fn rights_come_back_when_the_journal_was_lost_and_nobody_reads_by_default_before() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    put(&mut bench, "ann", "/d/f");
    put(&mut bench, "ann", "/d/own");
    put(&mut bench, "ann", "/open");
    bench.set_acl("ann", "/d", "user:bob:rx");
    bench.set_acl("ann", "/d/own", "user:eve:r");
    bench.advance(seconds(5));
    bench.lose_journal(0);
    bench.join_each(&["n1"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Running);
    // A folder's list is not certain yet; a file's own list is.
    for (user, at, may) in [
        ("eve", "/d/f", false),
        ("bob", "/d/f", false),
        ("bob", "/open", false),
        ("ann", "/d/f", true),
        ("eve", "/d/own", true),
        ("bob", "/d/own", false),
    ] {
        assert_eq!(bench.may_read(user, at), may, "{user} {at}");
    }
    bench.join_each(&["n2"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    assert_eq!(bench.acl("ann", "/d").own, Some("user:bob:rx".parse().unwrap()));
    assert_eq!(bench.acl("ann", "/d/own").own, Some("user:eve:r".parse().unwrap()));
    assert!(bench.may_read("bob", "/d/f") && !bench.may_read("eve", "/d/f") && bench.may_read("eve", "/open"));
    assert_eq!(bench.conflicts(), []);
    // As durable as everything else.
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    assert!(!bench.may_read("eve", "/d/f") && bench.may_read("eve", "/d/own"));
}

// Promise 13.
#[test]
fn what_a_folder_said_once_opens_it_to_nobody_while_names_are_put_together() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    put(&mut bench, "ann", "/d/f");
    bench.set_acl("ann", "/d", "everyone:r");
    bench.advance(seconds(5));
    bench.crash("n1");
    bench.advance(seconds(12));
    bench.set_acl("ann", "/d", "none");
    bench.advance(seconds(5));
    bench.lose_journal(0);
    // Its copy is from before the folder was closed.
    bench.join_each(&["n1"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Running);
    assert_eq!(bench.acl("admin", "/d").own, Some("everyone:r".parse().unwrap()));
    for request in [
        ClientRequest::Stat(StatRequest(path("/d"))),
        ClientRequest::Usage(UsageRequest(path("/d"))),
        ClientRequest::List(ListRequest { folder: path("/d"), recursive: true, after: None, with_nodes: false }),
    ] {
        let reply = bench.ask("bob", request.clone());
        assert!(matches!(&reply, ClientReply::Refused(refusal) if refusal.status() == Status::Refused), "{request:?}");
        assert!(!matches!(bench.ask("ann", request), ClientReply::Refused(_)));
    }
    let list = ClientRequest::List(ListRequest {
        folder: SectorPath::root(),
        recursive: true,
        after: None,
        with_nodes: false,
    });
    let ClientReply::Page(page) = bench.ask("bob", list) else { panic!("no list") };
    assert_eq!(page.entries, []);
    bench.join_each(&["n2"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    assert_eq!(bench.acl("ann", "/d").own, Some("none".parse().unwrap()));
}

#[test]
fn of_rights_that_differ_the_newer_hold_and_else_what_all_grant() {
    for (n2_away, expected) in [(true, "user:bob:r"), (false, "user:bob:r")] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        let slice = put(&mut bench, "ann", "/f");
        bench.set_acl("ann", "/f", "user:bob:rw,user:eve:r");
        bench.advance(seconds(5));
        if n2_away {
            bench.crash("n2");
            bench.advance(seconds(12));
        }
        bench.set_acl("ann", "/f", "user:bob:r");
        bench.advance(seconds(5));
        if !n2_away {
            // Its sidecar was not rewritten before the loss, but its copy of the rows was.
            let held = bench.node_mut("n2").held.get_mut(&slice).unwrap();
            held.metadata.header.acl = Some("user:bob:rw,user:eve:r".parse::<Acl>().unwrap());
        }
        bench.lose_journal(0);
        bench.join_each(&["n2", "n1"]);
        assert_eq!(bench.acl("ann", "/f").own.unwrap().to_string(), expected, "away: {n2_away}");
        let listed: Vec<_> = bench.conflicts().into_iter().map(|conflict| conflict.1).collect();
        assert_eq!(listed, if n2_away { vec![] } else { vec![ConflictKind::TwoAcls] });
        bench.advance(seconds(100));
        assert_eq!(bench.told(slice), vec![Some(expected.to_owned()); 2], "all sidecars agree again");
    }
}

// Promise 13.
#[test]
fn others_see_of_a_job_neither_what_it_is_called_nor_what_went_wrong() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let job = bench.job("ann");
    let seen = |bench: &mut Bench, user: &str| match bench.ask(user, ClientRequest::Job(JobRequest(job))) {
        ClientReply::Jobs(jobs) => jobs[0].clone(),
        other => panic!("{other:?}"),
    };
    let mut counters = Counters::new();
    counters.add("words of a secret", 1).unwrap();
    let errors = vec!["the secret is no number".to_owned()];
    let report = JobRecord { errors: errors.clone(), counters: vec![counters.clone()], ..seen(&mut bench, "ann") };
    bench.ask("ann", ClientRequest::ReportJob(ReportJobRequest(report)));
    for user in ["ann", "admin"] {
        let JobRecord { title, errors: told, counters: counted, .. } = seen(&mut bench, user);
        assert_eq!((&*title, told, counted), ("t", errors.clone(), vec![counters.clone()]), "{user}");
    }
    let JobRecord { title, errors, counters, error_slice, .. } = seen(&mut bench, "bob");
    assert_eq!((&*title, errors.len(), counters.len(), error_slice), ("", 0, 0, None));
}
