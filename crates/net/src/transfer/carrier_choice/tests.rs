//! Carriers that answer after a given time, or never, under a clock that stands still; and the real ones on the
//! loopback.

#![allow(clippy::unwrap_used)]

use std::{
    net::{IpAddr, Ipv4Addr, UdpSocket},
    sync::atomic::{AtomicU32, Ordering},
};

use tokio::time::sleep;

use super::*;
use crate::identity::Authority;
use crate::transfer::local_network::share_network;

/// Of a network that no machine is in.
const FAR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1)), 7410);

/// Answers after this time, well or badly; `None`: never.
#[derive(Clone, Copy)]
struct Script {
    answer: Option<Result<u64, ()>>,
    round_trip_millis: u64,
}

/// A carrier that counts how often it was asked, and marks its streams by the role at their other end.
struct Fake {
    name: &'static str,
    script: Mutex<Script>,
    asked: AtomicU32,
}

impl Fake {
    fn new(name: &'static str, answer: Option<Result<u64, ()>>) -> Self {
        Self { name, script: Mutex::new(Script { answer, round_trip_millis: 100 }), asked: AtomicU32::new(0) }
    }

    async fn answer(&self) -> Result<TransferStream, NetError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let script = *self.script.lock().unwrap();
        match script.answer {
            None => std::future::pending().await,
            Some(Ok(millis)) => {
                sleep(Duration::from_millis(millis)).await;
                let (here, _) = tokio::io::duplex(1);
                Ok(TransferStream::in_memory(Box::new(here), FAR, Some(self.name), [0; 32]))
            }
            Some(Err(())) => Err(NetError::Closed { peer: FAR, operation: self.name }),
        }
    }
}

impl Carrier for Fake {
    async fn connect(&self, _: SocketAddr, _: &str) -> Result<TransferStream, NetError> {
        self.answer().await
    }
}

impl Dial for Fake {
    type Dialed = ();

    async fn dial(&self, _: SocketAddr, _: &str) -> Result<((), Duration), NetError> {
        let round_trip = Duration::from_millis(self.script.lock().unwrap().round_trip_millis);
        sleep(round_trip).await;
        Ok(((), round_trip))
    }

    async fn finish(&self, (): (), _: &str) -> Result<TransferStream, NetError> {
        self.answer().await
    }
}

fn chooser(
    tcp: Option<Result<u64, ()>>,
    quic: Option<Result<u64, ()>>,
    choice: CarrierChoice,
) -> CarrierSelector<Fake, Fake> {
    CarrierSelector::new(Fake::new("tcp", tcp), Fake::new("quic", quic), choice, SharedPeerCache::new(Vec::new()))
}

/// Which carrier brought the conversation, and after how many milliseconds.
async fn brought(chooser: &CarrierSelector<Fake, Fake>, way: Locality) -> (&'static str, u128) {
    let began = Instant::now();
    let stream = chooser.connect(FAR, "node-1", way).await.unwrap();
    let is_of = |name| stream.peer_fingerprint() == Some(crate::identity::role_digest(name));
    (if is_of("tcp") { "tcp" } else { "quic" }, began.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn between_sites_quic_is_taken_and_tcp_not_even_tried_where_it_answers_soon() {
    let chooser = chooser(Some(Ok(1)), Some(Ok(110)), CarrierChoice::Auto);
    assert_eq!(brought(&chooser, Locality::Far).await, ("quic", 110));
    assert_eq!(chooser.tcp.asked.load(Ordering::Relaxed), 0);
    assert_eq!(brought(&chooser, Locality::Near).await, ("tcp", 101), "a round trip and the proof");
}

// Promise 52.
#[tokio::test(start_paused = true)]
async fn a_lost_first_packet_does_not_hand_a_long_transfer_to_tcp() {
    let chooser = chooser(Some(Ok(200)), Some(Ok(1_100)), CarrierChoice::Auto);
    assert_eq!(brought(&chooser, Locality::Far).await, ("quic", 1_100));
    assert_eq!(chooser.tcp.asked.load(Ordering::Relaxed), 1, "it was ready");
}

// Promise 52.
#[tokio::test(start_paused = true)]
async fn where_udp_is_blocked_later_conversations_take_tcp_and_udp_is_tried_again() {
    let chooser = chooser(Some(Ok(200)), None, CarrierChoice::Auto);
    assert_eq!(brought(&chooser, Locality::Far).await, ("tcp", 2_500));
    assert_eq!(brought(&chooser, Locality::Far).await, ("tcp", 300));
    assert!(chooser.peers.cached_peers()[0].udp_blocked_for.is_some());
    sleep(Duration::from_secs(600)).await;
    chooser.quic.script.lock().unwrap().answer = Some(Ok(110));
    assert_eq!(brought(&chooser, Locality::Far).await, ("quic", 110));
    assert_eq!(chooser.peers.cached_peers(), []);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_says_no_at_once_costs_no_patience() {
    let chooser = chooser(Some(Ok(200)), Some(Err(())), CarrierChoice::Auto);
    // The head start of an unknown peer, a round trip, the proof.
    assert_eq!(brought(&chooser, Locality::Far).await, ("tcp", 700));
}

#[tokio::test(start_paused = true)]
async fn where_only_quic_gets_through_a_tcp_that_fails_is_no_obstacle() {
    let chooser = chooser(Some(Err(())), Some(Ok(3_000)), CarrierChoice::Auto);
    assert_eq!(brought(&chooser, Locality::Far).await, ("quic", 3_000));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_gone_is_an_error_and_not_a_blocked_udp() {
    let chooser = chooser(Some(Err(())), Some(Err(())), CarrierChoice::Auto);
    assert!(chooser.connect(FAR, "node-1", Locality::Far).await.is_err());
    assert_eq!(chooser.peers.cached_peers(), []);
}

// Promise 51.
#[tokio::test(start_paused = true)]
async fn a_peer_of_unknown_place_is_measured_once_and_then_known() {
    let chooser = chooser(Some(Ok(200)), Some(Ok(110)), CarrierChoice::Auto);
    assert_eq!(brought(&chooser, Locality::Unknown).await, ("quic", 210), "a round trip of TCP before");
    assert_eq!(brought(&chooser, Locality::Unknown).await, ("quic", 110));
    let near = self::chooser(Some(Ok(1)), None, CarrierChoice::Auto);
    near.tcp.script.lock().unwrap().round_trip_millis = 1;
    assert_eq!(brought(&near, Locality::Unknown).await, ("tcp", 2));
}

#[tokio::test(start_paused = true)]
async fn a_setting_holds_whatever_the_distance() {
    let quic = chooser(Some(Ok(1)), Some(Ok(5_000)), CarrierChoice::Quic);
    assert_eq!(brought(&quic, Locality::Near).await, ("quic", 5_000));
    let tcp = chooser(Some(Ok(1)), Some(Ok(1)), CarrierChoice::Tcp);
    assert_eq!(brought(&tcp, Locality::Far).await, ("tcp", 101));
}

#[test]
fn who_shares_a_network_with_us_is_beside_us() {
    assert!(is_on_local_network("127.0.0.1:1".parse().unwrap()) && !is_on_local_network(FAR));
    let share = |own: &str, peer: &str| share_network(own.parse().unwrap(), peer.parse().unwrap());
    assert!(share("10.1.2.3", "10.1.2.77") && !share("10.1.2.3", "10.1.3.3"));
    assert!(share("10.1.2.3", "::ffff:10.1.2.77") && share("2001:db8::1", "2001:db8::2:1"));
    assert!(!share("2001:db8::1", "2001:db8:0:1::1") && !share("10.1.2.3", "2001:db8::1"));
}

/// The real carriers, and the identity of a node that they may reach.
fn real(choice: CarrierChoice) -> (Carriers, TlsIdentity) {
    let authority = Authority::create("cloud").unwrap();
    let node = TlsIdentity::role(authority.certificate_pem(), &authority.issue("node-1").unwrap()).unwrap();
    let client = TlsIdentity::client(authority.certificate_pem()).unwrap();
    (Carriers::new(client, CarrierSettings { choice, ..CarrierSettings::default() }), node)
}

#[tokio::test]
async fn both_carriers_reach_one_port_and_the_loopback_is_never_far() {
    for (choice, is_quic) in [(CarrierChoice::Quic, true), (CarrierChoice::Auto, false), (CarrierChoice::Tcp, false)] {
        let (carriers, node) = real(choice);
        let listener = Listener::bind_both(([127, 0, 0, 1], 0).into(), node, QuicSettings::default()).await.unwrap();
        let taking = async {
            let mut theirs = listener.accept().await.unwrap().handshake().await.unwrap();
            let word = theirs.receive::<u32>().await.unwrap();
            theirs.send(&(word + 1)).await.unwrap();
            theirs.receive_or_end::<u32>().await.unwrap()
        };
        let asking = async {
            let mut ours = carriers.connect(listener.address(), "node-1", Locality::Far).await.unwrap();
            assert_eq!(ours.is_shared(), is_quic, "{choice}");
            ours.send(&7u32).await.unwrap();
            assert_eq!(ours.receive::<u32>().await.unwrap(), 8);
            ours.close().await;
        };
        tokio::join!(taking, asking);
    }
}

// Promise 52.
#[tokio::test]
async fn a_node_whose_udp_port_swallows_everything_is_reached_by_tcp() {
    let (carriers, node) = real(CarrierChoice::Auto);
    let (listener, _silent) = loop {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), node.clone()).await.unwrap();
        // The same number may be taken for UDP.
        if let Ok(silent) = UdpSocket::bind(listener.address()) {
            break (listener, silent);
        }
    };
    let address = listener.address();
    let taking = async { listener.accept().await.unwrap().handshake().await.unwrap() };
    let asking = carriers.selector.race(address, "node-1", Duration::ZERO, None);
    let (_theirs, ours) = tokio::join!(taking, asking);
    assert!(!ours.unwrap().is_shared());
    let kept = carriers.cached_peers();
    assert!(kept.len() == 1 && kept[0].address == address && kept[0].udp_blocked_for.is_some(), "{kept:?}");
}
