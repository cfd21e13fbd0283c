//! The network for messages: it loses, doubles, delays and so reorders datagrams, as its conditions and the seed say. A
//! cut lets nothing through. It never looks into a datagram.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;

use crate::environment::queue::{Event, Participant, Queue};

/// See the module.
#[derive(Debug)]
pub(crate) struct Network {
    conditions: NetworkConditions,
    cuts: BTreeMap<CutId, Cut>,
    cuts_made: u32,
    /// Counts of its effects on datagrams.
    pub(crate) counts: DatagramCounts,
}

/// Names a cut until it is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CutId(u32);

/// Some processes cut off from all others. Among themselves they hear each other.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) inside: BTreeSet<Participant>,
    pub(crate) blocks: Blocks,
}

/// The direction that a cut stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    Both,
    /// Those inside are not heard.
    Outward,
    /// Those inside do not hear.
    Inward,
}

/// How bad the network is; shares in 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkConditions {
    loss: u32,
    doubled: u32,
    /// Shares of datagrams that take up to [`DELAY_MAX`].
    late: u32,
    /// Usual delay, from and to, in microseconds.
    delay_micros: (u64, u64),
}

/// Proof that the network was bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Of these, delivered twice.
    pub doubled: u64,
}

impl NetworkConditions {
    /// Nothing is lost.
    pub(crate) const CALM: Self = Self { loss: 0, doubled: 0, late: 0, delay_micros: (200, 2_000) };

    /// Anything from a good day to a storm.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let delay = rng.u64(100..40_000);
        let is_bad = rng.u8(..3) == 0;
        Self {
            loss: if is_bad { rng.u32(50..300) } else { rng.u32(..50) },
            doubled: rng.u32(..60),
            late: rng.u32(..20),
            delay_micros: (delay, delay + rng.u64(100..60_000)),
        }
    }
}

impl Network {
    pub(crate) fn new(weather: NetworkConditions) -> Self {
        Self { conditions: weather, cuts: BTreeMap::new(), cuts_made: 0, counts: DatagramCounts::default() }
    }

    pub(crate) fn set_conditions(&mut self, weather: NetworkConditions) {
        self.conditions = weather;
    }

    /// Sends a datagram, if it gets anywhere.
    pub(crate) fn send_datagram(
        &mut self,
        now: Duration,
        rng: &mut Rng,
        queue: &mut Queue,
        from: Participant,
        to: Participant,
        datagram: Vec<u8>,
    ) {
        self.counts.sent += 1;
        if self.is_cut(from, to) || rng.u32(..1000) < self.conditions.loss {
            self.counts.lost += 1;
            return;
        }
        if rng.u32(..1000) < self.conditions.doubled {
            self.counts.doubled += 1;
            queue.push(now + self.delay(rng), Event::Datagram { to, datagram: datagram.clone() });
        }
        queue.push(now + self.delay(rng), Event::Datagram { to, datagram });
    }

    /// The present delay of an action.
    pub(crate) fn delay(&self, rng: &mut Rng) -> Duration {
        if rng.u32(..1000) < self.conditions.late {
            return Duration::from_micros(rng.u64(..DELAY_MAX.as_micros() as u64));
        }
        let (from, to) = self.conditions.delay_micros;
        Duration::from_micros(rng.u64(from..=to))
    }

    /// Cuts some processes off.
    pub(crate) fn cut(&mut self, cut: Cut) -> CutId {
        self.cuts_made += 1;
        let id = CutId(self.cuts_made);
        self.cuts.insert(id, cut);
        id
    }

    /// Ends a cut.
    pub(crate) fn mend(&mut self, id: CutId) {
        self.cuts.remove(&id);
    }

    /// Whether no datagram passes from one to another.
    fn is_cut(&self, from: Participant, to: Participant) -> bool {
        self.cuts.values().any(|cut| match (cut.inside.contains(&from), cut.inside.contains(&to)) {
            (true, false) => cut.blocks != Blocks::Inward,
            (false, true) => cut.blocks != Blocks::Outward,
            _ => false,
        })
    }

    /// Whether two cannot talk: an acknowledged exchange (a join, a transfer) needs both directions.
    pub(crate) fn are_apart(&self, a: Participant, b: Participant) -> bool {
        self.is_cut(a, b) || self.is_cut(b, a)
    }

    /// All links work again, and nothing is lost any more.
    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
        self.conditions = NetworkConditions::CALM;
    }
}

/// The longest time that a datagram travels. After giving up a session and waiting this long, a process knows that
/// nothing of it will arrive any more.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_stops_what_it_says_and_nothing_among_those_inside() {
        let (inside, other, outside) = (Participant::Node(0), Participant::Node(2), Participant::Master);
        for (blocks, outward, inward) in
            [(Blocks::Both, true, true), (Blocks::Outward, true, false), (Blocks::Inward, false, true)]
        {
            let mut network = Network::new(NetworkConditions::CALM);
            let id = network.cut(Cut { inside: [inside, other].into(), blocks });
            assert_eq!(network.is_cut(inside, outside), outward, "{blocks:?}");
            assert_eq!(network.is_cut(outside, inside), inward, "{blocks:?}");
            assert!(network.are_apart(inside, outside) && !network.are_apart(inside, other));
            network.mend(id);
            assert!(!network.are_apart(inside, outside));
        }
    }
}
