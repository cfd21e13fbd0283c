//! Nodes with several disks, and what the master makes of one that failed; every copy of a file for `sector check`.

#![allow(clippy::unwrap_used)]

use protocol::{
    disk::DiskState,
    message::{
        client_master::{Copies, CopyState},
        rebuild::MirrorPosition,
        request::{AbandonRequest, CopiesRequest, NodesRequest, RemoveRequest},
    },
    sandbox::SandboxLayer,
};

use super::*;

fn disk(folder: &str, state: DiskState, free_bytes: u64) -> DiskStatus {
    let why = if state == DiskState::Ok { "" } else { "input/output error" };
    DiskStatus { folder: folder.into(), state, used_bytes: 0, free_bytes, why: why.into(), scrub: None }
}

fn copies(bench: &mut Bench, at: &str) -> Copies {
    match bench.ask("ann", ClientRequest::Copies(CopiesRequest(path(at)))) {
        ClientReply::Copies(copies) => copies,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_disk_is_named_and_its_copies_are_made_elsewhere_while_its_node_goes_on() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let request = CreateRequest { at: Some(node("n1")), ..create("/f") };
    let slice = content(&bench.put("ann", request, 10)).slice;
    bench.node_mut("n1").disks = vec![disk("/one", DiskState::Failed, 0), disk("/two", DiskState::Ok, 1_000_000)];
    bench.report_status("n1");
    bench.node_mut("n1").held.remove(&slice);
    bench.report("n1", Report::Removed(slice));
    bench.advance(seconds(5));
    let ClientReply::Nodes(nodes) = bench.ask("ann", ClientRequest::Nodes(NodesRequest)) else { panic!("no nodes") };
    assert_eq!(nodes[0].disks.len(), 2, "the list of nodes shows each disk");
    let health = bench.health();
    assert!(health.reasons.iter().any(|why| why.contains("`/one` of node n1 has failed")), "{health:?}");
    assert_eq!((health.under_replicated, bench.holders(slice).len()), (0, 2));
    // The node takes new files on its other disk.
    bench.put("ann", CreateRequest { at: Some(node("n1")), ..create("/g") }, 10);
    bench.node_mut("n1").disks.remove(0);
    bench.report_status("n1");
    assert_eq!(bench.health(), Health::default(), "once it was replaced, nothing is said of it");
}

#[test]
fn a_file_goes_where_one_disk_has_room_for_it_and_not_several_together() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    bench.node_mut("n1").disks = vec![disk("/1", DiskState::Ok, 500_000), disk("/2", DiskState::Ok, 500_000)];
    bench.node_mut("n2").free_bytes = 700_000;
    bench.advance(seconds(2));
    for number in 0..4 {
        let request = CreateRequest { bytes_expected: Some(600_000), copies: Some(1), ..create(&format!("/{number}")) };
        let created = bench.created("ann", request);
        assert_eq!(created.target.node, node("n2"));
        bench.done("ann", ClientRequest::Abandon(AbandonRequest(created.lease)));
    }
}

// Promise 34.
#[test]
fn a_copy_on_a_disk_that_failed_before_the_commit_does_not_count_for_it() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let created = bench.created("ann", create("/f"));
    let (first, second) = if created.target.node == node("n1") { ("n1", "n2") } else { ("n2", "n1") };
    bench.write(&created, 10);
    assert_eq!(bench.holders(created.slice), ["n1", "n2"]);
    for id in [first, second] {
        bench.node_mut(id).answers = false;
    }
    bench.node_mut(first).held.remove(&created.slice);
    bench.report(first, Report::Removed(created.slice));
    let number = bench.commit_later("ann", created.lease, 10);
    assert_eq!(bench.answer(number), None, "one synced copy is left, two were asked for");
    bench.resume(first);
    bench.resume(second);
    bench.advance(seconds(2));
    assert!(matches!(bench.answer(number), Some(ClientReply::Entry(_))));
    assert_eq!(bench.holders(created.slice), ["n1", "n2"]);
}

#[test]
fn every_copy_is_named_with_a_ticket_where_it_can_be_verified() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1", "c/1"]);
    let slice = content(&bench.put("ann", CreateRequest { copies: Some(3), ..create("/f") }, 10)).slice;
    bench.advance(seconds(5));
    let all = copies(&mut bench, "/f").copies;
    assert_eq!(all.len(), 3);
    for copy in &all {
        let ticket = read_ticket(&copy.source.as_ref().unwrap().ticket);
        assert_eq!(ticket.node, copy.status.node);
        assert_eq!(ticket.right, TicketRight::Read { slice, from: 0, until: 10 });
    }
    bench.crash("n2");
    bench.advance(seconds(12));
    bench.node_mut("n3").fails_copies = true;
    bench.node_mut("n3").held.remove(&slice);
    bench.report("n3", Report::Corrupt(slice));
    let all = copies(&mut bench, "/f").copies;
    let states: Vec<_> = all.iter().map(|copy| (copy.status.state, copy.source.is_some())).collect();
    assert_eq!(states, [(CopyState::Ok, true), (CopyState::Stale, false), (CopyState::Corrupt, false)]);
    assert_eq!(bench.status_of("ann", ClientRequest::Copies(CopiesRequest(path("/none")))), Status::NotFound);
}

#[test]
fn a_node_whose_sandbox_lacks_a_layer_is_named_with_what_to_do() {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let layers = vec![SandboxLayer::Network, SandboxLayer::Limits];
    let status = |sandbox_missing| {
        let (used_bytes, free_bytes, disks) = (0, 1 << 40, Vec::new());
        Report::Status {
            used_bytes,
            free_bytes,
            transfers: 0,
            spes: 0,
            disks,
            sandbox_missing,
            refused_tickets: RefusedTickets::new(),
            links: Vec::new(),
            memory_free_bytes: 0,
        }
    };
    bench.report("n1", status(Some(layers.clone())));
    bench.report("n2", status(Some(Vec::new())));
    let ClientReply::Nodes(nodes) = bench.ask("ann", ClientRequest::Nodes(NodesRequest)) else { panic!("no nodes") };
    assert_eq!((&nodes[0].sandbox_missing, &nodes[1].sandbox_missing), (&Some(layers), &Some(Vec::new())));
    let reasons = bench.health().reasons;
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("the sandbox of node n1 lacks: network, limits;"), "{reasons:?}");
    assert!(reasons[0].contains("user namespaces"), "{reasons:?}");
}

/// A cloud after a rebuild, with the slices that node n1 has on two disks.
fn rebuilt_with_two_disks() -> (Bench, HeldSlice, HeldSlice) {
    let mut bench = Bench::with_nodes(&["a/1", "b/1"]);
    let only = |at: &str| CreateRequest { copies: Some(1), sync_copies: Some(1), at: Some(node("n1")), ..create(at) };
    let slices = ["/removed", "/away"].map(|at| content(&bench.put("ann", only(at), 10)).slice);
    bench.advance(seconds(3));
    let [removed, away] = slices.map(|slice| bench.node("n1").held[&slice].clone());
    // One disk is away while the names are put together.
    bench.node_mut("n1").held.remove(&away.metadata.header.slice);
    bench.lose_journal(0);
    bench.join_each(&["n1", "n2"]);
    bench.advance(seconds(5));
    assert!(bench.exists("/removed") && !bench.exists("/away"));
    (bench, removed, away)
}

impl Bench {
    /// A node comes with a disk that is known since this copy of the small rows, and one that is not.
    fn join_with_disks(&mut self, id: &str, known: (Option<MirrorPosition>, HeldSlice), unknown: HeldSlice) {
        self.open_node(id);
        self.node_mut(id).has_all_disks_seen = false;
        self.tell_mark(id);
        self.report(id, Report::DisksSeen(known.0));
        self.report(id, Report::Inventory { slices: vec![known.1], last: false });
        self.report(id, Report::DisksSeen(None));
        self.report(id, Report::Inventory { slices: vec![unknown], last: true });
        self.report_status(id);
    }
}

// Promise 17.
#[test]
fn of_a_node_with_one_unknown_disk_only_what_lies_on_that_one_is_judged_anew() {
    for keeps_its_rows in [true, false] {
        let (mut bench, removed, away) = rebuilt_with_two_disks();
        bench.done("ann", ClientRequest::Remove(RemoveRequest { path: path("/removed"), recursive: false, now: true }));
        bench.advance(seconds(5));
        let seen = bench.node("n1").mirror.as_ref().map(|copy| copy.mark);
        // The power goes, and what was removed is back; the disk that was away is there.
        bench.crash("n1");
        if !keeps_its_rows {
            bench.node_mut("n1").mirror = None;
        }
        for held in [&removed, &away] {
            bench.node_mut("n1").held.insert(held.metadata.header.slice, held.clone());
        }
        bench.advance(seconds(12));
        bench.join_with_disks("n1", (seen, removed.clone()), away.clone());
        bench.advance(seconds(5));
        assert!(bench.exists("/away"), "what came with the unknown disk was never looked at");
        assert!(!bench.exists("/removed"), "what lies on the known one was decided");
        assert!(!bench.node("n1").held.contains_key(&removed.metadata.header.slice), "and is removed again");
    }
}

#[test]
fn a_disk_seen_at_a_change_that_the_journal_never_counted_shows_that_it_is_stale() {
    let (mut bench, removed, away) = rebuilt_with_two_disks();
    let backup = bench.rows.clone();
    bench.mkdir("ann", "/since");
    bench.advance(seconds(3));
    let seen =
        bench.node("n1").mirror.as_ref().map(|copy| MirrorPosition { sequence: copy.mark.sequence + 1, ..copy.mark });
    // The rows that the node kept are lost with a disk, and the journal comes back as it was.
    bench.rows = backup;
    bench.restart_master();
    bench.node_mut("n1").mirror = None;
    bench.join_with_disks("n1", (seen, removed), away);
    assert_eq!(bench.rebuild_status().state, RebuildState::Running);
}
