//! `metrics`: what one role counts, as Prometheus reads it. It never keeps or adds up values.

use client::{Client, MetricsSource};
use serde_json::json;
use terminal::{failure::Failure, show};

use crate::arguments::{Global, Metrics};

/// `sector metrics`.
pub(crate) async fn run(cloud: &Client, asked: &Metrics, global: &Global) -> Result<(), Failure> {
    let of: MetricsSource =
        asked.of.parse().map_err(|error| Failure::usage(format!("no role or node {}: {error}", asked.of)))?;
    let text = cloud.metrics(of).await?;
    if global.json {
        return show::json(&json!({ "of": asked.of, "text": text }));
    }
    text.lines().for_each(show::line);
    Ok(())
}
