//! A file gets another path or other rights while a node with its only lasting copy is away. Then the journal is lost.

// Promise 17.

use protocol::{
    Policy,
    acl::Acl,
    message::{
        access::AclRequest,
        request::{MakeFolderRequest, RemoveRequest, RenameRequest, RestoreRequest, SetAclRequest},
    },
};

use super::*;
use crate::actions::OUTDATED_TABLE;

/// What happens to `/ann/f0`.
#[derive(Clone, Copy, Debug)]
enum Change {
    Rename,
    RenameFolder,
    Restore,
    RestoreFolder,
    Remove,
    RemoveFolder,
    Close,
    Metadata,
}

const CHANGES: [Change; 8] = [
    Change::Rename,
    Change::RenameFolder,
    Change::Restore,
    Change::RestoreFolder,
    Change::Remove,
    Change::RemoveFolder,
    Change::Close,
    Change::Metadata,
];

/// Why `n2` does not follow.
#[derive(Clone, Copy, Debug)]
enum Missed {
    /// It is known to be lost.
    Lost,
    /// The master was started again, and it has not come yet.
    Unreported,
    /// It was told, did nothing, and has been silent for so many seconds.
    Silent(u64),
    /// It was lost before the change was durable.
    Unsaved,
    /// It was lost, and came back just long enough to be given the small rows.
    OnlyRows,
}

fn in_trash(at: &str) -> ClientRequest {
    ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: false })
}

impl Bench {
    /// What comes before the change, while all nodes hear.
    fn prepare(&mut self, change: Change) {
        match change {
            Change::Restore => self.done("admin", in_trash("/ann/f0")),
            Change::RestoreFolder => self.done("admin", in_trash("/ann")),
            _ => {}
        }
        self.advance(seconds(3));
    }

    fn change(&mut self, change: Change) {
        let restore = |at: &str| ClientRequest::Restore(RestoreRequest { path: path(at), to: None });
        let rename = |from: &str, to: &str| ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) });
        let close = AclRequest::Set(SetAclRequest { path: path("/ann/f0"), acl: Acl::default() });
        let request = match change {
            Change::Rename => rename("/ann/f0", "/bob/g"),
            Change::RenameFolder => rename("/ann", "/carol"),
            Change::Restore => restore("/ann/f0"),
            Change::RestoreFolder => restore("/ann"),
            Change::Remove => in_trash("/ann/f0"),
            Change::RemoveFolder => in_trash("/ann"),
            Change::Close => ClientRequest::Acl(close),
            Change::Metadata => {
                let slice = content(&self.stat("/ann/f0").entry).slice;
                metadata::change("/ann/f0", slice, &[("k", Some("v"))])
            }
        };
        let number = self.ask_later("admin", request);
        let answer = self.answer(number);
        assert!(!matches!(answer, Some(ClientReply::Refused(_))), "{answer:?}");
    }

    fn miss(&mut self, change: Change, missed: Missed) {
        match missed {
            Missed::Lost | Missed::OnlyRows => {
                self.crash("n2");
                self.advance(seconds(12));
                self.change(change);
                self.advance(seconds(3));
                if matches!(missed, Missed::OnlyRows) {
                    let rows = self.node("n1").mirror.clone();
                    self.node_mut("n2").mirror = rows;
                }
            }
            Missed::Unsaved => {
                self.saves = false;
                self.change(change);
                self.crash("n2");
                self.advance(seconds(12));
                self.saves = true;
                self.save_all();
                self.advance(seconds(3));
            }
            Missed::Unreported => {
                self.crash("n2");
                self.restart_master();
                self.join_each(&["n1"]);
                self.change(change);
                self.advance(seconds(3));
            }
            Missed::Silent(waits) => {
                self.node_mut("n2").answers = false;
                self.change(change);
                self.advance(seconds(1));
                self.crash("n2");
                self.advance(seconds(waits));
                self.node_mut("n2").answers = true;
            }
        }
    }

    /// Path, owner, whether it has rights of its own, and its metadata.
    fn names_and_rights(&mut self) -> Vec<(String, String, bool, BTreeMap<String, String>)> {
        let entries = self.everything().into_iter();
        let told = entries.map(|entry| {
            let user = match entry.kind {
                EntryKind::File(content) => content.user,
                EntryKind::Folder => BTreeMap::new(),
            };
            (entry.path.to_string(), entry.owner.to_string(), entry.has_acl, user)
        });
        told.collect()
    }

    fn outdated_rows(&self) -> usize {
        self.rows.keys().filter(|(table, _)| *table == OUTDATED_TABLE).count()
    }
}

/// Every copy but those at `n2` is lost together with the journal. What `n2` missed is in force all the same.
fn check(missed: Missed) {
    for (change, ids) in CHANGES.into_iter().flat_map(|change| [(change, ["n1", "n2"]), (change, ["n2", "n1"])]) {
        let mut bench = filled(&["a/1", "b/1"]);
        bench.prepare(change);
        bench.miss(change, missed);
        let before = bench.names_and_rights();
        bench.node_mut("n1").held.clear();
        bench.lose_journal(0);
        bench.join_each(&ids);
        assert_eq!(bench.names_and_rights(), before, "{change:?}, {missed:?}, {ids:?}");
        assert_eq!(bench.conflicts(), [], "{change:?}, {missed:?}, {ids:?}");
        bench.advance(seconds(70));
        assert_eq!(bench.outdated_rows(), 0, "{change:?}, {missed:?}, {ids:?}: nothing is left to be confirmed");
    }
}

#[test]
fn a_change_that_a_lost_node_missed_outlives_the_other_copies_and_the_journal() {
    check(Missed::Lost);
}

#[test]
fn a_change_that_a_node_had_not_done_when_it_went_outlives_the_other_copies_and_the_journal() {
    check(Missed::Silent(4));
    check(Missed::Silent(12));
}

#[test]
fn a_change_that_became_durable_when_its_node_was_lost_outlives_the_other_copies_and_the_journal() {
    check(Missed::Unsaved);
}

#[test]
fn a_change_that_a_node_has_not_done_though_it_has_the_rows_outlives_the_other_copies_and_the_journal() {
    check(Missed::OnlyRows);
}

#[test]
fn a_change_of_a_restarted_master_before_a_node_came_outlives_the_other_copies_and_the_journal() {
    check(Missed::Unreported);
}

#[test]
fn of_two_copies_the_metadata_of_the_one_with_newer_rows_count() {
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = filled(&["a/1", "b/1"]);
        bench.node_mut("n2").answers = false;
        bench.change(Change::Metadata);
        bench.set_policy("admin", "/ann", Policy { copies: Some(2), ..Policy::default() });
        bench.advance(seconds(1));
        let before = bench.names_and_rights();
        bench.lose_journal(0);
        bench.node_mut("n2").answers = true;
        bench.join_each(&ids);
        bench.advance(seconds(70));
        assert_eq!((bench.names_and_rights(), bench.conflicts()), (before, vec![]), "{ids:?}");
    }
}

#[test]
fn what_is_written_down_of_missed_changes_goes_when_they_are_done_or_void() {
    let mut bench = fill(Bench::without_versions(&["a/1", "b/1"]));
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

#[test]
fn a_node_that_comes_back_is_crossed_out_where_it_has_followed_or_has_nothing_more() {
    let mut bench = filled(&["a/1", "b/1"]);
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.rename("/ann", "/carol");
    bench.advance(seconds(1));
    assert_eq!(bench.outdated_rows(), 6);
    let slices = ["/carol/f0", "/carol/f2"].map(|at| content(&bench.stat(at).entry).slice);
    // A disk of it is gone; of the others nothing is done yet.
    bench.node_mut("n2").held.remove(&slices[0]);
    bench.node_mut("n2").answers = false;
    bench.join("n2");
    assert_eq!(bench.outdated_rows(), 5);
    bench.report("n2", Report::Removed(slices[1]));
    assert_eq!(bench.outdated_rows(), 4);
    bench.resume("n2");
    bench.advance(seconds(3));
    assert_eq!(bench.outdated_rows(), 0);
}

#[test]
fn a_node_that_is_away_is_not_crossed_out_when_the_last_one_has_reported() {
    let mut bench = filled(&["a/1", "b/1", "c/1"]);
    bench.crash("n3");
    bench.advance(seconds(12));
    bench.restart_master();
    bench.join_each(&["n1", "n2"]);
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.rename("/ann", "/carol");
    bench.advance(seconds(1));
    // The sweep that follows would write the rows down again, but not all of a large cloud's at once.
    bench.saves = false;
    bench.join("n3");
    let held: Vec<_> = bench.node("n2").held.values().map(|held| &held.metadata.header).collect();
    let held: Vec<_> = held.into_iter().filter(|header| header.path.as_str().starts_with("/ann/")).collect();
    let of_held = |key: &[u8]| held.iter().any(|header| header.slice.0.to_be_bytes() == *key);
    let is_crossed_out =
        |change: &RowChange| matches!(change, RowChange::Remove { table: OUTDATED_TABLE, key } if of_held(key));
    assert!(!held.is_empty() && !bench.unsaved.iter().flat_map(|(_, changes)| changes).any(is_crossed_out));
    let held = held.len();
    bench.saves = true;
    bench.save_all();
    assert_eq!(bench.outdated_rows(), held);
}
