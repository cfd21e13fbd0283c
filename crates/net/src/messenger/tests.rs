//! The messenger on both kinds of socket. Every test of [`transports`] runs over real UDP on the loopback, and over the
//! network in memory with the runtime's time stopped. The tests at the end need a bad network and run in memory only.

#![allow(clippy::unwrap_used)]

use protocol::{limits, names, wire::datagram};
use tokio::task::JoinSet;

use super::*;
use crate::{
    datagram::{DatagramFuture, bind_udp},
    memory_network::{LinkConditions, MemoryNetwork},
};

const SESSION: SessionId = SessionId(0xabc);
const KEY: [u8; 32] = [42; 32];
/// Longer than any of it takes; a test that exceeds it would hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// A sealed datagram with nothing but an acknowledgement of so few is shorter; one with a message is longer.
const ACKNOWLEDGEMENT_ALONE_BYTES_MAX: usize = datagram::HEAD_BYTES + datagram::SEAL_BYTES + 16;

/// The kind of network that a test runs on.
#[derive(Clone)]
enum Ground {
    Loopback,
    Memory(MemoryNetwork),
}

impl Ground {
    async fn bind(&self) -> Arc<dyn DatagramSocket> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        match self {
            Self::Loopback => bind_udp(any).await.unwrap(),
            Self::Memory(network) => network.bind(any).unwrap(),
        }
    }

    async fn messenger(&self) -> (Messenger, mpsc::Receiver<MessengerEvent>) {
        Messenger::start(self.bind().await, Clock::start())
    }

    /// An opener with its acceptor, which does not yet know the opener's address.
    async fn pair(&self) -> Pair {
        let ((opener, opener_events), (acceptor, acceptor_events)) = (self.messenger().await, self.messenger().await);
        opener.add_session(keys(SessionRole::Initiator, Some(acceptor.local_address())));
        acceptor.add_session(keys(SessionRole::Responder, None));
        Pair { opener, opener_events, acceptor, acceptor_events }
    }

    /// The same, where the acceptor answers each request with its bytes reversed.
    async fn answering_pair(&self) -> (Pair, JoinSet<()>) {
        let mut pair = self.pair().await;
        let (acceptor, (_, closed)) = (pair.acceptor.clone(), mpsc::channel(1));
        let mut events = std::mem::replace(&mut pair.acceptor_events, closed);
        let mut answering = JoinSet::new();
        answering.spawn(async move {
            while let Some(event) = events.recv().await {
                if let MessengerEvent::Delivered(Delivered { session, request: Some(request), body }) = event {
                    acceptor.reply(session, request, turned(body));
                }
            }
        });
        (pair, answering)
    }
}

struct Pair {
    opener: Messenger,
    opener_events: mpsc::Receiver<MessengerEvent>,
    acceptor: Messenger,
    acceptor_events: mpsc::Receiver<MessengerEvent>,
}

fn keys(side: SessionRole, peer: Option<SocketAddr>) -> SessionKeys {
    SessionKeys { session: SESSION, key: KEY, role: side, peer }
}

fn turned(mut body: Vec<u8>) -> Vec<u8> {
    body.reverse();
    body
}

async fn next(events: &mut mpsc::Receiver<MessengerEvent>) -> Delivered {
    match tokio::time::timeout(PATIENCE, events.recv()).await {
        Ok(Some(MessengerEvent::Delivered(delivered))) => delivered,
        other => panic!("no message: {other:?}"),
    }
}

/// Waits for a condition that nobody announces.
async fn until(mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it never is so");
}

/// The length of the next datagram at one of the test's own sockets, and its source.
async fn heard(socket: &dyn DatagramSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    tokio::time::timeout(PATIENCE, socket.receive_from(buffer)).await.expect("nothing came").unwrap()
}

fn counter(messenger: &Messenger, name: &str) -> u64 {
    messenger.counters().into_iter().find(|(found, _)| *found == name).unwrap().1
}

/// Tests that hold on every kind of network: `async fn test(ground: Ground)`.
macro_rules! transports {
    ($($test:ident),+ $(,)?) => {
        mod over_udp {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Ground::Loopback).await;
            })+
        }
        mod in_memory {
            $(#[tokio::test(start_paused = true)]
            async fn $test() {
                super::$test(super::Ground::Memory(super::MemoryNetwork::new(1))).await;
            })+
        }
    };
}

mod rules;
mod second_reading;
mod unknown_senders;

transports!(
    a_request_gets_its_own_reply,
    the_largest_message_goes_both_ways_and_a_larger_one_is_refused,
    a_listener_speaks_once_it_has_heard_its_peer,
    a_request_without_an_answer_ends_at_its_deadline_and_a_late_reply_harms_nothing,
    what_is_not_sealed_with_the_key_is_counted_and_dropped,
    a_replayed_datagram_is_neither_delivered_nor_followed,
    an_overtaken_datagram_is_delivered_and_not_followed,
    a_peer_that_moves_is_followed,
    a_reader_that_is_slow_gets_everything_once,
    an_ended_session_still_says_its_last_word,
    a_requester_is_told_when_its_session_ends,
    a_session_of_an_old_id_and_a_new_key_is_a_new_one,
    events_end_with_the_last_messenger,
);

async fn a_request_gets_its_own_reply(ground: Ground) {
    let (pair, _answering) = ground.answering_pair().await;
    let mut requests = JoinSet::new();
    for number in 0..500u32 {
        let opener = pair.opener.clone();
        requests.spawn(async move {
            let body = [number.to_be_bytes().as_slice(), &vec![7; number as usize * 10]].concat();
            let reply = opener.request(SESSION, body.clone(), PATIENCE).await.unwrap();
            assert_eq!(reply, turned(body));
        });
    }
    assert_eq!(requests.join_all().await.len(), 500);
}

async fn the_largest_message_goes_both_ways_and_a_larger_one_is_refused(ground: Ground) {
    let (pair, _answering) = ground.answering_pair().await;
    let body: Vec<u8> = (0..limits::MESSAGE_BYTES_MAX).map(|at| (at / 7) as u8).collect();
    let reply = pair.opener.request(SESSION, body.clone(), PATIENCE).await.unwrap();
    assert!(reply == turned(body));
    let too_long = pair.opener.request(SESSION, vec![0; limits::MESSAGE_BYTES_MAX + 1], PATIENCE).await;
    assert!(matches!(too_long, Err(NetError::TooLong { .. })));
}

async fn a_listener_speaks_once_it_has_heard_its_peer(ground: Ground) {
    let mut pair = ground.pair().await;
    pair.acceptor.notify(SESSION, b"order".to_vec()).unwrap();
    pair.opener.notify(SESSION, b"here I am".to_vec()).unwrap();
    let delivered = next(&mut pair.acceptor_events).await;
    assert_eq!(delivered, Delivered { session: SESSION, request: None, body: b"here I am".to_vec() });
    assert_eq!(next(&mut pair.opener_events).await.body, b"order");
}

async fn a_request_without_an_answer_ends_at_its_deadline_and_a_late_reply_harms_nothing(ground: Ground) {
    let mut pair = ground.pair().await;
    let late = pair.opener.request(SESSION, b"late".to_vec(), Duration::from_millis(30)).await;
    assert!(matches!(late, Err(NetError::Deadline { .. })), "{late:?}");
    let request = next(&mut pair.acceptor_events).await.request.unwrap();
    pair.acceptor.reply(SESSION, request, b"too late".to_vec());
    let answering = async {
        let delivered = next(&mut pair.acceptor_events).await;
        pair.acceptor.reply(SESSION, delivered.request.unwrap(), b"in time".to_vec());
    };
    let (reply, ()) = tokio::join!(pair.opener.request(SESSION, b"soon".to_vec(), PATIENCE), answering);
    assert_eq!(reply.unwrap(), b"in time");
}

// Promise 25.
async fn what_is_not_sealed_with_the_key_is_counted_and_dropped(ground: Ground) {
    let mut pair = ground.pair().await;
    let stranger = ground.bind().await;
    let head = datagram::Head { session: SESSION, packet: 0, phase: 0, heard_phase: 0 }.to_bytes();
    let forged = [&head[..], &[0; 40]].concat();
    let of_no_session =
        [&datagram::Head { session: SessionId(1), packet: 0, phase: 0, heard_phase: 0 }.to_bytes()[..], &[0; 40]]
            .concat();
    let too_long = [&head[..], &[0; limits::DATAGRAM_BYTES_MAX]].concat();
    for datagram in [b"hello".to_vec(), forged, of_no_session, too_long, Vec::new()] {
        stranger.send_to(&datagram, pair.acceptor.local_address()).await.unwrap();
    }
    let (other_key, _events) = ground.messenger().await;
    other_key
        .add_session(SessionKeys { key: [1; 32], ..keys(SessionRole::Initiator, Some(pair.acceptor.local_address())) });
    other_key.notify(SESSION, b"not mine".to_vec()).unwrap();
    // Datagrams to one socket of one machine do not overtake each other, but several tasks may send theirs in any
    // order. So wait until all were counted, and check that only the authentic one was delivered.
    until(|| counter(&pair.acceptor, names::METRIC_DATAGRAMS_DROPPED) >= 6).await;
    pair.opener.notify(SESSION, b"mine".to_vec()).unwrap();
    assert_eq!(next(&mut pair.acceptor_events).await.body, b"mine");
}

/// Stands between two messengers: a datagram that comes from one side leaves to the other by that side's socket.
struct Relay {
    near: Arc<dyn DatagramSocket>,
    opener: Option<SocketAddr>,
    acceptor: SocketAddr,
}

impl Relay {
    /// Holds the next datagram from the opener.
    async fn take(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 2_000];
        let (length, from) = heard(&*self.near, &mut buffer).await;
        self.opener = Some(from);
        buffer.truncate(length);
        buffer
    }

    /// Passes on the next datagram from the opener by `far`.
    async fn pass(&mut self, far: &dyn DatagramSocket) -> Vec<u8> {
        let datagram = self.take().await;
        far.send_to(&datagram, self.acceptor).await.unwrap();
        datagram
    }

    /// A pair whose opener takes the relay for the acceptor.
    async fn between(ground: &Ground) -> (Self, Pair) {
        let near = ground.bind().await;
        let ((opener, opener_events), (acceptor, acceptor_events)) =
            (ground.messenger().await, ground.messenger().await);
        opener.add_session(keys(SessionRole::Initiator, Some(near.local_address())));
        acceptor.add_session(keys(SessionRole::Responder, None));
        let relay = Self { near, opener: None, acceptor: acceptor.local_address() };
        (relay, Pair { opener, opener_events, acceptor, acceptor_events })
    }
}

// Promise 25.
async fn a_replayed_datagram_is_neither_delivered_nor_followed(ground: Ground) {
    let (mut relay, mut pair) = Relay::between(&ground).await;
    let (honest, thief) = (ground.bind().await, ground.bind().await);
    pair.opener.notify(SESSION, b"once".to_vec()).unwrap();
    let stolen = relay.pass(&*honest).await;
    assert_eq!(next(&mut pair.acceptor_events).await.body, b"once");
    let mut buffer = [0; 2_000];
    // The acknowledgement goes back to the address that the datagram came from.
    assert_eq!(heard(&*honest, &mut buffer).await.1, relay.acceptor);
    let dropped = counter(&pair.acceptor, names::METRIC_DATAGRAMS_DROPPED);
    thief.send_to(&stolen, relay.acceptor).await.unwrap();
    until(|| counter(&pair.acceptor, names::METRIC_DATAGRAMS_DROPPED) > dropped).await;
    assert!(pair.acceptor_events.try_recv().is_err());
    pair.acceptor.notify(SESSION, b"to the honest one".to_vec()).unwrap();
    heard(&*honest, &mut buffer).await;
}

async fn an_overtaken_datagram_is_delivered_and_not_followed(ground: Ground) {
    let (mut relay, mut pair) = Relay::between(&ground).await;
    let (honest, thief) = (ground.bind().await, ground.bind().await);
    pair.opener.notify(SESSION, b"held back".to_vec()).unwrap();
    let held = relay.take().await;
    pair.opener.notify(SESSION, b"newer".to_vec()).unwrap();
    relay.pass(&*honest).await;
    assert_eq!(next(&mut pair.acceptor_events).await.body, b"newer");
    thief.send_to(&held, relay.acceptor).await.unwrap();
    assert_eq!(next(&mut pair.acceptor_events).await.body, b"held back");
    pair.acceptor.notify(SESSION, b"to the honest one".to_vec()).unwrap();
    // An acknowledgement or two may come before; the message comes to this address or to none.
    let mut buffer = [0; 2_000];
    while heard(&*honest, &mut buffer).await.0 < ACKNOWLEDGEMENT_ALONE_BYTES_MAX {}
}

async fn a_peer_that_moves_is_followed(ground: Ground) {
    let (mut relay, mut pair) = Relay::between(&ground).await;
    let mut buffer = [0; 2_000];
    for body in [b"here", b"away"] {
        let far = ground.bind().await;
        pair.opener.notify(SESSION, body.to_vec()).unwrap();
        let delivered = async {
            loop {
                tokio::select! {
                    _ = relay.pass(&*far) => {}
                    delivered = next(&mut pair.acceptor_events) => break delivered,
                }
            }
        };
        assert_eq!(delivered.await.body, body);
        // Its acknowledgement comes to the new address, and is passed on.
        let (length, _) = heard(&*far, &mut buffer).await;
        relay.near.send_to(&buffer[..length], relay.opener.unwrap()).await.unwrap();
    }
}

async fn a_reader_that_is_slow_gets_everything_once(ground: Ground) {
    let mut pair = ground.pair().await;
    let sent = 3 * EVENTS_MAX as u32;
    for number in 0..sent {
        pair.opener.notify(SESSION, number.to_be_bytes().to_vec()).unwrap();
    }
    // The queue of events is full, and stays full for a while.
    until(|| pair.acceptor_events.len() == EVENTS_MAX).await;
    // Meanwhile the sender is not held up otherwise: a message that found no room is sent again.
    let before = counter(&pair.opener, names::METRIC_DATAGRAMS_RETRANSMITTED);
    until(|| counter(&pair.opener, names::METRIC_DATAGRAMS_RETRANSMITTED) > before).await;
    let mut received = Vec::new();
    while received.len() < sent as usize {
        let body = next(&mut pair.acceptor_events).await.body;
        received.push(u32::from_be_bytes(body.try_into().unwrap()));
    }
    received.sort_unstable();
    assert_eq!(received, (0..sent).collect::<Vec<_>>());
}

async fn an_ended_session_still_says_its_last_word(ground: Ground) {
    let mut pair = ground.pair().await;
    let leaving = async {
        let delivered = next(&mut pair.acceptor_events).await;
        pair.acceptor.reply(SESSION, delivered.request.unwrap(), b"bye".to_vec());
        pair.acceptor.close().await;
    };
    let (reply, ()) = tokio::join!(pair.opener.request(SESSION, b"logout".to_vec(), PATIENCE), leaving);
    assert_eq!(reply.unwrap(), b"bye");
    assert!(pair.acceptor.shared.lock().sessions().is_empty());
    assert!(matches!(pair.acceptor.notify(SESSION, Vec::new()), Err(NetError::SessionLost { .. })));
}

async fn a_requester_is_told_when_its_session_ends(ground: Ground) {
    let mut pair = ground.pair().await;
    let ending = async {
        next(&mut pair.acceptor_events).await;
        pair.opener.remove_session(SESSION);
    };
    let (reply, ()) = tokio::join!(pair.opener.request(SESSION, b"?".to_vec(), PATIENCE), ending);
    assert!(matches!(reply, Err(NetError::SessionLost { session: SESSION })), "{reply:?}");
    let unknown = pair.opener.request(SessionId(9), Vec::new(), PATIENCE).await;
    assert!(matches!(unknown, Err(NetError::SessionLost { .. })), "{unknown:?}");
}

async fn a_session_of_an_old_id_and_a_new_key_is_a_new_one(ground: Ground) {
    let mut pair = ground.pair().await;
    // Nothing waits in the old session, so it is gone at once. The event of its end comes before the new one's start.
    let key = [43; 32];
    let (at, acceptor) = (Some(pair.acceptor.local_address()), pair.acceptor.clone());
    for (messenger, keys) in
        [(&acceptor, keys(SessionRole::Responder, None)), (&pair.opener, keys(SessionRole::Initiator, at))]
    {
        messenger.remove_session(SESSION);
        messenger.add_session(SessionKeys { key, ..keys });
    }
    pair.opener.notify(SESSION, b"new".to_vec()).unwrap();
    assert_eq!(next(&mut pair.acceptor_events).await.body, b"new");
}

async fn events_end_with_the_last_messenger(ground: Ground) {
    let mut pair = ground.pair().await;
    let clone = pair.opener.clone();
    drop(pair.opener);
    clone.notify(SESSION, b"still here".to_vec()).unwrap();
    assert_eq!(next(&mut pair.acceptor_events).await.body, b"still here");
    drop(clone);
    assert_eq!(pair.opener_events.recv().await, None);
}

// Promise 24.
#[tokio::test(start_paused = true)]
async fn every_request_is_answered_once_through_bad_weather() {
    for seed in 0..10 {
        let network = MemoryNetwork::new(seed);
        let far = Duration::from_millis(40);
        network.set_conditions(LinkConditions { delay: far, jitter: far, loss: 0.2, duplication: 0.1, reorder: 0.1 });
        let (pair, _answering) = Ground::Memory(network).answering_pair().await;
        let mut requests = JoinSet::new();
        for number in 0..50usize {
            let opener = pair.opener.clone();
            requests.spawn(async move {
                let body = vec![number as u8; number * 100];
                assert_eq!(opener.request(SESSION, body.clone(), PATIENCE).await.unwrap(), turned(body));
            });
        }
        assert_eq!(requests.join_all().await.len(), 50, "seed {seed}");
        assert!(counter(&pair.opener, names::METRIC_DATAGRAMS_RETRANSMITTED) > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_heals_in_time_is_only_a_delay() {
    let network = MemoryNetwork::new(5);
    let (pair, _answering) = Ground::Memory(network.clone()).answering_pair().await;
    let (a, b) = (pair.opener.local_address(), pair.acceptor.local_address());
    network.cut(a, b);
    let healing = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        network.heal(a, b);
    };
    let (reply, ()) = tokio::join!(pair.opener.request(SESSION, b"abc".to_vec(), PATIENCE), healing);
    assert_eq!(reply.unwrap(), b"cba");
}

#[tokio::test(start_paused = true)]
async fn a_cut_that_stays_loses_the_session_and_says_so() {
    let network = MemoryNetwork::new(6);
    let mut pair = Ground::Memory(network.clone()).pair().await;
    network.cut(pair.opener.local_address(), pair.acceptor.local_address());
    let reply = pair.opener.request(SESSION, b"abc".to_vec(), PATIENCE).await;
    assert!(matches!(reply, Err(NetError::SessionLost { session: SESSION })), "{reply:?}");
    assert_eq!(pair.opener_events.recv().await, Some(MessengerEvent::SessionLost(SESSION)));
    // The other end had nothing to send, and notices nothing until it has.
    pair.acceptor.notify(SESSION, b"anyone?".to_vec()).unwrap();
    assert_eq!(pair.acceptor_events.recv().await, Some(MessengerEvent::SessionLost(SESSION)));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_keep_up_fills_the_queue_and_the_sender_is_told() {
    let network = MemoryNetwork::new(7);
    let pair = Ground::Memory(network.clone()).pair().await;
    network.cut(pair.opener.local_address(), pair.acceptor.local_address());
    let refused = (0..10_000).find_map(|_| pair.opener.notify(SESSION, b"x".to_vec()).err());
    assert!(matches!(refused, Some(NetError::QueueFull { session: SESSION, .. })), "{refused:?}");
}

/// A socket that takes two datagrams at once, then none until it was waited for. It cannot send to one address.
struct Grudging {
    sent: Mutex<Vec<OutgoingDatagram>>,
    unreachable: SocketAddr,
    is_full: Mutex<bool>,
}

impl DatagramSocket for Grudging {
    fn local_address(&self) -> SocketAddr {
        self.unreachable
    }

    fn send_to<'a>(&'a self, datagram: &'a [u8], to: SocketAddr) -> DatagramFuture<'a, ()> {
        *self.is_full.lock().unwrap() = false;
        self.sent.lock().unwrap().push(OutgoingDatagram { datagram: datagram.to_vec(), to });
        Box::pin(std::future::ready(Ok(())))
    }

    fn receive_from<'a>(&'a self, _: &'a mut [u8]) -> DatagramFuture<'a, (usize, SocketAddr)> {
        Box::pin(std::future::pending())
    }

    fn try_send_many(&self, departures: &[OutgoingDatagram]) -> std::io::Result<usize> {
        if std::mem::replace(&mut *self.is_full.lock().unwrap(), true) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let two = &departures[..departures.len().min(2)];
        let sent = two.iter().take_while(|departure| departure.to != self.unreachable);
        let sent: Vec<_> = sent.cloned().collect();
        let count = sent.len();
        self.sent.lock().unwrap().extend(sent);
        if count == 0 { Err(ErrorKind::NetworkUnreachable.into()) } else { Ok(count) }
    }
}

#[tokio::test]
async fn a_slow_socket_gets_all_in_order_and_a_failing_one_holds_up_no_other() {
    let [here, unreachable] = [1, 2].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
    let socket = Grudging { sent: Mutex::default(), unreachable, is_full: Mutex::new(false) };
    let departures: Vec<_> = (0..12u8)
        .map(|number| OutgoingDatagram { datagram: vec![number], to: if number == 6 { unreachable } else { here } })
        .collect();
    dispatch(&socket, &departures).await;
    let sent: Vec<_> = socket.sent.lock().unwrap().iter().map(|departure| departure.datagram[0]).collect();
    assert_eq!(sent, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11]);
}

#[tokio::test(start_paused = true)]
async fn many_askers_on_a_lossy_way_lose_nothing_and_are_never_held_up_for_long() {
    for seed in 0..4 {
        let network = MemoryNetwork::new(seed);
        let delay = Duration::from_millis(10);
        network.set_conditions(LinkConditions { delay, loss: 0.1, ..LinkConditions::IDEAL });
        let (pair, _answering) = Ground::Memory(network).answering_pair().await;
        let mut asking = JoinSet::new();
        for asker in 0..64u8 {
            let opener = pair.opener.clone();
            asking.spawn(async move {
                let mut slowest = Duration::ZERO;
                for number in 0..100u8 {
                    let body = vec![asker, number];
                    let begun = tokio::time::Instant::now();
                    assert_eq!(opener.request(SESSION, body.clone(), PATIENCE).await.unwrap(), turned(body));
                    slowest = slowest.max(begun.elapsed());
                }
                slowest
            });
        }
        let slowest = asking.join_all().await.into_iter().max().unwrap();
        assert!(slowest < Duration::from_secs(5), "seed {seed}: {slowest:?}");
    }
}
