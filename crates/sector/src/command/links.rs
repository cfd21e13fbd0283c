//! `links`: what goes over the links between sites, or went, as a table, or one link over time. It never judges what it
//! shows.

use client::{Client, LinkRates, MeasuredLink, views};
use terminal::{failure::Failure, show};

use super::curves::{CURVE_HEAD, curve_row};
use crate::arguments::{Global, Links};

/// `sector links`.
pub(crate) async fn run(cloud: &Client, asked: Links, global: &Global) -> Result<(), Failure> {
    match (asked.from, asked.to) {
        (Some(from), Some(to)) => one(cloud, (&from, &to), asked.last.unwrap_or(LAST_SECONDS), global).await,
        _ => all(cloud, asked.ago.unwrap_or(0), global).await,
    }
}

async fn all(cloud: &Client, seconds_ago: u32, global: &Global) -> Result<(), Failure> {
    let page = cloud.links(seconds_ago).await?;
    if global.json {
        return show::json(&views::links_page(&page));
    }
    show::table(&HEAD, &page.links.iter().map(measured_cells).collect::<Vec<_>>());
    Ok(())
}

async fn one(cloud: &Client, (from, to): (&str, &str), seconds: u32, global: &Global) -> Result<(), Failure> {
    let series = cloud.link_series(from, to, seconds).await?;
    if global.json {
        return show::json(&views::link_series(&series));
    }
    let row = |name, value: fn(LinkRates) -> Option<u64>, in_unit: fn(u64) -> String| {
        let values: Vec<_> = series.samples.iter().map(|rates| rates.and_then(value)).collect();
        curve_row(name, &values, in_unit)
    };
    let rows = [
        row("sent", |it| Some(it.sent_bytes_per_second), rate),
        row("retransmitted", |it| Some(it.retransmitted_bytes_per_second), rate),
        row("loss", |it| it.loss_millionths.map(u64::from), loss),
        row("round-trip", |it| it.round_trip_micros, round_trip),
    ];
    show::table(&CURVE_HEAD, &rows);
    Ok(())
}

/// A link's sites, round trip, rate, loss, what is sent again, and limit.
pub(super) fn measured_cells(link: &MeasuredLink) -> Vec<String> {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "-".into());
    let rates = link.rates;
    vec![
        link.from.clone(),
        link.to.clone(),
        shown(rates.and_then(|it| it.round_trip_micros).map(round_trip)),
        shown(rates.map(|it| rate(it.sent_bytes_per_second))),
        shown(rates.and_then(|it| it.loss_millionths).map(|it| loss(it.into()))),
        shown(rates.map(|it| rate(it.retransmitted_bytes_per_second))),
        shown(link.limit_bytes_per_second.map(rate)),
    ]
}

fn rate(bytes_per_second: u64) -> String {
    format!("{}/s", show::size(bytes_per_second))
}

fn loss(millionths: u64) -> String {
    format!("{:.2} %", millionths as f64 / 10_000.0)
}

fn round_trip(micros: u64) -> String {
    format!("{:.1} ms", micros as f64 / 1_000.0)
}

const HEAD: [&str; 7] = ["from", "to", " round trip", " rate", " loss", " retransmitted", " limit"];
/// How far back a link is shown by default: what is kept by the second.
const LAST_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn link(rates: Option<LinkRates>) -> MeasuredLink {
        MeasuredLink { from: "uic".into(), to: "jhu".into(), rates, limit_bytes_per_second: None }
    }

    #[test]
    fn a_link_is_shown_in_the_units_of_people_and_what_is_not_known_as_a_dash() {
        let rates = LinkRates {
            sent_bytes_per_second: 1_500_000,
            retransmitted_bytes_per_second: 0,
            loss_millionths: Some(1_260),
            round_trip_micros: Some(16_240),
        };
        let shown = measured_cells(&MeasuredLink { limit_bytes_per_second: Some(2_000_000), ..link(Some(rates)) });
        assert_eq!((shown[2].as_str(), shown[4].as_str()), ("16.2 ms", "0.13 %"));
        assert!(shown[3].ends_with("/s") && shown[5].ends_with("/s") && shown[6].ends_with("/s"), "{shown:?}");
        assert_eq!(measured_cells(&link(None)), ["uic", "jhu", "-", "-", "-", "-", "-"]);
        let quiet = measured_cells(&link(Some(LinkRates::default())));
        assert_eq!((quiet[2].as_str(), quiet[4].as_str()), ("-", "-"));
    }
}
