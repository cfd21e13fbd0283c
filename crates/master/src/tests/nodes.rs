//! Nodes that come, go and come back, and what they are told then.

#![allow(clippy::unwrap_used)]

use protocol::message::{
    client_master::{CopyState, NodeState, NodeStatus},
    request::{MakeFolderRequest, NodesRequest, RemoveRequest, RenameRequest},
};

use super::*;

fn nodes(bench: &mut Bench) -> Vec<NodeStatus> {
    match bench.ask("ann", ClientRequest::Nodes(NodesRequest)) {
        ClientReply::Nodes(nodes) => nodes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_is_up_once_it_has_told_all_that_it_holds() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.crash("n1");
    bench.open_node("n1");
    assert_eq!(nodes(&mut bench)[0].state, NodeState::Joining);
    assert_eq!(bench.status_of("ann", ClientRequest::Create(create("/f"))), Status::Unavailable);
    bench.report("n1", Report::Inventory { slices: Vec::new(), last: false });
    assert_eq!(nodes(&mut bench)[0].state, NodeState::Joining);
    bench.report("n1", Report::Inventory { slices: Vec::new(), last: true });
    assert_eq!(nodes(&mut bench)[0].state, NodeState::Up);
}

#[test]
fn a_silent_node_is_lost_and_its_session_ends() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/f"), 10);
    let session = bench.node("n2").session.unwrap();
    bench.crash("n2");
    bench.advance(seconds(9));
    assert_eq!(nodes(&mut bench)[1].state, NodeState::Up);
    bench.advance(seconds(3));
    assert_eq!(nodes(&mut bench)[1].state, NodeState::Lost);
    assert!(bench.closed.contains(&session));
    assert_eq!(bench.stat("/f").copies[1].state, CopyState::Stale);
    assert_eq!(bench.locate("ann", "/f").sources.len(), 1);
    assert!(bench.health().reasons[0].contains("node n2 is lost"));
}

#[test]
fn a_master_that_was_suspended_does_not_take_its_nodes_for_lost() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.now = bench.now.after(seconds(600));
    bench.master.handle_timeout(bench.now);
    bench.run();
    assert!(nodes(&mut bench).iter().all(|node| node.state == NodeState::Up));
    for id in ["n1", "n2"] {
        bench.crash(id);
    }
    bench.advance(seconds(12));
    assert!(nodes(&mut bench).iter().all(|node| node.state == NodeState::Lost));
}

// Promise 15.
#[test]
fn a_node_that_comes_back_is_told_what_was_removed_renamed_and_replaced() {
    let mut bench = Bench::without_versions(&["a/1", "b/1"]);
    bench.done("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/d"), parents: false }));
    for name in ["/removed", "/replaced", "/d/moved"] {
        bench.put("ann", create(name), 10);
    }
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/removed"), recursive: false, now: true }));
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/d"), to: path("/e") }));
    bench.put("ann", create("/replaced"), 20);
    assert_eq!(bench.node("n2").paths(), ["/d/moved", "/removed", "/replaced"]);

    bench.join("n2");
    bench.advance(seconds(5));
    assert_eq!(bench.node("n1").paths(), ["/e/moved", "/replaced"]);
    assert_eq!(bench.node("n2").paths(), ["/e/moved", "/replaced"]);
    let replaced = content(&bench.stat("/replaced").entry).slice;
    assert_eq!(bench.holders(replaced), ["n1", "n2"]);
}

#[test]
fn staged_bytes_of_a_published_file_are_placed_and_of_an_unpublished_one_removed() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let entry = bench.put("ann", create("/f"), 10);
    let slice = content(&entry).slice;
    let lost = bench.created("ann", create("/g"));
    bench.write(&lost, 5);
    bench.node_mut("n1").held.get_mut(&slice).unwrap().state = HeldState::Staged;
    bench.restart_master();
    bench.join("n1");
    bench.advance(seconds(1));
    assert_eq!(bench.node("n1").paths(), ["/f"]);
}

#[test]
fn a_slice_under_a_lease_survives_the_return_of_its_node() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 10);
    bench.join("n1");
    bench.advance(seconds(1));
    let number = bench.commit_later("ann", created.lease, 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    assert_eq!(bench.node("n1").paths(), ["/f"]);
}

#[test]
fn bytes_that_a_returning_node_no_longer_has_do_not_count_for_a_commit() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let created = bench.created("ann", create("/f"));
    bench.write(&created, 10);
    bench.node_mut("n1").held.clear();
    bench.join("n1");
    let number = bench.commit_later("ann", created.lease, 10);
    assert_eq!(bench.answer(number), None);
    bench.advance(seconds(61));
    assert!(
        matches!(bench.answer(number), Some(ClientReply::Refused(refusal)) if refusal.status() == Status::Unavailable)
    );
}

#[test]
fn a_copy_that_an_inventory_does_not_name_is_made_again() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    bench.node_mut("n2").held.clear();
    bench.join("n2");
    bench.advance(seconds(2));
    assert_eq!(bench.holders(slice), ["n1", "n2"]);
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn a_node_that_joins_again_ends_its_old_session() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let old = bench.node("n1").session.unwrap();
    bench.join("n1");
    assert!(bench.closed.contains(&old));
    let from = SessionCaller { session: old, request: Some(1) };
    bench.master.handle_message(
        bench.now,
        from,
        MasterMessage::Node(Report::Inventory { slices: Vec::new(), last: true }),
    );
    assert_eq!(bench.master.poll_action(), None);
    assert_eq!(nodes(&mut bench).len(), 1);
}

#[test]
fn orders_to_a_node_are_few_at_a_time_and_all_are_given_in_the_end() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.done("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/d"), parents: false }));
    for index in 0..200 {
        bench.put("ann", create(&format!("/d/{index}")), 1);
    }
    bench.node_mut("n1").answers = false;
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/d"), recursive: true, now: true }));
    assert_eq!(bench.node("n1").unanswered.len(), 64);
    bench.resume("n1");
    assert!(bench.node("n1").held.is_empty());
}

#[test]
fn an_order_that_is_not_answered_is_given_again() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let slice = content(&bench.put("ann", create("/f"), 1)).slice;
    bench.node_mut("n1").answers = false;
    bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/f"), recursive: false, now: true }));
    let (order, body) = bench.node_mut("n1").unanswered.pop().unwrap();
    assert_eq!(body, Order::Remove(slice));
    bench.node_mut("n1").answers = true;
    let unanswered = MasterCompletion::OrderFinished { order, outcome: OrderOutcome::Unanswered };
    bench.master.handle_completion(bench.now, unanswered);
    bench.advance(seconds(1));
    assert_eq!(bench.holders(slice), ["n1"], "not at once: the node may be in trouble");
    bench.advance(seconds(3));
    assert!(bench.holders(slice).is_empty());
}

#[test]
fn a_file_renamed_while_it_is_being_placed_ends_at_its_last_path() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    bench.node_mut("n1").answers = false;
    bench.put("ann", create("/a"), 1);
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/a"), to: path("/b") }));
    bench.done("ann", ClientRequest::Rename(RenameRequest { from: path("/b"), to: path("/c") }));
    assert_eq!(bench.node("n1").unanswered.len(), 1, "one order about one slice at a time");
    bench.resume("n1");
    assert_eq!(bench.node("n1").paths(), ["/c"]);
}

#[test]
fn a_node_whose_bytes_are_not_those_published_has_them_removed_and_replaced() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    bench.node_mut("n2").held.get_mut(&slice).unwrap().metadata.digest = digest(99);
    bench.join("n2");
    bench.advance(seconds(2));
    assert_eq!(bench.node("n2").held[&slice].metadata.digest, digest(10));
    assert_eq!(bench.health(), Health::default());
}
