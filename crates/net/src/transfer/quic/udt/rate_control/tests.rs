//! The control law against a path of one queue, without QUIC around it, and against nonsense.

use std::collections::VecDeque;

use proptest::{collection, prelude::Strategy, prop_assert, prop_oneof, proptest};

use super::{
    Duration, PathEstimate, Phase, RATE_BYTES_PER_SECOND_MAX, RATE_BYTES_PER_SECOND_MIN, Rules, WINDOW_BYTES_MAX,
};

const MS: Duration = Duration::from_millis(1);
const PACKET_BYTES: u64 = 1_500;

/// A path: its rate, its round trip, and a queue of one round trip. Each loses every `lose_every`th packet.
struct Path {
    bytes_per_ms: f64,
    round_trip: Duration,
    lose_every: u64,
    now: Duration,
    tokens: f64,
    free_at: Duration,
    in_flight: VecDeque<(Duration, Duration, bool)>,
    sent: u64,
    arrived_bytes: u64,
    overflowed: u64,
    queue_most: Duration,
}

impl Path {
    fn new(bytes_per_second: f64, round_trip: Duration) -> Self {
        Self {
            bytes_per_ms: bytes_per_second / 1e3,
            round_trip,
            lose_every: u64::MAX,
            now: MS,
            tokens: 0.0,
            free_at: Duration::ZERO,
            in_flight: VecDeque::new(),
            sent: 0,
            arrived_bytes: 0,
            overflowed: 0,
            queue_most: Duration::ZERO,
        }
    }

    /// Lets `rules` send over it for so long, all they may, or `most_bytes_per_ms` of it.
    fn run(&mut self, rules: &mut Rules, time: Duration, most_bytes_per_ms: f64) {
        let end = self.now + time;
        while self.now < end {
            self.now += MS;
            let allowed = rules.rate_bytes_per_second() as f64 / 1e3;
            let is_idle = most_bytes_per_ms < allowed;
            self.tokens = (self.tokens + allowed.min(most_bytes_per_ms)).min(allowed * 2.0 + PACKET_BYTES as f64);
            self.deliver(rules, is_idle);
            while self.tokens >= PACKET_BYTES as f64 && self.in_flight_bytes() + PACKET_BYTES <= rules.window_bytes() {
                self.tokens -= PACKET_BYTES as f64;
                self.send(rules);
            }
        }
    }

    fn in_flight_bytes(&self) -> u64 {
        self.in_flight.len() as u64 * PACKET_BYTES
    }

    fn send(&mut self, rules: &mut Rules) {
        rules.on_sent(self.now, PACKET_BYTES);
        self.sent += 1;
        let waits = self.free_at.saturating_sub(self.now);
        let mut arrives = !self.sent.is_multiple_of(self.lose_every);
        if waits > self.round_trip {
            self.overflowed += 1;
            arrives = false;
        } else {
            self.queue_most = self.queue_most.max(waits);
            let takes = Duration::from_secs_f64(PACKET_BYTES as f64 / self.bytes_per_ms / 1e3);
            self.free_at = self.free_at.max(self.now) + takes;
        }
        self.in_flight.push_back((self.free_at.max(self.now) + self.round_trip, self.now, arrives));
    }

    fn deliver(&mut self, rules: &mut Rules, is_idle: bool) {
        let (mut lost_bytes, mut lost_sent_at, mut any) = (0, Duration::ZERO, false);
        while let Some((at, sent_at, arrives)) = self.in_flight.front().copied().filter(|(at, ..)| *at <= self.now) {
            self.in_flight.pop_front();
            if arrives {
                rules.on_acknowledged(sent_at, PACKET_BYTES);
                self.arrived_bytes += PACKET_BYTES;
                any = true;
            } else {
                (lost_bytes, lost_sent_at) = (lost_bytes + PACKET_BYTES, sent_at);
            }
            debug_assert!(at <= self.now);
        }
        if any {
            rules.on_acknowledgement(self.now, self.in_flight_bytes(), is_idle);
        }
        if lost_bytes > 0 {
            rules.on_lost(self.now, lost_sent_at, lost_bytes, false);
        }
    }

    /// Share of the path that arrives in so long.
    fn share(&mut self, rules: &mut Rules, time: Duration) -> f64 {
        let before = self.arrived_bytes;
        self.run(rules, time, f64::INFINITY);
        (self.arrived_bytes - before) as f64 / (self.bytes_per_ms * time.as_millis() as f64)
    }
}

const FAST: f64 = 25e6;

#[test]
fn the_whole_path_is_used_within_two_seconds_and_kept() {
    let mut path = Path::new(FAST, 100 * MS);
    let mut rules = Rules::new(1, 1_500, None);
    path.run(&mut rules, 2_000 * MS, f64::INFINITY);
    let share = path.share(&mut rules, 10_000 * MS);
    assert!(share > 0.97, "{share}");
    assert_eq!(path.overflowed, 0);
}

#[test]
fn one_lost_packet_in_a_hundred_does_not_slow_it() {
    let mut path = Path::new(FAST, 100 * MS);
    path.lose_every = 100;
    let mut rules = Rules::new(1, 1_500, None);
    path.run(&mut rules, 2_000 * MS, f64::INFINITY);
    let share = path.share(&mut rules, 10_000 * MS);
    assert!(share > 0.96, "{share}");
}

#[test]
fn alone_it_leaves_most_of_the_queue_empty() {
    let mut path = Path::new(FAST, 100 * MS);
    let mut rules = Rules::new(1, 1_500, None);
    path.run(&mut rules, 3_000 * MS, f64::INFINITY);
    path.queue_most = Duration::ZERO;
    path.run(&mut rules, 10_000 * MS, f64::INFINITY);
    assert!(path.queue_most < 50 * MS, "{:?}", path.queue_most);
}

#[test]
fn a_path_that_became_slower_or_faster_is_followed() {
    let mut path = Path::new(FAST, 50 * MS);
    let mut rules = Rules::new(1, 1_500, None);
    path.run(&mut rules, 3_000 * MS, f64::INFINITY);
    path.bytes_per_ms /= 4.0;
    path.run(&mut rules, 5_000 * MS, f64::INFINITY);
    assert!(rules.rate_bytes_per_second() < 7_000_000, "{}", rules.rate_bytes_per_second());
    path.bytes_per_ms *= 4.0;
    path.run(&mut rules, 5_000 * MS, f64::INFINITY);
    let share = path.share(&mut rules, 2_000 * MS);
    assert!(share > 0.9, "{share}");
}

#[test]
fn a_known_path_is_filled_at_once_and_an_unknown_one_later() {
    let learned = PathEstimate { rate_bytes_per_second: FAST as u64, round_trip: 100 * MS };
    let first_round_trips = |learned| {
        let mut path = Path::new(FAST, 100 * MS);
        let mut rules = Rules::new(1, 1_500, learned);
        path.run(&mut rules, 300 * MS, f64::INFINITY);
        (path.share(&mut rules, 100 * MS), path.overflowed)
    };
    let (known, overflowed) = first_round_trips(Some(learned));
    assert!(known > 0.9, "{known}");
    assert_eq!(overflowed, 0);
    assert!(first_round_trips(None).0 < known * 0.8);
}

#[test]
fn what_was_learned_of_another_path_does_no_harm() {
    let learned = PathEstimate { rate_bytes_per_second: FAST as u64 * 20, round_trip: 100 * MS };
    for round_trip in [100 * MS, 10 * MS] {
        let mut path = Path::new(FAST, round_trip);
        let mut rules = Rules::new(1, 1_500, Some(learned));
        path.run(&mut rules, 3_000 * MS, f64::INFINITY);
        path.overflowed = 0;
        let share = path.share(&mut rules, 5_000 * MS);
        assert!(share > 0.9, "{share} at {round_trip:?}");
    }
}

#[test]
fn what_was_learned_is_what_the_path_carries() {
    let mut path = Path::new(FAST, 100 * MS);
    let mut rules = Rules::new(1, 1_500, None);
    assert_eq!(rules.learned(), None);
    path.run(&mut rules, 5_000 * MS, f64::INFINITY);
    let learned = rules.learned().unwrap();
    assert!((learned.rate_bytes_per_second as f64 / FAST - 1.0).abs() < 0.05, "{learned:?}");
    assert!(learned.round_trip >= 100 * MS && learned.round_trip < 103 * MS, "{learned:?}");
}

#[test]
fn an_idle_sender_neither_gains_nor_loses_rate() {
    let mut path = Path::new(FAST, 100 * MS);
    let mut rules = Rules::new(1, 1_500, None);
    path.run(&mut rules, 5_000 * MS, f64::INFINITY);
    let before = rules.rate_bytes_per_second() as f64;
    path.run(&mut rules, 20_000 * MS, FAST / 1e3 / 20.0);
    let after = rules.rate_bytes_per_second() as f64;
    assert!(after > before * 0.85 && after < before * 1.07, "{before} became {after}");
    // And what it learned meanwhile is not its own idleness.
    assert!(rules.learned().unwrap().rate_bytes_per_second as f64 > FAST * 0.9);
}

#[test]
fn one_overload_is_answered_once() {
    let mut path = Path::new(FAST, 100 * MS);
    let mut rules = Rules::new(1, 1_500, None);
    path.run(&mut rules, 5_000 * MS, f64::INFINITY);
    assert!(matches!(rules.phase, Phase::Steady));
    let (now, before) = (path.now, rules.rate_bytes_per_second() as f64);
    // A fifth of a round trip is lost, told in many pieces: all left before the first was known.
    for piece in 0..40 {
        rules.on_lost(now + MS * piece, now - 50 * MS, 15_000, false);
    }
    let after = rules.rate_bytes_per_second() as f64;
    assert!(after < before && after > before * 0.85, "{before} became {after}");
    // What left after the answer is another overload.
    rules.on_lost(now + 200 * MS, now + 100 * MS, 1_500_000, false);
    assert!((rules.rate_bytes_per_second() as f64) < after);
}

#[test]
fn after_a_long_cut_it_begins_anew_with_what_it_knew() {
    let mut path = Path::new(FAST, 100 * MS);
    let mut rules = Rules::new(1, 1_500, None);
    path.run(&mut rules, 5_000 * MS, f64::INFINITY);
    path.in_flight.clear();
    path.now += 5_000 * MS;
    rules.on_lost(path.now, path.now - 4_000 * MS, 2_500_000, true);
    assert!(rules.window_bytes() < 200_000, "{}", rules.window_bytes());
    path.run(&mut rules, 1_000 * MS, f64::INFINITY);
    let share = path.share(&mut rules, 1_000 * MS);
    assert!(share > 0.9, "{share}");
}

/// What may be told to the rules, sense or nonsense.
#[derive(Clone, Debug)]
enum Told {
    Sent(u64, u64),
    Acknowledged(u64, u64),
    Acknowledgement(u64, u64, bool),
    Lost(u64, u64, u64, bool),
    Marked(u64, u64),
    PacketBytes(u16),
}

fn told() -> impl Strategy<Value = Told> {
    let time = || prop_oneof![0..200_u64, 0..100_000_u64, proptest::prelude::any::<u64>()];
    let bytes = || prop_oneof![0..3_000_u64, proptest::prelude::any::<u64>()];
    let flag = proptest::bool::ANY;
    prop_oneof![
        (time(), bytes()).prop_map(|(now, bytes)| Told::Sent(now, bytes)),
        (time(), bytes()).prop_map(|(sent, bytes)| Told::Acknowledged(sent, bytes)),
        (time(), bytes(), flag).prop_map(|(now, bytes, idle)| Told::Acknowledgement(now, bytes, idle)),
        (time(), time(), bytes(), flag).prop_map(|(now, sent, bytes, long)| Told::Lost(now, sent, bytes, long)),
        (time(), time()).prop_map(|(now, sent)| Told::Marked(now, sent)),
        proptest::prelude::any::<u16>().prop_map(Told::PacketBytes),
    ]
}

proptest! {
    #[test]
    fn nothing_that_is_told_breaks_the_rules(
        words in collection::vec(told(), 0..300),
        learned in proptest::option::of((proptest::prelude::any::<u64>(), proptest::prelude::any::<u64>())),
    ) {
        let learned = learned.map(|(rate_bytes_per_second, nanos)| {
            PathEstimate { rate_bytes_per_second, round_trip: Duration::from_nanos(nanos) }
        });
        let mut rules = Rules::new(7, 1_500, learned);
        let at = Duration::from_millis;
        for word in words {
            match word {
                Told::Sent(now, bytes) => rules.on_sent(at(now), bytes),
                Told::Acknowledged(sent, bytes) => rules.on_acknowledged(at(sent), bytes),
                Told::Acknowledgement(now, bytes, idle) => rules.on_acknowledgement(at(now), bytes, idle),
                Told::Lost(now, sent, bytes, long) => rules.on_lost(at(now), at(sent), bytes, long),
                Told::Marked(now, sent) => rules.on_marked(at(now), at(sent)),
                Told::PacketBytes(bytes) => rules.set_packet_bytes(bytes),
            }
            let rate = rules.rate_bytes_per_second() as f64;
            prop_assert!((RATE_BYTES_PER_SECOND_MIN..=RATE_BYTES_PER_SECOND_MAX).contains(&rate), "{rate}");
            let window = rules.window_bytes();
            prop_assert!(window > 0 && window <= WINDOW_BYTES_MAX as u64, "{window}");
            if let Phase::Steady = rules.phase {
                prop_assert!(!rules.rate.is_nan() && !rules.delivery_rate.is_nan());
            }
        }
    }
}
