//! Upload: create, write, commit, and what happens when someone dies in between.

#![allow(clippy::unwrap_used)]

use protocol::{
    Reason, RecordFraming, Version, limits,
    message::request::{
        AbandonRequest, BreakLeaseRequest, CommitRequest, LeasesRequest, MakeFolderRequest, RemoveRequest,
        RenameRequest, RenewRequest, StatRequest,
    },
};

use super::*;

fn place_orders(bench: &Bench) -> usize {
    let is_place = |order: &&Order| matches!(order, Order::Place { .. });
    bench.nodes.values().map(|fake| fake.orders.iter().filter(is_place).count()).sum()
}

// Promise 1.
#[test]
fn a_file_is_answered_and_placed_only_once_its_row_is_saved() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.saves = false;
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 10);
    let number = bench.commit_later("ann", created.lease, 10);
    assert_eq!(bench.answer(number), None);
    assert_eq!(place_orders(&bench), 0);
    // Another client may not see either what a crash would undo.
    let stat = bench.ask_later("bob", ClientRequest::Stat(StatRequest(path("/f"))));
    assert_eq!(bench.answer(stat), None);

    bench.save_all();
    bench.run();
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(entry)) if entry.path == path("/f")));
    assert!(matches!(bench.answer(stat), Some(ClientReply::Status(_))));
    assert_eq!(bench.node("n1").paths(), ["/f"]);
    assert_eq!(bench.node("n2").paths(), ["/f"]);
}

// Promise 1.
#[test]
fn a_commit_is_answered_only_when_the_second_copy_is_synced() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let created = bench.created("ann", create("/f"));
    bench.write_to_target(&created, 10);
    let number = bench.commit_later("ann", created.lease, 10);
    bench.advance(seconds(5));
    assert_eq!(bench.answer(number), None);
    assert!(!bench.exists("/f"));
    bench.store(created.chain[0].node.as_str(), write_header(&created.chain[0]), 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
}

#[test]
fn the_second_copy_is_ordered_as_soon_as_the_first_is_stored() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 10);
    assert_eq!(bench.holders(created.slice), ["n1", "n2"]);
    assert!(!bench.exists("/f"));
}

#[test]
fn one_node_is_enough_where_there_is_one_node() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let entry = bench.put("ann", create("/f"), 10);
    assert_eq!((content(&entry).bytes, content(&entry).digest), (10, digest(10)));
    assert_eq!(bench.health().short_of_nodes, 1);
}

// Promise 1.
#[test]
fn a_commit_goes_on_with_fewer_copies_once_the_other_node_is_lost() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let created = bench.created("ann", create("/f"));
    let other = if created.target.node == node("n1") { "n2" } else { "n1" };
    bench.crash(other);
    bench.write(&created, 10);
    let number = bench.commit_later("ann", created.lease, 10);
    assert_eq!(bench.answer(number), None);
    bench.advance(seconds(12));
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
}

#[test]
fn a_copy_for_a_commit_is_made_elsewhere_when_its_node_is_lost() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let created = bench.created("ann", CreateRequest { at: Some(node("n1")), ..create("/f") });
    for other in ["n2", "n3"] {
        bench.node_mut(other).answers = false;
    }
    bench.write(&created, 10);
    let number = bench.commit_later("ann", created.lease, 10);
    let asked = if bench.node("n2").unanswered.is_empty() { "n3" } else { "n2" };
    let spare = if asked == "n2" { "n3" } else { "n2" };
    bench.node_mut(spare).answers = true;
    bench.crash(asked);
    bench.advance(seconds(12));
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    assert_eq!(bench.holders(created.slice), ["n1", spare]);
}

#[test]
fn a_commit_without_enough_copies_is_refused_at_its_lease_end_and_leaves_nothing() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let created = bench.created("ann", create("/f"));
    for id in ["n1", "n2"] {
        bench.node_mut(id).fails_copies = true;
    }
    bench.write(&created, 10);
    let number = bench.commit_later("ann", created.lease, 10);
    bench.advance(limits::LEASE_LIFE - seconds(1));
    assert_eq!(bench.answer(number), None);
    bench.advance(seconds(2));
    let Some(ClientReply::Refused(refusal)) = bench.answer(number) else { panic!("not refused") };
    assert_eq!(refusal.status(), Status::Unavailable);
    assert!(refusal.message.contains("only 1 of 2 nodes"), "{refusal}");
    assert!(bench.holders(created.slice).is_empty());
    assert!(!bench.exists("/f"));
}

// Promise 2.
#[test]
fn bytes_that_are_not_what_the_client_sent_are_refused_as_corrupt() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 10);
    let refused = bench.commit_later("ann", created.lease, 11);
    assert!(
        matches!(bench.answer(refused), Some(ClientReply::Refused(refusal)) if refusal.status() == Status::Corrupt)
    );
    assert!(bench.holders(created.slice).is_empty());
    bench.put("ann", create("/f"), 10);
}

// Promise 3.
#[test]
fn a_path_has_one_writer_until_the_lease_ends() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let first = bench.created("ann", create("/f"));
    bench.write(&first, 10);
    let refusal = bench.refused("bob", ClientRequest::Create(create("/f")));
    assert_eq!(refusal.status(), Status::Refused);
    assert!(refusal.message.contains(&first.lease.to_string()) && refusal.message.contains("60 s"), "{refusal}");

    bench.advance(seconds(40));
    bench.done("ann", ClientRequest::Renew(RenewRequest(first.lease)));
    bench.advance(seconds(40));
    assert_eq!(bench.status_of("bob", ClientRequest::Create(create("/f"))), Status::Refused);
    bench.advance(seconds(21));
    assert!(bench.holders(first.slice).is_empty(), "what was written under an ended lease is removed");
    let second = bench.created("bob", create("/f"));
    assert_ne!(first.slice, second.slice);
    let late = bench.commit_later("ann", first.lease, 10);
    assert!(matches!(bench.answer(late), Some(ClientReply::Refused(refusal)) if refusal.status() == Status::NotFound));
}

#[test]
fn bytes_that_arrive_after_their_lease_has_ended_are_removed() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("ann", create("/f"));
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(created.lease)));
    bench.write(&created, 10);
    assert!(bench.holders(created.slice).is_empty());
}

// Promise 3.
#[test]
fn nobody_uses_the_lease_of_another() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("ann", create("/f"));
    for request in [
        ClientRequest::Renew(RenewRequest(created.lease)),
        ClientRequest::Abandon(AbandonRequest(created.lease)),
        ClientRequest::Commit(CommitRequest { lease: created.lease, bytes: 1, digest: digest(1) }),
    ] {
        assert_eq!(bench.status_of("bob", request), Status::Refused);
    }
}

#[test]
fn a_commit_asked_twice_gives_the_same_answer() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 10);
    let (first, second) = (bench.commit_later("ann", created.lease, 10), bench.commit_later("ann", created.lease, 10));
    let first = bench.answer(first);
    assert!(matches!(first, Some(ClientReply::Entry(_))));
    assert_eq!(first, bench.answer(second));
}

// Promise 15.
#[test]
fn an_overwritten_content_is_removed_only_after_its_successor_is_placed() {
    let mut bench = Bench::without_versions(&["a/1", "b/1"]);
    let old = content(&bench.put("ann", create("/f"), 10)).clone();
    for id in ["n1", "n2"] {
        bench.node_mut(id).answers = false;
    }
    let created = bench.created("ann", CreateRequest { sync_copies: Some(1), ..create("/f") });
    bench.write(&created, 20);
    let number = bench.commit_later("ann", created.lease, 20);
    let Some(ClientReply::Entry(entry)) = bench.answer(number) else { panic!("not committed") };
    assert!(content(&entry).version > old.version);
    let is_removal = |order: &Order| *order == Order::Remove(old.slice);
    assert!(!bench.nodes.values().any(|fake| fake.orders.iter().any(is_removal)));

    let target = created.target.node.to_string();
    bench.resume(&target);
    assert!(bench.nodes.values().all(|fake| fake.orders.iter().any(is_removal)), "at all holders");
    for id in ["n1", "n2"] {
        bench.resume(id);
    }
    assert!(bench.holders(old.slice).is_empty());
    assert_eq!(bench.holders(created.slice).len(), 2);
}

// Promise 4.
#[test]
fn conditions_hold_at_the_time_of_the_commit() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let version = content(&bench.put("ann", create("/g"), 1)).version;
    let absent = |at: &str| CreateRequest { condition: Condition::Absent, ..create(at) };
    assert_eq!(bench.status_of("ann", ClientRequest::Create(absent("/g"))), Status::Exists);
    let expecting = |version| CreateRequest { condition: Condition::Version(version), ..create("/g") };
    assert_eq!(bench.status_of("ann", ClientRequest::Create(expecting(Version(1)))), Status::Refused);

    // The path is taken by a rename while the bytes flow.
    let created = bench.created("ann", absent("/h"));
    bench.write(&created, 5);
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/g"), to: path("/h") }));
    let number = bench.commit_later("ann", created.lease, 5);
    assert!(matches!(bench.answer(number), Some(ClientReply::Refused(refusal)) if refusal.status() == Status::Exists));
    assert!(bench.holders(created.slice).is_empty());

    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/h"), to: path("/g") }));
    bench.put("ann", expecting(version), 6);
    let gone = CreateRequest { condition: Condition::Version(version), ..create("/none") };
    assert_eq!(bench.status_of("ann", ClientRequest::Create(gone)), Status::NotFound);
}

#[test]
fn missing_folders_are_made_with_the_file_and_not_before() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    assert_eq!(bench.status_of("ann", ClientRequest::Create(create("/a/b/f"))), Status::NotFound);
    let created = bench.created("ann", CreateRequest { parents: true, ..create("/a/b/f") });
    assert!(!bench.exists("/a"));
    bench.write(&created, 1);
    bench.commit_later("ann", created.lease, 1);
    assert_eq!(bench.stat("/a/b").entry.owner.as_str(), "ann");
}

// Promise 5.
#[test]
fn versions_grow_although_the_clock_stands_still() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let mut last = Version(0);
    for _ in 0..5 {
        let version = content(&bench.put("ann", create("/f"), 1)).version;
        assert!(version > last);
        last = version;
        bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/f"), recursive: false, now: true }));
    }
}

#[test]
fn a_node_is_chosen_by_name_by_room_and_by_load() {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1"]);
    let at = |id: &str| CreateRequest { at: Some(node(id)), ..create("/f") };
    let created = bench.created("ann", at("n2"));
    assert_eq!(created.target.node, node("n2"));
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(created.lease)));
    assert_eq!(bench.status_of("ann", ClientRequest::Create(at("n9"))), Status::NotFound);

    bench.node_mut("n1").free_bytes = 1_050;
    bench.node_mut("n2").transfers = 3;
    bench.advance(seconds(1));
    assert_eq!(bench.created("ann", create("/g")).target.node, node("n3"), "n1 is full, n2 is busy");
    assert_eq!(bench.status_of("ann", ClientRequest::Create(at("n1"))), Status::Unavailable);
    let large = CreateRequest { bytes_expected: Some(2_000_000), ..create("/h") };
    assert_eq!(bench.status_of("ann", ClientRequest::Create(large)), Status::Unavailable);
}

#[test]
fn many_small_files_are_spread_although_nodes_report_only_now_and_then() {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1", "b/2"]);
    for index in 0..40 {
        bench.put("ann", CreateRequest { copies: Some(1), ..create(&format!("/f{index}")) }, 100);
    }
    for fake in bench.nodes.values() {
        assert_eq!(fake.held.len(), 10);
    }
}

#[test]
fn an_upload_that_makes_no_sense_is_refused_in_words() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/folder"), parents: false }));
    bench.put("ann", create("/file"), 1);
    let mut user = BTreeMap::new();
    user.insert("key".to_owned(), "x".repeat(limits::USER_METADATA_BYTES_MAX));
    let cases = [
        (CreateRequest { copies: Some(0), ..create("/f") }, Status::Usage),
        (CreateRequest { copies: Some(17), ..create("/f") }, Status::Usage),
        (CreateRequest { sync_copies: Some(0), ..create("/f") }, Status::Usage),
        (CreateRequest { records: RecordFraming::Fixed(0), ..create("/f") }, Status::Usage),
        (CreateRequest { bytes_expected: Some(limits::SLICE_BYTES_MAX + 1), ..create("/f") }, Status::Usage),
        (CreateRequest { user, ..create("/f") }, Status::Usage),
        (create("/"), Status::Exists),
        (create("/folder"), Status::Exists),
        (CreateRequest { parents: true, ..create("/file/f") }, Status::Exists),
        (create("/nowhere/f"), Status::NotFound),
    ];
    for (request, status) in cases {
        let refusal = bench.refused("ann", ClientRequest::Create(request.clone()));
        assert_eq!(refusal.status(), status, "{request:?}: {refusal}");
        assert!(refusal.message.len() > 20, "{refusal}");
    }
    bench.crash("n1");
    bench.advance(seconds(12));
    assert_eq!(bench.status_of("ann", ClientRequest::Create(create("/f"))), Status::Unavailable);
}

#[test]
fn more_copies_than_synced_are_made_after_the_answer() {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1"]);
    for id in ["n1", "n2", "n3"] {
        bench.node_mut(id).fails_copies = true;
    }
    let entry = bench.put("ann", CreateRequest { sync_copies: Some(1), copies: Some(3), ..create("/f") }, 10);
    let slice = content(&entry).slice;
    assert_eq!(bench.holders(slice).len(), 1);
    for id in ["n1", "n2", "n3"] {
        bench.node_mut(id).fails_copies = false;
    }
    bench.advance(seconds(10));
    assert_eq!(bench.holders(slice).len(), 3);
    assert_eq!(bench.health(), Health::default());
}

// Promise 3.
#[test]
fn leases_are_listed_for_their_holder_and_broken_by_him_or_an_administrator() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let one = bench.created("ann", CreateRequest { bytes_expected: Some(70), ..create("/one") });
    bench.created("bob", create("/two"));
    let list = |bench: &mut Bench, user: &str, all_users| match bench
        .ask(user, ClientRequest::Leases(LeasesRequest { all_users, after: None }))
    {
        ClientReply::Leases(page) => page.leases,
        other => panic!("{other:?}"),
    };
    let ann = list(&mut bench, "ann", false);
    assert_eq!(ann.len(), 1);
    assert_eq!((ann[0].path.as_str(), ann[0].user.as_str(), ann[0].expected_bytes), ("/one", "ann", 70));
    assert_eq!((ann[0].node.as_str(), ann[0].seconds_left), ("n1", 60));
    let all = list(&mut bench, "admin", true);
    assert_eq!(all.iter().map(|lease| lease.path.as_str()).collect::<Vec<_>>(), ["/one", "/two"]);
    let after = ClientRequest::Leases(LeasesRequest { all_users: true, after: Some(path("/one")) });
    let ClientReply::Leases(page) = bench.ask("admin", after) else { panic!("no page") };
    assert_eq!((page.leases.len(), page.more), (1, false));
    let refused = bench.refused("bob", ClientRequest::BreakLease(BreakLeaseRequest(path("/one"))));
    assert_eq!(refused.reason, Reason::NotFound);
    // A commit that waits hears who ended it.
    let number = bench.commit_later("ann", one.lease, 70);
    assert_eq!(bench.answer(number), None);
    bench.done("admin", ClientRequest::BreakLease(BreakLeaseRequest(path("/one"))));
    let Some(ClientReply::Refused(ended)) = bench.answer(number) else { panic!("the commit was not refused") };
    assert_eq!(ended.message, "admin has ended this write of `/one`");
    bench.done("bob", ClientRequest::BreakLease(BreakLeaseRequest(path("/two"))));
    assert_eq!(list(&mut bench, "admin", true), []);
    bench.put("bob", create("/one"), 5);
}
