//! Connections whose first packets are lost again and again. The library has a fault there that
//! [`Batches`](net::transfer::Batches) keeps it from.

use std::time::Duration;

use testbed::link::{LinkRules, Loss};

use crate::world::{Flow, Kind, World};

#[test]
fn connections_begin_although_every_second_packet_is_lost() {
    let rules = LinkRules { loss: Loss::Random(0.4), ..LinkRules::clean(RATE_BITS, Duration::from_millis(5)) };
    for seed in 0..SEEDS {
        let mut world = World::new(rules.clone(), seed, &[Flow::of(Kind::Udt(None), 20_000)]);
        world.run(Duration::from_secs(20));
    }
}

const RATE_BITS: u64 = 100_000_000;
const SEEDS: u64 = 1000;
