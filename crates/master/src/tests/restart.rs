//! A master that starts again: from its journal, and from the nodes alone.

#![allow(clippy::unwrap_used)]

use protocol::message::request::{ListRequest, MakeFolderRequest, RemoveRequest, RenameRequest};

use super::*;
use crate::MasterError;

/// What every client can see: entries and the nodes of their copies.
fn everything(bench: &mut Bench) -> Vec<Entry> {
    let list = ClientRequest::List(ListRequest { folder: path("/"), recursive: true, after: None, with_nodes: true });
    match bench.ask("admin", list) {
        ClientReply::Page(page) => page.entries,
        other => panic!("{other:?}"),
    }
}

fn filled() -> Bench {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    for index in 0..20 {
        let request = CreateRequest { parents: true, ..create(&format!("/d{}/f{index}", index % 3)) };
        bench.put("ann", request, index);
    }
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/d1"), to: path("/d0/e") }));
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/d2/f2"), recursive: false, now: true }));
    bench.put("ann", create("/d2/f5"), 100);
    bench.advance(seconds(5));
    bench
}

fn join_all(bench: &mut Bench) {
    for id in ["n1", "n2", "n3"] {
        bench.join(id);
    }
    bench.advance(seconds(1));
}

#[test]
fn a_master_that_starts_again_answers_the_same() {
    let mut bench = filled();
    let before = everything(&mut bench);
    let held_before: Vec<_> = bench.nodes.values().map(|fake| fake.held.clone()).collect();
    bench.restart_master();
    let nameless = everything(&mut bench);
    assert_eq!(nameless.len(), before.len(), "names are there before any node is");
    join_all(&mut bench);
    assert_eq!(everything(&mut bench), before);
    bench.advance(seconds(100));
    assert_eq!(bench.nodes.values().map(|fake| fake.held.clone()).collect::<Vec<_>>(), held_before);
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn no_copies_are_made_while_nodes_may_still_come() {
    let mut bench = filled();
    bench.restart_master();
    bench.join("n1");
    bench.join("n2");
    bench.nodes.values_mut().for_each(|fake| fake.orders.clear());
    bench.advance(seconds(50));
    let copied = |bench: &Bench| {
        let is_copy = |order: &Order| matches!(order, Order::Replicate { .. });
        bench.nodes.values().any(|fake| fake.orders.iter().any(is_copy))
    };
    assert!(!copied(&bench));
    bench.advance(seconds(30));
    assert!(copied(&bench), "n3 did not come back");
    assert_eq!(bench.health().under_replicated, 0);
}

// Promise 11.
#[test]
fn what_was_not_saved_before_a_crash_was_never_answered_and_is_gone() {
    let mut bench = filled();
    let before = everything(&mut bench);
    bench.saves = false;
    let mkdir =
        bench.ask_later("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/x"), parents: false }));
    let remove =
        bench.ask_later("ann", ClientRequest::Remove(RemoveRequest { path: path("/d0"), recursive: true, now: true }));
    bench.advance(seconds(5));
    assert_eq!((bench.answer(mkdir), bench.answer(remove)), (None, None));
    bench.restart_master();
    bench.saves = true;
    join_all(&mut bench);
    assert_eq!(everything(&mut bench), before, "no byte was removed either");
}

#[test]
fn an_order_that_waits_does_not_act_on_what_is_not_saved() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.node_mut("n1").answers = false;
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    // A second order about the slice waits for the first to be answered; by then the memory says that it belongs to no
    // file.
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/f"), to: path("/g") }));
    bench.saves = false;
    bench.ask_later("ann", ClientRequest::Remove(RemoveRequest { path: path("/g"), recursive: false, now: true }));
    bench.resume("n1");
    assert_eq!(bench.holders(slice), ["n1"]);
    bench.restart_master();
    bench.saves = true;
    bench.join("n1");
    bench.advance(seconds(1));
    assert_eq!(bench.node("n1").paths(), ["/g"]);
}

// Promise 2.
#[test]
fn a_commit_that_was_not_saved_leaves_nothing_behind() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.saves = false;
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 10);
    let number = bench.commit_later("ann", created.lease, 10);
    assert_eq!(bench.answer(number), None);
    bench.restart_master();
    bench.saves = true;
    bench.join("n1");
    bench.advance(seconds(1));
    assert!(!bench.exists("/f"));
    assert!(bench.holders(created.slice).is_empty());
}

#[test]
fn a_master_that_lost_its_journal_finds_all_files_at_the_nodes() {
    let mut bench = filled();
    let before: Vec<_> = everything(&mut bench);
    let held: Vec<_> = bench.nodes.values().map(|fake| fake.held.clone()).collect();
    bench.rows.clear();
    bench.now = bench.now.after(seconds(3_600));
    bench.restart_master();
    assert!(everything(&mut bench).is_empty());
    join_all(&mut bench);
    let found = everything(&mut bench);
    let files = |entries: &[Entry]| {
        let files = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File(_)));
        files
            .map(|entry| (entry.path.clone(), entry.owner.clone(), entry.kind.clone(), entry.nodes.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(files(&found), files(&before));
    assert_eq!(bench.nodes.values().map(|fake| fake.held.clone()).collect::<Vec<_>>(), held);

    // And it is as durable as any other name.
    bench.restart_master();
    join_all(&mut bench);
    assert_eq!(files(&everything(&mut bench)), files(&before));
}

#[test]
fn without_a_journal_the_newest_content_of_a_path_wins_and_doubtful_bytes_are_kept() {
    for order in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.put("ann", create("/f"), 10);
        bench.crash("n2");
        bench.advance(seconds(12));
        let newest = bench.put("ann", create("/f"), 20);
        let unpublished = bench.created("ann", create("/g"));
        bench.write(&unpublished, 5);
        bench.rows.clear();
        bench.now = bench.now.after(seconds(3_600));
        bench.restart_master();
        for id in order {
            bench.join(id);
            bench.advance(seconds(1));
            let bytes = if id == "n2" && order[0] == "n2" { 10 } else { 20 };
            assert_eq!(content(&bench.stat("/f").entry).bytes, bytes, "{order:?}");
        }
        bench.advance(seconds(5));
        assert_eq!(content(&bench.stat("/f").entry).slice, content(&newest).slice);
        assert!(bench.exists("/g"), "nobody knows whether it was published");
        assert_eq!(bench.holders(unpublished.slice), ["n1"], "so it is kept");
        assert!(bench.health().reasons.iter().any(|reason| reason.contains("sector rebuild status")));
    }
}

// Promise 5.
#[test]
fn versions_grow_over_a_restart_though_the_newest_is_removed_and_the_clock_is_back() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.now.unix_millis += 3_600_000;
    let before = content(&bench.put("ann", create("/f"), 10)).version;
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/f"), recursive: false, now: true }));
    bench.now.unix_millis -= 7_200_000;
    bench.restart_master();
    bench.join("n1");
    bench.advance(seconds(1));
    let after = content(&bench.put("ann", create("/f"), 20)).version;
    assert!(after > before, "{after} is not larger than {before}");
}

#[test]
fn a_file_written_after_the_clock_went_back_is_not_older_than_the_journal() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.now.unix_millis -= 600_000;
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 10);
    bench.restart_master();
    bench.join("n1");
    bench.advance(seconds(1));
    assert!(bench.holders(created.slice).is_empty(), "it was never published: it is removed, not kept as doubtful");
}

#[test]
fn damaged_rows_stop_the_start_with_their_place() {
    let mut bench = filled();
    let row = |((table, key), value): (&(&'static str, Vec<u8>), &Vec<u8>)| StoredRow {
        table,
        key: key.clone(),
        value: value.clone(),
    };
    let good: Vec<_> = bench.rows.iter().map(row).collect();
    let start = |rows: Vec<StoredRow>| Master::new(Now::default(), config(), 1, Box::new(NoSignature(1)), rows).err();
    assert!(start(good.clone()).is_none());

    let at = good.iter().position(|row| row.table == "names").unwrap() + 1;
    let mut cut = good.clone();
    cut[at].value.pop();
    assert!(matches!(start(cut), Some(MasterError::Row { table: "names", .. })));
    let mut newer = good.clone();
    newer[at].value[0] = 200;
    assert!(matches!(start(newer), Some(MasterError::Row { .. })));
    let folder = bench.stat("/d0").entry.id;
    let orphans = good.iter().filter(|row| row.key != folder.0.to_be_bytes()).cloned().collect();
    assert!(matches!(start(orphans), Some(MasterError::Names { why: "its folder is missing", .. })));
    let mut twice = good.clone();
    let file = good.iter().rfind(|row| row.table == "names").unwrap().clone();
    twice.push(StoredRow { key: 77u64.to_be_bytes().to_vec(), ..file });
    assert!(matches!(start(twice), Some(MasterError::Names { .. })));
}

// Promise 17.
#[test]
fn a_master_that_is_stopped_gives_its_nodes_the_small_rows_of_the_last_moment() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.advance(seconds(3));
    assert!(!bench.master.flush_mirror_updates(bench.now), "they have all");
    bench.mkdir("ann", "/last");
    bench.node_mut("n2").answers = false;
    for _ in 0..3 {
        assert!(bench.master.flush_mirror_updates(bench.now), "n2 has not answered");
        bench.run();
    }
    bench.resume("n2");
    assert!(!bench.master.flush_mirror_updates(bench.now));
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    assert!(bench.exists("/last"));
}

// Promise 5.
#[test]
fn no_version_is_given_twice_over_a_restart_though_the_clock_went_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/before"), 1);
    bench.advance(seconds(3));
    // Its commit may have been acknowledged and lost by the disk: the journal says nothing of it.
    let lost = bench.created("ann", create("/last"));
    bench.write(&lost, 2);
    let held = bench.nodes.values().find_map(|fake| fake.held.get(&lost.slice)).unwrap();
    let version = held.metadata.header.version;
    bench.now.unix_millis -= 1_000_000;
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    assert!(content(&bench.put("ann", create("/after"), 3)).version > version);
}
