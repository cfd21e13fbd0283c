//! A file gets another path while a node with its only lasting copy is away, and then the journal is lost.

// Promise 17.

use protocol::message::request::{MakeFolderRequest, RestoreRequest};

use super::*;
use crate::actions::OUTDATED_TABLE;

/// What happens to `/ann/f0` while `n2` does not hear of it.
#[derive(Clone, Copy, Debug)]
enum Change {
    Rename,
    RenameFolder,
    Restore,
    RestoreFolder,
}

const CHANGES: [Change; 4] = [Change::Rename, Change::RenameFolder, Change::Restore, Change::RestoreFolder];

impl Bench {
    fn put_in_trash(&mut self, at: &str) {
        self.done("admin", ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: false }));
    }

    /// What comes before the change, while all nodes hear.
    fn prepare(&mut self, change: Change) {
        match change {
            Change::Restore => self.put_in_trash("/ann/f0"),
            Change::RestoreFolder => self.put_in_trash("/ann"),
            Change::Rename | Change::RenameFolder => {}
        }
        self.advance(seconds(3));
    }

    fn change(&mut self, change: Change) {
        let restore = |at: &str| ClientRequest::Restore(RestoreRequest { path: path(at), to: None });
        match change {
            Change::Rename => self.rename("/ann/f0", "/bob/g"),
            Change::RenameFolder => self.rename("/ann", "/carol"),
            Change::Restore => drop(self.ask("admin", restore("/ann/f0"))),
            Change::RestoreFolder => drop(self.ask("admin", restore("/ann"))),
        }
    }

    /// A disk with every copy but those at `n2` is lost together with the journal. Then all come in this order.
    fn lose_all_but_n2(&mut self, ids: [&str; 2]) {
        self.node_mut("n1").held.clear();
        self.lose_journal(0);
        self.join_each(&ids);
    }

    fn outdated_rows(&self) -> usize {
        self.rows.keys().filter(|(table, _)| *table == OUTDATED_TABLE).count()
    }
}

const ORDERS: [[&str; 2]; 2] = [["n1", "n2"], ["n2", "n1"]];

#[test]
fn a_change_of_path_that_a_lost_node_missed_outlives_the_other_copies_and_the_journal() {
    for (change, ids) in CHANGES.into_iter().flat_map(|change| ORDERS.map(|ids| (change, ids))) {
        let mut bench = filled(&["a/1", "b/1"]);
        bench.prepare(change);
        bench.crash("n2");
        bench.advance(seconds(12));
        bench.change(change);
        bench.advance(seconds(3));
        let before = bench.names_of();
        bench.lose_all_but_n2(ids);
        assert_eq!(bench.names_of(), before, "{change:?}, {ids:?}");
        assert_eq!(bench.conflicts(), [], "{change:?}, {ids:?}");
        bench.advance(seconds(70));
        assert_eq!(bench.outdated_rows(), 0, "{change:?}, {ids:?}: nothing is left to be confirmed");
    }
}

#[test]
fn a_change_of_path_that_a_node_had_not_done_when_it_went_outlives_the_journal() {
    for (change, ids) in CHANGES.into_iter().flat_map(|change| ORDERS.map(|ids| (change, ids))) {
        for waits in [4, 12] {
            let mut bench = filled(&["a/1", "b/1"]);
            bench.prepare(change);
            bench.node_mut("n2").answers = false;
            bench.change(change);
            bench.advance(seconds(1));
            bench.crash("n2");
            // Not missed yet, or lost.
            bench.advance(seconds(waits));
            let before = bench.names_of();
            bench.node_mut("n2").answers = true;
            bench.lose_all_but_n2(ids);
            assert_eq!(bench.names_of(), before, "{change:?}, {ids:?}, after {waits} s");
            bench.advance(seconds(70));
            assert_eq!(bench.outdated_rows(), 0, "{change:?}, {ids:?}: nothing is left to be confirmed");
        }
    }
}

#[test]
fn a_change_of_path_that_a_restarted_master_made_before_a_node_came_outlives_the_journal() {
    for (change, ids) in CHANGES.into_iter().flat_map(|change| ORDERS.map(|ids| (change, ids))) {
        let mut bench = filled(&["a/1", "b/1"]);
        bench.prepare(change);
        bench.crash("n2");
        bench.restart_master();
        bench.join_each(&["n1"]);
        bench.change(change);
        bench.advance(seconds(3));
        let before = bench.names_of();
        bench.lose_all_but_n2(ids);
        assert_eq!(bench.names_of(), before, "{change:?}, {ids:?}");
        bench.advance(seconds(70));
        assert_eq!(bench.outdated_rows(), 0, "{change:?}, {ids:?}: nothing is left to be confirmed");
    }
}

#[test]
fn what_is_written_down_of_missed_changes_goes_when_they_are_done_or_void() {
    let mut bench = filled(&["a/1", "b/1"]);
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.rename("/ann", "/carol");
    bench.advance(seconds(1));
    assert_eq!(bench.outdated_rows(), 6);
    // Removed, and overwritten: they have nothing to be moved.
    bench.remove("/carol/f0");
    bench.put("ann", CreateRequest { sync_copies: Some(1), ..create("/carol/f2") }, 100);
    bench.advance(seconds(1));
    assert_eq!(bench.outdated_rows(), 4);
    bench.restart_master();
    assert_eq!(bench.outdated_rows(), 4);
    bench.join_each(&["n1", "n2"]);
    bench.advance(seconds(5));
    assert_eq!(bench.outdated_rows(), 0);
    let kept = bench.node("n1").mirror.clone().unwrap();
    assert!(kept.rows.keys().all(|(table, _)| table != OUTDATED_TABLE), "nor at nodes");
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.done("admin", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/dan"), parents: false }));
    bench.rename("/carol", "/dan/carol");
    bench.advance(seconds(1));
    assert_eq!(bench.outdated_rows(), 4, "it has not yet been given the overwritten one");
    let forget = RebuildRequest::Forget(ForgetNodeRequest(node("n2")));
    bench.done("admin", ClientRequest::Rebuild(forget));
    assert_eq!(bench.outdated_rows(), 0, "nobody waits for it any longer");
}
