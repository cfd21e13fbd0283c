//! Ends and links that stand still for a while: a busy machine, a cut. What a flow learns meanwhile is no property of
//! its path, and it must not keep it.

use std::{ops::Range, time::Duration};

use net::transfer::udt::PathEstimate;
use testbed::link::LinkRules;

use crate::{
    matrix::PAYLOAD_SHARE,
    world::{Flow, Kind, RECEIVER, SENDER, World},
};

const RATE_BITS: u64 = 50_000_000;
const MS: Duration = Duration::from_millis(1);

/// One endless flow over 50 Mbit/s.
struct Way {
    rules: LinkRules,
    world: World,
}

impl Way {
    fn of(round_trip: Duration) -> Self {
        Self::known(round_trip, None)
    }

    fn known(round_trip: Duration, learned: Option<PathEstimate>) -> Self {
        let rules = LinkRules::clean(RATE_BITS, round_trip / 2);
        let world = World::new(rules.clone(), 1, &[Flow::of(Kind::Udt(learned), u64::MAX)]);
        Self { rules, world }
    }

    /// Share of what the link can carry that arrives in these milliseconds.
    fn share(&mut self, span_ms: Range<u32>) -> f64 {
        let (from, until) = (MS * span_ms.start, MS * span_ms.end);
        self.world.run(until);
        let could = RATE_BITS as f64 / 8.0 * PAYLOAD_SHARE * (until - from).as_secs_f64();
        self.world.arrived_bytes(0, from, until) as f64 / could
    }

    /// In these milliseconds both ends stand still again and again, so long each time and so long between. When they
    /// are through, in milliseconds.
    fn stall_now_and_then(&mut self, span_ms: Range<u32>, seed: u64, stall_ms: Range<u32>, run_ms: Range<u32>) -> u32 {
        let mut lots = fastrand::Rng::with_seed(seed);
        let mut at_ms = span_ms.start;
        while at_ms < span_ms.end {
            self.world.run(MS * at_ms);
            let until_ms = at_ms + lots.u32(stall_ms.clone());
            for side in [SENDER, RECEIVER] {
                self.world.machine(side).stall(MS * at_ms, MS * until_ms);
            }
            at_ms = until_ms + lots.u32(run_ms.clone());
        }
        at_ms
    }

    fn cut(&mut self, is_cut: bool) {
        self.world.set_rules(&LinkRules { is_cut, ..self.rules.clone() });
    }
}

#[test]
fn a_sender_that_is_often_not_run_makes_up_for_it() {
    let carried = |is_busy: bool| {
        let mut way = Way::of(100 * MS);
        way.world.machine(SENDER).keep_busy(is_busy.then_some(5));
        way.share(2_000..8_000)
    };
    let (punctual, late) = (carried(false), carried(true));
    assert!(late > punctual * 0.98, "{late:.3} of {punctual:.3}");
}

#[test]
fn words_on_a_busy_machine_do_not_slow_down_the_bulk_behind_them() {
    for round_trip in [20 * MS, 60 * MS] {
        for seed in 1..20 {
            let mut way = Way::of(round_trip);
            let mut lots = fastrand::Rng::with_seed(seed);
            way.world.pause(0, true);
            let mut stalled_until = [0; 2];
            for at_ms in (0..3_000).step_by(35) {
                way.world.run(at_ms * MS);
                way.world.ready(0, 300);
                let side = lots.usize(..2);
                if lots.u32(..8) == 0 && stalled_until[side] < at_ms {
                    stalled_until[side] = at_ms + lots.u32(20..200);
                    way.world.machine(side).stall(at_ms * MS, stalled_until[side] * MS);
                }
            }
            way.world.ready(0, u64::MAX);
            let share = way.share(3_500..4_500);
            assert!(share > 0.9, "{share:.2} after words with seed {seed} at {round_trip:?}");
        }
    }
}

#[test]
fn a_start_that_a_busy_moment_cut_short_is_made_up_for_within_a_second() {
    for seed in 1..15 {
        let round_trip = 60 * MS;
        let rules = LinkRules::clean(RATE_BITS * 8, round_trip / 2);
        let world = World::new(rules.clone(), 1, &[Flow::of(Kind::Udt(None), u64::MAX)]);
        let mut way = Way { rules, world };
        way.stall_now_and_then(60..600, seed, 5..60, 2..30);
        let share = way.share(1_600..2_600) / 8.0;
        assert!(share > 0.9, "{share:.2} with seed {seed}");
    }
}

#[test]
fn after_a_starved_moment_the_rate_is_back_within_two_seconds() {
    for round_trip in [20 * MS, 100 * MS] {
        for stall_ms in [100, 200, 300, 500] {
            for starved in [&[SENDER][..], &[RECEIVER], &[SENDER, RECEIVER]] {
                let mut way = Way::of(round_trip);
                way.world.run(4_000 * MS);
                for side in starved {
                    way.world.machine(*side).stall(4_000 * MS, MS * (4_000 + stall_ms));
                }
                let share = way.share(4_000 + stall_ms + 300..4_000 + stall_ms + 2_300);
                assert!(share > 0.9, "{share:.2} after {stall_ms} ms of {starved:?} at {round_trip:?}");
            }
        }
    }
}

#[test]
fn after_a_time_of_many_starved_moments_the_rate_is_back_within_two_seconds() {
    for round_trip in [20 * MS, 100 * MS] {
        for seed in 1..4 {
            let mut way = Way::of(round_trip);
            let at_ms = way.stall_now_and_then(3_000..9_000, seed, 100..500, 20..300);
            let share = way.share(at_ms + 2_000..at_ms + 4_000);
            assert!(share > 0.9, "{share:.2} with seed {seed} at {round_trip:?}");
        }
    }
}

#[test]
fn two_seconds_after_the_first_packet_behind_a_long_cut_the_rate_is_back() {
    for round_trip in [20 * MS, 100 * MS] {
        let mut way = Way::of(round_trip);
        way.world.run(3_000 * MS);
        way.cut(true);
        way.world.run(8_000 * MS);
        way.cut(false);
        // QUIC asks every two seconds whether anyone is there.
        let share = way.share(11_000..14_000);
        assert!(share > 0.9, "{share:.2} at {round_trip:?}");
    }
}

#[test]
fn a_rate_that_was_learned_in_a_bad_moment_is_left_within_two_seconds() {
    // Forty packets a second; and an end that is late at many of them.
    for round_trip in [20 * MS, 100 * MS] {
        let learned = PathEstimate { rate_bytes_per_second: 60_000, round_trip };
        let mut way = Way::known(round_trip, Some(learned));
        way.world.machine(SENDER).keep_busy(Some(3));
        let share = way.share(2_000..4_000);
        assert!(share > 0.9, "{share:.2} at {round_trip:?}");
    }
}

#[test]
fn a_link_that_was_almost_gone_for_five_seconds_is_filled_again_within_three() {
    for round_trip in [20 * MS, 100 * MS] {
        let mut way = Way::of(round_trip);
        way.world.run(3_000 * MS);
        way.world.set_rules(&LinkRules { rate_bits_per_second: RATE_BITS / 50, ..way.rules.clone() });
        way.world.run(8_000 * MS);
        way.world.set_rules(&way.rules.clone());
        let share = way.share(11_000..13_000);
        assert!(share > 0.9, "{share:.2} at {round_trip:?}");
    }
}
