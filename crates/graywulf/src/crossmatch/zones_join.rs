//! A join of two plans whose rows lie near each other on the sky. What a statement writes as a condition on a distance
//! becomes a cross-match by zones. The condition stays above it, so that it decides. It never takes a join that has
//! other equalities: the engine has a faster way for those.

use std::sync::Arc;

use datafusion::{
    common::{
        DFSchema, DFSchemaRef, JoinType, Result,
        tree_node::{Transformed, TreeNode},
    },
    datasource::{cte_worktable::CteWorkTable, source_as_provider},
    logical_expr::{
        Expr, Extension, Filter, Join, LogicalPlan, UserDefinedLogicalNodeCore, build_join_schema,
        utils::split_conjunction,
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::sky::Distance;

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct ZonesJoinRule;

impl OptimizerRule for ZonesJoinRule {
    fn name(&self) -> &'static str {
        "joins_by_zones"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        let Some(node) = ZonesJoin::of(join)? else { return Ok(Transformed::no(plan)) };
        let input = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        let Some(condition) = join.filter.clone() else { return Ok(Transformed::no(plan)) };
        Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input))?)))
    }
}

/// The join. Its columns are those of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ZonesJoin {
    pub(super) left: LogicalPlan,
    pub(super) right: LogicalPlan,
    /// The condition, as [`Distance::of`] reads it.
    condition: Expr,
    schema: DFSchemaRef,
}

impl ZonesJoin {
    /// What a join is, if it is one.
    fn of(join: &Join) -> Result<Option<Self>> {
        let Join { left, right, on, filter: Some(filter), join_type: JoinType::Inner, .. } = join else {
            return Ok(None);
        };
        // The rows of a query that goes on from its own change while it runs: strips would not see them.
        if !on.is_empty() || goes_on(left)? || goes_on(right)? {
            return Ok(None);
        }
        let (left, right) = (LogicalPlan::clone(left), LogicalPlan::clone(right));
        for condition in split_conjunction(filter) {
            let node = Self::new(left.clone(), right.clone(), condition.clone())?;
            if node.sides().is_some() {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    fn new(left: LogicalPlan, right: LogicalPlan, condition: Expr) -> Result<Self> {
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &JoinType::Inner)?);
        Ok(Self { left, right, condition, schema })
    }

    /// The position of the left side, that of the right side, and the radius in degrees. `None` if the condition says
    /// something else.
    pub(super) fn sides(&self) -> Option<([Expr; 2], [Expr; 2], f64)> {
        let Distance { one, other, degrees } = Distance::of(&self.condition)?;
        if !(degrees > 0.0 && degrees <= RADIUS_DEGREES_MAX) {
            return None;
        }
        let are_of = |position: &[Expr; 2], schema: &DFSchema| {
            position.iter().all(|number| {
                let columns = number.column_refs();
                !columns.is_empty() && columns.iter().all(|column| schema.has_column(column))
            })
        };
        let (left, right) = (self.left.schema(), self.right.schema());
        if are_of(&one, left) && are_of(&other, right) {
            Some((one, other, degrees))
        } else if are_of(&other, left) && are_of(&one, right) {
            Some((other, one, degrees))
        } else {
            None
        }
    }
}

/// Whether a plan reads what a recursive query has made so far.
fn goes_on(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| match node {
        LogicalPlan::TableScan(scan) => {
            let table = source_as_provider(&scan.source)?;
            Ok(table.downcast_ref::<CteWorkTable>().is_some())
        }
        _ => Ok(false),
    })
}

impl PartialOrd for ZonesJoin {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let parts = |node: &Self| (node.left.clone(), node.right.clone(), node.condition.clone());
        parts(self).partial_cmp(&parts(other))
    }
}

impl UserDefinedLogicalNodeCore for ZonesJoin {
    fn name(&self) -> &'static str {
        "ZonesJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.condition.clone()]
    }

    fn fmt_for_explain(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ZonesJoin: {}", self.condition)
    }

    fn with_exprs_and_inputs(&self, mut expressions: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (expressions.pop(), inputs.pop(), inputs.pop()) {
            (Some(condition), Some(right), Some(left)) => Self::new(left, right, condition),
            _ => datafusion::common::internal_err!("a join by zones has two sides and a condition"),
        }
    }

    fn necessary_children_exprs(&self, wanted: &[usize]) -> Option<Vec<Vec<usize>>> {
        let (left, right) = (self.left.schema(), self.right.schema());
        let count = left.fields().len();
        let (mut of_left, mut of_right): (Vec<_>, Vec<_>) = wanted.iter().partition(|at| **at < count);
        of_right.iter_mut().for_each(|at| *at -= count);
        for column in self.condition.column_refs() {
            of_left.extend(left.maybe_index_of_column(column));
            of_right.extend(right.maybe_index_of_column(column));
        }
        for side in [&mut of_left, &mut of_right] {
            side.sort_unstable();
            side.dedup();
        }
        Some(vec![of_left, of_right])
    }
}

/// As far as a cross-match goes.
const RADIUS_DEGREES_MAX: f64 = 60.0;
