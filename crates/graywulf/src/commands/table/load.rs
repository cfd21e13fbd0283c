//! `sector table load`: files become slices of a table, all at once. What was written of a load that fails or is
//! cancelled goes. It never changes a table by half.

use std::time::Instant;

use client::{Client, SectorPath};
use terminal::{Failure, Global, interrupted, show};

use super::sources;
use crate::{
    arguments::Load,
    engine::Engine,
    slices::{LoadSettings, Uncommitted, load},
    tables::TableFolder,
};

/// `sector table load`.
pub(super) async fn run(cloud: &Client, arguments: &Load, global: &Global) -> Result<(), Failure> {
    let path = SectorPath::parse(&arguments.table)?;
    let slice_bytes = arguments.slice_size.as_u64();
    if slice_bytes < SLICE_BYTES_MIN {
        return Err(Failure::usage(format!("--slice-size: {} at least", show::size(SLICE_BYTES_MIN))));
    }
    let Some(mut table) = TableFolder::find(cloud, &path).await? else {
        let first = arguments.files.first().map_or("FILE", String::as_str);
        let failure = crate::tables::not_a_table(&path);
        let message = format!("{}; make it with `sector table create {path} --like {first}`", failure.message);
        return Err(Failure::new(failure.reason, message).about(&path));
    };
    let files = sources::expand(cloud, &arguments.files).await?;
    let engine = Engine::new(cloud, &arguments.room.settings(SectorPath::root())?)?;
    let settings = LoadSettings { slice_bytes, replace: arguments.replace };
    let (uncommitted, begun) = (Uncommitted::default(), Instant::now());
    let loaded = tokio::select! {
        loaded = load(cloud, &engine, &mut table, &files, settings, &uncommitted) => loaded,
        interruption = interrupted() => {
            Err(interruption.failure(format!("the load was cancelled; `{path}` is as it was")))
        }
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => {
            uncommitted.remove(cloud).await;
            return Err(failure);
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    if global.json {
        let document = serde_json::json!({
            "table": path.to_string(),
            "rows": loaded.rows,
            "slices": loaded.slices,
            "bytes": loaded.bytes,
            "seconds": seconds,
            "table_rows": table.description.rows(),
        });
        return show::json(&document);
    }
    if !global.quiet {
        let slices = show::count(loaded.slices, "slice");
        let (rows, size) = (loaded.rows, show::size(loaded.bytes));
        let total = table.description.rows();
        show::line(format!("loaded {rows} rows into {slices} ({size}) in {seconds:.1} s; {path} has {total} now"));
    }
    Ok(())
}

/// Shorter slices cost more to find than to read.
const SLICE_BYTES_MIN: u64 = 100_000;
