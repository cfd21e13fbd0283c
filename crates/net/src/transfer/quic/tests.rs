//! Real sockets and real TLS on the loopback, every port chosen by the system.
#![allow(clippy::unwrap_used)]

use protocol::limits::FRAME_BYTES_MAX;

use super::*;
use crate::{
    identity::{Authority, Credentials, fingerprint},
    transfer::{Listener, StreamFrame},
};

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

struct Node {
    authority: Authority,
    credentials: Credentials,
    listener: Listener,
}

impl Node {
    async fn start() -> Self {
        Self::with(QuicSettings::default()).await
    }

    async fn with(settings: QuicSettings) -> Self {
        let authority = Authority::create("cloud").unwrap();
        let credentials = authority.issue("node-1").unwrap();
        let identity = TlsIdentity::role(authority.certificate_pem(), &credentials).unwrap();
        let listener = Listener::bind_both(any_port(), identity, settings).await.unwrap();
        Self { authority, credentials, listener }
    }

    fn carrier(&self) -> QuicCarrier {
        let identity = TlsIdentity::client(self.authority.certificate_pem()).unwrap();
        QuicCarrier::new(identity, QuicSettings::default())
    }

    async fn connect(&self, carrier: &QuicCarrier) -> TransferStream {
        carrier.connect(self.listener.address(), "node-1").await.unwrap()
    }

    async fn accept(&self) -> TransferStream {
        let mut stream = self.listener.accept().await.unwrap().handshake().await.unwrap();
        stream.admit();
        stream
    }

    /// A connected pair: a client's end and the node's, which has taken the client's first word.
    async fn pair(&self, carrier: &QuicCarrier) -> (TransferStream, TransferStream) {
        let mut ours = self.connect(carrier).await;
        // A conversation is there for the other end when its first word is.
        ours.send(&()).await.unwrap();
        let mut theirs = self.accept().await;
        theirs.receive::<()>().await.unwrap();
        (ours, theirs)
    }
}

async fn listen(authority: &Authority, credentials: &Credentials, address: SocketAddr) -> Listener {
    let identity = TlsIdentity::role(authority.certificate_pem(), credentials).unwrap();
    Listener::bind_both(address, identity, QuicSettings::default()).await.unwrap()
}

fn open_connections(carrier: &QuicCarrier) -> usize {
    carrier.inner.endpoints().v4.as_ref().map_or(0, Endpoint::open_connections)
}

#[tokio::test]
async fn a_client_and_a_node_of_one_cloud_talk_and_end_in_order() {
    let node = Node::start().await;
    let (mut ours, mut theirs) = node.pair(&node.carrier()).await;
    let shown = fingerprint(&node.credentials.certificate_pem).unwrap();
    assert_eq!((ours.peer_fingerprint(), theirs.peer_fingerprint()), (Some(shown), None));
    assert!(ours.peer_certificate().unwrap().is_of("node-1"));
    assert_eq!(ours.peer_authority(), Some(fingerprint(node.authority.certificate_pem()).unwrap()));
    let key = |stream: &TransferStream| stream.export_key(b"EXPORTER-test", b"context").unwrap();
    assert_eq!(key(&ours), key(&theirs));
    let asking = async {
        ours.send(&"ping".to_owned()).await.unwrap();
        assert_eq!(ours.receive::<String>().await.unwrap(), "pong");
        ours.close().await;
    };
    let answering = async {
        assert_eq!(theirs.receive::<String>().await.unwrap(), "ping");
        theirs.send(&"pong".to_owned()).await.unwrap();
        assert_eq!(theirs.receive_or_end::<String>().await.unwrap(), None);
    };
    tokio::join!(asking, answering);
}

#[tokio::test]
async fn frames_of_all_lengths_pass_unchanged_in_both_directions() {
    let node = Node::start().await;
    let (mut ours, mut theirs) = node.pair(&node.carrier()).await;
    let mut random = fastrand::Rng::with_seed(7);
    let mut lengths = vec![1, 16_384, 16_385, 65_536, FRAME_BYTES_MAX, FRAME_BYTES_MAX, FRAME_BYTES_MAX];
    lengths.extend((0..300).map(|_| random.usize(1..2_000)));
    lengths.extend((0..30).map(|_| random.usize(1..=FRAME_BYTES_MAX)));
    let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(FRAME_BYTES_MAX).collect();
    for _direction in 0..2 {
        let sending = async {
            for length in &lengths {
                ours.send_frame(&bytes[..*length]).await.unwrap();
            }
            ours.end_frames().await.unwrap();
        };
        let receiving = async {
            let mut frame = StreamFrame::default();
            for length in &lengths {
                assert!(theirs.receive_frame(&mut frame).await.unwrap());
                assert!(frame.payload == bytes[..*length], "a frame of {length} bytes");
            }
            assert!(!theirs.receive_frame(&mut frame).await.unwrap());
        };
        tokio::join!(sending, receiving);
        std::mem::swap(&mut ours, &mut theirs);
    }
}

#[tokio::test]
async fn conversations_with_a_node_share_a_connection_and_do_not_block_each_other() {
    let node = Node::start().await;
    let carrier = node.carrier();
    let mut pairs = Vec::new();
    for _ in 0..20 {
        pairs.push(node.pair(&carrier).await);
    }
    assert_eq!(open_connections(&carrier), 1);
    // The first has sent more than it may, and nobody reads on.
    let (mut ours, mut theirs) = pairs.remove(0);
    let (first, mut frame) = (vec![7; FRAME_BYTES_MAX], StreamFrame::default());
    let (sent, received) = tokio::join!(ours.send_frame(&first), theirs.receive_frame(&mut frame));
    assert!(sent.is_ok() && received.unwrap());
    let stuck = tokio::spawn(async move {
        let frame = vec![7; FRAME_BYTES_MAX];
        loop {
            ours.send_frame(&frame).await.unwrap();
        }
    });
    for (ours, theirs) in &mut pairs {
        ours.send(&1u32).await.unwrap();
        assert_eq!(theirs.receive::<u32>().await.unwrap(), 1);
        theirs.send(&2u32).await.unwrap();
        assert_eq!(ours.receive::<u32>().await.unwrap(), 2);
    }
    stuck.abort();
    drop(theirs);
}

#[tokio::test]
async fn a_dropped_conversation_looks_cut_and_leaves_the_others_alone() {
    let node = Node::start().await;
    let carrier = node.carrier();
    let (mut ours, mut theirs) = node.pair(&carrier).await;
    let (mut other, mut their_other) = node.pair(&carrier).await;
    ours.send_frame(&[1; 1_000]).await.unwrap();
    drop(ours);
    let mut frame = StreamFrame::default();
    let mut outcome = Ok(true);
    while matches!(outcome, Ok(true)) {
        outcome = theirs.receive_frame(&mut frame).await;
    }
    assert!(matches!(outcome, Err(NetError::Closed { .. })), "{outcome:?}");
    other.send(&1u32).await.unwrap();
    assert_eq!(their_other.receive::<u32>().await.unwrap(), 1);
}

#[tokio::test]
async fn a_stranger_and_a_node_with_another_name_are_refused_in_words() {
    let node = Node::start().await;
    let error = node.carrier().connect(node.listener.address(), "node-2").await.err().unwrap();
    assert!(matches!(&error, NetError::Handshake { .. }), "{error}");
    let elsewhere = Authority::create("other").unwrap();
    let stranger = TlsIdentity::client(elsewhere.certificate_pem()).unwrap();
    let carrier = QuicCarrier::new(stranger, QuicSettings::default());
    let error = carrier.connect(node.listener.address(), "node-1").await.err().unwrap();
    assert!(matches!(&error, NetError::Handshake { .. }), "{error}");
    // A caller that shows a certificate of another cloud.
    let posing = elsewhere.issue("node-1").unwrap();
    let posing = TlsIdentity::role(node.authority.certificate_pem(), &posing).unwrap();
    let carrier = QuicCarrier::new(posing, QuicSettings::default());
    let refused = async {
        let mut stream = carrier.connect(node.listener.address(), "node-1").await?;
        stream.send(&()).await?;
        stream.receive::<()>().await
    };
    let error = refused.await.err().unwrap();
    assert!(matches!(&error, NetError::Handshake { .. }), "{error}");
}

#[test]
fn a_node_that_started_again_is_met_anew_at_once() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (here, there) = (runtime(), runtime());
    let node = there.block_on(Node::start());
    let (carrier, address) = (node.carrier(), node.listener.address());
    let (mut ours, theirs) = here.block_on(async {
        let mut ours = node.connect(&carrier).await;
        ours.send(&()).await.unwrap();
        (ours, node.accept().await)
    });
    // As a crash: no task of the node runs any more, so that nobody is told.
    drop(there);
    drop(theirs);
    let Node { authority, credentials, listener } = node;
    drop(listener);
    here.block_on(async {
        let listener = listen(&authority, &credentials, address).await;
        let node = Node { authority, credentials, listener };
        // The next word is answered by one that does not know the connection, and proves that it may say so.
        // It may have been told so by a packet before.
        let error = match ours.send(&1u32).await {
            Ok(()) => ours.receive::<u32>().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, NetError::Closed { .. }), "{error:?}");
        let (mut ours, mut theirs) = node.pair(&carrier).await;
        ours.send(&2u32).await.unwrap();
        assert_eq!(theirs.receive::<u32>().await.unwrap(), 2);
    });
}

#[tokio::test]
async fn one_who_is_called_remembers_how_fast_the_way_to_the_callers_machine_is() {
    let rates = Arc::new(MemoryRateCache::default());
    let node = Node::with(QuicSettings { rate_cache: Some(rates.clone()), ..QuicSettings::default() }).await;
    let carrier = node.carrier();
    let bytes = vec![7; FRAME_BYTES_MAX];
    // Where the machine is fast, the first megabytes are over before anything could be learned.
    let mut learned = None;
    for _ in 0..100 {
        let (mut ours, mut theirs) = node.pair(&carrier).await;
        let sending = async {
            for _ in 0..8 {
                theirs.send_frame(&bytes).await.unwrap();
            }
            theirs.end_frames().await.unwrap();
            theirs.close().await;
        };
        let taking = async {
            let mut frame = StreamFrame::default();
            while ours.receive_frame(&mut frame).await.unwrap() {}
            drop(ours);
        };
        tokio::join!(sending, taking);
        learned = rates.learned(any_port());
        if learned.is_some() {
            break;
        }
    }
    assert!(learned.is_some_and(|learned| learned.rate_bytes_per_second > 0));
}

#[tokio::test]
async fn where_nobody_answers_it_is_said_so() {
    let node = Node::start().await;
    let nobody = std::net::UdpSocket::bind(any_port()).unwrap();
    tokio::time::pause();
    let error = node.carrier().connect(nobody.local_addr().unwrap(), "node-1").await.err().unwrap();
    assert!(matches!(&error, NetError::Connect { .. }), "{error}");
}

#[tokio::test]
async fn dropping_the_last_conversation_and_the_carrier_amid_bulk_looks_cut() {
    let node = Node::start().await;
    let carrier = node.carrier();
    let (mut ours, mut theirs) = node.pair(&carrier).await;
    drop(carrier);
    let sending = async move {
        for _ in 0..3 {
            ours.send_frame(&vec![7; FRAME_BYTES_MAX]).await.unwrap();
        }
    };
    let mut frame = StreamFrame::default();
    let receiving = async { while theirs.receive_frame(&mut frame).await.is_ok() {} };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn a_carrier_that_is_closed_says_so_to_the_peers_of_all_its_conversations() {
    let node = Node::start().await;
    let carrier = node.carrier();
    let (mut ours, mut theirs) = node.pair(&carrier).await;
    carrier.close().await;
    assert!(theirs.receive::<u32>().await.is_err() && ours.receive::<u32>().await.is_err());
}

/// Both ends of a connection without anything of ours on it.
async fn bare_pair() -> (Connection, Connection) {
    let authority = Authority::create("cloud").unwrap();
    let node = TlsIdentity::role(authority.certificate_pem(), &authority.issue("node-1").unwrap()).unwrap();
    let endpoint = endpoint::open(any_port(), None).unwrap();
    endpoint.set_server_config(Some(listener::server_configuration(&node).unwrap()));
    let carrier = QuicCarrier::new(TlsIdentity::client(authority.certificate_pem()).unwrap(), QuicSettings::default());
    let address = endpoint.local_addr().unwrap();
    let taken = async { endpoint.accept().await.unwrap().await.unwrap() };
    let (ours, theirs) = tokio::join!(carrier.inner.connect(address, "node-1"), taken);
    (ours.unwrap(), theirs)
}

fn conversation(index: u64) -> noq_proto::StreamId {
    noq_proto::StreamId::new(noq::Side::Client, noq::Dir::Bi, index)
}

async fn open_lane(connection: &Connection, conversation: noq_proto::StreamId, lane: u8) -> noq::SendStream {
    let mut stream = connection.open_uni().await.unwrap();
    stream.write_all(&lanes::lane_header(conversation, lane)).await.unwrap();
    stream
}

#[tokio::test]
async fn a_lane_finds_its_conversation_even_if_it_comes_first() {
    let (ours, theirs) = bare_pair().await;
    let lanes = lanes::Lanes::of(&theirs);
    let mut early = open_lane(&ours, conversation(3), 1).await;
    early.write_all(b"bytes").await.unwrap();
    lanes.open(conversation(0));
    let _first = open_lane(&ours, conversation(0), 2).await;
    assert!(lanes.take(conversation(0), 2).await.is_some());
    lanes.open(conversation(3));
    let mut bytes = [0; 5];
    lanes.take(conversation(3), 1).await.unwrap().read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"bytes");
}

#[tokio::test]
async fn lanes_that_belong_to_no_conversation_are_turned_away() {
    let (ours, theirs) = bare_pair().await;
    let lanes = lanes::Lanes::of(&theirs);
    for index in [0, 1] {
        lanes.open(conversation(index));
    }
    lanes.close(conversation(0));
    // Of one that is over, of one that will not come for long, and of none at all.
    for (index, lane) in [(0, 1), (5_000, 1), (1, 0), (1, 16)] {
        let stopped = open_lane(&ours, conversation(index), lane).await;
        assert!(stopped.stopped().await.unwrap().is_some(), "conversation {index}, lane {lane}");
    }
    assert_eq!(lanes.conversations(), 1);
}

#[test]
fn a_stranger_makes_a_node_hold_little_before_it_has_shown_a_ticket() {
    let window = |transport: Arc<noq::TransportConfig>| {
        let shown = format!("{transport:?}");
        let (_, behind) = shown.split_once(" receive_window: ").unwrap();
        behind.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    let settings = QuicSettings::default();
    assert_eq!(window(settings.for_caller(any_port().ip())), config::NARROW_WINDOW_BYTES);
    assert_eq!(window(settings.to_peer(any_port())), config::RECEIVE_WINDOW_BYTES);
}

// Promise 53.
#[tokio::test]
async fn after_a_wait_in_vain_the_next_conversation_gets_a_new_connection() {
    let node = Node::start().await;
    let carrier = node.carrier();
    let (mut ours, _theirs) = node.pair(&carrier).await;
    let (others, _their_others) = node.pair(&carrier).await;
    assert_eq!(open_connections(&carrier), 1);
    tokio::time::pause();
    let waited = timeout(Duration::from_secs(10), ours.receive::<()>()).await;
    tokio::time::resume();
    assert!(waited.is_err());
    assert!(!others.is_suspect());
    drop(ours);
    assert!(others.is_suspect(), "a kept one is not used either");
    let (_again, _their_again) = node.pair(&carrier).await;
    assert_eq!(open_connections(&carrier), 2, "the others stay where they are");
    let (_further, _their_further) = node.pair(&carrier).await;
    assert_eq!(open_connections(&carrier), 2, "and the new one serves all that follow");
}
