//! Two endpoints and a bad network between them, from one seed. Whatever is lost, late, duplicated or overtaken, every
//! message arrives once and whole, and both ends come to rest. Neither end ever keeps more than its bounds, and the
//! simulation never opens a socket or reads a clock.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;
use proptest::{
    collection::vec,
    prelude::{any, prop_assert, proptest},
};

use super::{
    Class, Endpoint, EndpointAction, KeyLimits, Message, MessageKind, OpenMode, SendError, UNFINISHED_BYTES_MAX,
};
use crate::{
    Now, SessionId,
    limits::MESSAGE_BYTES_MAX,
    wire::datagram::{HEAD_BYTES, Head, SEAL_BYTES},
};

const SESSION: SessionId = SessionId(5);

/// How bad the network is; shares out of 100.
#[derive(Clone, Copy, Debug)]
struct NetworkConditions {
    loss: u8,
    doubled: u8,
    delay_ms: (u64, u64),
}

/// Both ends, and the datagrams on their way.
struct World {
    rng: Rng,
    conditions: NetworkConditions,
    ends: [Endpoint; 2],
    now: Now,
    /// By time of arrival and order: the receiving end, the key phase that seals it, and the datagram, with zeros for
    /// the seal.
    on_the_way: BTreeMap<(Duration, u64), (usize, u64, Vec<u8>)>,
    /// The newest key phase that each end has unsealed.
    unsealed: [u64; 2],
    order: u64,
    /// Messages taken for sending and not yet delivered, for each receiving end.
    expected: [BTreeSet<Vec<u8>>; 2],
    lost: bool,
}

impl World {
    fn new(seed: u64, weather: NetworkConditions) -> Self {
        let mut ends = [Endpoint::new(), Endpoint::new()];
        ends[0].add_session(SESSION, OpenMode::Active);
        ends[1].add_session(SESSION, OpenMode::Passive);
        // Keys that are soon used up, so that phases change in the middle of everything.
        ends.iter_mut().for_each(|end| end.set_key_limits(KeyLimits { packets_max: 20, ..KeyLimits::default() }));
        let (on_the_way, expected) = (BTreeMap::new(), [BTreeSet::new(), BTreeSet::new()]);
        Self {
            rng: Rng::with_seed(seed),
            conditions: weather,
            ends,
            now: Now::default(),
            on_the_way,
            unsealed: [0; 2],
            order: 0,
            expected,
            lost: false,
        }
    }

    /// Sends a message that its first bytes tell from all others.
    fn send(&mut self, from: usize, bytes: usize) -> Result<(), SendError> {
        self.order += 1;
        let mut body = self.order.to_be_bytes().to_vec();
        body.resize_with(bytes.max(8), || self.rng.u8(..));
        let kind = match self.order % 3 {
            0 => MessageKind::Notice,
            1 => MessageKind::Request(self.order),
            _ => MessageKind::Reply(self.order),
        };
        let class = *self.rng.choice(&Class::ALL).unwrap();
        self.ends[from].send(self.now, SESSION, class, Message { kind, body: body.clone() })?;
        self.expected[1 - from].insert(body);
        self.act(from);
        Ok(())
    }

    fn act(&mut self, end: usize) {
        while let Some(action) = self.ends[end].poll_action() {
            match action {
                EndpointAction::Send(sent) => self.launch(1 - end, sent.phase, &sent.bytes),
                EndpointAction::Deliver { message, .. } => {
                    assert!(self.expected[end].remove(&message.body), "delivered twice, or never sent");
                }
                EndpointAction::SessionLost(_) | EndpointAction::SessionClosed(_) => self.lost = true,
            }
        }
        assert!(self.ends[end].kept_bytes() <= UNFINISHED_BYTES_MAX);
    }

    fn launch(&mut self, to: usize, phase: u64, bytes: &[u8]) {
        let copies = usize::from(self.rng.u8(..100) >= self.conditions.loss)
            + usize::from(self.rng.u8(..100) < self.conditions.doubled);
        for _ in 0..copies {
            let delay = Duration::from_micros(
                self.rng.u64(self.conditions.delay_ms.0 * 1000..=self.conditions.delay_ms.1 * 1000),
            );
            self.order += 1;
            self.on_the_way
                .insert((self.now.monotonic + delay, self.order), (to, phase, [bytes, &[0; SEAL_BYTES]].concat()));
        }
    }

    /// Advances to the next event; `false` when there is none.
    fn step(&mut self) -> bool {
        let arrival = self.on_the_way.first_key_value().map(|((at, _), _)| *at);
        let timeout = self.ends.iter().filter_map(Endpoint::next_timeout).min();
        let Some(next) = [arrival, timeout].into_iter().flatten().min() else { return false };
        self.now.monotonic = self.now.monotonic.max(next);
        if arrival == Some(next) {
            let (_, (to, phase, bytes)) = self.on_the_way.pop_first().unwrap();
            // A receiver has the keys of the phase before, the present and the next.
            assert!(phase <= self.unsealed[to] + 1, "a key that the receiver cannot have yet");
            if phase + 1 < self.unsealed[to] {
                return true;
            }
            self.unsealed[to] = self.unsealed[to].max(phase);
            let (head, _) = Head::split(&bytes).unwrap();
            self.ends[to].handle_datagram(self.now, &head, &bytes[HEAD_BYTES..bytes.len() - SEAL_BYTES]);
            self.act(to);
        } else {
            for end in 0..2 {
                self.ends[end].handle_timeout(self.now);
                self.act(end);
            }
        }
        true
    }

    fn run_to_rest(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 2_000_000, "it never comes to rest");
        }
    }
}

// Promise 24.
#[test]
fn every_message_arrives_once_whatever_the_network_does() {
    let mut phases = 0;
    for seed in 0..30 {
        let mut rng = Rng::with_seed(seed);
        let delay = rng.u64(0..80);
        let weather = NetworkConditions {
            loss: rng.u8(0..30),
            doubled: rng.u8(0..20),
            delay_ms: (delay, delay + rng.u64(0..60)),
        };
        let mut world = World::new(seed, weather);
        // The passive end hears its peer.
        world.send(0, 8).unwrap();
        for _ in 0..rng.usize(1..200) {
            let bytes = if rng.u8(..20) == 0 { rng.usize(0..200_000) } else { rng.usize(0..3_000) };
            world.send(rng.usize(0..2), bytes).unwrap();
            for _ in 0..rng.usize(0..6) {
                world.step();
            }
        }
        world.run_to_rest();
        let left: usize = world.expected.iter().map(BTreeSet::len).sum();
        assert_eq!((left, world.lost), (0, false), "seed {seed}, {weather:?}");
        assert!(world.ends.iter().all(|end| end.is_idle(SESSION) && end.kept_bytes() == 0), "seed {seed}");
        phases += world.unsealed.iter().sum::<u64>();
    }
    assert!(phases > 100, "keys were used up {phases} times");
}

#[test]
fn the_largest_message_crosses_a_bad_network() {
    let mut world = World::new(1, NetworkConditions { loss: 10, doubled: 5, delay_ms: (20, 60) });
    world.send(0, MESSAGE_BYTES_MAX).unwrap();
    assert_eq!(world.send(0, MESSAGE_BYTES_MAX + 1), Err(SendError::TooLarge { bytes: MESSAGE_BYTES_MAX + 1 }));
    world.run_to_rest();
    assert!(world.expected[1].is_empty() && !world.lost);
}

#[test]
fn on_a_good_network_nothing_is_sent_twice() {
    let mut world = World::new(2, NetworkConditions { loss: 0, doubled: 0, delay_ms: (30, 30) });
    for bytes in [10, 500_000, 1_000, 300_000] {
        world.send(0, bytes).unwrap();
        world.send(1, bytes).unwrap();
    }
    world.run_to_rest();
    assert!(world.expected.iter().all(BTreeSet::is_empty));
    for end in &world.ends {
        assert_eq!((end.counters().datagrams_retransmitted, end.counters().datagrams_dropped), (0, 0));
    }
}

#[test]
fn a_cut_link_loses_the_session_at_both_ends_and_leaves_nothing_behind() {
    let mut world = World::new(3, NetworkConditions { loss: 0, doubled: 0, delay_ms: (1, 2) });
    world.send(0, 100).unwrap();
    world.run_to_rest();
    world.conditions.loss = 100;
    world.send(0, 100).unwrap();
    world.send(1, 100_000).unwrap();
    world.run_to_rest();
    assert!(world.lost);
    let no_session = Err(SendError::NoSession(SESSION));
    assert_eq!((world.send(0, 8), world.send(1, 8)), (no_session, no_session));
    assert_eq!(world.ends.iter().filter_map(Endpoint::next_timeout).count(), 0);
}

#[test]
fn a_slow_reader_stops_its_peer_and_loses_nothing() {
    let mut world = World::new(4, NetworkConditions { loss: 5, doubled: 0, delay_ms: (1, 5) });
    world.ends[1].set_receive_capacity(10);
    for _ in 0..300 {
        world.send(0, 50).unwrap();
    }
    // Replies need no room; a third of the messages are replies.
    while world.now.monotonic < Duration::from_secs(3_600) && !world.expected[1].is_empty() {
        assert!(world.step());
        if world.rng.u8(..50) == 0 {
            world.ends[1].set_receive_capacity(world.rng.usize(0..10));
        }
    }
    assert!(
        world.expected[1].is_empty() && !world.lost,
        "{:?} left at {:?}",
        world.expected[1].len(),
        world.now.monotonic
    );
}

proptest! {
    #[test]
    fn no_datagram_breaks_an_endpoint(
        datagrams in vec((0u64..2_000, vec(any::<u8>(), 0..200), 0u8..5), 1..50),
    ) {
        let mut endpoint = Endpoint::new();
        endpoint.add_session(SESSION, OpenMode::Passive);
        let mut now = Now::default();
        for (packet, mut body, kind) in datagrams {
            // Half of them begin like a frame.
            body.first_mut().into_iter().for_each(|first| *first = kind);
            now = now.after(Duration::from_millis(packet));
            let class = Class::ALL[usize::from(kind % 3)];
            let _ = endpoint.send(now, SESSION, class, Message { kind: MessageKind::Request(packet), body: body.clone() });
            endpoint.handle_datagram(now, &Head { session: SESSION, packet, phase: kind, heard_phase: 0 }, &body);
            endpoint.cancel_request(now, SESSION, packet / 2);
            endpoint.handle_timeout(now);
            while endpoint.poll_action().is_some() {}
        }
        prop_assert!(endpoint.kept_bytes() <= UNFINISHED_BYTES_MAX);
    }
}
