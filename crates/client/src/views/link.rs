//! Links between sites as JSON, in whole units: seconds, bytes, a share of one. It never judges a value.

use serde_json::{Value, json};

use super::rfc3339;
use crate::{LinkPage, LinkRates, LinkSeries, MeasuredLink};

/// All links at one moment.
pub fn links_page(page: &LinkPage) -> Value {
    page.links.iter().map(link_json).collect()
}

/// One link over time.
pub fn link_series(series: &LinkSeries) -> Value {
    json!({
        "time": rfc3339(series.unix_millis),
        "sample_seconds": series.sample_seconds,
        "limit_bytes_per_second": series.limit_bytes_per_second,
        "samples": series.samples.iter().map(|rates| rates.as_ref().map(rates_json)).collect::<Vec<_>>(),
    })
}

fn link_json(link: &MeasuredLink) -> Value {
    let mut value = rates_json(&link.rates.unwrap_or_default());
    if link.rates.is_none() {
        RATES.into_iter().for_each(|name| value[name] = Value::Null);
    }
    value["from"] = json!(link.from);
    value["to"] = json!(link.to);
    value["limit_bytes_per_second"] = json!(link.limit_bytes_per_second);
    value
}

/// In whole units: seconds, bytes, a share of one.
fn rates_json(rates: &LinkRates) -> Value {
    let [round_trip, sent, loss, retransmitted] = RATES;
    json!({
        round_trip: rates.round_trip_micros.map(|micros| micros as f64 / 1_000_000.0),
        sent: rates.sent_bytes_per_second,
        loss: rates.loss_millionths.map(|millionths| f64::from(millionths) / 1_000_000.0),
        retransmitted: rates.retransmitted_bytes_per_second,
    })
}

const RATES: [&str; 4] = ["round_trip_seconds", "sent_bytes_per_second", "loss", "retransmitted_bytes_per_second"];

#[cfg(test)]
mod tests {
    use super::*;

    fn link(rates: Option<LinkRates>) -> MeasuredLink {
        MeasuredLink { from: "uic".into(), to: "jhu".into(), rates, limit_bytes_per_second: None }
    }

    #[test]
    fn json_has_every_number_in_whole_units_or_null() {
        let rates = LinkRates { loss_millionths: Some(500_000), round_trip_micros: Some(1), ..LinkRates::default() };
        let value = link_json(&link(Some(rates)));
        assert_eq!((&value["loss"], &value["round_trip_seconds"]), (&json!(0.5), &json!(0.000_001)));
        assert_eq!((&value["sent_bytes_per_second"], &value["limit_bytes_per_second"]), (&json!(0), &Value::Null));
        let unknown = link_json(&link(None));
        assert_eq!((&unknown["from"], &unknown["to"]), (&json!("uic"), &json!("jhu")));
        assert!(RATES.into_iter().all(|name| unknown[name].is_null()), "{unknown}");
        assert_eq!(unknown.as_object().map(|object| object.len()), Some(7));
    }
}
