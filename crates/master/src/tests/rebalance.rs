//! Moving slices from fuller to emptier nodes.

#![allow(clippy::unwrap_used)]

use protocol::{
    Topology,
    message::{
        cluster::{RebalanceStatus, RebalanceVerb},
        request::MakeFolderRequest,
    },
    topology::{Link, SitePair},
};

use super::{
    placement_constraints::{parents, replicated, replication_from_path},
    *,
};

fn rebalance(bench: &mut Bench, verb: RebalanceVerb) -> RebalanceStatus {
    match bench.ask("admin", ClientRequest::Rebalance(verb)) {
        ClientReply::Rebalance(status) => status,
        other => panic!("{other:?}"),
    }
}

fn used(bench: &Bench, id: &str) -> u64 {
    bench.node(id).held.values().map(|held| held.metadata.bytes).sum()
}

fn percent(bench: &Bench, id: &str) -> u64 {
    used(bench, id) * 100 / bench.node(id).capacity_bytes
}

/// Three nodes with 60 files of two copies, and a fourth, larger one that came later.
fn uneven() -> (Bench, Vec<SliceId>) {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.master.test_replication = Some(replication_from_path);
    for id in ["n1", "n2", "n3"] {
        bench.node_mut(id).capacity_bytes = 1_000_000;
    }
    bench.advance(seconds(2));
    let put = |bench: &mut Bench, index: u64| content(&bench.put("ann", create(&format!("/{index}")), 10_000)).slice;
    let slices = (0..60).map(|index| put(&mut bench, index)).collect();
    bench.add_node("n4", "d/1");
    bench.node_mut("n4").capacity_bytes = 2_000_000;
    bench.advance(seconds(5));
    (bench, slices)
}

#[test]
fn nodes_of_unlike_size_become_equally_full_and_no_file_has_fewer_copies() {
    let (mut bench, slices) = uneven();
    assert!(bench.node("n4").held.is_empty(), "nothing moves by itself");
    let plan = rebalance(&mut bench, RebalanceVerb::Plan);
    assert!(!plan.running && plan.plan.bytes == 480_000, "{plan:?}");
    assert!(plan.plan.moves.iter().all(|to| to.to == node("n4")));
    rebalance(&mut bench, RebalanceVerb::Begin);
    bench.advance(seconds(120));
    let status = rebalance(&mut bench, RebalanceVerb::Status);
    assert!(!status.running, "{status:?}");
    for id in ["n1", "n2", "n3", "n4"] {
        assert!((21..=27).contains(&percent(&bench, id)), "{id}: {} %", percent(&bench, id));
    }
    assert!(status.fill_most_permille - status.fill_least_permille <= 30, "{status:?}");
    assert!(status.moved_bytes <= 560_000 && status.moved_bytes == status.moved_files * 10_000, "{status:?}");
    assert!(slices.iter().all(|slice| bench.holders(*slice).len() == 2));
    assert_eq!(bench.health(), Health::default());
    assert_eq!(rebalance(&mut bench, RebalanceVerb::Plan).plan.files, 0);
}

#[test]
fn it_begins_nothing_while_a_file_lacks_a_copy() {
    let (mut bench, _) = uneven();
    let once = |at: &str| CreateRequest { copies: Some(2), sync_copies: Some(1), at: Some(node("n1")), ..create(at) };
    bench.nodes.values_mut().for_each(|fake| (fake.answers, fake.fails_copies) = (false, true));
    // So many that some still wait, wherever the first ones go.
    for index in 0..40 {
        bench.put("ann", once(&format!("/x{index}")), 10);
    }
    bench.nodes.values_mut().for_each(|fake| fake.orders.clear());
    rebalance(&mut bench, RebalanceVerb::Begin);
    let urgent = CreateRequest { copies: Some(2), sync_copies: Some(1), at: Some(node("n2")), ..create("/y") };
    for id in ["n1", "n2", "n3", "n4"] {
        bench.node_mut(id).answers = true;
    }
    let lacking = content(&bench.put("ann", urgent, 10)).slice;
    bench.advance(Duration::from_millis(400));
    let first = bench.nodes.values().flat_map(|fake| fake.orders.iter().filter_map(replicated)).next();
    assert!(first.is_some_and(|first| first == lacking || bench.holders(first).len() < 2), "{first:?}");
}

#[test]
fn it_makes_no_spread_worse() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    for id in ["n1", "n2"] {
        bench.node_mut(id).capacity_bytes = 1_000_000;
    }
    bench.advance(seconds(2));
    for index in 0..50 {
        bench.put("ann", create(&format!("/{index}")), 10_000);
    }
    // Its emptiness does not help the node of the other site: each file must keep a copy there.
    bench.add_node("n3", "b/1");
    bench.node_mut("n3").capacity_bytes = 1_000_000;
    bench.advance(seconds(2));
    rebalance(&mut bench, RebalanceVerb::Begin);
    bench.advance(seconds(120));
    assert_eq!(percent(&bench, "n1"), 50);
    assert!(percent(&bench, "n2").abs_diff(percent(&bench, "n3")) <= 3);
    assert!(!rebalance(&mut bench, RebalanceVerb::Status).running, "what is left uneven cannot be helped");
}

#[test]
fn it_keeps_to_the_limits_of_links_and_leaves_folders_together() {
    let (mut bench, _) = uneven();
    let mut topology = Topology::default();
    for site in ["a", "b", "c"] {
        let link = Link { distance_millis: None, limit_bytes_per_second: Some(1_000_000) };
        topology.set_link(SitePair::new("d", site), link).unwrap();
    }
    bench
        .done("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/copies=2,together"), parents: false }));
    bench.node_mut("n4").free_bytes = 0;
    bench.node_mut("n4").capacity_bytes = 0;
    bench.advance(seconds(2));
    let put = |bench: &mut Bench, index: u64| {
        content(&bench.put("ann", parents(&format!("/copies=2,together/{index}")), 10_000)).slice
    };
    let kept: Vec<_> = (0..10).map(|index| put(&mut bench, index)).collect();
    let homes: Vec<_> = kept.iter().map(|slice| bench.holders(*slice)).collect();
    bench.node_mut("n4").capacity_bytes = 2_000_000;
    bench.master.set_topology(bench.now, None, topology);
    bench.advance(seconds(40));
    rebalance(&mut bench, RebalanceVerb::Begin);
    bench.advance(seconds(120));
    assert_eq!(kept.iter().map(|slice| bench.holders(*slice)).collect::<Vec<_>>(), homes);
    let rated = |order: &Order| match order {
        Order::Replicate { qos: pace, .. } => Some(pace.rate_bytes_per_second),
        _ => None,
    };
    let rates: Vec<_> = bench.node("n4").orders.iter().filter_map(rated).collect();
    assert!(rates.len() > 20 && rates.iter().all(Option::is_some), "{rates:?}");
}

#[test]
fn it_can_be_stopped_and_only_by_administrators() {
    let (mut bench, _) = uneven();
    assert_eq!(bench.status_of("ann", ClientRequest::Rebalance(RebalanceVerb::Begin)), Status::Refused);
    bench.node_mut("n4").answers = false;
    rebalance(&mut bench, RebalanceVerb::Begin);
    bench.advance(seconds(2));
    assert!(rebalance(&mut bench, RebalanceVerb::Status).running);
    assert!(!rebalance(&mut bench, RebalanceVerb::Stop).running);
    bench.resume("n4");
    bench.advance(seconds(20));
    assert!(bench.node("n4").held.len() <= 2, "only what was on its way");
    assert_eq!(bench.health(), Health::default());
}
