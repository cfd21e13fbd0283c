//! A query that runs: its names are looked up as the caller, and its rows are counted and written while they come. It never
//! gives out more rows than were asked for.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use client::Client;
use dali::{Fetcher, of_reason};
use datafusion::{
    arrow::{
        array::RecordBatch,
        datatypes::{Field, Schema, SchemaRef},
    },
    catalog::TableProvider,
    datasource::{MemTable, ViewTable, provider_as_source},
    error::DataFusionError,
    execution::SendableRecordBatchStream,
    logical_expr::LogicalPlanBuilder,
    prelude::ident,
    sql::parser::Statement,
};
use futures_util::StreamExt;
use terminal::Failure;
use vo::{
    Fault,
    votable::{Ending, TextTable},
};

use super::{
    catalogue::Catalogues,
    query::TapQuery,
    schemas::{own_tables, schemas},
};
use crate::{
    adql::AdqlQuery,
    engine::{Engine, EngineSettings, GivenTables},
    output::{OutputFile, ResultWriter, SharedBytes},
    slices::votable_rows,
    workers::{MissingWorker, QueryAtWorkers, Workers},
};

/// Uploaded documents by the names that the query has for them.
pub(super) type Uploads = HashMap<String, Bytes>;

/// What queries are run with.
#[derive(Debug)]
pub(super) struct Queries {
    pub(super) settings: EngineSettings,
    pub(super) catalogues: Catalogues,
    pub(super) fetcher: Fetcher,
    /// Workers that run parts of queries.
    pub(super) workers: Option<Workers>,
}

impl Queries {
    /// Plans a query, and waits for its first rows.
    ///
    /// # Errors
    /// What is wrong with it, or with what it reads.
    pub(super) async fn start(
        &self,
        caller: (&Client, Option<&str>),
        query: &TapQuery,
        uploads: &Uploads,
    ) -> Result<Running, Fault> {
        match self.start_once(caller, query, uploads).await {
            // A table was replaced while it was read: its slices are gone, and others are there now.
            Err(Fault::NotFound(_)) => self.start_once(caller, query, uploads).await,
            // A worker went away: those that are left do the work.
            Err(Fault::Unavailable(_)) if self.workers.is_some() => self.start_once(caller, query, uploads).await,
            started => started,
        }
    }

    async fn start_once(
        &self,
        (client, user): (&Client, Option<&str>),
        TapQuery { adql, rows_max, format, .. }: &TapQuery,
        uploads: &Uploads,
    ) -> Result<Running, Fault> {
        let at_workers = self.at_workers(client).await.map_err(of_failure)?;
        let engine = QueryAtWorkers::engine(client, &self.settings, at_workers.as_ref()).map_err(of_failure)?;
        let (tables, columns) = self.tables(&engine, (client, user), adql, uploads).await?;
        engine.names().restrict_to(tables);
        engine.allow_only(&FUNCTIONS);
        let spellings = adql.spellings().clone();
        let statement = adql.clone().statement(&columns).map_err(|error| Fault::Usage(format!("QUERY: {error}")))?;
        let planned = engine.plan_parsed(Statement::Statement(Box::new(statement))).await.map_err(of_failure)?;
        // One more says whether there are more.
        let limited = planned.limit(0, Some(rows_max.saturating_add(1))).map_err(|error| of_engine(&engine, &error))?;
        let mut rows = limited.execute_stream().await.map_err(|error| of_engine(&engine, &error))?;
        let first = rows.next().await.transpose().map_err(|error| of_engine(&engine, &error))?;
        let schema = Arc::new(named(&rows.schema(), &spellings, &columns));
        let output = SharedBytes::default();
        let writer = ResultWriter::new(format.format, OutputFile::Shared(output.clone()), &schema);
        let writer = writer.map_err(of_failure)?;
        Ok(Running { engine, rows, first, schema, writer: Some(writer), output, left: *rows_max, is_overflow: false })
    }

    /// The workers that answer now. The operator reads of those that do not.
    async fn at_workers(&self, client: &Client) -> Result<Option<QueryAtWorkers>, Failure> {
        let Some(workers) = &self.workers else { return Ok(None) };
        let fleet = workers.ready(client).await?;
        for MissingWorker { address, why } in fleet.missing() {
            tracing::warn!("a query goes on without the worker {address}: {why}");
        }
        Ok(QueryAtWorkers::new(fleet))
    }

    /// The tables that a query names, and the spellings of their columns that are not in small letters.
    async fn tables(
        &self,
        engine: &Engine,
        (client, user): (&Client, Option<&str>),
        adql: &AdqlQuery,
        uploads: &Uploads,
    ) -> Result<(GivenTables, BTreeSet<String>), Fault> {
        let (mut tables, mut columns) = (GivenTables::new(), BTreeSet::new());
        let relations = adql.relations();
        let mut catalogue = self.catalogues.of(client, user).await?;
        let is_own =
            |parts: &Vec<String>| matches!(&parts[..], [schema, _] if schema.eq_ignore_ascii_case("tap_schema"));
        if relations.iter().any(is_own) {
            tables.extend(own_tables(&schemas(&catalogue)).map_err(|error| of_engine(engine, &error))?);
        }
        for parts in relations {
            if is_own(parts) {
                continue;
            }
            let table = if let [schema, name] = &parts[..]
                && schema.eq_ignore_ascii_case("tap_upload")
            {
                uploaded(name, uploads)?
            } else {
                if catalogue.find(parts).is_none() {
                    if adql.defines(parts) {
                        continue;
                    }
                    catalogue = self.catalogues.newer(client, user).await?;
                }
                let missing = || Fault::Usage(format!("there is no table `{}`", parts.join(".")));
                let found = catalogue.find(parts).ok_or_else(missing)?;
                let table = engine.names().table_at(&found.path).await.map_err(|error| of_engine(engine, &error))?;
                table.ok_or_else(missing)?
            };
            let schema = table.schema();
            let capitals = schema.fields().iter().map(|field| field.name()).filter(|name| has_capitals(name));
            columns.extend(capitals.cloned());
            tables.insert(parts.clone(), lowered(table).map_err(|error| of_engine(engine, &error))?);
        }
        // A name in quotes that is a column's, too, comes in small letters.
        let lower = |part: &String| if columns.contains(part) { part.to_ascii_lowercase() } else { part.clone() };
        let again: Vec<_> =
            tables.iter().map(|(parts, table)| (parts.iter().map(lower).collect(), table.clone())).collect();
        for (parts, table) in again {
            tables.entry(parts).or_insert(table);
        }
        Ok((tables, columns))
    }
}

fn has_capitals(name: &str) -> bool {
    name.contains(|c: char| c.is_ascii_uppercase())
}

fn uploaded(name: &str, uploads: &Uploads) -> Result<Arc<dyn TableProvider>, Fault> {
    let missing = || Fault::Usage(format!("no table `{name}` was uploaded: UPLOAD={name},param:PART"));
    let document = uploads.get(&name.to_ascii_lowercase()).ok_or_else(missing)?;
    let wrong = |why: String| Fault::Usage(format!("the uploaded table `{name}`: {why}"));
    let rows = TextTable::read(document).map_err(|fault| wrong(fault.to_string()))?;
    let rows = votable_rows(&rows).map_err(wrong)?;
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]]).map_err(|error| wrong(error.to_string()))?;
    Ok(Arc::new(table))
}

/// A table whose columns have small letters only, as names without quotes have in the engine.
fn lowered(table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let schema = table.schema();
    if !schema.fields().iter().any(|field| has_capitals(field.name())) {
        return Ok(table);
    }
    let columns = schema.fields().iter().map(|field| ident(field.name()).alias(field.name().to_ascii_lowercase()));
    let columns: Vec<_> = columns.collect();
    let plan = LogicalPlanBuilder::scan("catalogue", provider_as_source(table), None)?.project(columns)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// The columns of an answer as the query spells them, or else the catalogue.
fn named(schema: &Schema, spellings: &BTreeMap<String, String>, columns: &BTreeSet<String>) -> Schema {
    let of_catalogue = |name: &str| columns.iter().find(|spelled| spelled.eq_ignore_ascii_case(name));
    let renamed = |field: &Arc<Field>| {
        let spelled = spellings.get(field.name()).or_else(|| of_catalogue(field.name()));
        Field::clone(field).with_name(spelled.unwrap_or(field.name()))
    };
    Schema::new(schema.fields().iter().map(renamed).collect::<Vec<_>>())
}

/// A query whose rows come.
pub(super) struct Running {
    engine: Engine,
    rows: SendableRecordBatchStream,
    first: Option<RecordBatch>,
    schema: SchemaRef,
    /// `None` when it has ended.
    writer: Option<ResultWriter>,
    output: SharedBytes,
    left: usize,
    is_overflow: bool,
}

impl Running {
    /// The next bytes of the answer. `None` after its end.
    ///
    /// # Errors
    /// What went wrong while it ran. The answer can be ended with it by [`fail`](Self::fail).
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        loop {
            let Some(writer) = &mut self.writer else { return Ok(None) };
            let next = match self.first.take() {
                Some(first) => Some(first),
                None if self.is_overflow => None,
                None => self.rows.next().await.transpose().map_err(|error| of_engine(&self.engine, &error))?,
            };
            let Some(mut batch) = next else {
                let ending = if self.is_overflow { Ending::Overflow } else { Ending::Complete };
                return self.end(ending).map(Some);
            };
            if batch.num_rows() > self.left {
                batch = batch.slice(0, self.left);
                self.is_overflow = true;
            }
            self.left -= batch.num_rows();
            let renamed = RecordBatch::try_new_with_options(
                Arc::clone(&self.schema),
                batch.columns().to_vec(),
                &datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
            );
            writer.write(&renamed.map_err(|error| Fault::Failed(error.to_string()))?).map_err(of_failure)?;
            let bytes = self.output.take();
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
    }

    /// Ends the answer with what went wrong, where its format has a place for it.
    ///
    /// # Errors
    /// None that is known.
    pub(super) fn fail(&mut self, fault: &Fault) -> Result<Vec<u8>, Fault> {
        self.end(Ending::Failed(&fault.to_string()))
    }

    fn end(&mut self, ending: Ending<'_>) -> Result<Vec<u8>, Fault> {
        let Some(writer) = self.writer.take() else { return Ok(Vec::new()) };
        writer.finish_as(ending).map_err(of_failure)?;
        Ok(self.output.take())
    }
}

fn of_engine(engine: &Engine, error: &DataFusionError) -> Fault {
    of_failure(engine.failure_of(error))
}

/// What went wrong, as a service says it.
pub(super) fn of_failure(failure: Failure) -> Fault {
    of_reason(failure.reason, failure.message)
}

/// Functions of ADQL (2.1), by the engine's names, and some that do no harm. Others make much of little, such as `repeat`.
const FUNCTIONS: [&str; 65] = [
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "btrim",
    "cbrt",
    "ceil",
    "character_length",
    "coalesce",
    "concat",
    "cos",
    "cosh",
    "cot",
    "date_part",
    "date_trunc",
    "degrees",
    "exp",
    "floor",
    "greatest",
    "isnan",
    "iszero",
    "least",
    "length",
    "ln",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "md5",
    "nanvl",
    "nullif",
    "nvl",
    "octet_length",
    "pi",
    "power",
    "radians",
    "random",
    "reverse",
    "round",
    "rtrim",
    "signum",
    "sin",
    "sinh",
    "sqrt",
    "starts_with",
    "strpos",
    "substr",
    "tan",
    "tanh",
    "to_date",
    "to_timestamp",
    "trunc",
    "upper",
    "sky_distance",
    "sky_point",
    "sky_circle",
    "sky_box",
    "sky_polygon",
    "sky_contains",
    "sky_intersects",
    "sky_area",
    "sky_centroid",
    "sky_coord1",
    "sky_coord2",
];
