//! What reports add up to, and what is kept of it. No clock: every time is given.

#![allow(clippy::unwrap_used)]

use super::*;

fn sample(site: &str, sent_bytes: u64) -> LinkSample {
    LinkSample { site: site.into(), sent_bytes, ..LinkSample::default() }
}

fn second(number: u64, links: Vec<LinkSample>) -> LinkReport {
    LinkReport { run: 1, number, seconds: vec![LinkSecond { number, links }] }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A node of `uic` that sends `site` so many bytes in each second until `until`, and reports half a second after it.
fn steady(links: &mut LinkHistories, progress: &mut LinkProgress, site: &str, sent_bytes: u64, until: u64) {
    for number in 100..until {
        let now = millis(number * 1_000 + 500);
        links.add(now, "uic", progress, second(number, vec![sample(site, sent_bytes)]));
    }
}

fn bytes_at(links: &LinkHistories, now: u64, seconds_ago: u32) -> Option<u64> {
    links.at(millis(now * 1_000), ("uic", "jhu"), seconds_ago).rates.map(|rates| rates.sent_bytes_per_second)
}

#[test]
fn the_nodes_of_a_site_add_up_and_seconds_between_ours_are_shared() {
    let (mut links, mut nodes) = (LinkHistories::default(), [LinkProgress::default(); 2]);
    steady(&mut links, &mut nodes[0], "jhu", 1_000, 200);
    steady(&mut links, &mut nodes[1], "jhu", 500, 200);
    assert_eq!(bytes_at(&links, 200, 0), Some(1_500));
    assert_eq!(bytes_at(&links, 200, 60), Some(1_500), "by ten seconds");
    assert_eq!(bytes_at(&links, 200, 150), None, "before the master knew of it");
    let view = links.series(millis(200_000), ("uic", "jhu"), 10).unwrap();
    let all: Vec<_> = view.rates.iter().map(|rates| rates.unwrap().sent_bytes_per_second).collect();
    assert_eq!((all, view.sample_seconds, view.ended_seconds_ago), (vec![1_500; 10], 1, 1));
    assert_eq!(links.series(millis(200_000), ("jhu", "uic"), 10), None);
    // The clock began with the master.
    assert_eq!(bytes_at(&links, 200, 3_600), None);
    let hours = links.series(millis(200_000), ("uic", "jhu"), 7_200).unwrap();
    assert_eq!((hours.rates.len(), hours.rates[..59].iter().flatten().count()), (60, 0));
}

#[test]
fn nothing_goes_over_a_link_that_is_quiet() {
    let (mut links, mut node) = (LinkHistories::default(), LinkProgress::default());
    steady(&mut links, &mut node, "jhu", 1_000, 110);
    assert_eq!(bytes_at(&links, 120, 0), Some(0));
    assert_eq!(bytes_at(&links, 500, 0), Some(0));
    assert_eq!(bytes_at(&links, 500, 397), Some(950), "the last of ten seconds was half over");
    let quiet = links.series(millis(40_000_000), ("uic", "jhu"), 7_200).unwrap();
    assert_eq!((quiet.sample_seconds, quiet.rates.len()), (120, 60));
    assert_eq!(quiet.rates.last().unwrap().unwrap(), LinkRates::default(), "no packets, no loss and no round trip");
    assert_eq!(quiet.ended_seconds_ago, 40, "two minutes that are over: until 39,960 s");
}

#[test]
fn a_report_that_comes_twice_counts_once_unless_the_node_was_started_again() {
    let (mut links, mut node) = (LinkHistories::default(), LinkProgress::default());
    let report = LinkReport {
        run: 7,
        number: 9,
        seconds: (5..9).map(|number| LinkSecond { number, links: vec![sample("jhu", 1_000)] }).collect(),
    };
    let sum = |links: &LinkHistories| {
        let view = links.series(millis(110_000), ("uic", "jhu"), 20).unwrap();
        view.rates.iter().flatten().map(|rates| rates.sent_bytes_per_second).collect::<Vec<_>>()
    };
    links.add(millis(100_000), "uic", &mut node, report.clone());
    // The ninth second ended now without anything: the fifth ended four seconds ago.
    assert_eq!(sum(&links)[..5], [1_000, 1_000, 1_000, 1_000, 0], "from second 95 on");
    let mut again = report.clone();
    again.number = 10;
    again.seconds.push(LinkSecond { number: 10, links: vec![sample("jhu", 50)] });
    links.add(millis(101_000), "uic", &mut node, again);
    assert_eq!(sum(&links)[..6], [1_000, 1_000, 1_000, 1_000, 0, 50]);
    links.add(millis(101_000), "uic", &mut node, LinkReport { run: 8, ..report });
    assert_eq!(sum(&links)[..6], [1_000, 2_000, 2_000, 2_000, 1_000, 50]);
}

#[test]
fn loss_and_round_trip_are_means_by_packets_and_the_other_direction_tells_a_round_trip_too() {
    let (mut links, mut node) = (LinkHistories::default(), LinkProgress::default());
    let sent = |sent_packets, lost_packets, round_trip_micros| LinkSample {
        sent_packets,
        lost_packets,
        retransmitted_bytes: 1_200 * lost_packets,
        round_trip_micros,
        ..sample("jhu", 0)
    };
    let one = LinkSample { received_bytes: 4_000, ..sent(900, 9, 10_000) };
    links.add(millis(100_000), "uic", &mut node, second(1, vec![one]));
    links.add(millis(100_000), "uic", &mut LinkProgress::default(), second(1, vec![sent(100, 11, 20_000)]));
    let at = |from, to| links.series(millis(101_000), (from, to), 1).unwrap().rates[0].unwrap();
    let there = at("uic", "jhu");
    assert_eq!((there.loss_millionths, there.round_trip_micros), (Some(20_000), Some(11_000)));
    assert_eq!((there.sent_bytes_per_second, there.retransmitted_bytes_per_second), (0, 24_000));
    let back = at("jhu", "uic");
    assert_eq!((back.sent_bytes_per_second, back.loss_millionths), (4_000, None), "only the receiver counted it");
    assert_eq!(back.round_trip_micros, Some(11_000));
}

#[test]
fn names_and_numbers_that_cannot_be_are_left_out() {
    let (mut links, mut node) = (LinkHistories::default(), LinkProgress::default());
    let bad = second(0, vec![sample("", 1), sample("a/b", 1), sample(&"x".repeat(65), 1)]);
    links.add(Duration::ZERO, "uic", &mut node, bad);
    let mut wild = second(u64::MAX, Vec::new());
    wild.seconds.extend((0..200).map(|number| LinkSecond { number, links: vec![sample("jhu", u64::MAX)] }));
    links.add(Duration::ZERO, "uic", &mut node, wild);
    assert_eq!(links.names(None).count(), 0);
    let many = (0..100).map(|number| sample(&format!("site-{number}"), u64::MAX)).collect();
    links.add(Duration::ZERO, "uic", &mut LinkProgress::default(), second(0, many));
    assert_eq!(links.names(None).count(), LINK_SITES_MAX);
}

#[test]
fn a_link_takes_at_most_twenty_four_kilobytes_and_the_quietest_gives_way() {
    let mut links = LinkHistories::default();
    for number in (0..200_000).step_by(60) {
        links.of("uic", "jhu", millis(0)).add(millis(number * 1_000), [1.0; VALUES]);
    }
    let link = links.get("uic", "jhu").unwrap();
    assert!(link.rings.capacity_bytes() + size_of::<LinkHistory>() <= 24_000, "{}", link.rings.capacity_bytes());
    assert_eq!(link.rings.lengths(), LOAD_RESOLUTIONS.map(|resolution| resolution.samples));
    let now = millis(200_000_000);
    links.of("old", "jhu", now).newest = 150_000;
    for number in 0..LINKS_MAX as u64 - 2 {
        links.of("many", &format!("site-{number}"), now).newest = 190_000 + number;
    }
    assert_eq!(links.names(None).count(), LINKS_MAX);
    links.of("new", "jhu", now).newest = 200_000;
    assert_eq!(links.names(None).count(), LINKS_MAX);
    assert!(links.get("old", "jhu").is_none() && links.get("many", "site-0").is_some());
    let after = ("many".to_owned(), "site-999".to_owned());
    assert_eq!(links.names(Some(&after)).collect::<Vec<_>>(), [("new", "jhu"), ("uic", "jhu")]);
    links.of("newer", "jhu", millis(290_000_000)).newest = 290_000;
    assert_eq!(links.names(None).count(), 1, "what was quiet for a day is forgotten");
}
