//! Several flows over one link: how much each gets.

use std::time::Duration;

use testbed::link::LinkRules;

use crate::world::{Flow, Kind, World};

const RATE_BITS: u64 = 50_000_000;

fn rules(round_trip_ms: u64) -> LinkRules {
    LinkRules::clean(RATE_BITS, Duration::from_millis(round_trip_ms) / 2)
}

fn later(kind: Kind, seconds: u64) -> Flow {
    Flow { begins_at: Duration::from_secs(seconds), ..Flow::of(kind, u64::MAX) }
}

/// Shares of two flows of the link's raw rate between two times.
fn shares(world: &mut World, from: u64, to: u64) -> [f64; 2] {
    let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
    world.run(to);
    [0, 1].map(|line| world.arrived_bytes(line, from, to) as f64 * 8.0 / RATE_BITS as f64 / (to - from).as_secs_f64())
}

#[test]
fn two_flows_share_within_a_fifth_though_one_came_later() {
    let udt = Kind::Udt(None);
    let mut world = World::new(rules(100), 1, &[Flow::of(udt, u64::MAX), later(udt, 4)]);
    let [first, second] = shares(&mut world, 16, 24);
    assert!((first / second).max(second / first) < 1.2, "{first:.2} and {second:.2}");
    assert!(first + second > 0.93, "{first:.2} and {second:.2}");
}

#[test]
fn of_a_near_and_a_far_flow_neither_gets_twice_as_much() {
    let udt = Kind::Udt(None);
    let far = Flow { further: Duration::from_millis(90), ..Flow::of(udt, u64::MAX) };
    let mut wide = rules(10);
    wide.queue_bytes = rules(100).queue_bytes;
    let mut world = World::new(wide, 1, &[Flow::of(udt, u64::MAX), far]);
    let [near, far] = shares(&mut world, 14, 22);
    assert!((near / far).max(far / near) < 2.0, "{near:.2} and {far:.2}");
}

#[test]
fn beside_a_flow_of_cubic_both_keep_a_third() {
    let udt = Kind::Udt(None);
    for flows in [[Flow::of(Kind::Theirs, u64::MAX), later(udt, 3)], [Flow::of(udt, u64::MAX), later(Kind::Theirs, 3)]]
    {
        let mut world = World::new(rules(100), 1, &flows);
        let [first, second] = shares(&mut world, 20, 40);
        assert!(first.min(second) > 0.3, "{:?} {first:.2}, {:?} {second:.2}", flows[0].kind, flows[1].kind);
    }
}
