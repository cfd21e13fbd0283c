//! A node that is written to, over real connections: along a chain, broken off and gone on with, behind what is there.
#![allow(clippy::unwrap_used)]

mod fake_cloud;

use std::{fs::File, net::TcpListener, os::fd::AsFd};

use fake_cloud::{
    FakeCloud, FakeNode, ask_to_write, content, damage, header, put, put_along, send_frames, write_right,
};
use net::transfer::TransferStream;
use protocol::{
    CarrierChoice, Digest, LeaseId, ResumeKey, SliceId, Status,
    message::{
        client_master::Source,
        local::{LocalReply, LocalRequest},
        node_master::Report,
        transfer::{ResumeFrom, TransferReply},
    },
    ticket::{SignedTicket, TicketRight},
};

const MIB: usize = 1 << 20;
/// Sent before a connection is cut: more than the sockets of both ends hold, so that the node has received some.
const BROKEN_OFF_AT: usize = 20 * MIB + 7;

fn digest(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

fn stored(bytes: &[u8]) -> TransferReply {
    TransferReply::Stored { bytes: bytes.len() as u64, digest: digest(bytes) }
}

fn resumable(slice: u128, key: u128) -> TicketRight {
    TicketRight::Write { lease: LeaseId(1), header: header(slice), resume: Some(ResumeKey(key)), base: None }
}

fn behind(slice: u128, base: u128) -> TicketRight {
    TicketRight::Write { lease: LeaseId(1), header: header(slice), resume: None, base: Some(SliceId(base)) }
}

/// Waits until a node reports that it has a slice.
async fn report_of(cloud: &mut FakeCloud, node: &FakeNode, slice: u128) {
    let report = cloud.report(node.session).await;
    assert!(matches!(&report, Report::Stored(stored) if stored.header.slice == SliceId(slice)), "{report:?}");
}

/// Begins an upload with key 1, sends so much of it, and cuts the connection.
async fn break_off(cloud: &FakeCloud, node: &FakeNode, slice: u128, bytes: &[u8]) {
    let mut stream = cloud.connect(node).await;
    let reply = ask_to_write(&mut stream, cloud.ticket(&node.id, resumable(slice, 1)), vec![]).await;
    assert_eq!(reply, TransferReply::Ready);
    send_frames(&mut stream, bytes).await;
    drop(stream);
}

/// Asks to go on with the upload with key 1; the connection and what is there.
async fn go_on(cloud: &FakeCloud, node: &FakeNode, slice: u128) -> (TransferStream, TransferReply) {
    let mut stream = cloud.connect(node).await;
    let reply = ask_to_write(&mut stream, cloud.ticket(&node.id, resumable(slice, 1)), vec![]).await;
    (stream, reply)
}

/// Goes on from `bytes` of the content.
async fn send_rest(mut stream: TransferStream, content: &[u8], bytes: u64) -> TransferReply {
    stream.send(&ResumeFrom(bytes)).await.unwrap();
    assert_eq!(stream.receive::<TransferReply>().await.unwrap(), TransferReply::Ready);
    send_frames(&mut stream, &content[bytes as usize..]).await;
    stream.end_frames().await.unwrap();
    stream.receive().await.unwrap()
}

fn partial_bytes(reply: &TransferReply, content: &[u8]) -> u64 {
    let TransferReply::Partial { bytes, digest: found } = reply else { panic!("{reply:?}") };
    assert_eq!(*found, digest(&content[..*bytes as usize]));
    *bytes
}

// Promise 1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_that_is_sent_once_is_stored_by_all_nodes_of_its_chain() {
    let mut cloud = FakeCloud::start().await;
    let nodes = [cloud.node("n1").await, cloud.node("n2").await, cloud.node("n3").await];
    let mut stream = cloud.connect(&nodes[0]).await;
    for (slice, bytes) in [(1, content(9 * MIB + 17)), (2, content(3)), (3, vec![])] {
        let chain = nodes.windows(2).map(|pair| cloud.source_with(&pair[0], &pair[1], write_right(slice))).collect();
        let reply = put_along(&mut stream, cloud.write_ticket(&nodes[0], slice), chain, &bytes).await;
        assert_eq!(reply, stored(&bytes));
        for node in &nodes {
            // The only report of each: nobody says that something failed.
            loop {
                if let Some(held) = try_get(&cloud, node, slice).await {
                    assert!(held == bytes, "slice {slice}");
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn try_get(cloud: &FakeCloud, node: &FakeNode, slice: u128) -> Option<Vec<u8>> {
    match cloud.get(node, slice).await {
        Ok(bytes) => Some(bytes),
        Err(refusal) => {
            assert_eq!(refusal.status(), Status::NotFound);
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_of_a_chain_reports_for_itself() {
    for carrier in [CarrierChoice::Tcp, CarrierChoice::Quic] {
        pass_along(FakeCloud::start_with(carrier).await).await;
    }
}

async fn pass_along(mut cloud: FakeCloud) {
    let (first, next) = (cloud.node("n1").await, cloud.node("n2").await);
    let mut stream = cloud.connect(&first).await;
    let chain = vec![cloud.source_with(&first, &next, write_right(1))];
    put_along(&mut stream, cloud.write_ticket(&first, 1), chain, &content(MIB)).await;
    report_of(&mut cloud, &next, 1).await;
    report_of(&mut cloud, &first, 1).await;
    assert!(cloud.get(&first, 1).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_goes_on_alone_where_the_next_one_is_gone_or_refuses_and_says_so() {
    let mut cloud = FakeCloud::start().await;
    let (first, next) = (cloud.node("n1").await, cloud.node("n2").await);
    let bytes = content(6 * MIB);
    let mut stream = cloud.connect(&first).await;
    // A port at which nobody listens any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let absent = Source { address: gone, ..cloud.source_with(&first, &next, write_right(1)) };
    let wrong = cloud.source_with(&first, &next, TicketRight::Read { slice: SliceId(2), from: 0, until: 9 });
    for (slice, source) in [(1, absent), (2, wrong)] {
        let reply = put_along(&mut stream, cloud.write_ticket(&first, slice), vec![source], &bytes).await;
        assert_eq!(reply, stored(&bytes));
        let mut reports = [cloud.report(first.session).await, cloud.report(first.session).await];
        reports.sort_by_key(|report| matches!(report, Report::Stored(_)));
        let [failed, stored] = reports;
        assert_eq!(failed, Report::ForwardFailed { slice: SliceId(slice), node: next.id.clone() });
        assert!(matches!(stored, Report::Stored(_)), "{stored:?}");
    }
    assert!(try_get(&cloud, &next, 1).await.is_none() && try_get(&cloud, &next, 2).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_whose_sender_goes_away_leaves_nothing_anywhere() {
    let mut cloud = FakeCloud::start().await;
    let (first, next) = (cloud.node("n1").await, cloud.node("n2").await);
    let mut stream = cloud.connect(&first).await;
    let chain = vec![cloud.source_with(&first, &next, write_right(1))];
    let reply = ask_to_write(&mut stream, cloud.write_ticket(&first, 1), chain).await;
    assert_eq!(reply, TransferReply::Ready);
    send_frames(&mut stream, &content(8 * MIB)).await;
    drop(stream);
    // The same slice can be written there again, whole: nothing half was kept.
    cloud.put(&first, 1, b"whole").await;
    cloud.put(&next, 1, b"whole").await;
    assert_eq!(cloud.get(&next, 1).await.unwrap(), b"whole");
}

// Promise 6, 53.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_upload_goes_on_where_it_broke_off_with_the_digest_of_the_whole() {
    for carrier in [CarrierChoice::Tcp, CarrierChoice::Quic] {
        go_on_after_a_break(FakeCloud::start_with(carrier).await).await;
    }
}

async fn go_on_after_a_break(mut cloud: FakeCloud) {
    let node = cloud.node("n1").await;
    let bytes = content(22 * MIB + 123);
    break_off(&cloud, &node, 1, &bytes[..BROKEN_OFF_AT]).await;
    // The new connection may come before the node has noticed that the old one is gone.
    let (stream, reply) = go_on(&cloud, &node, 2).await;
    let there = partial_bytes(&reply, &bytes);
    assert!(there > 0 && there.is_multiple_of(65_536), "{there}");
    drop(stream);
    let (stream, reply) = go_on(&cloud, &node, 3).await;
    assert_eq!(partial_bytes(&reply, &bytes), there, "to look at it takes nothing away");
    assert_eq!(send_rest(stream, &bytes, there).await, stored(&bytes));
    report_of(&mut cloud, &node, 3).await;
    assert!(cloud.get(&node, 3).await.unwrap() == bytes);
    assert_eq!(go_on(&cloud, &node, 4).await.1, TransferReply::Ready, "what is done is not gone on with");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_is_replaced_by_the_next_attempt() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(5 * MIB);
    let (mut hanging, reply) = go_on(&cloud, &node, 1).await;
    assert_eq!(reply, TransferReply::Ready);
    send_frames(&mut hanging, &bytes[..3 * MIB]).await;
    let (stream, reply) = go_on(&cloud, &node, 2).await;
    let there = match &reply {
        // Nothing had arrived yet.
        TransferReply::Ready => 0,
        reply => partial_bytes(reply, &bytes),
    };
    let mut stream = stream;
    if there > 0 {
        assert_eq!(send_rest(stream, &bytes, there).await, stored(&bytes));
    } else {
        send_frames(&mut stream, &bytes).await;
        stream.end_frames().await.unwrap();
        assert_eq!(stream.receive::<TransferReply>().await.unwrap(), stored(&bytes));
    }
    report_of(&mut cloud, &node, 2).await;
    assert!(hanging.receive::<TransferReply>().await.is_err(), "the old connection was cut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_content_begins_anew_and_a_wrong_ticket_sees_nothing() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let (old, new) = (content(BROKEN_OFF_AT), vec![7; 3 * MIB]);
    break_off(&cloud, &node, 1, &old).await;
    let mut stream = cloud.connect(&node).await;
    let other = ask_to_write(&mut stream, cloud.ticket(&node.id, resumable(2, 2)), vec![]).await;
    assert_eq!(other, TransferReply::Ready);
    let (stream, reply) = go_on(&cloud, &node, 3).await;
    assert!(partial_bytes(&reply, &old) > 0);
    assert_eq!(send_rest(stream, &new, 0).await, stored(&new));
    report_of(&mut cloud, &node, 3).await;
    assert!(cloud.get(&node, 3).await.unwrap() == new);
}

// Promise 6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_upload_survives_a_restart_of_its_node_which_tells_the_master_of_it() {
    for carrier in [CarrierChoice::Tcp, CarrierChoice::Quic] {
        go_on_after_a_restart(FakeCloud::start_with(carrier).await).await;
    }
}

async fn go_on_after_a_restart(mut cloud: FakeCloud) {
    let node = cloud.node("n1").await;
    let bytes = content(22 * MIB);
    let (mut stream, _) = go_on(&cloud, &node, 1).await;
    send_frames(&mut stream, &bytes[..BROKEN_OFF_AT]).await;
    // The node stops with the upload under way.
    let node = cloud.restart(node).await;
    let Report::Partials(partials) = cloud.report(node.session).await else { panic!("no partials") };
    assert_eq!((partials[0].user.as_str(), partials[0].key), ("alice", ResumeKey(1)));
    let (stream, reply) = go_on(&cloud, &node, 2).await;
    let there = partial_bytes(&reply, &bytes);
    assert_eq!(there, partials[0].bytes);
    assert_eq!(send_rest(stream, &bytes, there).await, stored(&bytes));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_resumed_is_not_passed_on_and_the_master_is_told() {
    let mut cloud = FakeCloud::start().await;
    let (first, next) = (cloud.node("n1").await, cloud.node("n2").await);
    let bytes = content(22 * MIB);
    break_off(&cloud, &first, 1, &bytes[..BROKEN_OFF_AT]).await;
    let mut stream = cloud.connect(&first).await;
    let chain = vec![cloud.source_with(&first, &next, write_right(2))];
    let reply = ask_to_write(&mut stream, cloud.ticket(&first.id, resumable(2, 1)), chain).await;
    let there = partial_bytes(&reply, &bytes);
    assert_eq!(send_rest(stream, &bytes, there).await, stored(&bytes));
    let failed = Report::ForwardFailed { slice: SliceId(2), node: next.id.clone() };
    assert_eq!(cloud.report(first.session).await, failed);
}

// Promise 7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_begins_with_the_verified_bytes_of_its_base_at_every_node_of_its_chain() {
    let mut cloud = FakeCloud::start().await;
    let (first, next) = (cloud.node("n1").await, cloud.node("n2").await);
    let old = content(2 * MIB + 77);
    for node in [&first, &next] {
        cloud.put(node, 1, &old).await;
    }
    let more = content(MIB + 5);
    let whole = [&old[..], &more].concat();
    let mut stream = cloud.connect(&first).await;
    let chain = vec![cloud.source_with(&first, &next, behind(2, 1))];
    let reply = put_along(&mut stream, cloud.ticket(&first.id, behind(2, 1)), chain, &more).await;
    assert_eq!(reply, stored(&whole));
    report_of(&mut cloud, &next, 2).await;
    for node in [&first, &next] {
        assert!(cloud.get(node, 2).await.unwrap() == whole);
        assert!(cloud.get(node, 1).await.unwrap() == old, "the base is as it was");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_to_a_bad_or_missing_copy_is_sent_elsewhere() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let old = content(2 * MIB);
    cloud.put(&node, 1, &old).await;
    damage(&node.file_with(&old), 1_500_000);
    let mut stream = cloud.connect(&node).await;
    let bad = put(&mut stream, cloud.ticket(&node.id, behind(2, 1)), b"more").await;
    assert!(matches!(&bad, TransferReply::Refused(why) if why.status() == Status::Unavailable), "{bad:?}");
    assert_eq!(cloud.report(node.session).await, Report::Corrupt(SliceId(1)));
    let missing = put(&mut stream, cloud.ticket(&node.id, behind(3, 9)), b"more").await;
    assert!(matches!(&missing, TransferReply::Refused(why) if why.status() == Status::Unavailable), "{missing:?}");
}

/// Passes a file at a node's local door; all answers but those that tell of progress, whose bytes are counted.
async fn pass(
    cloud: &FakeCloud,
    node: &FakeNode,
    right: SignedTicket,
    chain: Vec<Source>,
    file: &File,
    bytes: u64,
) -> (u64, LocalReply) {
    let mut door = cloud.connect_local(node).await;
    let request = LocalRequest::Store { ticket: right, chain, bytes };
    door.send_with_file(&request, file.as_fd()).await.unwrap();
    let mut told = 0;
    loop {
        match door.receive::<LocalReply>().await.unwrap().unwrap().0 {
            LocalReply::Progress { bytes } | LocalReply::Partial { bytes } => told += bytes,
            last => return (told, last),
        }
    }
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_passed_by_descriptor_is_stored_and_forwarded_along_the_chain() {
    let mut cloud = FakeCloud::start().await;
    let (first, second) = (cloud.node("n1").await, cloud.node("n2").await);
    let bytes = content(35 * MIB + 11);
    let chain = vec![cloud.source_with(&first, &second, write_right(1))];
    let file = file_of(&bytes);
    let (told, reply) = pass(&cloud, &first, cloud.write_ticket(&first, 1), chain, &file, bytes.len() as u64).await;
    assert_eq!(reply, LocalReply::Stored { bytes: bytes.len() as u64, digest: digest(&bytes) });
    assert_eq!(told, bytes.len() as u64);
    report_of(&mut cloud, &first, 1).await;
    report_of(&mut cloud, &second, 1).await;
    for node in [&first, &second] {
        assert!(cloud.get(node, 1).await.unwrap() == bytes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passed_file_goes_on_where_a_sent_one_broke_off_if_it_is_the_same() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(22 * MIB + 123);
    for (slice, begins_alike) in [(2, true), (4, false)] {
        break_off(&cloud, &node, slice - 1, &bytes[..BROKEN_OFF_AT]).await;
        let mut whole = bytes.clone();
        whole[5] ^= u8::from(!begins_alike);
        let right = cloud.ticket(&node.id, resumable(slice, 1));
        let (told, reply) = pass(&cloud, &node, right, vec![], &file_of(&whole), whole.len() as u64).await;
        assert_eq!(reply, LocalReply::Stored { bytes: whole.len() as u64, digest: digest(&whole) });
        assert_eq!(told, whole.len() as u64, "what was kept is told too");
        report_of(&mut cloud, &node, slice).await;
        assert!(cloud.get(&node, slice).await.unwrap() == whole);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_passed_without_a_right_without_a_file_or_shorter_than_said_is_refused() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    let bytes = content(2 * MIB);
    let file = file_of(&bytes);
    let refused = |reply: LocalReply| match reply {
        LocalReply::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    let (_, reply) = pass(&cloud, &node, cloud.read_ticket(&node, 1), vec![], &file, MIB as u64).await;
    assert_eq!(refused(reply).status(), Status::Refused);
    let (_, reply) = pass(&cloud, &node, cloud.write_ticket(&node, 1), vec![], &file, bytes.len() as u64 + 1).await;
    assert!(refused(reply).message.contains("shorter"));
    let (_, pipe) = std::io::pipe().unwrap();
    let mut door = cloud.connect_local(&node).await;
    let request = LocalRequest::Store { ticket: cloud.write_ticket(&node, 2), chain: vec![], bytes: 7 };
    door.send_with_file(&request, pipe.as_fd()).await.unwrap();
    let (reply, _) = door.receive::<LocalReply>().await.unwrap().unwrap();
    assert!(refused(reply).message.contains("no ordinary file"));
    door.send(&request).await.unwrap();
    let (reply, _) = door.receive::<LocalReply>().await.unwrap().unwrap();
    assert!(refused(reply).message.contains("no file"));
    assert_eq!(cloud.get(&node, 1).await.err().map(|refusal| refusal.status()), Some(Status::NotFound));
}
