//! The rules as scripts: orders and completions in, actions out.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use protocol::{
    Digest, NodeId, Place, Reason, RecordFraming, ResumeKey, SectorPath, UserName, Version, limits,
    message::node_master::HeldState, ticket::SignedTicket,
};

use super::*;
use protocol::{JournalId, message::node_master::HeldSlice};

const NOW: Now = Now { monotonic: Duration::from_secs(5), unix_millis: 1_000 };
const SESSION: SessionId = SessionId(7);
const LATER_SESSION: SessionId = SessionId(9);

fn header(slice: u128) -> SliceHeader {
    SliceHeader {
        slice: SliceId(slice),
        path: SectorPath::parse("/a").unwrap(),
        version: Version(1),
        owner: UserName::new("alice").unwrap(),
        modified_unix_millis: 0,
        copies: 2,
        records: RecordFraming::File,
        user: BTreeMap::new(),
        journal: JournalId(1),
        acl: None,
    }
}

fn metadata(slice: u128) -> SliceMetadata {
    SliceMetadata { header: header(slice), bytes: 3, digest: Digest([0; 32]) }
}

fn replicate(slice: u128) -> Order {
    let ticket = SignedTicket { ticket: vec![], signature: vec![], delegation: None };
    let from = Source {
        node: NodeId::new("other").unwrap(),
        place: Place::new("s", "r"),
        address: ([127, 0, 0, 1], 1).into(),
        distance: None,
        local: None,
        ticket,
    };
    Order::Replicate { header: header(slice), bytes: 3, from, qos: TransferQos::default() }
}

fn header_at(slice: u128, path: &str) -> SliceHeader {
    SliceHeader { path: SectorPath::parse(path).unwrap(), ..header(slice) }
}

fn place(slice: u128, path: &str) -> Order {
    Order::Place { header: header_at(slice, path) }
}

fn asker(request: u64) -> ReplyTo {
    ReplyTo { session: SESSION, request }
}

fn unavailable() -> Refusal {
    Refusal::new(Reason::Unavailable, "gone")
}

fn actions(node: &mut Node) -> Vec<NodeAction> {
    std::iter::from_fn(|| node.poll_action()).collect()
}

/// The reports among the next actions, with their ids.
fn reports(node: &mut Node) -> Vec<(ReportId, Report)> {
    actions(node)
        .into_iter()
        .filter_map(|action| match action {
            NodeAction::Report { id, report, .. } => Some((id, report)),
            _ => None,
        })
        .collect()
}

fn unjoined() -> Node {
    Node::new(NodeLimits { status_interval: Duration::from_secs(1), copies_max: 2 })
}

/// A node whose empty inventory the master has acknowledged.
fn joined() -> Node {
    let mut node = unjoined();
    join(&mut node, vec![]);
    node
}

fn inventory(slices: Vec<HeldSlice>) -> NodeCompletion {
    NodeCompletion::Inventory(vec![MarkedSlices { mark: None, slices }])
}

fn join(node: &mut Node, held: Vec<HeldSlice>) {
    node.handle_session_opened(NOW, SESSION);
    assert!(actions(node).contains(&NodeAction::TakeInventory));
    node.handle_completion(NOW, inventory(held));
    loop {
        let pages = reports(node);
        assert_eq!(pages.len(), 1, "one page at a time");
        node.handle_completion(NOW, NodeCompletion::Acknowledged(pages[0].0));
        match &pages[0].1 {
            Report::Inventory { last: true, .. } => break,
            Report::Inventory { last: false, .. } | Report::DisksSeen(_) => {}
            other => panic!("{other:?} before the inventory was told"),
        }
    }
}

#[test]
fn only_the_master_of_the_present_session_orders_a_node() {
    let mut node = joined();
    let stranger = ReplyTo { session: SessionId(8), request: 1 };
    node.handle_message(NOW, stranger, Order::Remove(SliceId(1)));
    let answered = actions(&mut node);
    assert!(matches!(&answered[..], [NodeAction::Ack { to, ack: Ack::Refused(_) }] if *to == stranger), "{answered:?}");
}

#[test]
fn a_place_is_acknowledged_only_when_the_slice_stands_there() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), place(1, "/a"));
    let started = actions(&mut node);
    let [NodeAction::Move { id, work: Move::Place { .. } }] = &started[..] else { panic!("{started:?}") };
    node.handle_completion(NOW, NodeCompletion::Moved { id: *id, result: Ok(()) });
    assert_eq!(actions(&mut node), [NodeAction::Ack { to: asker(1), ack: Ack::Done }]);
}

#[test]
fn a_place_that_failed_is_refused() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), place(1, "/a"));
    actions(&mut node);
    node.handle_completion(NOW, NodeCompletion::Moved { id: MoveId(0), result: Err(unavailable()) });
    assert_eq!(actions(&mut node), [NodeAction::Ack { to: asker(1), ack: Ack::Refused(unavailable()) }]);
}

#[test]
fn moves_of_the_same_slice_or_path_keep_the_order_of_the_orders() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), place(1, "/a"));
    node.handle_message(NOW, asker(2), place(1, "/b"));
    node.handle_message(NOW, asker(3), place(2, "/b"));
    node.handle_message(NOW, asker(4), place(3, "/c"));
    let started = |node: &mut Node| -> Vec<Move> {
        let moves = actions(node).into_iter().filter_map(|action| match action {
            NodeAction::Move { work, .. } => Some(work),
            _ => None,
        });
        moves.collect()
    };
    let to = |slice, path: &str| Move::Place { header: header_at(slice, path) };
    // Slice 3 has nothing to do with the others; the third order waits behind the second, which waits for the first.
    assert_eq!(started(&mut node), [to(1, "/a"), to(3, "/c")]);
    node.handle_completion(NOW, NodeCompletion::Moved { id: MoveId(0), result: Ok(()) });
    assert_eq!(started(&mut node), [to(1, "/b")]);
    node.handle_completion(NOW, NodeCompletion::Moved { id: MoveId(2), result: Ok(()) });
    assert_eq!(started(&mut node), [to(2, "/b")]);
}

#[test]
fn copies_beyond_the_bound_wait_for_a_running_one() {
    let mut node = joined();
    for slice in 1..=3 {
        node.handle_message(NOW, asker(slice), replicate(u128::from(slice)));
    }
    let started = actions(&mut node);
    let copies = started.iter().filter(|action| matches!(action, NodeAction::StartCopy(_))).count();
    assert_eq!(copies, 2);
    node.handle_completion(NOW, NodeCompletion::Copied { slice: SliceId(1), result: Ok(metadata(1)), kept_bytes: 0 });
    let after = actions(&mut node);
    assert!(
        after.iter().any(|action| matches!(action, NodeAction::StartCopy(copy) if copy.header.slice == SliceId(3)))
    );
    assert!(after.iter().any(
        |action| matches!(action, NodeAction::Report { report: Report::Stored(stored), .. } if *stored == metadata(1))
    ));
}

#[test]
fn an_order_to_copy_that_comes_twice_copies_once() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), replicate(1));
    node.handle_message(NOW, asker(2), replicate(1));
    let started = actions(&mut node);
    assert_eq!(started.iter().filter(|action| matches!(action, NodeAction::StartCopy(_))).count(), 1);
    assert_eq!(started.iter().filter(|action| matches!(action, NodeAction::Ack { ack: Ack::Done, .. })).count(), 2);
}

#[test]
fn a_failed_copy_is_reported_with_its_reason() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), replicate(1));
    actions(&mut node);
    node.handle_completion(
        NOW,
        NodeCompletion::Copied { slice: SliceId(1), result: Err(unavailable()), kept_bytes: 0 },
    );
    let told = reports(&mut node);
    assert_eq!(told[0].1, Report::ReplicateFailed { slice: SliceId(1), refusal: unavailable(), kept_bytes: 0 });
}

#[test]
fn a_slice_removed_while_it_is_copied_is_removed_when_the_copy_ends() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), replicate(1));
    node.handle_message(NOW, asker(2), Order::Remove(SliceId(1)));
    actions(&mut node);
    node.handle_completion(NOW, NodeCompletion::Copied { slice: SliceId(1), result: Ok(metadata(1)), kept_bytes: 0 });
    let next = actions(&mut node);
    let [NodeAction::Move { id, work: Move::Remove(SliceId(1)) }] = next[..] else { panic!("{next:?}") };
    node.handle_completion(NOW, NodeCompletion::Moved { id, result: Ok(()) });
    assert_eq!(reports(&mut node)[0].1, Report::Removed(SliceId(1)));
}

#[test]
fn a_removal_is_answered_and_reported_when_the_slice_is_gone_and_not_before() {
    let mut node = joined();
    let refusals = [None, Some(Refusal::new(Reason::NotFound, "none")), Some(Refusal::new(Reason::Failed, "disk"))];
    for (refusal, is_gone) in refusals.into_iter().zip([true, true, false]) {
        node.handle_message(NOW, asker(1), Order::Remove(SliceId(1)));
        let started = actions(&mut node);
        let [NodeAction::Move { id, .. }] = &started[..] else { panic!("{started:?}") };
        node.handle_completion(NOW, NodeCompletion::Moved { id: *id, result: refusal.map_or(Ok(()), Err) });
        let ended = actions(&mut node);
        let is_done = |action: &NodeAction| matches!(action, NodeAction::Ack { ack: Ack::Done, .. });
        let reported = ended.iter().find_map(|action| match action {
            NodeAction::Report { id, report: Report::Removed(_), .. } => Some(*id),
            _ => None,
        });
        assert_eq!((ended.iter().any(is_done), reported.is_some()), (is_gone, is_gone), "{ended:?}");
        reported.into_iter().for_each(|id| node.handle_completion(NOW, NodeCompletion::Acknowledged(id)));
    }
}

#[test]
fn slices_of_a_failed_disk_are_reported_removed_after_earlier_reports_on_them() {
    let mut node = joined();
    node.handle_completion(NOW, NodeCompletion::Stored(metadata(1)));
    node.handle_completion(NOW, NodeCompletion::SlicesLost(vec![SliceId(1), SliceId(2)]));
    let first = reports(&mut node);
    assert!(matches!(&first[..], [(_, Report::Stored(_))]), "{first:?}");
    node.handle_completion(NOW, NodeCompletion::Acknowledged(first[0].0));
    let gone: Vec<_> = reports(&mut node).into_iter().map(|(_, report)| report).collect();
    assert_eq!(gone, [Report::Removed(SliceId(1)), Report::Removed(SliceId(2))]);
}

#[test]
fn reports_wait_until_the_whole_inventory_is_acknowledged() {
    let mut node = unjoined();
    node.handle_session_opened(NOW, SESSION);
    node.handle_completion(NOW, NodeCompletion::Stored(metadata(9)));
    assert!(reports(&mut node).is_empty(), "nothing is told before the inventory");
    let held = |slice| HeldSlice { metadata: metadata(slice), state: HeldState::Placed };
    let slices = limits::INVENTORY_PAGE_SLICES_MAX as u128 + 1;
    node.handle_completion(NOW, inventory((0..slices).map(held).collect()));
    let seen = reports(&mut node);
    assert!(matches!(&seen[..], [(_, Report::DisksSeen(None))]), "what is known of the disk comes first");
    node.handle_completion(NOW, NodeCompletion::Acknowledged(seen[0].0));
    let first = reports(&mut node);
    assert!(
        matches!(&first[..], [(_, Report::Inventory { last: false, slices })] if slices.len() == limits::INVENTORY_PAGE_SLICES_MAX)
    );
    node.handle_completion(NOW, NodeCompletion::Acknowledged(first[0].0));
    let second = reports(&mut node);
    assert!(matches!(&second[..], [(_, Report::Inventory { last: true, slices })] if slices.len() == 1));
    node.handle_completion(NOW, NodeCompletion::Acknowledged(second[0].0));
    assert!(matches!(&reports(&mut node)[..], [(_, Report::Stored(stored))] if *stored == metadata(9)));
}

#[test]
fn pages_are_cut_by_bytes_where_slices_carry_much_of_their_users() {
    let mut fat = metadata(1);
    fat.header.user.insert("k".into(), "v".repeat(60_000));
    let held = vec![HeldSlice { metadata: fat, state: HeldState::Placed }; 20];
    let mut node = unjoined();
    node.handle_session_opened(NOW, SESSION);
    node.handle_completion(NOW, inventory(held));
    let mut told = 0;
    while let Some((id, page)) = reports(&mut node).pop() {
        assert!(protocol::wire::codec::encode(&page).len() < limits::MESSAGE_BYTES_MAX);
        match page {
            Report::Inventory { slices, .. } => told += slices.len(),
            Report::DisksSeen(None) => {}
            other => panic!("{other:?}"),
        }
        node.handle_completion(NOW, NodeCompletion::Acknowledged(id));
    }
    assert_eq!(told, 20);
}

#[test]
fn a_lost_session_drops_reports_into_the_next_inventory() {
    let mut node = joined();
    node.handle_completion(NOW, NodeCompletion::Stored(metadata(1)));
    let in_flight = reports(&mut node)[0].0;
    node.handle_session_lost(SESSION);
    node.handle_completion(NOW, NodeCompletion::Stored(metadata(2)));
    assert!(actions(&mut node).is_empty(), "nobody is there to be told");
    join(&mut node, [1, 2].map(|slice| HeldSlice { metadata: metadata(slice), state: HeldState::Staged }).into());
    node.handle_completion(NOW, NodeCompletion::Acknowledged(in_flight));
    assert!(reports(&mut node).is_empty(), "the inventory has told both");
}

#[test]
fn what_an_earlier_session_ordered_and_has_not_begun_is_not_done() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), place(1, "/a"));
    node.handle_message(NOW, asker(2), place(1, "/b"));
    node.handle_message(NOW, asker(3), Order::Remove(SliceId(1)));
    node.handle_session_lost(SESSION);
    actions(&mut node);
    node.handle_completion(NOW, NodeCompletion::Moved { id: MoveId(0), result: Ok(()) });
    join(&mut node, vec![]);
    assert!(actions(&mut node).is_empty(), "the master may want the slice by now, and elsewhere");
}

#[test]
fn an_inventory_says_where_the_places_of_an_earlier_session_have_brought_the_slices() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), place(1, "/a"));
    node.handle_message(NOW, asker(2), place(2, "/b"));
    actions(&mut node);
    node.handle_session_lost(SESSION);
    node.handle_session_opened(NOW, LATER_SESSION);
    node.handle_completion(NOW, NodeCompletion::Moved { id: MoveId(0), result: Ok(()) });
    assert!(!actions(&mut node).contains(&NodeAction::TakeInventory), "slice 2 is still on its way");
    node.handle_completion(NOW, NodeCompletion::Moved { id: MoveId(1), result: Ok(()) });
    assert!(actions(&mut node).contains(&NodeAction::TakeInventory));
}

#[test]
fn a_disk_that_hangs_delays_no_inventory_for_long_and_what_it_does_later_is_told() {
    let mut node = joined();
    node.handle_message(NOW, asker(1), place(1, "/a"));
    node.handle_session_lost(SESSION);
    node.handle_session_opened(NOW, LATER_SESSION);
    let is_taken = (0..100).any(|_| {
        let due = node.next_timeout().unwrap();
        node.handle_timeout(Now { monotonic: due, ..NOW });
        actions(&mut node).contains(&NodeAction::TakeInventory)
    });
    assert!(is_taken);
    node.handle_completion(NOW, NodeCompletion::Moved { id: MoveId(0), result: Ok(()) });
    assert!(actions(&mut node).contains(&NodeAction::Rejoin { session: LATER_SESSION }));
}

#[test]
fn a_second_report_on_a_slice_never_overtakes_the_first() {
    let mut node = joined();
    node.handle_completion(NOW, NodeCompletion::Stored(metadata(1)));
    node.handle_completion(NOW, NodeCompletion::FoundCorrupt(SliceId(1)));
    let first = reports(&mut node);
    assert!(matches!(&first[..], [(_, Report::Stored(_))]));
    node.handle_completion(NOW, NodeCompletion::Acknowledged(first[0].0));
    assert!(matches!(&reports(&mut node)[..], [(_, Report::Corrupt(SliceId(1)))]));
}

#[test]
fn a_master_that_answers_nothing_is_joined_anew_instead_of_growing_the_queue() {
    let mut node = joined();
    let mut rejoined = false;
    for slice in 0..100_000 {
        node.handle_completion(NOW, NodeCompletion::Stored(metadata(slice)));
        rejoined |= actions(&mut node).contains(&NodeAction::Rejoin { session: SESSION });
    }
    assert!(rejoined);
}

#[test]
fn a_status_is_due_at_once_and_then_every_interval_while_there_is_a_session() {
    let mut node = unjoined();
    assert_eq!(node.next_timeout(), None);
    node.handle_session_opened(NOW, SESSION);
    let status = NodeAction::ReportStatus { session: SESSION };
    assert!(actions(&mut node).contains(&status));
    assert_eq!(node.next_timeout(), Some(Duration::from_secs(6)));
    node.handle_timeout(NOW);
    assert!(!actions(&mut node).contains(&status), "not before its time");
    node.handle_timeout(NOW.after(Duration::from_secs(1)));
    assert!(actions(&mut node).contains(&status));
    node.handle_session_lost(SESSION);
    assert_eq!(node.next_timeout(), None);
}

#[test]
fn the_end_of_an_older_session_does_not_end_the_present_one() {
    let mut node = joined();
    node.handle_session_lost(SessionId(6));
    node.handle_completion(NOW, NodeCompletion::Stored(metadata(1)));
    assert_eq!(reports(&mut node).len(), 1);
}

#[test]
fn what_could_not_be_passed_on_is_reported_before_that_the_slice_is_stored() {
    let mut node = joined();
    let next = NodeId::new("next").unwrap();
    node.handle_completion(NOW, NodeCompletion::ForwardFailed { slice: SliceId(1), node: next.clone() });
    node.handle_completion(NOW, NodeCompletion::Stored(metadata(1)));
    let first = reports(&mut node);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].1, Report::ForwardFailed { slice: SliceId(1), node: next });
    node.handle_completion(NOW, NodeCompletion::Acknowledged(first[0].0));
    assert_eq!(reports(&mut node)[0].1, Report::Stored(metadata(1)));
}

#[test]
fn broken_uploads_are_told_behind_the_inventory_where_there_are_any() {
    let mut node = unjoined();
    join(&mut node, vec![]);
    node.handle_completion(NOW, NodeCompletion::Partials(vec![]));
    assert!(reports(&mut node).is_empty(), "there is nothing to tell");
    let partial = HeldPartial { user: UserName::new("ann").unwrap(), key: ResumeKey(1), bytes: 1 << 20 };
    node.handle_completion(NOW, NodeCompletion::Partials(vec![partial.clone()]));
    assert_eq!(reports(&mut node)[0].1, Report::Partials(vec![partial]));
}

#[test]
fn each_disks_mark_is_reported_before_its_slices_and_one_page_is_the_last() {
    let held = |slice| vec![HeldSlice { metadata: metadata(slice), state: HeldState::Placed }];
    let mark = |sequence| Some(MirrorPosition { journal: JournalId(1), generation: 1, sequence });
    let disks = [(mark(1), held(1)), (mark(2), Vec::new()), (None, held(3)), (mark(4), Vec::new())];
    let disks = disks.map(|(seen, slices)| MarkedSlices { mark: seen, slices }).to_vec();
    let mut node = unjoined();
    node.handle_session_opened(NOW, SESSION);
    node.handle_completion(NOW, NodeCompletion::Inventory(disks));
    let mut told = Vec::new();
    while let Some((id, report)) = reports(&mut node).pop() {
        told.push(report);
        node.handle_completion(NOW, NodeCompletion::Acknowledged(id));
    }
    let page = |slice, last| Report::Inventory { slices: held(slice), last };
    let expected = [Report::DisksSeen(mark(1)), page(1, false), Report::DisksSeen(None), page(3, true)];
    assert_eq!(told, expected);
}
