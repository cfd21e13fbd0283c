//! Real sockets and real TLS on the loopback, every port chosen by the system.
#![allow(clippy::unwrap_used)]

mod authority_pinning;

use protocol::{
    Reason, Refusal, Status,
    limits::{self, FRAME_BYTES_MAX},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{
    identity::{Authority, fingerprint},
    transfer::StreamFrame,
    unauthenticated::SlotLoss,
};

const LABEL: &[u8] = b"EXPORTER-test";

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn role(authority: &Authority, name: &str) -> TlsIdentity {
    TlsIdentity::role(authority.certificate_pem(), &authority.issue(name).unwrap()).unwrap()
}

fn client(authority: &Authority) -> TlsIdentity {
    TlsIdentity::client(authority.certificate_pem()).unwrap()
}

async fn listen(identity: TlsIdentity) -> Listener {
    Listener::bind(any_port(), identity).await.unwrap()
}

/// The results at both ends of one connection to `server` on `listener`.
async fn meet(
    carrier: &TcpCarrier,
    listener: &Listener,
    server: &str,
) -> (Result<TransferStream, NetError>, Result<TransferStream, NetError>) {
    let accepting = async { listener.accept().await.unwrap().handshake().await };
    tokio::join!(carrier.connect(listener.address(), server), accepting)
}

/// A connected pair: a client's end and node-1's.
async fn pair() -> (TransferStream, TransferStream) {
    let authority = Authority::create("cloud").unwrap();
    let listener = listen(role(&authority, "node-1")).await;
    let (ours, theirs) = meet(&TcpCarrier::new(client(&authority)), &listener, "node-1").await;
    (ours.unwrap(), theirs.unwrap())
}

#[tokio::test]
async fn a_client_and_a_node_of_one_cloud_talk() {
    let (mut ours, mut theirs) = pair().await;
    let asking = async {
        ours.send(&"ping".to_owned()).await.unwrap();
        assert_eq!(ours.receive::<String>().await.unwrap(), "pong");
        ours.close().await;
    };
    let answering = async {
        assert_eq!(theirs.receive::<String>().await.unwrap(), "ping");
        theirs.send(&"pong".to_owned()).await.unwrap();
        assert_eq!(theirs.receive_or_end::<String>().await.unwrap(), None);
        drop(theirs);
    };
    tokio::join!(asking, answering);
}

#[tokio::test]
async fn frames_of_all_lengths_pass_tls_unchanged() {
    let (mut ours, mut theirs) = pair().await;
    let mut rng = fastrand::Rng::with_seed(7);
    let mut lengths = vec![1, 16_384, 16_385, 65_536, FRAME_BYTES_MAX, FRAME_BYTES_MAX, FRAME_BYTES_MAX];
    lengths.extend((0..300).map(|_| rng.usize(1..2000)));
    lengths.extend((0..30).map(|_| rng.usize(1..=FRAME_BYTES_MAX)));
    let bytes: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(FRAME_BYTES_MAX).collect();
    let sending = async {
        for length in &lengths {
            ours.send_frame(&bytes[..*length]).await.unwrap();
        }
        ours.end_frames().await.unwrap();
        assert!(ours.receive::<bool>().await.unwrap());
    };
    let receiving = async {
        let mut frame = StreamFrame::default();
        for length in &lengths {
            assert!(theirs.receive_frame(&mut frame).await.unwrap());
            assert!(frame.payload == bytes[..*length], "frame of {length} bytes");
        }
        assert!(!theirs.receive_frame(&mut frame).await.unwrap());
        theirs.send(&true).await.unwrap();
    };
    tokio::join!(sending, receiving);
}

// Promise 25.
#[tokio::test]
async fn a_node_of_another_cloud_is_refused() {
    let (ours, other) = (Authority::create("ours").unwrap(), Authority::create("ours").unwrap());
    let listener = listen(role(&other, "node-1")).await;
    let (connected, accepted) = meet(&TcpCarrier::new(client(&ours)), &listener, "node-1").await;
    let error = connected.err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "no secure connection with node-1 at {}: its certificate is not from this cloud's authority; use the \
             profile of that cloud",
            listener.address()
        )
    );
    assert_eq!(error.refusal().status(), Status::Refused);
    assert!(accepted.is_err());
}

#[tokio::test]
async fn another_node_of_the_same_cloud_is_not_the_one_wanted() {
    let authority = Authority::create("cloud").unwrap();
    let listener = listen(role(&authority, "node-1")).await;
    for wanted in ["node-2", "NODE-1", "node", "master"] {
        let (connected, _) = meet(&TcpCarrier::new(client(&authority)), &listener, wanted).await;
        let error = connected.err().unwrap();
        assert!(error.to_string().contains("it is another role or node than the one expected there"), "{error}");
    }
}

#[tokio::test]
async fn a_client_needs_no_certificate_and_a_nodes_is_reported() {
    let authority = Authority::create("cloud").unwrap();
    let (master, node) = (authority.issue("master").unwrap(), authority.issue("node-1").unwrap());
    let identity = |credentials| TlsIdentity::role(authority.certificate_pem(), credentials).unwrap();
    let listener = listen(identity(&master)).await;

    let (ours, theirs) = meet(&TcpCarrier::new(client(&authority)), &listener, "master").await;
    assert_eq!(theirs.unwrap().peer_fingerprint(), None);
    assert_eq!(ours.unwrap().peer_fingerprint(), Some(fingerprint(&master.certificate_pem).unwrap()));

    let (ours, theirs) = meet(&TcpCarrier::new(identity(&node)), &listener, "master").await;
    assert_eq!(theirs.unwrap().peer_fingerprint(), Some(fingerprint(&node.certificate_pem).unwrap()));
    assert_eq!(ours.unwrap().peer_fingerprint(), Some(fingerprint(&master.certificate_pem).unwrap()));
}

#[tokio::test]
async fn a_caller_with_a_certificate_of_another_cloud_is_refused_and_told_so() {
    let (ours, other) = (Authority::create("ours").unwrap(), Authority::create("other").unwrap());
    let listener = listen(role(&ours, "master")).await;
    // It trusts us, but shows a certificate of another authority.
    let stranger = TlsIdentity::role(ours.certificate_pem(), &other.issue("node-1").unwrap()).unwrap();
    let (connected, accepted) = meet(&TcpCarrier::new(stranger), &listener, "master").await;
    let error = accepted.err().unwrap();
    assert!(error.to_string().contains("its certificate is not from this cloud's authority"), "{error}");
    // In TLS 1.3 the caller has finished before its certificate is checked: it learns the result with the first answer.
    let error = connected.unwrap().receive::<u32>().await.unwrap_err();
    assert!(error.to_string().contains("it does not accept our certificate"), "{error}");
    assert_eq!(error.refusal().status(), Status::Refused);
}

#[tokio::test]
async fn a_resumed_session_knows_its_peers_and_has_keys_of_its_own() {
    let authority = Authority::create("cloud").unwrap();
    let (master, node) = (authority.issue("master").unwrap(), authority.issue("node-1").unwrap());
    let identity = |credentials| TlsIdentity::role(authority.certificate_pem(), credentials).unwrap();
    let listener = listen(identity(&master)).await;
    let carrier = TcpCarrier::new(identity(&node));
    let mut keys = Vec::new();
    for round in 0..3 {
        let (ours, theirs) = meet(&carrier, &listener, "master").await;
        let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap());
        assert_eq!(ours.is_resumed(), round > 0);
        assert_eq!(ours.peer_fingerprint(), Some(fingerprint(&master.certificate_pem).unwrap()));
        assert_eq!(theirs.peer_fingerprint(), Some(fingerprint(&node.certificate_pem).unwrap()));
        keys.push(ours.export_key(LABEL, b"").unwrap());
        // The session tickets come with the first answer.
        theirs.send(&1u8).await.unwrap();
        ours.receive::<u8>().await.unwrap();
    }
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
}

#[tokio::test]
async fn both_ends_export_the_same_key_and_no_other_connection_does() {
    let (ours, theirs) = pair().await;
    let key = ours.export_key(LABEL, b"session 1").unwrap();
    assert_eq!(theirs.export_key(LABEL, b"session 1").unwrap(), key);
    assert_ne!(theirs.export_key(LABEL, b"session 2").unwrap(), key);
    assert_ne!(theirs.export_key(b"EXPORTER-other", b"session 1").unwrap(), key);
    assert_ne!(pair().await.0.export_key(LABEL, b"session 1").unwrap(), key);
}

#[tokio::test]
async fn a_port_in_use_is_named_with_what_to_do() {
    let authority = Authority::create("cloud").unwrap();
    let first = listen(role(&authority, "node-1")).await;
    let error = Listener::bind(first.address(), role(&authority, "node-2")).await.err().unwrap();
    let expected = format!("cannot listen on {}: the port is in use; choose another with --port", first.address());
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_client_cannot_listen_for_want_of_a_certificate() {
    let identity = client(&Authority::create("cloud").unwrap());
    let error = Listener::bind(any_port(), identity).await.err().unwrap();
    assert_eq!(error.to_string(), "cannot listen: a client has no certificate to show");
}

#[tokio::test]
async fn nobody_at_an_address_is_unavailable() {
    let authority = Authority::create("cloud").unwrap();
    // Bound, so that nobody else gets it, but not listening.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind(any_port()).unwrap();
    let address = silent.local_addr().unwrap();
    let error = TcpCarrier::new(client(&authority)).connect(address, "node-1").await.err().unwrap();
    assert_eq!(
        error.to_string(),
        format!("cannot connect to node-1 at {address}: nobody listens there; is it running?")
    );
    assert_eq!(error.refusal().status(), Status::Unavailable);
}

#[tokio::test]
async fn a_port_that_speaks_something_else_is_no_port_of_sector() {
    let authority = Authority::create("cloud").unwrap();
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"", b"\x16"] {
        let other = TcpListener::bind(any_port()).await.unwrap();
        let address = other.local_addr().unwrap();
        let answering = async {
            let (mut socket, _) = other.accept().await.unwrap();
            let mut hello = [0; 1024];
            assert!(socket.read(&mut hello).await.unwrap() > 0);
            socket.write_all(answer).await.unwrap();
        };
        let carrier = TcpCarrier::new(client(&authority));
        let (error, ()) = tokio::join!(carrier.connect(address, "node-1"), answering);
        let error = error.err().unwrap().to_string();
        assert!(error.ends_with("is that a port of sector?"), "{error}");
    }
}

#[tokio::test]
async fn a_caller_that_speaks_something_else_is_refused() {
    let authority = Authority::create("cloud").unwrap();
    let listener = listen(role(&authority, "node-1")).await;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b""] {
        let mut caller = TcpStream::connect(listener.address()).await.unwrap();
        caller.write_all(bytes).await.unwrap();
        caller.shutdown().await.unwrap();
        let error = listener.accept().await.unwrap().handshake().await.err().unwrap();
        assert!(matches!(error, NetError::Handshake { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_caller_is_dropped_at_the_deadline_and_holds_up_no_one() {
    let authority = Authority::create("cloud").unwrap();
    let listener = listen(role(&authority, "node-1")).await;
    let _silent = std::net::TcpStream::connect(listener.address()).unwrap();
    let incoming = listener.accept().await.unwrap();
    // The clock is the test's own and jumps to the deadline.
    let error = incoming.handshake().await.err().unwrap();
    assert!(matches!(error, NetError::Unauthenticated { over: SlotLoss::TimedOut, .. }), "{error}");
}

#[tokio::test]
async fn a_connection_cut_inside_a_frame_is_closed_not_a_hang() {
    let authority = Authority::create("cloud").unwrap();
    let listener = listen(role(&authority, "node-1")).await;
    // A relay between the two ends lets this many sealed bytes of the caller through, then cuts the line.
    let wire = TcpListener::bind(any_port()).await.unwrap();
    let address = wire.local_addr().unwrap();
    let cutting = async {
        let (mut caller, _) = wire.accept().await.unwrap();
        let mut node = TcpStream::connect(listener.address()).await.unwrap();
        let (from_caller, mut to_caller) = caller.split();
        let (mut from_node, mut to_node) = node.split();
        let mut from_caller = from_caller.take(FRAME_BYTES_MAX as u64 * 3 / 2);
        tokio::select! {
            cut = tokio::io::copy(&mut from_caller, &mut to_node) => assert!(cut.is_ok()),
            _ = tokio::io::copy(&mut from_node, &mut to_caller) => panic!("the node hung up first"),
        }
    };
    let sending = async {
        let mut ours = TcpCarrier::new(client(&authority)).connect(address, "node-1").await.unwrap();
        let payload = vec![1; FRAME_BYTES_MAX];
        while ours.send_frame(&payload).await.is_ok() {}
    };
    let receiving = async {
        let mut theirs = listener.accept().await.unwrap().handshake().await.unwrap();
        let mut frame = StreamFrame::default();
        assert!(theirs.receive_frame(&mut frame).await.unwrap());
        theirs.receive_frame(&mut frame).await.unwrap_err()
    };
    let ((), (), error) = tokio::join!(cutting, sending, receiving);
    assert!(matches!(error, NetError::Closed { operation: "receiving a frame", .. }), "{error}");
    assert_eq!(error.refusal().status(), Status::Unavailable);
}

#[tokio::test]
async fn a_connection_that_is_cut_between_words_has_not_ended_in_order() {
    let (ours, mut theirs) = pair().await;
    drop(ours);
    let error = theirs.receive_or_end::<u32>().await.unwrap_err();
    assert!(matches!(error, NetError::Closed { .. }), "{error}");
}

#[tokio::test]
async fn a_sender_that_is_cut_off_still_reads_the_refusal() {
    let (mut ours, mut theirs) = pair().await;
    let refusal = Refusal::new(Reason::NoRight, "node-1 refuses the ticket");
    let sending = async {
        let payload = vec![0; FRAME_BYTES_MAX];
        // The other end reads nothing of this; sooner or later the sockets are full or the connection is gone.
        let mut error = None;
        while error.is_none() {
            error = ours.send_frame(&payload).await.err();
        }
        assert!(matches!(error, Some(NetError::Closed { .. })), "{error:?}");
        ours.receive::<Refusal>().await.unwrap()
    };
    let refusing = async {
        theirs.send(&refusal).await.unwrap();
        theirs.close().await;
    };
    let (received, ()) = tokio::join!(sending, refusing);
    assert_eq!(received, refusal);
}

#[tokio::test]
async fn the_last_word_before_a_close_arrives_although_the_peer_had_unread_bytes() {
    let (mut ours, mut theirs) = pair().await;
    ours.send(&"never read".to_owned()).await.unwrap();
    let closing = async {
        theirs.send(&"last".to_owned()).await.unwrap();
        theirs.close().await;
    };
    let reading = async {
        assert_eq!(ours.receive::<String>().await.unwrap(), "last");
        assert_eq!(ours.receive_or_end::<String>().await.unwrap(), None);
        // The end that closed still reads and discards our bytes. If its socket were gone with our first message
        // unread, the system would have answered with a reset. On a longer path that can overtake the last message.
        ours.send(&"still here".to_owned()).await.unwrap();
        drop(ours);
    };
    tokio::join!(closing, reading);
}

/// Code that does not care how bytes travel takes any carrier, also a shared one.
async fn open(carrier: impl Carrier, address: SocketAddr) -> Result<TransferStream, NetError> {
    carrier.connect(address, "node-1").await
}

#[tokio::test]
async fn a_shared_carrier_is_a_carrier() {
    let authority = Authority::create("cloud").unwrap();
    let listener = listen(role(&authority, "node-1")).await;
    let carrier = Arc::new(TcpCarrier::new(client(&authority)));
    let accepting = async { listener.accept().await.unwrap().handshake().await };
    let (opened, accepted) = tokio::join!(open(carrier, listener.address()), accepting);
    assert!(opened.is_ok() && accepted.is_ok());
}

#[tokio::test]
async fn a_stranger_has_its_time_and_its_words_in_all_whichever_words_it_says() {
    let (mut ours, mut theirs) = pair().await;
    tokio::time::pause();
    for _ in 0..9 {
        ours.send(&7u32).await.unwrap();
        assert_eq!(theirs.receive::<u32>().await.unwrap(), 7, "each is heard, and none renews anything");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    let error = theirs.receive_or_end::<u32>().await.unwrap_err();
    assert!(matches!(error, NetError::Unauthenticated { over: SlotLoss::TimedOut, .. }), "{error}");
    tokio::time::resume();

    let (mut ours, mut theirs) = pair().await;
    let third = "x".repeat(limits::JOIN_BYTES_MAX / 3);
    for _ in 0..2 {
        ours.send(&third).await.unwrap();
        assert_eq!(theirs.receive::<String>().await.unwrap(), third);
    }
    ours.send(&third).await.unwrap();
    let error = theirs.receive::<String>().await.unwrap_err();
    assert!(matches!(error, NetError::TooLong { .. }), "{error}");

    let (mut ours, mut theirs) = pair().await;
    theirs.admit();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60)).await;
    ours.send(&"x".repeat(limits::JOIN_BYTES_MAX)).await.unwrap();
    assert!(theirs.receive::<String>().await.is_ok(), "who has proved something has no such bounds");
}

#[tokio::test]
async fn the_silent_of_one_address_keep_nobody_of_another_waiting() {
    let authority = Authority::create("cloud").unwrap();
    let room = UnauthenticatedLimits { total: 8, per_address: 4 };
    let listener = listen(role(&authority, "node-1")).await.with_limits(room);
    let silent_from = |last| async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, last], 0).into()).unwrap();
        socket
    };
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(silent_from(2).await.connect(listener.address()).await.unwrap());
    }
    let carrier = TcpCarrier::new(client(&authority));
    let (taking, connecting) = (
        async {
            let mut incoming = Vec::new();
            loop {
                let next = listener.accept().await.unwrap();
                if next.peer().ip() == IpAddr::from([127, 0, 0, 1]) {
                    return (incoming, next.handshake().await);
                }
                incoming.push(next);
            }
        },
        carrier.connect(listener.address(), "node-1"),
    );
    let ((strangers, theirs), ours) = tokio::join!(taking, connecting);
    assert!(ours.is_ok() && theirs.is_ok());
    assert_eq!(strangers.len(), room.per_address, "the others were hung up on");
}
