//! The model of one direction of a link: a drop-tail queue, a rate and a delay, with loss, reordering, duplication
//! and cuts. All chances come from one seed. The testbed sends real packets through it and the simulation of the
//! congestion controllers simulated ones, so both use the same links. It is a pure rule: given a time and a length,
//! it returns when the packet comes out. It never reads a clock, waits or holds a packet: its caller does that.

pub(crate) mod buffers;
pub(crate) mod direction;
pub(crate) mod quantity;

use std::time::Duration;

use fastrand::Rng;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkEmulator {
    rules: LinkRules,
    /// When everything accepted so far has left the queue.
    free_at: Duration,
    /// The part of `free_at` below a nanosecond, in units of 1/`rate_bits_per_second` ns. It is kept so that the rate
    /// is exact.
    remainder: u128,
    /// The latest arrival of any packet that was not held back. It keeps the order even when the delay is made
    /// shorter.
    last_arrival: Duration,
    /// Whether a burst of losses is in progress.
    is_in_burst: bool,
    counts: LinkCounts,
    /// Each fault has its own random numbers, so that more of one does not change which packets meet the other.
    loss_chance: Rng,
    reorder_chance: Rng,
    duplicate_chance: Rng,
}

/// What a link does to packets. Shares are of all packets, from 0.0 to 1.0.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRules {
    /// Rate of the link, counting whole packets as passed to [`LinkEmulator::send`]. 0 is a link without a limit or
    /// queue.
    pub rate_bits_per_second: u64,
    /// One-way delay, without the queue.
    pub delay: Duration,
    /// Room for packets that wait, without the one that is leaving. What does not fit is dropped (drop-tail).
    pub queue_bytes: u64,
    /// Packets lost on the way, after they took their share of the rate.
    pub loss: Loss,
    /// Share of packets that are held back, and so overtaken by those behind.
    pub reorder: f64,
    /// How long they are held back.
    pub reorder_by: Duration,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Nothing passes.
    pub is_cut: bool,
}

/// How a link loses packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// It loses none.
    None,
    /// Each packet is lost with this probability.
    Random(f64),
    /// In bursts (Gilbert and Elliott's model: a good state that loses nothing and a bad one that loses all).
    Bursts {
        /// Share of all packets that are lost.
        share: f64,
        /// Mean length of a burst in packets, at least 1.
        length: f64,
    },
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// Lost on the way, or on a cut link.
    Lost,
    /// The queue had no room for it.
    Overflow,
    /// It comes out.
    Arrives {
        /// When, since the testbed's start.
        at: Duration,
        /// When a second time, if it was duplicated.
        duplicate_at: Option<Duration>,
    },
}

/// What a link has done so far, in packets unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LinkCounts {
    /// Passed to [`LinkEmulator::send`].
    pub sent: u64,
    /// Bytes of those that left the queue, lost afterwards or not.
    pub carried_bytes: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Lost because the link was cut.
    pub cut: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Held back.
    pub reordered: u64,
    /// Arrived twice.
    pub duplicated: u64,
    /// Most bytes that ever waited in the queue.
    pub queue_bytes_max: u64,
}

impl LinkEmulator {
    /// A link whose random draws come from `seed`.
    pub fn new(rules: LinkRules, seed: u64) -> Self {
        let mut seeds = Rng::with_seed(seed);
        Self {
            rules,
            free_at: Duration::ZERO,
            remainder: 0,
            last_arrival: Duration::ZERO,
            is_in_burst: false,
            counts: LinkCounts::default(),
            loss_chance: seeds.fork(),
            reorder_chance: seeds.fork(),
            duplicate_chance: seeds.fork(),
        }
    }

    /// Changes the rules for packets sent from now on. Packets in the queue leave at the times that were
    /// returned for them before.
    pub fn set_rules(&mut self, rules: LinkRules) {
        if rules.rate_bits_per_second != self.rules.rate_bits_per_second {
            self.remainder = 0;
        }
        self.rules = rules;
    }

    /// The current rules.
    pub fn rules(&self) -> &LinkRules {
        &self.rules
    }

    /// What was done so far.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// Bytes that wait at `now`, the one that is leaving included.
    pub fn backlog_bytes(&self, now: Duration) -> u64 {
        let waiting_nanos = self.free_at.saturating_sub(now).as_nanos();
        let bytes = waiting_nanos * u128::from(self.rules.rate_bits_per_second) / BIT_NANOS_IN_BYTE_SECOND;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// A packet of `bytes` enters at `now` (since the testbed's start). Returns when and how often it comes out.
    pub fn send(&mut self, now: Duration, bytes: u32) -> Fate {
        self.counts.sent += 1;
        if self.rules.is_cut {
            self.counts.cut += 1;
            return Fate::Lost;
        }
        let waiting_bytes = self.backlog_bytes(now);
        if waiting_bytes > 0 && waiting_bytes + u64::from(bytes) > self.rules.queue_bytes {
            self.counts.overflowed += 1;
            return Fate::Overflow;
        }
        self.counts.queue_bytes_max = self.counts.queue_bytes_max.max(waiting_bytes);
        self.counts.carried_bytes += u64::from(bytes);
        let on_wire = self.serialise(now, bytes);
        if self.is_lost() {
            self.counts.lost += 1;
            return Fate::Lost;
        }
        let mut at = self.free_at.max(now).saturating_add(self.rules.delay).max(self.last_arrival);
        if self.reorder_chance.f64() < self.rules.reorder {
            self.counts.reordered += 1;
            at = at.saturating_add(self.rules.reorder_by);
        } else {
            self.last_arrival = at;
        }
        let is_doubled = self.duplicate_chance.f64() < self.rules.duplicate;
        self.counts.duplicated += u64::from(is_doubled);
        Fate::Arrives { at, duplicate_at: is_doubled.then(|| at.saturating_add(on_wire)) }
    }

    /// Queues a packet behind the others; returns how long it takes to leave.
    fn serialise(&mut self, now: Duration, bytes: u32) -> Duration {
        let rate = u128::from(self.rules.rate_bits_per_second);
        if rate == 0 {
            return Duration::ZERO;
        }
        if self.free_at < now {
            self.free_at = now;
            self.remainder = 0;
        }
        let bit_nanos = u128::from(bytes) * BIT_NANOS_IN_BYTE_SECOND + self.remainder;
        self.remainder = bit_nanos % rate;
        let on_wire = Duration::from_nanos(u64::try_from(bit_nanos / rate).unwrap_or(u64::MAX));
        self.free_at = self.free_at.saturating_add(on_wire);
        on_wire
    }

    fn is_lost(&mut self) -> bool {
        match self.rules.loss {
            Loss::None => false,
            Loss::Random(share) => self.loss_chance.f64() < share,
            Loss::Bursts { share, length } => {
                let length = length.max(1.0);
                // The share of time in the bad state is the rate of entering it, divided by the sum of the rates of
                // entering and leaving.
                let change = if self.is_in_burst { 1.0 / length } else { share / (length * (1.0 - share)).max(share) };
                if self.loss_chance.f64() < change {
                    self.is_in_burst = !self.is_in_burst;
                }
                self.is_in_burst
            }
        }
    }
}

impl LinkRules {
    /// A link without faults: this rate, `delay` each way, and the usual queue ([`queue_bytes_usual`]).
    pub fn clean(rate_bits_per_second: u64, delay: Duration) -> Self {
        Self {
            rate_bits_per_second,
            delay,
            queue_bytes: queue_bytes_usual(rate_bits_per_second, delay.saturating_mul(2)),
            loss: Loss::None,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            duplicate: 0.0,
            is_cut: false,
        }
    }
}

/// The default queue of a link: what the rate carries in one round trip, at least [`QUEUE_BYTES_MIN`].
pub fn queue_bytes_usual(rate_bits_per_second: u64, round_trip: Duration) -> u64 {
    let bytes = u128::from(rate_bits_per_second) * round_trip.as_nanos() / BIT_NANOS_IN_BYTE_SECOND;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(QUEUE_BYTES_MIN)
}

/// Least queue in bytes: some forty packets, what the smallest switches have for a port.
pub const QUEUE_BYTES_MIN: u64 = 64 * 1024;

/// Eight bits times a billion nanoseconds.
const BIT_NANOS_IN_BYTE_SECOND: u128 = 8_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET_BYTES: u32 = 1500;

    fn rules() -> LinkRules {
        LinkRules::clean(1_000_000_000, Duration::from_millis(50))
    }

    /// Sends `packets` at exactly the rate of the link, so that none waits.
    fn fates(rules: LinkRules, seed: u64, packets: u32) -> (Vec<Fate>, LinkCounts) {
        let mut link = LinkEmulator::new(rules, seed);
        let apart = Duration::from_micros(12);
        let fates = (0..packets).map(|number| link.send(apart * number, PACKET_BYTES)).collect();
        (fates, link.counts())
    }

    fn arrivals(fates: &[Fate]) -> Vec<Duration> {
        let arrival = |fate: &Fate| match fate {
            Fate::Arrives { at, .. } => Some(*at),
            Fate::Lost | Fate::Overflow => None,
        };
        fates.iter().filter_map(arrival).collect()
    }

    #[test]
    fn a_packet_takes_its_length_and_the_way() {
        let mut link = LinkEmulator::new(rules(), 1);
        let fate = link.send(Duration::from_secs(3), PACKET_BYTES);
        let at = Duration::from_secs(3) + Duration::from_micros(12) + Duration::from_millis(50);
        assert_eq!(fate, Fate::Arrives { at, duplicate_at: None });
    }

    #[test]
    fn the_rate_is_exact_even_where_a_packet_is_no_whole_number_of_nanoseconds() {
        let rate_bits_per_second = 7_000_001;
        let rules = LinkRules { rate_bits_per_second, queue_bytes: u64::MAX, delay: Duration::ZERO, ..rules() };
        let mut link = LinkEmulator::new(rules, 1);
        let packets = 100_000_u32;
        let fates: Vec<Fate> = (0..packets).map(|_| link.send(Duration::ZERO, 1)).collect();
        let exact_nanos = u128::from(packets) * BIT_NANOS_IN_BYTE_SECOND / u128::from(rate_bits_per_second);
        assert_eq!(arrivals(&fates).last().map(Duration::as_nanos), Some(exact_nanos));
    }

    #[test]
    fn a_full_queue_drops_what_comes_and_takes_again_what_fits_after_it_emptied() {
        let mut link = LinkEmulator::new(LinkRules { queue_bytes: 10 * 1500, ..rules() }, 1);
        let fates: Vec<Fate> = (0..15).map(|_| link.send(Duration::ZERO, PACKET_BYTES)).collect();
        assert_eq!(arrivals(&fates).len(), 10);
        assert_eq!(fates.last(), Some(&Fate::Overflow));
        assert_eq!(link.counts().overflowed, 5);
        // One packet leaves in twelve microseconds.
        let later = Duration::from_micros(12);
        assert!(matches!(link.send(later, PACKET_BYTES), Fate::Arrives { .. }));
        assert_eq!(link.send(later, PACKET_BYTES), Fate::Overflow);
    }

    #[test]
    fn a_queue_shorter_than_a_packet_still_lets_one_pass_at_a_time() {
        let mut link = LinkEmulator::new(LinkRules { queue_bytes: 0, ..rules() }, 1);
        assert!(matches!(link.send(Duration::ZERO, PACKET_BYTES), Fate::Arrives { .. }));
        assert_eq!(link.send(Duration::ZERO, PACKET_BYTES), Fate::Overflow);
        assert!(matches!(link.send(Duration::from_micros(12), PACKET_BYTES), Fate::Arrives { .. }));
    }

    #[test]
    fn random_loss_and_bursts_lose_the_share_they_are_told() {
        for loss in
            [Loss::Random(0.01), Loss::Bursts { share: 0.01, length: 8.0 }, Loss::Bursts { share: 0.5, length: 1.0 }]
        {
            let (Loss::Random(share) | Loss::Bursts { share, .. }) = loss else { continue };
            let (_, counts) = fates(LinkRules { loss, ..rules() }, 7, 500_000);
            let lost = counts.lost as f64 / counts.sent as f64;
            assert!((lost / share - 1.0).abs() < 0.1, "{loss:?} lost {lost}");
        }
    }

    #[test]
    fn bursts_are_as_long_as_they_are_told() {
        let (fates, counts) =
            fates(LinkRules { loss: Loss::Bursts { share: 0.02, length: 6.0 }, ..rules() }, 3, 500_000);
        let bursts = fates.windows(2).filter(|pair| pair[0] != Fate::Lost && pair[1] == Fate::Lost).count();
        let length = counts.lost as f64 / bursts as f64;
        assert!((length - 6.0).abs() < 0.6, "bursts of {length}");
    }

    #[test]
    fn nothing_overtakes_without_reordering_and_some_does_with_it() {
        let (straight, _) = fates(rules(), 1, 10_000);
        assert!(arrivals(&straight).is_sorted());
        let disorder = LinkRules { reorder: 0.02, reorder_by: Duration::from_millis(2), ..rules() };
        let (mixed, counts) = fates(disorder, 1, 10_000);
        let arrivals = arrivals(&mixed);
        assert!(!arrivals.is_sorted());
        assert_eq!(arrivals.len(), 10_000);
        assert!((100..300).contains(&counts.reordered), "{}", counts.reordered);
    }

    #[test]
    fn a_way_made_shorter_lets_nothing_overtake() {
        let mut link = LinkEmulator::new(rules(), 1);
        let mut fates = vec![link.send(Duration::ZERO, PACKET_BYTES)];
        link.set_rules(LinkRules { delay: Duration::from_millis(1), ..rules() });
        fates.push(link.send(Duration::from_millis(1), PACKET_BYTES));
        assert!(arrivals(&fates).is_sorted());
    }

    #[test]
    fn doubled_packets_arrive_twice() {
        let (fates, counts) = fates(LinkRules { duplicate: 0.05, ..rules() }, 1, 10_000);
        let doubled = fates.iter().filter(|fate| matches!(fate, Fate::Arrives { duplicate_at: Some(_), .. })).count();
        assert!((400..600).contains(&doubled), "{doubled}");
        assert_eq!(counts.duplicated, doubled as u64);
    }

    #[test]
    fn a_cut_link_lets_nothing_pass_until_it_is_mended() {
        let mut link = LinkEmulator::new(LinkRules { is_cut: true, ..rules() }, 1);
        assert_eq!(link.send(Duration::ZERO, PACKET_BYTES), Fate::Lost);
        link.set_rules(rules());
        assert!(matches!(link.send(Duration::ZERO, PACKET_BYTES), Fate::Arrives { .. }));
        assert_eq!(link.counts(), LinkCounts { sent: 2, cut: 1, carried_bytes: 1500, ..LinkCounts::default() });
    }

    #[test]
    fn the_same_seed_is_the_same_fate_and_another_seed_another() {
        let faulty = LinkRules {
            loss: Loss::Bursts { share: 0.05, length: 3.0 },
            reorder: 0.05,
            reorder_by: Duration::from_millis(1),
            duplicate: 0.05,
            ..rules()
        };
        assert_eq!(fates(faulty.clone(), 42, 10_000), fates(faulty.clone(), 42, 10_000));
        assert_ne!(fates(faulty.clone(), 42, 10_000), fates(faulty, 43, 10_000));
    }

    #[test]
    fn more_doubling_does_not_change_what_is_lost() {
        let lossy = LinkRules { loss: Loss::Random(0.05), ..rules() };
        let lost =
            |rules: LinkRules| fates(rules, 9, 10_000).0.iter().map(|fate| *fate == Fate::Lost).collect::<Vec<_>>();
        assert_eq!(lost(lossy.clone()), lost(LinkRules { duplicate: 0.5, reorder: 0.5, ..lossy }));
    }

    #[test]
    fn the_usual_queue_is_what_comes_in_a_round_trip_but_never_too_small() {
        assert_eq!(queue_bytes_usual(1_000_000_000, Duration::from_millis(100)), 12_500_000);
        assert_eq!(queue_bytes_usual(1_000_000, Duration::from_millis(1)), QUEUE_BYTES_MIN);
    }
}
