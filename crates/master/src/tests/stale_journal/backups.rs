//! Backups of a journal that was lost since: what was put together from it knows more.

#![allow(clippy::unwrap_used)]

use protocol::message::{
    cluster::{DrainRequest, Membership, RemoveNodeRequest},
    request::{GiveToRequest, NodesRequest, QuotasRequest, RenameRequest, SetPolicyRequest},
};

use super::*;

// Promise 17.
#[test]
fn a_backup_of_before_a_rebuild_takes_no_later_wish_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.mkdir("ann", "/kept");
    bench.keep_for("/kept", 99_999);
    bench.mkdir("ann", "/open");
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    bench.lose_journal(0);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(100));
    assert_eq!(bench.lifetime("/kept"), Some(99_999));
    let set = ClientRequest::SetPolicy(SetPolicyRequest { path: path("/kept"), policy: Policy::default() });
    assert!(matches!(bench.ask("admin", set), ClientReply::Policy(_)));
    bench.close_to_others("ann", "/open");
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(100));
    assert_eq!(bench.lifetime("/kept"), None, "it was taken back");
    assert!(bench.is_closed_to("eve", "/open"));
}

/// The first node tells what it holds before what it kept is taken: its paths are not older than the backup's.
// Promise 17.
#[test]
fn a_backup_of_before_a_loss_undoes_no_rename_that_the_rebuild_knew() {
    for tells_held_first in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
        let create = CreateRequest { copies: Some(2), ..create("/f") };
        let slice = content(&bench.put("ann", create, 1)).slice;
        let holders = bench.holders(slice);
        let other = ["n1", "n2", "n3"].into_iter().find(|id| !holders.iter().any(|holder| holder == id)).unwrap();
        let (first, second) = (holders[0].as_str(), holders[1].as_str());
        bench.advance(seconds(3));
        let backup = bench.rows.clone();
        bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/f"), to: path("/g") }));
        bench.advance(seconds(3));
        bench.lose_journal(0);
        bench.come(&["n1", "n2", "n3"]);
        bench.advance(seconds(100));
        assert_eq!(bench.all_paths(), ["/g"]);
        bench.bring_back(&backup);
        bench.tells_held_first = tells_held_first;
        bench.join(first);
        // Its copy is taken, and it has nothing of the file.
        bench.tells_held_first = false;
        bench.come(&[other, second, first]);
        bench.advance(seconds(10));
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled, "{tells_held_first}");
        assert_eq!(bench.all_paths(), ["/g"], "{tells_held_first}");
        assert_eq!(bench.conflicts(), [], "{tells_held_first}");
    }
}

#[test]
fn a_policy_said_by_an_old_name_undoes_no_rename_since_the_backup() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/f"), 1);
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/f"), to: path("/g") }));
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.keep_for("/f", 5_000);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(10));
    assert_eq!((bench.all_paths(), bench.conflicts()), (vec!["/g".to_owned()], vec![]));
    assert_eq!(bench.lifetime("/g"), Some(5_000));
}

/// What stood when the rebuild began was known to the nodes at its end: it is no news afterwards.
// Promise 17.
#[test]
fn a_backup_from_the_middle_of_a_rebuild_takes_no_later_change_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.limit("bob", 5);
    bench.advance(seconds(3));
    bench.lose_journal(0);
    // Before any node came.
    bench.limit("bob", 6);
    bench.join("n1");
    bench.advance(seconds(1));
    assert_eq!(bench.rebuild_status().state, RebuildState::Running);
    let backup = bench.rows.clone();
    bench.come(&["n1", "n2", "n3"]);
    bench.advance(seconds(100));
    bench.limit("bob", 9);
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.come(&["n1", "n2", "n3"]);
    bench.advance(seconds(100));
    assert_eq!(limits(&mut bench), [9]);
}

// Promise 17.
#[test]
fn a_backup_from_the_middle_of_a_second_rebuild_costs_no_content_written_since() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.put("ann", create("/a"), 1);
    bench.advance(seconds(3));
    bench.restart_master();
    // The third has not told.
    bench.join_each(&["n1", "n2"]);
    bench.put("ann", create("/a"), 2);
    bench.advance(seconds(3));
    let first = bench.rows.clone();
    bench.come(&["n3"]);
    bench.put("ann", create("/b"), 3);
    bench.advance(seconds(3));
    bench.bring_back(&first);
    bench.join("n1");
    bench.advance(seconds(1));
    let second = bench.rows.clone();
    bench.come(&["n1", "n2", "n3"]);
    bench.advance(seconds(100));
    bench.put("ann", create("/a"), 5);
    bench.advance(seconds(3));
    bench.bring_back(&second);
    bench.come(&["n1", "n2", "n3"]);
    bench.advance(seconds(100));
    assert_eq!(content(&bench.stat("/a").entry).bytes, 5);
    assert_eq!(bench.conflicts(), []);
}

#[test]
fn nobody_waits_for_a_node_that_was_kept_out_since_the_backup() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.put("ann", create("/f"), 1);
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    let drain = DrainRequest { node: node("n3"), dry_run: false, undo: false };
    assert!(matches!(bench.ask("admin", ClientRequest::Drain(drain)), ClientReply::Plan(_)));
    bench.advance(seconds(100));
    let remove = RemoveNodeRequest { node: node("n3"), force: false, dry_run: false, undo: false };
    assert!(matches!(bench.ask("admin", ClientRequest::RemoveNode(remove)), ClientReply::Removal(_)));
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.come(&["n1", "n2"]);
    bench.advance(seconds(3));
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    assert!(bench.exists("/f"));
}

// Promise 17.
#[test]
fn a_backup_from_the_middle_of_a_rebuild_costs_nothing_done_under_it_since() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.put("ann", create("/before"), 1);
    bench.mkdir("ann", "/kept");
    bench.keep_for("/kept", 99_999);
    bench.advance(seconds(3));
    bench.lose_journal(0);
    bench.join("n1");
    bench.advance(seconds(1));
    assert_eq!(bench.rebuild_status().state, RebuildState::Running);
    let backup = bench.rows.clone();
    bench.come(&["n2", "n3"]);
    bench.advance(seconds(100));
    bench.put("ann", create("/under_it"), 2);
    bench.advance(seconds(3));
    // And once more: what nodes keep is of a third journal then, and says nothing of the second.
    bench.lose_journal(0);
    bench.come(&["n1", "n2", "n3"]);
    bench.advance(seconds(100));
    bench.put("ann", create("/after"), 3);
    let set = ClientRequest::SetPolicy(SetPolicyRequest { path: path("/kept"), policy: Policy::default() });
    assert!(matches!(bench.ask("admin", set), ClientReply::Policy(_)));
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    bench.come(&["n1", "n2", "n3"]);
    bench.advance(seconds(100));
    assert_eq!(bench.lifetime("/kept"), None, "it was taken back");
    for (at, bytes) in [("/before", 1), ("/under_it", 2), ("/after", 3)] {
        assert_eq!(content(&bench.stat(at).entry).bytes, bytes, "{at}");
    }
}

fn give(bench: &mut Bench, at: &str, user: &str) {
    let give = AclRequest::GiveTo(GiveToRequest { path: path(at), owner: UserName::new(user).unwrap() });
    assert!(matches!(bench.ask("admin", ClientRequest::Acl(give)), ClientReply::Acl(_)));
}

fn limits(bench: &mut Bench) -> Vec<u64> {
    let ClientReply::Quotas(quotas) = bench.ask("admin", ClientRequest::Quotas(QuotasRequest { after: None })) else {
        panic!()
    };
    quotas.quotas.iter().filter_map(|quota| quota.files).collect()
}

/// Started twice on the old journal, the master no longer remembers by itself what was changed on it and what is old.
// Promise 17.
#[test]
fn changes_of_old_folders_hold_though_a_master_was_started_twice_on_an_old_journal() {
    for is_of_such_a_life_itself in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
        bench.mkdir("ann", "/shared");
        bench.mkdir("eve", "/eves");
        bench.keep_for("/shared", 1_000);
        bench.keep_for("/eves", 1_000);
        bench.limit("bob", 5);
        bench.limit("eve", 5);
        bench.advance(seconds(3));
        // Only n3 is told of what comes now.
        bench.crash("n1");
        bench.crash("n2");
        bench.advance(seconds(12));
        if is_of_such_a_life_itself {
            bench.restart_master();
            bench.join_each(&["n3"]);
            bench.limit("bob", 6);
            bench.advance(seconds(3));
        }
        let backup = bench.rows.clone();
        give(&mut bench, "/shared", "bob");
        bench.keep_for("/shared", 2_000);
        bench.limit("bob", 9);
        bench.advance(seconds(3));
        bench.bring_back(&backup);
        bench.join_each(&["n1", "n2"]);
        bench.keep_for("/eves", 3_000);
        bench.advance(seconds(3));
        bench.restart_master();
        bench.join_each(&["n1", "n2"]);
        bench.limit("eve", 3);
        bench.advance(seconds(3));
        bench.come(&["n1", "n2", "n3"]);
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        assert_eq!(bench.stat("/shared").entry.owner.as_str(), "bob");
        assert_eq!((bench.lifetime("/shared"), bench.lifetime("/eves")), (Some(2_000), Some(3_000)));
        assert_eq!(limits(&mut bench), [9, 3]);
        check_nothing_is_left(&bench);
    }
}

/// Which life changed what is of interest only until all nodes have told.
fn check_nothing_is_left(bench: &Bench) {
    let of_journal = bench.rows.keys().filter(|(table, _)| *table == "journal").map(|(_, key)| key.as_slice());
    let left: Vec<_> = of_journal.filter(|key| ![&b"state"[..], b"sequence"].contains(key)).collect();
    assert_eq!(left, Vec::<&[u8]>::new());
}

/// More lives than are told apart: nothing of either side is lost, though what the backup says of old folders may stay.
#[test]
fn after_very_many_lives_on_an_old_journal_both_sides_stand() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.mkdir("ann", "/old");
    bench.advance(seconds(3));
    let backup = bench.rows.clone();
    bench.crash("n1");
    bench.advance(seconds(12));
    bench.mkdir("bob", "/later");
    bench.advance(seconds(3));
    bench.bring_back(&backup);
    for life in 0..70 {
        bench.mkdir("eve", &format!("/eve-{life}"));
        bench.restart_master();
    }
    bench.mkdir("eve", "/eve-last");
    bench.come(&["n1", "n2"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    let paths = bench.all_paths();
    for at in (0..70).map(|life| format!("/eve-{life}")).chain(["/eve-last", "/old", "/later"].map(String::from)) {
        assert!(paths.contains(&at), "{at} is not in {paths:?}");
    }
    check_nothing_is_left(&bench);
}

// Promise 17.
#[test]
fn a_backup_from_a_life_that_had_not_heard_all_nodes_takes_no_later_wish_back() {
    for dies_in_the_midst in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
        bench.mkdir("eve", "/eves");
        bench.advance(seconds(3));
        bench.restart_master();
        bench.join_each(&["n1", "n2"]);
        bench.keep_for("/eves", 3_000);
        bench.limit("eve", 3);
        bench.advance(seconds(3));
        let backup = bench.rows.clone();
        bench.come(&["n3"]);
        give(&mut bench, "/eves", "bob");
        bench.keep_for("/eves", 4_000);
        bench.limit("eve", 4);
        bench.advance(seconds(3));
        bench.bring_back(&backup);
        bench.join_each(&["n1"]);
        if dies_in_the_midst {
            bench.restart_master();
        }
        bench.come(&["n1", "n2", "n3"]);
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        assert_eq!(bench.stat("/eves").entry.owner.as_str(), "bob");
        assert_eq!(bench.lifetime("/eves"), Some(4_000));
        assert_eq!(limits(&mut bench), [4]);
    }
}

// Promise 17.
#[test]
fn a_later_rebuild_names_no_archived_slice_because_its_path_is_free_by_then() {
    for (is_restored, is_staged) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        let at = |id: &str| CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node(id)), ..create("/f") };
        let old = content(&bench.put("ann", at("n2"), 1)).slice;
        bench.advance(seconds(3));
        let (held, kept) = (bench.node("n2").held.clone(), bench.node("n2").mirror.clone());
        // What n2 has does not say that it was replaced, and nobody is left who knows.
        bench.put("ann", at("n1"), 2);
        bench.advance(seconds(3));
        (bench.node_mut("n2").held, bench.node_mut("n2").mirror) = (held, kept.clone());
        bench.node_mut("n1").mirror = kept;
        if is_staged {
            let old = bench.node_mut("n2").held.get_mut(&old).unwrap();
            *old = HeldSlice { state: HeldState::Staged, ..old.clone() };
        }
        bench.lose_journal(0);
        // Told first, it has the path for a moment: it is listed as the names say it, and not as its sidecar does.
        bench.join_each(if is_staged { &["n2", "n1"] } else { &["n1", "n2"] });
        assert_eq!(bench.conflicts(), [("/f".to_owned(), ConflictKind::OlderVersion, true)]);
        bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/f"), to: path("/g") }));
        bench.advance(seconds(3));
        let backup = bench.rows.clone();
        bench.put("ann", create("/later"), 3);
        bench.advance(seconds(3));
        match is_restored {
            true => bench.put_back(&backup, 4_711),
            false => bench.bring_back(&backup),
        }
        bench.come(&["n2", "n1"]);
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        assert_eq!(bench.all_paths(), ["/g", "/later"]);
        assert_eq!(bench.conflicts(), [("/f".to_owned(), ConflictKind::OlderVersion, true)]);
        assert_eq!(bench.holders(old), ["n2"]);
    }
}

// Promise 17.
#[test]
fn a_file_that_was_renamed_over_another_since_the_backup_stays_in_its_place() {
    for order in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.put("ann", create("/a"), 1);
        let slice = content(&bench.put("ann", create("/c"), 2)).slice;
        bench.advance(seconds(3));
        let backup = bench.rows.clone();
        bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/c"), to: path("/a") }));
        bench.advance(seconds(3));
        bench.bring_back(&backup);
        bench.come(&order);
        bench.advance(seconds(10));
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled, "{order:?}");
        assert_eq!(bench.all_paths(), ["/a"], "{order:?}");
        assert_eq!(content(&bench.stat("/a").entry).slice, slice, "{order:?}");
        assert_eq!(bench.conflicts(), [], "{order:?}");
    }
}

fn drain(bench: &mut Bench, id: &str, undo: bool) {
    let request = DrainRequest { node: node(id), dry_run: false, undo };
    assert!(matches!(bench.ask("admin", ClientRequest::Drain(request)), ClientReply::Plan(_)));
}

fn membership(bench: &mut Bench, id: &str) -> Option<Membership> {
    let ClientReply::Nodes(nodes) = bench.ask("admin", ClientRequest::Nodes(NodesRequest)) else { panic!() };
    nodes.iter().find(|status| status.node == node(id)).map(|status| status.membership)
}

#[test]
fn an_older_copy_of_a_line_that_parted_makes_no_node_leave_again() {
    for restarts in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
        drain(&mut bench, "n3", false);
        bench.advance(seconds(10));
        let backup = bench.rows.clone();
        bench.crash("n2");
        bench.mkdir("ann", "/a");
        bench.advance(seconds(3));
        bench.bring_back(&backup);
        bench.come(&["n2"]);
        drain(&mut bench, "n3", true);
        bench.advance(seconds(3));
        bench.lose_journal(0);
        bench.come(&["n2"]);
        if restarts {
            bench.restart_master();
        }
        bench.come(&["n1", "n2", "n3"]);
        bench.advance(seconds(100));
        assert_eq!(membership(&mut bench, "n3"), Some(Membership::Active), "{restarts}");
    }
}

// Promise 17.
#[test]
fn a_node_that_was_taken_into_use_again_on_an_old_journal_stays_in_use() {
    for restarts in [false, true] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
        bench.advance(seconds(3));
        let backup = bench.rows.clone();
        drain(&mut bench, "n3", false);
        bench.advance(seconds(10));
        bench.bring_back(&backup);
        // It is in use by this journal, and so this changes nothing.
        drain(&mut bench, "n3", true);
        if restarts {
            bench.restart_master();
        }
        bench.come(&["n1", "n2", "n3"]);
        bench.advance(seconds(100));
        assert_eq!(membership(&mut bench, "n3"), Some(Membership::Active), "{restarts}");
    }
}
