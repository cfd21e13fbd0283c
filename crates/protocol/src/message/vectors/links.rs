//! Vectors of measured links: the requests, a report, a page, a series. They never leave out a field.

use crate::message::{
    links::{LinkPage, LinkRates, LinkReport, LinkSample, LinkSecond, LinkSeries, MeasuredLink},
    request::{LinkSeriesRequest, LinksRequest},
};

pub(super) fn asked() -> LinksRequest {
    LinksRequest { seconds_ago: 300, after: Some(("uic".into(), "jhu".into())) }
}

pub(super) fn series_asked() -> LinkSeriesRequest {
    LinkSeriesRequest { from: "uic".into(), to: "jhu".into(), seconds: 3_600 }
}

pub(super) fn report() -> LinkReport {
    let link = LinkSample {
        site: "jhu".into(),
        sent_bytes: 1 << 30,
        received_bytes: 1 << 20,
        sent_packets: 750_000,
        lost_packets: 75,
        retransmitted_bytes: 108_000,
        round_trip_micros: 16_250,
    };
    LinkReport { run: 1 << 40, number: 3_600, seconds: vec![LinkSecond { number: 3_599, links: vec![link] }] }
}

fn rates() -> LinkRates {
    LinkRates {
        sent_bytes_per_second: 1 << 30,
        retransmitted_bytes_per_second: 108_000,
        loss_millionths: Some(100),
        round_trip_micros: Some(16_250),
    }
}

pub(super) fn page() -> LinkPage {
    let link = MeasuredLink {
        from: "uic".into(),
        to: "jhu".into(),
        rates: Some(rates()),
        limit_bytes_per_second: Some(1_250_000_000),
    };
    LinkPage {
        unix_millis: 1_800_000_000_000,
        sample_seconds: 10,
        links: vec![link],
        next: Some(("uic".into(), "jhu".into())),
    }
}

pub(super) fn series() -> LinkSeries {
    LinkSeries {
        unix_millis: 1_800_000_000_000,
        sample_seconds: 120,
        samples: vec![None, Some(LinkRates::default()), Some(rates())],
        limit_bytes_per_second: None,
    }
}
