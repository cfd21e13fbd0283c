//! `load`: how busy the nodes are or were, as a table, or one node over time. It never judges what it shows.

use client::{Client, LoadMetric, LoadSample, LoadUnit, NodeLoad, views};
use protocol::NodeId;
use terminal::{failure::Failure, show};

use super::curves::{CURVE_HEAD, curve_row};
use crate::arguments::{Global, Load};

/// `sector load`.
pub(crate) async fn run(cloud: &Client, asked: Load, global: &Global) -> Result<(), Failure> {
    match asked.node {
        Some(node) => of_node(cloud, node, asked.last.unwrap_or(LAST_SECONDS), global).await,
        None => of_all(cloud, asked.ago.unwrap_or(0), global).await,
    }
}

async fn of_all(cloud: &Client, seconds_ago: u32, global: &Global) -> Result<(), Failure> {
    let page = cloud.load(seconds_ago).await?;
    if global.json {
        return show::json(&views::load_page(&page));
    }
    let cells = |load: &NodeLoad| {
        let place = format!("{}/{}", load.place.site, load.place.rack);
        let values = COLUMNS.map(|(_, metric)| load.sample.map_or_else(|| "-".into(), |it| shown(&it, metric)));
        [vec![load.node.to_string(), place], values.to_vec()].concat()
    };
    let head: Vec<_> = ["node", "place"].into_iter().chain(COLUMNS.map(|(name, _)| name)).collect();
    show::table(&head, &page.nodes.iter().map(cells).collect::<Vec<_>>());
    Ok(())
}

async fn of_node(cloud: &Client, node: NodeId, seconds: u32, global: &Global) -> Result<(), Failure> {
    let series = cloud.load_series(node, seconds).await?;
    if global.json {
        return show::json(&views::load_series(&series));
    }
    let rows = LoadMetric::ALL.map(|metric| {
        let values: Vec<_> = series.samples.iter().map(|sample| sample.map(|it| it.get(metric))).collect();
        curve_row(metric.as_str(), &values, |value| in_unit(metric.unit(), value))
    });
    show::table(&CURVE_HEAD, &rows);
    Ok(())
}

fn shown(sample: &LoadSample, metric: LoadMetric) -> String {
    in_unit(metric.unit(), sample.get(metric))
}

/// A value for people.
pub(super) fn in_unit(unit: LoadUnit, value: u64) -> String {
    match unit {
        LoadUnit::Thousandths => format!("{:.0} %", value as f64 / 10.0),
        LoadUnit::Hundredths => format!("{:.1}", value as f64 / 100.0),
        LoadUnit::Microseconds => format!("{:.1} ms", value as f64 / 1_000.0),
        LoadUnit::Bytes => show::size(value),
        LoadUnit::BytesPerSecond => format!("{}/s", show::size(value)),
        LoadUnit::Count => value.to_string(),
    }
}

/// What the table of all nodes shows.
const COLUMNS: [(&str, LoadMetric); 10] = [
    (" processor", LoadMetric::Processor),
    (" memory", LoadMetric::Memory),
    (" disk busy", LoadMetric::DiskBusy),
    (" latency", LoadMetric::DiskLatency),
    (" read", LoadMetric::DiskRead),
    (" written", LoadMetric::DiskWritten),
    (" received", LoadMetric::NetworkReceived),
    (" sent", LoadMetric::NetworkSent),
    (" SPEs", LoadMetric::Spes),
    (" transfers", LoadMetric::Transfers),
];
/// How far back a node is shown by default: what is kept by the second.
const LAST_SECONDS: u32 = 60;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_are_shown_in_the_units_of_people() {
        assert_eq!(in_unit(LoadUnit::Thousandths, 375), "38 %");
        assert_eq!(in_unit(LoadUnit::Microseconds, 350), "0.3 ms");
        assert_eq!(in_unit(LoadUnit::Hundredths, 275), "2.8");
        assert_eq!(in_unit(LoadUnit::Count, 3), "3");
        assert!(in_unit(LoadUnit::BytesPerSecond, 1 << 20).ends_with("/s"));
    }
}
