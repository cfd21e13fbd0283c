//! What goes over the links between sites, as users ask for it.

#![allow(clippy::unwrap_used)]

use protocol::{
    Reason, Topology,
    message::{
        links::{LinkPage, LinkReport, LinkSample, LinkSecond, LinkSeries, MeasuredLink},
        load::LOAD_RESOLUTIONS,
        request::{LinkSeriesRequest, LinksRequest},
    },
    topology::{Link, SitePair},
};

use super::*;

/// A node had to do with these sites in its second `number`.
fn report(number: u64, sites: &[&str]) -> Report {
    let link = |site: &&str| LinkSample {
        site: (*site).into(),
        sent_bytes: 1_000_000,
        received_bytes: 0,
        sent_packets: 1_000,
        lost_packets: 10,
        retransmitted_bytes: 12_000,
        round_trip_micros: 16_000,
    };
    let links = sites.iter().map(link).collect();
    Report::Links(LinkReport { run: 1, number, seconds: vec![LinkSecond { number, links }] })
}

/// These nodes report each second, the first of them `first`, for ten seconds.
fn ten_seconds(bench: &mut Bench, nodes: &[&str], first: u64, sites: &[&str]) {
    for number in first..first + 10 {
        bench.advance(seconds(1));
        for node in nodes {
            bench.report(node, report(number, sites));
        }
    }
}

fn page(bench: &mut Bench, seconds_ago: u32, after: Option<(String, String)>) -> LinkPage {
    match bench.ask("alice", ClientRequest::Links(LinksRequest { seconds_ago, after })) {
        ClientReply::Links(page) => page,
        other => panic!("{other:?}"),
    }
}

fn series(bench: &mut Bench, from: &str, to: &str, seconds: u32) -> Result<LinkSeries, Refusal> {
    let asked = LinkSeriesRequest { from: from.into(), to: to.into(), seconds };
    match bench.ask("alice", ClientRequest::LinkSeries(asked)) {
        ClientReply::LinkSeries(series) => Ok(series),
        ClientReply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn sent(link: &MeasuredLink) -> (&str, &str, Option<u64>) {
    (&link.from, &link.to, link.rates.map(|rates| rates.sent_bytes_per_second))
}

#[test]
fn every_user_sees_what_goes_and_went_over_each_link_and_its_limit() {
    let mut bench = Bench::with_nodes(&["a/1", "a/2", "b/1"]);
    let mut topology = Topology::default();
    let link = Link { distance_millis: None, limit_bytes_per_second: Some(5_000_000) };
    topology.set_link(SitePair::new("a", "b"), link).unwrap();
    bench.master.set_topology(bench.now, None, topology);
    assert_eq!(page(&mut bench, 0, None).links, [], "nothing was sent yet");
    ten_seconds(&mut bench, &["n1", "n2"], 1, &["b", "c"]);
    let now = page(&mut bench, 0, None);
    assert_eq!((now.sample_seconds, &now.next), (5, &None));
    assert_eq!(now.unix_millis, bench.now.unix_millis - 1_000, "the last second that every node has reported");
    let [to_b, to_c] = &now.links[..] else { panic!("{now:?}") };
    assert_eq!((sent(to_b), to_b.limit_bytes_per_second), (("a", "b", Some(2_000_000)), Some(5_000_000)));
    assert_eq!((sent(to_c), to_c.limit_bytes_per_second), (("a", "c", Some(2_000_000)), None));
    let rates = to_b.rates.unwrap();
    assert_eq!((rates.loss_millionths, rates.round_trip_micros), (Some(10_000), Some(16_000)));
    assert_eq!(rates.retransmitted_bytes_per_second, 24_000);
    bench.advance(seconds(60));
    assert_eq!(sent(&page(&mut bench, 0, None).links[0]), ("a", "b", Some(0)), "it stays in the list for a day");
    assert_eq!(page(&mut bench, 65, None).sample_seconds, 10);
    assert!(sent(&page(&mut bench, 65, None).links[0]).2.unwrap() > 1_000_000);
    let third = page(&mut bench, 0, Some(("a".into(), "b".into())));
    assert_eq!(third.links.iter().map(sent).collect::<Vec<_>>(), [("a", "c", Some(0))]);
}

#[test]
fn a_link_over_time_is_a_series() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    ten_seconds(&mut bench, &["n1"], 1, &["b"]);
    let found = series(&mut bench, "a", "b", 3).unwrap();
    let rates: Vec<_> = found.samples.iter().map(|it| it.unwrap().sent_bytes_per_second).collect();
    assert_eq!((found.sample_seconds, rates), (1, vec![1_000_000; 3]));
    assert_eq!(found.unix_millis, bench.now.unix_millis - 1_000);
    let day = LOAD_RESOLUTIONS[2].reach().as_secs() as u32;
    assert_eq!(series(&mut bench, "a", "b", day).unwrap().sample_seconds, 120);
    let unknown = series(&mut bench, "b", "a", 3).unwrap_err();
    assert_eq!(unknown.reason, Reason::NotFound, "{unknown}");
    let too_long = series(&mut bench, "a", "b", day + 1).unwrap_err();
    assert_eq!(too_long.reason, Reason::Invalid, "{too_long}");
    match bench.ask("alice", ClientRequest::Links(LinksRequest { seconds_ago: day, after: None })) {
        ClientReply::Refused(refusal) => assert_eq!(refusal.to_string(), too_long.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_that_has_moved_counts_for_its_new_site() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    ten_seconds(&mut bench, &["n1"], 1, &["b"]);
    let mut topology = Topology::default();
    topology.set_node(node("n1"), "z/1".parse().unwrap()).unwrap();
    bench.master.set_topology(bench.now, None, topology);
    ten_seconds(&mut bench, &["n1"], 11, &["b"]);
    let now = page(&mut bench, 0, None);
    assert_eq!(now.links.iter().map(sent).collect::<Vec<_>>(), [("a", "b", Some(0)), ("z", "b", Some(1_000_000))]);
}

#[test]
fn a_page_of_links_ends_and_the_next_begins_after_it() {
    let mut bench = Bench::with_nodes(&["a/1"; 20]);
    let sites: Vec<_> = (0..1_010).map(|number| format!("site-{number:04}")).collect();
    for (at, sites) in sites.chunks(60).enumerate() {
        let sites: Vec<_> = sites.iter().map(String::as_str).collect();
        bench.report(&format!("n{}", at + 1), report(1, &sites));
    }
    let first = page(&mut bench, 0, None);
    assert_eq!((first.links.len(), &first.next), (1_000, &Some(("a".into(), "site-0999".into()))));
    let rest = page(&mut bench, 0, first.next);
    assert_eq!((rest.links.len(), rest.next, rest.links[0].to.as_str()), (10, None, "site-1000"));
}
