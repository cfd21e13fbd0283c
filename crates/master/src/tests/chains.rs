//! Upload to several nodes, from one to the other: the chosen nodes, those that are waited for, and the effects when
//! the chain breaks.

#![allow(clippy::unwrap_used)]

use protocol::message::request::AbandonRequest;

use super::*;

fn replicate_orders(bench: &Bench) -> usize {
    let is_copy = |order: &&Order| matches!(order, Order::Replicate { .. });
    bench.nodes.values().map(|fake| fake.orders.iter().filter(is_copy).count()).sum()
}

/// Three synced copies of `/f` on four nodes of three sites.
fn three_of_four() -> (Bench, Created) {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1", "c/1"]);
    let request = CreateRequest { copies: Some(3), sync_copies: Some(3), ..create("/f") };
    let created = bench.created("ann", request);
    (bench, created)
}

fn store_at(bench: &mut Bench, source: &Source, bytes: u64) {
    bench.store(source.node.as_str(), write_header(source), bytes);
}

#[test]
fn a_chain_spans_sites_with_a_ticket_for_each_node_and_makes_no_copy_twice() {
    let (mut bench, created) = three_of_four();
    let nodes: Vec<_> = std::iter::once(&created.target).chain(&created.chain).collect();
    let sites: BTreeSet<_> = nodes.iter().map(|source| source.place.site.clone()).collect();
    assert_eq!((nodes.len(), sites.len()), (3, 3));
    for source in &nodes {
        let ticket = read_ticket(&source.ticket);
        assert_eq!(ticket.node, source.node);
        assert_eq!(write_header(source).slice, created.slice);
    }
    bench.write_to_target(&created, 10);
    let number = bench.commit_later("ann", created.lease, 10);
    store_at(&mut bench, &created.chain[1], 10);
    assert_eq!(bench.answer(number), None, "two of three");
    store_at(&mut bench, &created.chain[0], 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    bench.advance(seconds(120));
    assert_eq!(replicate_orders(&bench), 0);
    assert_eq!(bench.holders(created.slice).len(), 3);
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn a_chain_has_no_more_nodes_than_are_up_and_none_without_room() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.node_mut("n2").free_bytes = 1_050;
    bench.advance(seconds(1));
    let request = CreateRequest { copies: Some(3), sync_copies: Some(3), ..create("/f") };
    let created = bench.created("ann", request.clone());
    assert_eq!(created.chain.len(), 1);
    assert!(created.target.node != node("n2") && created.chain[0].node != node("n2"));
    let one = bench.created("ann", CreateRequest { sync_copies: Some(1), ..create("/g") });
    assert!(one.chain.is_empty());
    // What is published from where it was made has no frames to pass on.
    let made = bench.created("ann", CreateRequest { at: Some(node("n1")), ..create("/h") });
    assert!(made.chain.is_empty());
}

#[test]
fn what_was_promised_to_the_nodes_of_a_chain_is_given_back() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let large = CreateRequest { bytes_expected: Some(900_000), ..create("/f") };
    let created = bench.created("ann", large.clone());
    assert_eq!(created.chain.len(), 1);
    let other = CreateRequest { path: path("/g"), ..large.clone() };
    assert_eq!(bench.status_of("ann", ClientRequest::Create(other.clone())), Status::Unavailable, "both are promised");
    bench.done("ann", ClientRequest::Abandon(AbandonRequest(created.lease)));
    let created = bench.created("ann", other);
    assert_eq!(created.chain.len(), 1, "both have room again");
    bench.write(&created, 10);
    bench.commit_later("ann", created.lease, 10);
    assert_eq!(bench.created("ann", large).chain.len(), 1);
}

// Promise 1.
#[test]
fn where_the_chain_breaks_the_copy_is_made_elsewhere_at_once() {
    let (mut bench, created) = three_of_four();
    let lost = created.chain[1].node.clone();
    bench.report(created.chain[0].node.as_str(), Report::ForwardFailed { slice: created.slice, node: lost.clone() });
    assert_eq!(replicate_orders(&bench), 0, "there is nothing to copy yet");
    bench.write_to_target(&created, 10);
    assert_eq!(replicate_orders(&bench), 1, "for the one that failed, and not for the one that is on its way");
    store_at(&mut bench, &created.chain[0], 10);
    let number = bench.commit_later("ann", created.lease, 10);
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    let holders = bench.holders(created.slice);
    assert!(holders.len() == 3 && !holders.contains(&lost.to_string()), "{holders:?} without {lost}");
    // Said again, or of what is no write any more, it means nothing.
    bench.report(created.chain[0].node.as_str(), Report::ForwardFailed { slice: created.slice, node: lost });
    bench.report("n1", Report::ForwardFailed { slice: SliceId(99), node: node("nobody") });
    bench.advance(seconds(60));
    assert_eq!(replicate_orders(&bench), 1);
}

#[test]
fn a_node_of_a_chain_that_is_lost_is_replaced() {
    let (mut bench, created) = three_of_four();
    bench.write_to_target(&created, 10);
    store_at(&mut bench, &created.chain[1], 10);
    let number = bench.commit_later("ann", created.lease, 10);
    bench.crash(created.chain[0].node.as_str());
    assert_eq!(bench.answer(number), None);
    bench.advance(seconds(12));
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    assert_eq!(replicate_orders(&bench), 1);
}

// Promise 1.
#[test]
fn a_node_of_a_chain_that_stays_silent_is_not_waited_for_long() {
    let (mut bench, created) = three_of_four();
    bench.write_to_target(&created, 10);
    store_at(&mut bench, &created.chain[1], 10);
    let number = bench.commit_later("ann", created.lease, 10);
    bench.advance(seconds(9));
    assert_eq!((bench.answer(number), replicate_orders(&bench)), (None, 0));
    bench.advance(seconds(2));
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    assert_eq!(bench.holders(created.slice).len(), 3);
    // It had the bytes after all, and one is too many.
    store_at(&mut bench, &created.chain[0], 10);
    bench.advance(seconds(5));
    assert_eq!(bench.holders(created.slice).len(), 3);
}

#[test]
fn a_target_that_dies_after_the_chain_has_the_bytes_is_not_needed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let created = bench.created("ann", create("/f"));
    store_at(&mut bench, &created.chain[0], 10);
    bench.crash(created.target.node.as_str());
    let number = bench.commit_later("ann", created.lease, 10);
    bench.advance(seconds(12));
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    assert_eq!(bench.holders(created.slice).len(), 2);
}
