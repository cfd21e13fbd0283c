//! What the links between sites carry: bytes, losses and round trips of real transfers. Nodes report it to the master
//! (door 4), and users read it there (door 2). Serves the path *links*. It never says which file or user it was.

use serde::{Deserialize, Serialize};

/// What a node had to do with one site in one second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSample {
    /// The other site, or the node's own.
    pub site: String,
    /// Bytes of files that left for it.
    pub sent_bytes: u64,
    /// Bytes of files that came from it, and that no other node counts as sent.
    pub received_bytes: u64,
    /// Packets of QUIC and segments of TCP that left for it.
    pub sent_packets: u64,
    /// How many packets were found to be lost.
    pub lost_packets: u64,
    /// Bytes that were sent again.
    pub retransmitted_bytes: u64,
    /// The mean of the smoothed round trip over the packets that left, in microseconds; 0 where none did.
    pub round_trip_micros: u64,
}

/// One second of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSecond {
    /// Its number since the node started.
    pub number: u64,
    /// The sites with which the node had to do; at most [`LINK_SITES_MAX`].
    pub links: Vec<LinkSample>,
}

/// What a node reports about links, after each status in which there is something to report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Drawn when the node starts: numbers of seconds hold within one run of it.
    pub run: u64,
    /// The number of the last second that has ended.
    pub number: u64,
    /// Seconds since the last report that was answered, oldest first; at most
    /// [`SAMPLES_MAX`](super::load::SAMPLES_MAX). Seconds in which nothing happened are left out.
    pub seconds: Vec<LinkSecond>,
}

/// What went over a link in one direction, on average over some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRates {
    /// Bytes of files that left, in bytes per second.
    pub sent_bytes_per_second: u64,
    /// Bytes that were sent again, in bytes per second.
    pub retransmitted_bytes_per_second: u64,
    /// The share of packets that were lost, in millionths; `None` where no node sent any.
    pub loss_millionths: Option<u32>,
    /// The mean round trip of the packets, in microseconds; `None` where no node sent any in either direction.
    pub round_trip_micros: Option<u64>,
}

/// A link in one direction at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredLink {
    /// The site that sends.
    pub from: String,
    /// The site that receives; the same one for what went between nodes of a site.
    pub to: String,
    /// What went over it; `None` for a time before the master saw the link.
    pub rates: Option<LinkRates>,
    /// The limit of the topology, in bytes per second, both directions together.
    pub limit_bytes_per_second: Option<u64>,
}

/// All links at a moment, a page at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPage {
    /// When the samples end, in milliseconds since the Unix epoch, by the master's clock.
    pub unix_millis: u64,
    /// How many seconds a sample covers.
    pub sample_seconds: u32,
    /// Links over which anything went within a day, by the names of their sites.
    pub links: Vec<MeasuredLink>,
    /// The sites of the last link of this page, if more follow.
    pub next: Option<(String, String)>,
}

/// One link in one direction over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSeries {
    /// When the last sample ends, in milliseconds since the Unix epoch, by the master's clock.
    pub unix_millis: u64,
    /// How many seconds a sample covers.
    pub sample_seconds: u32,
    /// Samples, oldest first; `None` for times before the master saw the link.
    pub samples: Vec<Option<LinkRates>>,
    /// The limit of the topology now, in bytes per second, both directions together.
    pub limit_bytes_per_second: Option<u64>,
}

/// Most sites that a node counts. Traffic with further ones is not counted.
pub const LINK_SITES_MAX: usize = 64;
