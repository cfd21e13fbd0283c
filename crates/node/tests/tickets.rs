//! Tickets at a real node over real connections. A stolen ticket is worthless, keys roll while nodes serve, and bytes
//! are readable on the wire only where the operator wants it.
#![allow(clippy::unwrap_used)]

mod fake_cloud;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use fake_cloud::{FakeCloud, FakeNode, SOME_NODE, content, get};
use net::{local::LocalStream, transfer::TransferStream};
use protocol::{
    CarrierChoice, NodeId, SliceId, Status, TransferQos, limits,
    message::{
        local::{LocalReply, LocalRequest},
        node_master::{Ack, Order},
        transfer::{TransferReply, TransferRequest},
    },
    ticket::{Delegate, Holder, SignedTicket, Ticket, TicketRight},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

// Promise 26.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stolen_ticket_opens_nothing_neither_for_a_stranger_nor_for_another_node() {
    let mut cloud = FakeCloud::start().await;
    let (node, other) = (cloud.node("n1").await, cloud.node("n2").await);
    cloud.put(&node, 1, b"some bytes").await;
    let stolen = cloud.read_ticket(&node, 1);
    let mut stranger = cloud.connect_as_stranger(&node).await;
    let refusal = get(&mut stranger, stolen.clone(), 1, 0..10).await.unwrap_err();
    assert_eq!(refusal.status(), Status::Refused);
    assert!(refusal.message.contains("made for another client or node"), "{refusal}");
    stranger.send(&TransferRequest::Write { ticket: cloud.write_ticket(&node, 2), chain: vec![] }).await.unwrap();
    assert!(matches!(stranger.receive::<TransferReply>().await.unwrap(), TransferReply::Refused(_)));
    // A certificate of the cloud is not enough, nor is a ticket that was assigned to another node.
    let mut as_node = cloud.connect_as_node(&node).await;
    assert!(get(&mut as_node, stolen.clone(), 1, 0..10).await.is_err());
    assert!(get(&mut as_node, cloud.handed(&stolen, &other), 1, 0..10).await.is_err());
    // And a client that claims a key must prove it.
    let mut liar = cloud.connect_as_stranger(&node).await;
    liar.queue(&TransferRequest::ProveKey { key: cloud.holder_key(), proof: vec![0; 64] }).await.unwrap();
    assert!(get(&mut liar, stolen.clone(), 1, 0..10).await.is_err());
    let mut door = LocalStream::connect(&node.local).await.unwrap();
    door.send(&LocalRequest::Open { ticket: stolen.clone(), slice: SliceId(1) }).await.unwrap();
    assert!(matches!(door.receive::<LocalReply>().await.unwrap().unwrap().0, LocalReply::Refused(_)));
    assert_eq!(cloud.get(&node, 1).await.unwrap(), b"some bytes", "its holder reads all the same");
}

/// Forwards bytes between a client and a node, and records them all.
async fn listen_in(node: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_node, mut to_node) = TcpStream::connect(node).await.unwrap().into_split();
            let kept = Arc::clone(&kept);
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_node).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = from_node.read(&mut buffer).await {
                    kept.lock().unwrap().extend_from_slice(&buffer[..read]);
                    to_client.write_all(&buffer[..read]).await.unwrap();
                }
            });
        }
    });
    (address, seen)
}

fn plain_ticket(cloud: &FakeCloud, node: &FakeNode, slice: u128, site: Option<&str>) -> SignedTicket {
    let right = TicketRight::Read { slice: SliceId(slice), from: 0, until: u64::MAX };
    let ticket = cloud.unsigned(&node.id, right, Holder::Client(cloud.holder_key()), u64::MAX);
    cloud.sign(&Ticket { plain_within: site.map(str::to_owned), ..ticket })
}

async fn ask_for_plain(stream: &mut TransferStream, ticket: &SignedTicket) -> TransferReply {
    stream.send(&TransferRequest::Plain { ticket: ticket.clone() }).await.unwrap();
    stream.receive().await.unwrap()
}

// Promise 26a.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_go_unencrypted_only_where_the_ticket_allows_it_within_the_nodes_site() {
    let mut cloud = FakeCloud::start().await;
    let (mut node, _) = cloud.node_with("n1", |settings| settings.site = "uic".into()).await;
    let bytes = content(300_000);
    cloud.put(&node, 1, &bytes).await;
    let (tapped, seen) = listen_in(node.address).await;
    node.address = tapped;
    let is_seen = || {
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.windows(64).any(|window| window == &bytes[1_000..1_064])
    };
    // Without permission, and between sites, nothing is sent unencrypted, and nothing can be read.
    for site in [None, Some("jhu")] {
        let ticket = plain_ticket(&cloud, &node, 1, site);
        let mut stream = cloud.connect(&node).await;
        assert!(matches!(ask_for_plain(&mut stream, &ticket).await, TransferReply::Refused(_)), "{site:?}");
        assert_eq!(get(&mut stream, ticket, 1, 0..300_000).await.unwrap(), bytes, "the connection is still good");
        assert!(!is_seen(), "{site:?}");
    }
    let ticket = plain_ticket(&cloud, &node, 1, Some("uic"));
    let mut stream = cloud.connect(&node).await;
    assert_eq!(ask_for_plain(&mut stream, &ticket).await, TransferReply::Ready);
    stream.go_plain().await.unwrap();
    assert_eq!(get(&mut stream, ticket, 1, 0..300_000).await.unwrap(), bytes);
    assert!(is_seen(), "it was wanted so");
    // On such a connection every ticket must allow it.
    let refusal = get(&mut stream, plain_ticket(&cloud, &node, 1, None), 1, 0..10).await.unwrap_err();
    assert!(refusal.message.contains("unencrypted"), "{refusal}");
    let mut stranger = cloud.connect_as_stranger(&node).await;
    let stolen = plain_ticket(&cloud, &node, 1, Some("uic"));
    assert!(matches!(ask_for_plain(&mut stranger, &stolen).await, TransferReply::Refused(_)), "a stranger may not ask");
}

// Promise 26.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_roll_while_a_node_serves_and_old_tickets_live_out_their_minute() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"some bytes").await;
    let before = cloud.read_ticket(&node, 1);
    cloud.roll_ticket_key();
    assert_eq!(cloud.get(&node, 1).await.unwrap(), b"some bytes", "the node knew this key before it was used");
    assert_eq!(cloud.tell_ticket_keys(&node).await, Ack::Done);
    for ticket in [before, cloud.read_ticket(&node, 1)] {
        assert_eq!(get(&mut cloud.connect(&node).await, ticket, 1, 0..10).await.unwrap(), b"some bytes");
    }
    cloud.roll_ticket_key();
    assert!(cloud.get(&node, 1).await.is_ok());
}

// Promise 27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_take_no_room_from_those_who_show_a_good_ticket() {
    let mut cloud = FakeCloud::start().await;
    // Room for four authenticated peers.
    let (node, _) = cloud.node_with("n1", |settings| settings.transfers_max = 1).await;
    let (mut silent, mut chattering) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        silent.push(TcpStream::connect(node.address).await.unwrap());
        let mut stream = cloud.connect_as_stranger(&node).await;
        stream.send(&TransferRequest::Qos(TransferQos::default())).await.unwrap();
        chattering.push(stream);
    }
    cloud.put(&node, 1, b"some bytes").await;
    assert_eq!(cloud.get(&node, 1).await.unwrap(), b"some bytes");
    // A proof of an unknown key, and an invalid ticket, prove nothing.
    let mut liar = cloud.connect(&node).await;
    let forged = SignedTicket { signature: vec![7; 64], ..cloud.read_ticket(&node, 1) };
    assert!(get(&mut liar, forged, 1, 0..10).await.is_err());
    assert_eq!(
        get(&mut liar, cloud.read_ticket(&node, 1), 1, 0..10).await.unwrap(),
        b"some bytes",
        "there is a second try"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_chatters_is_heard_for_so_many_words_and_no_more() {
    for carrier in [CarrierChoice::Tcp, CarrierChoice::Quic] {
        let mut cloud = FakeCloud::start_with(carrier).await;
        let node = cloud.node("n1").await;
        let mut stranger = cloud.connect_as_stranger(&node).await;
        let ended = async {
            // Each is at least a byte; what follows the last one that was read may have been in transit.
            for _ in 0..16 * limits::JOIN_BYTES_MAX {
                stranger.send(&TransferRequest::Qos(TransferQos::default())).await?;
            }
            Ok::<_, net::NetError>(())
        };
        assert!(ended.await.is_err(), "by {carrier:?}");
    }
}

// Promise 27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_of_a_revoked_machine_opens_nothing_and_its_connections_end() {
    let mut cloud = FakeCloud::start().await;
    let node = cloud.node("n1").await;
    cloud.put(&node, 1, b"some bytes").await;
    let read = TicketRight::Read { slice: SliceId(1), from: 0, until: u64::MAX };
    let handed = || Delegate::Node(NodeId::new(SOME_NODE).unwrap());
    let ticket = cloud.handed_to(&cloud.ticket(&node.id, read), handed());
    let mut open = cloud.connect_as_node(&node).await;
    assert_eq!(get(&mut open, ticket.clone(), 1, 0..10).await.unwrap(), b"some bytes");
    let struck = |names: &[&str]| Order::StruckOff(names.iter().map(|name| NodeId::new(*name).unwrap()).collect());
    assert_eq!(cloud.order(&node, struck(&["another", SOME_NODE])).await, Ack::Done);
    assert!(!matches!(open.receive_or_end::<TransferReply>().await, Ok(Some(_))), "what stood idle was ended");
    let mut anew = cloud.connect_as_node(&node).await;
    let request = TransferRequest::Read { ticket: ticket.clone(), slice: SliceId(1), from: 0, until: 10 };
    let _ = anew.send(&request).await;
    assert!(!matches!(anew.receive_or_end::<TransferReply>().await, Ok(Some(_))), "no word");
    assert_eq!(cloud.get(&node, 1).await.unwrap(), b"some bytes", "clients are no matter of it");
    assert_eq!(cloud.order(&node, struck(&["another"])).await, Ack::Done);
    let mut back = cloud.connect_as_node(&node).await;
    assert_eq!(get(&mut back, ticket, 1, 0..10).await.unwrap(), b"some bytes", "it was taken back");
}
