//! `sector sql`: one statement, whose rows are shown or written while they come. It never changes anything in the cloud.

use std::{io::Read, sync::Arc};

use client::{Client, Distance, Reason, SectorPath};
use datafusion::{dataframe::DataFrame, logical_expr::LogicalPlan};
use futures_util::StreamExt;
use serde::Serialize;
use terminal::{Failure, Global, interrupted, say, show};

use crate::{
    arguments::{Output, Sql},
    crossmatch::CrossMatchFunction,
    engine::{Engine, EngineSettings},
    output::{OutputFile, ResultFormat, ResultWriter, TextRows},
    storage::SliceReads,
};

/// `sector sql`.
pub(super) async fn run(cloud: &Client, arguments: &Sql, global: &Global) -> Result<(), Failure> {
    let statement = statement(arguments)?;
    let settings = arguments.room.settings(SectorPath::parse(&arguments.folder)?)?;
    answer_to(cloud, &settings, &statement, &arguments.output, global).await
}

/// Runs a statement, until Ctrl-C.
pub(super) async fn answer_to(
    cloud: &Client,
    settings: &EngineSettings,
    statement: &str,
    output: &Output,
    global: &Global,
) -> Result<(), Failure> {
    let format = format(output, global)?;
    tokio::select! {
        result = query(cloud, settings, statement, output, format) => result,
        interruption = interrupted() => Err(interruption.failure("the query was cancelled")),
    }
}

/// Runs a statement, and once more where [`may_begin_anew`] says so.
async fn query(
    cloud: &Client,
    settings: &EngineSettings,
    statement: &str,
    output: &Output,
    format: ResultFormat,
) -> Result<(), Failure> {
    let first = run_once(cloud, settings, statement, output, format).await;
    let last = match first {
        Err((failure, was_seen)) if may_begin_anew(&failure, was_seen) => {
            tracing::debug!(%failure, "what the query reads is not there, it begins anew");
            run_once(cloud, settings, statement, output, format).await
        }
        other => other,
    };
    last.map_err(|(failure, _)| failure)
}

/// Whether a query that failed may be right the next time. A table that was replaced while it was read has lost slices, and
/// others are there now. Rows that were given out cannot be taken back.
fn may_begin_anew(failure: &Failure, was_seen: bool) -> bool {
    failure.reason == Reason::NotFound && !was_seen
}

/// Runs a statement; an error says whether rows were given out before.
async fn run_once(
    cloud: &Client,
    settings: &EngineSettings,
    statement: &str,
    output: &Output,
    format: ResultFormat,
) -> Result<(), (Failure, bool)> {
    let unseen = |failure| (failure, false);
    let engine = Engine::new(cloud, settings).map_err(unseen)?;
    let function = CrossMatchFunction::new(engine.names().clone());
    engine.context().register_udtf("xmatch", Arc::new(function));
    let planned = engine.plan(statement).await.map_err(unseen)?;
    answer(&engine, planned, output, format).await
}

/// Gives out the rows of a query; an error says whether some were given out before.
async fn answer(
    engine: &Engine,
    planned: DataFrame,
    wanted: &Output,
    format: ResultFormat,
) -> Result<(), (Failure, bool)> {
    let is_analysis = matches!(planned.logical_plan(), LogicalPlan::Analyze(_));
    let unseen = |failure| (failure, false);
    let mut rows = planned.execute_stream().await.map_err(|error| unseen(engine.failure_of(&error)))?;
    let schema = rows.schema();
    if format == ResultFormat::Table {
        let mut shown = TextRows::new(&schema, wanted.rows);
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(|error| unseen(engine.failure_of(&error)))?;
            let wants_more = shown.add(&batch).map_err(|error| unseen(Failure::failed(error.to_string())))?;
            if !wants_more {
                break;
            }
        }
        drop(rows);
        if let Some(count) = shown.print() {
            say!("the first {count} rows; --rows shows more, --to FILE and --format csv write all");
        }
        if is_analysis {
            show_reads(engine);
        }
        return Ok(());
    }
    // Waits for the first rows: until then it may begin anew.
    let mut next = rows.next().await.transpose().map_err(|error| unseen(engine.failure_of(&error)))?;
    let is_file = wanted.to.as_deref().is_some_and(|path| path != std::path::Path::new("-"));
    let seen = |failure| (failure, !is_file);
    let output = OutputFile::create(wanted.to.as_deref()).map_err(seen)?;
    let mut writer = ResultWriter::new(format, output, &schema).map_err(seen)?;
    while let Some(batch) = next {
        writer.write(&batch).map_err(seen)?;
        next = rows.next().await.transpose().map_err(|error| seen(engine.failure_of(&error)))?;
    }
    writer.finish().map_err(seen)
}

/// What the statement is.
fn statement(arguments: &Sql) -> Result<String, Failure> {
    let unreadable = |what: &str, error: std::io::Error| Failure::local("read", std::path::Path::new(what), &error);
    let text = match (&arguments.statement, &arguments.file) {
        (_, Some(file)) => std::fs::read_to_string(file).map_err(|error| unreadable(&file.to_string_lossy(), error))?,
        (Some(dash), None) if dash == "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| unreadable("standard input", error))?;
            text
        }
        (statement, None) => statement.clone().unwrap_or_default(),
    };
    if text.trim().is_empty() { Err(Failure::usage("the statement is empty")) } else { Ok(text) }
}

/// How the result is written.
fn format(arguments: &Output, global: &Global) -> Result<ResultFormat, Failure> {
    let file = arguments.to.as_deref().filter(|path| *path != std::path::Path::new("-"));
    match (arguments.format, file) {
        (Some(ResultFormat::Table), Some(_)) => Err(Failure::usage("a file is written as csv, not as table")),
        (Some(_), _) if global.json && arguments.format != Some(ResultFormat::Json) && file.is_none() => {
            Err(Failure::usage("--json prints one JSON document: leave out --format"))
        }
        (Some(format), _) => Ok(format),
        (None, Some(file)) => ResultFormat::of_file(file).ok_or_else(|| {
            let message = format!("`{}` does not say a format: add --format", file.display());
            Failure::usage(message)
        }),
        (None, None) if global.json => Ok(ResultFormat::Json),
        (None, None) => Ok(ResultFormat::Table),
    }
}

/// What was read of a slice, for people.
#[derive(Clone, Debug, Serialize)]
struct ReadRow {
    path: String,
    level: &'static str,
    reads: u64,
    bytes: u64,
    millis: u64,
}

/// What `EXPLAIN ANALYZE` adds: how near each slice was, and what was read of it.
fn show_reads(engine: &Engine) {
    let row = |(path, reads): (SectorPath, SliceReads)| ReadRow {
        path: path.to_string(),
        level: level(reads.distance),
        reads: reads.reads,
        bytes: reads.bytes,
        millis: reads.waited.as_millis() as u64,
    };
    let rows: Vec<_> = engine.reads().files().into_iter().map(row).collect();
    show::line("");
    let cells = |row: &ReadRow| {
        vec![
            row.path.clone(),
            row.level.to_owned(),
            row.reads.to_string(),
            show::size(row.bytes),
            row.millis.to_string(),
        ]
    };
    show::table(&["file", "copy at", " reads", " bytes", " ms waited"], &rows.iter().map(cells).collect::<Vec<_>>());
}

fn level(distance: Option<Distance>) -> &'static str {
    match distance {
        Some(Distance::SameNode) => "this machine",
        Some(Distance::SameRack) => "this rack",
        Some(Distance::SameSite) => "this site",
        Some(Distance::OtherSite) => "another site",
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_begins_anew_where_a_slice_is_gone_and_nothing_was_seen() {
        let failed = |reason| Failure::new(reason, "it failed");
        assert!(may_begin_anew(&failed(Reason::NotFound), false));
        assert!(!may_begin_anew(&failed(Reason::NotFound), true));
        assert!(!may_begin_anew(&failed(Reason::Failed), false));
    }
}
