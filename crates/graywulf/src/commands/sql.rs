//! `sector sql`: one statement, whose rows are shown or written while they come. It never changes anything in the cloud.

use std::{io::Read, sync::Arc};

use client::{Client, Reason, SectorPath};
use datafusion::{dataframe::DataFrame, logical_expr::LogicalPlan};
use futures_util::StreamExt;
use terminal::{Failure, Global, interrupted, say, show};

use crate::{
    arguments::{Output, Sql},
    crossmatch::CrossMatchFunction,
    engine::{Engine, EngineSettings},
    output::{OutputFile, ResultFormat, ResultWriter, TextRows},
    workers::{MissingWorker, QueryAtWorkers, WorkerReads, Workers},
};

/// `sector sql`.
pub(super) async fn run(cloud: &Client, arguments: &Sql, global: &Global) -> Result<(), Failure> {
    let statement = statement(arguments)?;
    let settings = arguments.room.settings(SectorPath::parse(&arguments.folder)?)?;
    let asked = Asked { settings, statement, output: &arguments.output, workers: arguments.workers.workers()? };
    answer_to(cloud, &asked, global).await
}

/// A statement, and how it is answered.
pub(super) struct Asked<'a> {
    pub(super) settings: EngineSettings,
    pub(super) statement: String,
    pub(super) output: &'a Output,
    pub(super) workers: Option<Workers>,
}

/// Runs a statement, until Ctrl-C.
pub(super) async fn answer_to(cloud: &Client, asked: &Asked<'_>, global: &Global) -> Result<(), Failure> {
    let format = format(asked.output, global)?;
    tokio::select! {
        result = query(cloud, asked, format, global.quiet) => result,
        interruption = interrupted() => Err(interruption.failure("the query was cancelled")),
    }
}

/// Runs a statement, and once more where [`may_begin_anew`] says so.
async fn query(cloud: &Client, asked: &Asked<'_>, format: ResultFormat, is_quiet: bool) -> Result<(), Failure> {
    let first = run_once(cloud, asked, format, is_quiet).await;
    let last = match first {
        Err((failure, was_seen)) if may_begin_anew(&failure, was_seen, asked.workers.is_some()) => {
            tracing::debug!(%failure, "what the query reads, or who reads it, is not there: it begins anew");
            run_once(cloud, asked, format, is_quiet).await
        }
        other => other,
    };
    last.map_err(|(failure, _)| failure)
}

/// Whether a query that failed may be right the next time. A table that was replaced while it was read has lost slices, and
/// others are there now. Of workers, those that are left do the work. Rows that were given out cannot be taken back.
fn may_begin_anew(failure: &Failure, was_seen: bool, has_workers: bool) -> bool {
    let is_other_now = failure.reason == Reason::NotFound || (has_workers && failure.reason == Reason::Unavailable);
    is_other_now && !was_seen
}

/// Runs a statement; an error says whether rows were given out before.
async fn run_once(
    cloud: &Client,
    asked: &Asked<'_>,
    format: ResultFormat,
    is_quiet: bool,
) -> Result<(), (Failure, bool)> {
    let unseen = |failure| (failure, false);
    let at_workers = match &asked.workers {
        Some(workers) => at_workers(cloud, workers, is_quiet).await.map_err(unseen)?,
        None => None,
    };
    let engine = QueryAtWorkers::engine(cloud, &asked.settings, at_workers.as_ref()).map_err(unseen)?;
    let function = CrossMatchFunction::new(engine.names().clone());
    engine.context().register_udtf("xmatch", Arc::new(function));
    let planned = engine.plan(&asked.statement).await.map_err(unseen)?;
    answer((&engine, at_workers.as_ref()), planned, asked.output, format).await
}

/// The workers that answer. Those that do not are named, and the query goes on.
async fn at_workers(cloud: &Client, workers: &Workers, is_quiet: bool) -> Result<Option<QueryAtWorkers>, Failure> {
    let fleet = workers.ready(cloud).await?;
    if !is_quiet {
        for MissingWorker { address, why } in fleet.missing() {
            say!("sector: goes on without the worker {address}: {why}");
        }
    }
    Ok(QueryAtWorkers::new(fleet))
}

/// Gives out the rows of a query; an error says whether some were given out before.
async fn answer(
    (engine, at_workers): (&Engine, Option<&QueryAtWorkers>),
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
            let of_workers = match at_workers {
                Some(query) => query.reads().await,
                None => Vec::new(),
            };
            show_reads(engine, of_workers);
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

/// What `EXPLAIN ANALYZE` adds: who read what of each file, and how near it was.
fn show_reads(engine: &Engine, of_workers: Vec<(String, Vec<WorkerReads>)>) {
    let own = engine.reads().files().into_iter().map(WorkerReads::from).collect();
    let is_only_here = of_workers.is_empty();
    let readers: Vec<(String, Vec<WorkerReads>)> =
        std::iter::once(("here".to_owned(), own)).chain(of_workers).collect();
    let mut rows = Vec::new();
    for (reader, files) in &readers {
        for read in files {
            let mut row = vec![read.path.clone(), read.level.clone()];
            row.extend([read.reads.to_string(), show::size(read.bytes), read.millis.to_string()]);
            if !is_only_here {
                row.insert(0, reader.clone());
            }
            rows.push(row);
        }
    }
    show::line("");
    let mut heads = vec!["file", "copy at", " reads", " bytes", " ms waited"];
    if !is_only_here {
        heads.insert(0, "read by");
    }
    show::table(&heads, &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_begins_anew_where_a_slice_is_gone_and_nothing_was_seen() {
        let failed = |reason| Failure::new(reason, "it failed");
        assert!(may_begin_anew(&failed(Reason::NotFound), false, false));
        assert!(!may_begin_anew(&failed(Reason::NotFound), true, true));
        assert!(!may_begin_anew(&failed(Reason::Failed), false, true));
    }

    #[test]
    fn a_query_begins_anew_where_a_worker_is_gone() {
        let gone = Failure::new(Reason::Unavailable, "it is gone");
        assert!(may_begin_anew(&gone, false, true) && !may_begin_anew(&gone, true, true));
        assert!(!may_begin_anew(&gone, false, false));
    }
}
