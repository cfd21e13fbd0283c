//! Third-party copies: a node fetches a slice from others because a client says so, and the client sees words only.
//! Real nodes, real connections; what passes between two nodes goes through a pipe that counts it and may break it.
#![allow(clippy::unwrap_used)]

mod fake_cloud;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fake_cloud::{FakeCloud, FakeNode, PATIENCE, content, header};
use net::transfer::TransferStream;
use protocol::{
    Digest, LeaseId, Refusal, ResumeKey, SliceId, Status, TransferQos,
    message::{
        client_master::Source,
        node_master::Report,
        transfer::{Pull, PullUpdate, TransferReply, TransferRequest},
    },
    ticket::{Delegate, SignedTicket, TicketRight},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// Some frames, and no whole number of blocks.
const BYTES: usize = (12 << 20) + 12_345;

/// A way to a node that counts what the node sends, and after so many bytes breaks or brings nothing more.
struct Pipe {
    address: SocketAddr,
    passed_bytes: Arc<AtomicU64>,
}

impl Pipe {
    async fn to(node: &FakeNode, bytes_max: u64) -> Self {
        Self::ending(node, bytes_max, true).await
    }

    async fn ending(node: &FakeNode, bytes_max: u64, by_breaking: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, passed_bytes) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let (count, node) = (Arc::clone(&passed_bytes), node.address);
        tokio::spawn(async move {
            while let Ok((puller, _)) = listener.accept().await {
                let (mut from_puller, mut to_puller) = puller.into_split();
                let (mut from_node, mut to_node) = TcpStream::connect(node).await.unwrap().into_split();
                let count = Arc::clone(&count);
                tokio::spawn(async move { tokio::io::copy(&mut from_puller, &mut to_node).await });
                tokio::spawn(async move {
                    let mut buffer = vec![0; 64 * 1024];
                    while let Ok(read @ 1..) = from_node.read(&mut buffer).await {
                        let passed = count.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
                        if passed > bytes_max && !by_breaking {
                            std::future::pending::<()>().await;
                        }
                        if passed > bytes_max || to_puller.write_all(&buffer[..read]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Self { address, passed_bytes }
    }

    fn passed_bytes(&self) -> u64 {
        self.passed_bytes.load(Ordering::Relaxed)
    }
}

/// Where slice 1 lies at `from`, with the client's ticket in the hand of `to`.
fn handed(cloud: &FakeCloud, to: &FakeNode, from: &FakeNode) -> Source {
    let ticket = cloud.handed(&cloud.read_ticket(from, 1), to);
    Source { ticket, ..cloud.source(to, from, 1) }
}

/// The same by way of a pipe.
fn handed_by(cloud: &FakeCloud, to: &FakeNode, from: &FakeNode, pipe: &Pipe) -> Source {
    Source { address: pipe.address, ..handed(cloud, to, from) }
}

/// A right to write slice 2; what comes of it is kept when it breaks off.
fn resumable(cloud: &FakeCloud, node: &FakeNode) -> SignedTicket {
    let right = TicketRight::Write { lease: LeaseId(1), header: header(2), resume: Some(ResumeKey(7)), base: None };
    cloud.ticket(&node.id, right)
}

/// What is to be said to a node that is to copy slice 1.
fn order(write: SignedTicket, sources: Vec<Source>) -> TransferRequest {
    TransferRequest::Pull(Pull {
        write,
        chain: vec![],
        slice: SliceId(1),
        bytes: BYTES as u64,
        sources,
        authority: None,
    })
}

/// Orders a copy and answers the node to its end; each time it wants sources it is told of the next of `later`.
async fn copy(
    stream: &mut TransferStream,
    request: TransferRequest,
    mut later: Vec<Vec<Source>>,
) -> Result<(u64, Digest), Refusal> {
    stream.send(&request).await.unwrap();
    let mut told = 0;
    loop {
        match timeout(PATIENCE, stream.receive::<TransferReply>()).await.unwrap().unwrap() {
            TransferReply::Pulling { bytes, wants } => {
                assert!(bytes >= told, "{bytes} after {told}");
                told = bytes;
                let wanted = wants.is_some() && !later.is_empty();
                let sources = if wanted { later.remove(0) } else { Vec::new() };
                stream.send(&PullUpdate { qos: TransferQos::default(), sources }).await.unwrap();
            }
            TransferReply::Stored { bytes, digest } => return Ok((bytes, digest)),
            TransferReply::Refused(refusal) => return Err(refusal),
            other => panic!("{other:?}"),
        }
    }
}

fn whole() -> (u64, Digest) {
    (BYTES as u64, Digest(*blake3::hash(&content(BYTES)).as_bytes()))
}

/// Two nodes, the first of which has slice 1.
async fn two_nodes() -> (FakeCloud, FakeNode, FakeNode) {
    let mut cloud = FakeCloud::start().await;
    let (from, to) = (cloud.node("from").await, cloud.node("to").await);
    cloud.put(&from, 1, &content(BYTES)).await;
    (cloud, from, to)
}

// Promise 54.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_makes_a_copy_of_its_own_and_tells_the_master_before_the_client() {
    let (mut cloud, from, to) = two_nodes().await;
    let mut client = cloud.connect(&to).await;
    let request = order(cloud.write_ticket(&to, 2), vec![handed(&cloud, &to, &from)]);
    assert_eq!(copy(&mut client, request.clone(), vec![]).await.unwrap(), whole());
    let report = cloud.report(to.session).await;
    assert!(matches!(&report, Report::Stored(stored) if stored.header.slice == SliceId(2)), "{report:?}");
    assert!(cloud.get(&to, 2).await.unwrap() == content(BYTES));
    // The connection is good for more, and the ticket is not.
    assert_eq!(copy(&mut client, request, vec![]).await.unwrap_err().status(), Status::Refused);
}

// Promise 54.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_goes_on_from_another_node_at_the_byte_after_where_its_source_breaks_off() {
    let (mut cloud, from, to) = two_nodes().await;
    let other = cloud.node("other").await;
    cloud.put(&other, 1, &content(BYTES)).await;
    let (breaking, good) = (Pipe::to(&from, 6 << 20).await, Pipe::to(&other, u64::MAX).await);
    let sources = vec![handed_by(&cloud, &to, &from, &breaking), handed_by(&cloud, &to, &other, &good)];
    let mut client = cloud.connect(&to).await;
    let copied = copy(&mut client, order(cloud.write_ticket(&to, 2), sources), vec![]).await;
    assert_eq!(copied.unwrap(), whole());
    assert!(breaking.passed_bytes() > 6 << 20, "the fault has fired");
    assert!(good.passed_bytes() < (8 << 20), "{} bytes came twice", good.passed_bytes());
    assert!(cloud.get(&to, 2).await.unwrap() == content(BYTES));
}

// Promise 54.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_source_is_left_the_client_is_asked_once_for_those_that_are_there_now() {
    let (cloud, from, to) = two_nodes().await;
    let (breaking, good) = (Pipe::to(&from, 6 << 20).await, Pipe::to(&from, u64::MAX).await);
    let (first, second) = (handed_by(&cloud, &to, &from, &breaking), handed_by(&cloud, &to, &from, &good));
    let mut client = cloud.connect(&to).await;
    let request = order(cloud.write_ticket(&to, 2), vec![first.clone()]);
    assert_eq!(copy(&mut client, request, vec![vec![second.clone()]]).await.unwrap(), whole());
    assert!(good.passed_bytes() < (8 << 20), "{} bytes came twice", good.passed_bytes());
    // And those that do not help are not asked for again and again.
    let request = order(cloud.write_ticket(&to, 3), vec![]);
    let refused = copy(&mut client, request, vec![vec![first.clone()], vec![first], vec![second]]).await.unwrap_err();
    assert_eq!(refused.status(), Status::Unavailable, "{refused}");
    assert!(refused.message.contains("cannot copy slice"), "{refused}");
}

// Promise 54.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_whose_client_goes_away_is_kept_and_gone_on_with() {
    let (mut cloud, from, to) = two_nodes().await;
    let halting = Pipe::ending(&from, 6 << 20, false).await;
    let mut client = cloud.connect(&to).await;
    let source = handed_by(&cloud, &to, &from, &halting);
    client.send(&order(resumable(&cloud, &to), vec![source])).await.unwrap();
    let mut here = 0;
    while here < 4 << 20 {
        let TransferReply::Pulling { bytes, .. } = client.receive().await.unwrap() else { panic!("no word") };
        here = bytes;
        client.send(&PullUpdate { qos: TransferQos::default(), sources: vec![] }).await.unwrap();
    }
    drop(client);
    let good = Pipe::to(&from, u64::MAX).await;
    let mut again = cloud.connect(&to).await;
    let endless = TransferQos { rate_bytes_per_second: Some(u64::MAX), ..TransferQos::default() };
    again.queue(&TransferRequest::Qos(endless)).await.unwrap();
    let request = order(resumable(&cloud, &to), vec![handed_by(&cloud, &to, &from, &good)]);
    assert_eq!(copy(&mut again, request, vec![]).await.unwrap(), whole());
    let came_again = good.passed_bytes();
    assert!(came_again > 0 && came_again < BYTES as u64 - here + (1 << 20), "{came_again} bytes behind {here}");
    let report = cloud.report(to.session).await;
    assert!(matches!(&report, Report::Stored(stored) if stored.header.slice == SliceId(2)), "{report:?}");
    assert!(cloud.get(&to, 2).await.unwrap() == content(BYTES));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_node_itself_has_is_read_from_its_disk_with_the_clients_own_ticket() {
    let (mut cloud, from, to) = two_nodes().await;
    let mut client = cloud.connect(&from).await;
    // Nobody listens there.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let own = Source { address: nowhere, ticket: cloud.read_ticket(&from, 1), ..handed(&cloud, &to, &from) };
    let copied = copy(&mut client, order(cloud.write_ticket(&from, 2), vec![own.clone()]), vec![]).await;
    assert_eq!(copied.unwrap(), whole());
    cloud.report(from.session).await;
    assert!(cloud.get(&from, 2).await.unwrap() == content(BYTES));
    // A right to write alone opens nothing, nor does a ticket in another's hand or for another slice.
    let of_another = Source { ticket: cloud.handed(&cloud.read_ticket(&from, 1), &to), ..own.clone() };
    let of_another_slice = Source { ticket: cloud.read_ticket(&from, 9), ..own };
    for source in [of_another, of_another_slice] {
        let request = order(cloud.write_ticket(&from, 3), vec![source]);
        assert_eq!(copy(&mut client, request, vec![]).await.unwrap_err().status(), Status::Unavailable);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_copies_nothing_with_a_ticket_that_was_not_handed_to_it() {
    let (mut cloud, from, to) = two_nodes().await;
    let other = cloud.node("other").await;
    let mut client = cloud.connect(&to).await;
    let not_handed = Source { ticket: cloud.read_ticket(&from, 1), ..handed(&cloud, &to, &from) };
    let to_another = handed(&cloud, &other, &from);
    for source in [not_handed, to_another] {
        let request = order(cloud.write_ticket(&to, 2), vec![source]);
        let refused = copy(&mut client, request, vec![]).await.unwrap_err();
        assert!(refused.message.contains("made for another client or node"), "{refused}");
    }
    // And it writes nothing without a right to write, however good the sources are.
    let mut stranger = cloud.connect_as_stranger(&to).await;
    let request = order(cloud.write_ticket(&to, 2), vec![handed(&cloud, &to, &from)]);
    assert_eq!(copy(&mut stranger, request, vec![]).await.unwrap_err().status(), Status::Refused);
    assert_eq!(cloud.get(&to, 2).await.unwrap_err().status(), Status::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_copy_goes_on_along_a_chain_while_it_comes() {
    let (mut cloud, from, to) = two_nodes().await;
    let next = cloud.node("next").await;
    let mut client = cloud.connect(&to).await;
    let right = || TicketRight::Write { lease: LeaseId(1), header: header(2), resume: None, base: None };
    let TransferRequest::Pull(pull) = order(cloud.write_ticket(&to, 2), vec![handed(&cloud, &to, &from)]) else {
        panic!("a copy")
    };
    let request = TransferRequest::Pull(Pull { chain: vec![cloud.source_with(&to, &next, right())], ..pull });
    assert_eq!(copy(&mut client, request, vec![]).await.unwrap(), whole());
    for node in [&to, &next] {
        let report = cloud.report(node.session).await;
        assert!(matches!(&report, Report::Stored(stored) if stored.header.slice == SliceId(2)), "{report:?}");
    }
    assert!(cloud.get(&next, 2).await.unwrap() == content(BYTES));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_told_to_whom_its_tickets_are_to_be_handed() {
    let (cloud, from, to) = two_nodes().await;
    let mut client = cloud.connect(&to).await;
    client.send(&order(cloud.write_ticket(&to, 2), vec![])).await.unwrap();
    let reply = client.receive::<TransferReply>().await.unwrap();
    assert_eq!(reply, TransferReply::Pulling { bytes: 0, wants: Some(Delegate::Node(to.id.clone())) });
    let word = PullUpdate { qos: TransferQos::default(), sources: vec![handed(&cloud, &to, &from)] };
    client.send(&word).await.unwrap();
    loop {
        match client.receive::<TransferReply>().await.unwrap() {
            TransferReply::Pulling { wants: None, .. } => {
                client.send(&PullUpdate { qos: TransferQos::default(), sources: vec![] }).await.unwrap();
            }
            reply => {
                assert_eq!(reply, TransferReply::Stored { bytes: whole().0, digest: whole().1 });
                return;
            }
        }
    }
}
