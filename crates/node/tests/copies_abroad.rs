//! Copies from one cloud to another. A node fetches with tickets that were assigned to a key of its own, and connects
//! to no forbidden address. It sends nothing to a peer that does not prove to be the named node. Real nodes of two
//! clouds, real connections.
#![allow(clippy::unwrap_used)]

mod fake_cloud;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use daemon::settings::ThirdPartyFrom;
use fake_cloud::{FakeCloud, FakeNode, PATIENCE, content, get};
use net::{identity::HolderKeyPair, transfer::TransferStream};
use protocol::{
    CarrierChoice, Digest, NodeId, Refusal, SliceId, Status, TransferQos,
    message::{
        client_master::Source,
        transfer::{AUTHORITY_BYTES_MAX, Pull, PullUpdate, TransferReply, TransferRequest},
    },
    ticket::{Delegate, HolderKey},
};
use tokio::{io::AsyncReadExt, net::TcpListener, time::timeout};

const BYTES: usize = (3 << 20) + 12_345;

/// Two clouds: slice 1 is at the node `there` of the first, and is to be copied to `here` in the second.
struct Clouds {
    first: FakeCloud,
    there: FakeNode,
    second: FakeCloud,
    here: FakeNode,
}

async fn clouds(carrier: CarrierChoice) -> Clouds {
    let (mut first, mut second) = (FakeCloud::start_with(carrier).await, FakeCloud::start_with(carrier).await);
    // Both clouds may use the same node name.
    let (there, here) = (first.node("n1").await, second.node("n1").await);
    first.put(&there, 1, &content(BYTES)).await;
    Clouds { first, there, second, here }
}

impl Clouds {
    /// The source of the slice, with the first cloud's client ticket assigned to `to`.
    fn source(&self, to: Delegate) -> Source {
        let ticket = self.first.handed_to(&self.first.read_ticket(&self.there, 1), to);
        Source { ticket, ..self.first.source(&self.there, &self.there, 1) }
    }

    fn order(&self, slice: u128, authority: &str) -> TransferRequest {
        TransferRequest::Pull(Pull {
            write: self.second.write_ticket(&self.here, slice),
            chain: vec![],
            slice: SliceId(1),
            bytes: BYTES as u64,
            sources: vec![],
            authority: Some(authority.to_owned()),
        })
    }

    /// Orders a copy to the slice of this number from the place `source` gives, once the node has named its key.
    async fn copy(
        &self,
        client: &mut TransferStream,
        slice: u128,
        authority: &str,
        source: impl Fn(Delegate) -> Source,
    ) -> Result<(u64, Digest), Refusal> {
        client.send(&self.order(slice, authority)).await.unwrap();
        loop {
            match timeout(PATIENCE, client.receive::<TransferReply>()).await.unwrap().unwrap() {
                TransferReply::Pulling { wants, .. } => {
                    let sources = wants.map(&source).into_iter().collect();
                    client.send(&PullUpdate { qos: TransferQos::default(), sources }).await.unwrap();
                }
                TransferReply::Stored { bytes, digest } => return Ok((bytes, digest)),
                TransferReply::Refused(refusal) => return Err(refusal),
                other => panic!("{other:?}"),
            }
        }
    }

    /// The key of a copy that is then abandoned.
    async fn key_of_a_copy(&self) -> HolderKey {
        let mut client = self.second.connect(&self.here).await;
        client.send(&self.order(7, self.first.authority_pem())).await.unwrap();
        match client.receive::<TransferReply>().await.unwrap() {
            TransferReply::Pulling { bytes: 0, wants: Some(Delegate::Key(key)) } => key,
            other => panic!("{other:?}"),
        }
    }
}

// Promise 55.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_copies_from_another_cloud_with_tickets_in_the_hand_of_a_key_of_its_own() {
    for carrier in [CarrierChoice::Tcp, CarrierChoice::Quic] {
        let clouds = clouds(carrier).await;
        let mut client = clouds.second.connect(&clouds.here).await;
        let authority = clouds.first.authority_pem();
        let copied = clouds.copy(&mut client, 2, authority, |to| clouds.source(to)).await.unwrap();
        assert_eq!(copied, (BYTES as u64, Digest(*blake3::hash(&content(BYTES)).as_bytes())), "{carrier}");
        assert!(clouds.second.get(&clouds.here, 2).await.unwrap() == content(BYTES));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_handed_to_a_nodes_key_open_for_nobody_else_and_each_copy_has_its_key() {
    let clouds = clouds(CarrierChoice::Auto).await;
    let key = clouds.key_of_a_copy().await;
    assert_ne!(key, clouds.key_of_a_copy().await);
    let seen = clouds.source(Delegate::Key(key)).ticket;
    let mut stranger = clouds.first.connect_as_stranger(&clouds.there).await;
    let refusal = get(&mut stranger, seen.clone(), 1, 0..10).await.unwrap_err();
    assert!(refusal.message.contains("made for another client or node"), "{refusal}");
    let thief = HolderKeyPair::generate();
    let mut with_a_key = clouds.first.connect_as_stranger(&clouds.there).await;
    let proof = thief.prove(&with_a_key).unwrap();
    with_a_key.queue(&TransferRequest::ProveKey { key: thief.public(), proof }).await.unwrap();
    assert!(get(&mut with_a_key, seen.clone(), 1, 0..10).await.is_err());
    let mut as_node = clouds.first.connect_as_node(&clouds.there).await;
    assert!(get(&mut as_node, seen, 1, 0..10).await.is_err());
    // Nor does a ticket assigned to its own client serve the node.
    let mut client = clouds.second.connect(&clouds.here).await;
    let own = |_| Source { ticket: clouds.first.read_ticket(&clouds.there, 1), ..clouds.source(Delegate::Key(key)) };
    let refusal = clouds.copy(&mut client, 2, clouds.first.authority_pem(), own).await.unwrap_err();
    assert_eq!(refusal.status(), Status::Unavailable);
    assert_eq!(clouds.second.get(&clouds.here, 2).await.unwrap_err().status(), Status::NotFound);
}

/// A peer that speaks no TLS and records everything it receives.
async fn listener() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, heard) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = caller.read(&mut buffer).await {
                    kept.lock().unwrap().extend_from_slice(&buffer[..read]);
                }
            });
        }
    });
    (address, heard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_the_named_node_is_told_nothing_and_nothing_is_learned_of_it() {
    let clouds = clouds(CarrierChoice::Tcp).await;
    let (mute, heard) = listener().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (right, wrong) = (clouds.first.authority_pem(), clouds.second.authority_pem());
    let at = |address: SocketAddr| {
        let clouds = &clouds;
        move |to: Delegate| Source { address, ..clouds.source(to) }
    };
    let of_another_name = |to: Delegate| Source { node: NodeId::new("n1-of-old").unwrap(), ..clouds.source(to) };
    let mut client = Vec::new();
    for _ in 0..4 {
        client.push(clouds.second.connect(&clouds.here).await);
    }
    let [one, two, three, four] = &mut client[..] else { panic!("four connections") };
    let (nobody, no_tls, other_authority, other_name) = tokio::join!(
        clouds.copy(one, 2, right, at(closed)),
        clouds.copy(two, 3, right, at(mute)),
        clouds.copy(three, 4, wrong, at(clouds.there.address)),
        clouds.copy(four, 5, right, of_another_name),
    );
    let sentence = |refused: Result<(u64, Digest), Refusal>, name: &str| {
        let refusal = refused.unwrap_err();
        assert_eq!(refusal.status(), Status::Unavailable, "{refusal}");
        refusal.message.replace(name, "NAME")
    };
    let nobody = sentence(nobody, "node n1 of");
    assert!(nobody.contains("could not be reached, or did not prove itself"), "{nobody}");
    assert_eq!(sentence(no_tls, "node n1 of"), nobody);
    assert_eq!(sentence(other_authority, "node n1 of"), nobody);
    assert_eq!(sentence(other_name, "node n1-of-old of"), nobody);
    let heard = heard.lock().unwrap();
    let ticket = clouds.first.read_ticket(&clouds.there, 1).ticket;
    assert!(!heard.is_empty(), "it was called");
    assert_eq!(heard[0], 22, "a TLS handshake");
    assert!(!heard.windows(16).any(|bytes| ticket.windows(16).any(|secret| bytes == secret)), "no ticket was shown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_sent_to_no_address_of_its_own_machine_or_of_many() {
    let clouds = clouds(CarrierChoice::Auto).await;
    let mut second = clouds.second;
    let (elsewhere, _) =
        second.node_with("elsewhere", |settings| settings.advertise = Some("192.0.2.7:7410".parse().unwrap())).await;
    let clouds = Clouds { second, ..clouds };
    let mut client = clouds.second.connect(&elsewhere).await;
    let TransferRequest::Pull(order) = clouds.order(2, clouds.first.authority_pem()) else { panic!("a copy") };
    let write = clouds.second.write_ticket(&elsewhere, 2);
    client.send(&TransferRequest::Pull(Pull { write, ..order })).await.unwrap();
    let TransferReply::Pulling { wants: Some(to), .. } = client.receive().await.unwrap() else { panic!("no word") };
    // The loopback address of its own machine, where the node of the other cloud does listen.
    client.send(&PullUpdate { qos: TransferQos::default(), sources: vec![clouds.source(to)] }).await.unwrap();
    let refusal = loop {
        match client.receive::<TransferReply>().await.unwrap() {
            TransferReply::Pulling { .. } => {
                client.send(&PullUpdate { qos: TransferQos::default(), sources: vec![] }).await.unwrap();
            }
            TransferReply::Refused(refusal) => break refusal,
            other => panic!("{other:?}"),
        }
    };
    assert!(refusal.message.contains("is not to be sent to 127.0.0.1"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_can_keep_a_node_from_going_to_other_clouds() {
    let mut clouds = clouds(CarrierChoice::Auto).await;
    let (homely, _) =
        clouds.second.node_with("homely", |settings| settings.third_party_from = ThirdPartyFrom::OwnCloud).await;
    let clouds = Clouds { here: homely, ..clouds };
    let mut client = clouds.second.connect(&clouds.here).await;
    let authority = clouds.first.authority_pem();
    let refusal = clouds.copy(&mut client, 2, authority, |to| clouds.source(to)).await.unwrap_err();
    assert_eq!(refusal.status(), Status::Refused);
    assert!(refusal.message.contains("third_party_from"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_is_none_or_too_long_is_refused_in_words() {
    let clouds = clouds(CarrierChoice::Auto).await;
    let mut client = clouds.second.connect(&clouds.here).await;
    for authority in ["no certificate".to_owned(), "x".repeat(AUTHORITY_BYTES_MAX + 1)] {
        let refusal = clouds.copy(&mut client, 2, &authority, |to| clouds.source(to)).await.unwrap_err();
        assert!(refusal.message.contains("authority"), "{refusal}");
    }
    // The connection is still usable.
    let authority = clouds.first.authority_pem();
    clouds.copy(&mut client, 2, authority, |to| clouds.source(to)).await.unwrap();
}
