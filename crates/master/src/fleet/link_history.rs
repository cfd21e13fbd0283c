//! What went over the links between sites in the last day, the older the coarser ([`HistoryRings`]). The reports of all
//! nodes of a site are added up. Serves the path *links*. It is memory only and bounded. It never looks at a wall clock.

use std::{collections::BTreeMap, mem, ops::RangeInclusive, time::Duration};

use protocol::{
    message::{
        links::{LINK_SITES_MAX, LinkRates, LinkReport, LinkSample, LinkSecond},
        load::{LOAD_RESOLUTIONS, LoadResolution, SAMPLES_MAX},
    },
    topology::check_name,
};

use super::history_rings::{HistoryRings, resolution};

/// All links, each direction by itself.
#[derive(Debug, Default)]
pub(crate) struct LinkHistories {
    /// By the site that sends, then by the one that receives.
    by_sites: BTreeMap<String, BTreeMap<String, LinkHistory>>,
}

/// One link in one direction.
#[derive(Debug, Default)]
struct LinkHistory {
    rings: HistoryRings<VALUES>,
    /// The last second in which anything went over it.
    newest: u64,
}

/// How much of a node's reports is counted. It keeps a report that comes twice from counting twice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkProgress {
    run: u64,
    next: u64,
}

/// Rates at one moment or over time, and when the last of them ended.
#[derive(Debug, PartialEq)]
pub(crate) struct LinkView<T> {
    pub(crate) rates: T,
    pub(crate) sample_seconds: u32,
    pub(crate) ended_seconds_ago: u64,
}

/// What is kept, each by the second: bytes, bytes sent again, packets, lost packets, and round trips in microseconds
/// times packets. Such sums have means over time and over nodes, as round trips and shares have not.
type Values = [f64; VALUES];
const VALUES: usize = 5;

impl LinkHistories {
    /// A node at the site `own` has reported: its last second ends now, and each one before it a second earlier.
    pub(crate) fn add(&mut self, now: Duration, own: &str, progress: &mut LinkProgress, report: LinkReport) {
        for (age, LinkSecond { links, .. }) in progress.take(report) {
            let ended = now.saturating_sub(age);
            for sample in links.iter().take(LINK_SITES_MAX).filter(|sample| check_name(&sample.site).is_ok()) {
                let LinkSample { site, received_bytes, .. } = sample;
                let sent = sent_values(sample);
                if sent != [0.0; VALUES] {
                    self.of(own, site, now).add(ended, sent);
                }
                if *received_bytes > 0 {
                    self.of(site, own, now).add(ended, [*received_bytes as f64, 0.0, 0.0, 0.0, 0.0]);
                }
            }
        }
    }

    /// The links after one, by the names of their sites.
    pub(crate) fn names(&self, after: Option<&(String, String)>) -> impl Iterator<Item = (&str, &str)> {
        let links = self.by_sites.iter().flat_map(|(from, of)| of.keys().map(move |to| (from.as_str(), to.as_str())));
        links.filter(move |link| after.is_none_or(|(from, to)| *link > (from.as_str(), to.as_str())))
    }

    /// What went over a link so many seconds ago; `None` inside where it was not known then.
    pub(crate) fn at(&self, now: Duration, (from, to): (&str, &str), seconds_ago: u32) -> LinkView<Option<LinkRates>> {
        let reach = seconds_ago.saturating_add(COMPLETE_AFTER_SECONDS as u32 + MEAN_SECONDS);
        let LoadResolution { sample_seconds, .. } = resolution(reach);
        let is_finest = sample_seconds == 1;
        let (lag, count) = if is_finest { (COMPLETE_AFTER_SECONDS, u64::from(MEAN_SECONDS)) } else { (0, 1) };
        let span = u64::from(sample_seconds);
        // Our clock may be younger than that.
        let last = now.as_secs().checked_sub(u64::from(seconds_ago) + lag).map(|second| second / span);
        let mean = |of: Option<&LinkHistory>| of?.mean(reach, last?.saturating_sub(count - 1)..=last?);
        let rates = mean(self.get(from, to)).map(|there| rates(there, mean(self.get(to, from))));
        let ended_seconds_ago =
            last.map_or(u64::from(seconds_ago), |last| now.as_secs().saturating_sub((last + 1) * span));
        LinkView { rates, sample_seconds: sample_seconds * count as u32, ended_seconds_ago }
    }

    /// What went over a link in the last seconds, oldest first, at the finest resolution that reaches as far. It is
    /// `None` where no such link is known.
    pub(crate) fn series(
        &self,
        now: Duration,
        (from, to): (&str, &str),
        seconds: u32,
    ) -> Option<LinkView<Vec<Option<LinkRates>>>> {
        let (there, back) = (self.get(from, to)?, self.get(to, from));
        let reach = seconds.saturating_sub(1);
        let LoadResolution { sample_seconds, samples } = there.rings.ring(reach).resolution;
        let complete = now.as_secs().saturating_sub(COMPLETE_AFTER_SECONDS);
        let span = u64::from(sample_seconds);
        // Of a longer span, the one that is over.
        let end = if sample_seconds == 1 { complete + 1 } else { complete / span };
        // The ring's newest two are not over.
        let count = u64::from(seconds.div_ceil(sample_seconds).min(samples - COMPLETE_AFTER_SECONDS as u32));
        let at = |number: u64| {
            let there = there.get(reach, number)?;
            Some(rates(there, back.and_then(|back| back.get(reach, number))))
        };
        let rates = (1..=count).rev().map(|back| end.checked_sub(back).and_then(at)).collect();
        Some(LinkView { rates, sample_seconds, ended_seconds_ago: now.as_secs().saturating_sub(end * span) })
    }

    /// Bytes that went over a link in one second of the last minute.
    pub(crate) fn rate(&self, from: &str, to: &str, second: u64) -> Option<f64> {
        let [bytes, ..] = self.get(from, to)?.rings.ring(0).get(second)?;
        Some(bytes)
    }

    fn get(&self, from: &str, to: &str) -> Option<&LinkHistory> {
        self.by_sites.get(from)?.get(to)
    }

    fn of(&mut self, from: &str, to: &str, now: Duration) -> &mut LinkHistory {
        if self.get(from, to).is_none() {
            self.make_room(now.as_secs());
        }
        self.by_sites.entry(from.to_owned()).or_default().entry(to.to_owned()).or_default()
    }

    /// Makes room for one more: forgets what was quiet for a day, or else what was quiet for the longest time.
    fn make_room(&mut self, now: u64) {
        let kept_seconds = LOAD_RESOLUTIONS.last().map_or(0, |coarsest| coarsest.reach().as_secs());
        let seconds = || self.by_sites.values().flat_map(|of| of.values().map(|link| link.newest));
        let oldest = if seconds().count() < LINKS_MAX { 0 } else { seconds().min().unwrap_or(0) + 1 };
        let from = oldest.max(now.saturating_sub(kept_seconds));
        for of in self.by_sites.values_mut() {
            of.retain(|_, link| link.newest >= from);
        }
        self.by_sites.retain(|_, of| !of.is_empty());
    }
}

impl LinkHistory {
    /// Adds what went over it in the second that ended then, which is parts of two of our seconds.
    fn add(&mut self, ended: Duration, values: Values) {
        let (second, part) = (ended.as_secs(), f64::from(ended.subsec_millis()) / 1_000.0);
        self.rings.add_sum(second.saturating_sub(1), values.map(|value| value * (1.0 - part)));
        self.rings.add_sum(second, values.map(|value| value * part));
        self.newest = self.newest.max(second);
    }

    /// A span of the ring that reaches so far; nothing has gone over the link since its newest.
    fn get(&self, seconds_ago: u32, number: u64) -> Option<Values> {
        let ring = self.rings.ring(seconds_ago);
        if ring.newest().is_some_and(|newest| number > newest) { Some([0.0; VALUES]) } else { ring.get(number) }
    }

    /// The mean of those spans that are known.
    fn mean(&self, seconds_ago: u32, numbers: RangeInclusive<u64>) -> Option<Values> {
        let (mut sums, mut count) = ([0.0; VALUES], 0.0);
        for values in numbers.filter_map(|number| self.get(seconds_ago, number)) {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            count += 1.0;
        }
        (count > 0.0).then(|| sums.map(|sum| sum / count))
    }
}

impl LinkProgress {
    /// The seconds of a report that were not counted yet, each with how long ago it ended.
    fn take(&mut self, mut report: LinkReport) -> impl Iterator<Item = (Duration, LinkSecond)> {
        let next = if mem::replace(&mut self.run, report.run) == report.run { self.next } else { 0 };
        self.next = report.number.saturating_add(1);
        let skipped = report.seconds.len().saturating_sub(SAMPLES_MAX);
        report.seconds.drain(..skipped);
        report.seconds.into_iter().filter(move |second| second.number >= next).filter_map(move |second| {
            let age = report.number.checked_sub(second.number).filter(|age| *age <= SAMPLES_MAX as u64)?;
            Some((Duration::from_secs(age), second))
        })
    }
}

fn sent_values(sample: &LinkSample) -> Values {
    let &LinkSample { sent_bytes, retransmitted_bytes, sent_packets, lost_packets, round_trip_micros, .. } = sample;
    let packets = sent_packets as f64;
    [sent_bytes as f64, retransmitted_bytes as f64, packets, lost_packets as f64, round_trip_micros as f64 * packets]
}

/// The rates of a link. Its round trip is that of the other direction, where no packet went this way.
fn rates(there: Values, back: Option<Values>) -> LinkRates {
    let round_trip = |[_, _, packets, _, round_trips]: Values| (packets > 0.0).then(|| round_trips / packets);
    let [sent_bytes, retransmitted_bytes, packets, lost, _] = there;
    let loss = (packets > 0.0).then(|| (lost / packets * 1e6).round().min(1e6) as u32);
    LinkRates {
        sent_bytes_per_second: sent_bytes.round() as u64,
        retransmitted_bytes_per_second: retransmitted_bytes.round() as u64,
        loss_millionths: loss,
        round_trip_micros: round_trip(there).or(back.and_then(round_trip)).map(|micros| micros.round() as u64),
    }
}

/// Most links, each direction by itself: 32 sites, each with each. At 23 kB they take 24 MB.
const LINKS_MAX: usize = 1_024;
/// From here on every node has reported a second: it may be a second late, and its seconds begin between ours.
const COMPLETE_AFTER_SECONDS: u64 = 2;
/// A moment of the last minute is the mean of so many seconds: senders pause and nodes are late.
const MEAN_SECONDS: u32 = 5;

#[cfg(test)]
mod tests;
