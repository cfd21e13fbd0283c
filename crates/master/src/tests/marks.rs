//! What is found to be slow from what nodes report: who sees it, what is used less for it, and who overrules it.

#![allow(clippy::unwrap_used)]

use protocol::{
    JobId, Reason,
    message::{
        client_master::SiteLink,
        links::{LinkReport, LinkSample, LinkSecond},
        load::{DiskLoad, LoadReport, LoadSample, MachineSize},
        marks::{EvidenceReport, Mark, MarkChange, MarkState, MarkSubject, StageWork},
        request::{AdmitJobRequest, ChangeMarkRequest, MarksRequest},
    },
};

use super::*;

fn marks(bench: &mut Bench) -> Vec<Mark> {
    match bench.ask("ann", ClientRequest::Marks(MarksRequest)) {
        ClientReply::Marks(marks) => marks,
        other => panic!("{other:?}"),
    }
}

fn slow(bench: &mut Bench) -> Vec<String> {
    let marks = marks(bench).into_iter().filter(|mark| mark.state == MarkState::Slow);
    marks.map(|mark| mark.subject.to_string()).collect()
}

fn change(subject: MarkSubject, change: MarkChange) -> ClientRequest {
    ClientRequest::ChangeMark(ChangeMarkRequest { subject, change })
}

/// So many seconds pass, in each of which every node reports something.
fn report(bench: &mut Bench, span: u64, report: impl Fn(&str, u64) -> Report) {
    let names: Vec<_> = bench.nodes.keys().map(ToString::to_string).collect();
    for second in 1..=span {
        bench.advance(seconds(1));
        names.iter().for_each(|name| bench.report(name, report(name, second)));
    }
}

/// Jobs of twenty seconds in which one node takes six times as long as the others.
fn work(bench: &mut Bench, span: u64, slow: &str) {
    let begun = bench.now.monotonic.as_secs();
    report(bench, span, |name, second| {
        let bytes = if name == slow { 1_000_000 } else { 6_000_000 };
        let job = JobId((begun + second) / 20);
        let stages = vec![StageWork { job, stage: 0, bytes, busy_micros: 1_000_000 }];
        Report::Evidence(EvidenceReport { stages, full_links: Vec::new() })
    });
}

/// The second disk of a node takes ten times as long as all others.
fn use_disks(bench: &mut Bench, span: u64, slow: &str) {
    let load = |micros| {
        let queue_hundredths = 50 * micros / 10_000;
        Some(DiskLoad { written_bytes: 50 << 16, latency_micros: micros, queue_hundredths, ..DiskLoad::default() })
    };
    report(bench, span, |name, _| {
        let disks = vec![load(4_000), load(if name == slow { 40_000 } else { 4_000 })];
        let (samples, processes) = (vec![LoadSample::default()], Vec::new());
        Report::Load(LoadReport { machine: MachineSize::default(), samples, disks, processes })
    });
}

/// Every node sends to all other sites as much as links carry: a tenth between `a` and `b`.
fn fill_links(bench: &mut Bench, span: u64) {
    for number in 1..=span {
        bench.advance(seconds(1));
        for (name, site) in [("n1", "a"), ("n2", "b"), ("n3", "c")] {
            let others: Vec<_> = ["a", "b", "c"].into_iter().filter(|other| *other != site).collect();
            let sent = |other: &&str| {
                let is_thin = *other != "c" && site != "c";
                let sent_bytes = if is_thin { 1_000_000 } else { 10_000_000 };
                LinkSample { site: (*other).into(), sent_bytes, ..LinkSample::default() }
            };
            let seconds = vec![LinkSecond { number, links: others.iter().map(sent).collect() }];
            bench.report(name, Report::Links(LinkReport { run: 1, number, seconds }));
            let full_links = others.iter().map(|site| (*site).to_owned()).collect();
            bench.report(name, Report::Evidence(EvidenceReport { stages: Vec::new(), full_links }));
        }
    }
}

fn admit(bench: &mut Bench) -> protocol::message::client_master::Admitted {
    match bench.ask("ann", ClientRequest::AdmitJob(AdmitJobRequest { title: "count".into(), output: None })) {
        ClientReply::Admitted(admitted) => admitted,
        other => panic!("{other:?}"),
    }
}

/// How many of some new files each node got.
fn placed(bench: &mut Bench, files: u32) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for number in 0..files {
        let created = bench.created("ann", create(&format!("/{}-{number}", bench.now.unix_millis)));
        *counts.entry(created.target.node.to_string()).or_default() += 1;
        bench.write(&created, 10);
        bench.commit_later("ann", created.lease, 10);
    }
    bench.run();
    counts
}

#[test]
fn a_slow_node_is_named_gets_fewer_copies_and_is_the_last_choice_of_readers_and_jobs() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "a/1", "a/1"]);
    bench.put("ann", CreateRequest { copies: Some(4), ..create("/f") }, 10);
    work(&mut bench, 90, "n2");
    assert_eq!(slow(&mut bench), ["node n2"]);
    let health = bench.health();
    assert!(health.reasons.iter().any(|why| why.starts_with("node n2 is slow and is used less")), "{health:?}");
    assert_eq!(bench.master.figures().marks, [("node", 1), ("disk", 0), ("link", 0)]);
    let sources = bench.locate("ann", "/f").sources;
    assert_eq!(sources.last().unwrap().node, node("n2"), "and it is still one of them");
    assert_eq!(sources.len(), 4);
    let marked: Vec<_> = admit(&mut bench).nodes.iter().map(|spe| spe.is_marked).collect();
    assert_eq!(marked, [false, true, false, false]);
    let counts = placed(&mut bench, 40);
    assert_eq!(counts.get("n2"), None, "the others are idle: {counts:?}");
    // Where there is no other, it is taken.
    for name in ["n1", "n3", "n4"] {
        bench.crash(name);
    }
    bench.advance(seconds(12));
    assert_eq!(placed(&mut bench, 1).get("n2"), Some(&1));
    assert_eq!(bench.locate("ann", "/f").sources.len(), 1);
}

#[test]
fn marks_that_come_and_go_are_events_for_everybody_and_are_counted() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "a/1"]);
    let start = bench.last_event();
    work(&mut bench, 90, "n2");
    let heard = |bench: &mut Bench| {
        let events = bench.heard("ann", start).into_iter();
        events.filter(|event| event.starts_with("mark_")).collect::<Vec<_>>()
    };
    assert_eq!(heard(&mut bench), ["mark_set node n2"], "once, however often it is judged again");
    bench.done("admin", change(MarkSubject::Node(node("n2")), MarkChange::Ignore("an old machine".into())));
    bench.done("admin", change(MarkSubject::Node(node("n2")), MarkChange::Clear));
    assert_eq!(heard(&mut bench), ["mark_set node n2", "mark_set node n2", "mark_cleared node n2"]);
    let counted = bench.master.figures().events;
    let of = |kind| counted.iter().find(|(name, _)| *name == kind).map(|(_, count)| *count);
    assert_eq!((of("mark_set"), of("mark_cleared"), of("node_left")), (Some(2), Some(1), None), "{counted:?}");
    work(&mut bench, 90, "n2");
    bench.advance(seconds(3_700));
    assert_eq!(heard(&mut bench)[3..], ["mark_set node n2", "mark_cleared node n2"], "it ended by itself");
}

#[test]
fn marks_outlive_the_master_until_they_expire() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "a/1"]);
    work(&mut bench, 90, "n2");
    let before = marks(&mut bench);
    bench.restart_master();
    ["n1", "n2", "n3"].into_iter().for_each(|name| bench.join(name));
    let after = marks(&mut bench);
    assert_eq!((&after[0].subject, &after[0].reason), (&before[0].subject, &before[0].reason));
    assert_eq!(admit(&mut bench).nodes.iter().map(|spe| spe.is_marked).collect::<Vec<_>>(), [false, true, false]);
    bench.advance(seconds(3_700));
    assert!(slow(&mut bench).is_empty());
    bench.restart_master();
    assert!(slow(&mut bench).is_empty(), "its row is gone too");
}

#[test]
fn a_slow_disk_is_told_to_its_node_also_when_it_comes_back() {
    let mut bench = Bench::with_nodes(&["a/1", "a/1", "a/1"]);
    let disk = |folder: &str| DiskStatus {
        folder: folder.into(),
        state: protocol::disk::DiskState::Ok,
        used_bytes: 0,
        free_bytes: 1 << 40,
        why: String::new(),
        scrub: None,
    };
    bench.nodes.values_mut().for_each(|fake| fake.disks = vec![disk("/one"), disk("/two")]);
    bench.advance(seconds(3));
    use_disks(&mut bench, 40, "n3");
    assert_eq!(slow(&mut bench), ["disk n3 /two"]);
    assert!(
        marks(&mut bench)[0]
            .reason
            .starts_with("disk 2 of n3 (`/two`) takes 40 ms an operation; the median of 5 disks")
    );
    let told = |bench: &Bench, name: &str| {
        let orders = bench.node(name).orders.iter();
        orders.filter(|order| **order == Order::SlowDisks(vec!["/two".into()])).count()
    };
    bench.advance(seconds(6));
    assert_eq!((told(&bench, "n3"), told(&bench, "n1")), (1, 0));
    bench.crash("n3");
    bench.join("n3");
    bench.advance(seconds(6));
    assert_eq!(told(&bench, "n3"), 2);
    // Half of its disks are slow: it is read last, and still gets work where the others are busy.
    assert!(admit(&mut bench).nodes[2].is_marked);
    let clear = change(MarkSubject::Disk { node: node("n3"), folder: "/two".into() }, MarkChange::Clear);
    bench.done("admin", clear);
    bench.run();
    assert_eq!(bench.node("n3").orders.iter().filter(|order| **order == Order::SlowDisks(Vec::new())).count(), 1);
}

#[test]
fn a_slow_link_is_named_measured_for_jobs_and_avoided_by_copies_and_readers() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    fill_links(&mut bench, 60);
    assert_eq!(slow(&mut bench), ["link a b"]);
    let links = admit(&mut bench).links;
    let known = |a: &str, b: &str| links.iter().find(|link| (&link.a[..], &link.b[..]) == (a, b)).cloned();
    let link = |a: &str, b: &str, bytes_per_second| Some(SiteLink { a: a.into(), b: b.into(), bytes_per_second });
    assert_eq!(known("a", "b"), link("a", "b", 2_000_000));
    assert_eq!(known("a", "c"), link("a", "c", 20_000_000));
    // What the operator has written counts more than what was measured.
    let mut topology = protocol::Topology::default();
    topology.set_addresses("198.51.100.0/24".parse().unwrap(), "a".parse().unwrap()).unwrap();
    let limit = protocol::topology::Link { distance_millis: None, limit_bytes_per_second: Some(5_000_000) };
    topology.set_link(protocol::topology::SitePair::new("a", "c"), limit).unwrap();
    bench.master.set_topology(bench.now, None, topology);
    assert!(admit(&mut bench).links.contains(&SiteLink { a: "a".into(), b: "c".into(), bytes_per_second: 5_000_000 }));
    // A reader at `a` reads at `c` rather than at `b`, and copies of what lies at `a` go to `c`.
    bench.put("ann", CreateRequest { copies: Some(3), ..create("/f") }, 10);
    bench.advance(seconds(5));
    bench.login("cat", "198.51.100.7".parse().unwrap());
    let sources: Vec<_> = bench.locate("cat", "/f").sources.iter().map(|source| source.node.to_string()).collect();
    assert_eq!(sources, ["n1", "n3", "n2"]);
}

#[test]
fn administrators_overrule_what_is_measured_and_nobody_else_does() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let n2 = || MarkSubject::Node(node("n2"));
    let add = |subject| change(subject, MarkChange::Add("it smells of smoke".into()));
    assert_eq!(bench.refused("ann", add(n2())).reason, Reason::NoRight);
    bench.done("admin", add(n2()));
    let mark = marks(&mut bench).remove(0);
    assert_eq!(
        (mark.by.unwrap().as_str(), &mark.reason[..], mark.expires_unix_millis),
        ("admin", "it smells of smoke", None)
    );
    assert!(admit(&mut bench).nodes[1].is_marked);
    bench.advance(seconds(10_000));
    assert_eq!(slow(&mut bench), ["node n2"], "until it is cleared");
    bench.done("admin", change(n2(), MarkChange::Clear));
    assert_eq!(bench.refused("admin", change(n2(), MarkChange::Clear)).reason, Reason::NotFound);
    bench.done("admin", change(n2(), MarkChange::Ignore("an old machine".into())));
    work(&mut bench, 90, "n2");
    assert!(slow(&mut bench).is_empty() && !admit(&mut bench).nodes[1].is_marked);
    bench.restart_master();
    assert_eq!(marks(&mut bench)[0].state, MarkState::Ignored);
    let unknown = [
        MarkSubject::Node(node("n9")),
        MarkSubject::Disk { node: node("n2"), folder: "/nowhere".into() },
        MarkSubject::link("a", "nowhere"),
    ];
    for subject in unknown {
        assert_eq!(bench.refused("admin", add(subject)).reason, Reason::NotFound);
    }
    assert_eq!(bench.refused("admin", add(MarkSubject::link("a", "a"))).reason, Reason::Invalid);
    let long = change(n2(), MarkChange::Add("x".repeat(10_000)));
    assert_eq!(bench.refused("admin", long).reason, Reason::Invalid);
    bench.advance(seconds(5));
    let noted = bench.audited.iter().filter(|event| event.what == "add mark" && event.object == "node n2");
    assert!(noted.clone().any(|event| event.note == "it smells of smoke"), "{:?}", noted.collect::<Vec<_>>());
}
