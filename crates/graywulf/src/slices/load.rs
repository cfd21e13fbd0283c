//! Loads rows into a table: sorted by its layout, cut into slices, and then all named at once by a new description. A
//! query sees the table as it was before, or all of it. It never leaves half of a load in a table.

use std::{sync::Arc, time::Duration};

use client::{Client, LeaseWait, Reason};
use datafusion::error::DataFusionError;
use futures_util::StreamExt;
use terminal::Failure;

use super::{
    SourceFile,
    slice_writer::{SliceWriter, Uncommitted},
};
use crate::{engine::Engine, tables::TableFolder};

/// How a load is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadSettings {
    /// About how long a slice becomes.
    pub(crate) slice_bytes: u64,
    /// The rows take the place of those that are there.
    pub(crate) replace: bool,
}

/// What a load has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) slices: usize,
}

/// Loads all sources.
///
/// # Errors
/// A source that cannot be read, rows that do not fit the table, or a table that others change all the time. Then the
/// table is as it was.
pub(crate) async fn load(
    cloud: &Client,
    engine: &Engine,
    table: &mut TableFolder,
    sources: &[SourceFile],
    settings: LoadSettings,
    uncommitted: &Uncommitted,
) -> Result<Loaded, Failure> {
    let schema = table.description.schema();
    let mut rows = None;
    for source in sources {
        let more = source.rows(engine, &schema).await?;
        rows = Some(match rows {
            None => more,
            Some(before) => {
                datafusion::prelude::DataFrame::union(before, more).map_err(|error| engine.failure_of(&error))?
            }
        });
    }
    let Some(mut rows) = rows else { return Err(Failure::usage("there is nothing to load")) };
    let sort_by = table.description.layout.sort_by();
    if !sort_by.is_empty() {
        let sort_by = sort_by.into_iter().map(|expression| expression.sort(true, false)).collect();
        rows = rows.sort(sort_by).map_err(|error| engine.failure_of(&error))?;
    }

    let mut writer = SliceWriter::new(cloud, table, settings.slice_bytes, load_name(), uncommitted);
    let mut stream = rows.execute_stream().await.map_err(|error| engine.failure_of(&error))?;
    let mut count = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| unreadable(engine, &error, sources))?;
        writer.write(&batch).await?;
        count += batch.num_rows() as u64;
    }
    let slices = writer.finish().await?;
    let loaded = Loaded { rows: count, bytes: slices.iter().map(|slice| slice.bytes).sum(), slices: slices.len() };

    // One of several loads is named at a time: the others wait for it, and come after it.
    let patient = cloud.waiting(LeaseWait { longest: Some(OTHERS_LOAD_MAX), told: Arc::new(|_| ()) });
    for _ in 0..COMMITS_TRIED {
        let mut description = table.description.clone();
        let replaced = if settings.replace { std::mem::take(&mut description.slices) } else { Vec::new() };
        description.slices.extend(slices.iter().cloned());
        match table.replace(&patient, description).await {
            Ok(()) => {
                uncommitted.commit();
                for slice in replaced {
                    let path = table.slice_path(&slice.file)?;
                    if let Err(error) = cloud.remove(&path, false).await {
                        tracing::warn!(%path, %error, "a replaced slice stays");
                    }
                }
                return Ok(loaded);
            }
            // Someone else has loaded meanwhile: these rows come after theirs.
            Err(failure) if is_conflict(failure.reason) => {
                let now = TableFolder::open(cloud, &table.path).await?;
                if now.description.columns != table.description.columns
                    || now.description.layout != table.description.layout
                {
                    let message = format!("`{}` got other columns while this load ran; nothing was loaded", table.path);
                    return Err(Failure::new(failure.reason, message));
                }
                *table = now;
            }
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::new(Reason::Busy, format!("others change `{}` all the time; nothing was loaded", table.path)))
}

/// An error while rows are read, with the file where that is certain.
fn unreadable(engine: &Engine, error: &DataFusionError, sources: &[SourceFile]) -> Failure {
    let failure = engine.failure_of(error);
    match sources {
        [source] => Failure::new(failure.reason, format!("{}: {}", source.shown(), failure.message)),
        _ => failure,
    }
}

fn is_conflict(reason: Reason) -> bool {
    matches!(reason, Reason::VersionChanged { .. } | Reason::LeaseHeld { .. } | Reason::Busy)
}

/// The beginning of the names of a load's slices: no other load has it.
fn load_name() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    format!("{millis:012x}-{:08x}", fastrand::u32(..))
}

/// How often a load is named anew when others load too.
const COMMITS_TRIED: usize = 200;
/// How long it waits each time for another one to be named, which takes a moment.
const OTHERS_LOAD_MAX: Duration = Duration::from_secs(60);
