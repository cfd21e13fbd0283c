//! `load`: how busy the nodes are or were, as a table, or one node over time. It never judges what it shows.

use client::{Client, LoadMetric, LoadSample, LoadUnit, NodeLoad, views};
use protocol::NodeId;
use terminal::{failure::Failure, show};

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
        let known: Vec<_> = values.iter().flatten().copied().collect();
        let text = |value: Option<u64>| value.map_or_else(|| "-".into(), |value| in_unit(metric.unit(), value));
        let mean = known.iter().sum::<u64>().checked_div(known.len() as u64);
        let (newest, most) = (values.last().copied().flatten(), known.iter().max().copied());
        vec![metric.as_str().into(), text(newest), text(mean), text(most), curve(&values, CURVE_CHARACTERS)]
    });
    show::table(&["metric", " now", " mean", " most", "over time"], &rows);
    Ok(())
}

/// The values as a curve of so many characters at most; several that share a character show the largest.
pub(super) fn curve(values: &[Option<u64>], characters: usize) -> String {
    let most = values.iter().flatten().max().copied().unwrap_or(0).max(1);
    let share = values.len().div_ceil(characters.max(1)).max(1);
    let character = |values: &[Option<u64>]| match values.iter().flatten().max() {
        None => ' ',
        Some(value) => {
            let step = (*value as f64 / most as f64 * (STEPS.len() - 1) as f64).round() as usize;
            STEPS[step.min(STEPS.len() - 1)]
        }
    };
    values.chunks(share).map(character).collect()
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
/// From nothing to the most.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Fits a terminal of 100 columns beside the numbers.
const CURVE_CHARACTERS: usize = 60;
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

    #[test]
    fn a_curve_keeps_its_peaks_and_its_gaps() {
        assert_eq!(curve(&[Some(0), Some(7), None, Some(14)], CURVE_CHARACTERS), "▁▅ █");
        assert_eq!(curve(&[], CURVE_CHARACTERS), "");
        let mut long = vec![Some(0); 1_000];
        long[500] = Some(9);
        let curve = curve(&long, CURVE_CHARACTERS);
        assert!(curve.chars().count() <= CURVE_CHARACTERS);
        assert_eq!(curve.chars().filter(|it| *it == '█').count(), 1);
    }
}
