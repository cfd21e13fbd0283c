//! The load of nodes, as users ask for it.

#![allow(clippy::unwrap_used)]

use protocol::{
    Reason,
    message::{
        load::{
            DiskLoad, LOAD_RESOLUTIONS, LoadMetric, LoadPage, LoadReport, LoadSample, LoadSeries, MachineSize,
            NodeLoad, PROCESSES_MAX, ProcessLoad,
        },
        request::{LoadRequest, LoadSeriesRequest},
    },
};

use super::*;

fn report(busy: u64) -> LoadReport {
    let mut sample = LoadSample::default();
    sample.set(LoadMetric::Processor, busy);
    LoadReport {
        machine: MachineSize { processors: 8, memory_bytes: 1 << 35 },
        samples: vec![sample],
        disks: vec![Some(DiskLoad { read_bytes: busy, ..DiskLoad::default() })],
        processes: vec![ProcessLoad { pid: 9, ..ProcessLoad::default() }],
    }
}

fn page(bench: &mut Bench, seconds_ago: u32, after: Option<NodeId>) -> LoadPage {
    match bench.ask("alice", ClientRequest::Load(LoadRequest { seconds_ago, after })) {
        ClientReply::Load(page) => page,
        other => panic!("{other:?}"),
    }
}

fn busy(of: &NodeLoad) -> Option<u64> {
    of.sample.map(|sample| sample.get(LoadMetric::Processor))
}

fn refusal(bench: &mut Bench, request: ClientRequest) -> Refusal {
    match bench.ask("alice", request) {
        ClientReply::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_user_sees_how_busy_each_node_is_and_was() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.report("n1", Report::Load(report(100)));
    bench.advance(seconds(1));
    bench.report("n1", Report::Load(report(200)));
    let now = page(&mut bench, 0, None);
    assert_eq!((now.sample_seconds, now.unix_millis, &now.next), (1, bench.now.unix_millis, &None));
    assert_eq!(now.nodes.iter().map(busy).collect::<Vec<_>>(), [Some(200), None], "the other did not report yet");
    assert_eq!(now.nodes[0].machine.processors, 8);
    assert_eq!((now.nodes[0].disks.len(), now.nodes[0].processes.len()), (1, 1));
    let before = page(&mut bench, 1, None);
    assert_eq!(before.unix_millis, bench.now.unix_millis - 1_000);
    assert_eq!(busy(&before.nodes[0]), Some(100));
    assert!(before.nodes[0].disks.is_empty() && before.nodes[0].processes.is_empty(), "kept for now alone");
    // A node that is lost is still a block of the map, without a colour.
    bench.crash("n1");
    bench.advance(seconds(59));
    let later = page(&mut bench, 0, None);
    assert_eq!((later.nodes.len(), busy(&later.nodes[0])), (2, None));
    assert_eq!(busy(&page(&mut bench, 59, None).nodes[0]), Some(200));
}

#[test]
fn the_load_of_one_node_over_time_is_a_series() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    for busy in [100, 200, 300] {
        bench.advance(seconds(1));
        bench.report("n1", Report::Load(report(busy)));
    }
    let asked = |node: &str, seconds| LoadSeriesRequest { node: node.parse().unwrap(), seconds };
    let series = match bench.ask("alice", ClientRequest::LoadSeries(asked("n1", 2))) {
        ClientReply::LoadSeries(series) => series,
        other => panic!("{other:?}"),
    };
    let LoadSeries { unix_millis, sample_seconds, samples } = series;
    assert_eq!((unix_millis, sample_seconds), (bench.now.unix_millis, 1));
    let values: Vec<_> = samples.iter().map(|it| it.map(|sample| sample.get(LoadMetric::Processor))).collect();
    assert_eq!(values, [Some(200), Some(300)]);
    let day = LOAD_RESOLUTIONS[2].reach().as_secs() as u32;
    let day_long = match bench.ask("alice", ClientRequest::LoadSeries(asked("n1", day))) {
        ClientReply::LoadSeries(series) => series,
        other => panic!("{other:?}"),
    };
    assert_eq!((day_long.sample_seconds, day_long.samples.len()), (120, 720));
    let unknown = refusal(&mut bench, ClientRequest::LoadSeries(asked("n9", 2)));
    assert_eq!(unknown.reason, Reason::NotFound, "{unknown}");
    let too_long = refusal(&mut bench, ClientRequest::LoadSeries(asked("n1", day + 1)));
    assert_eq!(too_long.reason, Reason::Invalid, "{too_long}");
    let too_old = refusal(&mut bench, ClientRequest::Load(LoadRequest { seconds_ago: day, after: None }));
    assert_eq!(too_old.to_string(), too_long.to_string());
}

#[test]
fn a_page_of_load_ends_with_a_node_and_the_next_begins_after_it() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1", "d/1", "e/1", "f/1"]);
    let many = LoadReport { processes: vec![ProcessLoad::default(); 2 * PROCESSES_MAX], ..report(1) };
    for id in ["n1", "n2", "n3", "n4", "n5", "n6"] {
        bench.report(id, Report::Load(many.clone()));
    }
    let first = page(&mut bench, 0, None);
    assert_eq!(first.nodes[0].processes.len(), PROCESSES_MAX, "more than a node may say is left out");
    assert_eq!((first.nodes.len(), &first.next), (4, &Some(node("n4"))));
    let rest = page(&mut bench, 0, first.next);
    assert_eq!(rest.nodes.iter().map(|it| it.node.clone()).collect::<Vec<_>>(), [node("n5"), node("n6")]);
    assert_eq!(rest.next, None);
}
