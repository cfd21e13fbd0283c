//! A master whose journal is older than what the nodes know, or that meets an old cloud's nodes late. No file, right or
//! quota is lost, and nothing is removed.

// Promise 17.

#![allow(clippy::unwrap_used)]

mod backups;
mod folders;
mod lost_commits;

use std::collections::BTreeMap;

use protocol::{
    Policy,
    acl::Acl,
    message::{
        access::AclRequest,
        client_master::PolicyStatus,
        request::{
            ForgetNodeRequest, ListRequest, PolicyRequest, QuotasRequest, RemoveRequest, RenameRequest, SetAclRequest,
            SetPolicyRequest, SetQuotaRequest, StatRequest, TrashRequest,
        },
    },
};

use super::*;

/// The journal's rows at a moment.
type Backup = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

impl Bench {
    /// An older journal is restored while the master is stopped.
    fn bring_back(&mut self, backup: &Backup) {
        self.rows = backup.clone();
        self.restart_master();
    }

    fn close_to_others(&mut self, user: &str, at: &str) {
        let acl = AclRequest::Set(SetAclRequest { path: path(at), acl: Acl::default() });
        assert!(matches!(self.ask(user, ClientRequest::Acl(acl)), ClientReply::Acl(_)));
    }

    fn limit(&mut self, user: &str, files: u64) {
        let user = UserName::new(user).unwrap();
        self.done("admin", ClientRequest::SetQuota(SetQuotaRequest { user, bytes: None, files: Some(files) }));
    }

    fn keep_for(&mut self, at: &str, lifetime_seconds: u64) {
        let policy = Policy { lifetime_seconds: Some(lifetime_seconds), ..Policy::default() };
        let set = ClientRequest::SetPolicy(SetPolicyRequest { path: path(at), policy });
        assert!(matches!(self.ask("admin", set), ClientReply::Policy(_)));
    }

    fn lifetime(&mut self, at: &str) -> Option<u64> {
        match self.ask("admin", ClientRequest::Policy(PolicyRequest(path(at)))) {
            ClientReply::Policy(PolicyStatus { own, .. }) => own.lifetime_seconds,
            other => panic!("{other:?}"),
        }
    }

    fn is_closed_to(&mut self, user: &str, at: &str) -> bool {
        matches!(self.ask(user, ClientRequest::Stat(StatRequest(path(at)))), ClientReply::Refused(_))
    }

    fn all_paths(&mut self) -> Vec<String> {
        let list =
            ClientRequest::List(ListRequest { folder: path("/"), recursive: true, after: None, with_nodes: true });
        match self.ask("admin", list) {
            ClientReply::Page(page) => page.entries.into_iter().map(|entry| entry.path.to_string()).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn removals(&self) -> usize {
        let orders = self.nodes.values().flat_map(|fake| &fake.orders);
        orders.filter(|order| matches!(order, Order::Remove(_))).count()
    }

    fn forget_orders(&mut self) {
        self.nodes.values_mut().for_each(|fake| fake.orders.clear());
    }
}

/// A cloud with a file, and its journal at that moment; then many changes follow.
fn gone_on(places: &[&str]) -> (Bench, Backup) {
    let mut bench = Bench::with_nodes(places);
    bench.put("ann", create("/a"), 1);
    bench.put("ann", create("/moved"), 2);
    bench.put("ann", create("/removed"), 3);
    bench.mkdir("ann", "/open");
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    // The file that is written while the backup is taken has an older version than others in it.
    bench.put("ann", create("/b"), 4);
    bench.put("ann", create("/a"), 5);
    bench.mkdir("bob", "/private/empty");
    bench.close_to_others("bob", "/private");
    bench.close_to_others("ann", "/open");
    bench.put("bob", create("/private/c"), 6);
    bench.limit("bob", 7);
    bench.keep_for("/private", 99_999);
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/moved"), to: path("/open/moved") }));
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/removed"), recursive: false, now: false }));
    bench.advance(seconds(3));
    bench.forget_orders();
    (bench, backup)
}

/// Everything done after the backup is there.
fn check_all(bench: &mut Bench) {
    let paths = bench.all_paths();
    for at in ["/a", "/b", "/open", "/open/moved", "/private", "/private/c", "/private/empty"] {
        assert!(paths.contains(&at.to_owned()), "{at} is not in {paths:?}");
    }
    assert!(!paths.contains(&"/moved".to_owned()) && !paths.contains(&"/removed".to_owned()), "{paths:?}");
    assert_eq!(content(&bench.stat("/a").entry).bytes, 5);
    for at in ["/private/c", "/open/moved"] {
        assert!(bench.is_closed_to("eve", at), "{at} was closed");
    }
    assert_eq!(bench.lifetime("/private"), Some(99_999));
    let ClientReply::Quotas(quotas) = bench.ask("admin", ClientRequest::Quotas(QuotasRequest { after: None })) else {
        panic!()
    };
    assert!(quotas.quotas.iter().any(|quota| quota.files == Some(7)), "{quotas:?}");
    let trash = bench.ask("admin", ClientRequest::Trash(TrashRequest { all_users: true, after: None }));
    let ClientReply::Trash(trash) = trash else { panic!("{trash:?}") };
    assert_eq!(trash.items.len(), 1, "what was removed can be restored");
}

// Promise 17.
#[test]
fn a_journal_from_a_backup_costs_no_file_no_right_and_no_quota() {
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        let (mut bench, backup) = gone_on(&["a/1", "b/1"]);
        let held: Vec<_> = bench.nodes.values().map(|fake| fake.held.clone()).collect();
        bench.bring_back(&backup);
        bench.join_each(&ids[..1]);
        let reasons = bench.health().reasons;
        assert!(reasons.iter().any(|reason| reason.contains("older than what the nodes know")), "{reasons:?}");
        assert_eq!(bench.status_of("ann", ClientRequest::Create(create("/new"))), Status::Unavailable);
        bench.come(&ids);
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        check_all(&mut bench);
        bench.advance(seconds(100));
        assert_eq!(bench.removals(), 0, "nothing was removed");
        let after: Vec<_> = bench.nodes.values().map(|fake| fake.held.clone()).collect();
        assert_eq!(
            after.iter().map(BTreeMap::len).collect::<Vec<_>>(),
            held.iter().map(BTreeMap::len).collect::<Vec<_>>()
        );
        // Replaced files exist at no node: nobody is asked about them.
        assert_eq!((bench.conflicts(), bench.health().reasons), (vec![], vec![]));
        // It is as durable as before.
        bench.restart_master();
        bench.come(&ids);
        check_all(&mut bench);
    }
}

// Promise 17.
#[test]
fn an_upload_that_was_under_way_at_the_backup_is_known_although_its_version_is_old() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let long = bench.created("ann", create("/long"));
    bench.put("ann", create("/short"), 1);
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    bench.write(&long, 10);
    let number = bench.commit_later("ann", long.lease, 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(100));
    assert_eq!(content(&bench.stat("/long").entry).bytes, 10);
    assert_eq!(bench.holders(long.slice).len(), 2);
}

// Promise 17.
#[test]
fn what_lies_at_a_node_that_lags_is_kept_until_the_one_that_knows_it_comes() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let long = bench.created("ann", create("/long"));
    bench.put("ann", create("/short"), 1);
    bench.advance(seconds(3));
    let (backup, kept) = (bench.rows.clone(), bench.node("n1").mirror.clone());
    bench.write(&long, 10);
    let number = bench.commit_later("ann", long.lease, 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/short"), to: path("/renamed") }));
    bench.advance(seconds(3));
    bench.node_mut("n1").mirror = kept;
    bench.bring_back(&backup);
    // For n1 the old journal is a good one: nothing shows yet that it is not.
    bench.join_each(&["n1"]);
    bench.advance(seconds(3_600));
    assert_eq!(bench.holders(long.slice), ["n1", "n2"]);
    assert_eq!(bench.node("n1").paths(), ["/long", "/renamed"]);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(100));
    assert_eq!(bench.all_paths(), ["/long", "/renamed"]);
    assert_eq!(bench.holders(long.slice), ["n1", "n2"]);
}

// Promise 17.
#[test]
fn nodes_that_lag_come_first_and_the_one_that_knows_more_an_hour_later() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let at =
        |at: &str, id: &str| CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node(id)), ..create(at) };
    bench.put("ann", at("/a", "n1"), 1);
    bench.mkdir("ann", "/shared");
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    // Only n3 is told of the changes that follow.
    bench.crash("n1");
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.mkdir("bob", "/bobs");
    bench.close_to_others("bob", "/bobs");
    bench.close_to_others("ann", "/shared");
    bench.put("bob", at("/bobs/secret", "n3"), 2);
    let only = bench.put("ann", at("/only", "n3"), 3);
    bench.limit("bob", 9);
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.forget_orders();
    bench.join_each(&["n1", "n2"]);
    // An hour of work on the old state, including a restart of the master.
    bench.put("eve", at("/eves", "n1"), 4);
    bench.advance(seconds(1_800));
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    bench.mkdir("eve", "/eves-folder/empty");
    bench.close_to_others("eve", "/eves-folder");
    bench.put("eve", at("/only", "n2"), 5);
    bench.limit("eve", 3);
    bench.keep_for("/eves-folder", 77_777);
    bench.advance(seconds(1_800));
    bench.come(&["n1", "n2", "n3"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    let paths = bench.all_paths();
    for at in ["/a", "/eves", "/eves-folder/empty", "/bobs/secret", "/shared", "/only"] {
        assert!(paths.contains(&at.to_owned()), "{at} is not in {paths:?}");
    }
    assert!(bench.is_closed_to("eve", "/bobs/secret") && bench.is_closed_to("bob", "/eves-folder/empty"));
    assert_eq!(bench.lifetime("/eves-folder"), Some(77_777));
    let ClientReply::Quotas(quotas) = bench.ask("admin", ClientRequest::Quotas(QuotasRequest { after: None })) else {
        panic!()
    };
    for files in [9, 3] {
        assert!(quotas.quotas.iter().any(|quota| quota.files == Some(files)), "{files}: {quotas:?}");
    }
    // Two files of one name: the last one written stands, and the other is listed and kept.
    assert_eq!(content(&bench.stat("/only").entry).bytes, 5);
    assert_eq!(bench.conflicts(), [("/only".to_owned(), ConflictKind::WrittenSince, true)]);
    bench.advance(seconds(100));
    assert_eq!(bench.holders(content(&only).slice), ["n3"]);
}

// Promise 17.
#[test]
fn the_same_backup_put_back_twice_loses_nothing_either() {
    let (mut bench, backup) = gone_on(&["a/1", "b/1"]);
    bench.bring_back(&backup);
    bench.come(&["n1", "n2"]);
    bench.put("ann", create("/since"), 8);
    bench.mkdir("ann", "/folder-since");
    bench.close_to_others("ann", "/folder-since");
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(100));
    let paths = bench.all_paths();
    for at in ["/a", "/b", "/private/c", "/private/empty", "/since", "/folder-since", "/open/moved"] {
        assert!(paths.contains(&at.to_owned()), "{at} is not in {paths:?}");
    }
    assert!(bench.is_closed_to("eve", "/private/c") && bench.is_closed_to("eve", "/folder-since"));
    assert_eq!(content(&bench.stat("/a").entry).bytes, 5);
}

// Promise 17.
#[test]
fn a_master_that_dies_or_loses_its_journal_again_in_the_midst_loses_nothing() {
    for what in ["restarted", "put back again", "lost", "lost and restarted"] {
        let (mut bench, backup) = gone_on(&["a/1", "b/1", "c/1"]);
        bench.bring_back(&backup);
        bench.join_each(&["n1"]);
        bench.join_each(&["n1"]);
        assert_eq!(bench.rebuild_status().state, RebuildState::Running, "{what}");
        match what {
            "restarted" => bench.restart_master(),
            "put back again" => bench.bring_back(&backup),
            _ => bench.lose_journal(-86_400 * 3),
        }
        bench.join_each(&["n2"]);
        if what == "lost and restarted" {
            bench.restart_master();
        }
        bench.come(&["n1", "n2", "n3"]);
        bench.advance(seconds(100));
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled, "{what}");
        check_all(&mut bench);
        assert_eq!(bench.removals(), 0, "{what}");
    }
}

// Promise 17.
#[test]
fn the_first_old_node_may_come_an_hour_after_a_new_master_that_people_use_already() {
    let (old, _) = gone_on(&["a/1", "b/1"]);
    let mut bench = Bench::new(config(), 77);
    for id in ["n7", "n8"] {
        bench.add_node(id, "c/1");
    }
    bench.put("eve", create("/eves"), 4);
    bench.mkdir("eve", "/hers");
    bench.close_to_others("eve", "/hers");
    bench.limit("eve", 3);
    bench.advance(seconds(3_600));
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    for (id, place) in [("n1", "a/1"), ("n2", "b/1")] {
        bench.make_node(id, place);
        bench.node_mut(id).held = old.node(id).held.clone();
        bench.node_mut(id).mirror = old.node(id).mirror.clone();
    }
    bench.come(&["n1", "n2"]);
    check_all_but_the_trash(&mut bench);
    assert!(bench.exists("/eves") && bench.is_closed_to("bob", "/hers"));
    bench.advance(seconds(100));
    for slice in old.node("n1").held.keys() {
        assert_eq!(bench.holders(*slice).len(), 2, "copies may be moved, and none is lost");
    }
    // Only now are their rows replaced, by rows that have everything.
    for id in ["n1", "n2"] {
        let rows = &bench.node(id).mirror.as_ref().unwrap().rows;
        assert!(rows.keys().filter(|(table, _)| table == "names").count() >= 5, "{id}");
    }
}

/// As [`check_all`], for names to which an old cloud's were added: entries removed there may be restored file by file.
fn check_all_but_the_trash(bench: &mut Bench) {
    let paths = bench.all_paths();
    for at in ["/a", "/b", "/open/moved", "/private/c", "/private/empty"] {
        assert!(paths.contains(&at.to_owned()), "{at} is not in {paths:?}");
    }
    assert!(bench.is_closed_to("eve", "/private/c") && bench.is_closed_to("eve", "/open/moved"));
    assert_eq!(bench.lifetime("/private"), Some(99_999));
    let ClientReply::Quotas(quotas) = bench.ask("admin", ClientRequest::Quotas(QuotasRequest { after: None })) else {
        panic!()
    };
    assert!(quotas.quotas.iter().any(|quota| quota.files == Some(7)), "{quotas:?}");
    assert!(!paths.contains(&"/removed".to_owned()));
}

#[test]
fn a_new_master_without_nodes_stays_new() {
    let (old, _) = gone_on(&["a/1", "b/1"]);
    let mut bench = Bench::new(config(), 77);
    bench.advance(seconds(7_200));
    for (id, place) in [("n1", "a/1"), ("n2", "b/1")] {
        bench.make_node(id, place);
        bench.node_mut(id).held = old.node(id).held.clone();
        bench.node_mut(id).mirror = old.node(id).mirror.clone();
    }
    bench.come(&["n1", "n2"]);
    check_all(&mut bench);
}

// Promise 17.
#[test]
fn an_orderly_restart_is_no_loss_and_leftovers_go_when_all_nodes_have_told() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.put("ann", create("/a"), 1);
    let unpublished = bench.created("ann", create("/b"));
    bench.write(&unpublished, 5);
    bench.put("ann", create("/c"), 6);
    // Its bytes are not gone when the master ends.
    for id in ["n1", "n2", "n3"] {
        bench.node_mut(id).answers = false;
    }
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/c"), recursive: false, now: true }));
    bench.restart_master();
    for id in ["n1", "n2", "n3"] {
        bench.node_mut(id).answers = true;
    }
    bench.join_each(&["n1", "n2"]);
    bench.advance(seconds(100));
    let is_there = |id: &String| id != "n3";
    assert!(bench.holders(unpublished.slice).iter().any(is_there), "n3 may know that it was published");
    // Decisions of this master's life are carried out at once.
    let gone = content(&bench.put("ann", CreateRequest { copies: Some(2), ..create("/d") }, 7)).slice;
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/d"), recursive: false, now: true }));
    bench.advance(seconds(5));
    assert_eq!(bench.holders(gone), Vec::<String>::new());
    bench.join_each(&["n3"]);
    bench.advance(seconds(100));
    assert_eq!(bench.holders(unpublished.slice), Vec::<String>::new());
    assert_eq!((bench.all_paths(), bench.rebuild_status().state), (vec!["/a".to_owned()], RebuildState::New));
    assert!(bench.nodes.values().all(|fake| fake.held.len() <= 1));
}

#[test]
fn nothing_waits_for_a_node_that_was_forgotten() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let unpublished = bench.created("ann", create("/b"));
    bench.write(&unpublished, 5);
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    let holders = |bench: &Bench| bench.holders(unpublished.slice).iter().filter(|id| *id != "n3").count();
    assert!(holders(&bench) > 0);
    bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Forget(ForgetNodeRequest(node("n3")))));
    bench.advance(seconds(100));
    assert_eq!(holders(&bench), 0);
}

#[test]
fn a_restart_before_any_change_and_many_after_changes_are_no_loss() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    for round in 0..20 {
        if round % 3 == 0 {
            bench.put("ann", create(&format!("/{round}")), round);
        }
        if round % 4 == 0 {
            bench.mkdir("ann", &format!("/folder-{round}"));
        }
        // Sometimes the nodes have heard of the last change, sometimes not.
        bench.advance(seconds(round % 2));
        bench.restart_master();
        bench.join_each(&["n1", "n2"]);
        assert_eq!(bench.rebuild_status().state, RebuildState::New, "round {round}");
    }
    assert_eq!(bench.rebuild_status().generation, 1);
}

#[test]
fn a_mark_that_no_journal_can_have_given_is_not_believed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/a"), 1);
    bench.advance(seconds(3));
    let id = bench.rebuild_status().journal;
    for (generation, sequence) in [(u64::MAX, 1), (1, u64::MAX)] {
        for journal in [id, protocol::JournalId(id.0 ^ 1)] {
            let mark = protocol::message::rebuild::MirrorPosition { journal, generation, sequence };
            bench.report("n2", Report::MirrorPosition { position: Some(mark), all_seen: true });
            let status = bench.rebuild_status();
            assert_eq!((status.state, status.generation, status.journal), (RebuildState::New, 1, id));
        }
    }
}

// Promise 17.
#[test]
fn an_old_journal_ends_no_lifetime_before_a_node_has_come() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.mkdir("ann", "/short");
    bench.keep_for("/short", 100);
    let file = content(&bench.put("ann", create("/short/f"), 1)).slice;
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    bench.keep_for("/short", 99_999);
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.advance(seconds(3_600));
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(10));
    assert_eq!((bench.lifetime("/short"), bench.exists("/short/f")), (Some(99_999), true));
    assert_eq!(bench.holders(file).len(), 2);
}

#[test]
fn a_copy_that_is_made_while_a_node_is_missed_gets_its_place() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let slice = content(&bench.put("ann", create("/a"), 1)).slice;
    bench.advance(seconds(3));
    let missed = bench.holders(slice).remove(0);
    bench.crash(&missed);
    bench.restart_master();
    let others: Vec<_> = ["n1", "n2", "n3"].into_iter().filter(|id| *id != missed).collect();
    bench.join_each(&others);
    bench.advance(config().replicate_after + seconds(60));
    for id in others {
        assert_eq!(bench.node(id).paths(), ["/a"], "{id}");
    }
}

#[test]
fn a_single_node_that_shows_the_loss_in_its_inventory_tells_all_of_it_anew() {
    let mut bench = Bench::configured(MasterConfig { copies: 1, sync_copies: 1, ..config() }, &["a/1"]);
    bench.put("ann", create("/a"), 1);
    bench.put("ann", create("/before"), 2);
    bench.advance(seconds(3));
    let (backup, kept) = (bench.rows.clone(), bench.node("n1").mirror.clone());
    bench.put("ann", create("/a"), 3);
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/before"), to: path("/after") }));
    bench.node_mut("n1").mirror = kept;
    bench.bring_back(&backup);
    bench.join("n1");
    assert_eq!(bench.rebuild_status().state, RebuildState::Running, "nobody has told yet");
    bench.come(&["n1"]);
    bench.advance(seconds(100));
    assert_eq!(content(&bench.stat("/a").entry).bytes, 3);
    assert_eq!((bench.all_paths(), bench.conflicts()), (vec!["/a".to_owned(), "/after".to_owned()], vec![]));
}

#[test]
fn a_node_of_another_cloud_changes_nothing_here_and_keeps_nobody_waiting() {
    let mut other = filled_with_generation_two();
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/a"), 1);
    bench.advance(seconds(700));
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    let journal = bench.rebuild_status().journal;
    bench.make_node("n9", "c/1");
    bench.node_mut("n9").mirror = other.node("n1").mirror.clone();
    bench.come(&["n9"]);
    let status = bench.rebuild_status();
    assert_eq!((status.state, status.journal), (RebuildState::Settled, journal), "no rebuild");
    assert!(bench.exists("/a") && bench.exists("/theirs"));
    bench.put("ann", create("/b"), 2);
    assert!(other.exists("/theirs"));
}

/// A cloud that has lost its journal once.
fn filled_with_generation_two() -> Bench {
    let mut other = Bench::new(config(), 99);
    other.add_node("n1", "a/1");
    other.mkdir("ann", "/theirs");
    other.advance(seconds(3));
    other.lose_journal(0);
    other.come(&["n1"]);
    other.mkdir("ann", "/more");
    other.advance(seconds(3));
    other
}

#[test]
fn copies_that_are_too_many_go_although_a_node_is_missed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1", "d/1"]);
    let slice = content(&bench.put("ann", create("/a"), 1)).slice;
    bench.advance(seconds(3));
    let holders = bench.holders(slice);
    let missed = ["n1", "n2", "n3", "n4"].into_iter().find(|id| !holders.contains(&(*id).to_owned())).unwrap();
    bench.crash(missed);
    bench.restart_master();
    let others: Vec<_> = ["n1", "n2", "n3", "n4"].into_iter().filter(|id| *id != missed).collect();
    bench.join_each(&others);
    let drain = protocol::message::cluster::DrainRequest { node: node(&holders[0]), dry_run: false, undo: false };
    bench.ask("admin", ClientRequest::Drain(drain));
    bench.advance(seconds(300));
    assert!(!bench.holders(slice).contains(&holders[0]), "{:?}", bench.holders(slice));
    assert_eq!(bench.holders(slice).len(), 2);
}

// Promise 17.
#[test]
fn a_backup_from_before_a_rebuilds_end_costs_no_file_that_was_named_in_it() {
    for has_begun in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        let one = CreateRequest { at: Some(node("n2")), copies: Some(1), sync_copies: Some(1), ..create("/f") };
        let slice = content(&bench.put("ann", one, 1)).slice;
        bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/f"), to: path("/g") }));
        bench.advance(seconds(3));
        // So it is placed again after the rebuild, under the new journal.
        bench.node_mut("n2").held.get_mut(&slice).unwrap().state = HeldState::Staged;
        let kept = ["n1", "n2"].map(|id| bench.node(id).mirror.clone());
        bench.lose_journal(60);
        let before = bench.rows.clone();
        bench.join_each(&["n1"]);
        let copy = if has_begun { bench.rows.clone() } else { before };
        bench.join_each(&["n2"]);
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        bench.advance(seconds(3));
        // The disk lost all that since, before nodes were given the rows of the rebuild's end.
        for (id, kept) in ["n1", "n2"].into_iter().zip(kept) {
            bench.node_mut(id).mirror = kept;
        }
        bench.bring_back(&copy);
        bench.come(&["n1", "n2"]);
        bench.advance(seconds(100));
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled, "{has_begun}");
        assert!(bench.exists("/g"), "{has_begun}: {:?}", bench.all_paths());
        assert_eq!(bench.holders(slice), ["n2"]);
    }
}
