//! What this node has carried to and from each site in each second, kept until the master has it. Serves the path
//! *links*. It never counts anything itself: connections and conversations do.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use daemon::shutdown::ShutdownToken;
use protocol::message::links::{LinkReport, LinkSample, LinkSecond};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{EVERY, untold_queue::UntoldQueue};
use crate::{node_context::NodeContext, transfer::site_links::LinkTotals};

/// What was measured and not yet reported.
#[derive(Debug)]
pub(crate) struct LinkSamples {
    /// Tells this run of the node from another.
    run: u64,
    measured: Mutex<MeasuredLinks>,
}

#[derive(Debug, Default)]
struct MeasuredLinks {
    /// Seconds so far.
    number: u64,
    untold: UntoldQueue<LinkSecond>,
    before: BTreeMap<String, LinkTotals>,
    /// The last round trip that each site's packets had, in microseconds.
    round_trips: BTreeMap<String, u64>,
    /// The sites to which the network held up what left, all through the last second.
    full: Vec<String>,
}

/// A report, and what to say once the master has it.
pub(crate) struct UntoldLinks {
    pub(crate) report: LinkReport,
    end: u64,
}

impl LinkSamples {
    /// `run` is another one each time the node starts.
    pub(crate) fn new(run: u64) -> Self {
        Self { run, measured: Mutex::default() }
    }

    /// What the master does not have yet; `None` where that is nothing.
    pub(crate) fn untold(&self) -> Option<UntoldLinks> {
        let measured = self.lock();
        let (seconds, end) = measured.untold.all();
        let report = LinkReport { run: self.run, number: measured.number, seconds };
        (!report.seconds.is_empty()).then_some(UntoldLinks { report, end })
    }

    /// The master has this.
    pub(crate) fn note_told(&self, told: &UntoldLinks) {
        self.lock().untold.note_told(told.end);
    }

    /// The last round trip to each site, in microseconds.
    pub(crate) fn round_trips(&self) -> BTreeMap<String, u64> {
        self.lock().round_trips.clone()
    }

    /// The sites to which the network held up what left, all through the last second.
    pub(crate) fn full(&self) -> Vec<String> {
        self.lock().full.clone()
    }

    /// A second has passed, and all that went by now is this.
    fn add(&self, totals: Vec<(String, LinkTotals)>) {
        let mut measured = self.lock();
        measured.number += 1;
        let mut links = Vec::new();
        measured.full.clear();
        for (site, totals) in totals {
            let before = measured.before.insert(site.clone(), totals).unwrap_or_default();
            if before == totals {
                continue;
            }
            let sample = sample(site, &before, &totals);
            if totals.transport.held_up_micros - before.transport.held_up_micros >= FULL_MICROS {
                measured.full.push(sample.site.clone());
            }
            if sample.sent_packets > 0 {
                measured.round_trips.insert(sample.site.clone(), sample.round_trip_micros);
            }
            links.push(sample);
        }
        if !links.is_empty() {
            let number = measured.number;
            measured.untold.push(LinkSecond { number, links });
        }
    }

    fn lock(&self) -> MutexGuard<'_, MeasuredLinks> {
        // Samples are whole after each line of this file.
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a sample every second until the node stops.
pub(crate) async fn sample_links(context: Arc<NodeContext>, stopping: ShutdownToken) {
    let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stopping.run_until_cancelled(ticks.tick()).await.is_some() {
        context.links.add(context.peers.site_limiters.links.totals());
    }
}

fn sample(site: String, before: &LinkTotals, now: &LinkTotals) -> LinkSample {
    let (transport, earlier) = (&now.transport, &before.transport);
    let sent_packets = transport.sent_packets - earlier.sent_packets;
    let round_trips = transport.round_trip_micros.wrapping_sub(earlier.round_trip_micros);
    LinkSample {
        site,
        sent_bytes: now.sent_bytes - before.sent_bytes,
        received_bytes: now.received_bytes - before.received_bytes,
        sent_packets,
        lost_packets: transport.lost_packets - earlier.lost_packets,
        retransmitted_bytes: transport.retransmitted_bytes - earlier.retransmitted_bytes,
        round_trip_micros: round_trips.checked_div(sent_packets).unwrap_or(0),
    }
}

/// A link was full in a second in which it held up a connection for so many microseconds. Readings are never exactly a
/// second apart.
const FULL_MICROS: u64 = 900_000;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use net::transfer::TransportCounts;

    use super::*;

    fn totals(sent_bytes: u64, sent_packets: u64, round_trip_micros: u64) -> LinkTotals {
        let transport = TransportCounts {
            sent_packets,
            lost_packets: 2,
            retransmitted_bytes: 9,
            round_trip_micros,
            held_up_micros: sent_packets * 240_000,
        };
        LinkTotals { sent_bytes, received_bytes: 1, transport }
    }

    fn add(samples: &LinkSamples, totals: LinkTotals) {
        samples.add(vec![("jhu".into(), totals), ("quiet".into(), LinkTotals::default())]);
    }

    #[test]
    fn a_second_is_what_was_added_in_it_and_a_quiet_one_is_left_out() {
        let samples = LinkSamples::new(7);
        add(&samples, LinkTotals::default());
        assert!(samples.untold().is_none());
        // The sum of round trips wraps.
        add(&samples, totals(1_000, 10, u64::MAX - 9));
        assert_eq!(samples.full(), ["jhu"]);
        add(&samples, totals(1_000, 10, u64::MAX - 9));
        assert!(samples.full().is_empty(), "it was quiet");
        add(&samples, totals(1_300, 13, 300));
        assert!(samples.full().is_empty(), "it was held up for a part of that second only");
        add(&samples, totals(1_500, 14, 390));
        let told = samples.untold().unwrap();
        let LinkReport { run, number, seconds } = &told.report;
        assert_eq!((*run, *number, seconds.iter().map(|it| it.number).collect::<Vec<_>>()), (7, 5, vec![2, 4, 5]));
        let [first, last] = [0, 2].map(|at: usize| &seconds[at].links);
        assert_eq!((first.len(), last.len()), (1, 1), "only the site that was used");
        assert_eq!((first[0].sent_bytes, first[0].received_bytes, first[0].lost_packets), (1_000, 1, 2));
        assert_eq!((last[0].sent_bytes, last[0].received_bytes, last[0].lost_packets), (200, 0, 0));
        assert_eq!((last[0].sent_packets, last[0].round_trip_micros), (1, 90));
        assert_eq!(samples.round_trips(), BTreeMap::from([("jhu".into(), 90)]));
        add(&samples, totals(1_501, 14, 390));
        samples.note_told(&told);
        let next = samples.untold().unwrap().report;
        assert_eq!((next.number, next.seconds.len(), next.seconds[0].number), (6, 1, 6));
    }
}
