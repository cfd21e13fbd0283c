//! Sites used by real sockets of this kernel. Whatever the link did to them, packets arrive as the sender's kernel
//! would have sent them over a wire. The tests need root, and report it if they do not have it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use testbed::{
    Blocked, DirectionCounts, PathChange, PathRules, Rate, Scope, Share, Testbed, TestbedError, TestbedPlan,
    site_address,
};

const RTT: Duration = Duration::from_millis(20);

/// A testbed of two sites; `None`, with a line that says so, where it cannot be made.
fn two_sites(rules: &PathRules) -> Option<Testbed> {
    match Testbed::start(TestbedPlan::new(2, 0, rules, 1).unwrap(), true) {
        Ok(testbed) => Some(testbed),
        Err(error @ (TestbedError::NotPermitted { .. } | TestbedError::NoTun(_))) => {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn rules() -> PathRules {
    PathRules::new(Rate(200_000_000), RTT)
}

/// What went from the first site to the second.
fn there(testbed: &Testbed) -> DirectionCounts {
    testbed.controls().status().ways[0].there
}

fn change(testbed: &Testbed, change: PathChange) {
    testbed.controls().change(&Scope::All, &change).unwrap();
}

/// Sends `bytes` from the first site to the second over TCP. Returns what arrived, and how long the connection took
/// to make.
fn send(testbed: &Testbed, bytes: &[u8]) -> (Vec<u8>, Duration) {
    let listener = testbed.run(1, || TcpListener::bind((site_address(1), 0)).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            let mut received = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        let begun = Instant::now();
        let mut stream = testbed.run(0, || TcpStream::connect(address).unwrap()).unwrap();
        let connected = begun.elapsed();
        stream.write_all(bytes).unwrap();
        drop(stream);
        (receiving.join().unwrap(), connected)
    })
}

fn random_bytes(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(7);
    std::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
}

/// A socket at each site, the second's with its address.
fn datagrams(testbed: &Testbed) -> (UdpSocket, UdpSocket, SocketAddr) {
    let bind = |site| testbed.run(site, || UdpSocket::bind((site_address(site), 0)).unwrap()).unwrap();
    let (from, to) = (bind(0), bind(1));
    let address = to.local_addr().unwrap();
    (from, to, address)
}

#[test]
fn a_connection_between_sites_takes_a_round_trip_and_brings_every_byte() {
    // A queue that holds all of it: TCP begins by sending more than the link carries.
    let Some(testbed) = two_sites(&PathRules { queue_bytes: Some(8 << 20), ..rules() }) else { return };
    let bytes = random_bytes(4 << 20);
    let (received, connected) = send(&testbed, &bytes);
    assert!(received == bytes);
    assert!(connected >= RTT, "{connected:?}");
    let passed = there(&testbed);
    assert!(passed.sent as usize >= bytes.len() / 1448, "each segment counts: {passed:?}");
    assert_eq!((passed.lost, passed.overflowed), (0, 0));
}

#[test]
fn a_kernel_takes_what_is_left_of_its_segments_for_what_it_is() {
    let bad = PathRules {
        loss: Share(0.01),
        reorder: Share(0.01),
        reorder_by: Some(Duration::from_millis(1)),
        duplicate: Share(0.01),
        ..rules()
    };
    let Some(testbed) = two_sites(&bad) else { return };
    let bytes = random_bytes(4 << 20);
    let (received, _) = send(&testbed, &bytes);
    assert!(received == bytes);
    let passed = there(&testbed);
    assert!(passed.lost > 0 && passed.reordered > 0 && passed.duplicated > 0, "the faults have fired: {passed:?}");
}

#[test]
fn without_offload_each_packet_passes_by_itself() {
    let plan = TestbedPlan::new(2, 0, &PathRules { loss: Share(0.01), ..rules() }, 1).unwrap();
    let testbed = match Testbed::start(plan, false) {
        Ok(testbed) => testbed,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    assert!(testbed.is_slow_with_datagrams());
    let bytes = random_bytes(1 << 20);
    assert!(send(&testbed, &bytes).0 == bytes);
    assert!(there(&testbed).lost > 0, "the fault has fired");
}

#[test]
fn a_datagram_passes_before_a_cut_and_after_it_and_never_during_it() {
    let Some(testbed) = two_sites(&rules()) else { return };
    let (from, to, address) = datagrams(&testbed);
    let mut room = [0; 10];
    from.send_to(b"before", address).unwrap();
    assert_eq!(to.recv(&mut room).unwrap(), 6);
    change(&testbed, PathChange { is_cut: Some(true), ..PathChange::default() });
    from.send_to(b"during", address).unwrap();
    while there(&testbed).cut == 0 {
        thread::yield_now();
    }
    change(&testbed, PathChange { is_cut: Some(false), ..PathChange::default() });
    from.send_to(b"afterwards", address).unwrap();
    assert_eq!(to.recv(&mut room).unwrap(), 10);
    assert_eq!(&room, b"afterwards");
}

#[test]
fn a_blocked_protocol_does_not_pass_while_another_does() {
    let Some(testbed) = two_sites(&rules()) else { return };
    change(&testbed, PathChange { blocks: Some(Blocked::Udp), ..PathChange::default() });
    let (from, to, address) = datagrams(&testbed);
    from.send_to(b"blocked", address).unwrap();
    assert!(send(&testbed, b"over TCP").0 == b"over TCP");
    assert_eq!(there(&testbed).blocked, 1, "the fault has fired");
    change(&testbed, PathChange { blocks: Some(Blocked::Nothing), ..PathChange::default() });
    from.send_to(b"passes", address).unwrap();
    let mut room = [0; 10];
    assert_eq!(to.recv(&mut room).unwrap(), 6);
}

#[test]
fn a_narrow_path_swallows_long_packets_and_a_talking_one_says_so_to_their_sender() {
    let narrow = PathRules { mtu_bytes: Some(1000), ..rules() };
    let Some(testbed) = two_sites(&narrow) else { return };
    let (from, to, address) = datagrams(&testbed);
    from.send_to(&[1; 1200], address).unwrap();
    from.send_to(&[2; 900], address).unwrap();
    let mut room = [0; 2000];
    assert_eq!(to.recv(&mut room).unwrap(), 900);
    assert_eq!(there(&testbed).too_large, 1, "the fault has fired");
    // A TCP sender that is told uses smaller segments, and everything arrives.
    change(&testbed, PathChange { tells_mtu: Some(true), ..PathChange::default() });
    let bytes = random_bytes(100_000);
    assert!(send(&testbed, &bytes).0 == bytes);
    assert!(there(&testbed).too_large > 1, "the fault has fired");
}
