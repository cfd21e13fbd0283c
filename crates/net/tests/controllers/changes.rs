//! One flow, and what changes while it runs: what was known before, pauses, another path.

use std::time::Duration;

use net::transfer::udt::PathEstimate;
use testbed::link::LinkRules;

use crate::{
    matrix::PAYLOAD_SHARE,
    world::{Flow, Kind, World},
};

const RATE_BITS: u64 = 50_000_000;
const RATE_BYTES: f64 = RATE_BITS as f64 / 8.0;
const ROUND_TRIP: Duration = Duration::from_millis(100);

fn rules() -> LinkRules {
    LinkRules::clean(RATE_BITS, ROUND_TRIP / 2)
}

fn endless(kind: Kind) -> [Flow; 1] {
    [Flow::of(kind, u64::MAX)]
}

/// Share of what the link can carry that arrived between two times, in milliseconds.
fn share(world: &mut World, from_ms: u64, to_ms: u64) -> f64 {
    let (from, to) = (Duration::from_millis(from_ms), Duration::from_millis(to_ms));
    world.run(to);
    world.arrived_bytes(0, from, to) as f64 / (RATE_BYTES * PAYLOAD_SHARE) / (to - from).as_secs_f64()
}

#[test]
fn the_full_rate_is_there_within_two_seconds_and_nothing_is_lost_for_it() {
    let mut world = World::new(rules(), 1, &endless(Kind::Udt(None)));
    assert!(share(&mut world, 2_000, 6_000) > 0.95);
    assert_eq!(world.counts().overflowed, 0, "{:?}", world.counts());
}

#[test]
fn alone_it_leaves_more_than_half_of_the_queue_empty() {
    let mut world = World::new(rules(), 1, &endless(Kind::Udt(None)));
    world.run(Duration::from_secs(2));
    world.restart_queue();
    world.run(Duration::from_secs(8));
    assert!(world.queue.most < ROUND_TRIP / 2, "{:?}", world.queue.most);
    assert!(world.queue.mean() < ROUND_TRIP / 5, "{:?}", world.queue.mean());
}

#[test]
fn a_known_peer_gets_the_full_rate_within_five_round_trips() {
    let mut first = World::new(rules(), 1, &endless(Kind::Udt(None)));
    first.run(Duration::from_secs(4));
    let learned = first.udt(0).unwrap().learned();
    let mut again = World::new(rules(), 2, &endless(Kind::Udt(learned)));
    assert!(share(&mut again, 500, 1_000) > 0.9);
    assert_eq!(again.counts().overflowed, 0);
    let mut unknown = World::new(rules(), 2, &endless(Kind::Udt(None)));
    assert!(share(&mut unknown, 300, 500) < share(&mut again, 1_000, 1_200));
}

#[test]
fn a_peer_that_was_once_ten_times_as_fast_is_not_drowned() {
    let learned = PathEstimate { rate_bytes_per_second: RATE_BYTES as u64 * 10, round_trip: ROUND_TRIP };
    let mut world = World::new(rules(), 1, &endless(Kind::Udt(Some(learned))));
    let share = share(&mut world, 3_000, 6_000);
    assert!(share > 0.9, "{share:.2}");
    let counts = world.counts();
    // What was tried at first is half the learned rate for one round trip: some 2,000 packets.
    assert!(counts.overflowed < 3_000, "{counts:?}");
}

#[test]
fn after_a_pause_it_goes_on_as_fast_as_before() {
    let mut world = World::new(rules(), 1, &endless(Kind::Udt(None)));
    world.run(Duration::from_secs(3));
    world.pause(0, true);
    world.run(Duration::from_secs(6));
    let overflowed = world.counts().overflowed;
    world.pause(0, false);
    let share = share(&mut world, 6_500, 8_000);
    assert!(share > 0.9, "{share:.2}");
    assert_eq!(world.counts().overflowed, overflowed);
}

#[test]
fn a_link_that_becomes_slower_is_not_kept_full() {
    let mut world = World::new(rules(), 1, &endless(Kind::Udt(None)));
    world.run(Duration::from_secs(3));
    world.set_rules(&LinkRules { rate_bits_per_second: RATE_BITS / 4, ..rules() });
    world.run(Duration::from_secs(7));
    let overflowed = world.counts().overflowed;
    let share = share(&mut world, 8_000, 12_000);
    assert!(share > 0.22 && share < 0.26, "{share:.2}");
    assert_eq!(world.counts().overflowed, overflowed);
}
