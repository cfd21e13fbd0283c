//! Folders that nodes know as they were before: files stay with the folder in which they were written.

use protocol::message::request::{QuotasRequest, RemoveRequest, RenameRequest, RestoreRequest, TrashRequest};

use super::*;
use crate::actions::OUTDATED_TABLE;

// Promise 17.
#[test]
fn folders_without_known_rights_are_closed_where_a_late_node_brings_them() {
    let mut old = Bench::with_nodes(&["a/1", "b/1"]);
    old.mkdir("ann", "/secret");
    old.close_to_others("ann", "/secret");
    old.put("ann", create("/secret/f"), 1);
    let mut bench = Bench::new(config(), 77);
    bench.add_node("n7", "c/1");
    bench.advance(seconds(3_600));
    bench.make_node("n1", "a/1");
    bench.node_mut("n1").held = old.node("n1").held.clone();
    bench.come(&["n1"]);
    assert!(bench.exists("/secret/f"));
    assert!(bench.is_closed_to("eve", "/secret/f") && !bench.is_closed_to("ann", "/secret/f"));
}

#[test]
fn work_where_a_folder_was_removed_stays_though_a_node_with_the_old_comes_first() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.mkdir("ann", "/p/a");
    bench.put("ann", create("/p/a/old"), 1);
    bench.advance(seconds(3));
    let kept = bench.node("n2").mirror.clone();
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/p/a"), recursive: true, now: false }));
    bench.advance(seconds(1));
    bench.mkdir("ann", "/p/a");
    bench.put("ann", create("/p/a/new"), 2);
    bench.advance(seconds(3));
    bench.node_mut("n2").mirror = kept;
    bench.lose_journal(0);
    bench.join_each(&["n2", "n1"]);
    assert!(bench.exists("/p/a/new") && !bench.exists("/p/a/old"), "{:?}", bench.all_paths());
}

#[test]
fn what_is_written_where_a_folder_stood_that_was_renamed_is_not_taken_along_by_it() {
    for is_known_to_both in [true, false] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.mkdir("ann", "/b");
        let old = content(&bench.put("ann", create("/b/f"), 1)).slice;
        bench.advance(seconds(3));
        let kept = bench.node("n2").mirror.clone();
        bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/b"), to: path("/a") }));
        bench.advance(seconds(1));
        bench.mkdir("ann", "/b");
        let at = (!is_known_to_both).then(|| node("n2"));
        let copies = at.is_some().then_some(1);
        let new = bench.put("ann", CreateRequest { at, copies, sync_copies: copies, ..create("/b/f") }, 2);
        let new = content(&new).slice;
        // Newer than what may be taken for a file of this folder.
        let old = if is_known_to_both { old } else { content(&bench.put("ann", create("/a/f"), 3)).slice };
        bench.advance(seconds(3));
        bench.node_mut("n2").mirror = kept;
        bench.lose_journal(0);
        bench.join_each(&["n2"]);
        // It reports its slices before its rows.
        bench.node_mut("n1").answers = false;
        bench.join("n1");
        bench.resume("n1");
        bench.advance(seconds(70));
        assert!(!bench.holders(old).is_empty() && !bench.holders(new).is_empty(), "{:?}", bench.conflicts());
        if is_known_to_both {
            assert_eq!(["/a/f", "/b/f"].map(|at| content(&bench.stat(at).entry).slice), [old, new]);
            assert_eq!(bench.conflicts(), []);
        } else {
            // Its holders know nothing of the rename: nobody can say where it was written. Neither replaces the other.
            let conflicts = bench.conflicts();
            assert!(matches!(&conflicts[..], [(_, ConflictKind::OlderVersion, true)]), "{conflicts:?}");
        }
    }
}

// Promise 17.
#[test]
fn work_of_several_lives_on_an_old_journal_stands_and_no_folders_are_mixed_up() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.put("ann", create("/a"), 1);
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    bench.crash("n1");
    bench.crash("n2");
    bench.advance(seconds(12));
    let at =
        |at: &str, id: &str| CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node(id)), ..create(at) };
    // Both lines give their next folder the same id.
    bench.mkdir("bob", "/bobs");
    bench.put("bob", at("/bobs/hers-not", "n3"), 2);
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.join_each(&["n1", "n2"]);
    bench.mkdir("eve", "/eves");
    bench.close_to_others("eve", "/eves");
    bench.put("eve", at("/eves/secret", "n1"), 3);
    bench.limit("eve", 3);
    bench.keep_for("/eves", 77_777);
    bench.advance(seconds(3));
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    bench.put("eve", at("/eves/later", "n2"), 4);
    bench.advance(seconds(3));
    bench.come(&["n1", "n2", "n3"]);
    let paths = bench.all_paths();
    for at in ["/a", "/bobs/hers-not", "/eves/secret", "/eves/later"] {
        assert!(paths.contains(&at.to_owned()), "{at} is not in {paths:?}");
    }
    assert!(bench.is_closed_to("bob", "/eves/secret") && bench.is_closed_to("bob", "/eves/later"));
    assert_eq!(bench.lifetime("/eves"), Some(77_777));
    let ClientReply::Quotas(quotas) = bench.ask("admin", ClientRequest::Quotas(QuotasRequest { after: None })) else {
        panic!()
    };
    assert!(quotas.quotas.iter().any(|quota| quota.files == Some(3)), "{quotas:?}");
}

// Promise 17.
#[test]
fn a_file_stays_with_its_folder_though_the_last_node_knows_it_at_the_old_path() {
    for is_removed in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
        bench.mkdir("ann", "/b");
        let slice = content(&bench.put("ann", CreateRequest { copies: Some(3), ..create("/b/f") }, 1)).slice;
        bench.advance(seconds(3));
        bench.crash("n2");
        bench.crash("n3");
        bench.advance(seconds(12));
        bench.rename_or_remove(is_removed, "/b", "/a");
        bench.advance(seconds(3));
        // The node that knows of it does not have the file.
        bench.node_mut("n1").held.remove(&slice);
        bench.lose_journal(0);
        bench.come(&["n3", "n1", "n2"]);
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        assert_eq!((bench.exists("/a/f"), bench.exists("/b/f")), (!is_removed, false), "{:?}", bench.all_paths());
        let ClientReply::Trash(trash) =
            bench.ask("ann", ClientRequest::Trash(TrashRequest { all_users: false, after: None }))
        else {
            panic!()
        };
        assert_eq!(trash.items.len(), usize::from(is_removed));
        assert_eq!(bench.conflicts(), []);
    }
}

// Promise 17.
#[test]
fn a_copy_that_a_crash_left_staged_says_where_the_file_is_as_well_as_a_placed_one() {
    for is_removed in [false, true] {
        for order in [["n1", "n2", "n3"], ["n2", "n1", "n3"], ["n3", "n2", "n1"]] {
            let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
            let slice = content(&bench.put("ann", CreateRequest { copies: Some(2), ..create("/f") }, 1)).slice;
            bench.advance(seconds(3));
            let holders = bench.holders(slice);
            let [first, second] = &holders[..] else { panic!("{holders:?}") };
            bench.crash(second);
            bench.rename_or_remove(is_removed, "/f", "/g");
            bench.advance(seconds(3));
            // The last rename of a move is not synced.
            bench.node_mut(first).held.get_mut(&slice).unwrap().state = HeldState::Staged;
            bench.lose_journal(0);
            bench.join_each(&order);
            assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
            assert_eq!((bench.exists("/g"), bench.exists("/f")), (!is_removed, false), "{order:?} {holders:?}");
            assert_eq!(bench.conflicts(), []);
        }
    }
}

#[test]
fn what_a_backup_wrote_down_of_outdated_paths_undoes_no_later_rename() {
    let (mut bench, _, order) = with_an_outdated_path(false, true);
    let backup = bench.rows.clone();
    bench.join_each(&[&order[2]]);
    bench.advance(seconds(3));
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/g"), to: path("/h") }));
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    // It does not have the file, and its copy is taken before the others report.
    bench.come(&[&order[2]]);
    bench.come(&[&order[0], &order[1]]);
    bench.advance(seconds(5));
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    assert_eq!(bench.all_paths(), ["/d", "/h"]);
    assert_eq!(bench.conflicts(), []);
}

impl Bench {
    /// Renames something, or moves it to the trash.
    fn rename_or_remove(&mut self, is_removed: bool, from: &str, to: &str) {
        let change = match is_removed {
            true => ClientRequest::Remove(RemoveRequest { path: path(from), recursive: true, now: false }),
            false => ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) }),
        };
        self.done("ann", change);
    }

    /// Puts a file of two copies. Returns its slice and all three nodes, those that have it first.
    fn put_at_two(&mut self, at: &str) -> (SliceId, Vec<String>) {
        let slice = content(&self.put("ann", CreateRequest { copies: Some(2), ..create(at) }, 1)).slice;
        self.advance(seconds(3));
        let mut order = self.holders(slice);
        let others = ["n1", "n2", "n3"].map(str::to_owned).into_iter().filter(|id| !order.contains(id));
        let others: Vec<_> = others.collect();
        order.extend(others);
        (slice, order)
    }

    /// A node is restarted, with all rows it was given meanwhile.
    fn come_again(&mut self, id: &str) {
        self.crash(id);
        self.advance(seconds(1));
        self.join(id);
        self.advance(seconds(3));
    }
}

/// A file is renamed, or removed with its folder, while the second node is away. Then that node joins a master that was
/// restarted and misses the third.
fn with_an_outdated_path(is_removed: bool, has_moved: bool) -> (Bench, SliceId, Vec<String>) {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.mkdir("ann", "/d");
    let (slice, order) = bench.put_at_two("/d/f");
    bench.crash(&order[1]);
    bench.crash(&order[2]);
    if !has_moved {
        bench.crash(&order[0]);
    }
    bench.done(
        "ann",
        match is_removed {
            true => ClientRequest::Remove(RemoveRequest { path: path("/d"), recursive: true, now: false }),
            false => ClientRequest::Rename(RenameRequest { from: path("/d/f"), to: path("/g") }),
        },
    );
    bench.mkdir("ann", "/d");
    bench.advance(seconds(3));
    bench.restart_master();
    bench.join_each(&[&order[0], &order[1]]);
    bench.advance(seconds(3));
    bench.come_again(&order[1]);
    assert_eq!(bench.node(&order[1]).held[&slice].metadata.header.path, path("/d/f"), "nothing is moved yet");
    (bench, slice, order)
}

// Promise 17.
#[test]
fn a_node_that_was_not_told_to_move_a_file_yet_undoes_no_rename_and_no_removal() {
    for case in 0..8 {
        let [is_removed, has_moved, tells_held_first] = [0, 1, 2].map(|bit| case >> bit & 1 == 1);
        for turn in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
            let (mut bench, _, order) = with_an_outdated_path(is_removed, has_moved);
            bench.tells_held_first = tells_held_first;
            bench.lose_journal(0);
            bench.come(&turn.map(|at| order[at].as_str()));
            bench.advance(seconds(5));
            let all = bench.all_paths();
            let why =
                format!("removed {is_removed}, moved {has_moved}, held first {tells_held_first}, {turn:?}: {all:?}");
            assert_eq!(bench.rebuild_status().state, RebuildState::Settled, "{why}");
            assert_eq!((bench.exists("/g"), bench.exists("/d/f")), (!is_removed, false), "{why}");
            assert_eq!(bench.conflicts(), [], "{why}");
        }
    }
}

// Promise 17.
#[test]
fn a_node_of_an_old_journal_undoes_nothing_though_that_is_lost_before_all_report() {
    for case in 0..6 {
        let (turn, tells_held_first) = ([[0, 1, 2], [1, 0, 2], [2, 1, 0]][case / 2], case % 2 == 1);
        let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
        let (slice, order) = bench.put_at_two("/f");
        bench.crash(&order[1]);
        bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/f"), to: path("/g") }));
        bench.advance(seconds(3));
        let backup = bench.rows.clone();
        bench.mkdir("ann", "/later");
        bench.advance(seconds(3));
        bench.bring_back(&backup);
        bench.join_each(&[&order[1]]);
        bench.mkdir("ann", "/other");
        bench.advance(seconds(3));
        bench.come_again(&order[1]);
        assert_eq!(bench.node(&order[1]).held[&slice].metadata.header.path, path("/f"), "nothing is moved yet");
        bench.lose_journal(0);
        bench.tells_held_first = tells_held_first;
        bench.come(&turn.map(|at| order[at].as_str()));
        bench.advance(seconds(5));
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled, "{turn:?}");
        assert_eq!(bench.all_paths(), ["/g", "/later", "/other"], "{turn:?} {tells_held_first}");
        assert_eq!(bench.conflicts(), [], "{turn:?} {tells_held_first}");
    }
}

#[test]
fn what_is_written_down_of_outdated_paths_goes_when_all_have_told() {
    let (mut bench, slice, order) = with_an_outdated_path(false, true);
    let count = |bench: &Bench| bench.rows.keys().filter(|(table, _)| *table == OUTDATED_TABLE).count();
    assert_eq!(count(&bench), 1);
    bench.join_each(&[&order[2]]);
    bench.advance(seconds(3));
    assert_eq!(count(&bench), 0);
    assert_eq!(bench.node(&order[1]).held[&slice].metadata.header.path, path("/g"));
    for id in &order {
        let kept = bench.node(id).mirror.as_ref().unwrap();
        assert!(kept.rows.keys().all(|(table, _)| table != OUTDATED_TABLE), "nor at nodes");
    }
}

// Promise 17.
#[test]
fn a_file_for_which_an_older_copy_had_no_place_gets_it_when_the_newer_one_is_taken() {
    for tells_held_first in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.mkdir("ann", "/d/e");
        bench.advance(seconds(3));
        let kept = bench.node("n2").mirror.clone();
        bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/d"), recursive: true, now: true }));
        let one = CreateRequest { at: Some(node("n1")), copies: Some(1), sync_copies: Some(1), ..create("/d") };
        let slice = content(&bench.put("ann", one, 1)).slice;
        bench.advance(seconds(3));
        bench.node_mut("n2").mirror = kept;
        bench.lose_journal(0);
        bench.tells_held_first = tells_held_first;
        bench.come(&["n2", "n1"]);
        bench.advance(seconds(70));
        assert_eq!(content(&bench.stat("/d").entry).slice, slice, "{tells_held_first}");
        assert_eq!(bench.conflicts(), [], "{tells_held_first}");
    }
}

// Promise 17.
#[test]
fn an_overwrite_while_a_path_is_outdated_leaves_no_row_that_spoils_the_mirror() {
    let (mut bench, _, order) = with_an_outdated_path(false, true);
    bench.put("ann", CreateRequest { at: Some(node(&order[0])), copies: Some(1), ..create("/g") }, 2);
    bench.advance(seconds(3));
    bench.join_each(&[&order[2]]);
    bench.advance(seconds(3));
    bench.restart_master();
    bench.join_each(&[&order[0], &order[1], &order[2]]);
    bench.close_to_others("ann", "/d");
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/g"), recursive: false, now: true }));
    bench.advance(seconds(3));
    bench.lose_journal(0);
    bench.come(&[&order[0], &order[1], &order[2]]);
    bench.advance(seconds(5));
    assert_eq!(bench.all_paths(), ["/d"]);
    assert!(bench.is_closed_to("eve", "/d"));
}

#[test]
fn outdated_paths_that_an_old_journal_wrote_down_hold_when_it_proves_stale() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let (_, order) = bench.put_at_two("/f");
    bench.crash(&order[1]);
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/f"), to: path("/g") }));
    bench.advance(seconds(3));
    bench.crash(&order[0]);
    bench.mkdir("ann", "/later");
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    bench.mkdir("ann", "/last");
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.join_each(&[&order[1]]);
    bench.mkdir("ann", "/other");
    bench.advance(seconds(3));
    // It shows the loss, and its copy is taken before the others report.
    bench.come(&[&order[2]]);
    bench.come(&[&order[1], &order[0]]);
    bench.advance(seconds(5));
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    assert_eq!(bench.all_paths(), ["/g", "/last", "/later", "/other"]);
    assert_eq!(bench.conflicts(), []);
}

#[test]
fn what_a_backup_wrote_down_as_missed_undoes_nothing_that_was_taken_back_later() {
    let rename = |from: &str, to: &str| ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) });
    let remove = ClientRequest::Remove(RemoveRequest { path: path("/f"), recursive: false, now: false });
    let restore = ClientRequest::Restore(RestoreRequest { path: path("/f"), to: None });
    for (change, back) in [(remove, restore), (rename("/f", "/g"), rename("/g", "/f"))] {
        for last in [0, 1, 2] {
            let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
            let (_, mut order) = bench.put_at_two("/f");
            bench.crash(&order[0]);
            bench.crash(&order[1]);
            bench.advance(seconds(12));
            bench.ask("ann", change.clone());
            bench.advance(seconds(3));
            let backup = bench.rows.clone();
            // The nodes have the file as it is now, so they have nothing to do when they come.
            bench.ask("ann", back.clone());
            bench.join_each(&[&order[0], &order[1]]);
            bench.advance(seconds(3));
            bench.bring_back(&backup);
            order.rotate_left(last);
            bench.come(&[&order[0], &order[1], &order[2]]);
            bench.advance(seconds(5));
            assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
            assert_eq!(bench.all_paths(), ["/f"], "{change:?} {order:?}");
            assert_eq!(bench.conflicts(), [], "{change:?} {order:?}");
        }
    }
}
