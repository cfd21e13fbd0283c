//! All directions between all sites, and the packets in transit. Pure code: it is given the time and the frames that
//! enter, and says which come out where. `emulator.rs` moves them; this file never touches a device.

use std::{cmp::Ordering, collections::BinaryHeap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    error::TestbedError,
    link::{
        buffers::Buffers,
        direction::{Direction, DirectionCounts, EnterOutcome},
    },
    packet::{GsoPacket, too_large_answer},
    plan::{BYTES_UNDERWAY_MAX, Scope, TestbedPlan, site_of},
    rules::{PathChange, PathRules},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Network {
    plan: TestbedPlan,
    /// From each site (rows) to each site. A site's path to itself exists and is never used.
    directions: Vec<Direction>,
    underway: BinaryHeap<Arrival>,
    underway_bytes: u64,
    /// Arrivals so far; frames that are due at the same moment keep their order.
    order: u64,
    buffers: Buffers,
    strange: u64,
    full: u64,
}

/// The current state of the path between two sites.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathStatus {
    /// One end.
    pub one: String,
    /// The other.
    pub other: String,
    /// How it behaves.
    pub rules: PathRules,
    /// What went from `one` to `other`.
    pub there: DirectionCounts,
    /// What went back.
    pub back: DirectionCounts,
}

/// The current state of a testbed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// Its sites, in the order of their numbers.
    pub sites: Vec<String>,
    /// The paths between them.
    pub ways: Vec<PathStatus>,
    /// Bytes in transit now.
    pub underway_bytes: u64,
    /// Frames that were not packets between sites; they were dropped.
    pub strange: u64,
    /// Frames dropped because this machine could hold no more.
    pub full: u64,
    /// Frames that a site's device did not accept.
    pub refused: u64,
}

impl Network {
    /// The network of a plan.
    pub(crate) fn new(plan: TestbedPlan) -> Self {
        let sites = plan.sites().len();
        let directions = (0..sites * sites)
            .map(|index| {
                let (from, to) = (index / sites, index % sites);
                let rules = if from == to { plan.path(0, 1) } else { plan.path(from, to) };
                // The seeds are further apart than those that people use for consecutive runs.
                Direction::new(rules, plan.seed().wrapping_add((index as u64) << 32))
            })
            .collect();
        Self {
            plan,
            directions,
            underway: BinaryHeap::new(),
            underway_bytes: 0,
            order: 0,
            buffers: Buffers::default(),
            strange: 0,
            full: 0,
        }
    }

    /// A frame from a site's device enters.
    pub(crate) fn enter(&mut self, now: Duration, from: usize, frame: &[u8]) {
        let sites = self.plan.sites().len();
        let Some(parcel) = GsoPacket::read(frame) else {
            self.strange += 1;
            return;
        };
        let Some(to) = site_of(parcel.destination, sites).filter(|to| *to != from) else {
            self.strange += 1;
            return;
        };
        if self.underway_bytes > BYTES_UNDERWAY_MAX {
            self.full += 1;
            return;
        }
        let Self { directions, underway, underway_bytes, order, buffers, .. } = self;
        let direction = &mut directions[from * sites + to];
        let mut arrives = |at, to, frame: Vec<u8>| {
            *underway_bytes += frame.capacity() as u64;
            *order += 1;
            underway.push(Arrival { at, order: *order, to, frame });
        };
        if let EnterOutcome::TellMtu(mtu) = direction.enter(now, &parcel, buffers, |at, frame| arrives(at, to, frame)) {
            let mut answer = buffers.take(ANSWER_BYTES);
            too_large_answer(&mut answer, &parcel, mtu);
            arrives(now + direction.delay(), from, answer);
        }
    }

    /// A frame that is due, and the site it is for. Return it with [`done`](Self::done).
    pub(crate) fn next_due(&mut self, now: Duration) -> Option<(usize, Vec<u8>)> {
        if self.underway.peek()?.at > now {
            return None;
        }
        let Arrival { to, frame, .. } = self.underway.pop()?;
        self.underway_bytes -= frame.capacity() as u64;
        Some((to, frame))
    }

    /// Takes a frame's buffer back.
    pub(crate) fn done(&mut self, frame: Vec<u8>) {
        self.buffers.give(frame);
    }

    /// When the next frame comes out.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        Some(self.underway.peek()?.at)
    }

    /// Changes how paths behave from now on; frames in transit arrive as planned. Returns the number of paths
    /// changed.
    pub(crate) fn change(&mut self, scope: &Scope, change: &PathChange) -> Result<usize, TestbedError> {
        let changed = self.plan.change(scope, change)?;
        let sites = self.plan.sites().len();
        for (one, other) in &changed {
            for index in [one * sites + other, other * sites + one] {
                self.directions[index].set_rules(self.plan.path(*one, *other));
            }
        }
        Ok(changed.len())
    }

    /// The current state.
    pub(crate) fn status(&self) -> NetworkStatus {
        let names = self.plan.sites();
        let ways = (0..names.len()).flat_map(|one| (one + 1..names.len()).map(move |other| (one, other)));
        let ways = ways.map(|(one, other)| PathStatus {
            one: names[one].clone(),
            other: names[other].clone(),
            rules: self.plan.path(one, other).clone(),
            there: self.directions[one * names.len() + other].counts(),
            back: self.directions[other * names.len() + one].counts(),
        });
        NetworkStatus {
            sites: names.to_vec(),
            ways: ways.collect(),
            underway_bytes: self.underway_bytes,
            strange: self.strange,
            full: self.full,
            refused: 0,
        }
    }
}

/// A frame in transit.
#[derive(Debug)]
struct Arrival {
    at: Duration,
    order: u64,
    to: usize,
    frame: Vec<u8>,
}

impl Ord for Arrival {
    /// The earliest is the greatest, so that a heap returns it first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Arrival {}

/// More than the answer to a packet that was too large needs, with the longest IPv4 header quoted.
const ANSWER_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        link::quantity::{Rate, Share},
        packet::samples::{cut, tcp_row, udp_row},
    };

    const RTT: Duration = Duration::from_millis(20);

    fn network(rules: &PathRules) -> Network {
        Network::new(TestbedPlan::new(3, 0, rules, 7).unwrap())
    }

    fn rules() -> PathRules {
        PathRules::new(Rate(1_000_000_000), RTT)
    }

    #[test]
    fn a_frame_comes_out_at_the_site_of_its_address_after_half_the_round_trip() {
        let mut network = network(&rules());
        let frame = udp_row(1000, 1000);
        network.enter(Duration::ZERO, 0, &cut(&frame)[0]);
        assert_eq!(network.next_due(RTT / 2), None);
        let at = network.next_time().unwrap();
        assert!(at > RTT / 2 && at < RTT / 2 + Duration::from_micros(10), "{at:?}");
        let (to, found) = network.next_due(at).unwrap();
        assert_eq!((to, &found), (1, &cut(&frame)[0]));
        network.done(found);
        assert_eq!(network.status().underway_bytes, 0);
        assert_eq!(network.status().ways[0].there.sent, 1);
    }

    #[test]
    fn frames_that_enter_together_keep_their_order() {
        let mut network = network(&PathRules { rate: Rate(10_000_000_000), ..rules() });
        let sent: Vec<_> = (0..100).map(|number| cut(&udp_row(20 + number, 1000)).remove(0)).collect();
        for frame in &sent {
            network.enter(Duration::ZERO, 0, frame);
        }
        let found: Vec<_> =
            std::iter::from_fn(|| network.next_due(Duration::from_secs(1))).map(|(_, frame)| frame).collect();
        assert!(found == sent);
    }

    #[test]
    fn what_is_for_nobody_or_makes_no_sense_is_counted_and_vanishes() {
        let mut network = network(&rules());
        let sound = tcp_row(1000, 1000);
        let mut to_nobody = sound.clone();
        to_nobody[10 + 18] = 9;
        for frame in [&to_nobody[..], &sound[..30], &[]] {
            network.enter(Duration::ZERO, 0, frame);
        }
        // To its own site: such a frame does not leave the site.
        network.enter(Duration::ZERO, 1, &sound);
        assert_eq!((network.status().strange, network.next_time()), (4, None));
    }

    #[test]
    fn a_cut_takes_what_enters_after_it_both_ways_and_nothing_else() {
        let mut network = network(&rules());
        let frame = tcp_row(3000, 1000);
        network.enter(Duration::ZERO, 0, &frame);
        let cut = PathChange { is_cut: Some(true), ..PathChange::default() };
        assert_eq!(network.change(&Scope::Between("site1".into(), "site2".into()), &cut).unwrap(), 1);
        network.enter(Duration::ZERO, 0, &frame);
        assert_eq!(network.status().ways[0].there.cut, 3);
        assert!(network.next_due(Duration::from_secs(1)).is_some(), "what was on its way before");
        assert_eq!(network.next_due(Duration::from_secs(1)), None);
        let restore = PathChange { is_cut: Some(false), ..PathChange::default() };
        network.change(&Scope::All, &restore).unwrap();
        network.enter(Duration::ZERO, 0, &frame);
        assert!(network.next_due(Duration::from_secs(1)).is_some());
    }

    #[test]
    fn a_sender_is_told_the_mtu_by_a_packet_that_comes_back_to_it() {
        let mut network = network(&PathRules { mtu_bytes: Some(1000), tells_mtu: true, ..rules() });
        network.enter(Duration::ZERO, 0, &tcp_row(3000, 1400));
        let (to, answer) = network.next_due(Duration::from_secs(1)).unwrap();
        let parcel = GsoPacket::read(&answer).unwrap();
        assert_eq!((to, parcel.destination), (0, [10, 77, 1, 1].into()));
    }

    #[test]
    fn both_directions_have_chances_of_their_own() {
        let mut network = network(&PathRules { loss: Share(0.5), ..rules() });
        let frame = cut(&udp_row(100, 1000)).remove(0);
        let mut back = frame.clone();
        back[10 + 12..10 + 20].copy_from_slice(&[10, 77, 2, 1, 10, 77, 1, 1]);
        let mut fates = [Vec::new(), Vec::new()];
        for _ in 0..64 {
            for (site, frame) in [(0, &frame), (1, &back)] {
                network.enter(Duration::ZERO, site, frame);
                fates[site].push(network.next_due(Duration::from_secs(1)).is_some());
            }
        }
        assert_ne!(fates[0], fates[1]);
    }
}
