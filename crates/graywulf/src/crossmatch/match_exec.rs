//! The step of the engine that forms pairs. Of a strip it holds the second table's rows in memory, which it has asked
//! for, and lets the first one's pass. It never goes on to the next strip before all rows of one have passed.

use std::{fmt, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, Float64Array, RecordBatch, UInt32Array, cast::AsArray},
        compute::{interleave, take},
        datatypes::{Float64Type, SchemaRef},
    },
    common::tree_node::TreeNodeRecursion,
    error::{DataFusionError, Result},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::EquivalenceProperties,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
        ReplaceChildrenOptions, execute_stream,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchReceiverStream,
    },
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;

use super::zone_index::{Position, ZoneIndex, separation_arcsec};

/// Which pairs of a row of the first table are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Keep {
    /// All of them.
    All,
    /// The nearest one.
    Best,
}

/// A strip of the sky: the rows of both tables, each with its position in the last two columns.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    pub(super) left: Arc<dyn ExecutionPlan>,
    pub(super) right: Arc<dyn ExecutionPlan>,
}

/// Where the columns of the result come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MatchedColumns {
    /// Columns of the first table that are read.
    pub(super) left: Vec<usize>,
    /// Columns of the second one.
    pub(super) right: Vec<usize>,
    /// For each column of the result.
    from: Vec<From>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum From {
    /// The column of this number among those read of the first table.
    Left(usize),
    /// The same of the second one.
    Right(usize),
    Separation,
}

impl MatchedColumns {
    /// For columns of the whole result, in which the second table's follow the first one's.
    pub(super) fn new(wanted: &[usize], left_columns: usize, right_columns: usize) -> Self {
        let mut columns = Self { left: Vec::new(), right: Vec::new(), from: Vec::new() };
        for at in wanted {
            columns.from.push(if *at < left_columns {
                columns.left.push(*at);
                From::Left(columns.left.len() - 1)
            } else if *at < left_columns + right_columns {
                columns.right.push(*at - left_columns);
                From::Right(columns.right.len() - 1)
            } else {
                From::Separation
            });
        }
        columns
    }
}

/// The step.
#[derive(Debug)]
pub(crate) struct MatchExec {
    strips: Vec<Strip>,
    pairs: Pairs,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// How pairs are formed.
#[derive(Clone, Debug)]
struct Pairs {
    columns: MatchedColumns,
    radius_degrees: f64,
    keep: Keep,
    schema: SchemaRef,
}

impl MatchExec {
    pub(super) fn new(
        strips: Vec<Strip>,
        columns: MatchedColumns,
        radius_degrees: f64,
        keep: Keep,
        schema: SchemaRef,
        at_once: usize,
    ) -> Self {
        let partitions = at_once.clamp(1, strips.len().max(1));
        Self::in_partitions(strips, columns, radius_degrees, keep, schema, partitions)
    }

    /// The same with exactly so many partitions, some of which may be empty.
    pub(super) fn in_partitions(
        strips: Vec<Strip>,
        columns: MatchedColumns,
        radius_degrees: f64,
        keep: Keep,
        schema: SchemaRef,
        partitions: usize,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let pairs = Pairs { columns, radius_degrees, keep, schema };
        Self { strips, pairs, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// How many strips it has.
    pub(crate) fn strips(&self) -> usize {
        self.strips.len()
    }

    /// The plans of a strip: the rows that pass, and those that are held.
    pub(crate) fn sides(&self, strip: usize) -> impl Iterator<Item = &Arc<dyn ExecutionPlan>> {
        self.strips.get(strip).into_iter().flat_map(|strip| [&strip.left, &strip.right])
    }

    /// The same for some of the strips. A pair belongs to one strip, so no pair is lost or formed twice.
    pub(crate) fn with_strips(&self, strips: &[usize]) -> Self {
        let strips = strips.iter().filter_map(|at| self.strips.get(*at).cloned()).collect();
        let Pairs { columns, radius_degrees, keep, schema } = self.pairs.clone();
        Self::in_partitions(strips, columns, radius_degrees, keep, schema, self.partitions())
    }

    pub(super) fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// What it is made of.
    pub(super) fn parts(&self) -> (&[Strip], &MatchedColumns, f64, Keep) {
        (&self.strips, &self.pairs.columns, self.pairs.radius_degrees, self.pairs.keep)
    }
}

impl DisplayAs for MatchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (strips, keep) = (self.strips.len(), self.pairs.keep);
        write!(f, "MatchExec: radius={}\", keep={keep:?}, strips={strips}", self.pairs.radius_degrees * 3600.0)
    }
}

impl ExecutionPlan for MatchExec {
    fn name(&self) -> &'static str {
        "MatchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    // Strips are plans of their own: the optimizer has seen them.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.partitions();
        let strips: Vec<Strip> = self.strips.iter().skip(partition).step_by(partitions).cloned().collect();
        let pairs = self.pairs.clone();
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.pairs.schema), 2);
        let to = builder.tx();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        builder.spawn(async move {
            let memory = MemoryConsumer::new("the second table of a match").register(context.memory_pool());
            for strip in &strips {
                if !pairs.of_strip(strip, &context, &memory, &to, &metrics).await? {
                    break;
                }
                memory.free();
            }
            metrics.done();
            Ok(())
        });
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Pairs that wait to be given out.
#[derive(Default)]
struct Gathered {
    left: Vec<u32>,
    right: Vec<(usize, usize)>,
    separations: Vec<f64>,
}

impl Pairs {
    /// Gives out the pairs of a strip. False when nobody wants more.
    async fn of_strip(
        &self,
        strip: &Strip,
        context: &Arc<TaskContext>,
        memory: &MemoryReservation,
        to: &Sender<Result<RecordBatch>>,
        metrics: &BaselineMetrics,
    ) -> Result<bool> {
        let mut rows = execute_stream(Arc::clone(&strip.right), Arc::clone(context))?;
        let (mut batches, mut positions) = (Vec::new(), Vec::new());
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            memory.try_grow(batch.get_array_memory_size() + batch.num_rows() * ZoneIndex::position_bytes())?;
            let (ra, dec) = position(&batch)?;
            for row in (0..batch.num_rows()).filter(|row| ra.is_valid(*row) && dec.is_valid(*row)) {
                let row_at = (batches.len() as u32, row as u32);
                positions.push(Position { ra: ra.value(row), dec: dec.value(row), row: row_at });
            }
            batches.push(batch);
        }
        if positions.is_empty() {
            return Ok(!to.is_closed());
        }
        let begun = metrics.elapsed_compute().timer();
        let index = ZoneIndex::new(positions, self.radius_degrees);
        drop(begun);
        let mut finder = index.finder();
        let mut rows = execute_stream(Arc::clone(&strip.left), Arc::clone(context))?;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let (ra, dec) = position(&batch)?;
            let mut gathered = Gathered::default();
            for row in 0..batch.num_rows() {
                if ra.is_null(row) || dec.is_null(row) {
                    continue;
                }
                let timer = metrics.elapsed_compute().timer();
                let found = gathered.left.len();
                finder.each(ra.value(row), dec.value(row), |(at, other), chord| {
                    gathered.left.push(row as u32);
                    gathered.right.push((at as usize, other as usize));
                    gathered.separations.push(chord);
                });
                if self.keep == Keep::Best {
                    gathered.keep_best(found);
                }
                drop(timer);
                if gathered.left.len() >= ROWS_AT_ONCE
                    && !self.give(&mut gathered, &batch, &batches, to, metrics).await?
                {
                    return Ok(false);
                }
            }
            if !gathered.left.is_empty() && !self.give(&mut gathered, &batch, &batches, to, metrics).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives out what has gathered. False when nobody wants more.
    async fn give(
        &self,
        gathered: &mut Gathered,
        left: &RecordBatch,
        right: &[RecordBatch],
        to: &Sender<Result<RecordBatch>>,
        metrics: &BaselineMetrics,
    ) -> Result<bool> {
        let Gathered { left: left_rows, right: right_rows, separations } = std::mem::take(gathered);
        let count = left_rows.len();
        let left_rows = UInt32Array::from(left_rows);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns.from.len());
        for from in &self.columns.from {
            columns.push(match from {
                From::Left(at) => take(left.column(*at), &left_rows, None)?,
                From::Right(at) => {
                    let parts: Vec<&dyn Array> = right.iter().map(|batch| batch.column(*at).as_ref()).collect();
                    interleave(&parts, &right_rows)?
                }
                From::Separation => {
                    Arc::new(Float64Array::from_iter_values(separations.iter().map(|chord| separation_arcsec(*chord))))
                }
            });
        }
        let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        metrics.record_output(count);
        Ok(to.send(Ok(batch)).await.is_ok())
    }
}

impl Gathered {
    /// Of the pairs from `first` on, the nearest one stays: of equals the one that was found first.
    fn keep_best(&mut self, first: usize) {
        if self.left.len() <= first + 1 {
            return;
        }
        let best = (first..self.left.len()).min_by(|one, other| {
            self.separations[*one].total_cmp(&self.separations[*other]).then(self.right[*one].cmp(&self.right[*other]))
        });
        let Some(best) = best else { return };
        self.right[first] = self.right[best];
        self.separations[first] = self.separations[best];
        self.left.truncate(first + 1);
        self.right.truncate(first + 1);
        self.separations.truncate(first + 1);
    }
}

/// The last two columns.
fn position(batch: &RecordBatch) -> Result<(&Float64Array, &Float64Array)> {
    let columns = batch.columns();
    let numbers = |at: usize| columns.get(at).and_then(|column| column.as_primitive_opt::<Float64Type>());
    match columns.len().checked_sub(2).map(|at| (numbers(at), numbers(at + 1))) {
        Some((Some(ra), Some(dec))) => Ok((ra, dec)),
        _ => Err(DataFusionError::Internal("a side of a match has no position".into())),
    }
}

/// Pairs that are given out together.
const ROWS_AT_ONCE: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_from_where_they_are() {
        let columns = MatchedColumns::new(&[4, 0, 3, 5], 2, 3);
        assert_eq!((columns.left.as_slice(), columns.right.as_slice()), (&[0][..], &[2, 1][..]));
        assert_eq!(columns.from, [From::Right(0), From::Left(0), From::Right(1), From::Separation]);
    }

    #[test]
    fn the_nearest_pair_of_a_row_stays() {
        let mut gathered = Gathered {
            left: vec![7, 8, 8, 8],
            right: vec![(0, 0), (0, 3), (0, 2), (0, 1)],
            separations: vec![9.0, 3.0, 1.0, 1.0],
        };
        gathered.keep_best(1);
        assert_eq!((gathered.left, gathered.right), (vec![7, 8], vec![(0, 0), (0, 1)]));
        assert_eq!(gathered.separations, [9.0, 1.0]);
    }
}
