//! Who stands where by the operator's file, and what follows: the nearest copy first, limits of links, reloads.

#![allow(clippy::unwrap_used)]

use protocol::{
    Reason, Topology,
    message::{cluster::TopologyStatus, node_master::LinkUse, request::TopologyRequest},
    topology::{Distance, Link, SitePair},
};

use super::*;

fn link(millis: u32, limit: Option<u64>) -> Link {
    Link { distance_millis: Some(millis), limit_bytes_per_second: limit }
}

fn three_sites() -> Topology {
    let mut topology = Topology::default();
    topology.set_addresses("198.51.100.0/24".parse().unwrap(), "a".parse().unwrap()).unwrap();
    topology.set_link(SitePair::new("a", "b"), link(20, None)).unwrap();
    topology.set_link(SitePair::new("a", "c"), link(90, None)).unwrap();
    topology
}

fn use_topology(bench: &mut Bench, topology: Topology) {
    bench.master.set_topology(bench.now, Some("/etc/sites.toml".into()), topology);
    bench.run();
}

fn sources(bench: &mut Bench, address: &str, at: &str) -> Vec<String> {
    bench.login("cat", address.parse().unwrap());
    bench.locate("cat", at).sources.iter().map(|source| source.node.to_string()).collect()
}

fn status(bench: &mut Bench) -> TopologyStatus {
    match bench.ask("ann", ClientRequest::Topology(TopologyRequest { reload: false })) {
        ClientReply::Topology(status) => status,
        other => panic!("{other:?}"),
    }
}

/// Lets the master hear what came of a reading that someone asked for.
fn answer_reading(bench: &mut Bench, topology: Result<Topology, Refusal>) {
    let to = bench.topology_asked.pop();
    bench.master.handle_completion(bench.now, MasterCompletion::TopologyRead { to, topology });
    bench.run();
}

#[test]
fn the_nearest_copy_comes_first_then_the_least_busy() {
    let mut bench = Bench::with_nodes(&["c/1", "b/1", "a/1", "a/1"]);
    use_topology(&mut bench, three_sites());
    bench.put("ann", CreateRequest { copies: Some(4), ..create("/f") }, 10);
    bench.advance(seconds(5));
    bench.node_mut("n3").transfers = 9;
    bench.advance(seconds(2));
    assert_eq!(sources(&mut bench, "198.51.100.7", "/f"), ["n4", "n3", "n2", "n1"]);
    // Also as it comes on a socket for both kinds of addresses.
    assert_eq!(sources(&mut bench, "::ffff:198.51.100.7", "/f"), ["n4", "n3", "n2", "n1"]);
    assert_eq!(sources(&mut bench, "10.0.0.1", "/f")[0], "n1", "its own machine is nearest");
}

// Promise 51.
#[test]
fn a_source_says_how_far_it_is_from_who_asked_as_far_as_that_is_known() {
    let mut bench = Bench::with_nodes(&["c/1", "a/1", "a/2"]);
    use_topology(&mut bench, three_sites());
    let created = bench.created("ann", CreateRequest { copies: Some(3), sync_copies: Some(3), ..create("/chained") });
    let mut places = vec![created.target.place];
    for next in created.chain {
        let between = places[places.len() - 1].distance(&next.place);
        assert_eq!(next.distance, Some(between), "a node of a chain is reached from the one before it");
        places.push(next.place);
    }
    assert_eq!(places.len(), 3);
    bench.put("ann", CreateRequest { copies: Some(3), ..create("/f") }, 10);
    bench.advance(seconds(5));
    let mut distances = |from: &str| {
        bench.login("cat", from.parse().unwrap());
        let mut sources = bench.locate("cat", "/f").sources;
        sources.sort_by(|a, b| a.node.cmp(&b.node));
        sources.into_iter().map(|source| source.distance).collect::<Vec<_>>()
    };
    let [node, site, other] = [Distance::SameNode, Distance::SameSite, Distance::OtherSite].map(Some);
    assert_eq!(distances("198.51.100.7"), [other, site, site], "by its range of addresses");
    assert_eq!(distances("10.0.0.1"), [node, other, other], "at the site of the node on its machine");
    assert_eq!(distances("203.0.113.9"), [None; 3], "nobody knows where that is");
}

#[test]
fn a_client_that_no_range_names_is_nearest_to_the_nodes_of_its_network() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.put("ann", create("/f"), 10);
    let far = SessionCaller { session: bench.node("n2").session.unwrap(), request: None };
    bench.master.close_session(bench.now, far.session);
    let slices: Vec<_> = bench.node("n2").held.values().cloned().collect();
    let session = SessionId(9_999);
    let join = NodeJoin {
        local: None,
        node: node("n2"),
        place: Place::new("b", "1"),
        transfer: "172.16.0.2:7410".parse().unwrap(),
        spe_slots: 2,
        pid: 1,
        folder: "/data".into(),
        address: "172.16.0.2".parse().unwrap(),
    };
    bench.node_mut("n2").session = Some(session);
    bench.master.open_node_session(bench.now, session, join).unwrap();
    bench.report("n2", Report::Inventory { slices, last: true });
    bench.advance(seconds(1));
    assert_eq!(sources(&mut bench, "172.16.0.99", "/f"), ["n2", "n1"]);
    assert_eq!(sources(&mut bench, "10.0.0.99", "/f"), ["n1", "n2"]);
}

#[test]
fn a_new_topology_moves_copies_that_stand_wrong_by_it() {
    let mut bench = Bench::with_nodes(&["x/1", "x/2", "x/3"]);
    let request = CreateRequest { at: Some(node("n1")), ..create("/f") };
    let slice = content(&bench.put("ann", request, 10)).slice;
    let other = bench.holders(slice)[1].clone();
    let third = if other == "n2" { "n3" } else { "n2" };
    let mut topology = Topology::default();
    for (id, place) in [("n1", "a/1"), (other.as_str(), "a/2"), (third, "b/1")] {
        topology.set_node(node(id), place.parse().unwrap()).unwrap();
    }
    use_topology(&mut bench, topology);
    bench.advance(seconds(5));
    let holders = bench.holders(slice);
    assert!(holders.len() == 2 && holders.contains(&third.to_owned()), "{holders:?}");
    let sites: BTreeSet<_> = bench.stat("/f").copies.into_iter().map(|copy| copy.place.site).collect();
    assert_eq!(sites, BTreeSet::from(["a".into(), "b".into()]));
    assert_eq!(status(&mut bench).places[0].1.to_string(), "a/1");
    // Nodes that join again still stand where the file says.
    bench.join(third);
    bench.advance(seconds(1));
    assert_eq!(bench.stat("/f").copies.iter().filter(|copy| copy.place.site == "b").count(), 1);
}

// Promise 14.
#[test]
fn a_wrong_file_is_refused_and_the_topology_before_it_stays() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    assert_eq!(
        bench.status_of("admin", ClientRequest::Topology(TopologyRequest { reload: true })),
        Status::NotFound,
        "there is none"
    );
    use_topology(&mut bench, three_sites());
    assert_eq!(bench.status_of("ann", ClientRequest::Topology(TopologyRequest { reload: true })), Status::Refused);
    let number = bench.ask_later("admin", ClientRequest::Topology(TopologyRequest { reload: true }));
    answer_reading(&mut bench, Err(Refusal::new(Reason::Invalid, "sites.toml, line 3: it is wrong")));
    let Some(ClientReply::Refused(refusal)) = bench.answer(number) else { panic!("not refused") };
    assert!(refusal.message.contains("line 3"));
    let found = status(&mut bench);
    assert_eq!((found.topology, found.fault.is_some()), (three_sites(), true));
    assert!(bench.health().reasons.iter().any(|reason| reason.contains("sites.toml, line 3")));

    let number = bench.ask_later("admin", ClientRequest::Topology(TopologyRequest { reload: true }));
    answer_reading(&mut bench, Ok(Topology::default()));
    assert!(matches!(bench.answer(number), Some(ClientReply::Topology(_))));
    assert_eq!((status(&mut bench).topology, status(&mut bench).fault), (Topology::default(), None));
    assert_eq!(bench.health(), Health::default());
}

/// The rates of the copies that nodes were ordered to make and have not made.
fn rates(bench: &Bench) -> Vec<Option<u64>> {
    let rate = |(_, order): &(OrderId, Order)| match order {
        Order::Replicate { qos: pace, .. } => Some(pace.rate_bytes_per_second),
        _ => None,
    };
    bench.nodes.values().flat_map(|fake| fake.unanswered.iter().filter_map(rate)).collect()
}

// Promise 14.
#[test]
fn copies_never_take_more_of_a_link_than_its_limit() {
    let limit = 8_000_000;
    let mut bench = Bench::configured(MasterConfig { sync_copies: 1, ..config() }, &["a/1", "a/1", "a/1", "a/1"]);
    let mut topology = Topology::default();
    topology.set_link(SitePair::new("a", "b"), link(20, Some(limit))).unwrap();
    use_topology(&mut bench, topology);
    for index in 0..40 {
        let request = CreateRequest { copies: Some(5), ..create(&format!("/{index}")) };
        bench.put("ann", request, 10);
    }
    for id in ["n5", "n6", "n7", "n8", "n9"] {
        bench.add_idle_node(id, "b/1");
    }
    bench.advance(seconds(3));
    let mut seen = 0;
    for _ in 0..400 {
        let now = rates(&bench);
        let taken: u64 = now.iter().map(|rate| rate.expect("each crosses the link")).sum();
        assert!(taken <= limit, "{now:?}");
        assert!(now.iter().flatten().all(|rate| *rate >= limit / 8), "{now:?}");
        seen += now.len();
        for id in ["n5", "n6", "n7", "n8", "n9"] {
            bench.resume(id);
            bench.node_mut(id).answers = false;
        }
        bench.advance(Duration::from_millis(600));
    }
    assert!(seen >= 40, "{seen}");
    assert_eq!(bench.health().under_replicated, 0, "all are made in the end");
}

#[test]
fn no_waiting_client_waits_for_a_link_and_within_a_site_there_is_no_limit() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let mut topology = Topology::default();
    topology.set_default_link(link(20, Some(1_000_000))).unwrap();
    use_topology(&mut bench, topology);
    for id in ["n1", "n2"] {
        bench.node_mut(id).answers = false;
    }
    for index in 0..20 {
        let created = bench.created("ann", CreateRequest { at: Some(node("n1")), ..create(&format!("/{index}")) });
        bench.write(&created, 10);
    }
    assert_eq!(rates(&bench), vec![None; 20]);
}

#[test]
fn a_copy_comes_from_the_nearest_site() {
    let mut bench = Bench::with_nodes(&["b/1", "c/1"]);
    use_topology(&mut bench, three_sites());
    bench.put("ann", CreateRequest { copies: Some(3), ..create("/f") }, 10);
    bench.add_idle_node("n3", "a/1");
    bench.advance(seconds(1));
    let from = bench.node("n3").orders.iter().find_map(|order| match order {
        Order::Replicate { from, .. } => Some(from.node.clone()),
        _ => None,
    });
    assert_eq!(from, Some(node("n1")));
}

/// What a node was last told of its shares.
fn shares(bench: &Bench, id: &str) -> Vec<(String, u64)> {
    let told = bench.node(id).orders.iter().rev().find_map(|order| match order {
        Order::LinkShares(shares) => Some(shares.clone()),
        _ => None,
    });
    told.unwrap_or_default().into_iter().map(|share| (share.site, share.rate_bytes_per_second)).collect()
}

// Promise 48.
#[test]
fn a_site_limit_is_divided_by_what_is_under_way_and_a_new_one_is_told_in_seconds() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "b/1", "c/1"]);
    let limited = |limit| {
        let mut topology = Topology::default();
        topology.set_link(SitePair::new("a", "b"), link(20, Some(limit))).unwrap();
        topology
    };
    use_topology(&mut bench, limited(4_800_000));
    bench.advance(seconds(2));
    for (id, far) in [("n1", "b"), ("n2", "b"), ("n3", "a")] {
        assert_eq!(shares(&bench, id), [(far.to_owned(), 1_600_000)]);
    }
    let under_way =
        |conversations| LinkUse { site: "b".into(), conversations, waiting: 0, rate_bytes_per_second: Some(1_600_000) };
    bench.node_mut("n1").links = vec![under_way(2)];
    bench.node_mut("n2").links = vec![under_way(1)];
    bench.advance(seconds(4));
    let all = |bench: &Bench| ["n1", "n2", "n3"].map(|id| shares(bench, id)[0].1);
    assert_eq!(all(&bench), [3_000_000, 1_500_000, 300_000]);
    use_topology(&mut bench, limited(480_000));
    bench.advance(seconds(2));
    assert_eq!(all(&bench), [300_000, 150_000, 30_000]);
    // A node that comes again has forgotten what it was told.
    bench.node_mut("n3").orders.clear();
    bench.join("n3");
    bench.advance(seconds(2));
    assert_eq!(shares(&bench, "n3").len(), 1);
    use_topology(&mut bench, Topology::default());
    bench.advance(seconds(2));
    assert!(["n1", "n2", "n3"].iter().all(|id| shares(&bench, id).is_empty()), "no limit any more");
    let is_share = |order: &Order| matches!(order, Order::LinkShares(_));
    assert!(!bench.node("n4").orders.iter().any(is_share), "it stands at no end of the link");
}
