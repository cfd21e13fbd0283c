//! One direction of the path between two sites. Every segment meets the link by itself, as on a wire. Segments that
//! come out close behind each other continue under one header, so that a fast link costs a tenth of the work. This is
//! pure code: it is given the time and the packets that enter, and returns what comes out when. It never reads a
//! clock or touches a device.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    link::{Fate, LinkCounts, LinkEmulator, buffers::Buffers},
    packet::{CoalescedFrame, GsoPacket, TCP, UDP},
    rules::{Blocked, PathRules},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Direction {
    link: LinkEmulator,
    mtu_bytes: usize,
    tells_mtu: bool,
    blocks: Blocked,
    too_large: u64,
    blocked: u64,
}

/// What one direction has done so far, in packets unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionCounts {
    /// Packets that entered the link.
    pub sent: u64,
    /// IPv4 bytes of the packets that left the queue, lost afterwards or not.
    pub carried_bytes: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost because the path was cut.
    pub cut: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Held back.
    pub reordered: u64,
    /// Arrived twice.
    pub duplicated: u64,
    /// Longer than the path's MTU.
    pub too_large: u64,
    /// Of a protocol that is blocked.
    pub blocked: u64,
    /// Most bytes that ever waited in the queue.
    pub queue_bytes_max: u64,
}

/// What happened to a packet at the entrance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnterOutcome {
    /// It entered the link.
    Taken,
    /// It is too large, and its sender must be told.
    TellMtu(u16),
    /// It is dropped.
    Refused,
}

impl Direction {
    /// A direction whose random draws come from `seed`.
    pub(crate) fn new(rules: &PathRules, seed: u64) -> Self {
        let mut direction = Self {
            link: LinkEmulator::new(rules.link(), seed),
            mtu_bytes: 0,
            tells_mtu: false,
            blocks: Blocked::Nothing,
            too_large: 0,
            blocked: 0,
        };
        direction.set_rules(rules);
        direction
    }

    /// Changes the rules for what enters from now on.
    pub(crate) fn set_rules(&mut self, rules: &PathRules) {
        self.link.set_rules(rules.link());
        self.mtu_bytes = rules.mtu_bytes.map_or(usize::MAX, usize::from);
        self.tells_mtu = rules.tells_mtu;
        self.blocks = rules.blocks;
    }

    /// How long a packet takes if it does not wait.
    pub(crate) fn delay(&self) -> Duration {
        self.link.rules().delay
    }

    /// A packet enters. `arrives` is called with what comes out and when, in no particular order.
    pub(crate) fn enter(
        &mut self,
        now: Duration,
        parcel: &GsoPacket<'_>,
        buffers: &mut Buffers,
        mut arrives: impl FnMut(Duration, Vec<u8>),
    ) -> EnterOutcome {
        let segments = parcel.segments();
        if self.is_blocked(parcel.protocol) {
            self.blocked += segments as u64;
            return EnterOutcome::Refused;
        }
        // The first segment is never shorter than the others of its packet.
        if parcel.wire_bytes(0) > self.mtu_bytes && !self.link.rules().is_cut {
            self.too_large += segments as u64;
            // The cast fits: the MTU is smaller than a packet.
            return if self.tells_mtu { EnterOutcome::TellMtu(self.mtu_bytes as u16) } else { EnterOutcome::Refused };
        }
        let mut open: Option<OpenFrame> = None;
        for index in 0..segments {
            let reordered = self.link.counts().reordered;
            match self.link.send(now, parcel.wire_bytes(index) as u32) {
                Fate::Lost | Fate::Overflow => {}
                Fate::Arrives { at, duplicate_at: again } => {
                    if let Some(again) = again {
                        arrives(again, CoalescedFrame::begin(room(buffers, parcel, 1), parcel, index).finish(parcel));
                    }
                    let is_held_back = self.link.counts().reordered != reordered;
                    if let Some(open) = &mut open
                        && !is_held_back
                        && open.takes(parcel, index, at)
                    {
                        open.piece.append(parcel, index);
                        open.at = at;
                        continue;
                    }
                    let piece = CoalescedFrame::begin(room(buffers, parcel, segments - index), parcel, index);
                    let next = OpenFrame { piece, begins: at, at, is_held_back };
                    if let Some(done) = open.replace(next) {
                        arrives(done.at, done.piece.finish(parcel));
                    }
                }
            }
        }
        if let Some(done) = open {
            arrives(done.at, done.piece.finish(parcel));
        }
        EnterOutcome::Taken
    }

    /// What was done so far.
    pub(crate) fn counts(&self) -> DirectionCounts {
        let LinkCounts { sent, carried_bytes, lost, cut, overflowed, reordered, duplicated, queue_bytes_max } =
            self.link.counts();
        let Self { too_large, blocked, .. } = *self;
        DirectionCounts {
            sent,
            carried_bytes,
            lost,
            cut,
            overflowed,
            reordered,
            duplicated,
            too_large,
            blocked,
            queue_bytes_max,
        }
    }

    fn is_blocked(&self, protocol: u8) -> bool {
        match self.blocks {
            Blocked::Nothing => false,
            Blocked::Udp => protocol == UDP,
            Blocked::Tcp => protocol == TCP,
        }
    }
}

/// A frame to which segments may still be appended.
struct OpenFrame {
    piece: CoalescedFrame,
    /// When its first segment arrives.
    begins: Duration,
    /// When its last segment arrives; then it arrives as a whole.
    at: Duration,
    /// Whether it is held back; other segments must not wait with it.
    is_held_back: bool,
}

impl OpenFrame {
    /// Whether a segment that arrives at `at` may travel with it.
    fn takes(&self, parcel: &GsoPacket<'_>, index: usize, at: Duration) -> bool {
        let follows = parcel.joins_over_gaps() || self.piece.last() + 1 == index;
        let soon = at >= self.at && at - self.begins <= TOGETHER_MAX;
        follows && soon && !self.is_held_back && self.piece.segments() < SEGMENTS_TOGETHER_MAX
    }
}

/// A buffer for a frame of at most `segments` segments.
fn room(buffers: &mut Buffers, parcel: &GsoPacket<'_>, segments: usize) -> Vec<u8> {
    buffers.take(parcel.frame_bytes(segments.min(SEGMENTS_TOGETHER_MAX)))
}

/// Segments that arrive as one: as many as a network card usually gathers before it interrupts.
const SEGMENTS_TOGETHER_MAX: usize = 16;
/// And within this time, so that a slow link stays smooth.
const TOGETHER_MAX: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        link::quantity::{Rate, Share},
        packet::samples::{cut, tcp_row, udp_row},
    };

    fn rules() -> PathRules {
        PathRules::new(Rate(1_000_000_000), Duration::from_millis(20))
    }

    /// What comes out, in the order of time.
    fn enter(direction: &mut Direction, now: Duration, frame: &[u8]) -> Vec<(Duration, Vec<u8>)> {
        let mut arrived = Vec::new();
        let parcel = GsoPacket::read(frame).unwrap();
        direction.enter(now, &parcel, &mut Buffers::default(), |at, frame| arrived.push((at, frame)));
        arrived.sort_by_key(|(at, _)| *at);
        arrived
    }

    #[test]
    fn a_row_arrives_in_pieces_that_bring_every_byte_in_order() {
        for frame in [tcp_row(44 * 1448, 1448), udp_row(44 * 1448, 1448)] {
            let mut direction = Direction::new(&rules(), 1);
            let arrived = enter(&mut direction, Duration::ZERO, &frame);
            assert_eq!(arrived.len(), 3, "16, 16 and 12 segments");
            let found: Vec<_> = arrived.iter().flat_map(|(_, frame)| cut(frame)).collect();
            assert_eq!(found, cut(&frame));
            assert_eq!(direction.counts().sent, 44);
        }
    }

    #[test]
    fn a_row_takes_as_long_as_its_segments_one_by_one() {
        let frame = udp_row(10 * 1000, 1000);
        let mut together = Direction::new(&rules(), 1);
        let last = enter(&mut together, Duration::ZERO, &frame).pop().unwrap().0;
        let mut apart = Direction::new(&rules(), 1);
        let times: Vec<_> = cut(&frame).iter().map(|frame| enter(&mut apart, Duration::ZERO, frame)[0].0).collect();
        assert_eq!(last, times[9]);
        assert_eq!(together.counts(), apart.counts());
    }

    #[test]
    fn a_slow_link_brings_segments_one_by_one() {
        let slow = PathRules { rate: Rate(8_000_000), ..rules() };
        let arrived = enter(&mut Direction::new(&slow, 1), Duration::ZERO, &udp_row(5 * 1000, 1000));
        assert_eq!(arrived.len(), 5);
    }

    #[test]
    fn what_is_lost_is_missing_and_the_rest_is_as_it_was_sent() {
        let lossy = PathRules { loss: Share(0.2), ..rules() };
        for (seed, frame) in [(3, tcp_row(40 * 1000, 1000)), (4, udp_row(40 * 1000, 1000))] {
            let mut direction = Direction::new(&lossy, seed);
            let found: Vec<_> =
                enter(&mut direction, Duration::ZERO, &frame).iter().flat_map(|(_, frame)| cut(frame)).collect();
            let passed = direction.counts();
            assert!(passed.lost > 2, "the fault has fired: {passed:?}");
            assert_eq!(found.len() as u64, passed.sent - passed.lost);
            let payload = |frame: &Vec<u8>| frame[frame.len() - 1000..].to_vec();
            let sent: Vec<_> = cut(&frame).iter().map(payload).collect();
            assert!(found.iter().all(|frame| sent.contains(&payload(frame))));
        }
    }

    #[test]
    fn a_segment_that_is_held_back_holds_no_other_back() {
        let unordered = PathRules { reorder: Share(0.2), reorder_by: Some(Duration::from_micros(50)), ..rules() };
        let mut direction = Direction::new(&unordered, 5);
        let arrived = enter(&mut direction, Duration::ZERO, &tcp_row(40 * 1000, 1000));
        let held_back = direction.counts().reordered;
        assert!(held_back > 2, "the fault has fired");
        // Alone over the same link, each segment arrives when it does in a row, or less than a moment before.
        let sequence = |frame: &Vec<u8>| u32::from_be_bytes(frame[34..38].try_into().unwrap());
        let order: Vec<_> = arrived.iter().flat_map(|(_, frame)| cut(frame)).map(|frame| sequence(&frame)).collect();
        let alone = arrived.iter().filter(|(_, frame)| cut(frame).len() == 1).count() as u64;
        assert!(alone >= held_back);
        assert_eq!(order.len(), 40);
        assert!(!order.is_sorted(), "later ones have overtaken");
    }

    #[test]
    fn a_packet_that_comes_twice_is_the_same_packet() {
        let doubling = PathRules { duplicate: Share(1.0), ..rules() };
        let frame = udp_row(4 * 1000, 1000);
        let mut found: Vec<_> = enter(&mut Direction::new(&doubling, 1), Duration::ZERO, &frame)
            .iter()
            .flat_map(|(_, frame)| cut(frame))
            .collect();
        let mut expected = [cut(&frame), cut(&frame)].concat();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn packets_larger_than_the_path_vanish_or_are_answered() {
        let narrow = PathRules { mtu_bytes: Some(1000), ..rules() };
        let frame = udp_row(3 * 1000, 1000);
        let parcel = GsoPacket::read(&frame).unwrap();
        let mut direction = Direction::new(&narrow, 1);
        let mut arrived = 0;
        let mut enter = |direction: &mut Direction, parcel| {
            direction.enter(Duration::ZERO, parcel, &mut Buffers::default(), |_, _| arrived += 1)
        };
        assert_eq!(enter(&mut direction, &parcel), EnterOutcome::Refused);
        direction.set_rules(&PathRules { tells_mtu: true, ..narrow });
        assert_eq!(enter(&mut direction, &parcel), EnterOutcome::TellMtu(1000));
        let fits = udp_row(3 * 972, 972);
        assert_eq!(enter(&mut direction, &GsoPacket::read(&fits).unwrap()), EnterOutcome::Taken);
        assert_eq!((direction.counts().too_large, direction.counts().sent, arrived), (6, 3, 1));
    }

    #[test]
    fn a_blocked_protocol_does_not_pass_and_others_do() {
        let mut direction = Direction::new(&PathRules { blocks: Blocked::Udp, ..rules() }, 1);
        assert!(enter(&mut direction, Duration::ZERO, &udp_row(2000, 1000)).is_empty());
        assert_eq!(enter(&mut direction, Duration::ZERO, &tcp_row(2000, 1000)).len(), 1);
        assert_eq!((direction.counts().blocked, direction.counts().sent), (2, 2));
    }
}
