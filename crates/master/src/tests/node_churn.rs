//! Nodes come, go, are drained, removed and moved to other sites, from a seed. Meanwhile files are written and the
//! master dies now and then. No copy is ever removed that the desired replication still needs ([`Bench`] checks every
//! removal). When all is quiet, every file stands as well as the remaining nodes allow.

#![allow(clippy::unwrap_used)]

use protocol::{
    Topology,
    message::cluster::{DrainRequest, Membership, RebalanceVerb, RemoveNodeRequest},
};

use super::{
    placement_constraints::{constraints_of, parents, replication_from_path},
    *,
};

const SITES: [&str; 3] = ["a", "b", "c"];
const POLICIES: [&str; 6] =
    ["copies=2", "copies=3", "copies=2,want=a", "copies=2,not=b", "copies=3,want=b+c", "copies=2,together"];

fn run(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let config = MasterConfig { replicate_after: seconds(15), ..config() };
    let mut bench = Bench::new(config, seed);
    bench.master.test_replication = Some(replication_from_path);
    for index in 1..=7 {
        bench.add_node(&format!("n{index}"), &format!("{}/{}", SITES[index % 3], index % 2));
    }
    bench.advance(seconds(20));
    let mut files = Vec::new();
    for step in 0..120 {
        match rng.u32(..100) {
            0..40 => write(&mut bench, &mut rng, &mut files, step),
            40..70 => trouble(&mut bench, &mut rng),
            _ => bench.advance(Duration::from_millis(rng.u64(..10_000))),
        }
    }
    heal(&mut bench);
    check(&mut bench, &files, seed);
}

fn write(bench: &mut Bench, rng: &mut fastrand::Rng, files: &mut Vec<String>, step: u64) {
    let at = format!("/{}/{step}", rng.choice(POLICIES).unwrap());
    let ClientReply::Created(created) = bench.ask("ann", ClientRequest::Create(parents(&at))) else { return };
    if bench.nodes[&created.target.node].session.is_some() {
        bench.write(&created, step + 1);
        let number = bench.commit_later("ann", created.lease, step + 1);
        bench.advance(seconds(1));
        if matches!(bench.answer(number), Some(ClientReply::Entry(_))) {
            files.push(at);
        }
    }
}

fn trouble(bench: &mut Bench, rng: &mut fastrand::Rng) {
    let id = format!("n{}", rng.u32(1..8));
    let is_up = bench.node(&id).session.is_some();
    let drain = |undo| ClientRequest::Drain(DrainRequest { node: node(&id), dry_run: false, undo });
    match rng.u32(..10) {
        // One at a time, so that no file loses all its copies at once.
        0 | 1 if bench.nodes.values().all(|fake| fake.session.is_some()) => bench.crash(&id),
        2 | 3 if !is_up => bench.join(&id),
        4 => drop(bench.ask("admin", drain(false))),
        5 => drop(bench.ask("admin", drain(true))),
        6 => {
            let request = RemoveNodeRequest { node: node(&id), force: false, dry_run: false, undo: false };
            if matches!(bench.ask("admin", ClientRequest::RemoveNode(request.clone())), ClientReply::Removal(_)) {
                bench.node_mut(&id).session = None;
                bench.ask("admin", ClientRequest::RemoveNode(RemoveNodeRequest { undo: true, ..request }));
            }
        }
        7 => drop(bench.ask("admin", ClientRequest::Rebalance(RebalanceVerb::Begin))),
        8 => {
            let mut topology = Topology::default();
            let place = format!("{}/{}", rng.choice(SITES).unwrap(), rng.u32(..2));
            topology.set_node(node(&id), place.parse().unwrap()).unwrap();
            bench.master.set_topology(bench.now, None, topology);
            bench.run();
        }
        9 => restart_master(bench),
        _ => bench.node_mut(&id).fails_copies = rng.bool(),
    }
}

/// The master dies; the nodes that it had join the next one.
fn restart_master(bench: &mut Bench) {
    let up = |(_, fake): &(&NodeId, &FakeNode)| fake.session.is_some();
    let ids: Vec<_> = bench.nodes.iter().filter(up).map(|(id, _)| id.to_string()).collect();
    bench.restart_master();
    bench.master.test_replication = Some(replication_from_path);
    ids.iter().for_each(|id| bench.join(id));
}

fn heal(bench: &mut Bench) {
    for index in 1..=7 {
        let id = format!("n{index}");
        bench.node_mut(&id).fails_copies = false;
        if bench.node(&id).session.is_none() {
            bench.join(&id);
        }
    }
    bench.advance(seconds(400));
}

fn check(bench: &mut Bench, files: &[String], seed: u64) {
    for at in files {
        let slice = content(&bench.stat(at).entry).slice;
        let holders = bench.holders(slice);
        let terms = constraints_of(bench, at);
        let nodes = &bench.master.fleet.nodes;
        let keys: Vec<_> = holders.iter().map(|id| nodes.of_id(&node(id)).unwrap()).collect();
        assert!(keys.len() >= terms.copies_possible(nodes), "seed {seed}: {at} is at {holders:?}");
        assert!(keys.len() <= terms.copies_to_keep(nodes), "seed {seed}: {at} is at {holders:?}");
        assert_eq!(terms.violation(nodes, &keys), None, "seed {seed}: {at} is at {holders:?}");
    }
    for (_, node) in bench.master.fleet.nodes.iter() {
        assert_eq!(node.promised_bytes, 0, "seed {seed}: {}", node.id);
        assert_eq!((node.incoming, node.outgoing), (0, 0), "seed {seed}: {}", node.id);
        let may_stay = node.membership != Membership::Drained || node.slice_count == 0;
        assert!(may_stay, "seed {seed}: {} is drained and holds slices", node.id);
    }
    let health = bench.health();
    assert_eq!((health.under_replicated, health.lost, health.misplaced), (0, 0, 0), "seed {seed}: {health:?}");
}

// Promise 14.
#[test]
fn whatever_nodes_come_and_go_no_wish_is_broken_and_all_are_met_in_the_end() {
    for seed in 0..25 {
        run(seed);
    }
}
