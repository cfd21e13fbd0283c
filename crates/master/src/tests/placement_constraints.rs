//! Where copies stand: compared with all the places there are, and with what a policy says.

#![allow(clippy::unwrap_used)]

use protocol::message::request::{MakeFolderRequest, NodesRequest, RenameRequest};

use super::*;
use crate::{
    catalog::namespace::Namespace,
    fleet::{
        nodes::NodeKey,
        placement_constraints::{PlacementConstraints, PlacementCost},
    },
    replicas::desired_replication::DesiredReplication,
};

/// Reads a wish out of the first name of a path, so that a test writes it where the file is:
/// `/copies=3,want=a+b,not=c/f`.
pub(super) fn replication_from_path(names: &Namespace, at: &SectorPath) -> Option<DesiredReplication> {
    let first = at.components().next()?;
    let mut desired = DesiredReplication { copies: 2, ..DesiredReplication::default() };
    for word in first.split(',') {
        let list = |text: &str| text.split('+').map(str::to_owned).collect();
        match word.split_once('=').unwrap_or((word, "")) {
            ("copies", number) => desired.copies = number.parse().unwrap(),
            ("want", sites) => desired.sites_wanted = list(sites),
            ("not", sites) => desired.sites_forbidden = list(sites),
            ("together", _) => desired.colocated_folder = names.find(&path(&format!("/{first}"))),
            _ => return None,
        }
    }
    Some(desired)
}

/// The holders of a slice, by the master's numbers.
fn keys(bench: &Bench, slice: SliceId) -> Vec<NodeKey> {
    bench.holders(slice).iter().map(|id| bench.master.fleet.nodes.of_id(&node(id)).unwrap()).collect()
}

/// The least cost of any set of so many nodes.
fn least_cost(bench: &Bench, terms: &PlacementConstraints, count: usize) -> PlacementCost {
    let all: Vec<_> = bench.master.fleet.nodes.iter().map(|(key, _)| key).collect();
    let sets = (0u32..1 << all.len()).filter(|bits| bits.count_ones() as usize == count);
    let chosen = |bits: u32| -> Vec<NodeKey> {
        let of_set = all.iter().enumerate().filter(|(index, _)| bits >> index & 1 == 1);
        of_set.map(|(_, key)| *key).collect()
    };
    sets.map(|bits| terms.cost(&bench.master.fleet.nodes, &chosen(bits))).min().unwrap()
}

pub(super) fn constraints_of(bench: &mut Bench, at: &str) -> PlacementConstraints {
    let file = bench.master.catalog.names().find(&path(at)).unwrap();
    bench.master.constraints(bench.now, file)
}

pub(super) fn parents(at: &str) -> CreateRequest {
    CreateRequest { parents: true, ..create(at) }
}

fn slice_at(bench: &mut Bench, at: &str) -> SliceId {
    content(&bench.stat(at).entry).slice
}

// Promise 14.
#[test]
fn copies_stand_as_well_as_in_the_best_of_all_sets() {
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..20 {
        let mut bench = Bench::new(config(), round);
        bench.master.test_replication = Some(replication_from_path);
        for index in 1..=rng.usize(2..8) {
            let (site, rack) = (rng.choice(["a", "b", "c"]).unwrap(), rng.u32(1..3));
            bench.add_node(&format!("n{index}"), &format!("{site}/{rack}"));
        }
        bench.advance(seconds(61));
        for copies in 1..5 {
            for extra in ["", ",want=a", ",want=b+c", ",not=a", ",want=c,not=b"] {
                let at = format!("/copies={copies}{extra}/f");
                let request = ClientRequest::Create(parents(&at));
                let ClientReply::Created(created) = bench.ask("ann", request) else { continue };
                bench.write(&created, 10);
                bench.commit_later("ann", created.lease, 10);
                bench.advance(seconds(5));
                let slice = slice_at(&mut bench, &at);
                let terms = constraints_of(&mut bench, &at);
                let holders = keys(&bench, slice);
                assert_eq!(holders.len(), terms.copies_possible(&bench.master.fleet.nodes), "round {round}: {at}");
                let (found, least) =
                    (terms.cost(&bench.master.fleet.nodes, &holders), least_cost(&bench, &terms, holders.len()));
                assert_eq!(found, least, "round {round}: {at} at {:?}", bench.holders(slice));
            }
        }
    }
}

#[test]
fn a_set_that_is_trimmed_is_the_best_part_of_what_there_was() {
    let mut rng = fastrand::Rng::with_seed(3);
    for round in 0..200 {
        let mut bench = Bench::new(config(), round);
        for index in 1..=7 {
            bench
                .add_node(&format!("n{index}"), &format!("{}/{}", rng.choice(["a", "b", "c"]).unwrap(), rng.u32(1..3)));
        }
        let nodes = &bench.master.fleet.nodes;
        let terms = PlacementConstraints {
            copies: 3,
            ..PlacementConstraints::new(nodes, &DesiredReplication { copies: 3, ..DesiredReplication::default() })
        };
        let mut holders: Vec<_> = nodes.iter().map(|(key, _)| key).collect();
        let least = least_cost(&bench, &terms, 3);
        while holders.len() > 3 {
            let out = crate::fleet::excess_replica_choice::choose_excess_replica(
                nodes,
                &terms,
                &holders,
                None,
                SliceId(round.into()),
            )
            .unwrap();
            holders.retain(|key| *key != out);
        }
        assert_eq!(terms.cost(nodes, &holders), least, "round {round}");
    }
}

// Promise 14.
#[test]
fn a_wanted_site_gets_a_copy_and_a_forbidden_one_none() {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1", "c/1", "c/2"]);
    bench.master.test_replication = Some(replication_from_path);
    for round in 0..10 {
        let at = format!("/copies=2,want=c,not=b/{round}");
        bench.put("ann", parents(&at), 10);
        let slice = slice_at(&mut bench, &at);
        let holders = bench.holders(slice);
        let sites: BTreeSet<_> = holders.iter().map(|id| bench.node(id).place.site.clone()).collect();
        assert_eq!(sites, BTreeSet::from(["a".into(), "c".into()]), "{holders:?}");
    }
    let both = "/copies=1,want=b+c/f";
    bench.put("ann", parents(both), 10);
    bench.advance(seconds(5));
    assert_eq!(bench.stat(both).copies.len(), 2, "each wanted site has one, also where fewer copies are wished");
}

#[test]
fn a_copy_that_a_new_wish_forbids_is_made_elsewhere_before_it_is_removed() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.master.test_replication = Some(replication_from_path);
    bench.put("ann", parents("/copies=2,want=a+b/f"), 10);
    bench.done("ann", ClientRequest::MakeFolder(MakeFolderRequest { path: path("/copies=2,not=b"), parents: false }));
    let slice = slice_at(&mut bench, "/copies=2,want=a+b/f");
    assert_eq!(bench.holders(slice), ["n1", "n2"]);
    bench.node_mut("n3").answers = false;
    let rename =
        ClientRequest::Rename(RenameRequest { from: path("/copies=2,want=a+b/f"), to: path("/copies=2,not=b/f") });
    bench.done("ann", rename);
    bench.advance(seconds(1));
    assert_eq!(bench.holders(slice), ["n1", "n2"], "the new copy is not there yet");
    assert_eq!(bench.health().misplaced, 1);
    bench.node_mut("n3").answers = true;
    bench.resume("n3");
    bench.advance(seconds(5));
    assert_eq!(bench.holders(slice), ["n1", "n3"]);
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn copies_that_are_all_at_one_site_move_apart_when_another_site_comes() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "a/1"]);
    let entries: Vec<_> = (0..5).map(|index| bench.put("ann", create(&format!("/{index}")), 10)).collect();
    assert_eq!(bench.health(), Health::default(), "as far apart as can be");
    bench.add_node("n4", "a/2");
    bench.advance(seconds(5));
    for entry in &entries {
        let holders = bench.holders(content(entry).slice);
        assert!(holders.len() == 2 && holders.contains(&"n4".into()), "{holders:?}");
    }
    bench.add_node("n5", "b/1");
    bench.advance(seconds(5));
    for entry in &entries {
        let holders = bench.holders(content(entry).slice);
        assert!(holders.len() == 2 && holders.contains(&"n5".into()), "{holders:?}");
    }
    // A further site takes nothing: no single site holds all of any file.
    bench.add_node("n6", "c/1");
    bench.advance(seconds(5));
    assert!(bench.node("n6").held.is_empty());
    assert_eq!(bench.health(), Health::default());
}

#[test]
fn what_lacks_copies_comes_before_what_stands_wrong() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1"]);
    let misplaced: Vec<_> =
        (0..6).map(|index| content(&bench.put("ann", create(&format!("/m{index}")), 1)).slice).collect();
    let missing: Vec<_> = (0..6)
        .map(|index| {
            content(&bench.put("ann", CreateRequest { copies: Some(3), ..create(&format!("/u{index}")) }, 1)).slice
        })
        .collect();
    bench.add_idle_node("n3", "b/1");
    bench.advance(seconds(1));
    let asked: Vec<_> = bench.node("n3").orders.iter().filter_map(replicated).collect();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|slice| missing.contains(slice)), "{asked:?}");
    bench.resume("n3");
    bench.advance(seconds(5));
    assert!(misplaced.iter().all(|slice| bench.holders(*slice).contains(&"n3".into())));
}

pub(super) fn replicated(order: &Order) -> Option<SliceId> {
    match order {
        Order::Replicate { header, .. } => Some(header.slice),
        _ => None,
    }
}

#[test]
fn nodes_of_unlike_size_fill_at_the_same_pace() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "a/1", "a/1"]);
    for (id, size) in [("n1", 1_000_000), ("n2", 1_000_000), ("n3", 2_000_000), ("n4", 4_000_000)] {
        bench.node_mut(id).capacity_bytes = size;
    }
    bench.advance(seconds(2));
    for index in 0..400 {
        let request = CreateRequest { copies: Some(1), bytes_expected: Some(8_000), ..create(&format!("/{index}")) };
        bench.put("ann", request, 8_000);
    }
    bench.advance(seconds(2));
    for id in ["n1", "n2", "n3", "n4"] {
        let fake = bench.node(id);
        let used: u64 = fake.held.values().map(|held| held.metadata.bytes).sum();
        let percent = used * 100 / fake.capacity_bytes;
        assert!((38..=42).contains(&percent), "{id} is {percent} % full");
    }
}

#[test]
fn among_many_nodes_a_few_are_drawn_and_the_others_are_found_when_those_are_full() {
    let mut bench = Bench::new(config(), 1);
    for index in 1..=100 {
        bench.add_node(&format!("n{index}"), "a/1");
        bench.node_mut(&format!("n{index}")).free_bytes = if index == 77 { 1_000_000 } else { 10 };
    }
    bench.advance(seconds(61));
    let request = CreateRequest { copies: Some(1), ..create("/f") };
    assert_eq!(bench.created("ann", request).target.node, node("n77"));
}

#[test]
fn a_node_below_its_reserve_gets_nothing_and_health_says_so() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.node_mut("n2").free_bytes = 999;
    bench.advance(seconds(2));
    for index in 0..10 {
        bench.put("ann", CreateRequest { bytes_expected: None, ..create(&format!("/{index}")) }, 1);
    }
    assert!(bench.node("n2").held.is_empty());
    let reasons = bench.health().reasons;
    assert!(
        reasons.len() == 1 && reasons[0].contains("node n2 is full: less than the reserve of 1000 B is"),
        "{reasons:?}"
    );
    let ClientReply::Nodes(nodes) = bench.ask("ann", ClientRequest::Nodes(NodesRequest)) else { panic!() };
    assert_eq!(nodes.iter().map(|node| node.is_full).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(nodes[1].reserve_bytes, 1_000);
}
