//! The engine's planner with one step more: joins by zones. The side with fewer rows is held in memory, as far as slices
//! say how many there are. It never plans another node.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    error::{DataFusionError, Result},
    execution::{SessionState, context::QueryPlanner},
    logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode, physical_planning_context::PhysicalPlanningContext},
    physical_plan::ExecutionPlan,
    physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner},
};

use super::{
    match_exec::{Keep, MatchExec, MatchedColumns},
    strip_plans::{OVERLAP, Side, rows_of, scanned, strip_plans},
    zones_join::ZonesJoin,
};

/// The planner.
#[derive(Debug, Default)]
pub(crate) struct ZonesPlanner;

#[async_trait]
impl QueryPlanner for ZonesPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Joins)]);
        planner.create_physical_plan(plan, session).await
    }
}

struct Joins;

#[async_trait]
impl ExtensionPlanner for Joins {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = node.as_any().downcast_ref::<ZonesJoin>() else { return Ok(None) };
        let internal = |what: &str| DataFusionError::Internal(format!("a join by zones {what}"));
        let state = session.as_any().downcast_ref::<SessionState>();
        let state = state.ok_or_else(|| internal("needs the engine's own session"))?;
        let (left, right, degrees) = join.sides().ok_or_else(|| internal("has lost its condition"))?;
        let (left, left_is_scan) = side(&join.left, left);
        let (right, right_is_scan) = side(&join.right, right);
        let counts = (left.columns.len(), right.columns.len());
        // What passes is the larger side.
        let is_swapped = left.rows() > 0.0 && right.rows() > left.rows();
        let (passing, held, columns) = if is_swapped {
            let wanted: Vec<_> = (counts.1..counts.0 + counts.1).chain(0..counts.1).collect();
            (right, left, MatchedColumns::new(&wanted, counts.1, counts.0))
        } else {
            let wanted: Vec<_> = (0..counts.0 + counts.1).collect();
            (left, right, MatchedColumns::new(&wanted, counts.0, counts.1))
        };
        // The condition above decides of what lies at the very end.
        let radius = degrees * OVERLAP;
        let strips = strip_plans(state, (&passing, &held), radius, left_is_scan && right_is_scan).await?;
        let schema = Arc::clone(node.schema().inner());
        let at_once = state.config().target_partitions();
        Ok(Some(Arc::new(MatchExec::new(strips, columns, radius, Keep::All, schema, at_once))))
    }
}

/// A side, and whether it is no more than a scan.
fn side(plan: &LogicalPlan, [ra, dec]: [Expr; 2]) -> (Side, bool) {
    let table = scanned(plan, &dec);
    let known = table.as_ref().map(|(table, name)| rows_of(table, name)).unwrap_or_default();
    let columns = plan.schema().iter().map(|field| Expr::Column(field.into())).collect();
    (Side { plan: plan.clone(), columns, ra, dec, known }, table.is_some())
}
