//! `sector oct terasort`: the arguments and the output. The jobs are in the crate `terasort`; this file never makes or
//! sorts a record.

use client::{Client, SectorPath};
use serde::Serialize;
use terasort::RECORD_BYTES;
use terminal::{Failure, Global, show};

use crate::arguments::Terasort;

/// `sector oct terasort`.
pub(crate) async fn run(cloud: &Client, command: Terasort, global: &Global) -> Result<(), Failure> {
    match command {
        Terasort::Gen { records, files, seed, folder } => {
            let folder = SectorPath::parse(&folder)?;
            terasort::generate(cloud, records, files, seed, &folder, global).await?;
            report(global, || format!("{records} records, {} in {folder}", show::size(records * RECORD_BYTES as u64)))
        }
        Terasort::Sort { input, output, buckets } => {
            let output = SectorPath::parse(&output)?;
            let outcome = terasort::sort(cloud, &input, &output, buckets, global).await?;
            report(global, || format!("sorted into {} files in {output}", outcome.outputs.len()))
        }
        Terasort::Validate { folder } => {
            let check = terasort::validate(cloud, &folder, global).await?;
            let view = CheckView {
                records: check.records,
                checksum: format!("{:016x}", check.checksum),
                sorted: check.sorted,
            };
            if global.json {
                return show::json(&view);
            }
            let order = check.unsorted_at.map_or("sorted".to_owned(), |place| format!("not sorted: {place}"));
            show::line(format!("{} records, checksum {}, {order}", view.records, view.checksum));
            Ok(())
        }
    }
}

fn report(global: &Global, line: impl FnOnce() -> String) -> Result<(), Failure> {
    if !global.quiet && !global.json {
        show::line(line());
    }
    Ok(())
}

/// `validate` as JSON (contract).
#[derive(Serialize)]
struct CheckView {
    records: u64,
    checksum: String,
    sorted: bool,
}
