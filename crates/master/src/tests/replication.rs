//! Copies: where they go, when they are made, what happens when that fails.

#![allow(clippy::unwrap_used)]

use super::*;
use protocol::message::client_master::CopyState;

fn replicate_orders(bench: &Bench, id: &str) -> usize {
    bench.node(id).orders.iter().filter(|order| matches!(order, Order::Replicate { .. })).count()
}

fn slice_of(order: &Order) -> SliceId {
    match order {
        Order::Replicate { header, .. } => header.slice,
        other => panic!("{other:?}"),
    }
}

fn three_copies(at: &str) -> CreateRequest {
    CreateRequest { copies: Some(3), ..create(at) }
}

#[test]
fn copies_go_to_another_site_first_then_to_another_rack() {
    for seed in 0..8 {
        let mut bench = Bench::new(config(), seed);
        for (id, place) in [("n1", "a/1"), ("n2", "a/1"), ("n3", "a/2"), ("n4", "b/1"), ("n5", "b/1")] {
            bench.add_node(id, place);
        }
        bench.advance(seconds(61));
        let two = content(&bench.put("ann", CreateRequest { at: Some(node("n1")), ..create("/two") }, 1)).slice;
        let holders = bench.holders(two);
        assert!(holders == ["n1", "n4"] || holders == ["n1", "n5"], "{holders:?}");
        let three = CreateRequest { at: Some(node("n1")), ..three_copies("/three") };
        let three = content(&bench.put("ann", three, 1)).slice;
        let holders = bench.holders(three);
        assert!(holders == ["n1", "n3", "n4"] || holders == ["n1", "n3", "n5"], "{holders:?}");
    }
}

// Promise 14.
#[test]
fn copies_of_a_lost_node_are_made_anew_only_after_a_while() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let entry = bench.put("ann", create("/f"), 10);
    let slice = content(&entry).slice;
    let holders = bench.holders(slice);
    bench.crash(&holders[0]);
    bench.advance(seconds(40));
    assert_eq!(bench.holders(slice), holders, "it may only be restarting");
    assert_eq!(bench.health().under_replicated, 1);
    bench.advance(seconds(40));
    assert_eq!(bench.holders(slice).len(), 3);
    assert_eq!(bench.health().under_replicated, 0);
}

#[test]
fn a_copy_on_its_way_to_a_node_that_is_lost_is_made_after_all() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.advance(seconds(61));
    bench.node_mut("n2").answers = false;
    let request = CreateRequest { at: Some(node("n1")), copies: Some(2), sync_copies: Some(1), ..create("/f") };
    let slice = content(&bench.put("ann", request, 10)).slice;
    assert_eq!(replicate_orders(&bench, "n2"), 1);
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.node_mut("n2").answers = true;
    bench.join("n2");
    bench.advance(seconds(5));
    assert_eq!(bench.holders(slice), ["n1", "n2"]);
}

#[test]
fn of_two_slices_for_one_path_the_second_is_ordered_there_when_the_first_stands() {
    let mut bench = Bench::without_versions(&["a/1"]);
    bench.node_mut("n1").answers = false;
    let first = content(&bench.put("ann", create("/f"), 10)).slice;
    let second = content(&bench.put("ann", create("/f"), 20)).slice;
    let placed = |bench: &Bench| -> Vec<SliceId> {
        let place = |order: &Order| match order {
            Order::Place { header } => Some(header.slice),
            _ => None,
        };
        bench.node("n1").orders.iter().filter_map(place).collect()
    };
    assert_eq!(placed(&bench), [first]);
    bench.resume("n1");
    assert_eq!(placed(&bench), [first, second]);
    assert_eq!(bench.holders(first), Vec::<String>::new());
}

#[test]
fn a_node_that_returns_in_time_costs_no_copy() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    let holders = bench.holders(slice);
    let copies_before: usize = ["n1", "n2", "n3"].iter().map(|id| replicate_orders(&bench, id)).sum();
    bench.crash(&holders[0]);
    bench.advance(seconds(40));
    bench.join(&holders[0]);
    bench.advance(seconds(100));
    assert_eq!(bench.holders(slice), holders);
    assert_eq!(["n1", "n2", "n3"].iter().map(|id| replicate_orders(&bench, id)).sum::<usize>(), copies_before);
}

// Promise 14.
#[test]
fn a_copy_too_many_is_removed_when_its_node_comes_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    let lost = bench.holders(slice)[0].clone();
    bench.crash(&lost);
    bench.advance(seconds(80));
    assert_eq!(bench.holders(slice).len(), 3);
    bench.join(&lost);
    bench.advance(seconds(5));
    assert_eq!(bench.holders(slice).len(), 2);
    assert_eq!(bench.stat("/f").copies.len(), 2);
}

#[test]
fn the_copy_that_is_nearest_to_another_is_the_one_too_many() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "b/1"]);
    let slice = content(&bench.put("ann", CreateRequest { at: Some(node("n1")), ..create("/f") }, 10)).slice;
    assert_eq!(bench.holders(slice), ["n1", "n3"]);
    bench.crash("n3");
    bench.advance(seconds(80));
    assert_eq!(bench.holders(slice), ["n1", "n2", "n3"]);
    bench.join("n3");
    bench.advance(seconds(5));
    let holders = bench.holders(slice);
    assert!(holders.contains(&"n3".into()), "the only copy in its site stays: {holders:?}");
}

#[test]
fn a_corrupt_copy_is_not_offered_and_is_replaced_from_a_good_one() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    bench.node_mut("n1").fails_copies = true;
    bench.node_mut("n1").held.remove(&slice);
    bench.report("n1", Report::Corrupt(slice));
    let sources: Vec<_> = bench.locate("ann", "/f").sources.into_iter().map(|source| source.node).collect();
    assert_eq!(sources, [node("n2")]);
    let copies = bench.stat("/f").copies;
    assert!(copies.iter().any(|copy| copy.node == node("n1") && copy.state == CopyState::Corrupt), "{copies:?}");
    assert_eq!(bench.health().corrupt, 1);

    bench.node_mut("n1").fails_copies = false;
    bench.advance(seconds(5));
    assert_eq!(bench.holders(slice), ["n1", "n2"]);
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn a_copy_that_fails_is_tried_at_another_node() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "b/2"]);
    bench.node_mut("n2").fails_copies = true;
    // Without the failing node's fullness, it would be a matter of luck which of the two is asked first.
    bench.put("ann", CreateRequest { at: Some(node("n3")), copies: Some(1), ..create("/ballast") }, 500);
    let request = CreateRequest { at: Some(node("n1")), ..create("/f") };
    let created = bench.created("ann", request);
    bench.write(&created, 10);
    assert_eq!((bench.holders(created.slice), replicate_orders(&bench, "n2")), (vec!["n1".into()], 1));
    bench.advance(seconds(2));
    assert_eq!(bench.holders(created.slice), ["n1", "n3"]);
    let number = bench.commit_later("ann", created.lease, 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
}

#[test]
fn copies_that_never_end_are_given_up() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    bench.add_idle_node("n2", "b/1");
    bench.add_idle_node("n3", "b/2");
    bench.advance(seconds(1));
    let asked = if bench.node("n2").unanswered.is_empty() { "n3" } else { "n2" };
    let other = if asked == "n2" { "n3" } else { "n2" };
    bench.node_mut(other).answers = true;
    bench.advance(seconds(50));
    assert_eq!(bench.holders(slice), ["n1"]);
    bench.advance(seconds(20));
    assert_eq!(bench.holders(slice), ["n1", other]);
}

#[test]
fn the_files_with_fewest_copies_come_first() {
    let mut bench = Bench::configured(MasterConfig { sync_copies: 1, ..config() }, &["a/1", "b/1"]);
    for index in 0..20 {
        let twice = content(&bench.put("ann", three_copies(&format!("/twice{index}")), 1)).slice;
        assert_eq!(bench.holders(twice).len(), 2);
    }
    bench.node_mut("n2").free_bytes = 0;
    bench.advance(seconds(1));
    let once: Vec<_> = (0..3).map(|index| bench.put("ann", three_copies(&format!("/once{index}")), 1)).collect();
    bench.add_idle_node("n3", "c/1");
    let copies = bench.node("n3").orders.iter().filter(|order| matches!(order, Order::Replicate { .. }));
    let asked: Vec<_> = copies.take(3).map(slice_of).collect();
    for entry in &once {
        assert!(asked.contains(&content(entry).slice), "{asked:?}");
    }
}

#[test]
fn a_new_node_gets_the_copies_for_which_there_was_no_node() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let put = |bench: &mut Bench, index| content(&bench.put("ann", create(&format!("/f{index}")), 1)).slice;
    let slices: Vec<_> = (0..10).map(|index| put(&mut bench, index)).collect();
    bench.advance(seconds(100));
    let health = bench.health();
    assert_eq!((health.short_of_nodes, health.under_replicated), (10, 0), "nothing can be copied yet");
    assert!(health.reasons.iter().any(|reason| reason.contains("want more copies than there are nodes")));
    bench.add_node("n2", "b/1");
    bench.advance(seconds(5));
    assert!(slices.iter().all(|slice| bench.holders(*slice).len() == 2));
    assert_eq!(replicate_orders(&bench, "n2"), 10);
}

#[test]
fn a_node_fetches_few_copies_at_a_time() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for index in 0..10 {
        bench.put("ann", create(&format!("/f{index}")), 1);
    }
    bench.add_idle_node("n2", "b/1");
    bench.advance(seconds(1));
    assert_eq!(replicate_orders(&bench, "n2"), 4);
    bench.resume("n2");
    assert_eq!(bench.node("n2").held.len(), 10);
}

#[test]
fn a_file_without_any_copy_is_counted_as_lost_until_its_node_comes_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", CreateRequest { copies: Some(1), at: Some(node("n1")), ..create("/f") }, 10);
    bench.crash("n1");
    bench.advance(seconds(200));
    let health = bench.health();
    assert_eq!((health.lost, health.under_replicated), (1, 1));
    assert!(bench.locate("ann", "/f").sources.is_empty());
    bench.join("n1");
    bench.advance(seconds(1));
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn a_copy_too_many_is_kept_after_all_when_another_is_lost_meanwhile() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let slice = content(&bench.put("ann", create("/f"), 10)).slice;
    let back = bench.holders(slice)[0].clone();
    bench.crash(&back);
    bench.advance(seconds(80));
    assert_eq!(bench.holders(slice).len(), 3);
    bench.nodes.values_mut().for_each(|fake| fake.answers = false);
    bench.join(&back);
    bench.advance(seconds(1));
    let is_removal = |(_, order): &(OrderId, Order)| *order == Order::Remove(slice);
    let told: Vec<_> = bench.nodes.iter().filter(|(_, fake)| fake.unanswered.iter().any(is_removal)).collect();
    let (leaving, order) = (told[0].0.to_string(), told[0].1.unanswered[0].0);
    assert_eq!(told.len(), 1);
    let other = ["n1", "n2", "n3"].into_iter().find(|id| *id != leaving).unwrap();
    bench.crash(other);
    bench.advance(seconds(12));
    bench.nodes.values_mut().for_each(|fake| fake.answers = true);
    let unanswered = MasterCompletion::OrderFinished { order, outcome: OrderOutcome::Unanswered };
    bench.master.handle_completion(bench.now, unanswered);
    bench.advance(seconds(5));
    assert_eq!(bench.holders(slice).len(), 3);
    assert_eq!(bench.node(&leaving).paths(), ["/f"]);
}

// Promise 14.
#[test]
fn a_copy_that_broke_off_is_ordered_again_where_its_part_is() {
    for seed in 0..8 {
        let mut bench = Bench::new(config(), seed);
        let targets = ["n2", "n3", "n4", "n5", "n6"];
        bench.add_node("n1", "a/1");
        for id in targets {
            bench.add_node(id, "b/1");
            bench.node_mut(id).fails_copies = true;
            bench.node_mut(id).keeps_bytes = 1 << 20;
        }
        bench.advance(seconds(61));
        let request = CreateRequest { at: Some(node("n1")), copies: Some(2), sync_copies: Some(1), ..create("/f") };
        let slice = content(&bench.put("ann", request, 10)).slice;
        bench.advance(seconds(20));
        let tried: Vec<_> = targets.into_iter().filter(|id| replicate_orders(&bench, id) > 0).collect();
        assert!(tried.len() == 1 && replicate_orders(&bench, tried[0]) > 1, "{tried:?}");
        bench.node_mut(tried[0]).fails_copies = false;
        bench.advance(seconds(60));
        assert_eq!(bench.holders(slice), ["n1", tried[0]]);
    }
}
