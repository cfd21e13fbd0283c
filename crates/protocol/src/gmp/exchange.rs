//! Requests and replies over a bad or a slow network, from one seed. Nothing is lost or runs twice, and a lost message
//! costs little more than a round trip. Urgent messages do not wait, and a cancelled request does not run late.
//! `simulation` sends notices of all kinds; here one end asks and the other answers, as the roles do. It never opens a
//! socket or reads a clock.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;

use super::{Class, Endpoint, EndpointAction, Message, MessageKind, OpenMode};
use crate::{
    Now, SessionId,
    limits::MESSAGE_BYTES_MAX,
    wire::datagram::{HEAD_BYTES, Head, SEAL_BYTES},
};

const SESSION: SessionId = SessionId(6);
const ASKER: usize = 0;
const ANSWERER: usize = 1;

/// The path between the two; shares out of 1,000.
#[derive(Clone, Copy, Debug)]
struct PathConditions {
    one_way: Duration,
    jitter: Duration,
    loss: u32,
    doubled: u32,
    /// `None`: unlimited.
    bytes_per_second: Option<u64>,
}

impl PathConditions {
    fn steady(one_way_ms: u64) -> Self {
        let one_way = Duration::from_millis(one_way_ms);
        Self { one_way, jitter: Duration::ZERO, loss: 0, doubled: 0, bytes_per_second: None }
    }
}

struct World {
    rng: Rng,
    path: PathConditions,
    ends: [Endpoint; 2],
    now: Now,
    on_the_way: BTreeMap<(Duration, u64), (usize, Vec<u8>)>,
    order: u64,
    /// Until when earlier datagrams occupy the path from each end.
    taken_until: [Duration; 2],
    /// When each request was asked, and when it was answered.
    asked: BTreeMap<u64, Duration>,
    answered: BTreeMap<u64, Duration>,
    /// Requests that were run, and when.
    run: BTreeMap<u64, Duration>,
    /// The size of the answers.
    answer_bytes: usize,
    /// How long the answering end takes.
    answering_takes: Duration,
    to_answer: BTreeSet<(Duration, u64)>,
}

impl World {
    fn new(seed: u64, way: PathConditions) -> Self {
        let mut ends = [Endpoint::new(), Endpoint::new()];
        ends[ASKER].add_session(SESSION, OpenMode::Active);
        ends[ANSWERER].add_session(SESSION, OpenMode::Passive);
        Self {
            rng: Rng::with_seed(seed),
            path: way,
            ends,
            now: Now::default(),
            on_the_way: BTreeMap::new(),
            order: 0,
            taken_until: [Duration::ZERO; 2],
            asked: BTreeMap::new(),
            answered: BTreeMap::new(),
            run: BTreeMap::new(),
            answer_bytes: 300,
            answering_takes: Duration::ZERO,
            to_answer: BTreeSet::new(),
        }
    }

    fn ask(&mut self, request: u64, class: Class, bytes: usize) {
        let message = Message { kind: MessageKind::Request(request), body: vec![1; bytes] };
        self.ends[ASKER].send(self.now, SESSION, class, message).unwrap();
        self.asked.insert(request, self.now.monotonic);
        self.act(ASKER);
    }

    fn give_up(&mut self, request: u64) {
        self.ends[ASKER].cancel_request(self.now, SESSION, request);
        self.act(ASKER);
    }

    fn act(&mut self, end: usize) {
        while let Some(action) = self.ends[end].poll_action() {
            match action {
                EndpointAction::Send(sent) => self.launch(end, &sent.bytes),
                EndpointAction::Deliver { message, .. } => self.deliver(end, &message),
                EndpointAction::SessionLost(_) | EndpointAction::SessionClosed(_) => panic!("the session ended"),
            }
        }
    }

    fn deliver(&mut self, end: usize, message: &Message) {
        match message.kind {
            MessageKind::Request(request) if end == ANSWERER => {
                assert!(self.run.insert(request, self.now.monotonic).is_none(), "request {request} ran twice");
                self.to_answer.insert((self.now.monotonic + self.answering_takes, request));
            }
            MessageKind::Reply(request) if end == ASKER => {
                assert!(self.answered.insert(request, self.now.monotonic).is_none(), "answered twice");
            }
            _ => panic!("{end} heard {message:?}"),
        }
    }

    fn launch(&mut self, from: usize, bytes: &[u8]) {
        let datagram = [bytes, &[0; SEAL_BYTES]].concat();
        let begins = self.now.monotonic.max(self.taken_until[from]);
        let takes = self.path.bytes_per_second.map_or(0, |rate| datagram.len() as u64 * 1_000_000 / rate);
        self.taken_until[from] = begins + Duration::from_micros(takes);
        let copies =
            u32::from(self.rng.u32(..1_000) >= self.path.loss) + u32::from(self.rng.u32(..1_000) < self.path.doubled);
        for _ in 0..copies {
            let jitter = self.path.jitter.mul_f64(self.rng.f64());
            self.order += 1;
            let at = self.taken_until[from] + self.path.one_way + jitter;
            self.on_the_way.insert((at, self.order), (1 - from, datagram.clone()));
        }
    }

    /// Advances to the next event; `false` when there is none.
    fn step(&mut self) -> bool {
        let arrival = self.on_the_way.first_key_value().map(|((at, _), _)| *at);
        let answer = self.to_answer.first().map(|(at, _)| *at);
        let timeout = self.ends.iter().filter_map(Endpoint::next_timeout).min();
        let Some(next) = [arrival, answer, timeout].into_iter().flatten().min() else { return false };
        self.now.monotonic = self.now.monotonic.max(next);
        if answer == Some(next) {
            let (_, request) = self.to_answer.pop_first().unwrap();
            let message = Message { kind: MessageKind::Reply(request), body: vec![2; self.answer_bytes] };
            self.ends[ANSWERER].send(self.now, SESSION, Class::Ordinary, message).unwrap();
            self.act(ANSWERER);
        } else if arrival == Some(next) {
            let (_, (to, bytes)) = self.on_the_way.pop_first().unwrap();
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

    fn run_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            assert!(self.step(), "nothing happens any more");
        }
    }

    fn run_to_rest(&mut self) {
        while self.step() {}
        assert!(self.ends.iter().all(|end| end.is_idle(SESSION) && end.kept_bytes() == 0));
    }

    fn took(&self, request: u64) -> Duration {
        self.answered[&request] - self.asked[&request]
    }
}

/// The 99th percentile of so many exchanges, one after the other.
fn percentile_99(seed: u64, way: PathConditions, exchanges: u64) -> Duration {
    let mut world = World::new(seed, way);
    for request in 0..exchanges {
        let bytes = world.rng.usize(200..600);
        world.ask(request, Class::Ordinary, bytes);
        world.run_until(|world| world.answered.contains_key(&request));
        // A person or a program thinks for a while.
        world.now.monotonic += Duration::from_millis(world.rng.u64(0..30));
    }
    assert_eq!(world.run.len() as u64, exchanges);
    let mut took: Vec<_> = (0..exchanges).map(|request| world.took(request)).collect();
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

// Promise 24.
#[test]
fn with_one_percent_loss_nearly_all_exchanges_take_under_three_round_trips() {
    for (seed, round_trip_ms) in [(1, 20), (2, 20), (3, 100), (4, 100)] {
        let way = PathConditions { loss: 10, ..PathConditions::steady(round_trip_ms / 2) };
        let took = percentile_99(seed, way, 4_000);
        println!("1 % loss, {round_trip_ms} ms: p99 {took:?}");
        assert!(took < 3 * Duration::from_millis(round_trip_ms), "{round_trip_ms} ms: {took:?}");
    }
}

// Promise 24.
#[test]
fn whatever_is_lost_doubled_or_overtaken_each_request_is_run_and_answered_once() {
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let loss = if seed % 2 == 0 { 10 } else { 100 };
        let jitter = Duration::from_millis(rng.u64(0..60));
        let way = PathConditions { loss, doubled: 50, jitter, ..PathConditions::steady(rng.u64(1..60)) };
        let mut world = World::new(seed, way);
        for request in 0..300 {
            let bytes = if rng.u8(..20) == 0 { rng.usize(0..50_000) } else { rng.usize(0..600) };
            world.ask(request, *rng.choice(&Class::ALL).unwrap(), bytes);
            for _ in 0..rng.usize(0..8) {
                world.step();
            }
        }
        world.run_to_rest();
        assert_eq!((world.run.len(), world.answered.len()), (300, 300), "seed {seed}, {way:?}");
    }
}

// Promise 24.
#[test]
fn an_urgent_request_waits_for_what_is_under_way_and_for_nothing_else() {
    // 10 Mbit/s and 40 ms: a mebibyte takes 0.9 s, and sixteen are waiting.
    let rate = 1_250_000;
    let mut world = World::new(1, PathConditions { bytes_per_second: Some(rate), ..PathConditions::steady(20) });
    world.ask(0, Class::Ordinary, 100);
    world.run_until(|world| world.answered.contains_key(&0));
    for request in 1..=16 {
        world.ask(request, Class::Bulk, MESSAGE_BYTES_MAX);
    }
    let mut waits = Vec::new();
    for request in 100..120 {
        let until = world.now.monotonic + Duration::from_millis(150);
        world.run_until(|world| world.now.monotonic >= until);
        let under_way = world.taken_until[ASKER].saturating_sub(world.now.monotonic);
        world.ask(request, Class::Urgent, 200);
        world.run_until(|world| world.answered.contains_key(&request));
        waits.push((world.took(request), under_way));
    }
    assert!(world.run.len() < 1 + 16 + 20, "the long ones are still waiting");
    for (took, under_way) in waits {
        let aim = under_way + 2 * world.path.one_way + Duration::from_millis(10);
        assert!(took <= aim, "{took:?}, with {under_way:?} under way");
    }
    world.run_to_rest();
    assert_eq!(world.answered.len(), 1 + 16 + 20);
}

// Promise 24.
#[test]
fn an_urgent_request_has_a_place_in_a_window_that_is_full() {
    // So long a round trip that the window is full well before the first acknowledgement comes back.
    let mut world = World::new(2, PathConditions::steady(300));
    world.ask(0, Class::Ordinary, 100);
    world.run_until(|world| world.answered.contains_key(&0));
    for request in 1..=4 {
        world.ask(request, Class::Bulk, MESSAGE_BYTES_MAX);
    }
    for request in 100..120 {
        let until = world.now.monotonic + Duration::from_millis(70);
        world.run_until(|world| world.now.monotonic >= until);
        world.ask(request, Class::Urgent, 200);
        world.run_until(|world| world.answered.contains_key(&request));
        assert!(world.took(request) <= Duration::from_millis(610), "{:?}", world.took(request));
    }
    world.run_to_rest();
}

// Promise 24.
#[test]
fn what_was_given_up_runs_at_most_once_and_is_answered_only_if_it_ran() {
    let (mut never_run, mut run_for_nobody) = (0, 0);
    for seed in 0..30 {
        let mut rng = Rng::with_seed(seed);
        let jitter = Duration::from_millis(rng.u64(0..40));
        let mut world = World::new(
            seed,
            PathConditions { loss: 100, doubled: 50, jitter, ..PathConditions::steady(rng.u64(1..50)) },
        );
        world.answering_takes = Duration::from_millis(rng.u64(0..200));
        let mut given_up = BTreeSet::new();
        for request in 0..200 {
            let bytes = if rng.u8(..8) == 0 { rng.usize(0..100_000) } else { rng.usize(0..600) };
            world.ask(request, *rng.choice(&Class::ALL).unwrap(), bytes);
            for _ in 0..rng.usize(0..12) {
                world.step();
            }
            let candidate = rng.u64(0..=request);
            if rng.bool() && !world.answered.contains_key(&candidate) && given_up.insert(candidate) {
                world.give_up(candidate);
            }
        }
        world.run_to_rest();
        for request in 0..200 {
            let (ran, answered) = (world.run.contains_key(&request), world.answered.contains_key(&request));
            assert!(ran || !answered, "seed {seed}: {request} was answered and not run");
            assert!((ran && answered) || given_up.contains(&request), "seed {seed}: {request} was lost");
        }
        never_run += 200 - world.run.len();
        run_for_nobody += world.run.len() - world.answered.len();
    }
    assert!(never_run > 100 && run_for_nobody > 100, "giving up saved {never_run} and {run_for_nobody}");
}
