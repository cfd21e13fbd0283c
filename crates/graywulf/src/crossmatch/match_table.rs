//! The pairs of two tables as a table of the engine: the columns of both, and how far apart they are. It reads only
//! columns that are asked for, and of each table only slices that have rows in a strip. It never holds a pair.

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use client::Reason;
use datafusion::{
    arrow::datatypes::{DataType, Field, Schema, SchemaRef},
    catalog::{Session, TableProvider},
    common::ScalarValue,
    datasource::{TableType, provider_as_source},
    error::{DataFusionError, Result},
    execution::{SessionState, SessionStateBuilder},
    logical_expr::{Expr, LogicalPlanBuilder},
    physical_plan::ExecutionPlan,
    prelude::{DataFrame, SessionConfig, cast, ident, lit},
};
use terminal::Failure;

use super::{
    PositionColumns,
    match_exec::{MatchExec, MatchedColumns, Strip},
    strips::{RowsWithin, strips},
    zone_index::ZoneIndex,
};
use crate::engine::FilesTable;

/// Which pairs of a row of the first table are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All of them.
    All,
    /// The nearest one.
    Best,
}

/// The pairs of two tables.
pub(crate) struct MatchTable {
    left: Arc<dyn TableProvider>,
    right: Arc<dyn TableProvider>,
    left_position: PositionColumns,
    right_position: PositionColumns,
    radius_degrees: f64,
    keep: Keep,
    schema: SchemaRef,
}

impl MatchTable {
    /// The pairs within a radius, of tables that are named so to people.
    ///
    /// # Errors
    /// A radius that is none, or a table without positions.
    pub(crate) fn new(
        (left, left_name): (Arc<dyn TableProvider>, &str),
        (right, right_name): (Arc<dyn TableProvider>, &str),
        radius_arcsec: f64,
        keep: Keep,
    ) -> std::result::Result<Self, Failure> {
        if !(RADIUS_ARCSEC_MIN..=RADIUS_ARCSEC_MAX).contains(&radius_arcsec) {
            let message = format!(
                "`{radius_arcsec}` arc seconds are no radius of a match: from {RADIUS_ARCSEC_MIN} to {RADIUS_ARCSEC_MAX}"
            );
            return Err(Failure::new(Reason::Invalid, message));
        }
        let left_position = PositionColumns::of(&left.schema(), left_name)?;
        let right_position = PositionColumns::of(&right.schema(), right_name)?;
        let schema = Arc::new(both(&left.schema(), &right.schema()));
        let radius_degrees = radius_arcsec / 3600.0;
        Ok(Self { left, right, left_position, right_position, radius_degrees, keep, schema })
    }

    /// One side's rows of a strip, with their position in the last two columns.
    fn side(
        &self,
        table: &Arc<dyn TableProvider>,
        position: &PositionColumns,
        columns: &[String],
        dec: &Range<f64>,
    ) -> Result<datafusion::logical_expr::LogicalPlan> {
        let dec_column = || cast(ident(&position.dec), DataType::Float64);
        // The north pole belongs to the last strip.
        let below = if dec.end >= 90.0 { dec_column().lt_eq(lit(dec.end)) } else { dec_column().lt(lit(dec.end)) };
        let is_within = dec_column().gt_eq(lit(dec.start)).and(below);
        let mut chosen: Vec<Expr> = columns.iter().map(ident).collect();
        chosen.push(cast(ident(&position.ra), DataType::Float64).alias("#ra"));
        chosen.push(dec_column().alias("#dec"));
        LogicalPlanBuilder::scan("side", provider_as_source(Arc::clone(table)), None)?
            .filter(is_within)?
            .project(chosen)?
            .build()
    }

    /// How many strips: enough for all threads, and for the second table's rows of a strip to fit into memory.
    fn strip_count(&self, at_once: usize, columns: usize, memory_bytes: Option<usize>) -> usize {
        let rows = rows_of(&self.right, &self.right_position);
        let rows: f64 = rows.iter().map(|part| part.rows).sum();
        let row_bytes = ZoneIndex::position_bytes() + (columns + 2) * VALUE_BYTES;
        let needed = rows * row_bytes as f64;
        // Half of the memory is for strips, and every thread has one.
        let strip_bytes = memory_bytes.unwrap_or(MEMORY_BYTES_UNKNOWN) / 2 / at_once.max(1);
        let for_memory = (needed / strip_bytes.max(1) as f64).ceil() as usize;
        for_memory.clamp(at_once.max(1), STRIPS_MAX).next_multiple_of(at_once.max(1))
    }
}

#[async_trait]
impl TableProvider for MatchTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(state) = state.as_any().downcast_ref::<SessionState>() else {
            return Err(DataFusionError::Internal("a match needs the engine's own session".into()));
        };
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let wanted = projection.unwrap_or(&all);
        let columns =
            MatchedColumns::new(wanted, self.left.schema().fields().len(), self.right.schema().fields().len());
        let names = |schema: &SchemaRef, at: &[usize]| -> Vec<String> {
            at.iter().map(|at| schema.field(*at).name().clone()).collect()
        };
        let (left_names, right_names) =
            (names(&self.left.schema(), &columns.left), names(&self.right.schema(), &columns.right));
        let at_once = state.config().target_partitions();
        let memory = match state.runtime_env().memory_pool.memory_limit() {
            datafusion::execution::memory_pool::MemoryLimit::Finite(bytes) => Some(bytes),
            _ => None,
        };
        let count = self.strip_count(at_once, right_names.len(), memory);
        // Each strip is read by one thread, as whole rows.
        let single = SessionConfig::clone(state.config()).with_target_partitions(1);
        let single = SessionStateBuilder::new_from_existing(state.clone()).with_config(single).build();
        let mut parts = Vec::new();
        for dec in strips(&rows_of(&self.left, &self.left_position), count) {
            let near = (dec.start - self.radius_degrees * OVERLAP).max(-90.0)
                ..(dec.end + self.radius_degrees * OVERLAP).min(90.0);
            let left = self.side(&self.left, &self.left_position, &left_names, &dec)?;
            let right = self.side(&self.right, &self.right_position, &right_names, &near)?;
            parts.push(Strip {
                left: DataFrame::new(single.clone(), left).create_physical_plan().await?,
                right: DataFrame::new(single.clone(), right).create_physical_plan().await?,
            });
        }
        let schema = Arc::new(self.schema.project(wanted)?);
        Ok(Arc::new(MatchExec::new(parts, columns, self.radius_degrees, self.keep, schema, at_once)))
    }
}

impl fmt::Debug for MatchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatchTable").field("radius_degrees", &self.radius_degrees).finish_non_exhaustive()
    }
}

/// The columns of both tables, and the separation. A name that the first one has too gets `_2` in the second one.
fn both(left: &Schema, right: &Schema) -> Schema {
    let mut fields: Vec<Field> = left.fields().iter().map(|field| Field::clone(field)).collect();
    for field in right.fields() {
        let mut name = field.name().clone();
        while fields.iter().any(|known| known.name().eq_ignore_ascii_case(&name)) {
            name.push_str("_2");
        }
        fields.push(Field::clone(field).with_name(name));
    }
    let mut name = "sep_arcsec".to_owned();
    while fields.iter().any(|known| known.name().eq_ignore_ascii_case(&name)) {
        name.push_str("_2");
    }
    let metadata = [("unit", "arcsec"), ("ucd", "pos.angDistance")];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    fields.push(Field::new(name, DataType::Float64, false).with_metadata(metadata));
    Schema::new(fields)
}

/// Where a table's rows are, as far as its slices say.
fn rows_of(table: &Arc<dyn TableProvider>, position: &PositionColumns) -> Vec<RowsWithin> {
    let Some(files) = table.downcast_ref::<FilesTable>() else { return Vec::new() };
    let Ok(at) = files.schema.index_of(&position.dec) else { return Vec::new() };
    let number = |value: Option<&ScalarValue>| match value?.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(number)) => number,
        _ => None,
    };
    let rows = |file: &datafusion::datasource::listing::PartitionedFile| {
        let known = file.statistics.as_deref()?;
        let rows = *known.num_rows.get_value()? as f64;
        let column = known.column_statistics.get(at)?;
        let dec = number(column.min_value.get_value())?..number(column.max_value.get_value())?;
        Some(RowsWithin { dec, rows })
    };
    files.files.iter().filter_map(rows).collect()
}

const RADIUS_ARCSEC_MIN: f64 = 1e-6;
const RADIUS_ARCSEC_MAX: f64 = 60.0 * 3600.0;
/// A little more than the radius: what lies at its very end must not be cut off.
const OVERLAP: f64 = 1.000_001;
/// What a value of a column takes, about.
const VALUE_BYTES: usize = 16;
const MEMORY_BYTES_UNKNOWN: usize = 1 << 30;
const STRIPS_MAX: usize = 4096;
