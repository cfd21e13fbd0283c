//! A journal that was put back from a backup: what the nodes know better stays, and what only the old journal names is
//! said.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    JournalId,
    message::request::{DismissRequest, FinishRebuildRequest, RemoveRequest, RenameRequest},
};
use store::RowChange;

use super::*;
use crate::{
    StoredRow,
    log::{journal_restore::RESTORED_TABLES, rebuild},
};

type Rows = BTreeMap<(&'static str, Vec<u8>), Vec<u8>>;

impl Bench {
    /// The master's folder is as it was when it had these rows, put back by `sector restore`.
    pub(super) fn put_back(&mut self, rows: &Rows, id: u64) {
        self.rows = rows.clone().into_iter().collect();
        let stored: Vec<_> = rows
            .iter()
            .filter(|((table, _), _)| RESTORED_TABLES.contains(table))
            .map(|((table, key), value)| StoredRow { table, key: key.clone(), value: value.clone() })
            .collect();
        for change in rebuild::restored_identity(&stored, JournalId(id)).unwrap() {
            match change {
                RowChange::Set { table, key, value } => drop(self.rows.insert((table, key), value)),
                RowChange::Remove { .. } => panic!("nothing is taken away"),
            }
        }
        self.restart_master();
    }

    fn rows_now(&self) -> Rows {
        self.rows.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn held(&self) -> usize {
        self.nodes.values().map(|fake| fake.held.len()).sum()
    }
}

// Promise 63.
#[test]
fn what_was_written_after_the_backup_outlives_the_journal_that_does_not_know_it() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    for at in ["/kept", "/changed", "/gone", "/old", "/turned"] {
        bench.put("ann", create(at), 10);
    }
    bench.advance(seconds(5));
    let backup = bench.rows_now();

    let changed = bench.put("ann", create("/changed"), 20);
    bench.put("ann", create("/new"), 30);
    bench.mkdir("bob", "/private");
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/old"), to: path("/renamed") }));
    for at in ["/gone", "/turned"] {
        bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path(at), recursive: false, now: true }));
    }
    let request = CreateRequest { parents: true, ..create("/turned/inside") };
    bench.put("ann", request, 40);
    bench.advance(seconds(5));
    let held = bench.held();

    for id in [77, 78] {
        bench.put_back(&backup, id);
        bench.join_each(&["n1", "n2"]);
        bench.advance(seconds(100));
        let status = bench.rebuild_status();
        assert_eq!(status.state, RebuildState::Settled);
        assert_eq!(content(&bench.stat("/changed").entry).version, content(&changed).version);
        for at in ["/kept", "/changed", "/new", "/renamed", "/turned/inside"] {
            assert_eq!(bench.locate("ann", at).sources.len(), 2, "{at}");
        }
        assert!(bench.exists("/private") && !bench.exists("/old"));
        assert_eq!(bench.held(), held, "no byte is removed because an old journal does not know it");
        // What was removed after the backup is a name without bytes: nobody can say whether it was removed or lost.
        assert_eq!(bench.conflicts(), [("/gone".into(), ConflictKind::NoBytes, false)]);
        assert!(bench.exists("/gone"));
        assert_eq!(bench.health().lost, 0);
        let old = content(&bench.stat("/changed").entry).version;
        let next = bench.put("ann", create("/after"), 5);
        assert!(content(&next).version > old);
        bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/after"), recursive: false, now: true }));
        bench.advance(seconds(5));
    }
}

// Promise 63.
#[test]
fn an_old_journal_waits_for_its_nodes_before_anything_can_be_changed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/a"), 10);
    bench.advance(seconds(5));
    let backup = bench.rows_now();
    bench.put_back(&backup, 77);
    bench.join_each(&["n1"]);
    let status = bench.rebuild_status();
    assert_eq!((status.state, status.missing), (RebuildState::Running, vec![node("n2")]));
    assert_eq!(bench.refused("ann", ClientRequest::Create(create("/b"))).status(), Status::Unavailable);
    assert!(!bench.locate("ann", "/a").sources.is_empty(), "and all can be read");
}

// Promise 17.
#[test]
fn names_without_bytes_are_listed_and_go_only_when_they_are_dismissed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    for at in ["/found", "/mine", "/rewritten", "/taken", "/kept"] {
        bench.put("ann", create(at), 10);
    }
    let found = content(&bench.stat("/found").entry).slice;
    bench.advance(seconds(5));
    let (backup, holder) = (bench.rows_now(), bench.holders(found).remove(0));
    let copy = bench.node(&holder).held[&found].clone();
    for at in ["/found", "/mine", "/rewritten", "/taken"] {
        bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path(at), recursive: false, now: true }));
    }
    bench.advance(seconds(5));
    bench.put_back(&backup, 77);
    bench.join_each(&["n1", "n2", "n3"]);
    bench.advance(seconds(5));
    let listed = |bench: &mut Bench| bench.conflicts().into_iter().map(|(at, ..)| at).collect::<BTreeSet<_>>();
    let names = |all: &[&str]| all.iter().map(|at| (*at).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(listed(&mut bench), names(&["/found", "/mine", "/rewritten", "/taken"]));
    let health = bench.health();
    assert_eq!((health.lost, health.under_replicated), (0, 0));
    assert!(health.reasons.iter().any(|why| why.starts_with("4 names had files in the older journal")), "{health:?}");

    // Over a restart of the master, too.
    bench.restart_master();
    bench.join_each(&["n1", "n2", "n3"]);
    bench.advance(seconds(5));
    assert_eq!((listed(&mut bench).len(), bench.health().lost), (4, 0));
    // What people do about one themselves is no longer in doubt, nor is what a disk still had.
    bench.put("ann", create("/rewritten"), 20);
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/taken"), recursive: false, now: true }));
    bench.crash(&holder);
    bench.node_mut(&holder).held.insert(found, copy);
    bench.node_mut(&holder).has_all_disks_seen = false;
    bench.advance(seconds(12));
    bench.join_each(&[&holder]);
    bench.advance(seconds(5));
    assert_eq!(listed(&mut bench), names(&["/mine"]));
    let reasons = bench.health().reasons;
    let says = |why: &String| why.starts_with("1 name had a file in the older journal, and no node has its bytes");
    assert!(reasons.iter().any(says), "{reasons:?}");
    assert!(bench.exists("/mine"), "nothing is removed before");
    bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Dismiss(DismissRequest(None))));
    bench.advance(seconds(100));
    assert!(!bench.exists("/mine") && bench.exists("/found") && bench.exists("/rewritten") && bench.exists("/kept"));
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn a_name_whose_bytes_a_missing_node_may_have_counts_as_lost_and_is_not_listed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let only = CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node("n2")), ..create("/only") };
    bench.put("ann", only, 10);
    bench.advance(seconds(5));
    let backup = bench.rows_now();
    bench.put_back(&backup, 77);
    bench.join_each(&["n1"]);
    bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
    bench.advance(seconds(5));
    assert_eq!((bench.conflicts(), bench.health().lost), (vec![], 1));
    bench.join_each(&["n2"]);
    bench.advance(seconds(5));
    assert_eq!((bench.conflicts(), bench.health().lost), (vec![], 0));
}

#[test]
fn a_journal_under_a_new_id_knows_its_own_mirrors_before_anything_is_saved() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.advance(seconds(5));
    let backup = bench.rows_now();
    bench.mkdir("ann", "/since");
    bench.advance(seconds(5));
    bench.rows = backup;
    bench.restart_master();
    let (old, last) = (bench.master.log.rebuild.id, bench.master.log.mirror.sequence());
    bench.saves = false;
    bench.join("n1");
    let id = bench.master.log.rebuild.id;
    assert_ne!(id, old, "the node's copy was newer");
    let newest = bench.master.log.mirror.sequence();
    assert!(bench.master.log.lineage.contains(id, newest, id, last), "a node with this copy would count as newer");
    assert!(bench.master.log.lineage.contains(id, newest, old, last));
}
