//! The table of background work, and where metrics are read.

#![allow(clippy::unwrap_used)]

use protocol::{
    Reason,
    message::{
        cluster::DrainRequest,
        request::{MetricsRequest, MetricsSource, WorkRequest},
        work::{WORK_ITEMS_MAX, WorkFault, WorkPage, WorkRow, WorkState},
    },
};

use super::*;

fn page(bench: &mut Bench, after: Option<NodeId>) -> WorkPage {
    match bench.ask("admin", ClientRequest::Work(WorkRequest { after })) {
        ClientReply::Work(page) => page,
        other => panic!("{other:?}"),
    }
}

fn row(bench: &mut Bench, kind: WorkKind) -> WorkItem {
    page(bench, None).rows.into_iter().find(|row| row.item.kind == kind).unwrap().item
}

fn metrics(bench: &mut Bench, of: MetricsSource) -> String {
    match bench.ask("admin", ClientRequest::Metrics(MetricsRequest { of })) {
        ClientReply::Metrics(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_background_work_of_the_master_and_its_nodes_is_one_table() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.advance(seconds(5));
    let scrub = WorkItem { subject: "/srv".into(), left: Some(7), ..WorkItem::idle(WorkKind::Scrub) };
    bench.report("n2", Report::Work(vec![scrub.clone()]));
    let WorkPage { rows, next } = page(&mut bench, None);
    assert_eq!(next, None);
    let of_master = rows.iter().filter(|row| row.node.is_none()).map(|row| row.item.kind).collect::<Vec<_>>();
    let expected = [
        WorkKind::Repair,
        WorkKind::Reconcile,
        WorkKind::Mirror,
        WorkKind::Rebuild,
        WorkKind::TrashPurge,
        WorkKind::Rebalance,
        WorkKind::AuditDelivery,
        WorkKind::CertificateRenewal,
    ];
    assert_eq!(of_master, expected);
    let of_nodes: Vec<_> = rows.into_iter().filter(|row| row.node.is_some()).collect();
    assert_eq!(of_nodes, [WorkRow { node: Some(node("n2")), unix_millis: bench.now.unix_millis, item: scrub }]);
    // What a lost node last said tells nothing of it now.
    bench.crash("n2");
    bench.advance(seconds(60));
    assert!(page(&mut bench, None).rows.iter().all(|row| row.node.is_none()));
}

#[test]
fn a_page_of_work_ends_with_a_node_and_the_next_begins_after_it() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1", "d/1", "e/1"]);
    let many = |kind| vec![WorkItem::idle(kind); WORK_ITEMS_MAX];
    for id in ["n1", "n2", "n3", "n4", "n5"] {
        bench.report(id, Report::Work([many(WorkKind::Scrub), many(WorkKind::DiskWatch)].concat()));
    }
    let nodes = |page: &WorkPage| page.rows.iter().filter(|row| row.node.is_some()).count();
    let first = page(&mut bench, None);
    assert_eq!(nodes(&first), 4 * WORK_ITEMS_MAX, "more than a node may say is left out");
    assert_eq!(first.next, Some(node("n4")));
    let rest = page(&mut bench, first.next);
    assert!(rest.rows.iter().all(|row| row.node == Some(node("n5"))), "the master's rows come once");
    assert_eq!((rest.rows.len(), rest.next), (WORK_ITEMS_MAX, None));
}

#[test]
fn a_copy_that_fails_is_told_with_its_time_and_its_cause() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.advance(seconds(5));
    assert_eq!(row(&mut bench, WorkKind::Repair).state, WorkState::Idle);
    for id in ["n1", "n2"] {
        bench.node_mut(id).fails_copies = true;
    }
    bench.put("ann", CreateRequest { copies: Some(2), sync_copies: Some(1), ..create("/f") }, 10);
    bench.advance(seconds(5));
    let repair = row(&mut bench, WorkKind::Repair);
    let WorkFault { unix_millis, message } = repair.last_fault.clone().unwrap();
    assert!(unix_millis <= bench.now.unix_millis && message.contains("was not copied to node"), "{repair:?}");
    assert_eq!(repair.left, Some(1), "{repair:?}");
    assert_eq!((repair.state, repair.done), (WorkState::Failing, Some(0)), "{repair:?}");
    assert!(repair.next_unix_millis >= Some(bench.now.unix_millis), "it says when it is tried again: {repair:?}");
    for id in ["n1", "n2"] {
        bench.node_mut(id).fails_copies = false;
    }
    bench.advance(seconds(70));
    let repair = row(&mut bench, WorkKind::Repair);
    assert_eq!((repair.state, repair.done, repair.left), (WorkState::Idle, Some(1), Some(0)), "{repair:?}");
    assert!(repair.last_fault.is_some(), "what went wrong is still told");
}

#[test]
fn a_node_that_is_drained_has_a_row_of_its_own() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    bench.advance(seconds(5));
    bench.put("ann", create("/f"), 10);
    let holder = bench.stat("/f").copies[0].node.clone();
    bench.node_mut(holder.as_str()).answers = false;
    let drain = DrainRequest { node: holder.clone(), dry_run: false, undo: false };
    bench.ask("admin", ClientRequest::Drain(drain));
    let drain = row(&mut bench, WorkKind::Drain);
    assert_eq!((drain.subject.as_str(), drain.left), (holder.as_str(), Some(1)));
}

#[test]
fn metrics_are_read_where_they_are_counted() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    assert_eq!(metrics(&mut bench, MetricsSource::Master), "of the master");
    assert_eq!(metrics(&mut bench, MetricsSource::Node(node("n1"))), "of n1");
    let unknown = MetricsRequest { of: MetricsSource::Node(node("n9")) };
    assert_eq!(bench.refused("admin", ClientRequest::Metrics(unknown)).reason, Reason::NotFound);
    let number = bench.ask_later("admin", ClientRequest::Metrics(MetricsRequest { of: MetricsSource::Security }));
    let (to, asked) = bench.security_asked.pop().unwrap();
    assert_eq!(asked, SecurityRequest::Metrics);
    bench.hear_security(to, Ok(SecurityReply::Metrics("of the security server".into())));
    assert_eq!(bench.answer(number), Some(ClientReply::Metrics("of the security server".into())));
}

#[test]
fn only_administrators_see_background_work_and_metrics() {
    let mut bench = Bench::with_nodes(&["a/1"]);
    let metrics = MetricsRequest { of: MetricsSource::Master };
    for request in [ClientRequest::Work(WorkRequest { after: None }), ClientRequest::Metrics(metrics)] {
        assert_eq!(bench.refused("ann", request).reason, Reason::NoRight);
    }
}
