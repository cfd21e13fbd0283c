//! How a path between two sites behaves, in the units that people use, and what a change of it contains. Both
//! directions of a path behave alike, each with a link and a queue of its own. Pure code: it never touches a packet.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::link::{
    LinkRules, Loss,
    quantity::{Rate, Share},
    queue_bytes_usual,
};

/// How a path behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathRules {
    /// What a link carries, headers of IPv4 included.
    pub rate: Rate,
    /// The round-trip time.
    pub rtt: Duration,
    /// Room before the link, in bytes; by default what the link carries in one round trip.
    pub queue_bytes: Option<u64>,
    /// Packets lost by chance.
    pub loss: Share,
    /// Packets lost in a row, on average; at 1 or less, each packet is lost by itself.
    pub burst_packets: f64,
    /// Packets held back, so that later ones overtake them.
    pub reorder: Share,
    /// For how long; by default an eighth of the round trip.
    pub reorder_by: Option<Duration>,
    /// Packets that arrive twice.
    pub duplicate: Share,
    /// Packets longer than this, in bytes of IPv4, do not pass; `None`: every packet of the device passes.
    pub mtu_bytes: Option<u16>,
    /// Whether their sender is told (ICMP); otherwise the path is a black hole.
    pub tells_mtu: bool,
    /// Which protocols do not pass.
    pub blocks: Blocked,
    /// Whether nothing passes.
    pub is_cut: bool,
}

/// Which protocols a path blocks, as firewalls do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blocked {
    /// None.
    #[default]
    Nothing,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl PathRules {
    /// A path that loses nothing.
    pub fn new(rate: Rate, rtt: Duration) -> Self {
        Self {
            rate,
            rtt,
            queue_bytes: None,
            loss: Share::NONE,
            burst_packets: 1.0,
            reorder: Share::NONE,
            reorder_by: None,
            duplicate: Share::NONE,
            mtu_bytes: None,
            tells_mtu: false,
            blocks: Blocked::Nothing,
            is_cut: false,
        }
    }

    /// The rules of one direction's link.
    pub fn link(&self) -> LinkRules {
        let loss = match self.loss {
            Share(share) if share <= 0.0 => Loss::None,
            Share(share) if self.burst_packets <= 1.0 => Loss::Random(share),
            Share(share) => Loss::Bursts { share, length: self.burst_packets },
        };
        LinkRules {
            rate_bits_per_second: self.rate.0,
            delay: self.rtt / 2,
            queue_bytes: self.queue(),
            loss,
            reorder: self.reorder.0,
            reorder_by: self.reorder_by.unwrap_or(self.rtt / 8),
            duplicate: self.duplicate.0,
            is_cut: self.is_cut,
        }
    }

    /// Bytes that can be in transit or waiting in one direction.
    pub fn bytes_underway_max(&self) -> u64 {
        self.bytes_within(self.rtt / 2 + self.reorder_by.unwrap_or(self.rtt / 8)) + self.queue()
    }

    fn queue(&self) -> u64 {
        self.queue_bytes.unwrap_or_else(|| queue_bytes_usual(self.rate.0, self.rtt))
    }

    fn bytes_within(&self, time: Duration) -> u64 {
        (self.rate.0 as f64 / 8.0 * time.as_secs_f64()) as u64
    }
}

/// What changes from now on; a field that is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathChange {
    /// See [`PathRules::rate`].
    pub rate: Option<Rate>,
    /// See [`PathRules::rtt`].
    pub rtt: Option<Duration>,
    /// See [`PathRules::queue_bytes`].
    pub queue_bytes: Option<u64>,
    /// See [`PathRules::loss`].
    pub loss: Option<Share>,
    /// See [`PathRules::burst_packets`].
    pub burst_packets: Option<f64>,
    /// See [`PathRules::reorder`].
    pub reorder: Option<Share>,
    /// See [`PathRules::reorder_by`].
    pub reorder_by: Option<Duration>,
    /// See [`PathRules::duplicate`].
    pub duplicate: Option<Share>,
    /// See [`PathRules::mtu_bytes`]; 0 removes the limit.
    pub mtu_bytes: Option<u16>,
    /// See [`PathRules::tells_mtu`].
    pub tells_mtu: Option<bool>,
    /// See [`PathRules::blocks`].
    pub blocks: Option<Blocked>,
    /// See [`PathRules::is_cut`].
    pub is_cut: Option<bool>,
}

impl PathChange {
    /// The rules after the change.
    pub fn apply(&self, old: &PathRules) -> PathRules {
        PathRules {
            rate: self.rate.unwrap_or(old.rate),
            rtt: self.rtt.unwrap_or(old.rtt),
            queue_bytes: self.queue_bytes.or(old.queue_bytes),
            loss: self.loss.unwrap_or(old.loss),
            burst_packets: self.burst_packets.unwrap_or(old.burst_packets),
            reorder: self.reorder.unwrap_or(old.reorder),
            reorder_by: self.reorder_by.or(old.reorder_by),
            duplicate: self.duplicate.unwrap_or(old.duplicate),
            mtu_bytes: self.mtu_bytes.or(old.mtu_bytes).filter(|bytes| *bytes > 0),
            tells_mtu: self.tells_mtu.unwrap_or(old.tells_mtu),
            blocks: self.blocks.unwrap_or(old.blocks),
            is_cut: self.is_cut.unwrap_or(old.is_cut),
        }
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn a_link_has_half_the_round_trip_and_room_for_all_of_it() {
        let rules = PathRules::new(Rate(1_000_000_000), RTT);
        let link = rules.link();
        assert_eq!((link.delay, link.queue_bytes), (RTT / 2, 12_500_000));
        assert_eq!(link.loss, Loss::None);
        let near = PathRules::new(Rate(1_000_000), Duration::from_millis(1));
        assert_eq!(near.link().queue_bytes, 64 << 10);
    }

    #[test]
    fn loss_comes_in_bursts_only_where_that_is_said() {
        let rules = PathRules { loss: Share(0.01), ..PathRules::new(Rate(1_000_000), RTT) };
        assert_eq!(rules.link().loss, Loss::Random(0.01));
        let rules = PathRules { burst_packets: 5.0, ..rules };
        assert_eq!(rules.link().loss, Loss::Bursts { share: 0.01, length: 5.0 });
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let old = PathRules { mtu_bytes: Some(1200), ..PathRules::new(Rate(1_000_000), RTT) };
        assert_eq!(PathChange::default().apply(&old), old);
        assert!(PathChange::default().is_empty());
        let cut = PathChange { is_cut: Some(true), ..PathChange::default() };
        assert_eq!(cut.apply(&old), PathRules { is_cut: true, ..old.clone() });
        let free = PathChange { mtu_bytes: Some(0), ..PathChange::default() };
        assert_eq!(free.apply(&old).mtu_bytes, None);
    }

    #[test]
    fn a_queue_of_its_own_follows_a_change_of_the_rate() {
        let old = PathRules::new(Rate(1_000_000_000), RTT);
        let slower = PathChange { rate: Some(Rate(80_000_000)), ..PathChange::default() };
        assert_eq!(slower.apply(&old).link().queue_bytes, 1_000_000);
    }
}
