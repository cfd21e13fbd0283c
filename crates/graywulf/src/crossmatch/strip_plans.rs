//! Plans of strips: for each strip a plan of one side's rows in it, and one of the other's with a margin of the radius.
//! Each is read by one thread, as whole rows. It never forms a pair.

use std::{ops::Range, sync::Arc};

use datafusion::{
    common::ScalarValue,
    datasource::{TableProvider, listing::PartitionedFile, source_as_provider},
    error::Result,
    execution::{SessionState, SessionStateBuilder, memory_pool::MemoryLimit},
    logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder},
    prelude::{DataFrame, SessionConfig, lit},
};
use datafusion_distributed::get_distributed_worker_resolver;

use super::{
    ZonesPlanner,
    match_exec::Strip,
    strips::{RowsWithin, strips},
    zone_index::ZoneIndex,
};
use crate::engine::FilesTable;

/// One side of a match.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// Its rows.
    pub(super) plan: LogicalPlan,
    /// What of them is wanted.
    pub(super) columns: Vec<Expr>,
    /// Where they are: numbers of 64 bits, in degrees.
    pub(super) ra: Expr,
    pub(super) dec: Expr,
    /// Where they are, as far as slices say.
    pub(super) known: Vec<RowsWithin>,
}

impl Side {
    /// The rows of a strip, with their position in the last two columns.
    fn within(&self, dec: &Range<f64>) -> Result<LogicalPlan> {
        let of = || self.dec.clone();
        // The north pole belongs to the last strip.
        let below = if dec.end >= 90.0 { of().lt_eq(lit(dec.end)) } else { of().lt(lit(dec.end)) };
        let mut chosen = self.columns.clone();
        chosen.push(self.ra.clone().alias("#ra"));
        chosen.push(of().alias("#dec"));
        let is_within = of().gt_eq(lit(dec.start)).and(below);
        LogicalPlanBuilder::from(self.plan.clone()).filter(is_within)?.project(chosen)?.build()
    }

    /// About how many rows it has.
    pub(super) fn rows(&self) -> f64 {
        self.known.iter().map(|part| part.rows).sum()
    }
}

/// The strips of a match. With `is_cut` false, the whole sky is one: sides that are more than a scan are read once.
pub(super) async fn strip_plans(
    state: &SessionState,
    (left, right): (&Side, &Side),
    radius_degrees: f64,
    is_cut: bool,
) -> Result<Vec<Strip>> {
    let workers = get_distributed_worker_resolver(state.config()).and_then(|workers| workers.get_urls());
    let at_once = state.config().target_partitions() * workers.map_or(1, |urls| urls.len().max(1));
    let memory = match state.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => Some(bytes),
        _ => None,
    };
    let count = if is_cut { strip_count(at_once, right, memory) } else { 1 };
    let single = SessionConfig::clone(state.config()).with_target_partitions(1);
    // A strip runs as a whole where it is read, whoever runs the plan above it.
    let single = SessionStateBuilder::new_from_existing(state.clone()).with_config(single);
    let single = single.with_query_planner(Arc::new(ZonesPlanner)).build();
    let mut plans = Vec::new();
    for dec in strips(&left.known, count) {
        let margin = radius_degrees * OVERLAP;
        let near = (dec.start - margin).max(-90.0)..(dec.end + margin).min(90.0);
        plans.push(Strip {
            left: DataFrame::new(single.clone(), left.within(&dec)?).create_physical_plan().await?,
            right: DataFrame::new(single.clone(), right.within(&near)?).create_physical_plan().await?,
        });
    }
    Ok(plans)
}

/// How many strips: enough for all threads, and for the second side's rows of a strip to fit into memory.
fn strip_count(at_once: usize, right: &Side, memory_bytes: Option<usize>) -> usize {
    let row_bytes = ZoneIndex::position_bytes() + (right.columns.len() + 2) * VALUE_BYTES;
    let needed = right.rows() * row_bytes as f64;
    // Half of the memory is for strips, and every thread has one.
    let strip_bytes = memory_bytes.unwrap_or(MEMORY_BYTES_UNKNOWN) / 2 / at_once.max(1);
    let for_memory = (needed / strip_bytes.max(1) as f64).ceil() as usize;
    let at_once = at_once.clamp(1, STRIPS_MAX);
    for_memory.clamp(at_once, STRIPS_MAX).next_multiple_of(at_once)
}

/// Where a table's rows are, as far as its slices say of the column of declination.
pub(super) fn rows_of(table: &Arc<dyn TableProvider>, dec: &str) -> Vec<RowsWithin> {
    let Some(files) = table.downcast_ref::<FilesTable>() else { return Vec::new() };
    let Ok(at) = files.schema.index_of(dec) else { return Vec::new() };
    let number = |value: Option<&ScalarValue>| match value?.cast_to(&datafusion::arrow::datatypes::DataType::Float64) {
        Ok(ScalarValue::Float64(number)) => number,
        _ => None,
    };
    let rows = |file: &PartitionedFile| {
        let known = file.statistics.as_deref()?;
        let rows = *known.num_rows.get_value()? as f64;
        let column = known.column_statistics.get(at)?;
        let dec = number(column.min_value.get_value())?..number(column.max_value.get_value())?;
        Some(RowsWithin { dec, rows })
    };
    files.files.iter().filter_map(rows).collect()
}

/// The table that a plan does nothing but scan, and its column that an expression over the plan is. `None` for a plan
/// that does more, such as a join.
pub(super) fn scanned(plan: &LogicalPlan, expression: &Expr) -> Option<(Arc<dyn TableProvider>, String)> {
    let column = match expression {
        Expr::Column(column) => column,
        Expr::Cast(Cast { expr, .. }) => return scanned(plan, expr),
        Expr::Alias(alias) => return scanned(plan, &alias.expr),
        _ => return None,
    };
    let at = plan.schema().index_of_column(column).ok()?;
    match plan {
        LogicalPlan::TableScan(scan) => {
            let table = source_as_provider(&scan.source).ok()?;
            Some((table, plan.schema().field(at).name().clone()))
        }
        LogicalPlan::Filter(filter) => scanned(&filter.input, &column_at(&filter.input, at)),
        LogicalPlan::SubqueryAlias(alias) => scanned(&alias.input, &column_at(&alias.input, at)),
        LogicalPlan::Projection(projection) => scanned(&projection.input, projection.expr.get(at)?),
        _ => None,
    }
}

fn column_at(plan: &LogicalPlan, at: usize) -> Expr {
    Expr::Column(plan.schema().qualified_field(at).into())
}

/// A little more than the radius: what lies at its very end must not be cut off.
pub(super) const OVERLAP: f64 = 1.000_001;
/// What a value of a column takes, about.
const VALUE_BYTES: usize = 16;
const MEMORY_BYTES_UNKNOWN: usize = 1 << 30;
const STRIPS_MAX: usize = 4096;
