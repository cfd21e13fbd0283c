//! Nodes that are emptied and taken away.

#![allow(clippy::unwrap_used)]

use protocol::message::{
    client_master::{NodeState, NodeStatus},
    cluster::{DrainRequest, Membership, MovePlan, NodeRemoval, RemoveNodeRequest},
    request::{DismissRequest, FinishRebuildRequest, NodesRequest, RemoveRequest},
};

use super::*;

fn drain(id: &str) -> ClientRequest {
    ClientRequest::Drain(DrainRequest { node: node(id), dry_run: false, undo: false })
}

fn undo(id: &str) -> ClientRequest {
    ClientRequest::Drain(DrainRequest { node: node(id), dry_run: false, undo: true })
}

fn plan(bench: &mut Bench, id: &str) -> MovePlan {
    let request = ClientRequest::Drain(DrainRequest { node: node(id), dry_run: true, undo: false });
    match bench.ask("admin", request) {
        ClientReply::Plan(plan) => plan,
        other => panic!("{other:?}"),
    }
}

fn begin(bench: &mut Bench, request: ClientRequest) {
    let reply = bench.ask("admin", request);
    assert!(matches!(reply, ClientReply::Plan(_)), "{reply:?}");
}

fn removal(id: &str, force: bool, dry_run: bool, undo: bool) -> ClientRequest {
    ClientRequest::RemoveNode(RemoveNodeRequest { node: node(id), force, dry_run, undo })
}

fn remove(bench: &mut Bench, request: ClientRequest) -> NodeRemoval {
    match bench.ask("admin", request) {
        ClientReply::Removal(removal) => removal,
        other => panic!("{other:?}"),
    }
}

fn status(bench: &mut Bench, id: &str) -> NodeStatus {
    let ClientReply::Nodes(nodes) = bench.ask("ann", ClientRequest::Nodes(NodesRequest)) else { panic!("no nodes") };
    nodes.into_iter().find(|status| status.node == node(id)).unwrap()
}

/// A cloud with files at `n1`, each with another copy somewhere.
fn filled() -> (Bench, Vec<SliceId>) {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1", "b/2"]);
    let put = |bench: &mut Bench, index: u64| {
        let request = CreateRequest { at: Some(node("n1")), ..create(&format!("/f{index}")) };
        content(&bench.put("ann", request, 100 + index)).slice
    };
    let slices = (0..30).map(|index| put(&mut bench, index)).collect();
    (bench, slices)
}

#[test]
fn a_plan_says_what_would_move_and_moves_nothing() {
    let (mut bench, slices) = filled();
    let before: Vec<_> = slices.iter().map(|slice| bench.holders(*slice)).collect();
    let rows = bench.rows.clone();
    let plan = plan(&mut bench, "n1");
    let bytes: u64 = (0..30).map(|index| 100 + index).sum();
    assert_eq!((plan.files, plan.bytes, plan.planned_files), (30, bytes, 30));
    assert_eq!(plan.moves.iter().map(|to| to.bytes).sum::<u64>(), bytes);
    let to: Vec<_> = plan.moves.iter().map(|to| (to.from.as_str(), to.to.as_str(), to.files)).collect();
    assert_eq!(to, [("n1", "n2", 30)], "the other copies are at the other site");
    assert!(plan.problems.is_empty());
    bench.advance(seconds(30));
    assert_eq!(slices.iter().map(|slice| bench.holders(*slice)).collect::<Vec<_>>(), before);
    assert_eq!((bench.rows.clone(), status(&mut bench, "n1").membership), (rows, Membership::Active));
    // Nothing was promised to the nodes either.
    assert!(bench.master.fleet.nodes.iter().all(|(_, node)| node.promised_bytes == 0));
}

#[test]
fn a_drained_node_is_empty_and_every_file_has_its_copies() {
    let (mut bench, slices) = filled();
    begin(&mut bench, drain("n1"));
    assert!(bench.health().reasons.iter().any(|reason| reason.contains("node n1 is being drained")));
    let put = bench.put("ann", create("/new"), 10);
    assert!(!bench.holders(content(&put).slice).contains(&"n1".into()));
    bench.advance(seconds(10));
    assert!(bench.node("n1").held.is_empty());
    assert!(slices.iter().all(|slice| bench.holders(*slice).len() == 2));
    assert_eq!((status(&mut bench, "n1").membership, bench.health()), (Membership::Drained, Health::default()));
    let copied = |fake: &FakeNode| fake.orders.iter().filter(|order| matches!(order, Order::Replicate { .. })).count();
    // Those that were published where they were made; of the other one the second copy came by the chain.
    let before = 30;
    assert_eq!(bench.nodes.values().map(copied).sum::<usize>(), before + 30, "each is moved once, to where it stays");
    for slice in &slices {
        let holders = bench.holders(*slice);
        assert_ne!(bench.node(&holders[0]).place.site, bench.node(&holders[1]).place.site, "{holders:?}");
    }
    let further = bench.put("ann", create("/further"), 10);
    assert!(!bench.holders(content(&further).slice).contains(&"n1".into()));
}

// Promise 14.
#[test]
fn copies_are_made_elsewhere_before_they_are_removed() {
    let (mut bench, slices) = filled();
    for id in ["n2", "n3", "n4"] {
        bench.node_mut(id).fails_copies = true;
    }
    begin(&mut bench, drain("n1"));
    bench.advance(seconds(120));
    assert_eq!(bench.node("n1").held.len(), 30, "nothing could be copied, so nothing goes");
    for id in ["n2", "n3", "n4"] {
        bench.node_mut(id).fails_copies = false;
    }
    bench.advance(seconds(200));
    assert!(bench.node("n1").held.is_empty());
    assert!(slices.iter().all(|slice| bench.holders(*slice).len() == 2));
}

#[test]
fn draining_goes_on_after_the_master_was_started_again() {
    let (mut bench, slices) = filled();
    for id in ["n2", "n3", "n4"] {
        bench.node_mut(id).answers = false;
    }
    begin(&mut bench, drain("n1"));
    bench.restart_master();
    for id in ["n1", "n2", "n3", "n4"] {
        bench.node_mut(id).answers = true;
        bench.join(id);
    }
    assert_eq!(status(&mut bench, "n1").membership, Membership::Draining);
    bench.advance(seconds(100));
    assert_eq!(status(&mut bench, "n1").membership, Membership::Drained);
    assert!(slices.iter().all(|slice| bench.holders(*slice).len() == 2));
    bench.restart_master();
    bench.join("n1");
    assert_eq!(status(&mut bench, "n1").membership, Membership::Drained);
}

#[test]
fn what_cannot_be_drained_is_refused_at_once_with_its_reason() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/f"), 10);
    let refusal = bench.refused("admin", drain("n1"));
    assert!(
        refusal.status() == Status::Unavailable && refusal.message.contains("1 file wants more copies than the nodes")
    );
    bench.add_node("n3", "a/1");
    bench.node_mut("n3").free_bytes = 1_005;
    bench.advance(seconds(2));
    let refusal = bench.refused("admin", drain("n1"));
    assert!(refusal.message.contains("for 1 file the other nodes have no room"), "{refusal}");
    assert_eq!(plan(&mut bench, "n1").problems.len(), 1);
    assert_eq!(status(&mut bench, "n1").membership, Membership::Active);
    bench.node_mut("n3").free_bytes = 1_000_000;
    bench.advance(seconds(2));
    begin(&mut bench, drain("n1"));
    assert_eq!(bench.status_of("ann", drain("n3")), Status::Refused, "only administrators");
    assert_eq!(bench.status_of("admin", drain("n9")), Status::NotFound);
}

#[test]
fn draining_can_be_taken_back() {
    let (mut bench, _) = filled();
    bench.nodes.values_mut().for_each(|fake| fake.fails_copies = true);
    begin(&mut bench, drain("n1"));
    bench.advance(seconds(3));
    begin(&mut bench, undo("n1"));
    bench.nodes.values_mut().for_each(|fake| fake.fails_copies = false);
    bench.advance(seconds(100));
    assert_eq!(bench.node("n1").held.len(), 30);
    assert_eq!((status(&mut bench, "n1").membership, bench.health()), (Membership::Active, Health::default()));
}

#[test]
fn a_node_in_use_is_not_removed_and_a_drained_one_stays_out_until_it_is_let_in() {
    let (mut bench, _) = filled();
    let refusal = bench.refused("admin", removal("n1", false, false, false));
    assert!(refusal.status() == Status::Refused && refusal.message.contains("drain n1 --wait"), "{refusal}");
    begin(&mut bench, drain("n1"));
    bench.advance(seconds(10));
    let session = bench.node("n1").session.unwrap();
    assert!(remove(&mut bench, removal("n1", false, false, false)).removed);
    assert!(bench.closed.contains(&session));
    bench.node_mut("n1").session = None;
    bench.advance(seconds(100));
    let ClientReply::Nodes(nodes) = bench.ask("ann", ClientRequest::Nodes(NodesRequest)) else { panic!() };
    assert_eq!((nodes.len(), bench.health()), (3, Health::default()));

    let try_join = |bench: &mut Bench| {
        let join = NodeJoin {
            local: None,
            node: node("n1"),
            place: Place::new("a", "1"),
            transfer: ([10, 0, 0, 1], 7410).into(),
            spe_slots: 2,
            pid: 1,
            folder: "/data".into(),
            address: [10, 0, 0, 1].into(),
        };
        let joined = bench.master.open_node_session(bench.now, SessionId(77_777), join);
        bench.run();
        joined
    };
    assert!(try_join(&mut bench).unwrap_err().message.contains("remove n1 --undo"));
    bench.restart_master();
    assert_eq!(try_join(&mut bench).unwrap_err().status(), Status::Refused, "also after a restart");
    assert!(!remove(&mut bench, removal("n1", false, false, true)).removed);
    assert!(try_join(&mut bench).is_ok());
}

// Promise 14.
#[test]
fn a_lost_node_with_the_only_copy_of_a_file_is_removed_only_by_force() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let only = CreateRequest { at: Some(node("n1")), copies: Some(1), ..create("/only") };
    bench.put("ann", only, 10);
    bench.put("ann", CreateRequest { at: Some(node("n1")), ..create("/twice") }, 10);
    bench.crash("n1");
    bench.advance(seconds(12));
    let refusal = bench.refused("admin", removal("n1", false, false, false));
    assert!(refusal.message.contains("only known copy of 1 files (`/only`)"), "{refusal}");
    let loss = remove(&mut bench, removal("n1", false, true, false));
    assert_eq!((loss.removed, loss.lost, loss.lost_paths, loss.fewer_copies), (false, 1, vec![path("/only")], 1));
    let loss = remove(&mut bench, removal("n1", true, false, false));
    assert_eq!((loss.removed, loss.lost), (true, 1));
    bench.advance(seconds(5));
    assert_eq!(bench.stat("/twice").copies.len(), 2, "made anew at once: nobody waits for a removed node");
    assert_eq!(bench.health().lost, 1);
    // What comes back after all is a new node; what it brings is as good as ever.
    bench.join("n1");
    bench.advance(seconds(10));
    assert_eq!(bench.stat("/twice").copies.len(), 2);
    assert_eq!((bench.stat("/only").copies.len(), bench.health()), (1, Health::default()));
}

// Promise 14.
#[test]
fn a_node_that_does_not_come_back_after_a_restart_of_the_master_is_missed() {
    let (mut bench, _) = filled();
    bench.put("ann", CreateRequest { at: Some(node("n1")), copies: Some(1), ..create("/only") }, 10);
    bench.restart_master();
    for id in ["n2", "n3", "n4"] {
        bench.join(id);
    }
    bench.advance(seconds(1));
    let lost = status(&mut bench, "n1");
    assert_eq!((lost.state, lost.place.to_string()), (NodeState::Lost, "a/1".into()));
    assert!(bench.health().reasons.iter().any(|reason| reason.contains("n1 is lost: it was not heard of since")));
    assert_eq!(bench.health().lost, 1);
    let refusal = bench.refused("admin", removal("n1", false, false, false));
    assert!(refusal.message.contains("1 file has no copy that can be reached"), "{refusal}");
    bench.advance(seconds(100));
    let health = bench.health();
    assert_eq!((health.under_replicated, health.lost), (1, 1), "all others were made anew");
    remove(&mut bench, removal("n1", true, false, false));
    bench.restart_master();
    let ClientReply::Nodes(nodes) = bench.ask("ann", ClientRequest::Nodes(NodesRequest)) else { panic!() };
    assert_eq!(nodes.len(), 3, "it is forgotten for good");
}

#[test]
fn what_a_lost_node_brings_back_late_is_compared_with_what_there_is() {
    let mut bench = Bench::without_versions(&["a/1", "b/1", "c/1"]);
    let put = |bench: &mut Bench, at: &str| {
        content(&bench.put("ann", CreateRequest { at: Some(node("n1")), ..create(at) }, 10)).slice
    };
    let (same, replaced, removed, damaged) = (
        put(&mut bench, "/same"),
        put(&mut bench, "/replaced"),
        put(&mut bench, "/removed"),
        put(&mut bench, "/damaged"),
    );
    bench.crash("n1");
    bench.advance(seconds(80));
    bench.put("ann", create("/replaced"), 20);
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/removed"), recursive: false, now: true }));
    bench.node_mut("n1").held.get_mut(&damaged).unwrap().metadata.digest = digest(99);
    bench.join("n1");
    bench.advance(seconds(10));
    assert_eq!(bench.holders(same).len(), 2, "one of three is trimmed");
    assert!(bench.holders(replaced).is_empty() && bench.holders(removed).is_empty());
    assert_eq!(bench.holders(damaged), ["n2", "n3"]);
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn a_node_with_slices_in_doubt_waits_for_a_person_and_says_so() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let at_n2 = CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node("n2")), ..create("/f") };
    let old = content(&bench.put("ann", at_n2, 10)).slice;
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.put("ann", create("/f"), 20);
    // Nobody wrote down what n2 missed.
    bench.nodes.values_mut().for_each(|fake| fake.mirror = None);
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2", "n3"]);
    bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Finish(FinishRebuildRequest)));
    bench.advance(seconds(70));
    let drain = DrainRequest { node: node("n2"), dry_run: false, undo: false };
    assert!(matches!(bench.ask("admin", ClientRequest::Drain(drain)), ClientReply::Plan(_)));
    bench.advance(seconds(200));
    assert_eq!(bench.holders(old), ["n2"], "it is neither moved nor lost");
    let reasons = bench.health().reasons;
    let says =
        |why: &String| why.contains("1 slice is left; it is in doubt, and is not moved") && why.contains("dismiss");
    assert!(reasons.iter().any(says), "{reasons:?}");
    bench.done("admin", ClientRequest::Rebuild(RebuildRequest::Dismiss(DismissRequest(Some(old)))));
    bench.advance(seconds(10));
    let ClientReply::Nodes(nodes) = bench.ask("admin", ClientRequest::Nodes(NodesRequest)) else { panic!("no nodes") };
    let standing = nodes.iter().find(|status| status.node == node("n2")).map(|status| status.membership);
    assert_eq!(standing, Some(Membership::Drained));
}
