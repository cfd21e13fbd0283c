//! A master that lost its journal, and nodes that were away meanwhile: what comes back, what does not, and what is said
//! of it.

// Promise 17.

#![allow(clippy::unwrap_used)]

mod metadata_mirror;
mod missed_changes;

use protocol::{
    Policy,
    message::{
        cluster::{DrainRequest, Membership, RemoveNodeRequest},
        request::{
            DismissRequest, FinishRebuildRequest, ForgetNodeRequest, ListRequest, MakeFolderRequest, NodesRequest,
            QuotasRequest, RebuildStatusRequest, RecoverRequest, RemoveRequest, RenameRequest, SetQuotaRequest,
        },
    },
};

use super::*;

impl Bench {
    /// The master's disk is lost, and its clock goes wrong by so many seconds.
    pub(super) fn lose_journal(&mut self, clock_seconds: i64) {
        self.rows.clear();
        self.now.unix_millis = self.now.unix_millis.checked_add_signed(clock_seconds * 1_000).unwrap();
        self.restart_master();
    }

    pub(super) fn rebuild_status(&mut self) -> RebuildStatus {
        match self.ask("admin", ClientRequest::Rebuild(RebuildRequest::Status(RebuildStatusRequest { after: None }))) {
            ClientReply::Rebuild(status) => status,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn conflicts(&mut self) -> Vec<(String, ConflictKind, bool)> {
        let conflicts = self.rebuild_status().conflicts;
        let line =
            |conflict: Conflict| (conflict.metadata.header.path.to_string(), conflict.kind, conflict.is_archived);
        conflicts.into_iter().map(line).collect()
    }

    fn everything(&mut self) -> Vec<Entry> {
        let list =
            ClientRequest::List(ListRequest { folder: path("/"), recursive: true, after: None, with_nodes: true });
        match self.ask("admin", list) {
            ClientReply::Page(page) => page.entries,
            other => panic!("{other:?}"),
        }
    }

    fn names_of(&mut self) -> Vec<(String, String)> {
        self.everything().into_iter().map(|entry| (entry.path.to_string(), entry.owner.to_string())).collect()
    }

    /// Nodes come, and come again where the master closed their sessions.
    pub(super) fn come(&mut self, ids: &[&str]) {
        for _ in 0..4 {
            for id in ids {
                if self.node(id).session.is_none() {
                    self.join(id);
                    self.advance(seconds(1));
                }
            }
        }
    }

    /// Nodes come one after the other, and at the end those again whose sessions the master closed.
    pub(super) fn join_each(&mut self, ids: &[&str]) {
        for id in ids {
            self.join(id);
            self.advance(seconds(1));
        }
        self.come(ids);
    }

    pub(super) fn mkdir(&mut self, user: &str, at: &str) {
        self.done(user, ClientRequest::MakeFolder(MakeFolderRequest { path: path(at), parents: true }));
    }

    fn remove(&mut self, at: &str) {
        self.done("admin", ClientRequest::Remove(RemoveRequest { path: path(at), recursive: true, now: true }));
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.done("admin", ClientRequest::Rename(RenameRequest { from: path(from), to: path(to) }));
    }
}

fn filled(places: &[&str]) -> Bench {
    fill(Bench::with_nodes(places))
}

fn fill(mut bench: Bench) -> Bench {
    bench.mkdir("ann", "/ann/empty/deep");
    bench.mkdir("bob", "/bob");
    for index in 0..12 {
        let user = ["ann", "bob"][index % 2];
        bench.put(user, create(&format!("/{user}/f{index}")), index as u64);
    }
    bench.advance(seconds(5));
    bench
}

// Promise 5, 17.
#[test]
fn files_come_back_although_the_new_masters_clock_is_behind() {
    // By comparing clocks, all that looks newer than the journal would count as never published, and be removed.
    let mut bench = filled(&["a/1", "b/1"]);
    let before = bench.names_of();
    let held: Vec<_> = bench.nodes.values().map(|fake| fake.held.clone()).collect();
    bench.lose_journal(-1_000_000);
    bench.join_each(&["n1", "n2"]);
    bench.advance(seconds(100));
    assert_eq!(bench.names_of(), before);
    assert_eq!(bench.nodes.values().map(|fake| fake.held.clone()).collect::<Vec<_>>(), held);
    // And what is written now is newer than all that was found.
    let newest = before.len();
    let old = content(&bench.stat("/ann/f0").entry).version;
    let new = bench.put("ann", create("/ann/f0"), 77);
    assert!(content(&new).version > old, "{newest} files");
}

// Promise 17.
#[test]
fn empty_folders_their_owners_and_ids_come_back_with_the_files() {
    let mut bench = filled(&["a/1", "b/1", "c/1"]);
    let (before, id) = (bench.everything(), bench.stat("/ann/empty").entry.id);
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2", "n3"]);
    let after = bench.everything();
    let shape = |entries: &[Entry]| {
        let line = |entry: &Entry| (entry.path.clone(), entry.owner.clone(), entry.nodes.clone());
        entries.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(shape(&after), shape(&before));
    assert_eq!(bench.stat("/ann/empty").entry.id, id, "policies name folders by id");
    let status = bench.rebuild_status();
    assert_eq!((status.state, status.generation, status.files), (RebuildState::Settled, 2, 12));
    assert_eq!((status.folders, status.conflicts_total), (4, 0));
    assert_eq!(
        bench.status_of("bob", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/ann/x"), parents: false })),
        Status::Refused
    );
    // As durable as any other name, and again at the nodes: it may all happen once more.
    bench.advance(seconds(3));
    bench.lose_journal(0);
    bench.join_each(&["n3", "n2", "n1"]);
    assert_eq!(shape(&bench.everything()), shape(&before));
    assert_eq!(bench.rebuild_status().generation, 3);
}

#[test]
fn names_can_be_read_and_not_be_changed_until_all_known_nodes_have_told() {
    let mut bench = filled(&["a/1", "b/1", "c/1"]);
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    let status = bench.rebuild_status();
    assert_eq!((status.state, status.missing), (RebuildState::Running, vec![node("n3")]));
    assert!(!bench.locate("bob", "/bob/f1").sources.is_empty());
    let orders: usize = bench.nodes.values().map(|fake| fake.orders.len()).sum();
    for request in [
        ClientRequest::Create(create("/new")),
        ClientRequest::MakeFolder(MakeFolderRequest { path: path("/new"), parents: false }),
        ClientRequest::Rename(RenameRequest { from: path("/bob/f1"), to: path("/f") }),
        ClientRequest::Remove(RemoveRequest { path: path("/bob"), recursive: true, now: true }),
    ] {
        let refusal = bench.refused("admin", request);
        assert_eq!(refusal.status(), Status::Unavailable);
        assert!(refusal.message.contains("1 of 3") && refusal.message.contains("n3"), "{refusal}");
    }
    bench.advance(seconds(100));
    assert_eq!(bench.nodes.values().map(|fake| fake.orders.len()).sum::<usize>(), orders, "no disk is changed");
    assert!(bench.health().reasons.iter().any(|reason| reason.contains("sector rebuild finish")));
    bench.join_each(&["n3"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    bench.put("ann", create("/new"), 5);
}

#[test]
fn a_rebuild_ends_when_an_administrator_says_so_or_after_a_time() {
    for says_so in [true, false] {
        let mut bench = filled(&["a/1", "b/1", "c/1"]);
        bench.lose_journal(0);
        bench.join_each(&["n1", "n2"]);
        if says_so {
            assert_eq!(
                bench.status_of("ann", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest))),
                Status::Refused
            );
            bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
        } else {
            bench.advance(config().rebuild_wait);
        }
        assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
        bench.put("ann", create("/new"), 5);
        assert_eq!(
            bench.status_of("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest))),
            Status::NotFound
        );
    }
}

#[test]
fn nothing_waits_for_a_node_that_will_never_come_back() {
    let mut bench = filled(&["a/1", "b/1", "c/1"]);
    bench.crash("n3");
    bench.advance(seconds(12));
    bench.remove("/ann");
    assert!(bench.rows.keys().any(|(table, _)| *table == "removed"), "n3 has something that it should remove");
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    let forget = |id: &str| ClientRequest::Rebuild(RebuildRequest::Forget(ForgetNodeRequest(node(id))));
    assert_eq!(bench.status_of("ann", forget("n3")), Status::Refused);
    assert_eq!(bench.status_of("admin", forget("n1")), Status::Refused, "it is there");
    assert_eq!(bench.status_of("admin", forget("n9")), Status::NotFound);
    bench.done("admin", forget("n3"));
    let status = bench.rebuild_status();
    assert_eq!((status.state, status.missing), (RebuildState::Settled, vec![]));
    assert!(!bench.rows.keys().any(|(table, _)| *table == "removed"));
    bench.restart_master();
    assert_eq!(bench.rebuild_status().missing.len(), 2, "of those that are known, none has told yet");
}

#[test]
fn where_no_node_has_a_copy_it_ends_when_no_further_node_comes_for_a_while() {
    let mut bench = filled(&["a/1", "b/1"]);
    bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
    bench.lose_journal(0);
    bench.join_each(&["n1"]);
    bench.advance(config().replicate_after / 2);
    bench.join_each(&["n2"]);
    bench.advance(config().replicate_after / 2);
    assert_eq!(bench.rebuild_status().state, RebuildState::Running);
    bench.advance(config().replicate_after);
    let status = bench.rebuild_status();
    assert_eq!((status.state, status.files, status.copy), (RebuildState::Settled, 12, None));
}

/// Three nodes, of which `n1` went before the last quota was set. Also the names.
fn with_an_older_copy() -> (Bench, Vec<(String, String)>) {
    let mut bench = filled(&["a/1", "b/1", "c/1"]);
    bench.done("admin", quota(1_000));
    bench.advance(seconds(2));
    bench.crash("n1");
    bench.done("admin", quota(2_000));
    bench.advance(seconds(2));
    let before = bench.names_of();
    (bench, before)
}

#[test]
fn a_journal_lost_before_it_knew_anything_does_not_stand_for_the_one_before() {
    let (mut bench, before) = with_an_older_copy();
    // A node with new disks joins the next journal alone, gets its rows, and that journal is lost too.
    bench.lose_journal(0);
    bench.add_node("n4", "d/1");
    bench.advance(seconds(2));
    assert!(bench.node("n4").mirror.is_some(), "it has a copy of the journal in between");
    bench.lose_journal(0);
    bench.join_each(&["n4"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Running, "n4 knows of nobody else, but was never asked to");
    // The older copy comes first. What the newer one says counts.
    bench.join_each(&["n1", "n2", "n3"]);
    bench.advance(seconds(2));
    assert_eq!((bench.rebuild_status().state, bench.names_of()), (RebuildState::Settled, before));
    assert_eq!(bench.quota_bytes(), [2_000]);
}

#[test]
fn a_new_journal_that_gave_a_node_rows_already_takes_the_newest_copy_whoever_comes_first() {
    for restarts in [false, true] {
        let (mut bench, before) = with_an_older_copy();
        bench.lose_journal(0);
        bench.add_node("n4", "d/1");
        bench.advance(seconds(2));
        if restarts {
            bench.restart_master();
        }
        bench.join_each(&["n1", "n2", "n3"]);
        bench.advance(seconds(2));
        assert_eq!(bench.names_of(), before, "{restarts}");
        assert_eq!(bench.quota_bytes(), [2_000], "{restarts}");
    }
}

impl Bench {
    fn quota_bytes(&mut self) -> Vec<u64> {
        match self.ask("admin", ClientRequest::Quotas(QuotasRequest { after: None })) {
            ClientReply::Quotas(page) => page.quotas.iter().filter_map(|quota| quota.bytes).collect(),
            other => panic!("{other:?}"),
        }
    }
}

fn quota(bytes: u64) -> ClientRequest {
    ClientRequest::SetQuota(SetQuotaRequest { user: UserName::new("ann").unwrap(), bytes: Some(bytes), files: None })
}

#[test]
fn a_master_that_restarts_in_the_midst_goes_on() {
    let mut bench = filled(&["a/1", "b/1", "c/1"]);
    let before = bench.names_of();
    bench.lose_journal(0);
    bench.join_each(&["n1"]);
    bench.restart_master();
    assert_eq!(bench.rebuild_status().state, RebuildState::Running);
    bench.join_each(&["n2", "n1", "n3"]);
    assert_eq!((bench.rebuild_status().state, bench.names_of()), (RebuildState::Settled, before));
}

// Promise 17.
#[test]
fn what_was_removed_while_its_node_was_away_stays_removed() {
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = filled(&["a/1", "b/1"]);
        bench.crash("n2");
        bench.advance(seconds(12));
        bench.remove("/ann");
        bench.put("bob", create("/bob/f1"), 100);
        bench.advance(seconds(1));
        let before = bench.names_of();
        bench.lose_journal(0);
        bench.join_each(&ids);
        assert_eq!(bench.names_of(), before, "{ids:?}");
        assert_eq!(bench.conflicts(), [], "it is known that they were removed and replaced");
        bench.advance(seconds(70));
        assert_eq!(bench.node("n2").held.len(), bench.node("n1").held.len(), "and their bytes are gone");
        assert!(!bench.rows.keys().any(|(table, _)| *table == "removed"), "nothing is left to be confirmed");
    }
}

// Promise 17.
#[test]
fn what_a_node_was_to_remove_when_it_was_lost_or_began_anew_stays_removed() {
    for (ids, is_lost) in [(["n1", "n2"], true), (["n2", "n1"], true), (["n1", "n2"], false), (["n2", "n1"], false)] {
        let mut bench = filled(&["a/1", "b/1"]);
        bench.node_mut("n2").answers = false;
        bench.remove("/ann");
        bench.put("bob", CreateRequest { sync_copies: Some(1), ..create("/bob/f1") }, 100);
        bench.advance(seconds(1));
        if is_lost {
            bench.crash("n2");
            bench.advance(seconds(12));
        } else {
            // It does not come to do anything, this time either.
            bench.join("n2");
            bench.advance(seconds(1));
        }
        let before = bench.names_of();
        bench.lose_journal(0);
        bench.node_mut("n2").answers = true;
        bench.join_each(&ids);
        assert_eq!(bench.names_of(), before, "{ids:?}, lost: {is_lost}");
        bench.advance(seconds(70));
        assert_eq!(bench.node("n2").held.len(), bench.node("n1").held.len(), "and their bytes are gone");
        assert!(!bench.rows.keys().any(|(table, _)| *table == "removed"), "nothing is left to be confirmed");
    }
}

// Promise 17.
#[test]
fn what_a_node_was_to_remove_stays_removed_though_it_and_the_journal_went_in_the_same_moment() {
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = filled(&["a/1", "b/1"]);
        bench.crash("n2");
        bench.remove("/ann");
        bench.put("bob", CreateRequest { sync_copies: Some(1), ..create("/bob/f1") }, 100);
        // Nobody has missed the node yet.
        bench.advance(seconds(4));
        let before = bench.names_of();
        bench.lose_journal(0);
        bench.join_each(&ids);
        assert_eq!(bench.names_of(), before, "{ids:?}");
        bench.advance(seconds(70));
        assert_eq!(bench.node("n2").held.len(), bench.node("n1").held.len(), "and their bytes are gone");
    }
}

#[test]
fn overwritten_content_stays_away_though_its_node_was_lost_before_the_new_is_there() {
    let mut bench = filled(&["a/1", "b/1"]);
    let before = bench.names_of();
    bench.put("bob", create("/bob/f"), 100);
    bench.advance(seconds(1));
    bench.node_mut("n1").answers = false;
    bench.node_mut("n2").answers = false;
    bench.put("bob", CreateRequest { at: Some(node("n1")), copies: Some(1), ..create("/bob/f") }, 200);
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.resume("n1");
    bench.advance(seconds(3));
    bench.remove("/bob/f");
    bench.advance(seconds(3));
    bench.lose_journal(0);
    bench.node_mut("n2").answers = true;
    bench.join_each(&["n1", "n2"]);
    assert_eq!(bench.names_of(), before);
}

#[test]
fn a_node_that_was_away_all_the_time_brings_nothing_back() {
    let mut bench = filled(&["a/1", "b/1"]);
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.lose_journal(0);
    bench.join_each(&["n1"]);
    bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
    bench.remove("/ann");
    let before = bench.names_of();
    bench.join_each(&["n2"]);
    assert_eq!(bench.names_of(), before);
    bench.advance(seconds(70));
    assert_eq!(bench.conflicts(), []);
    assert_eq!(bench.node("n2").held.len(), bench.node("n1").held.len());
}

#[test]
fn a_name_that_changed_while_a_node_was_away_is_the_new_one_whoever_comes_first() {
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = filled(&["a/1", "b/1"]);
        bench.crash("n2");
        bench.advance(seconds(12));
        bench.rename("/bob/f1", "/ann/moved");
        bench.rename("/bob", "/robert");
        bench.advance(seconds(1));
        let before = bench.names_of();
        bench.lose_journal(0);
        bench.join_each(&ids);
        assert_eq!(bench.names_of(), before, "{ids:?}");
        assert_eq!(bench.conflicts(), []);
        bench.advance(seconds(70));
        assert_eq!(bench.node("n2").paths(), bench.node("n1").paths());
    }
}

// Promise 17.
#[test]
fn of_two_versions_the_newest_wins_and_the_other_is_kept_and_listed() {
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = Bench::without_versions(&["a/1", "b/1"]);
        let old = content(&bench.put("ann", create("/f"), 10)).slice;
        bench.crash("n2");
        bench.advance(seconds(12));
        let new = content(&bench.put("ann", create("/f"), 20)).slice;
        // Nobody wrote down what n2 missed.
        bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
        bench.lose_journal(0);
        bench.join_each(&ids);
        bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
        bench.advance(seconds(70));
        assert_eq!(content(&bench.stat("/f").entry).slice, new, "{ids:?}");
        assert_eq!(bench.conflicts(), [("/f".into(), ConflictKind::OlderVersion, true)]);
        assert_eq!(bench.holders(old), ["n2"], "it is kept");
        // Also over a restart of the master and of its node.
        bench.restart_master();
        bench.join_each(&["n1", "n2"]);
        assert_eq!(bench.holders(old), ["n2"]);

        let recover =
            |at: &str| ClientRequest::Rebuild(RebuildRequest::Recover(RecoverRequest { slice: old, path: path(at) }));
        assert_eq!(bench.status_of("ann", recover("/old")), Status::Refused);
        assert_eq!(bench.status_of("admin", recover("/f")), Status::Exists);
        bench.done("admin", recover("/old"));
        assert_eq!(content(&bench.stat("/old").entry).bytes, 10);
        bench.advance(seconds(70));
        assert_eq!((bench.conflicts(), bench.health().reasons), (vec![], vec![]));
    }
}

// Promise 17.
#[test]
fn what_is_kept_without_a_name_gets_none_when_the_journal_is_lost_again_and_its_path_is_free() {
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = Bench::without_versions(&["a/1", "b/1"]);
        let old = content(&bench.put("ann", create("/f"), 10)).slice;
        bench.crash("n2");
        bench.advance(seconds(12));
        bench.put("ann", create("/f"), 20);
        bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
        bench.lose_journal(0);
        bench.join_each(&ids);
        bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
        bench.advance(seconds(70));
        let listed = [("/f".into(), ConflictKind::OlderVersion, true)];
        assert_eq!(bench.conflicts(), listed);
        bench.remove("/f");
        bench.advance(seconds(3));
        for _ in 0..2 {
            bench.lose_journal(0);
            bench.join_each(&ids);
            assert_eq!((bench.names_of(), bench.conflicts()), (vec![], listed.to_vec()), "{ids:?}");
            bench.advance(seconds(70));
            assert_eq!(bench.holders(old), ["n2"], "it is kept");
        }
        // A name that it was given counts more.
        let request = RebuildRequest::Recover(RecoverRequest { slice: old, path: path("/f") });
        bench.done("admin", ClientRequest::Rebuild(request));
        bench.advance(seconds(70));
        bench.lose_journal(0);
        bench.join_each(&ids);
        assert_eq!((content(&bench.stat("/f").entry).slice, bench.conflicts()), (old, vec![]), "{ids:?}");
    }
}

#[test]
fn what_is_dismissed_is_removed_from_its_node() {
    let mut bench = Bench::without_versions(&["a/1", "b/1"]);
    let old = content(&bench.put("ann", create("/f"), 10)).slice;
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.put("ann", create("/f"), 20);
    bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
    let dismiss = |slice| ClientRequest::Rebuild(RebuildRequest::Dismiss(DismissRequest(slice)));
    assert_eq!(bench.status_of("admin", dismiss(Some(SliceId(1)))), Status::NotFound);
    bench.done("admin", dismiss(Some(old)));
    assert_eq!((bench.holders(old), bench.conflicts()), (vec![], vec![]));
    bench.done("admin", dismiss(None));
}

// Promise 17.
#[test]
fn what_was_acknowledged_and_placed_nowhere_comes_back_and_is_listed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    for id in ["n1", "n2"] {
        bench.node_mut(id).answers = false;
    }
    let at = |at: &str| CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node("n1")), ..create(at) };
    bench.put("ann", at("/f"), 10);
    let unpublished = bench.created("ann", at("/g"));
    bench.write(&unpublished, 5);
    bench.lose_journal(-5);
    bench.nodes.values_mut().for_each(|fake| fake.answers = true);
    bench.join_each(&["n1", "n2"]);
    assert_eq!(content(&bench.stat("/f").entry).bytes, 10, "its commit was answered");
    assert!(bench.exists("/g"), "nobody can know that it was not");
    let mut conflicts = bench.conflicts();
    conflicts.sort_by(|a, b| a.0.cmp(&b.0));
    let listed = |at: &str| (at.to_owned(), ConflictKind::NeverPlaced, false);
    assert_eq!(conflicts, [listed("/f"), listed("/g")]);
    bench.advance(seconds(5));
    assert_eq!(bench.node("n1").paths(), ["/f", "/g"], "they are placed now");
}

#[test]
fn a_file_where_a_folder_stands_is_kept_aside() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let slice = content(&bench.put("ann", create("/x"), 10)).slice;
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.remove("/x");
    bench.mkdir("ann", "/x");
    bench.put("ann", create("/x/y"), 20);
    bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        bench.lose_journal(0);
        bench.join_each(&ids);
        assert_eq!(bench.rebuild_status().conflicts_total, 1, "{ids:?}");
        assert_eq!(bench.conflicts()[0].1, ConflictKind::PathTaken);
        let both = bench.holders(slice).len() + bench.node("n1").held.len();
        assert!(both >= 2, "nothing is removed");
    }
}

#[test]
fn what_is_written_after_the_loss_is_not_replaced_by_what_a_late_node_brings() {
    let mut bench = filled(&["a/1", "b/1", "c/1"]);
    let request = CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node("n3")), ..create("/only") };
    bench.put("ann", request, 10);
    bench.crash("n3");
    bench.advance(seconds(12));
    // The clock is behind, so that the lost one's versions are larger.
    bench.lose_journal(-1_000_000);
    bench.join_each(&["n1", "n2"]);
    bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
    assert!(!bench.exists("/only"));
    let new = bench.put("ann", create("/only"), 20);
    bench.join_each(&["n3"]);
    assert_eq!(content(&bench.stat("/only").entry).slice, content(&new).slice);
    assert_eq!(bench.conflicts(), [("/only".into(), ConflictKind::WrittenSince, true)]);
}

#[test]
fn a_file_made_again_by_another_user_belongs_to_the_newer_one() {
    for ids in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
        bench.put("ann", create("/f"), 10);
        bench.crash("n2");
        bench.advance(seconds(12));
        bench.remove("/f");
        bench.put("bob", create("/f"), 20);
        bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
        bench.lose_journal(0);
        bench.join_each(&ids);
        assert_eq!(bench.names_of(), [("/f".to_owned(), "bob".to_owned())], "{ids:?}");
        bench.restart_master();
        assert_eq!(bench.names_of(), [("/f".to_owned(), "bob".to_owned())], "{ids:?}");
    }
}

#[test]
fn a_new_cloud_is_no_rebuild_and_work_before_the_first_old_node_joins_stands() {
    let mut bench = Bench::new(config(), 77);
    bench.add_node("n1", "a/1");
    assert_eq!(bench.rebuild_status().state, RebuildState::New);
    // An old cloud's node comes to a new master, on which someone has begun to work.
    let mut old = filled(&["b/1", "b/1"]);
    old.put("ann", create("/mine"), 1);
    old.advance(seconds(3));
    bench.mkdir("bob", "/new/empty");
    let mine = bench.put("bob", create("/mine"), 2);
    bench.make_node("n2", "b/1");
    bench.node_mut("n2").held = old.node("n2").held.clone();
    bench.node_mut("n2").mirror = old.node("n2").mirror.clone();
    bench.join_each(&["n2"]);
    let status = bench.rebuild_status();
    assert_eq!((status.state, status.generation), (RebuildState::Settled, 2), "both nodes have told");
    assert!(bench.exists("/new/empty") && bench.exists("/ann/empty/deep") && bench.exists("/bob/f1"));
    assert_eq!(content(&bench.stat("/mine").entry).slice, content(&mine).slice);
    assert_eq!(bench.conflicts(), [("/mine".into(), ConflictKind::WrittenSince, true)]);
}

#[test]
fn a_node_with_an_unknown_disk_is_believed_and_a_known_disk_is_not_judged_again() {
    let mut bench = filled(&["a/1", "b/1"]);
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    bench.advance(seconds(3));
    let slice = content(&bench.stat("/ann/f0").entry).slice;
    let bytes = bench.node("n1").held[&slice].clone();
    bench.remove("/ann/f0");
    assert_eq!(bench.holders(slice), Vec::<String>::new());
    // The removal was not synced when the power went: the slice is back, and still removed.
    bench.crash("n1");
    bench.node_mut("n1").held.insert(slice, bytes.clone());
    bench.advance(seconds(12));
    bench.join_each(&["n1"]);
    assert!(!bench.exists("/ann/f0"));
    assert_eq!(bench.holders(slice), Vec::<String>::new());
    // A disk that this master has never seen is another matter.
    bench.crash("n1");
    bench.node_mut("n1").held.insert(slice, bytes);
    bench.node_mut("n1").mirror = None;
    bench.advance(seconds(12));
    bench.join_each(&["n1"]);
    assert!(bench.exists("/ann/f0"));
}

// Promise 17.
#[test]
fn a_disk_missing_during_the_rebuild_brings_its_files_though_its_node_is_known() {
    let mut bench = filled(&["a/1", "b/1"]);
    let only = CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node("n1")), ..create("/only") };
    let slice = content(&bench.put("ann", only, 10)).slice;
    bench.advance(seconds(3));
    let away = bench.node_mut("n1").held.remove(&slice).unwrap();
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    bench.advance(seconds(5));
    assert!(!bench.exists("/only"));
    bench.crash("n1");
    bench.node_mut("n1").held.insert(slice, away);
    bench.node_mut("n1").has_all_disks_seen = false;
    bench.advance(seconds(12));
    bench.node_mut("n1").orders.clear();
    bench.join_each(&["n1"]);
    assert!(bench.exists("/only"));
    let is_full =
        |order: &Order| matches!(order, Order::Mirror(MirrorUpdate { base: MirrorBase::Page { page: 0, .. }, .. }));
    assert!(bench.node("n1").orders.iter().any(is_full), "so that the node writes down that it was told of");
}

#[test]
fn after_a_rebuild_a_draining_node_still_drains_and_a_removed_one_is_not_awaited() {
    let mut bench = filled(&["a/1", "b/1", "c/1", "d/1"]);
    let drain = DrainRequest { node: node("n3"), dry_run: false, undo: false };
    bench.ask("admin", ClientRequest::Drain(drain.clone()));
    bench.crash("n4");
    bench.advance(seconds(12));
    let remove = RemoveNodeRequest { node: node("n4"), force: true, dry_run: false, undo: false };
    assert!(matches!(bench.ask("admin", ClientRequest::RemoveNode(remove)), ClientReply::Removal(_)));
    bench.advance(seconds(3));
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    assert_eq!(bench.rebuild_status().missing, [node("n3")]);
    assert_eq!(bench.status_of("admin", ClientRequest::Drain(drain)), Status::Unavailable);
    bench.join_each(&["n3"]);
    assert_eq!(bench.rebuild_status().state, RebuildState::Settled);
    let ClientReply::Nodes(nodes) = bench.ask("admin", ClientRequest::Nodes(NodesRequest)) else { panic!("no nodes") };
    let standing = |id: &str| nodes.iter().find(|status| status.node == node(id)).map(|status| status.membership);
    assert_ne!(standing("n3"), Some(Membership::Active));
    assert_eq!((standing("n1"), standing("n4")), (Some(Membership::Active), None));
}
